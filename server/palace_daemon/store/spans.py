"""Rows of the ``drawers`` table as spans, and the hash under which a drawer's text is known."""

from __future__ import annotations

import hashlib

from palace_daemon.model import DrawerSpan

SPAN_COLUMNS = "ordinal, user_start, user_end, reply_start, reply_end, lead_head, lead_tail"
_NAMES = tuple(SPAN_COLUMNS.split(", "))


def columns_of(alias: str) -> str:
    """Return :data:`SPAN_COLUMNS`, each with a table alias."""
    return ", ".join(f"{alias}.{name}" for name in _NAMES)


def span_of(row: tuple[int, ...]) -> DrawerSpan:
    """Build a span from a row of :data:`SPAN_COLUMNS`."""
    return DrawerSpan(**dict(zip(_NAMES, row, strict=True)))


def span_values(span: DrawerSpan) -> tuple[int, ...]:
    """Return a span as a row of :data:`SPAN_COLUMNS`."""
    return tuple(getattr(span, name) for name in _NAMES)


def text_hash(text: str) -> bytes:
    """Return the 16 bytes under which the vector of a drawer's text is kept."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
