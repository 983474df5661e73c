"""Texts queued in one go at the end of a transaction are queued as one by one; the writer keeps its statements."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from palace_daemon.store import spaces, sqlite, vectors
from palace_daemon.store.writer import Writer


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    writer = Writer(sqlite.database_path(tmp_path))
    writer.run(lambda connection: spaces.use(connection, "model@1"))
    yield writer
    writer.close()


def queue(connection: sqlite.Connection) -> list[Any]:
    rows = connection.execute("SELECT text_hash, model, is_statement, started_at FROM pending_texts ORDER BY 1, 2")
    return [*rows, *connection.execute("SELECT model, pending FROM spaces ORDER BY model")]


def test_wishes_collected_and_written_are_those_told_one_by_one(writer: Writer) -> None:
    chance = random.Random(3)
    wishes = [
        (bytes([chance.randrange(20)]) * 16, chance.choice([None, 1, 5, 9]), chance.random() < 0.5) for _ in range(120)
    ]
    gone = [hash_ for hash_, _, _ in wishes[::7]]

    def one_by_one(connection: sqlite.Connection) -> list[Any]:
        for hash_, started_at, is_statement in wishes[:60]:
            vectors.want(connection, hash_, started_at, is_statement=is_statement)
        for hash_ in gone:
            vectors.drop_if_orphan(connection, hash_)
        for hash_, started_at, is_statement in wishes[60:]:
            vectors.want(connection, hash_, started_at, is_statement=is_statement)
        found = queue(connection)
        connection.execute("DELETE FROM pending_texts")
        return found

    def collected(connection: sqlite.Connection) -> list[Any]:
        wanted = vectors.Wanted()
        for hash_, started_at, is_statement in wishes[:60]:
            wanted.add(hash_, started_at, is_statement=is_statement)
        for hash_ in gone:
            wanted.drop_if_orphan(connection, hash_)
        for hash_, started_at, is_statement in wishes[60:]:
            wanted.add(hash_, started_at, is_statement=is_statement)
        wanted.write(connection)
        wanted.write(connection)
        return queue(connection)

    expected = writer.run(one_by_one)
    assert len(expected) > 15
    assert writer.run(collected) == expected


def test_statements_of_a_new_store_are_prepared_once(tmp_path: Path) -> None:
    connection = sqlite.open_writer(sqlite.database_path(tmp_path))
    try:
        prepared: list[Any] = []

        def note(*what: Any) -> int:
            prepared.append(what)
            return 0

        # SQLite asks for leave when a statement is prepared, not when it runs.
        connection.set_authorizer(note)
        for number in range(250):  # as many as migrations and mining have together, and more
            connection.execute(f"SELECT {number} FROM sqlite_schema").fetchall()
        assert prepared
        prepared.clear()
        for number in range(200, 250):
            connection.execute(f"SELECT {number} FROM sqlite_schema").fetchall()
        assert prepared == []
    finally:
        connection.close()
