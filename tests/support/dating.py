"""Reading dates as the tables of the tests write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from palace_daemon.core.dates import spans

MIN_MS = -62_135_596_800_000
"""The beginning of year 1."""
NOW = "2024-06-13T15:30"
"""A Thursday."""


def at(moment: str) -> int:
    """Return a moment of UTC as epoch milliseconds."""
    return int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp() * 1000)


def read(text: str, now: str = NOW, offset: int = 0) -> str:
    """Return the spans of a text in local time: "2024-06-12..2024-06-13; ..2024-03-01"."""
    found = spans(text, at(now) - offset * 60_000, offset)
    return "; ".join(f"{_local(span.start_ms, offset)}..{_local(span.end_ms, offset)}" for span in found)


def _local(ms: int, offset: int) -> str:
    """Return a moment without its time where it is midnight, and nothing for the beginning of all time."""
    if ms == MIN_MS:
        return ""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms, minutes=offset)
    return moment.date().isoformat() if moment.hour == moment.minute == 0 else f"{moment:%Y-%m-%dT%H:%M}"
