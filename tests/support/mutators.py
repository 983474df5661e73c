"""Named ways in which a transcript can be damaged, each a pure function of the bytes and a seeded chance."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

Mutator = Callable[[bytes, random.Random], bytes]

_WRONG: tuple[Any, ...] = (
    None, True, 0, -1, 1e308, "", "\ud83d", [], {}, [[]], {"a": {"b": []}}, "x" * 5_000, 2**63, [None, 1, "a", {}],
)  # fmt: skip
_DEEP = b"[" * 4_000


def flip_bytes(data: bytes, chance: random.Random) -> bytes:
    """Change a few bytes anywhere."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        if changed:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def cut_end(data: bytes, chance: random.Random) -> bytes:
    """Lose the end, as a crash does."""
    return data[: chance.randrange(len(data) + 1)]


def cut_start(data: bytes, chance: random.Random) -> bytes:
    """Lose the beginning, as a rotation does."""
    return data[chance.randrange(len(data) + 1) :]


def cut_middle(data: bytes, chance: random.Random) -> bytes:
    """Lose a piece."""
    start, end = sorted((chance.randrange(len(data) + 1), chance.randrange(len(data) + 1)))
    return data[:start] + data[end:]


def join_lines(data: bytes, chance: random.Random) -> bytes:
    """Lose some line ends."""
    lines = data.split(b"\n")
    return b"".join(line + (b"" if chance.random() < 0.2 else b"\n") for line in lines)


def swap_lines(data: bytes, chance: random.Random) -> bytes:
    """Exchange two lines."""
    lines = data.split(b"\n")
    one, two = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[one], lines[two] = lines[two], lines[one]
    return b"\n".join(lines)


def repeat_lines(data: bytes, chance: random.Random) -> bytes:
    """Write some lines several times, as a compaction or a retry does."""
    lines = data.split(b"\n")
    start = chance.randrange(len(lines))
    piece = lines[start : start + chance.randint(1, 10)]
    at = chance.randrange(len(lines) + 1)
    return b"\n".join(lines[:at] + piece * chance.randint(1, 3) + lines[at:])


def wrong_types(data: bytes, chance: random.Random) -> bytes:
    """Put a value of another type in place of some values of one record."""
    lines = data.split(b"\n")
    index = chance.randrange(len(lines))
    try:
        value = json.loads(lines[index])
    except ValueError:
        return data.replace(b'"', b"1", 2)
    for _ in range(chance.randint(1, 3)):
        value = _spoil(value, chance)
    lines[index] = json.dumps(value).encode()
    return b"\n".join(lines)


def huge_values(data: bytes, chance: random.Random) -> bytes:
    """Insert a very long string, number, or nesting."""
    at = chance.randrange(len(data) + 1)
    piece = chance.choice((b"9" * 400, b'"' + b"A" * 60_000 + b'"', _DEEP, b'{"a":' * 2_000, b"word " * 20_000))
    return data[:at] + piece + data[at:]


def invalid_utf8(data: bytes, chance: random.Random) -> bytes:
    """Insert bytes that are no UTF-8."""
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice((b"\xff", b"\xc3", b"\xed\xa0\xbd", b"\xf8\x88", b"\x80" * 9)) + data[at:]


def nul_bytes(data: bytes, chance: random.Random) -> bytes:
    """Insert a block of NULs, as a lost page leaves it."""
    at = chance.randrange(len(data) + 1)
    return data[:at] + b"\0" * chance.randint(1, 600) + data[at:]


def foreign_line_ends(data: bytes, chance: random.Random) -> bytes:
    """Write CRLF, or put Unicode's own separators into strings."""
    if chance.random() < 0.5:
        return data.replace(b"\n", b"\r\n")
    return data.replace(b" ", "\u2028".encode(), chance.randint(1, 5))


MUTATORS: dict[str, Mutator] = {
    one.__name__: one
    for one in (
        flip_bytes, cut_end, cut_start, cut_middle, join_lines, swap_lines, repeat_lines, wrong_types, huge_values,
        invalid_utf8, nul_bytes, foreign_line_ends,
    )
}  # fmt: skip


def _spoil(value: Any, chance: random.Random) -> Any:
    """Return ``value`` with one value somewhere inside it exchanged."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(sorted(value))
        return value | {key: _spoil(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.85:
        index = chance.randrange(len(value))
        return [*value[:index], _spoil(value[index], chance), *value[index + 1 :]]
    return chance.choice(_WRONG)
