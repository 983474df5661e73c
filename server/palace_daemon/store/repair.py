"""Putting a database right in place: what SQLite can still read, but what does not agree with itself.

Nothing is deleted that cannot be rebuilt: exchanges, sessions, sources and notes stay. An exchange whose session or
source is missing gets a stand-in. What goes is what stands for nothing (a place of an exchange that is not there), and
what is made anew: vectors, words, drawers, counts, indexes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from palace_daemon.store import check, kept_columns, schema, spaces, sqlite, values, vectors
from palace_daemon.store.sqlite import Connection

STAND_IN = "recovered"
"""Agent of sessions that stand in for lost ones; begins the paths of sources that do."""
_REBUILT = ("postings", "drawers", "statements", "pending_texts", "removed_drawers", "spaces", "vectors", "held_back")
"""Tables that can be made anew from the others."""
_ORPHANS = ("provenance", "exchange_keys", "notes", "drawers", "statements", "held_back")
"""Tables whose rows say something of a row of another table, and nothing without it."""


class Step(NamedTuple):
    """One thing that was put right."""

    name: str
    number: int


def mend_schema(database: Path) -> list[Step]:
    """Make missing tables, indexes and triggers anew; nobody may have the database open.

    A column that is missing cannot be made in place: then the caller salvages.

    Raises:
        StoreError: The database cannot be opened or written.
    """
    connection = sqlite.open_writer(database)
    try:
        with sqlite.mapped_errors(database):
            connection.execute("BEGIN IMMEDIATE")
            made = _make_missing(connection)
            connection.execute("COMMIT")
    finally:
        connection.close()
    return [Step(f"{name} made anew", 1) for name in made]


def _make_missing(connection: Connection) -> list[str]:
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
    made = [part for part in schema.parts() if part.name not in names]
    for part in made:
        connection.execute(part.sql)
    if any(part.name in _REBUILT for part in made):
        spaces.add(connection, "")
        for roles in connection.execute("SELECT model, next_model, previous_model FROM state").fetchall():
            for model in roles:
                spaces.add(connection, model)
        connection.execute("UPDATE state SET index_version=''")
    if any(part.name == "state" for part in made):
        connection.execute("INSERT OR IGNORE INTO state(only_row) VALUES (1)")
    return [f"{part.kind} {part.name}" for part in made]


def mend_references(connection: Connection, *, reads_anew: bool = True) -> list[Step]:
    """Give exchanges stand-ins for lost sessions and sources, and drop what points nowhere; in a write transaction.

    Args:
        connection: The write connection.
        reads_anew: Whether transcripts that told of what is lost are read anew.
    """
    kept_columns.drop(connection)
    incomplete = _tellers_of_lost(connection) if reads_anew else set()
    steps = [
        Step("stand-ins for lost sessions", _stand_in_sessions(connection)),
        Step("stand-ins for lost sources", _stand_in_sources(connection)),
        Step("notes given back what only notes have", _restore_notes(connection)),
    ]
    steps += [
        Step(f"rows of {table} dropped that point nowhere", _drop_orphans(connection, table)) for table in _ORPHANS
    ]
    steps.append(Step("exchanges given their own source as a place", _place(connection)))
    steps.append(Step("transcripts to be read anew", read_anew(connection, incomplete)))
    return [step for step in steps if step.number]


def read_anew(connection: Connection, source_ids: Iterable[int] | None) -> int:
    """Have transcripts read from their beginnings, all of them for None; returns how many."""
    which = "" if source_ids is None else " AND id IN (SELECT value FROM json_each(?))"
    values = () if source_ids is None else (json.dumps(sorted(source_ids)),)
    return connection.execute(
        f"UPDATE sources SET cursor=NULL, parser_state=NULL, reading=reading+1 WHERE origin=''{which}", values
    ).rowcount


def _tellers_of_lost(connection: Connection) -> set[int]:
    """Return the sources that told of exchanges, or of sessions, that are not there."""
    rows = connection.execute(
        "SELECT source_id FROM provenance WHERE exchange_id NOT IN (SELECT id FROM exchanges)"
        " OR session_id NOT IN (SELECT id FROM sessions)"
    )
    return {row[0] for row in rows}


def _stand_in_sessions(connection: Connection) -> int:
    return connection.execute(
        "INSERT INTO sessions(id, agent, native_id) SELECT DISTINCT session_id, ?1, ?1||'-'||session_id FROM exchanges"
        " WHERE session_id NOT IN (SELECT id FROM sessions)",
        (STAND_IN,),
    ).rowcount


def _stand_in_sources(connection: Connection) -> int:
    return connection.execute(
        "INSERT INTO sources(id, path, state) SELECT DISTINCT owner_source_id, ?1||':'||owner_source_id, 'gone'"
        " FROM exchanges WHERE owner_source_id NOT IN (SELECT id FROM sources)",
        (STAND_IN,),
    ).rowcount


def _drop_orphans(connection: Connection, table: str) -> int:
    """Drop the rows of a table that refer to a row that is not there."""
    dropped = 0
    for _, _, parent, column, *_ in connection.execute(f"PRAGMA foreign_key_list({table})").fetchall():
        known = f"SELECT id FROM {parent}"
        dropped += connection.execute(f"DELETE FROM {table} WHERE {column} NOT IN ({known})").rowcount
    return dropped


def _place(connection: Connection) -> int:
    """Let its owner tell an exchange that it does not tell, and let its own key lead to it; returns how many."""
    connection.execute(
        f"INSERT INTO exchange_keys SELECT key, id, public_id FROM exchanges e WHERE {check.WITHOUT_KEY}"
        " ON CONFLICT(key) DO UPDATE SET exchange_id=excluded.exchange_id"
    )
    return connection.execute(
        "INSERT INTO provenance SELECT e.id, e.owner_source_id, e.session_id, s.reading, 0, 0, 0, 0,"
        " length(e.user_text)+length(e.reply_text), 1, e.is_superseded FROM exchanges e"
        " JOIN sources s ON s.id=e.owner_source_id"
        f" WHERE {check.WITHOUT_PLACE}"
    ).rowcount


def _restore_notes(connection: Connection) -> int:
    """Let the exchanges that are notes be notes again; tags and authors that were lost stay so."""
    return connection.execute(
        "INSERT INTO notes(exchange_id, created_at) SELECT e.id, coalesce(e.started_at, 0) FROM exchanges e"
        f" WHERE {check.WITHOUT_NOTE}"
    ).rowcount


def mend_values(connection: Connection) -> list[Step]:
    """Have transcripts put right the texts that changed and the values that cannot be read; in a write transaction.

    The list of what was forgotten must be whole.
    """
    changed = values.changed_texts(connection)
    values.mark_changed(connection, changed)
    broken = values.broken(connection)
    for one in broken:
        connection.execute(f"UPDATE {one.table} SET {one.column}=? WHERE {one.key}=?", (one.none, one.row))
    sources = {one.row for one in broken if one.table == "sources"}
    told = json.dumps([*changed, *(one.row for one in broken if one.table == "exchanges")])
    rows = connection.execute(
        "SELECT source_id FROM provenance WHERE exchange_id IN (SELECT value FROM json_each(?))", (told,)
    )
    sources |= {row[0] for row in rows}
    steps = [
        Step("exchanges whose text changed: their transcripts put them right", len(changed)),
        Step("values that could not be read are dropped", len(broken)),
        Step("transcripts to be read anew", read_anew(connection, sources)),
    ]
    return [step for step in steps if step.number]


def mend_vectors(connection: Connection, also: Iterable[str] = ()) -> list[Step]:
    """Drop vectors that are none, queue what lacks one, and count anew; in a write transaction.

    Args:
        connection: The write connection.
        also: Models whose vectors are dropped whole, since they are not what the model makes.
    """
    kept_columns.drop(connection)
    bad = check.broken_vectors(connection)
    connection.executemany("DELETE FROM vectors WHERE id=?", ((row_id,) for row_id in bad))
    steps = [Step("broken vectors dropped", len(bad))]
    for model in also:
        gone = connection.execute("DELETE FROM vectors WHERE space=?", (spaces.number(model),)).rowcount
        steps.append(Step("vectors dropped that the model does not make", gone))
    (orphans,) = connection.execute(f"SELECT count(*) FROM vectors WHERE {check.ORPHANED}").fetchone()
    vectors.drop_orphans(connection)
    steps += [Step("vectors of no text dropped", orphans), Step("texts queued for a vector", _queue(connection))]
    connection.execute(
        "UPDATE spaces SET vectors=(SELECT count(*) FROM vectors v WHERE v.space=spaces.number),"
        " pending=(SELECT count(*) FROM pending_texts p WHERE p.model=spaces.model)"
    )
    return [step for step in steps if step.number]


def _queue(connection: Connection) -> int:
    """Queue each text that lacks a vector of a model in use; returns how many were not queued before."""
    (before,) = connection.execute("SELECT count(*) FROM pending_texts").fetchone()
    for is_statement, table in enumerate(("drawers", "statements")):
        rows = connection.execute(
            f"SELECT t.text_hash, max(e.started_at) FROM {table} t JOIN exchanges e ON e.id=t.exchange_id GROUP BY 1"
        ).fetchall()
        for text_hash, started_at in rows:
            vectors.want(connection, text_hash, started_at, is_statement=bool(is_statement))
    (after,) = connection.execute("SELECT count(*) FROM pending_texts").fetchone()
    return int(after - before)
