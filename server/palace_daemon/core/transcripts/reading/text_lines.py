"""A text by lines, with their places, and which of them stand in fenced code."""

from __future__ import annotations

import re
from itertools import accumulate

from palace_daemon.core.turns import Place

_FENCE = re.compile(r"\s*(`{3,}|~{3,})(.*)")


class TextLines:
    """The lines of a text with LF line ends. Offsets are of its UTF-8 form."""

    def __init__(self, text: str) -> None:
        """Split ``text``."""
        self.lines = text.split("\n")
        self._starts = list(accumulate((len(line.encode("utf-8", "replace")) + 1 for line in self.lines), initial=0))

    def place(self, first: int, end: int) -> Place:
        """Return the place of the lines from index ``first`` up to ``end``, which is left out."""
        return Place(first + 1, self._starts[first], max(self._starts[end] - 1, self._starts[first]))

    def text(self, first: int, end: int) -> str:
        """Return those lines without blank ones around them."""
        return "\n".join(self.lines[first:end]).strip("\n").rstrip()

    def is_blank(self, index: int) -> bool:
        """Return whether a line is blank; what lies outside the text counts as blank."""
        return not 0 <= index < len(self.lines) or not self.lines[index].strip()


class Fence:
    """Follows fenced code through the lines of markdown, nested fences of other lengths included."""

    def __init__(self) -> None:
        """Begin outside."""
        self._open = ""

    @property
    def is_open(self) -> bool:
        """Whether the next line stands in fenced code."""
        return bool(self._open)

    def feed(self, line: str) -> None:
        """Take the next line."""
        match = _FENCE.match(line)
        if match is None:
            return
        mark, rest = match[1], match[2]
        if not self._open:
            self._open = mark if mark[0] == "~" or "`" not in rest else ""
        elif mark[0] == self._open[0] and len(mark) >= len(self._open) and not rest.strip():
            self._open = ""
