"""Reads the timestamps that agents write: ISO with and without zone, epoch seconds and milliseconds, as text or number.

Invariant: a stamp that cannot be right is absent, never year 1 or 1970.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

EARLIEST_MS = 946_684_800_000
"""2000-01-01: no agent wrote before; an older value is a default or another unit."""

LATEST_MS = 4_102_444_800_000
"""2100-01-01."""

_SECONDS_LIMIT = 100_000_000_000
"""Epoch seconds stay below it until the year 5138, epoch milliseconds are above it since 1973."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_NUMBER = re.compile(r"\s*\d+(\.\d+)?\s*")


def to_epoch_ms(stamp: object) -> int | None:
    """Return UTC epoch milliseconds, or ``None`` for a stamp that is missing or cannot be right.

    A stamp without a zone counts as UTC, which is what the agents that leave it out write.
    """
    if isinstance(stamp, bool):
        return None
    if isinstance(stamp, int | float):
        try:
            return _from_number(float(stamp))
        except OverflowError:
            return None
    if not isinstance(stamp, str):
        return None
    if _NUMBER.fullmatch(stamp):
        return _from_number(float(stamp))
    return _from_iso(stamp.strip())


def zone_minutes(stamp: object) -> int | None:
    """Return the offset from UTC, in minutes east, of an ISO stamp that names one; ``Z`` names no writer's zone."""
    if not isinstance(stamp, str) or stamp.strip().endswith(("Z", "z")):
        return None
    try:
        offset = datetime.fromisoformat(stamp.strip()).utcoffset()
    except ValueError:
        return None
    return None if offset is None else int(offset / timedelta(minutes=1))


def _from_number(value: float) -> int | None:
    if not math.isfinite(value):
        return None
    return _plausible(round(value * 1000 if abs(value) < _SECONDS_LIMIT else value))


def _from_iso(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return _plausible((moment - _EPOCH) // _MILLISECOND)
    except (ValueError, OverflowError):
        return None


def _plausible(epoch_ms: int) -> int | None:
    return epoch_ms if EARLIEST_MS <= epoch_ms < LATEST_MS else None
