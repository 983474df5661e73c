"""Notes: texts that somebody asked to remember. Each is an exchange with an empty reply, and a row of its own.

So notes are cut, indexed, embedded, recalled and forgotten as exchanges are. Their source is no file: one row of
``sources`` with an origin of its own. Each project has a session for its notes.

Invariant: among the notes that stand, no two of one project hold the same text. Where an import, or an edit elsewhere,
brings a second one, both count as one note: that with the smaller key stands for both. Which notes stand is worked out
from what is stored (see :func:`settle`) and not stored itself, so that the order of imports does not matter.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from palace_daemon.model import Exchange, ExchangeKey, NoteView, ParseResult, SessionFacts
from palace_daemon.store.drawers import DrawerStore
from palace_daemon.store.exchanges import ExchangeStore, SaveReport
from palace_daemon.store.scrubbing import mark_due
from palace_daemon.store.sqlite import Connection, batches
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
    """Public id of the note that took its place; while there is no such note, this one stands."""
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
        is_superseded=_is_note(connection, note.superseded_by),
        flags=("redacted",) if note.is_redacted else (),
    )
    name = note.project.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    facts = SessionFacts(
        agent=AGENT, session_id=exchange.session_id, cwd=note.project, title=f"Notes on {name}" if name else "Notes"
    )
    # A note's project was found when it was made: it is not looked up again, maybe on another machine.
    store = ExchangeStore(drawers, project_of=lambda cwd: cwd)
    result = ParseResult(exchanges=(exchange,), sessions=(facts,))
    former = connection.execute("SELECT exchange_id FROM exchange_keys WHERE key=?", (note.key,)).fetchone()
    if former is not None and load(connection, former[0]).text != note.text:
        mark_due(connection)  # who puts a text right does not expect to leave the former one on the disk
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
    """Return the project's note of this text that stands."""
    row = connection.execute(
        "SELECT e.id FROM exchanges e JOIN notes n ON n.exchange_id=e.id"
        " WHERE e.user_hash=? AND e.project=? AND e.is_superseded=0 ORDER BY e.key LIMIT 1",
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


_LINKED = (
    "EXISTS (SELECT 1 FROM exchange_keys k JOIN notes x ON x.exchange_id=k.exchange_id"
    " WHERE k.public_id=n.superseded_by AND k.exchange_id<>n.exchange_id)"
)
"""Whether the note that took the place of ``n`` is there; it may have been forgotten, or not come yet."""


class _Standing(NamedTuple):
    """What decides whether a note stands."""

    exchange_id: int
    says: tuple[str, bytes]
    """Project and text."""
    is_linked: bool
    is_superseded: bool


def _standings(connection: Connection, where: str = "1", values: Sequence[object] = ()) -> list[_Standing]:
    rows = connection.execute(
        f"SELECT e.id, e.project, e.user_hash, {_LINKED}, e.is_superseded FROM notes n"
        f" JOIN exchanges e ON e.id=n.exchange_id WHERE {where} ORDER BY e.key",
        tuple(values),
    )
    return [_Standing(row[0], (row[1], row[2]), bool(row[3]), bool(row[4])) for row in rows.fetchall()]


def settle(connection: Connection, drawers: DrawerStore, report: SaveReport) -> None:
    """Work out which notes stand; call after notes were imported or removed.

    Those whose successor is there do not, nor do those of which one with a smaller key has project and text.
    """
    store = ExchangeStore(drawers, project_of=lambda cwd: cwd)
    said: set[tuple[str, bytes]] = set()
    for note in _standings(connection):
        is_out = note.is_linked or note.says in said
        if not note.is_linked:
            said.add(note.says)
        if is_out != note.is_superseded:
            connection.execute(
                "UPDATE provenance SET is_superseded=? WHERE exchange_id=?", (int(is_out), note.exchange_id)
            )
            store.refresh_superseded(connection, note.exchange_id, report)
    store.recut(connection, report)


def united(connection: Connection, exchange_ids: Iterable[int]) -> set[int]:
    """Return these exchanges, and with each note among them those that count as one with it."""
    wanted = set(exchange_ids)
    notes = [note for note in _standings(connection) if not note.is_linked]
    said = {note.says for note in notes if note.exchange_id in wanted}
    return wanted | {note.exchange_id for note in notes if note.says in said}


def standing(connection: Connection, exchange_id: int) -> int:
    """Return the note that stands for this one where several count as one."""
    (note,) = _standings(connection, "e.id=?", (exchange_id,))
    if note.is_linked or not note.is_superseded:
        return exchange_id
    equal = _standings(connection, "e.project=? AND e.user_hash=? AND e.is_superseded=0", note.says)
    return equal[0].exchange_id if equal else exchange_id


def successor(connection: Connection, exchange_id: int) -> str:
    """Return the public id of the note that took the place of this one; empty where that is not there."""
    row = connection.execute(
        f"SELECT n.superseded_by FROM notes n WHERE n.exchange_id=? AND {_LINKED}", (exchange_id,)
    ).fetchone()
    return "" if row is None else str(row[0])


def let_go(connection: Connection, drawers: DrawerStore, exchange_id: int, by: str, report: SaveReport) -> None:
    """Supersede the notes that count as one with this one, which is about to say something else, by the note ``by``."""
    for other in sorted(united(connection, [exchange_id]) - {exchange_id}):
        save(connection, drawers, msgspec.structs.replace(load(connection, other), superseded_by=by), report)


def pass_on(connection: Connection, exchange_ids: Sequence[int]) -> None:
    """Let what notes took the place of stand again, or count as superseded by what came after; call before removal."""
    for batch in batches(list(exchange_ids)):
        marks = ",".join("?" * len(batch))
        going = connection.execute(f"SELECT exchange_id FROM notes WHERE exchange_id IN ({marks})", batch).fetchall()
        for (exchange_id,) in going:
            connection.execute(
                "UPDATE notes SET superseded_by=(SELECT superseded_by FROM notes WHERE exchange_id=?1)"
                " WHERE superseded_by IN (SELECT public_id FROM exchange_keys WHERE exchange_id=?1)",
                (exchange_id,),
            )


def _is_note(connection: Connection, note_id: str) -> bool:
    row = connection.execute(
        "SELECT 1 FROM exchange_keys k JOIN notes n ON n.exchange_id=k.exchange_id WHERE k.public_id=? LIMIT 1",
        (note_id,),
    ).fetchone()
    return row is not None


class _Shown(NamedTuple):
    """A note as it is read for a reader."""

    note_id: str
    text: str
    project: str
    tags: str
    author: str
    created_at: int
    edited_at: int | None
    superseded_by: str
    user_hash: bytes
    is_superseded: int


_VIEW = (
    f"SELECT e.public_id, e.user_text, e.project, n.tags, n.author, n.created_at, n.edited_at,"
    f" iif({_LINKED}, n.superseded_by, ''), e.user_hash, e.is_superseded"
    " FROM notes n JOIN exchanges e ON e.id=n.exchange_id"
)


def view(connection: Connection, exchange_id: int) -> NoteView:
    """Return one note for a reader; where several count as one, the one."""
    found = connection.execute(
        f"{_VIEW} JOIN exchanges o ON o.user_hash=e.user_hash AND o.project=e.project WHERE o.id=? ORDER BY e.id<>o.id",
        (exchange_id,),
    ).fetchall()
    rows = [_Shown(*row) for row in found]
    return _views_of(rows[:1] if rows[0].superseded_by else [row for row in rows if not row.superseded_by])[0]


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
    rows = connection.execute(f"{_VIEW} ORDER BY n.created_at DESC, e.key").fetchall()
    wanted = {tag.casefold() for tag in tags}
    found = [
        note
        for note in _views_of([_Shown(*row) for row in rows])
        if (among is None or note.project in among)
        and (include_superseded or not note.superseded_by)
        and wanted <= {tag.casefold() for tag in note.tags}
    ]
    return tuple(found[offset : offset + limit])


def _views_of(rows: Sequence[_Shown]) -> list[NoteView]:
    """Return the notes in the order of ``rows``; of those that count as one, the one that stands for them."""
    equal: defaultdict[tuple[str, bytes | str], list[_Shown]] = defaultdict(list)
    for row in rows:
        equal[row.project, row.note_id if row.superseded_by else row.user_hash].append(row)
    first = {id(min(group, key=lambda row: row.is_superseded)): group for group in equal.values()}
    return [_as_one(row, first[id(row)]) for row in rows if id(row) in first]


def _as_one(note: _Shown, equal: Sequence[_Shown]) -> NoteView:
    return NoteView(
        note_id=note.note_id,
        text=note.text,
        project=note.project,
        tags=tuple(sorted({tag for one in equal for tag in _TAGS.decode(one.tags)})),
        author=note.author or min((one.author for one in equal if one.author), default=""),
        created_at=note.created_at,
        edited_at=note.edited_at,
        superseded_by=note.superseded_by,
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
