"""Closed blocks between two fixed marks: found by two searches each, so that the time is linear.

One pattern for both ends (``<a>.*?</a>``) goes on to the end of the text from every opening that is never closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANKS = re.compile(r"\s*")


def skip_blanks(text: str, start: int) -> int:
    """Return where the blanks that begin at ``start`` end."""
    blanks = _BLANKS.match(text, start)
    return blanks.end() if blanks else start


def closed_blocks(text: str, opening: str, closing: str) -> Iterator[tuple[int, int]]:
    """Yield where each closed block begins and ends, its marks included; an inner opening counts for nothing."""
    done = 0
    while (begin := text.find(opening, done)) >= 0:
        end = text.find(closing, begin + len(opening))
        if end < 0:
            return
        done = end + len(closing)
        yield begin, done


def without_blocks(
    text: str, opening: str, closing: str, *, has_blanks_before: bool = False, has_blanks_after: bool = False
) -> tuple[str, int]:
    """Return ``text`` without closed blocks, and how many they were.

    Args:
        text: Any text.
        opening: Mark that begins a block.
        closing: Mark that ends it.
        has_blanks_before: Whether the blanks before a block are part of it.
        has_blanks_after: Whether those after it are.
    """
    pieces: list[str] = []
    done = 0
    for begin, end in closed_blocks(text, opening, closing):
        piece = text[done:begin]
        pieces.append(piece.rstrip() if has_blanks_before else piece)
        done = skip_blanks(text, end) if has_blanks_after else end
    return "".join((*pieces, text[done:])), len(pieces)


class Closings:
    """Where closing tags stand in a text, asked for from front to back: each search goes on where the last one ended.

    Args:
        text: The text.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: dict[str, int] = {}

    def after(self, tag: str, position: int) -> int:
        """Return where the next ``</tag>`` at or behind ``position`` begins, -1 where there is none."""
        found = self._found.get(tag, 0)
        if found >= 0 and (tag not in self._found or found < position):
            found = self._found[tag] = self._text.find(f"</{tag}>", position)
        return found
