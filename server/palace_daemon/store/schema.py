"""What a database of this version consists of, compared with what a file has: its number is not believed."""

from __future__ import annotations

import functools
from typing import NamedTuple

from palace_daemon.store import migrations, sqlite
from palace_daemon.store.sqlite import Connection


class Part(NamedTuple):
    """A table, an index or a trigger."""

    kind: str
    name: str
    table: str
    sql: str


def missing(connection: Connection) -> list[str]:
    """Return the tables, indexes, triggers and columns that a database should have and has not."""
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
    lacking = [f"{part.kind} {part.name}" for part in parts() if part.name not in names]
    for table, columns in _columns().items():
        if table in names:
            held = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
            lacking += [f"column {table}.{column}" for column in columns if column not in held]
    return lacking


@functools.cache
def parts() -> tuple[Part, ...]:
    """Return what this version makes: tables, then indexes, then triggers."""
    connection = sqlite.open_scratch()
    try:
        migrations.migrate(connection)
        rows = connection.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
            " ORDER BY type='trigger', type='index', name"
        ).fetchall()
        return tuple(Part(*row) for row in rows)
    finally:
        connection.close()


@functools.cache
def _columns() -> dict[str, tuple[str, ...]]:
    connection = sqlite.open_scratch()
    try:
        migrations.migrate(connection)
        return {
            part.name: tuple(row[1] for row in connection.execute(f"PRAGMA table_info({part.name})"))
            for part in parts()
            if part.kind == "table"
        }
    finally:
        connection.close()
