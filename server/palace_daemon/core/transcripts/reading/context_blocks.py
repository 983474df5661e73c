"""Closed blocks of context that programs put after a person's words: where the words end before them. Linear."""

from __future__ import annotations

import re
from collections.abc import Collection

_CLOSING = re.compile(r"</(\w+)>\Z")
_MAX_TAG = 64


def end_of_words(text: str, tags: Collection[str], start: int = 0) -> int:
    """Return where ``text`` from ``start`` on ends without blocks of ``tags`` and blanks at its end."""
    end = end_of_text(text, start, len(text))
    while closing := _CLOSING.search(text, max(start, end - _MAX_TAG), end):
        tag = closing.group(1)
        begin = text.rfind(f"<{tag}", start, closing.start()) if tag in tags else -1
        if begin < 0 or not (text[begin + len(tag) + 1] == ">" or text[begin + len(tag) + 1].isspace()):
            break
        end = end_of_text(text, start, begin)
    return end


def end_of_text(text: str, start: int, end: int) -> int:
    """Return where ``text`` between two offsets ends without blanks."""
    while end > start and text[end - 1].isspace():
        end -= 1
    return end
