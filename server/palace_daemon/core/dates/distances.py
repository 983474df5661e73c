"""Rules for distances from now and for stretches up to now: "two weeks ago", "a year ago today", "the past month"."""

from __future__ import annotations

from palace_daemon.core.dates import calendar, named, relative
from palace_daemon.core.dates.calendar import DAY_MS, MINUTE_MS, Now, Period
from palace_daemon.core.dates.found import LIKELY, SURE, Found, Rule
from palace_daemon.core.dates.quantities import Quantity, quantities_at, quantity_at
from palace_daemon.core.dates.words import UNITS, Words

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


def half_width_ms(amount: float, quantity: Quantity, farther_ms: int = 0) -> int:
    """Return how far "... ago" reaches to either side of its middle.

    In days it is 15 % of the distance, rounded, and no less than the unit's slack: nothing for up to three days, 2 days
    for ten days, 3 for one to three weeks, 10 for a month, 27 for half a year, 60 for a year. Hours and minutes reach
    half a unit or 15 %. After "about" it is twice that, a day at least. ``farther_ms`` is what larger units add to the
    distance: of "one month and two weeks", the month.
    """
    unit = quantity.unit
    if unit.minutes:
        distance_ms = amount * unit.minutes * MINUTE_MS + farther_ms
        half = max(unit.minutes * MINUTE_MS // 2, round(distance_ms * _DISTANCE_SHARE))
        return half * (2 if quantity.is_rough else 1)
    distance_days = amount * (unit.days or unit.months * 30.44) + farther_ms / DAY_MS
    half_days = max(unit.slack_days, int(distance_days * _DISTANCE_SHARE + 0.5))
    return DAY_MS * (max(1, 2 * half_days) if quantity.is_rough else half_days)


def around(ms: int, quantity: Quantity, direction: int, farther_ms: int = 0) -> Period:
    """Return the period at a distance from ``ms``, with its half width; days are taken whole."""
    near, far = (moved(ms, direction * amount, quantity) for amount in (quantity.low, quantity.high))
    near_half, far_half = (half_width_ms(amount, quantity, farther_ms) for amount in (quantity.low, quantity.high))
    (first, before), (last, beyond) = sorted(((near, near_half), (far, far_half)))
    if quantity.unit.minutes:
        return Period(calendar.clamp(first - before), calendar.clamp(last + beyond))
    first_day, last_day = calendar.day_of(first - before), calendar.day_of(last + beyond)
    return calendar.days(first_day, last_day - first_day + 1)


def _ago(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "10 days ago", "a couple of weeks ago", "two or three months back", "one month and two weeks ago"."""
    quantities = quantities_at(words, at)
    if not quantities:
        return None
    last = quantities[-1]._replace(is_rough=any(one.is_rough for one in quantities))
    is_back = words.word(last.end) == "back" and not last.unit.minutes
    if words.word(last.end) != "ago" and not is_back:
        return None
    if len(quantities) == 1 and (found := _counted_from(words, last, now)):
        return found
    from_ms = now.ms
    for quantity in quantities[:-1]:
        from_ms = moved(from_ms, -quantity.low, quantity)
    period = around(from_ms, last, -1, now.ms - from_ms)
    latest = now.ms + 1 if last.unit.minutes else calendar.days(now.day).end
    certainty = LIKELY if last.is_rough or last.low < last.high else SURE
    end = last.end + 1
    if last.low < last.high and last.unit.months >= 12 and (within := named.yearless_at(words, end, now)):
        end = within.end  # "a few years ago in March": of which year is not said
    return Found(end, "ago", ((Period(period.start, min(period.end, latest)), certainty),))


def _counted_from(words: Words, quantity: Quantity, now: Now) -> Found | None:
    """Return the time of "two weeks ago yesterday", "a year ago today", "a year ago last month": as seen from then."""
    end = quantity.end + 1
    if quantity.unit.minutes or quantity.low < quantity.high:
        return None
    if words.word(end) == "today":
        return relative.day_or_part(words, end + 1, calendar.day_of(moved(now.ms, -quantity.low, quantity)))
    found = [one for rule in relative.RULES if (one := rule(words, end, now, ""))]
    seen = max(found, key=lambda one: one.end, default=None)
    return _shifted(seen, quantity) if seen else None


def _shifted(found: Found, quantity: Quantity) -> Found | None:
    """Return a time that lies so much earlier: a day at any distance, a period only at one in months."""
    if found.kind != "day" and not (found.kind == "period" and quantity.unit.months):
        return None
    readings: list[tuple[Period, float]] = []
    for (start, end), sure in found.readings:
        first = moved(start, -quantity.low, quantity)
        after = first + end - start if found.kind == "day" else moved(end, -quantity.low, quantity)
        readings.append((Period(first, calendar.clamp(after)), min(sure, LIKELY if quantity.is_rough else SURE)))
    return found._replace(readings=tuple(readings), is_calendar=False)


def _this_time(words: Words, at: int, now: Now, _lead: str) -> Found | None:
    """Read "this week last year", "this month two years ago"."""
    if words.word(at) != "this" or words.word(at + 1) not in ("week", "month", "quarter"):
        return None
    place = words.skip(at + 2, "of")
    years = words.after(place, "last year")
    quantity = named.years_ago_at(words, place)
    if years:
        quantity = Quantity(1, 1, is_rough=False, unit=UNITS["year"], end=years - 1, is_counted=False)
    if quantity is None or quantity.low < quantity.high:
        return None
    found = [one for rule in relative.RULES if (one := rule(words, at, now, "")) and one.kind == "period"]
    seen = _shifted(found[0], quantity) if found else None
    return seen._replace(end=quantity.end + 1) if seen else None


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
        half = words.after(place + 2, "and a half")
        amount = 1.5 if half else 1.0
        quantity = Quantity(amount, amount, is_rough=False, unit=unit, end=half or place + 2, is_counted=False)
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


RULES: tuple[Rule, ...] = (_ago, _this_time, _past)
"""All rules of this module."""
