"""Damaging a database file on purpose."""

from __future__ import annotations

from pathlib import Path

from palace_daemon.store import pages, sqlite
from support.claude import append, turn

WORD = "quixotry"
"""Stands in one question alone, which is forgotten."""


def write_sessions(transcripts: Path, turns: int) -> None:
    """Write two sessions of so many turns, of ever longer replies, and one turn more that holds :data:`WORD`."""
    transcripts.mkdir()
    for number in range(2):
        lines = [
            turn(n, f"Question {n} of {number}? I prefer tide {n}.", f"Tide {n}. " * (1 + 60 * n), session=f"s{number}")
            for n in range(turns)
        ]
        append(transcripts / f"{number}.jsonl", "".join(lines))
    append(transcripts / "1.jsonl", turn(turns + 1, f"What of {WORD}?", "Nothing.", session="s1"))


def root_of(path: Path, name: str) -> int:
    """Return the first page of a table or an index."""
    connection = sqlite.open_copy(path)
    try:
        (number,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name=?", (name,)).fetchone()
        return int(number)
    finally:
        connection.close()


def leaf_of_exchanges(path: Path) -> int:
    """Return the first page that holds whole exchanges."""
    file = pages.PageFile(path)
    try:
        for number in range(1, file.count + 1):
            rows = list(file.rows(number)) if file.kind(number) == pages.TABLE_LEAF else []
            if rows and all(row is not None and len(row.values) == 28 for row in rows):
                return number
    finally:
        file.close()
    raise LookupError("there are no exchanges")


def overwrite(path: Path, *numbers: int, size: int = pages.PAGE_BYTES) -> None:
    """Write 255 over the beginnings of pages, as a bad disk does."""
    with path.open("rb+") as file:
        for number in numbers:
            file.seek((number - 1) * pages.PAGE_BYTES)
            file.write(b"\xff" * size)


def execute(path: Path, *statements: str) -> None:
    """Run statements that no code of ours would run, references unchecked."""
    connection = sqlite.open_writer(path)
    try:
        connection.execute("PRAGMA foreign_keys=OFF")
        for statement in statements:
            connection.execute(statement)
    finally:
        connection.close()
