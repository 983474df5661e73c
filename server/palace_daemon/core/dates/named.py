"""Rules for dates by the calendar: "2024-03-05", "March 5", "in March", "Q3 2024", "summer 2023", "at Christmas".

A rule is a function of the words, the place where it begins, the caller's moment, and the *lead*, the preposition
before it; it returns what it found or None. A lead decides about words that alone are no date: "in March", "in 2023",
"at Christmas". Without a year, the latest that is not after now is meant.
"""

from __future__ import annotations

from palace_daemon.core.dates import calendar
from palace_daemon.core.dates.calendar import Now
from palace_daemon.core.dates.found import DOUBTFUL, EITHER, LIKELY, SURE, Found, Rule
from palace_daemon.core.dates.quantities import Quantity, quantity_at
from palace_daemon.core.dates.words import DOUBTFUL_MONTHS, MONTHS, ORDINALS, UNITS, Words, listed


def _exact(words: Words, at: int, _now: Now, lead: str) -> Found | None:
    """Read "2024-03-05" and "03/05/2024"; a time stamp is a line of a log unless a preposition asks for it."""
    token = words[at]
    if token.kind == "yearMonth":
        month = token.days[0].year * 12 + token.days[0].month - 1
        return Found(at + 1, "period", ((calendar.months(month), SURE),), is_calendar=True)
    if token.kind == "date" or (token.kind == "stamp" and lead):
        certainty = SURE if len(token.days) == 1 else EITHER
        readings = tuple((calendar.days(day.toordinal()), certainty) for day in token.days)
        return Found(at + 1, "day", readings, is_calendar=True)
    return None


def _month_at(words: Words, at: int, *, is_plain_fine: bool) -> int:
    """Return the month named there, 1 to 12, or 0; ``may`` in small letters only where the context is plain."""
    token = words[at]
    if token.kind != "word" or token.text not in MONTHS:
        return 0
    is_doubtful = token.text in DOUBTFUL_MONTHS and not token.is_capital
    return 0 if is_doubtful and not is_plain_fine else MONTHS[token.text]


def _after_month(words: Words, at: int) -> int:
    """Return the place after a month's name and the full stop of its abbreviation."""
    is_short = len(words.word(at)) in (3, 4) and words[at].end == words[at + 1].start
    return at + 2 if is_short and words.mark(at + 1) == "." and words[at + 2].kind in ("number", "ordinal") else at + 1


def day_number(words: Words, at: int) -> int:
    """Return the day of a month that stands there in digits or as an ordinal word, or 0."""
    token = words[at]
    if token.kind in ("number", "ordinal") and token.number.is_integer() and 1 <= token.number <= 31:
        return 0 if token.text in UNITS or len(token.text) > 2 else int(token.number)
    return ORDINALS.get(words.word(at), 0)


def _year_number(words: Words, at: int) -> int:
    """Return the year of four digits that stands there after a month or a season, or 0."""
    token = words[at]
    is_year = token.kind == "number" and len(token.text) == 4 and 1900 <= token.number < 2200
    return int(token.number) if is_year or token.kind == "year" else 0


def years_ago_at(words: Words, at: int) -> Quantity | None:
    """Return the quantity of "two years ago" and "a few years back" if it stands there."""
    quantity = quantity_at(words, at)
    is_ago = quantity and quantity.unit.months >= 12 and words.word(quantity.end) in ("ago", "back")
    return quantity if is_ago else None


_YEARS_BACK = (("last year", 1), ("this year", 0), ("the year before last", 2))


def years_back_at(words: Words, at: int) -> tuple[int, int]:
    """Return how many years back "last year" or "two years ago" lies and the place after it, 0 where none stands."""
    for phrase, years in _YEARS_BACK:
        if end := words.after(at, phrase):
            return years, end
    quantity = years_ago_at(words, at)
    years_back = quantity.low * quantity.unit.months / 12 if quantity else 0.5
    if quantity is None or quantity.low != quantity.high or not years_back.is_integer():
        return 0, 0
    return int(years_back), quantity.end + 1


def year_after(words: Words, at: int, now: Now) -> tuple[int, int]:
    """Return the year that completes a date ("2024", "of last year", "two years ago") and the place after it, or 0."""
    after = words.skip(at, ",", "of", "in")
    if year := _year_number(words, after):
        return year, after + 1
    place = words.skip(at, ",") if years_ago_at(words, words.skip(at, ",")) else words.skip(at, "of")
    years, end = years_back_at(words, place)
    return (now.year - years, end) if end and now.year > years else (0, at)


def named_day(now: Now, month: int, day: int, year: int, end: int) -> Found | None:
    """Return that day of that year, or the latest that is not after today."""
    found = calendar.day_in_year(year, month, day) if year else calendar.latest_day(now.day, month, day)
    if found is None:
        return None
    yearless = None if year else (month, day)
    return Found(end, "day", ((calendar.days(found), SURE if year else LIKELY),), yearless, is_calendar=True)


def _month_day(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "March 5", "March 5th, 2024", "March the fifth", "May 5 of last year"."""
    month = _month_at(words, at, is_plain_fine=True)
    if not month:
        return None
    place = _after_month(words, at)
    has_article = words.word(place) == "the"
    place += has_article
    day = day_number(words, place)
    is_ordinal = words[place].kind == "ordinal" or (words[place].kind == "word" and has_article)
    if not day or (words[place].kind == "word" and not is_ordinal):
        return None
    if (quantity := quantity_at(words, place)) and words.word(quantity.end) in ("ago", "back"):
        return None  # "in March 2 years ago"
    year, end = year_after(words, place + 1, now)
    if not year and not is_ordinal and words[at].text in DOUBTFUL_MONTHS:
        is_first = words.mark(at - 1) != "" and words.mark(at - 1) != ","
        if not words[at].is_capital or (is_first and not words.is_free(end)):
            return None  # "they may 5 times", "May 2 threads share it?"
    return named_day(now, month, day, year, end)


def _day_month(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "5 March", "the 5th of March 2024", "the first of May", "the 5th of last month"."""
    place = words.skip(at, "the")
    day = day_number(words, place)
    if not day:
        return None
    is_ordinal = words[place].kind == "ordinal"
    after = words.skip(place + 1, "of")
    has_of = after > place + 1
    if has_of:
        for phrase, months_back in (("last month", 1), ("this month", 0)):
            if end := words.after(after, phrase):
                month = now.month - months_back
                return named_day(now, month % 12 + 1, day, month // 12, end)
    month = _month_at(words, after, is_plain_fine=is_ordinal or bool(_year_number(words, after + 1)))
    if not month or (words[place].kind == "word" and not has_of):
        return None
    year, end = year_after(words, _after_month(words, after), now)
    return named_day(now, month, day, year, end)


_LIST_MAX = 11
_MONTH_LEADS = listed(
    "in during since from of before after until till around throughout over between early mid late part"
)
_PLAIN_LEADS = frozenset({"in", "during", "early", "mid", "late"})


def _month(words: Words, at: int, now: Now, lead: str) -> Found | None:
    """Read "March 2024", "March of last year", and after a preposition "March": the latest that has begun."""
    month = _month_at(words, at, is_plain_fine=True)
    if not month:
        return None
    year, end = year_after(words, _after_month(words, at), now)
    is_doubtful = words[at].text in DOUBTFUL_MONTHS and not words[at].is_capital
    if year:
        is_ago = words.word(end - 1) in ("ago", "back") and not lead  # "they march two years ago"
        is_verb = is_doubtful and (is_ago or not words.is_free(end))  # "they may 2024 times"
        period = calendar.months(year * 12 + month - 1)
        return None if is_verb else Found(end, "period", ((period, SURE),), is_calendar=True)
    if lead in _MONTH_LEADS and lead != "between" and (year := _year_of_list(words, at, now)):
        return Found(end, "period", ((calendar.months(year * 12 + month - 1), LIKELY),), is_calendar=True)
    if lead not in _MONTH_LEADS or years_ago_at(words, words.skip(end, ",")):
        return None  # "in March a few years ago" is a distance
    if is_doubtful and (lead not in _PLAIN_LEADS or words[at].text not in ("may", "march") or not words.is_free(end)):
        return None
    period = calendar.months(calendar.latest_month(now.month, month - 1))
    return Found(end, "period", ((period, LIKELY),), (month, 0), is_calendar=True)


def yearless_at(words: Words, at: int, now: Now) -> Found | None:
    """Return what is named without a year behind one: "in March", "on March 5", "in the summer", "at Christmas"."""
    place = words.skip(words.skip(at, ","), "in", "on", "at", "during", "around", "over")
    found = _month_day(words, place, now, "in") or _day_month(words, place, now, "in")
    found = found or _month(words, place, now, "in") or _quarter(words, place, now, "in")
    if place > words.skip(at, ","):
        found = found or _bare_season(words, words.skip(place, "the"), now) or _holiday(words, place, now, "at")
    return found if found and found.yearless else None


def _year_of_list(words: Words, at: int, now: Now) -> int:
    """Return the year that the last month or quarter of a list gives to that at ``at``: "January and February 2025"."""
    first = one = bare_period(words, at, now.day)
    for _ in range(_LIST_MAX):
        comma = words.skip(one.end, ",") if one else at
        place = words.skip(comma, "and", "or")
        one = bare_period(words, place, now.day) if one and place > one.end else None
        if first is None or one is None or first.yearless is None or one.yearless is None:
            return 0
        year, _end = year_after(words, one.end, now)
        if year:
            return year - (first.yearless > one.yearless) if place > comma else 0  # "December and January 2025"
    return 0


def _year_first(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "last year in March", "this year on March 5", "two years ago in the summer"."""
    years_back, place = years_back_at(words, at)
    found = yearless_at(words, place, now) if place and now.year > years_back else None
    return of_year(found, now.year - years_back, now) if found else None


def of_year(found: Found, year: int, now: Now) -> Found | None:
    """Return what was named without a year in that year."""
    if found.yearless is None:
        return None
    month, day = found.yearless
    if found.kind == "day":
        return named_day(now, month, day, year, found.end)
    period = calendar.months(year * 12 + month - 1, calendar.month_count(found.readings[0][0]))
    return Found(found.end, "period", ((period, SURE),), is_calendar=True)


_YEAR_LEADS = _MONTH_LEADS - {"over"}


def _year(words: Words, at: int, now: Now, lead: str) -> Found | None:
    """Read "in 2023": one of the last hundred years, and no number of something."""
    year = after = 0
    if place := words.after_any(at, ("the year", "year")):
        year, after = _year_number(words, place), place + 1
    elif (
        lead in _YEAR_LEADS
        and words[at].kind in ("number", "year")
        and len(str(int(words[at].number))) == 4
        and words.is_free(at + 1)
    ):
        year, after = int(words[at].number), at + 1
        year = year if max(1000, now.year - 100) <= year else 0
    if not year or year > now.year:
        return None  # "the year 2038 problem"
    return Found(after, "period", ((calendar.months(year * 12, 12), SURE),), is_calendar=True)


_NOUN_LEADS = listed("in during since before after until till around throughout over between late early mid")


def _season(words: Words, at: int, now: Now, lead: str) -> Found | None:
    """Read "spring 2023", "the summer of last year", "over the summer"; spring is a framework and fall a verb."""
    place = words.skip(at, "the")
    first = calendar.SEASONS.get(words.word(place))
    if first is None:
        return None
    year, end = year_after(words, place + 1, now)
    if year:
        is_verb = words[place] == words[at] and words[at].text == "fall" and not words[at].is_capital and not lead
        if is_verb and words.word(end - 1) in ("year", "ago", "back"):
            return None  # "did the rate fall last year?"
        return Found(end, "period", ((calendar.months(year * 12 + first, 3), LIKELY),), is_calendar=True)
    return _bare_season(words, place, now) if lead in _NOUN_LEADS and place > at else None


def _bare_season(words: Words, at: int, now: Now) -> Found | None:
    """Return the latest season of that name, where nothing follows that would make it another thing."""
    first = calendar.SEASONS.get(words.word(at))
    if first is None or not words.begins_clause(at + 1):
        return None
    period = calendar.months(calendar.latest_month(now.month, first), 3)
    return Found(at + 1, "period", ((period, DOUBTFUL),), (first + 1, 0))


def _quarter(words: Words, at: int, now: Now, lead: str) -> Found | None:
    """Read "Q3 2024", "2024 Q3", "the third quarter of 2024", "Q3 of last year", "in Q3"."""
    place, quarter, year = words.skip(at, "the"), 0, 0
    if words[place].kind == "quarter":
        quarter, place = int(words[place].number), place + 1
    elif (year := _year_number(words, place)) and words[place + 1].kind == "quarter":
        quarter, place = int(words[place + 1].number), place + 2
    elif words.word(place + 1) == "quarter":
        quarter = 4 if words.word(place) == "last" else day_number(words, place)
        place += 2
    if not 1 <= quarter <= 4:
        return None
    is_named = words[place - 1].kind == "quarter"
    if not year:
        year, place = year_after(words, words.skip(place, "-"), now)
    if not year and not (is_named and lead in _NOUN_LEADS):
        return None
    year = year or (_year_of_list(words, place - 1, now) if lead != "between" else 0)
    first = year * 12 if year else calendar.latest_month(now.month, 3 * quarter - 3) - (3 * quarter - 3)
    period = calendar.months(first + 3 * quarter - 3, 3)
    yearless = None if year else (3 * quarter - 2, 0)
    return Found(place, "period", ((period, SURE if year else DOUBTFUL),), yearless, is_calendar=True)


def bare_period(words: Words, at: int, day: int) -> Found | None:
    """Return the month, quarter or season that is named there without preposition and year, the latest to ``day``."""
    place = words.skip(at, "the")
    month = _month_at(words, place, is_plain_fine=True)
    first, count, end = month - 1, 1, _after_month(words, place)
    if words[place].kind == "quarter":
        first, count, end = 3 * int(words[place].number) - 3, 3, place + 1
    elif words.word(place) in calendar.SEASONS:
        first, count, end = calendar.SEASONS[words.word(place)], 3, place + 1
    if first < 0:
        return None
    period = calendar.months(calendar.latest_month(calendar.month_of(day), first), count)
    return Found(end, "period", ((period, LIKELY),), (first + 1, 0), is_calendar=True)


_HOLIDAYS: tuple[tuple[str, tuple[int, int]], ...] = (
    ("christmas eve", (12, 24)),
    ("christmas day", (12, 25)),
    ("christmas", (12, 25)),
    ("xmas", (12, 25)),
    ("boxing day", (12, 26)),
    ("new year eve", (12, 31)),
    ("new years eve", (12, 31)),
    ("new year day", (1, 1)),
    ("new years day", (1, 1)),
    ("new year", (1, 1)),
    ("new years", (1, 1)),
    ("valentine day", (2, 14)),
    ("valentines day", (2, 14)),
    ("halloween", (10, 31)),
    ("thanksgiving day", calendar.THANKSGIVING),
    ("thanksgiving", calendar.THANKSGIVING),
)
"""Longer names first; possessives are off already."""
_HOLIDAY_LEADS = listed("at on over during around since before after until till between from last this")
_AROUND_DAYS = 3


def _holiday(words: Words, at: int, now: Now, lead: str) -> Found | None:
    """Read "at Christmas", "Halloween 2023", "last Thanksgiving"; without preposition or year it is only a word."""
    determiner = words.word(at) if words.word(at) in ("last", "this", "past") else ""
    place = words.skip(at, "the") + bool(determiner)
    named = ((end, *month_and_day) for name, month_and_day in _HOLIDAYS if (end := words.after(place, name)))
    end, month, day = next(named, (0, 0, 0))
    if not end:
        return None
    year, end = year_after(words, end, now)
    if not year and (after := words.after(end, "before last")):
        last = calendar.latest_day(now.day - 1, month, day)
        year, end = (calendar.month_of(last) // 12 - 1 if last else 0), after
    if not year and (words.word(at) == "the" or not (determiner or lead in _HOLIDAY_LEADS)):
        return None
    if year:
        found = calendar.day_in_year(year, month, day)
    else:
        found = calendar.latest_day(now.day - (determiner in ("last", "past")), month, day)
        if determiner == "this" and (found is None or calendar.month_of(found) // 12 != now.year):
            return None
    if found is None:
        return None
    spread = _AROUND_DAYS if lead in ("over", "around", "during") else 0
    period = calendar.days(found - spread, 2 * spread + 1)
    return Found(end, "day", ((period, SURE if year else LIKELY),), None if year else (month, day))


RULES: tuple[Rule, ...] = (_exact, _month_day, _day_month, _month, _year_first, _year, _season, _quarter, _holiday)
"""All rules of this module."""
