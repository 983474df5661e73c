"""Whether a parser's stored state still holds a text that must not be kept, whatever the format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

_INSIDE_CHARS = 16
"""Shorter texts are looked for as whole values only: a prompt such as "go on" is a part of many texts."""


def holds(state: bytes, texts: Iterable[str]) -> bool:
    """Return whether one of ``texts`` is a value in the snapshot ``state``, or a long one a part of a value."""
    wanted = {text.strip() for text in texts} - {""}
    return bool(wanted) and _in_bytes(state, wanted)


def _in_bytes(data: bytes, wanted: set[str]) -> bool:
    """Look into ``data``: MessagePack, as all states are, else plain bytes."""
    try:
        value = msgspec.msgpack.decode(data)
    except (ValueError, RecursionError):
        return any(text.encode("utf-8", "replace") in data for text in wanted)
    return _in_value(value, wanted)


def _in_value(value: Any, wanted: set[str]) -> bool:
    if isinstance(value, str):
        stripped = value.strip()
        return stripped in wanted or any(len(text) >= _INSIDE_CHARS and text in stripped for text in wanted)
    if isinstance(value, bytes):
        return _in_bytes(value, wanted)
    if isinstance(value, dict):
        return any(_in_value(item, wanted) for pair in value.items() for item in pair)
    if isinstance(value, list | tuple):
        return any(_in_value(item, wanted) for item in value)
    return False
