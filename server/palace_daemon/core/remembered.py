"""What was worked out of a short text lately, looked up without a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


class Remembered(dict[str, Value]):
    """The value of any text, by subscript: worked out when it is not known, kept while there is room. Thread-safe.

    Two generations: when the younger is full it becomes the elder, whose entries come back as they are met again. So
    what is met often stays, and a hit costs what a dictionary's does. Threads can at worst work out a value twice, so
    it must follow from the text alone.
    """

    def __init__(self, work_out: Callable[[str], Value], *, entries: int, longest: int) -> None:
        """Take the function of a text, how many texts to keep at most, and how many characters such a text may have."""
        super().__init__()
        self._work_out = work_out
        self._half = max(1, entries // 2)
        self._longest = longest
        self._elder: dict[str, Value] = {}

    def __missing__(self, text: str) -> Value:
        elder = self._elder
        value = elder[text] if text in elder else self._work_out(text)
        if len(text) <= self._longest:
            if len(self) >= self._half:
                self._elder = dict(self)
                self.clear()
            self[text] = value
        return value

    def forget(self) -> None:
        """Start anew, as if nothing had been met."""
        self._elder = {}
        self.clear()
