"""The dates that sets write, as UTC epoch ms.

No set names a zone: what is written is taken as UTC, so that a run gives the same order everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from palace_daemon.bench.sets.base import Session
from palace_daemon.errors import ConfigError

DAY_MS = 86_400_000
UNDATED_NOW_MS = 1_735_689_600_000
"""When a question is asked where nothing is dated: 1 January 2025. Any fixed time does, no clock does."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WITH_SLASHES = re.compile(
    r"(?P<year>\d{4})/(?P<month>\d{1,2})/(?P<day>\d{1,2})(?: \(\w+\))?(?: (?P<hour>\d{1,2}):(?P<minute>\d{2}))?"
)
_TIME_FIRST = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2}) ?(?P<half>[ap]m) on "
    r"(?P<day>\d{1,2}) (?P<month>[A-Za-z]{3,}),? (?P<year>\d{4})"
)
_MONTH_FIRST = re.compile(r"(?P<month>[A-Za-z]{3,})[- ](?P<day>\d{1,2}),?[- ](?P<year>\d{4})")


def epoch_ms(text: str) -> int | None:
    """Return the time that ``text`` names, or None where it names none in a way that is known.

    Known are ISO 8601, ``2023/05/30 (Tue) 22:42``, ``1:56 pm on 8 May, 2023`` and ``March-15-2024``. A date without
    a time is its midnight.
    """
    text = text.strip()
    try:
        for pattern in (_WITH_SLASHES, _TIME_FIRST, _MONTH_FIRST):
            if match := pattern.fullmatch(text):
                return _ms(_from_parts(match.groupdict()))
        return _ms(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return None


def session_ms(text: str, otherwise: str) -> int | None:
    """Return when a session began; None where ``text`` is empty.

    A session that lost its date would be ranked otherwise, and nothing would say so.

    Args:
        text: The date as the set has it.
        otherwise: What the error begins with.

    Raises:
        ConfigError: There is a date, and it cannot be read.
    """
    found = epoch_ms(text)
    if found is None and text.strip():
        raise ConfigError(f"{otherwise}: {text[:80]!r} is no date")
    return found


def _from_parts(parts: dict[str, str | None]) -> datetime:
    month = parts["month"] or ""
    hour = int(parts.get("hour") or 0)
    if half := parts.get("half"):
        if not 1 <= hour <= 12:
            raise ValueError("no hour of half a day")
        hour = hour % 12 + (12 if half == "pm" else 0)
    return datetime(
        int(parts["year"] or 0),
        int(month) if month.isdecimal() else _MONTHS.index(month[:3].lower()) + 1,
        int(parts["day"] or 0),
        hour,
        int(parts.get("minute") or 0),
        tzinfo=UTC,
    )


def _ms(moment: datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def day_after(sessions: Iterable[Session]) -> int:
    """Return when a question is asked that the set does not date: a day after the latest session began."""
    dates = [session.started_at for session in sessions if session.started_at is not None]
    return max(dates) + DAY_MS if dates else UNDATED_NOW_MS
