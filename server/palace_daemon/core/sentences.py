"""Sentences of a text, for reading it closely: what was said in one breath.

Pure functions, safe from any thread.
"""

from __future__ import annotations

import re

BUCKETS = 16
"""Places in a drawer that are told apart: as many as bits in the mask that the word index keeps for each word."""

# Where a line ends right behind a sentence, the line end alone is the break, and the next line keeps its indentation.
_SENTENCE_END = re.compile(r"([.!?])(?!\n)[)\]\"'\u201d\u2019\u00bb*_`]*\s+")
_UNSPACED_END = re.compile(r"([\u3002\uff01\uff1f\uff61])")
_LABEL = re.compile(r"(?:> )?([^\s:\uff1a>][^\n:\uff1a]{0,39}): (?=\S)")


def pieces(text: str) -> list[str]:
    """Cut ``text`` at line ends and behind sentences; joined with spaces the pieces hold every word of it."""
    text = _broken_at(_SENTENCE_END, text)
    if not text.isascii():
        text = _broken_at(_UNSPACED_END, text)
    return [piece for piece in text.split("\n") if piece and not piece.isspace()]


def _broken_at(end: re.Pattern[str], text: str) -> str:
    """Return ``text`` with a line end in place of each match, behind the mark that it begins with."""
    parts = end.split(text)
    parts[1::2] = [mark + "\n" for mark in parts[1::2]]
    return "".join(parts)


def label_of(paragraph: str) -> tuple[str, int]:
    """Return the word or two before a paragraph's first colon, as a speaker's name stands there, and where they end.

    Without such words an empty text and 0.
    """
    found = _LABEL.match(paragraph)
    return (found.group(1), found.end()) if found else ("", 0)


def bucket_masks(count: int) -> list[int]:
    """Return for each of ``count`` pieces the bit of its place; where there are more than bits, neighbours share."""
    return [1 << (at if count <= BUCKETS else at * BUCKETS // count) for at in range(count)]
