"""Rules for dates as seen from now: "yesterday", "last Tuesday", "two weeks ago", "the past month", "recently".

Weeks begin on Monday. Bare "last week" is the calendar's; "the last week" and "the past week" are the seven days up to
now. Nothing that lies ahead is read ("next week", "in two weeks"): a memory has nothing of it.
"""

from __future__ import annotations

from palace_daemon.core.dates import calendar
from palace_daemon.core.dates.calendar import DAY_MS, MINUTE_MS, Now, Period
from palace_daemon.core.dates.found import DOUBTFUL, EITHER, LIKELY, SURE, VAGUE, Found, Rule
from palace_daemon.core.dates.words import (
    DOUBTFUL_MONTHS,
    DOUBTFUL_WEEKDAYS,
    MONTHS,
    PARTS_OF_DAY,
    UNITS,
    WEEKDAYS,
    Quantity,
    Words,
    listed,
    quantity_at,
)

_DISTANCE_SHARE = 0.15
"""Half the width of "... ago" as a share of the distance: people say ten days for anything from eight to twelve."""


def moved(ms: int, amount: float, quantity: Quantity) -> int:
    """Return the millisecond that lies so many units later; months are those of the calendar."""
    unit = quantity.unit
    if unit.minutes:
        return calendar.clamp(ms + round(amount * unit.minutes * MINUTE_MS))
    if unit.days:
        return calendar.clamp(ms + round(amount * unit.days) * DAY_MS)
    whole = int(amount * unit.months)
    day = calendar.shifted(calendar.day_of(ms), whole)
    return calendar.clamp(calendar.start_of(day) + ms % DAY_MS + round((amount * unit.months - whole) * 30) * DAY_MS)


def half_width_ms(amount: float, quantity: Quantity) -> int:
    """Return how far "... ago" reaches to either side of its middle.

    In days it is 15 % of the distance, rounded, and no less than the unit's slack: nothing for up to three days, 2 days
    for ten days, 3 for one to three weeks, 10 for a month, 27 for half a year, 60 for a year. Hours and minutes reach
    half a unit or 15 %. After "about" it is twice that, a day at least.
    """
    unit = quantity.unit
    if unit.minutes:
        half = max(unit.minutes * MINUTE_MS // 2, round(amount * unit.minutes * MINUTE_MS * _DISTANCE_SHARE))
        return half * (2 if quantity.is_rough else 1)
    distance_days = amount * (unit.days or unit.months * 30.44)
    half_days = max(unit.slack_days, int(distance_days * _DISTANCE_SHARE + 0.5))
    return DAY_MS * (max(1, 2 * half_days) if quantity.is_rough else half_days)


def around(ms: int, quantity: Quantity, direction: int) -> Period:
    """Return the period at a distance from ``ms``, with its half width; days are taken whole."""
    near, far = (moved(ms, direction * amount, quantity) for amount in (quantity.low, quantity.high))
    near_half, far_half = half_width_ms(quantity.low, quantity), half_width_ms(quantity.high, quantity)
    (first, before), (last, beyond) = sorted(((near, near_half), (far, far_half)))
    if quantity.unit.minutes:
        return Period(calendar.clamp(first - before), calendar.clamp(last + beyond))
    first_day, last_day = calendar.day_of(first - before), calendar.day_of(last + beyond)
    return calendar.days(first_day, last_day - first_day + 1)


# ------------------------------------------------------------------------------------------------------- days and weeks


def weekday_at(words: Words, at: int) -> int | None:
    """Return the weekday named there, 0 for Monday; "sat" and "sun" only with a capital."""
    token = words[at]
    if token.kind != "word" or (token.text in DOUBTFUL_WEEKDAYS and not token.is_capital):
        return None
    return WEEKDAYS.get(token.text)


def _day(words: Words, end: int, day: int, certainty: float = SURE) -> Found:
    """Return a day, or the part of it that is named next."""
    hours = PARTS_OF_DAY.get(words.word(end))
    if hours:
        return Found(end + 1, "day", ((calendar.hours(day, *hours), certainty),))
    return Found(end, "day", ((calendar.days(day), certainty),))


_DAY_PARTS: tuple[tuple[str, int, str], ...] = (
    ("this morning", 0, "morning"),
    ("this afternoon", 0, "afternoon"),
    ("this evening", 0, "evening"),
    ("tonight", 0, "night"),
    ("last night", -1, "night"),
    ("last evening", -1, "evening"),
)


def _day_word(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "today", "earlier today", "yesterday morning", "the day before yesterday", "this morning", "last night"."""
    place = words.skip(at, "earlier")
    if words.word(place) == "today":
        return Found(place + 1, "day", ((calendar.days(now.day), SURE),))
    if words.word(at) == "yesterday":
        return _day(words, at + 1, now.day - 1)
    if end := words.after_any(at, ("the day before yesterday", "day before yesterday")):
        return _day(words, end, now.day - 2)
    for phrase, days_on, part in _DAY_PARTS:
        if end := words.after(at, phrase):
            return Found(end, "day", ((calendar.hours(now.day + days_on, *PARTS_OF_DAY[part]), SURE),))
    return None


_WEEKS: tuple[tuple[str, int], ...] = (("the week before last", 2), ("last week", 1), ("this week", 0))


def _week_at(words: Words, at: int, now: Now) -> tuple[int, int] | None:
    """Return the Monday of the week named there, and the place after it."""
    found = ((weeks, end) for phrase, weeks in _WEEKS if (end := words.after(at, phrase)))
    weeks, end = next(found, (0, 0))
    return (calendar.monday_of(now.day) - 7 * weeks, end) if end else None


def _day_of_week(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "Tuesday of last week", "last week on Tuesday", "last week's Tuesday"."""
    weekday = weekday_at(words, at)
    if weekday is not None:
        place = at + 1 + (words.word(at + 1) in PARTS_OF_DAY)
        week = _week_at(words, words.skip(place, "of", "in", ","), now)
        if not week:
            return None
        found = _day(words, at + 1, week[0] + weekday)
        return found._replace(end=week[1])
    week = _week_at(words, at, now)
    if not week:
        return None
    place = words.skip(words.skip(week[1], ","), "on")
    weekday = weekday_at(words, place)
    return None if weekday is None else _day(words, place + 1, week[0] + weekday)


def _named_weekday(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "last Tuesday", "this past Tuesday", "this Tuesday" where it is not ahead.

    Said later in the same week, "last Tuesday" is for some the one of two days ago and for others that of last week:
    both readings are returned, the nearer first, or for yesterday, which has a word of its own, the farther first.
    """
    place = words.after_any(at, ("this past", "the past", "this last", "last", "this"))
    weekday = weekday_at(words, place) if place else None
    if weekday is None:
        return None
    end = place + 1
    determiner = words.word(place - 1)
    if determiner == "this":
        day = calendar.monday_of(now.day) + weekday
        return _day(words, end, day, LIKELY) if day <= now.day else None
    day = calendar.weekday_before(now.day, weekday)
    found = _day(words, end, day, LIKELY)
    if determiner == "past" or day < calendar.monday_of(now.day):
        return found._replace(readings=((found.readings[0][0], SURE),))
    other = _day(words, end, day - 7, EITHER).readings[0]
    is_yesterday = day == now.day - 1
    readings = (found.readings[0], other)
    if is_yesterday:
        readings = ((other[0], LIKELY), (found.readings[0][0], EITHER))
    return found._replace(readings=readings)


def _weekend(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "last weekend", "this weekend", "the weekend": the latest that has begun, "last" the latest that is over."""
    place = words.after_any(at, ("this past", "the past", "the last", "last", "this", "the"))
    if not place or words.word(place) not in ("weekend", "weekends"):
        return None
    saturday = calendar.monday_of(now.day) + 5
    determiner = words.word(place - 1)
    if determiner == "this" and saturday > now.day:
        return None
    if saturday > now.day or determiner in ("last", "past"):
        saturday -= 7
    certainty = DOUBTFUL if determiner == "the" else SURE
    return Found(place + 1, "period", ((calendar.days(saturday, 2), certainty),))


# -------------------------------------------------------------------------------------------------------- last and this


def _calendar_unit(now: Now, unit: str, units_back: int) -> Period | None:
    """Return the week, month, quarter or year so many before the present one."""
    if unit == "week":
        return calendar.days(calendar.monday_of(now.day) - 7 * units_back, 7)
    if unit == "month":
        return calendar.months(now.month - units_back)
    if unit == "quarter":
        return calendar.months(now.month - now.month % 3 - 3 * units_back, 3)
    if unit == "year":
        return calendar.months((now.year - units_back) * 12, 12)
    return None


def _named_unit(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "last week", "this month", "the year before last", "earlier this year"; "last week of ..." is another."""
    place = words.skip(at, "earlier")
    determiner, unit = words.word(place), words.word(place + 1)
    end = place + 2
    if after := words.after(at, "the " + unit + " before last") if unit in UNITS else 0:
        period = _calendar_unit(now, unit, 2)
        return Found(after, "period", ((period, SURE),), is_calendar=True) if period else None
    if determiner not in ("last", "this", "previous") or words.word(end) == "of":
        return None
    period = _calendar_unit(now, unit, int(determiner != "this"))
    certainty = DOUBTFUL if determiner == "previous" else SURE
    return Found(end, "period", ((period, certainty),), is_calendar=True) if period else None


def _named_month(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "last March", the latest that is over, and "this March", that of this year if it has begun."""
    place = words.after_any(at, ("this past", "last", "this"))
    determiner, token = words.word(place - 1), words[place]
    if not place or token.kind != "word" or token.text not in MONTHS:
        return None
    is_verb = token.text == "may" or determiner == "this"
    if token.text in DOUBTFUL_MONTHS and not token.is_capital and (is_verb or token.text != "march"):
        return None
    if words[place + 1].kind in ("number", "ordinal"):
        return None  # "last March 5" is a day, read from the month on
    month = calendar.latest_month(now.month - (determiner != "this"), MONTHS[token.text] - 1)
    if determiner == "this" and month // 12 != now.year:
        return None
    return Found(place + 1, "period", ((calendar.months(month), SURE),), is_calendar=True)


_SPRING_TALK = listed(
    "boot security data mvc cloud batch framework bean beans webflux app apps application project config context "
    "cleaning break release version upgrade migration"
)


def _named_season(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "last summer", the latest that is over, and "this summer", the one that began this year or still lasts."""
    place = words.after_any(at, ("this past", "last", "this"))
    determiner, token = words.word(place - 1), words[place]
    first = calendar.SEASONS.get(words.word(place)) if place else None
    if first is None:
        return None
    following = words[place + 1]
    if following.text in _SPRING_TALK or (token.is_capital and following.is_capital and following.text != "i"):
        return None
    if determiner == "this":
        month = calendar.latest_month(now.month, first)
        is_over = month // 12 != now.year and month + 3 <= now.month
        if is_over or not words.begins_clause(place + 1):  # "does this fall back"
            return None
    else:
        month = calendar.latest_month(now.month - 3, first)
    return Found(place + 1, "period", ((calendar.months(month, 3), LIKELY),))


# ------------------------------------------------------------------------------------------------------------ distances


def _ago(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "10 days ago", "a couple of weeks ago", "two or three months back", "a year ago today"."""
    quantity = quantity_at(words, at)
    if quantity is None:
        return None
    is_back = words.word(quantity.end) == "back" and not quantity.unit.minutes
    if words.word(quantity.end) != "ago" and not is_back:
        return None
    end = quantity.end + 1
    if words.word(end) == "today" and not quantity.unit.minutes:
        return _day(words, end + 1, calendar.day_of(moved(now.ms, -quantity.low, quantity)))
    period = around(now.ms, quantity, -1)
    latest = now.ms + 1 if quantity.unit.minutes else calendar.days(now.day).end
    certainty = LIKELY if quantity.is_rough or quantity.low < quantity.high else SURE
    return Found(end, "ago", ((Period(period.start, min(period.end, latest)), certainty),))


_IN_LEADS = frozenset({"in", "over", "during", "within", "for", "throughout", "across"})


def _past(words: Words, at: int, now: Now, lead: str) -> Found | None:
    """Read "the last two weeks", "in the past month", "the last few days": whole days from there up to today.

    "In the last week" has no number: an article must stand there, and before a day or an hour a preposition as well
    ("on the last day" is none). Minutes and hours are counted from now.
    """
    place = words.skip(at, "the", "these", "this", "our", "my")
    has_article = place > at
    if words.word(place) not in ("last", "past", "previous", "preceding"):
        return None
    is_past = words.word(place) == "past"
    quantity = quantity_at(words, place + 1)
    if quantity is None:
        unit = UNITS.get(words.word(place + 1))
        if unit is None or not (has_article or (is_past and lead in _IN_LEADS)):
            return None
        is_short = not unit.slack_days
        if words.word(place) == "previous" or (is_short and (unit.minutes == 1 or lead not in _IN_LEADS)):
            return None
        quantity = Quantity(1, 1, is_rough=False, unit=unit, end=place + 2, is_counted=False)
    elif not quantity.is_counted:
        return None
    if words.word(quantity.end) == "of":
        return None
    start = moved(now.ms, -quantity.high, quantity)
    if quantity.unit.minutes:
        period = Period(start, calendar.clamp(now.ms + 1))
    else:
        period = Period(calendar.start_of(calendar.day_of(start)), calendar.days(now.day).end)
    return Found(quantity.end, "past", ((period, SURE),))


def _vague(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "recently", "lately", "the other day"; what is "recently used" is a cache."""
    if words.word(at) in ("recently", "lately"):
        is_cache = words.word(at - 1) in ("least", "most") or words.word(at + 1) in ("used", "opened", "viewed")
        return None if is_cache else Found(at + 1, "vague", ((calendar.days(now.day - 30, 31), VAGUE),))
    for phrase, first_back, last_back in (("the other day", 10, 1), ("the other week", 28, 5)):
        if end := words.after(at, phrase):
            return Found(end, "vague", ((calendar.days(now.day - first_back, first_back - last_back + 1), VAGUE),))
    return None


RULES: tuple[Rule, ...] = (
    _day_word,
    _day_of_week,
    _named_weekday,
    _weekend,
    _named_unit,
    _named_month,
    _named_season,
    _ago,
    _past,
    _vague,
)
"""All rules of this module."""
