"""Rows of transcript files: what they are, how far they were read, and why not further.

A row whose ``origin`` is not empty is no file of this machine (it was imported, or holds the notes): only
:mod:`palace_daemon.store.importing` and :mod:`palace_daemon.store.notes` touch those.
"""

from __future__ import annotations

from collections import Counter

import msgspec
from msgspec import Struct

from palace_daemon.model import Cursor, FileStat, SourceState
from palace_daemon.store import compactions, session_order, twins
from palace_daemon.store.sqlite import Connection


class SourceRow(Struct, frozen=True, kw_only=True):
    """A source as stored."""

    source_id: int
    path: str
    format: str
    format_version: int
    state: str
    error: str
    cursor: Cursor | None
    """None: read from the start."""
    parser_state: bytes | None
    reading: int


_CURSOR = msgspec.msgpack.Decoder(Cursor)
_COLUMNS = "id, path, format, format_version, state, error, cursor, parser_state, reading"


def find(connection: Connection, path: str) -> SourceRow | None:
    """Return the source at ``path``."""
    return _row(connection.execute(f"SELECT {_COLUMNS} FROM sources WHERE path=? AND origin=''", (path,)).fetchone())


def find_by_identity(connection: Connection, stat: FileStat) -> list[SourceRow]:
    """Return the sources that had this device and inode when last read: candidates for a move."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM sources WHERE device=? AND inode=? ORDER BY id",
        (_signed(stat.device), _signed(stat.inode)),
    )
    return [row for row in map(_row, rows) if row is not None]


def read_to_the_end(connection: Connection) -> dict[str, tuple[FileStat, str, int]]:
    """Return the files of which nothing was left to read: path to stat at that time, format, and its version."""
    rows = connection.execute(
        "SELECT path, format, format_version, cursor FROM sources"
        " WHERE state='ok' AND origin='' AND cursor IS NOT NULL AND read_bytes=size_bytes"
    )
    found = {}
    for path, format_name, version, blob in rows:
        stat = _CURSOR.decode(blob).stat
        if stat is not None:
            found[path] = (stat, format_name, version)
    return found


def bytes_read(connection: Connection) -> dict[str, int]:
    """Return how much is read of each file that holds a transcript."""
    rows = connection.execute("SELECT path, read_bytes FROM sources WHERE state='ok' AND origin='' AND read_bytes>0")
    return dict(rows.fetchall())


def below(connection: Connection, prefix: str) -> list[SourceRow]:
    """Return the sources whose path begins with ``prefix``."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM sources WHERE path>=? AND path<? AND origin='' ORDER BY path",
        (prefix, prefix + "\U0010ffff"),
    )
    return [row for row in map(_row, rows) if row is not None]


def known_paths(connection: Connection) -> list[str]:
    """Return the path of every source that was not gone when last seen."""
    rows = connection.execute("SELECT path FROM sources WHERE state <> 'gone' AND origin='' ORDER BY id")
    return [row[0] for row in rows]


def ensure(connection: Connection, path: str) -> int:
    """Return the id of the source at ``path``, making a pending one if it is new."""
    connection.execute("INSERT INTO sources(path, state) VALUES (?, 'pending') ON CONFLICT DO NOTHING", (path,))
    return int(connection.execute("SELECT id FROM sources WHERE path=? AND origin=''", (path,)).fetchone()[0])


def move(connection: Connection, source_id: int, path: str) -> None:
    """Note that the file is at another path now; a row that stood there gives way and keeps its exchanges."""
    connection.execute(
        "UPDATE sources SET path=path||'#replaced-'||id, state='gone' WHERE path=? AND origin=''", (path,)
    )
    connection.execute("UPDATE sources SET path=?, state='ok' WHERE id=?", (path, source_id))


def set_state(connection: Connection, path: str, state: SourceState, error: str = "", *, agent: str = "") -> None:
    """Note why a source was not read, keeping what was read before."""
    source_id = ensure(connection, path)
    connection.execute(
        "UPDATE sources SET state=?, error=?, agent=CASE WHEN ?<>'' THEN ? ELSE agent END WHERE id=?",
        (state, error, agent, agent, source_id),
    )


def note_gone(connection: Connection, path: str) -> None:
    """Note that the file is not there any more; a copy of it in the same session stands for what it told, word by word.

    A deleted transcript is not a wish to forget: agents delete theirs after a while.
    """
    row = find(connection, path)
    if row is None:
        return
    set_state(connection, path, "gone")
    heirs = (
        "SELECT p.source_id FROM provenance p JOIN sources s ON s.id=p.source_id JOIN provenance mine"
        " ON mine.exchange_id=p.exchange_id AND mine.source_id=?1 WHERE p.exchange_id=exchanges.id"
        " AND p.session_id=exchanges.session_id AND p.chars=mine.chars AND p.is_superseded=0 AND s.state<>'gone'"
        " ORDER BY s.origin<>'', s.path LIMIT 1"
    )
    connection.execute(
        f"UPDATE exchanges SET owner_source_id=coalesce(({heirs}), owner_source_id) WHERE owner_source_id=?1",
        (row.source_id,),
    )


def begin_reading(
    connection: Connection,
    source_id: int,
    *,
    agent: str,
    format_name: str,
    format_version: int,
    is_secondary: bool = False,
) -> int:
    """Start a pass from offset 0 and return its number; counts of the former pass are dropped, all but compactions'."""
    kept = compactions.count_to_keep(connection, source_id)
    connection.execute(
        "UPDATE sources SET agent=?, format=?, format_version=?, is_secondary=?, reading=reading+1, cursor=NULL,"
        " parser_state=NULL, lines_read=0, lines_skipped=?, read_bytes=0 WHERE id=?",
        (agent, format_name, format_version, int(is_secondary), kept, source_id),
    )
    return int(connection.execute("SELECT reading FROM sources WHERE id=?", (source_id,)).fetchone()[0])


def begin_empty_reading(connection: Connection, source_id: int) -> int:
    """Start a pass over a file that is no transcript now and return its number."""
    connection.execute(
        "UPDATE sources SET format='', reading=reading+1, cursor=NULL, parser_state=NULL, lines_read=0,"
        " lines_skipped='{}', read_bytes=0 WHERE id=?",
        (source_id,),
    )
    return int(connection.execute("SELECT reading FROM sources WHERE id=?", (source_id,)).fetchone()[0])


def save_progress(
    connection: Connection,
    source_id: int,
    cursor: Cursor,
    parser_state: bytes | None,
    *,
    lines_read: int,
    lines_skipped: dict[str, int],
) -> dict[str, int]:
    """Store the cursor with the parser's state at it; add to the line counts. Returns the counts of this pass so far.

    ``parser_state`` None keeps the stored one (nothing was fed).
    """
    stat = cursor.stat or FileStat(size=0, mtime_ns=0, ctime_ns=0, device=0, inode=0)
    (stored,) = connection.execute("SELECT lines_skipped FROM sources WHERE id=?", (source_id,)).fetchone()
    skipped = Counter(msgspec.json.decode(stored, type=dict[str, int]))
    skipped.update(lines_skipped)
    total = dict(sorted(skipped.items()))
    connection.execute(
        "UPDATE sources SET state='ok', error='', device=?, inode=?, size_bytes=?, read_bytes=?, cursor=?,"
        " parser_state=coalesce(?, parser_state), lines_read=lines_read+?, lines_skipped=? WHERE id=?",
        (
            _signed(stat.device),
            _signed(stat.inode),
            stat.size,
            cursor.offset,
            msgspec.msgpack.encode(cursor),
            parser_state,
            lines_read,
            msgspec.json.encode(total).decode(),
            source_id,
        ),
    )
    return total


def told_by_copies(connection: Connection, session_id: int) -> list[int]:
    """Return the exchanges of a session that an export or an older store tells, in order."""
    if connection.execute("SELECT 1 FROM sources WHERE is_secondary=1 LIMIT 1").fetchone() is None:
        return []
    rows = connection.execute(
        "SELECT DISTINCT e.id FROM exchanges e JOIN provenance p ON p.exchange_id=e.id"
        " JOIN sources s ON s.id=p.source_id WHERE e.session_id=? AND s.is_secondary=1",
        (session_id,),
    )
    told = {row[0] for row in rows}
    order = session_order.of_sessions(connection, [session_id]) if told else []
    return [place.exchange_id for place in order if place.exchange_id in told]


def is_superseded(connection: Connection, exchange_id: int) -> bool:
    """Return whether no source tells the exchange as one that stands.

    A source whose agent tells the session itself decides, as long as it holds the exchange. Where only copies hold it
    (exports, stores that were left behind), it stands unless the session's own source tells the same words of the
    person elsewhere, be it as a turn that it rewound past: then it is the same exchange in another spelling.
    """
    rows = connection.execute(
        "SELECT p.is_superseded, s.is_secondary, p.reading<s.reading FROM provenance p"
        " JOIN sources s ON s.id=p.source_id WHERE p.exchange_id=?",
        (exchange_id,),
    ).fetchall()
    copies = [is_old for is_old, is_copy, _ in rows if is_copy]
    if not copies:
        return all(is_old for is_old, _, _ in rows)
    own = [is_old for is_old, is_copy, is_gone in rows if not is_copy and not is_gone]
    return all(own) if own else all(copies) or twins.is_told_by_own_source(connection, exchange_id)


def take_over_twins(connection: Connection, source_id: int) -> None:
    """Forget imported sources that are this very file: at its path, and with nothing left that it does not tell."""
    twins = connection.execute(
        "SELECT twin.id FROM sources here JOIN sources twin ON twin.path=here.path AND twin.origin<>''"
        " WHERE here.id=? AND here.origin=''"
        " AND NOT EXISTS (SELECT 1 FROM provenance p WHERE p.source_id=twin.id)",
        (source_id,),
    ).fetchall()
    connection.executemany("DELETE FROM sources WHERE id=?", twins)


def reading_of(connection: Connection, source_id: int) -> int:
    """Return the number of the pass that the source is in."""
    return int(connection.execute("SELECT reading FROM sources WHERE id=?", (source_id,)).fetchone()[0])


def drop_state(connection: Connection, source_id: int) -> None:
    """Drop a parser's state that holds what must not be kept: when the source grows, it is read from its start."""
    connection.execute("UPDATE sources SET parser_state=NULL WHERE id=?", (source_id,))


def forget_cursor(connection: Connection, source_id: int) -> None:
    """Have the source read from the start next time."""
    connection.execute("UPDATE sources SET cursor=NULL, parser_state=NULL WHERE id=?", (source_id,))


def path_of(connection: Connection, source_id: int) -> str:
    """Return where a source stands."""
    return str(connection.execute("SELECT path FROM sources WHERE id=?", (source_id,)).fetchone()[0])


def _row(row: tuple[object, ...] | None) -> SourceRow | None:
    if row is None:
        return None
    source_id, path, format_name, version, state, error, cursor, parser_state, reading = row
    return msgspec.convert(
        {
            "source_id": source_id,
            "path": path,
            "format": format_name,
            "format_version": version,
            "state": state,
            "error": error,
            "cursor": _CURSOR.decode(cursor) if isinstance(cursor, bytes) else None,
            "parser_state": parser_state,
            "reading": reading,
        },
        SourceRow,
    )


def _signed(value: int) -> int:
    """Fold an unsigned 64-bit device or inode number into SQLite's signed integers."""
    return value - (1 << 64) if value >= 1 << 63 else value
