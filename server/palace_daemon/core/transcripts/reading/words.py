"""Small readings of untyped values, shared by the formats."""

from __future__ import annotations

import re
from typing import Any

_SEPARATORS = re.compile(r"[\\/]+")
_NO_WORD = re.compile(r"[^a-z0-9_]+")
_MAX_WORD = 40


def as_text(value: Any) -> str:
    """Return ``value`` if it is a string, else an empty one: fields of another type count as absent."""
    return value if isinstance(value, str) else ""


def path_parts(path: str) -> list[str]:
    """Return the parts of a path of any platform, the file name last. Bytes that are no UTF-8 become ``?``."""
    return _SEPARATORS.split(path.encode("utf-8", "replace").decode("utf-8"))


def reason_word(value: str) -> str:
    """Return a short lower-case word for counts and messages; a line type may be anything."""
    return _NO_WORD.sub("_", value.lower()).strip("_")[:_MAX_WORD] or "none"
