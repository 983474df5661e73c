"""Times put together: parts of periods, ranges, "since", "before", "after", and distances from another time.

Every phrase is tried at each word, the longest wins, and what it is made of is a time of one word more or less: no rule
calls itself, so a text is read in linear time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from palace_daemon.core.dates import calendar, named, relative
from palace_daemon.core.dates.calendar import DAY_MS, Now, Period
from palace_daemon.core.dates.found import LIKELY, SURE, DateKind, Found, Rule
from palace_daemon.core.dates.relative import around, moved, weekday_at
from palace_daemon.core.dates.words import (
    MONTHS,
    NUMBERS,
    ORDINALS,
    PARTS_OF_DAY,
    TENS,
    UNITS,
    WEEKDAYS,
    Quantity,
    Words,
    listed,
    quantity_at,
)

_LEADS = listed("in on at over during within for from of around throughout across through")
_FIRST_WORDS = frozenset(
    (
        *(*_LEADS, *MONTHS, *WEEKDAYS, *NUMBERS, *TENS, *ORDINALS, *calendar.SEASONS),
        *("between", "since", "before", "after", "prior", "earlier", "later", "until", "till", "up", "last", "past"),
        *("this", "these", "our", "my", "the", "previous", "preceding", "today", "tonight", "yesterday", "day", "week"),
        *("recently", "lately", "a", "an", "half", "couple", "few", "several", "about", "roughly", "approximately"),
        *("nearly", "almost", "maybe", "more", "less", "under", "some", "like", "probably", "only", "just", "full"),
        *("whole", "entire", "early", "mid", "late", "beginning", "start", "middle", "end", "year"),
        *("christmas", "xmas", "boxing", "new", "valentine", "valentines", "halloween", "thanksgiving"),
    )
)
"""Words with which some phrase begins: most words of a text are none, and are passed over quickly."""

_HEARTS = frozenset(
    (
        *(*MONTHS, *WEEKDAYS, *UNITS, *calendar.SEASONS, *PARTS_OF_DAY, "today", "tonight", "yesterday", "weekend"),
        *("weekends", "recently", "lately", "christmas", "xmas", "boxing", "valentine", "valentines", "halloween"),
        "thanksgiving",
    )
)
"""Words of which each phrase has one, if it has no date, quarter or year in digits. "New Year" has a unit."""
_HEART_WORDS_AHEAD = 14  # "between about half a dozen full ...": no phrase has more before its heart


def starts(words: Words) -> Iterator[int]:
    """Yield the places where a phrase may begin, in order: the few words before the heart of one."""
    done = 0
    for at in range(len(words)):
        token = words[at]
        is_year = token.kind == "number" and len(token.text) == 4
        is_unit = token.text in _HEARTS  # also of "10d", which is a number
        if is_unit or is_year or token.kind in ("date", "stamp", "yearMonth", "quarter"):
            yield from range(max(done, at - _HEART_WORDS_AHEAD), at + 1)
            done = at + 1


def phrase(words: Words, at: int, now: Now) -> Found | None:
    """Return the longest time that begins at ``at``, with the prepositions that belong to it."""
    token = words[at]
    if token.kind in ("mark", "other") or (token.kind == "word" and token.text not in _FIRST_WORDS):
        return None
    found: list[Found] = []
    lead = token.text if token.text in _LEADS else ""
    if lead == "of" and words[at - 1].kind in ("number", "ordinal"):
        return None  # "the 31st of April": no day, and the month alone was not meant
    first = _point(words, at + bool(lead), now, lead)
    if lead in ("around", "over") and (rough := _point(words, at, now)):
        found.append(rough)  # "around ten days ago": there it belongs to the number
    if first:
        found.append((_dashed(words, first, now, lead) if first.is_calendar else None) or first)
    elif days := _days_of_month(words, at + bool(lead), now, ()):
        found.append(days)
    found += [one for rule in _PHRASE_RULES if (one := rule(words, at, now))]
    return max(found, key=lambda one: one.end, default=None)


def _point(words: Words, at: int, now: Now, lead: str = "") -> Found | None:
    """Return the longest time or part of a time that begins at ``at``."""
    return _longest(words, at, now, lead, _RULES)


def _simple(words: Words, at: int, now: Now, lead: str = "") -> Found | None:
    """Return the longest time that begins at ``at`` and is no part of another."""
    return _longest(words, at, now, lead, _SIMPLE_RULES)


def _longest(words: Words, at: int, now: Now, lead: str, rules: tuple[Rule, ...]) -> Found | None:
    token = words[at]
    if token.kind in ("mark", "other") or (token.kind == "word" and token.text not in _FIRST_WORDS):
        return None
    best: Found | None = None
    for rule in rules:
        found = rule(words, at, now, lead)
        if found and (best is None or found.end > best.end):
            best = found
    return best


# ------------------------------------------------------------------------------------------------------ parts of a time


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
        found = _simple(words, words.skip(end, "in"), now, "early") if end else None
        if found and found.kind == "day":
            return found
        if found and found.kind == "period":
            readings = tuple((_cut(period, share), sure) for period, sure in found.readings)
            return Found(found.end, "period", readings)
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


def _week_of(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "the week of March 5", "the second week of March", "the last week of May 2024"."""
    place = words.skip(at, "the")
    if words.word(place) == "week" and words.word(place + 1) == "of":
        found = _simple(words, place + 2, now, "of")
        if found is None or found.kind != "day":
            return None
        weeks = tuple(
            (calendar.days(calendar.monday_of(calendar.day_of(period.start)), 7), sure)
            for period, sure in found.readings
        )
        return Found(found.end, "period", weeks)
    number = ORDINALS.get(words.word(place), 5 if words.word(place) == "last" else 0)
    if not 1 <= number <= 5 or not words.after(place + 1, "week of"):
        return None
    month = _simple(words, place + 3, now, "early")
    if (
        month is None
        or month.kind != "period"
        or not 28 <= (month.readings[0][0].end - month.readings[0][0].start) // DAY_MS <= 31
    ):
        return None
    period, sure = month.readings[0]
    start = period.end - 7 * DAY_MS if words.word(place) == "last" else period.start + (number - 1) * 7 * DAY_MS
    return Found(month.end, "period", ((Period(start, min(start + 7 * DAY_MS, period.end)), sure),))


_SIMPLE_RULES: tuple[Rule, ...] = (*named.RULES, *relative.RULES)
_RULES: tuple[Rule, ...] = (*_SIMPLE_RULES, _part, _dated_weekday, _week_of)


# --------------------------------------------------------------------------------------------------------------- ranges

_TO = ("to", "until", "till", "through", "thru")


def _between(words: Words, at: int, now: Now) -> Found | None:
    """Read "between X and Y", "between the 5th and the 7th of March", "between two and three weeks ago"."""
    if words.word(at) != "between":
        return None
    first = _point(words, at + 1, now, "between")
    if first is None:
        return _days_of_month(words, at + 1, now, ("and",))
    if first.kind == "ago" and words.word(first.end) != "and":
        return first
    return _range(words, first, first.end + 1, now, "between") if words.word(first.end) == "and" else None


def _from_to(words: Words, at: int, now: Now) -> Found | None:
    """Read "from X to Y", "from X until now", "from X on"."""
    if words.word(at) != "from":
        return None
    first = _point(words, at + 1, now, "from")
    if first is None:
        return _days_of_month(words, at + 1, now, _TO)
    if words.word(first.end) in ("on", "onward", "onwards") and not _point(words, first.end + 1, now, "on"):
        return _open_end(first, first.end + 1, now)
    is_joined = words.word(first.end) in _TO or words.mark(first.end) == "-"
    return _range(words, first, first.end + 1, now, "from") if is_joined else None


def _dashed(words: Words, first: Found, now: Now, lead: str) -> Found | None:
    """Read on after a date by the calendar: "March 5-7", "March 5 to April 2, 2024", "in March-May"."""
    if words.mark(first.end) != "-" and words.word(first.end) not in _TO:
        return None
    second = _range(words, first, first.end + 1, now, lead)
    return second if second and second.is_calendar else None


def _days_of_month(words: Words, at: int, now: Now, joints: tuple[str, ...]) -> Found | None:
    """Read "5 to 7 March 2024": the first day has the month of the second."""
    place = words.skip(at, "the")
    day = named.day_number(words, place)
    if not day or not (words.word(place + 1) in joints or words.mark(place + 1) == "-"):
        return None
    last = _simple(words, place + 2, now)
    if last is None or last.kind != "day" or not last.is_calendar or len(last.readings) > 1:
        return None
    period, certainty = last.readings[0]
    month_start = calendar.month_start(calendar.month_of(calendar.day_of(period.start)))
    start = calendar.start_of(month_start + day - 1)
    if start >= period.end:
        return None
    return Found(last.end, "range", ((Period(start, period.end), certainty),), is_calendar=True)


def _range(words: Words, first: Found, at: int, now: Now, lead: str) -> Found | None:
    """Return the range from ``first`` to the time that begins at ``at``; a missing year is worked out."""
    second = _point(words, at, now, lead)
    if second is None and words.word(at) == "now":
        second = Found(at + 1, "day", ((calendar.days(now.day), SURE),))
    if second is None and first.kind == "day" and first.is_calendar:
        first, second = _same_month(words, first, at, now)
    if second is None:
        return None
    if second.yearless:
        second = _anchored(second, calendar.day_of(first.readings[0][0].start), is_latest=False)
    elif first.yearless:
        first = _anchored(first, calendar.day_of(second.readings[0][0].start), is_latest=True)
    count = max(len(first.readings), len(second.readings))
    pairs = zip(_stretched(first, count), _stretched(second, count), strict=True)
    readings = tuple(
        (Period(min(start.start, end.start), max(start.end, end.end)), min(sure, as_sure))
        for (start, sure), (end, as_sure) in pairs
    )
    return Found(second.end, "range", readings, is_calendar=first.is_calendar and second.is_calendar)


def _stretched(found: Found, count: int) -> tuple[tuple[Period, float], ...]:
    """Return as many readings, the last one repeated."""
    return (*found.readings, *[found.readings[-1]] * (count - len(found.readings)))


def _same_month(words: Words, first: Found, at: int, now: Now) -> tuple[Found, Found | None]:
    """Return both ends of "March 5 to 7" and of "March 5-7, 2024"."""
    place = words.skip(at, "the")
    day = named.day_number(words, place)
    if not day or words[place].kind == "word":
        return first, None
    year, end = named.year_after(words, place + 1, now)
    month = calendar.month_of(calendar.day_of(first.readings[0][0].start))
    if year and first.yearless:
        first = named.named_day(now, month % 12 + 1, first.yearless[1], year, first.end) or first
    return first, named.named_day(now, month % 12 + 1, day, year or month // 12, end)


def _anchored(found: Found, day: int, *, is_latest: bool) -> Found:
    """Return what was named without a year at its latest before ``day``, or at its earliest after it."""
    if found.yearless is None:
        return found
    month, day_of_month = found.yearless
    if found.kind == "period":
        limit = calendar.month_of(day)
        index = calendar.latest_month(limit if is_latest else limit + 11, month - 1)
        period = calendar.months(index)
    else:
        pick = calendar.latest_day if is_latest else calendar.earliest_day
        picked = pick(day, month, day_of_month)
        if picked is None:
            return found
        period = calendar.days(picked)
    return found._replace(readings=((period, found.readings[0][1]),))


# ------------------------------------------------------------------------------------------------------------ open ends


def _since(words: Words, at: int, now: Now) -> Found | None:
    """Read "since X"; here a weekday alone is enough, the latest before today."""
    if words.word(at) != "since":
        return None
    found = _point(words, at + 1, now, "since")
    if found is None:
        weekday = weekday_at(words, at + 1)
        if weekday is None:
            return None
        day = calendar.weekday_before(now.day, weekday)
        found = Found(at + 2, "day", ((calendar.days(day), LIKELY),))
    return _open_end(found, found.end, now)


def _open_end(found: Found, end: int, now: Now) -> Found | None:
    """Return the time from the beginning of ``found`` up to the end of today."""
    today = calendar.days(now.day).end
    readings = tuple((Period(period.start, today), sure) for period, sure in found.readings if period.start <= now.ms)
    return Found(end, "since", readings) if readings else None


_BEFORE, _AFTER, _UNTIL = ("before", "prior to", "earlier than"), ("after", "later than"), ("until", "till", "up to")


def _before_or_after(words: Words, at: int, now: Now) -> Found | None:
    """Read "before X", "after X", "until X". What is after today has not been said yet."""
    kinds: tuple[tuple[DateKind, tuple[str, ...]], ...] = (("before", _BEFORE), ("after", _AFTER), ("before", _UNTIL))
    for kind, phrases in kinds:
        place = words.after_any(at, phrases)
        found = (
            _point(words, place, now, words.word(place - 1) if phrases is not _UNTIL else "until") if place else None
        )
        if found is None:
            continue
        today = calendar.days(now.day).end
        if kind == "after":
            periods = [(Period(period.end, today), sure) for period, sure in found.readings]
        else:
            is_before = phrases is _BEFORE
            periods = [
                (Period(calendar.MIN_MS, period.start if is_before else period.end), sure)
                for period, sure in found.readings
            ]
        readings = tuple((period, sure) for period, sure in periods if period.start < period.end)
        return Found(found.end, kind, readings) if readings else None
    return None


def _distance_from(words: Words, at: int, now: Now) -> Found | None:
    """Read "two weeks before Christmas", "the week after March 5": "the" makes it the one that adjoins."""
    quantity = quantity_at(words, at)
    if quantity is None and words.word(at) == "the" and words.word(at + 1) in UNITS:
        unit = UNITS[words.word(at + 1)]
        quantity = Quantity(1, 1, is_rough=False, unit=unit, end=at + 2, is_counted=False)
    if quantity is None or quantity.unit.minutes or words.word(quantity.end) not in ("before", "after"):
        return None
    found = _simple(words, quantity.end + 1, now, "before")
    if found is None:
        return None
    is_before = words.word(quantity.end) == "before"
    period, sure = found.readings[0]
    if words.word(at) == "the":
        edge = calendar.day_of(period.start) if is_before else calendar.day_of(period.end)
        other = calendar.day_of(moved(calendar.start_of(edge), -1 if is_before else 1, quantity))
        shifted = calendar.days(min(edge, other), abs(edge - other))
    else:
        shifted = around(period.start, quantity, -1 if is_before else 1)
    return Found(found.end, "ago", ((shifted, min(sure, LIKELY)),)) if shifted.start <= now.ms else None


_PHRASE_RULES = (_between, _from_to, _since, _before_or_after, _distance_from)
