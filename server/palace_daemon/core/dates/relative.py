"""Rules for dates as seen from now: "yesterday", "last Tuesday", "the weekend before last", "recently".

Weeks begin on Monday. Bare "last week" is the calendar's; "the last week" and "the past week" are the seven days up to
now. Nothing that lies ahead is read ("next week", "in two weeks"): a memory has nothing of it.
"""

from __future__ import annotations

from palace_daemon.core.dates import calendar
from palace_daemon.core.dates.calendar import Now, Period
from palace_daemon.core.dates.found import DOUBTFUL, EITHER, LIKELY, SURE, VAGUE, Found, Rule
from palace_daemon.core.dates.words import (
    DOUBTFUL_MONTHS,
    DOUBTFUL_WEEKDAYS,
    MONTHS,
    PARTS_OF_DAY,
    UNITS,
    WEEKDAYS,
    Words,
    listed,
)

# ------------------------------------------------------------------------------------------------------- days and weeks


def weekday_at(words: Words, at: int) -> int | None:
    """Return the weekday named there, 0 for Monday; "sat" and "sun" only with a capital."""
    token = words[at]
    if token.kind != "word" or (token.text in DOUBTFUL_WEEKDAYS and not token.is_capital):
        return None
    return WEEKDAYS.get(token.text)


_TIMES = frozenset(
    (
        *(*MONTHS, *WEEKDAYS, *UNITS, *PARTS_OF_DAY, *calendar.SEASONS, "weekend", "christmas", "xmas", "boxing"),
        *("new", "valentine", "valentines", "halloween", "thanksgiving"),
    )
)


def _after_before_last(words: Words, at: int) -> int:
    """Return the place after the noun there and "before last", which is not "before last Christmas", else 0."""
    end = words.after(at + 1, "before last")
    if end and words.word(end) == words.word(at):
        return end + 1  # "the weekend before last weekend"
    return 0 if words.word(end) in _TIMES and words[end].text != "may" else end


def day_or_part(words: Words, end: int, day: int, certainty: float = SURE) -> Found:
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
        return day_or_part(words, at + 1, now.day - 1)
    if end := words.after_any(at, ("the day before yesterday", "day before yesterday")):
        return day_or_part(words, end, now.day - 2)
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
        found = day_or_part(words, at + 1, week[0] + weekday)
        return found._replace(end=week[1])
    week = _week_at(words, at, now)
    if not week:
        return None
    place = words.skip(words.skip(week[1], ","), "on")
    weekday = weekday_at(words, place)
    return None if weekday is None else day_or_part(words, place + 1, week[0] + weekday)


def _last_weekday(now: Now, weekday: int) -> tuple[tuple[int, float], ...]:
    """Return the days that "last Tuesday" may be with their certainties, the likelier first.

    Said later in the same week, it is for some the one of two days ago and for others that of last week: the nearer
    stands first, or for yesterday, which has a word of its own, the farther.
    """
    day = calendar.weekday_before(now.day, weekday)
    if day < calendar.monday_of(now.day):
        return ((day, SURE),)
    is_yesterday = day == now.day - 1
    return ((day - 7, LIKELY), (day, EITHER)) if is_yesterday else ((day, LIKELY), (day - 7, EITHER))


def _named_weekday(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "last Tuesday", "this past Tuesday", "this Tuesday" where it is not ahead; not "last Friday of February"."""
    place = words.after_any(at, ("this past", "the past", "this last", "last", "this"))
    weekday = weekday_at(words, place) if place else None
    if weekday is None or words.word(place + 1) == "of":
        return None
    end = place + 1
    determiner = words.word(place - 1)
    if determiner == "this":
        day = calendar.monday_of(now.day) + weekday
        return day_or_part(words, end, day, LIKELY) if day <= now.day else None
    days = _last_weekday(now, weekday)
    if determiner == "past":
        days = ((calendar.weekday_before(now.day, weekday), SURE),)
    found = day_or_part(words, end, days[0][0])
    return found._replace(readings=tuple(day_or_part(words, end, *day).readings[0] for day in days))


def _weekend(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "last weekend", "this weekend", "the weekend": the latest that has begun, "last" the latest that is over."""
    place = words.after_any(at, ("this past", "the past", "the last", "last", "this", "the"))
    if not place or words.word(place) not in ("weekend", "weekends") or words.word(place + 1) == "of":
        return None
    saturday = calendar.monday_of(now.day) + 5
    determiner = words.word(place - 1)
    if determiner == "this" and saturday > now.day:
        return None
    if saturday > now.day or determiner in ("last", "past"):
        saturday -= 7
    certainty = DOUBTFUL if determiner == "the" else SURE
    return Found(place + 1, "period", ((calendar.days(saturday, 2), certainty),))


def _before_last(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "the weekend before last", "the Friday before last", "the summer before last", "the night before last"."""
    end = _after_before_last(words, at + 1) if words.word(at) == "the" else 0
    if not end:
        return None
    weekday, most = weekday_at(words, at + 1), SURE if words.is_free(end) else DOUBTFUL  # "before last release"
    if weekday is not None:
        days = tuple((calendar.days(day - 7), min(certainty, most)) for day, certainty in _last_weekday(now, weekday))
        return Found(end, "day", days)
    noun, is_capital = words.word(at + 1), words[at + 1].is_capital
    if noun in ("night", "evening"):
        return Found(end, "day", ((calendar.hours(now.day - 2, *PARTS_OF_DAY[noun]), most),))
    period: Period | None = None
    if noun == "weekend":
        period = calendar.days(calendar.monday_of(now.day) - 9, 2)
    elif noun in calendar.SEASONS:
        period = calendar.months(calendar.latest_month(now.month - 3, calendar.SEASONS[noun]) - 12, 3)
    elif noun in MONTHS and (is_capital or noun not in DOUBTFUL_MONTHS):
        period = calendar.months(calendar.latest_month(now.month - 1, MONTHS[noun] - 1) - 12)
    return Found(end, "period", ((period, most),)) if period else None


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
    _before_last,
    _named_unit,
    _named_month,
    _named_season,
    _vague,
)
"""All rules of this module."""
