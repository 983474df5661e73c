"""Notes: texts that somebody asked to remember. Each is an exchange with an empty reply, and a row of its own.

So notes are cut, indexed, embedded, recalled and forgotten as exchanges are. Their source is no file: one row of
``sources`` with an origin of its own. Each project has a session for its notes.

Invariant: among the notes that were not superseded, no two of one project hold the same text.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import Struct

from palace_daemon.model import Exchange, ExchangeKey, NoteView, ParseResult, SessionFacts
from palace_daemon.store.drawers import DrawerStore
from palace_daemon.store.exchanges import ExchangeStore, SaveReport
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.variants import content_hash

AGENT = "note"
"""Stands where an exchange names its agent, so that the agent filter picks notes."""
ORIGIN = "palace"
SOURCE_PATH = "palace:notes"

_TAGS = msgspec.json.Decoder(tuple[str, ...])


class Note(Struct, frozen=True, kw_only=True):
    """A note as stored. ``key`` may be empty until it is."""

    key: str = ""
    project: str = ""
    text: str
    created_at: int
    edited_at: int | None = None
    superseded_by: str = ""
    """Public id of the note that took its place."""
    author: str = ""
    tags: tuple[str, ...] = ()
    """Sorted, each once."""
    is_redacted: bool = False


def session_of(project: str) -> str:
    """Return the id of the session that holds the notes on a project."""
    return f"notes:{project}" if project else "notes"


def remember(connection: Connection, drawers: DrawerStore, note: Note, report: SaveReport) -> tuple[int, bool]:
    """Store a note, unless its project has one of the same text; then tags and a missing author are added to that.

    Returns:
        The row of its exchange, and whether it is new.
    """
    known = find(connection, note.project, note.text)
    if known is None:
        return _add(connection, drawers, note, report), True
    stored = load(connection, known)
    added = msgspec.structs.replace(
        stored, tags=tuple(sorted({*stored.tags, *note.tags})), author=stored.author or note.author
    )
    if added != stored:
        _save_row(connection, known, added)
    return known, False


def _add(connection: Connection, drawers: DrawerStore, note: Note, report: SaveReport) -> int:
    """Store a new note under the key of its text, so that stores which meet agree, or under the next that is free.

    A key is not free where a note of this text was edited, superseded or forgotten, and somebody asks for it anew.
    """
    for number in itertools.count():
        salt = str(note.created_at + number) if number else ""
        key = f"{AGENT}:{content_hash(note.project, note.text, salt).hex()}"
        if connection.execute("SELECT 1 FROM exchange_keys WHERE key=?", (key,)).fetchone() is None:
            fresh = msgspec.structs.replace(note, key=key, created_at=note.created_at + number)
            if (exchange_id := save(connection, drawers, fresh, report)) is not None:
                return exchange_id
    raise AssertionError("unreachable")


def save(connection: Connection, drawers: DrawerStore, note: Note, report: SaveReport) -> int | None:
    """Store a note under its key, in place of what stands there.

    Returns:
        The row of its exchange; None where it was forgotten, and so is not stored.
    """
    exchange = Exchange(
        key=ExchangeKey(note.key),
        agent=AGENT,
        session_id=session_of(note.project),
        ordinal=0,
        user_text=note.text,
        user_kind="note",
        reply_text="",
        started_at=note.created_at,
        ended_at=note.created_at if note.edited_at is None else note.edited_at,
        time_quality="exact",
        status="complete",
        cwd=note.project,
        is_superseded=bool(note.superseded_by),
        flags=("redacted",) if note.is_redacted else (),
    )
    name = note.project.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    facts = SessionFacts(
        agent=AGENT, session_id=exchange.session_id, cwd=note.project, title=f"Notes on {name}" if name else "Notes"
    )
    # A note's project was found when it was made: it is not looked up again, maybe on another machine.
    store = ExchangeStore(drawers, project_of=lambda cwd: cwd)
    result = ParseResult(exchanges=(exchange,), sessions=(facts,))
    store.save(connection, source(connection), 0, result, report)
    row = connection.execute("SELECT exchange_id FROM exchange_keys WHERE key=?", (note.key,)).fetchone()
    if row is None:
        return None
    _save_row(connection, int(row[0]), note)
    return int(row[0])


def load(connection: Connection, exchange_id: int) -> Note:
    """Return the note whose exchange this is."""
    key, project, text, flags, created, edited, by, author, tags = connection.execute(
        "SELECT e.key, e.project, e.user_text, e.flags, n.created_at, n.edited_at, n.superseded_by, n.author, n.tags"
        " FROM notes n JOIN exchanges e ON e.id=n.exchange_id WHERE n.exchange_id=?",
        (exchange_id,),
    ).fetchone()
    return Note(
        key=key,
        project=project,
        text=text,
        created_at=created,
        edited_at=edited,
        superseded_by=by,
        author=author,
        tags=_TAGS.decode(tags),
        is_redacted="redacted" in flags.split(","),
    )


def is_note(connection: Connection, exchange_id: int) -> bool:
    """Return whether the exchange is a note."""
    return connection.execute("SELECT 1 FROM notes WHERE exchange_id=?", (exchange_id,)).fetchone() is not None


def find(connection: Connection, project: str, text: str) -> int | None:
    """Return the project's note of this text that was not superseded."""
    row = connection.execute(
        "SELECT e.id FROM exchanges e JOIN notes n ON n.exchange_id=e.id"
        " WHERE e.user_hash=? AND e.project=? AND n.superseded_by='' ORDER BY e.id LIMIT 1",
        (content_hash(text), project),
    ).fetchone()
    return None if row is None else int(row[0])


def merged(one: Note, other: Note) -> Note:
    """Return one note from two stores as it is after both: the later edit's text, all tags, superseded if either is.

    The order of the two does not matter, nor do further ones: each field is a maximum, a minimum or a union.
    """
    latest = max(one, other, key=lambda note: (-1 if note.edited_at is None else note.edited_at, note.text))
    return msgspec.structs.replace(
        latest,
        created_at=min(one.created_at, other.created_at),
        superseded_by=min(filter(None, (one.superseded_by, other.superseded_by)), default=""),
        author=min(filter(None, (one.author, other.author)), default=""),
        tags=tuple(sorted({*one.tags, *other.tags})),
    )


_VIEW = (
    "SELECT e.public_id, e.user_text, e.project, n.tags, n.author, n.created_at, n.edited_at, n.superseded_by"
    " FROM notes n JOIN exchanges e ON e.id=n.exchange_id"
)


def view(connection: Connection, exchange_id: int) -> NoteView:
    """Return one note for a reader."""
    return _view_of(connection.execute(f"{_VIEW} WHERE n.exchange_id=?", (exchange_id,)).fetchone())


def projects(connection: Connection) -> list[str]:
    """Return the projects that have a note."""
    rows = connection.execute("SELECT DISTINCT e.project FROM notes n JOIN exchanges e ON e.id=n.exchange_id")
    return sorted(row[0] for row in rows)


def views(
    connection: Connection,
    *,
    among: Collection[str] | None,
    tags: Collection[str],
    include_superseded: bool,
    limit: int,
    offset: int,
) -> tuple[NoteView, ...]:
    """Return notes, newest first: of the projects ``among`` (None: all), with every one of ``tags`` in any case."""
    conditions = ["?=1 OR n.superseded_by=''"]
    values: list[Any] = [int(include_superseded)]
    if among is not None:
        conditions.append("e.project IN (SELECT value FROM json_each(?))")
        values.append(msgspec.json.encode(sorted(among)).decode())
    for tag in tags:
        conditions.append("EXISTS (SELECT 1 FROM json_each(n.tags) WHERE value=? COLLATE NOCASE)")
        values.append(tag)
    where = " AND ".join(f"({condition})" for condition in conditions)
    rows = connection.execute(
        f"{_VIEW} WHERE {where} ORDER BY n.created_at DESC, e.key LIMIT ? OFFSET ?", (*values, limit, offset)
    )
    return tuple(_view_of(row) for row in rows)


def _view_of(row: tuple[Any, ...]) -> NoteView:
    note_id, text, project, tags, author, created, edited, superseded_by = row
    return NoteView(
        note_id=note_id,
        text=text,
        project=project,
        tags=_TAGS.decode(tags),
        author=author,
        created_at=created,
        edited_at=edited,
        superseded_by=superseded_by,
    )


def _save_row(connection: Connection, exchange_id: int, note: Note) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO notes(exchange_id, created_at, edited_at, superseded_by, author, tags)"
        " VALUES (?,?,?,?,?,?)",
        (
            exchange_id,
            note.created_at,
            note.edited_at,
            note.superseded_by,
            note.author,
            msgspec.json.encode(note.tags).decode(),
        ),
    )


def source(connection: Connection) -> int:
    """Return the row that stands for all notes where an exchange names its source."""
    connection.execute(
        "INSERT INTO sources(path, origin, agent, state) VALUES (?,?,?,'ok') ON CONFLICT DO NOTHING",
        (SOURCE_PATH, ORIGIN, AGENT),
    )
    row = connection.execute("SELECT id FROM sources WHERE path=? AND origin=?", (SOURCE_PATH, ORIGIN)).fetchone()
    return int(row[0])
