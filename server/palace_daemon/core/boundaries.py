"""Where a text may be cut: paragraph, then line, then sentence, then word ends, and never inside a character.

Invariant: the best end of a piece depends on the text up to one character after the piece alone, and where a fence
begins there, on that line; so a text that grows at its end is cut the same way before (:func:`fixed_until`).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator

_PARAGRAPH = re.compile(r"\n(?:[ \t\r]*\n)+")
_SENTENCE = re.compile(r"[.!?…][)\]\"'”\u2019»*_`]*\s+|[。\uff01\uff1f｡][」』\uff09”\u2019\"]*\s*")
_FENCE = re.compile(r"^[ \t]{0,12}(`{3,}+|~{3,}+)(?P<info>[^\n]*)", re.MULTILINE)  # indented as far as lists nest
_FENCE_CHARS = 12 + 3 + 1  # the indent, the shortest mark, and one more: by then a line is a fence or is none
_FENCE_MARKS = (
    re.compile("```+"),
    re.compile("~~~+"),
)  # literal beginnings: 10 to 30 times as fast as trying each line

# How much of the room a piece must fill for an end of each kind to be taken; a weaker kind must pay with more.
_PARAGRAPH_SHARE = 0.5
_LINE_SHARE = 0.6
_SENTENCE_SHARE = 0.6
_WORD_SHARE = 0.75
_FENCE_SHARE = 0.25
_CLUSTER_CHARS = 32  # the longest emoji sequence in Unicode 16 has 10 code points; runs of marks have no end

_JOINER = "\u200d"
_SPACES = (" ", "\n", "\t", "\u3000")


class Boundaries:
    """The boundaries of one text. Immutable."""

    def __init__(self, text: str) -> None:
        self.text = text
        """The text that is cut."""
        self._fences = list(fences(text))

    def best(self, start: int, hard: int) -> int:
        """Return the best end, in ``(start, hard]``, of a piece that begins at ``start``."""
        if hard >= len(self.text):
            return len(self.text)
        length = hard - start
        cut_fence = self._fence_at(hard)
        if cut_fence and cut_fence[0] - start >= length * _FENCE_SHARE:
            return cut_fence[0]
        found = (
            self._last_paragraph(start, start + int(length * _PARAGRAPH_SHARE), hard)
            or self._last_line(start, start + int(length * _LINE_SHARE), hard)
            or self._last_sentence(start + int(length * _SENTENCE_SHARE), hard)
            or self._last_space(start + int(length * _WORD_SHARE), hard)
        )
        return found if found > start else self._between_characters(start, hard)

    def word_end(self, limit: int) -> int:
        """Return the last word end in the second half of ``[0, limit]``, or ``limit`` itself."""
        return self._last_space(limit // 2, limit) or self._between_characters(0, limit)

    def word_start(self, at: int) -> int:
        """Return the first word start in the first half of the text from ``at`` on, or ``at`` itself."""
        stop = (at + len(self.text)) // 2
        starts = [found + 1 for space in _SPACES if (found := self.text.find(space, at - 1, stop)) >= 0]
        return min(starts, default=0) or self._between_characters(0, at)

    def _fence_at(self, place: int) -> tuple[int, int] | None:
        """Return the fenced block that a cut at ``place`` would split."""
        before = bisect_left(self._fences, (place, 0)) - 1
        if before >= 0 and place < self._fences[before][1]:
            return self._fences[before]
        return None

    def _splits_fence(self, start: int, place: int, hard: int) -> bool:
        """Return whether a cut at ``place`` splits a block that lies whole in ``[start, hard]``."""
        fence = self._fence_at(place)
        return fence is not None and fence[0] >= start and fence[1] <= hard

    def _last_paragraph(self, start: int, low: int, hard: int) -> int:
        """Return the last end of a paragraph or of a fenced block in ``[low, hard]``, before a heading; 0 if none."""
        ends = [match.end() for match in _PARAGRAPH.finditer(self.text, low, hard)]
        first = bisect_left(self._fences, (low, 0))
        for fence in self._fences[max(0, first - 1) :]:
            if fence[0] > hard:
                break
            ends.extend(place for place in fence if low <= place <= hard)
        for end in sorted(ends, reverse=True):
            if not self._splits_fence(start, end, hard):
                return self._before_heading(low, end)
        return 0

    def _before_heading(self, low: int, end: int) -> int:
        """Move ``end`` before the heading that the piece would close with, if there is one."""
        last = len(self.text[low:end].rstrip())
        line = self.text.rfind("\n", low, low + last) + 1
        return line if line > low and self.text.startswith("#", line) and not self._fence_at(line) else end

    def _last_line(self, start: int, low: int, hard: int) -> int:
        end = hard
        while (newline := self.text.rfind("\n", low, end)) >= 0:
            if not self._splits_fence(start, newline + 1, hard):
                return newline + 1
            end = newline
        return 0

    def _last_sentence(self, low: int, hard: int) -> int:
        return max((match.end() for match in _SENTENCE.finditer(self.text, low, hard)), default=0)

    def _last_space(self, low: int, hard: int) -> int:
        return max(self.text.rfind(space, low, hard) for space in _SPACES) + 1

    def _between_characters(self, start: int, place: int) -> int:
        """Move ``place`` back to where no mark, joiner or pair is torn off, unless that is far."""
        for end in range(place, max(start, place - _CLUSTER_CHARS), -1):
            if not self._is_joined(start, end):
                return end
        return place

    def _is_joined(self, start: int, place: int) -> bool:
        """Return whether the characters before and after ``place``, in a piece from ``start``, belong together."""
        if not 0 < place < len(self.text):
            return False
        before, after = self.text[place - 1], self.text[place]
        if after.isascii():
            return before == "\r" and after == "\n"
        if (
            _JOINER in (before, after)
            or unicodedata.category(after).startswith("M")
            or "\U0001f3fb" <= after <= "\U0001f3ff"
        ):
            return True
        if not _is_regional(after):
            return False
        first = place
        while first > start and _is_regional(self.text[first - 1]):
            first -= 1
        return (place - first) % 2 == 1  # the letters of flags pair up from the first


def _is_regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def fixed_until(text: str, end: int) -> int:
    """Return the place up to which the best end of any piece stays the same, whatever replaces ``text[end:]``.

    An unfinished line that begins as a fence is in doubt as a whole: a backtick further on makes it inline code.
    """
    line = text.rfind("\n", 0, end) + 1
    return max(0, line - 1 if _FENCE.match(text, line, end) else end - _FENCE_CHARS)


def fences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the fenced code blocks of ``text``: where the opening line starts, and where the closing one ends.

    A last block that is not closed ends beyond the text. A block closed at the very end of the text ends there.
    """
    opened: re.Match[str] | None = None
    for match in _fence_lines(text):
        mark, info = match[1], match["info"]
        if opened is None:
            if "`" not in info:  # else it is inline code
                opened = match
        elif mark.startswith(opened[1]) and not info.strip():
            yield opened.start(), min(len(text), match.end() + 1)
            opened = None
    if opened is not None:
        yield opened.start(), len(text) + 1


def _fence_lines(text: str) -> Iterator[re.Match[str]]:
    """Yield the lines that begin with a fence mark."""
    for start in sorted(found.start() for mark in _FENCE_MARKS for found in mark.finditer(text)):
        match = _FENCE.match(text, text.rfind("\n", 0, start) + 1)
        if match and match.start(1) == start:
            yield match
