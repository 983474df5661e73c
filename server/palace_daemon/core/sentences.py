"""Sentences of a text, for reading it closely: what was said in one breath.

Pure functions, safe from any thread.
"""

from __future__ import annotations

import re

BUCKETS = 16
"""Places in a drawer that are told apart: as many as bits in the mask that the word index keeps for each word."""

_BREAK = re.compile(r"\n+|(?<=[.!?])[)\]\"'\u201d\u2019\u00bb*_`]*\s+|(?<=[\u3002\uff01\uff1f\uff61])")
_LABEL = re.compile(r"(?:> )?([^\s:\uff1a>][^\n:\uff1a]{0,39}): (?=\S)")


def pieces(text: str) -> list[str]:
    """Cut ``text`` at line ends and behind sentences; joined with spaces the pieces hold every word of it."""
    return [piece for piece in _BREAK.split(text) if piece and not piece.isspace()]


def label_of(paragraph: str) -> tuple[str, int]:
    """Return the word or two before a paragraph's first colon, as a speaker's name stands there, and where they end.

    Without such words an empty text and 0.
    """
    found = _LABEL.match(paragraph)
    return (found.group(1), found.end()) if found else ("", 0)


def bucket_masks(count: int) -> list[int]:
    """Return for each of ``count`` pieces the bit of its place; where there are more than bits, neighbours share."""
    return [1 << (at if count <= BUCKETS else at * BUCKETS // count) for at in range(count)]
