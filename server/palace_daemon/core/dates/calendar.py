"""Calendar arithmetic in the caller's zone: days, weeks, months, seasons and holidays as half-open periods.

Invariant: nothing raises. Days are proleptic ordinals (1 is Monday, 1 January of year 1), months are ``year * 12 +
month - 1``; whatever lies outside the years 1 to 9999 is moved to their edge, so a period may become empty there.
"""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000

SATURDAY = 5
"""Counted from 0 for Monday."""

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_LAST = date.max.toordinal()
_MONTH_FIRST, _MONTH_LAST = 12, 9999 * 12 + 11

MIN_MS = (1 - _EPOCH_DAY) * DAY_MS
"""The first millisecond of year 1."""
MAX_MS = (_DAY_LAST + 1 - _EPOCH_DAY) * DAY_MS - 1
"""The last millisecond of year 9999: the latest bound, so that each bound is a date that Python can show."""

SEASONS = {"spring": 2, "summer": 5, "autumn": 8, "fall": 8, "winter": 11}
"""Season to its first month, counted from 0: those of the northern hemisphere by whole months, three each."""

THANKSGIVING = (11, 0)
"""The fourth Thursday of November: day 0 stands for what :func:`day_in_year` has to work out."""

_LEAP_YEARS = 8  # two leap days are at most eight years apart (1896 and 1904)


class Period(NamedTuple):
    """Local milliseconds since 1970-01-01T00:00 local time, half open."""

    start: int
    end: int


class Now(NamedTuple):
    """The caller's moment, by the caller's clock."""

    ms: int
    day: int
    year: int
    month: int
    """Month index."""


def now_at(now_ms: int, utc_offset_minutes: int) -> Now:
    """Return the local moment; what lies outside the years 1 to 9999 is moved to their edge."""
    local = clamp(now_ms + utc_offset_minutes * MINUTE_MS)
    day = local // DAY_MS + _EPOCH_DAY
    there = date.fromordinal(day)
    return Now(local, day, there.year, there.year * 12 + there.month - 1)


def clamp(ms: int) -> int:
    """Return ``ms``, moved into the years 1 to 9999."""
    return min(max(ms, MIN_MS), MAX_MS)


def start_of(day: int) -> int:
    """Return the first millisecond of a day."""
    return clamp((day - _EPOCH_DAY) * DAY_MS)


def day_of(ms: int) -> int:
    """Return the day in which a millisecond lies."""
    return clamp(ms) // DAY_MS + _EPOCH_DAY


def days(first: int, count: int = 1) -> Period:
    """Return ``count`` days from ``first`` on."""
    return Period(start_of(first), start_of(first + count))


def hours(day: int, first: int, after: int) -> Period:
    """Return the hours ``[first, after)`` of a day; hours from 24 on are those of the next one."""
    return Period(clamp(start_of(day) + first * HOUR_MS), clamp(start_of(day) + after * HOUR_MS))


def weekday_of(day: int) -> int:
    """Return 0 for Monday to 6 for Sunday."""
    return (day - 1) % 7


def monday_of(day: int) -> int:
    """Return the Monday of the week in which a day lies."""
    return day - weekday_of(day)


def weekday_before(day: int, weekday: int) -> int:
    """Return the last such weekday that lies wholly before ``day``."""
    return day - ((weekday_of(day) - weekday - 1) % 7 + 1)


def month_start(month: int) -> int:
    """Return the first day of a month."""
    if month > _MONTH_LAST:
        return _DAY_LAST + 1
    month = max(month, _MONTH_FIRST)
    return date(month // 12, month % 12 + 1, 1).toordinal()


def months(first: int, count: int = 1) -> Period:
    """Return ``count`` whole months from the month ``first`` on."""
    return Period(start_of(month_start(first)), start_of(month_start(first + count)))


def month_count(period: Period) -> int:
    """Return of how many months a period of whole months is, one at least."""
    return max(1, month_of(day_of(period.end)) - month_of(day_of(period.start)))


def month_of(day: int) -> int:
    """Return the month in which a day lies."""
    there = date.fromordinal(min(max(day, 1), _DAY_LAST))
    return there.year * 12 + there.month - 1


def shifted(day: int, by_months: int) -> int:
    """Return the same day so many months later, or the last day of a month that is too short for it."""
    month = month_of(day)
    target = month + by_months
    return min(month_start(target) + day - month_start(month), month_start(target + 1) - 1)


def day_in_year(year: int, month: int, day: int) -> int | None:
    """Return the day of that year, month 1 to 12; None where there is no such day."""
    if (month, day) == THANKSGIVING and 1 <= year <= 9999:
        first = date(year, month, 1).toordinal()
        return first + (3 - weekday_of(first)) % 7 + 21
    try:
        return date(year, month, day).toordinal()
    except ValueError:
        return None


def latest_day(limit: int, month: int, day: int) -> int | None:
    """Return the last such day of a year that is not after ``limit``."""
    year = month_of(limit) // 12
    found = (day_in_year(year - back, month, day) for back in range(_LEAP_YEARS + 1))
    return next((one for one in found if one is not None and one <= limit), None)


def earliest_day(limit: int, month: int, day: int) -> int | None:
    """Return the first such day of a year that is not before ``limit``."""
    year = month_of(limit) // 12
    found = (day_in_year(year + on, month, day) for on in range(_LEAP_YEARS + 1))
    return next((one for one in found if one is not None and one >= limit), None)


def latest_month(limit: int, month: int) -> int:
    """Return the last month of that name (counted from 0) that is not after the month ``limit``."""
    return limit - (limit - month) % 12
