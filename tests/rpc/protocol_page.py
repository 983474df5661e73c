"""Reads ``docs/protocol.md``: its examples, in order, and how an example stands for what the daemon says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PAGE = Path(__file__).resolve().parents[2] / "docs" / "protocol.md"
TEXT = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
HOME = "/home/you"
"""The home directory in which the page's examples were made."""
MORE = "..."
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_BLOCK = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """One block of the page: a request, its answer, or a notification."""

    line: int
    message: dict[str, Any]

    @property
    def is_request(self) -> bool:
        return "method" in self.message and "id" in self.message

    @property
    def is_answer(self) -> bool:
        return "method" not in self.message


def examples(text: str = TEXT) -> list[Example]:
    """Return the page's blocks of JSON."""
    return [Example(text.count("\n", 0, found.start()) + 2, json.loads(found[1])) for found in _BLOCK.finditer(text)]


def sections(text: str = TEXT) -> dict[str, str]:
    """Return the text below each heading of the third level, by the heading."""
    parts = re.split(r"^### `?([^`\n]+)`?\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (re.split(r"^## ", part, flags=re.MULTILINE)[0] for part in parts[2::2]), strict=True))


def moved(value: Any, old: str, new: str) -> Any:
    """Return ``value`` with paths below ``old`` moved to ``new``."""
    if isinstance(value, dict):
        return {moved(key, old, new): moved(inner, old, new) for key, inner in value.items()}
    if isinstance(value, list):
        return [moved(inner, old, new) for inner in value]
    return value.replace(old, new) if isinstance(value, str) else value


def differences(shown: Any, seen: Any, at: str = "$") -> Iterator[str]:
    """Yield where what the daemon said is not what the page shows."""
    if isinstance(shown, str) and shown.startswith("<") and shown.endswith(">"):
        if not _stands_for(shown, seen):
            yield f"{at}: {seen!r} is no {shown}"
    elif isinstance(shown, dict) and isinstance(seen, dict):
        for key in {**shown, **seen}:
            if key not in shown or key not in seen:
                yield f"{at}: {key!r} is only {'said' if key in seen else 'shown'}"
            else:
                yield from differences(shown[key], seen[key], f"{at}.{key}")
    elif isinstance(shown, list) and isinstance(seen, list):
        whole = [item for item in shown if item != MORE]
        if len(whole) > len(seen) or (len(whole) < len(seen) and shown[-1:] != [MORE]):
            yield f"{at}: {len(seen)} items"
        for number, (one, other) in enumerate(zip(whole, seen, strict=False)):
            yield from differences(one, other, f"{at}[{number}]")
    elif type(shown) is not type(seen) or shown != seen:
        yield f"{at}: said {seen!r}, shown {shown!r}"


def _stands_for(mark: str, seen: Any) -> bool:
    is_number = isinstance(seen, int | float) and not isinstance(seen, bool)
    return {
        "<string>": isinstance(seen, str),
        "<number>": is_number,
        "<boolean>": isinstance(seen, bool),
        "<time>": isinstance(seen, str) and _TIME.fullmatch(seen) is not None,
        "<object>": isinstance(seen, dict),
        "<number or null>": seen is None or is_number,
    }[mark]
