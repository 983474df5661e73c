"""One time at one place, or a part of one: "early March", "the second week of May", "Tuesday, March 5"."""

from __future__ import annotations

from typing import NamedTuple

from palace_daemon.core.dates import calendar, distances, named, relative
from palace_daemon.core.dates.calendar import DAY_MS, Now, Period
from palace_daemon.core.dates.found import DateKind, Found, Rule
from palace_daemon.core.dates.relative import weekday_at
from palace_daemon.core.dates.words import MONTHS, NUMBERS, ORDINALS, TENS, WEEKDAYS, Words, listed

LEADS = listed("in on at over during within for from of around throughout across through")
"""Prepositions that belong to the time behind them."""
FIRST_WORDS = frozenset(
    (
        *(*LEADS, *MONTHS, *WEEKDAYS, *NUMBERS, *TENS, *ORDINALS, *calendar.SEASONS),
        *(
            "between",
            "since",
            "no",
            "not",
            "sooner",
            "before",
            "after",
            "prior",
            "earlier",
            "later",
            "until",
            "till",
            "up",
            "last",
            "past",
        ),
        *("this", "these", "our", "my", "the", "previous", "preceding", "today", "tonight", "yesterday", "day", "week"),
        *("recently", "lately", "a", "an", "half", "couple", "few", "several", "about", "roughly", "approximately"),
        *("nearly", "almost", "maybe", "more", "less", "under", "some", "like", "probably", "only", "just", "full"),
        *("whole", "entire", "early", "mid", "late", "beginning", "start", "middle", "end", "year"),
        *("christmas", "xmas", "boxing", "new", "valentine", "valentines", "halloween", "thanksgiving"),
    )
)
"""Words with which some phrase begins: most words of a text are none, and are passed over quickly."""


class _Share(NamedTuple):
    """Which of the equal parts of a time a word names."""

    part: int
    parts: int
    parts_of_year: int
    """The end of a year is its last two months, of which nobody would say that they are merely late."""


_FIRST, _MIDDLE, _LAST = _Share(0, 3, 6), _Share(1, 3, 3), _Share(-1, 3, 6)
_SHARES: tuple[tuple[str, _Share], ...] = (
    ("early", _Share(0, 3, 3)),
    ("mid", _MIDDLE),
    ("late", _Share(-1, 3, 3)),
    ("the beginning of", _FIRST),
    ("beginning of", _FIRST),
    ("the start of", _FIRST),
    ("start of", _FIRST),
    ("the middle of", _MIDDLE),
    ("middle of", _MIDDLE),
    ("the end of", _LAST),
    ("end of", _LAST),
    ("the first half of", _Share(0, 2, 2)),
    ("the second half of", _Share(-1, 2, 2)),
)
_YEAR_DAYS = 365


def _part(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "early March", "mid 2023", "the end of last month", "the second half of 2023"; of a day it is the day."""
    for name, share in _SHARES:
        end = words.after(at, name)
        found = simple(words, words.skip(end, "in"), now, "early") if end else None
        if found and found.kind == "day":
            return found
        if found and found.kind == "period":
            readings = tuple((_cut(period, share), sure) for period, sure in found.readings)
            return Found(found.end, "period", readings)
    return None


def _part_of_past_year(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "last year in early March", "two years ago at the end of May"."""
    years_back, place = named.years_back_at(words, at)
    if not place or now.year <= years_back:
        return None
    place = words.skip(words.skip(place, ","), "in", "at")
    for name, share in _SHARES:
        end = words.after(place, name)
        found = named.yearless_at(words, end, now) if end else None
        dated = named.of_year(found, now.year - years_back, now) if found else None
        if dated and dated.kind == "period":
            return dated._replace(readings=tuple((_cut(period, share), sure) for period, sure in dated.readings))
    return None


def _cut(period: Period, share: _Share) -> Period:
    """Return one of the equal parts of a period, of a year in months, else in days; the last one takes what is over."""
    if (period.end - period.start) // DAY_MS >= _YEAR_DAYS:
        count = 12 // share.parts_of_year
        first = calendar.month_of(calendar.day_of(period.start))
        return calendar.months(first + share.part % share.parts_of_year * count, count)
    days = (period.end - period.start) // DAY_MS // share.parts
    start = period.start + share.part % share.parts * days * DAY_MS
    return Period(start, period.end if share.part < 0 else start + days * DAY_MS)


def _dated_weekday(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "Tuesday, March 5" as that day; the weekday adds nothing."""
    if weekday_at(words, at) is None:
        return None
    found = _longest(words, words.skip(at + 1, ","), now, "on", named.RULES)
    return found if found and found.kind == "day" and found.is_calendar else None


def _nth_of(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "the last Friday of February", "the first Monday in March", "the last day of 2023"."""
    place = words.skip(at, "the")
    number = 0 if words.word(place) == "last" else named.day_number(words, place)
    weekday, noun = weekday_at(words, place + 1), words.word(place + 1)
    is_counted = (number or words.word(place) == "last") and (weekday is not None or noun in ("day", "weekend"))
    if not is_counted or words.word(place + 2) not in ("of", "in"):
        return None
    found = simple(words, place + 3, now, "early")
    if found is None or found.kind != "period":
        return None
    period, sure = found.readings[0]
    weekday = calendar.SATURDAY if noun == "weekend" else weekday
    day = _nth_day(period, weekday, number)
    if day is not None and day > now.day and found.yearless:
        first = calendar.month_of(calendar.day_of(period.start)) - 12
        day = _nth_day(calendar.months(first, calendar.month_count(period)), weekday, number)
    if day is None:
        return None
    kind: DateKind = "period" if noun == "weekend" else "day"
    return Found(found.end, kind, ((calendar.days(day, 2 if noun == "weekend" else 1), sure),))


def _nth_day(period: Period, weekday: int | None, number: int) -> int | None:
    """Return the day of that number in a period, 0 for the last one, of all days or of those of one weekday."""
    first, last = calendar.day_of(period.start), calendar.day_of(period.end - 1)
    if weekday is None:
        day = first + number - 1 if number else last
    elif number:
        day = first + (weekday - calendar.weekday_of(first)) % 7 + 7 * (number - 1)
    else:
        day = calendar.weekday_before(last + 1, weekday)
    return day if first <= day <= last else None


def _week_of(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "the week of March 5", "the weekend of March 5", "the second week of March", "the last week of May 2024"."""
    place = words.skip(at, "the")
    if words.word(place) in ("week", "weekend") and words.word(place + 1) == "of":
        found = simple(words, place + 2, now, "of")
        is_range = found and words.mark(found.end) == "-" and words[found.end + 1].kind in ("number", "ordinal")
        if found is None or found.kind != "day" or is_range:
            return None  # "the weekend of March 9-10" names its days itself
        first, count = (0, 7) if words.word(place) == "week" else (calendar.SATURDAY, 2)
        weeks = tuple(
            (calendar.days(calendar.monday_of(calendar.day_of(period.start)) + first, count), sure)
            for period, sure in found.readings
        )
        return Found(found.end, "period", weeks)
    number = ORDINALS.get(words.word(place), 5 if words.word(place) == "last" else 0)
    if not 1 <= number <= 5 or not words.after(place + 1, "week of"):
        return None
    month = simple(words, place + 3, now, "early")
    if (
        month is None
        or month.kind != "period"
        or not 28 <= (month.readings[0][0].end - month.readings[0][0].start) // DAY_MS <= 31
    ):
        return None
    period, sure = month.readings[0]
    start = period.end - 7 * DAY_MS if words.word(place) == "last" else period.start + (number - 1) * 7 * DAY_MS
    return Found(month.end, "period", ((Period(start, min(start + 7 * DAY_MS, period.end)), sure),))


_SIMPLE_RULES: tuple[Rule, ...] = (*named.RULES, *relative.RULES, *distances.RULES)
_RULES: tuple[Rule, ...] = (*_SIMPLE_RULES, _part, _part_of_past_year, _dated_weekday, _nth_of, _week_of)


def point(words: Words, at: int, now: Now, lead: str = "") -> Found | None:
    """Return the longest time or part of a time that begins at ``at``."""
    return _longest(words, at, now, lead, _RULES)


def simple(words: Words, at: int, now: Now, lead: str = "") -> Found | None:
    """Return the longest time that begins at ``at`` and is no part of another."""
    return _longest(words, at, now, lead, _SIMPLE_RULES)


def _longest(words: Words, at: int, now: Now, lead: str, rules: tuple[Rule, ...]) -> Found | None:
    token = words[at]
    if token.kind in ("mark", "other") or (token.kind == "word" and token.text not in FIRST_WORDS):
        return None
    best: Found | None = None
    for rule in rules:
        found = rule(words, at, now, lead)
        if found and (best is None or found.end > best.end):
            best = found
    return best
