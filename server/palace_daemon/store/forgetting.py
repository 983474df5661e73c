"""Taking exchanges out of the store: which ones, with all that was made of them, and for good or until asked again.

Everything here runs inside the caller's write transaction, and notes in ``state.scrub_due`` that their bytes may still
stand in the file; :mod:`palace_daemon.store.scrubbing` is the second step.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from palace_daemon.core.ignoring import IgnoreRules
from palace_daemon.store import notes, tombstones, twins, variants
from palace_daemon.store.drawers import DrawerStore
from palace_daemon.store.exchanges import SaveReport
from palace_daemon.store.scrubbing import ROOM_DUE, mark_due
from palace_daemon.store.sqlite import Connection, batches

IGNORED_PATH = "ignored: watch.ignore_paths"
"""``error`` of a source that a rule keeps out."""
_ELLIPSES = ". \u2026"


class Removal(NamedTuple):
    """What was taken out."""

    exchanges: int
    drawers: int
    sources: tuple[str, ...]
    """Files that told of it and are to be read anew, since their parsers' states are gone, too."""


def joined(removals: Iterable[Removal]) -> Removal | None:
    """Return several removals as one; None where there are none."""
    parts = list(removals)
    if not parts:
        return None
    paths = {path for part in parts for path in part.sources}
    return Removal(sum(part.exchanges for part in parts), sum(part.drawers for part in parts), tuple(sorted(paths)))


class _Session(NamedTuple):
    row: int
    agent: str
    native_id: str
    title: str


def forget(connection: Connection, drawers: DrawerStore, exchange_ids: Sequence[int], forgotten_at: int) -> Removal:
    """Remove exchanges with all that tells the same, and see to it that no file brings them back."""
    exchange_ids = with_same(connection, exchange_ids)
    tombstones.add(connection, exchange_ids, forgotten_at)
    told = _sessions_of(connection, exchange_ids)
    for session in told:
        if session.title and _tells_title(connection, session.title, exchange_ids):
            tombstones.add_title(connection, session.agent, session.native_id, session.title, forgotten_at)
    removal = remove(connection, drawers, exchange_ids)
    for session in told:
        if session.title and tombstones.hide_title(connection, session.agent, session.native_id, session.title):
            connection.execute("UPDATE sessions SET title='' WHERE id=?", (session.row,))
    return removal


def forget_named(connection: Connection, drawers: DrawerStore, forgotten_at: int) -> Removal:
    """Remove what is stored here and was forgotten elsewhere, as tombstones tell by key, and what goes with it."""
    named = tombstones.buried(connection)
    with_others = with_same(connection, named)
    tombstones.add(connection, with_others[len(named) :], forgotten_at)
    return remove(connection, drawers, with_others)


def with_same(connection: Connection, exchange_ids: Sequence[int]) -> list[int]:
    """Return the exchanges, and behind them what goes with them: other ways of a fork, and twins that copies tell.

    So what is left is what a store would hold that knew from the beginning what was to be forgotten.
    """
    found: list[int] = list(exchange_ids)
    size = -1
    while len(found) > size:
        size = len(found)
        found = twins.with_twins(connection, variants.with_ways(connection, found))
    return found


def remove(connection: Connection, drawers: DrawerStore, exchange_ids: Sequence[int]) -> Removal:
    """Remove exchanges with their drawers, words, vectors and places; the files that told of them are read anew.

    Without tombstones: a file that tells one of them brings it back.
    """
    report = SaveReport()
    notes.pass_on(connection, exchange_ids)
    sources = _sources_of(connection, exchange_ids)
    sessions = {session.row for session in _sessions_of(connection, exchange_ids)}
    for exchange_id in exchange_ids:
        drawers.remove(connection, exchange_id, report)
    for batch in batches(list(exchange_ids)):
        marks = _marks(batch)
        for table, column in (("provenance", "exchange_id"), ("exchange_keys", "exchange_id"), ("exchanges", "id")):
            connection.execute(f"DELETE FROM {table} WHERE {column} IN ({marks})", batch)
    for session in sorted(sessions):  # one that lost its third turn is cut by paragraphs again
        drawers.recut_session(connection, session, report)
    _read_anew(connection, sources)
    if exchange_ids:
        mark_due(connection)
        notes.settle(connection, drawers, report)
    return Removal(len(exchange_ids), report.drawers_removed, _paths(connection, sources))


def apply_rules(connection: Connection, drawers: DrawerStore, rules: IgnoreRules) -> Removal:
    """Take out what the rules name and is stored; once for each change of the rules.

    Sources of which the former rules kept something out are read anew, since the new ones may not.
    """
    told = "\n".join((*rules.paths, "", *rules.projects)) if rules else ""
    (known,) = connection.execute("SELECT ignore_rules FROM state").fetchone()
    if told == known:
        return Removal(0, 0, ())
    connection.execute("UPDATE state SET ignore_rules=?", (told,))
    waiting = {row[0] for row in connection.execute("SELECT source_id FROM held_back")}
    connection.execute("DELETE FROM held_back")
    _read_anew(connection, waiting)
    alone = _leave_sources(connection, drawers, rules) | _of_projects(connection, rules)
    removal = remove(connection, drawers, sorted(alone))
    if rules:
        _untitle(connection, rules)
    return removal._replace(sources=tuple(sorted({*removal.sources, *_paths(connection, waiting)})))


def leave_out(connection: Connection, drawers: DrawerStore, exchange_ids: Sequence[int]) -> Removal:
    """Remove what a rule names; without the rule, the files that tell of it bring it back."""
    for source_id in _sources_of(connection, exchange_ids):
        hold_back(connection, source_id)
    return remove(connection, drawers, exchange_ids)


def hold_back(connection: Connection, source_id: int) -> None:
    """Note that a rule kept something of the source out."""
    connection.execute("INSERT INTO held_back(source_id) VALUES (?) ON CONFLICT DO NOTHING", (source_id,))


def is_scrub_due(connection: Connection) -> bool:
    """Return whether the file is to be rewritten: removed texts may still stand in it, or it has much room free."""
    return bool(connection.execute("SELECT scrub_due FROM state").fetchone()[0])


def has_traces(connection: Connection) -> bool:
    """Return whether bytes of removed texts may still stand in the file."""
    return connection.execute("SELECT scrub_due FROM state").fetchone()[0] not in {0, ROOM_DUE}


def _leave_sources(connection: Connection, drawers: DrawerStore, rules: IgnoreRules) -> set[int]:
    """Drop what ignored sources tell; returns the exchanges that are to go."""
    alone: set[int] = set()
    rows = connection.execute("SELECT id, path FROM sources WHERE origin=''").fetchall()
    ignored = [source_id for source_id, path in rows if rules.ignores_path(path)]
    for source_id in ignored:
        told = [
            row[0] for row in connection.execute("SELECT exchange_id FROM provenance WHERE source_id=?", (source_id,))
        ]
        for exchange_id in told:
            if not _hand_over(connection, drawers, exchange_id, source_id):
                alone.add(exchange_id)
        connection.execute(
            "UPDATE sources SET state='skipped', error=?, cursor=NULL, parser_state=NULL, reading=reading+1,"
            " lines_read=0, lines_skipped='{}', read_bytes=0 WHERE id=?",
            (IGNORED_PATH, source_id),
        )
        mark_due(connection)
    return alone


def _untitle(connection: Connection, rules: IgnoreRules) -> None:
    """Take the titles of sessions of ignored projects, and of those of which nothing is left."""
    rows = connection.execute(
        "SELECT id, agent, project, id IN (SELECT session_id FROM exchanges UNION SELECT session_id FROM provenance)"
        " FROM sessions WHERE title<>''"
    ).fetchall()
    for session_id, agent, project, has_exchanges in rows:
        if not has_exchanges or (agent != notes.AGENT and rules.ignores_project(project)):
            connection.execute("UPDATE sessions SET title='' WHERE id=?", (session_id,))
            mark_due(connection)


def _hand_over(connection: Connection, drawers: DrawerStore, exchange_id: int, source_id: int) -> bool:
    """Let other sources stand for the exchange; returns whether it can stay as it is.

    Where its text is the ignored source's, it goes, and comes back as the others tell it, if one can be read.
    """
    others = connection.execute(
        "SELECT p.source_id, s.path, s.origin='' AND s.state<>'gone' FROM provenance p"
        " JOIN sources s ON s.id=p.source_id WHERE p.exchange_id=? AND p.source_id<>?"
        " ORDER BY p.is_superseded, p.chars DESC",
        (exchange_id, source_id),
    ).fetchall()
    (owner,) = connection.execute("SELECT owner_source_id FROM exchanges WHERE id=?", (exchange_id,)).fetchone()
    can_return = any(can_be_read and os.path.exists(path.partition("!/")[0]) for _, path, can_be_read in others)
    if not others or (owner == source_id and can_return):
        return False
    connection.execute("DELETE FROM provenance WHERE exchange_id=? AND source_id=?", (exchange_id, source_id))
    if owner == source_id:
        connection.execute("UPDATE exchanges SET owner_source_id=? WHERE id=?", (others[0][0], exchange_id))
    connection.execute(
        "UPDATE exchanges SET is_superseded=(SELECT min(is_superseded) FROM provenance WHERE exchange_id=?1)"
        " WHERE id=?1",
        (exchange_id,),
    )
    drawers.touch(connection, exchange_id)
    return True


def _of_projects(connection: Connection, rules: IgnoreRules) -> set[int]:
    """Return the exchanges of ignored projects. Notes stay: somebody asked for them, and no file brings them back."""
    rows = connection.execute(
        "SELECT e.id, coalesce(nullif(e.project,''), s.project) FROM exchanges e JOIN sessions s ON s.id=e.session_id"
        " WHERE NOT EXISTS (SELECT 1 FROM notes n WHERE n.exchange_id=e.id)"
    ).fetchall()
    verdicts = {project: rules.ignores_project(project) for _, project in rows}
    found = {exchange_id for exchange_id, project in rows if verdicts[project]}
    for source_id in _sources_of(connection, sorted(found)):
        hold_back(connection, source_id)
    return found


def _read_anew(connection: Connection, source_ids: set[int]) -> None:
    """Drop cursors and parser states, which hold recent texts, and end the pass that a miner may be in."""
    for batch in batches(sorted(source_ids)):
        connection.execute(
            "UPDATE sources SET cursor=NULL, parser_state=NULL, reading=reading+1"
            f" WHERE origin='' AND id IN ({_marks(batch)})",
            batch,
        )


def _tells_title(connection: Connection, title: str, exchange_ids: Sequence[int]) -> bool:
    """Return whether a title consists of words of a user turn, as a cut first prompt does."""
    words = " ".join(title.split()).rstrip(_ELLIPSES)
    for batch in batches(list(exchange_ids)):
        rows = connection.execute(f"SELECT user_text FROM exchanges WHERE id IN ({_marks(batch)})", batch)
        for (text,) in rows:
            prompt = " ".join(text.split())
            if prompt and (words in prompt or prompt in words):
                return True
    return False


def _sources_of(connection: Connection, exchange_ids: Sequence[int]) -> set[int]:
    found: set[int] = set()
    for batch in batches(list(exchange_ids)):
        rows = connection.execute(
            f"SELECT DISTINCT source_id FROM provenance WHERE exchange_id IN ({_marks(batch)})", batch
        )
        found.update(row[0] for row in rows)
    return found


def _sessions_of(connection: Connection, exchange_ids: Sequence[int]) -> set[_Session]:
    found: set[_Session] = set()
    for batch in batches(list(exchange_ids)):
        rows = connection.execute(
            "SELECT DISTINCT s.id, s.agent, s.native_id, s.title FROM provenance p"
            f" JOIN sessions s ON s.id=p.session_id WHERE p.exchange_id IN ({_marks(batch)})"
            " UNION SELECT s.id, s.agent, s.native_id, s.title FROM exchanges e"
            f" JOIN sessions s ON s.id=e.session_id WHERE e.id IN ({_marks(batch)})",
            [*batch, *batch],
        )
        found.update(_Session(*row) for row in rows)
    return found


def _paths(connection: Connection, source_ids: set[int]) -> tuple[str, ...]:
    found: list[str] = []
    for batch in batches(sorted(source_ids)):
        rows = connection.execute(
            f"SELECT path FROM sources WHERE origin='' AND state<>'gone' AND id IN ({_marks(batch)})", batch
        )
        found += [row[0] for row in rows]
    return tuple(sorted(found))


def _marks(batch: Sequence[object]) -> str:
    return ",".join("?" * len(batch))
