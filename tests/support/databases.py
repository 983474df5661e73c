"""Databases for tests: made from dumps or by hand, and read as the service reads them."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from palace_daemon.core.transcripts.base import DatabaseFormat
from palace_daemon.store.foreign import ForeignDatabase
from support.formats import Whole, read_bytes


def build(path: Path, script: str) -> Path:
    """Make a database from SQL."""
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()
    return path


def copy(sample: Path, path: Path) -> Path:
    """Put a sample, a database or a dump, where it can be opened: the samples are read-only."""
    if sample.suffix == ".sql":
        return build(path, sample.read_text())
    shutil.copyfile(sample, path)
    return path


def stamps(known: DatabaseFormat, path: Path) -> dict[str, str]:
    """Return the conversations and what changes with them."""
    with ForeignDatabase(str(path)) as database:
        return dict(database.conversations(known.conversations))


def rows(known: DatabaseFormat, path: Path, conversation: str) -> bytes:
    """Return one conversation's rows as the lines that a parser gets."""
    with ForeignDatabase(str(path)) as database:
        return b"".join(database.lines(known.records, conversation))


def read_database(known: DatabaseFormat, path: Path) -> dict[str, Whole]:
    """Read all conversations."""
    return {name: read_bytes(known, rows(known, path, name), f"{path}!/{name}") for name in stamps(known, path)}


def tables(path: Path) -> dict[str, frozenset[str]]:
    """Return the tables and their columns."""
    with ForeignDatabase(str(path)) as database:
        return database.tables()


_ODD: tuple[Any, ...] = (None, 7, -1.5, 10**30, True, "", "x", "{", "\x00", [], [None], {}, {"type": 1}, {"a": []})


def mutations(lines: bytes, count: int = 100) -> Iterator[bytes]:
    """Yield rows that nobody wrote: a value of another type somewhere, in nested JSON too, or bytes lost or changed."""
    for seed in range(count):
        chance = random.Random(seed)
        if seed % 4 == 0:
            data = bytearray(lines)
            for _ in range(chance.randrange(1, 6)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            yield bytes(data[: chance.randrange(1, len(data) + 1)])
            continue
        records = [json.loads(line) for line in lines.splitlines()]
        for _ in range(chance.randrange(1, 4)):
            index = chance.randrange(len(records))
            records[index] = _mutated(records[index], chance)
        yield b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _mutated(value: Any, chance: random.Random) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "[") and chance.random() < 0.9:
        try:
            return json.dumps(_mutated(json.loads(value), chance))
        except ValueError:
            return value[: len(value) // 2]
    if isinstance(value, dict | list) and value and chance.random() < 0.9:
        changed = value.copy()
        place: Any = chance.choice(list(value)) if isinstance(value, dict) else chance.randrange(len(value))
        changed[place] = _mutated(value[place], chance)
        return changed
    return chance.choice(_ODD)
