"""Looking at what rows hold, value by value: SQLite takes anything, and whoever reads it stumbles over it later."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from palace_daemon.model import Attachment, Cursor, ToolUse
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.variants import content_hash

MOST_ROWS = 1 << 24
"""No table gets so many rows. Arrays are as long as the greatest row number, so a greater one cannot be answered."""
CHANGED = b""
"""Stands for the hash of a text that is not what it was."""
NUMBERED = ("exchanges", "sessions", "sources")
"""Tables whose row numbers others refer to."""


class _Column(NamedTuple):
    """A column of packed values, and what stands there for none."""

    table: str
    key: str
    name: str
    decode: Callable[[Any], object]
    none: str | None


class Broken(NamedTuple):
    """A value that cannot be read."""

    table: str
    key: str
    row: int
    column: str
    none: str | int | None
    """What to put there instead."""


_COUNTS = msgspec.json.Decoder(dict[str, int])
_COLUMNS = (
    _Column("exchanges", "id", "tools", msgspec.json.Decoder(tuple[ToolUse, ...]).decode, "[]"),
    _Column("exchanges", "id", "attachments", msgspec.json.Decoder(tuple[Attachment, ...]).decode, "[]"),
    _Column("exchanges", "id", "redactions", _COUNTS.decode, ""),
    _Column("sources", "id", "lines_skipped", _COUNTS.decode, "{}"),
    _Column("sources", "id", "cursor", msgspec.msgpack.Decoder(Cursor).decode, None),
    _Column("notes", "exchange_id", "tags", msgspec.json.Decoder(tuple[str, ...]).decode, "[]"),
)


def changed_texts(connection: Connection) -> list[int]:
    """Return the exchanges whose text is not what it was when it was stored, without those that are known to be so."""
    rows = connection.execute("SELECT id, content_hash, user_text, reply_text FROM exchanges WHERE content_hash<>x''")
    return [
        exchange_id
        for exchange_id, held, user, reply in rows
        if not (isinstance(user, str) and isinstance(reply, str) and content_hash(user, reply) == held)
    ]


def mark_changed(connection: Connection, exchange_ids: Iterable[int]) -> None:
    """Note that the texts of exchanges are not what they were: their transcripts, if they are there, put them right."""
    marks = [(CHANGED, exchange_id) for exchange_id in exchange_ids]
    connection.executemany("UPDATE exchanges SET content_hash=? WHERE id=?", marks)


def broken(connection: Connection) -> list[Broken]:
    """Return the packed values that cannot be read, and beginnings of last messages outside their reply."""
    found = []
    for column in _COLUMNS:
        rows = connection.execute(f"SELECT {column.key}, {column.name} FROM {column.table}")
        found += [
            Broken(column.table, column.key, row, column.name, column.none)
            for row, value in rows
            if value != column.none and not _can_be_read(column, value)
        ]
    rows = connection.execute("SELECT id, reply_final_start, reply_text FROM exchanges")
    found += [
        Broken("exchanges", "id", row, "reply_final_start", 0)
        for row, start, reply in rows
        if not (isinstance(start, int) and 0 <= start <= len(reply))
    ]
    return found


def odd_numbers(connection: Connection) -> int:
    """Return how many rows have a number that no row can have."""
    count = 0
    for table in NUMBERED:
        (odd,) = connection.execute(f"SELECT count(*) FROM {table} WHERE id NOT BETWEEN 1 AND {MOST_ROWS}").fetchone()
        count += int(odd)
    return count


def read_texts(connection: Connection) -> bool:
    """Read every text of every table once; returns whether all of them are texts.

    The driver raises its error where one is no UTF-8, which no check of pages notices.
    """
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type='table' AND name NOT LIKE 'sqlite_%'")
    for (table,) in tables.fetchall():
        columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")') if row[2] == "TEXT"]
        if not columns:
            continue
        rows = connection.execute(f'SELECT {", ".join(columns)} FROM "{table}"')
        if any(isinstance(value, bytes) for row in rows for value in row):
            return False
    return True


def _can_be_read(column: _Column, value: object) -> bool:
    try:
        column.decode(value)
    except (msgspec.MsgspecError, TypeError, ValueError):
        return False
    return True
