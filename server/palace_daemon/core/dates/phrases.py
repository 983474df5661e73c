"""Times put together: parts of periods, ranges, "since", "before", "after", and distances from another time.

Every phrase is tried at each word, the longest wins, and what it is made of is a time of one word more or less: no rule
calls itself, so a text is read in linear time.
"""

from __future__ import annotations

from collections.abc import Iterator

from palace_daemon.core.dates import calendar, named
from palace_daemon.core.dates.calendar import Now, Period
from palace_daemon.core.dates.distances import around, moved
from palace_daemon.core.dates.found import LIKELY, SURE, DateKind, Found
from palace_daemon.core.dates.points import FIRST_WORDS, LEADS, point, simple
from palace_daemon.core.dates.quantities import Quantity, quantity_at
from palace_daemon.core.dates.relative import weekday_at
from palace_daemon.core.dates.words import MONTHS, PARTS_OF_DAY, UNITS, WEEKDAYS, Words

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
        if is_unit or is_year or token.kind in ("date", "stamp", "yearMonth", "year", "quarter"):
            yield from range(max(done, at - _HEART_WORDS_AHEAD), at + 1)
            done = at + 1


def phrase(words: Words, at: int, now: Now) -> Found | None:
    """Return the longest time that begins at ``at``, with the prepositions that belong to it."""
    token = words[at]
    if token.kind in ("mark", "other") or (token.kind == "word" and token.text not in FIRST_WORDS):
        return None
    found: list[Found] = []
    lead = token.text if token.text in LEADS else ""
    if lead == "of" and words[at - 1].kind in ("number", "ordinal"):
        return None  # "the 31st of April": no day, and the month alone was not meant
    first = point(words, at + bool(lead), now, lead)
    if lead in ("around", "over") and (rough := point(words, at, now)):
        found.append(rough)  # "around ten days ago": there it belongs to the number
    if first:
        found.append((_dashed(words, first, now, lead) if first.is_calendar else None) or first)
    elif days := _days_of_month(words, at + bool(lead), now, _TO):
        found.append(days)
    if months := _bare_range(words, at + bool(lead), now):
        found.insert(0, months)
    found += [one for rule in _PHRASE_RULES if (one := rule(words, at, now))]
    return max(found, key=lambda one: one.end, default=None)


# --------------------------------------------------------------------------------------------------------------- ranges

_TO = ("to", "until", "till", "through", "thru")


def _between(words: Words, at: int, now: Now) -> Found | None:
    """Read "between X and Y", "between the 5th and the 7th of March", "between two and three weeks ago"."""
    if words.word(at) != "between":
        return None
    first = point(words, at + 1, now, "between")
    if first is None:
        return _between_distances(words, at + 1, now) or _days_of_month(words, at + 1, now, ("and",))
    if first.kind == "ago" and words.word(first.end) != "and":
        return first
    return _range(words, first, first.end + 1, now, "between") if words.word(first.end) == "and" else None


def _between_distances(words: Words, at: int, now: Now) -> Found | None:
    """Read on behind "between": "two months and three weeks ago", where "ago" stands for both."""
    first = quantity_at(words, at)
    second = point(words, first.end + 1, now) if first and words.word(first.end) == "and" else None
    if first is None or second is None or second.kind != "ago":
        return None
    start, end = around(now.ms, first, -1), second.readings[0][0]
    return Found(second.end, "range", ((Period(min(start.start, end.start), max(start.end, end.end)), LIKELY),))


def _from_to(words: Words, at: int, now: Now) -> Found | None:
    """Read "from X to Y", "from X until now", "from X on"."""
    if words.word(at) != "from":
        return None
    first = point(words, at + 1, now, "from")
    if first is None:
        return _days_of_month(words, at + 1, now, _TO)
    if words.word(first.end) in ("on", "onward", "onwards") and not point(words, first.end + 1, now, "on"):
        return _open_end(first, first.end + 1, now)
    is_joined = words.word(first.end) in _TO or words.mark(first.end) == "-"
    return _range(words, first, first.end + 1, now, "from") if is_joined else None


def _dashed(words: Words, first: Found, now: Now, lead: str) -> Found | None:
    """Read on after a date by the calendar: "March 5-7", "March 5 to April 2, 2024", "in March-May"."""
    if words.mark(first.end) != "-" and words.word(first.end) not in _TO:
        return None
    second = _range(words, first, first.end + 1, now, lead)
    return second if second and second.is_calendar else None


def _bare_range(words: Words, at: int, now: Now) -> Found | None:
    """Read "Jan-Mar 2025", "March to May of last year", "Q1-Q2 2025": the second gives the first its year."""
    first = named.bare_period(words, at, now.day)
    if first is None or (words.mark(first.end) != "-" and words.word(first.end) not in _TO):
        return None
    second = point(words, first.end + 1, now) if named.bare_period(words, first.end + 1, now.day) else None
    if second is None or second.yearless or second.kind != "period" or not second.is_calendar:
        return None
    return _range(words, first, first.end + 1, now, "")


def _days_of_month(words: Words, at: int, now: Now, joints: tuple[str, ...]) -> Found | None:
    """Read "5 to 7 March 2024": the first day has the month of the second."""
    place = words.skip(at, "the")
    day = named.day_number(words, place)
    if not day or not (words.word(place + 1) in joints or words.mark(place + 1) == "-"):
        return None
    last = simple(words, place + 2, now)
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
    second = point(words, at, now, lead)
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
        period = calendar.months(index, calendar.month_count(found.readings[0][0]))
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
    found = point(words, at + 1, now, "since")
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


_BEFORE, _AFTER, _UNTIL = (
    ("before", "prior to", "earlier than", "sooner than"),
    ("after", "later than"),
    ("until", "till", "up to"),
)


_OPEN_KINDS: tuple[tuple[DateKind, tuple[str, ...]], ...] = (
    ("before", _BEFORE),
    ("after", _AFTER),
    ("before", _UNTIL),
)


def _before_or_after(words: Words, at: int, now: Now) -> Found | None:
    """Read "before X", "after X", "until X", "no later than X". What is after today has not been said yet."""
    is_denied = words.word(at) in ("no", "not") and words.word(at - 1) != "or"  # "whether or not before March"
    at += is_denied
    is_inside = is_denied or (words.word(at - 2) == "on" and words.word(at - 1) == "or")  # "on or before March 5"
    for kind, phrases in _OPEN_KINDS:
        place = words.after_any(at, phrases)
        found = point(words, place, now, phrases[0]) if place else None
        if found is None:
            continue
        is_before = (kind == "before") != is_denied
        includes = is_inside or phrases is _UNTIL
        today = calendar.days(now.day).end
        if is_before:
            periods = [
                (Period(calendar.MIN_MS, period.end if includes else period.start), sure)
                for period, sure in found.readings
            ]
        else:
            periods = [
                (Period(period.start if includes else period.end, today), sure) for period, sure in found.readings
            ]
        readings = tuple((period, sure) for period, sure in periods if period.start < period.end)
        return Found(found.end, "before" if is_before else "after", readings) if readings else None
    return None


def _distance_from(words: Words, at: int, now: Now) -> Found | None:
    """Read "two weeks before Christmas", "the week after March 5": "the" makes it the one that adjoins."""
    quantity = quantity_at(words, at)
    if quantity is None and words.word(at) == "the" and words.word(at + 1) in UNITS:
        unit = UNITS[words.word(at + 1)]
        quantity = Quantity(1, 1, is_rough=False, unit=unit, end=at + 2, is_counted=False)
    if end := words.after_any(at, ("the weekend before", "the weekend after")):
        return _weekend_beside(words, end, now)
    if quantity is None or quantity.unit.minutes or words.word(quantity.end) not in ("before", "after"):
        return None
    found = simple(words, quantity.end + 1, now, "before")
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


def _weekend_beside(words: Words, at: int, now: Now) -> Found | None:
    """Return the weekend that lies wholly before or after the time at ``at``, as the word before it says."""
    found = simple(words, at, now, "before")
    if found is None:
        return None
    period, sure = found.readings[0]
    after = calendar.day_of(period.end - 1) + 1
    saturday = after + (calendar.SATURDAY - calendar.weekday_of(after)) % 7
    if words.word(at - 1) == "before":
        saturday = calendar.weekday_before(calendar.day_of(period.start) - 1, calendar.SATURDAY)
    weekend = calendar.days(saturday, 2)
    return Found(found.end, "period", ((weekend, min(sure, LIKELY)),)) if weekend.start <= now.ms else None


_PHRASE_RULES = (_between, _from_to, _since, _before_or_after, _distance_from)
