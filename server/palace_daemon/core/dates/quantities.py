"""How many of a unit of time: "two weeks", "about two or three months", "a year and a half".

Invariant: nothing raises, and each quantity takes constant time.
"""

from __future__ import annotations

from typing import NamedTuple

from palace_daemon.core.dates.words import NUMBERS, TENS, UNITS, Unit, Words


class Quantity(NamedTuple):
    """How many units: from ``low`` to ``high``, which are equal in "three"."""

    low: float
    high: float
    is_rough: bool
    unit: Unit
    end: int
    """The place after the unit."""
    is_counted: bool
    """A number stood there, not only "a" or "the"."""


_ROUGH = (
    *("about", "around", "roughly", "approximately", "nearly", "almost", "maybe", "over", "more than", "less than"),
    *("under", "at least", "some", "like", "probably"),
)
_PLAIN = ("only", "just", "full", "whole", "entire")
_VAGUE: tuple[tuple[str, float, float], ...] = (
    ("a couple of", 2, 3),
    ("couple of", 2, 3),
    ("a couple", 2, 3),
    ("couple", 2, 3),
    ("a few", 2, 5),
    ("few", 2, 5),
    ("several", 3, 8),
    ("half a dozen", 6, 6),
    ("half a", 0.5, 0.5),
    ("half an", 0.5, 0.5),
    ("a dozen", 12, 12),
    ("a hundred", 100, 100),
)


_QUANTITY_WORDS = frozenset(
    phrase.split()[0] for phrase in (*_ROUGH, *_PLAIN, *(name for name, _, _ in _VAGUE), "a", "an", *NUMBERS, *TENS)
)


def quantity_at(words: Words, at: int) -> Quantity | None:
    """Return the quantity with its unit that begins at ``at``: "about two or three weeks", "a year and a half"."""
    if words[at].kind != "number" and words.word(at) not in _QUANTITY_WORDS:
        return None
    rough = words.after_any(at, _ROUGH)
    at = words.skip(rough or at, *_PLAIN)
    found = _amount_at(words, at)
    if found is None:
        return None
    low, high, at, is_counted = found
    at = words.skip(at, *_PLAIN)
    unit = UNITS.get(words[at].text)
    if unit is None or low <= 0:
        return None
    at, is_rough = at + 1, bool(rough)
    if after := words.after(at, "or so"):
        at, is_rough = after, True
    elif after := words.after(at, "or two"):
        at, high = after, low + 1
    elif after := words.after(at, "and a half"):
        at, low, high = after, low + 0.5, high + 0.5
    return Quantity(low, max(low, high), is_rough, unit, at, is_counted)


_PARTS_MAX = 4
_TAKES_ONE = ("for", "in", "within", "after", "last", "past", "every")
"""Words after which a quantity is whole where no "and" follows: "it ran for three hours, two minutes ago it ended"."""


def quantities_at(words: Words, at: int) -> tuple[Quantity, ...]:
    """Return the quantity that begins at ``at``, or all of "one month and two weeks", each of a smaller unit."""
    first = quantity_at(words, at)
    found: tuple[Quantity, ...] = (first,) if first else ()
    while found and len(found) < _PARTS_MAX and words.word(at - 1) != "between":
        comma = words.skip(found[-1].end, ",")
        place = words.skip(comma, "and")
        more = quantity_at(words, place)
        if more is None or _minutes(more.unit) >= _minutes(found[-1].unit):
            break
        if place == comma and words.word(at - 1) in _TAKES_ONE:
            break
        found += (more,)
    return found


def _minutes(unit: Unit) -> int:
    """Return how long a unit is, a month taken as thirty days."""
    return unit.minutes + (unit.days + 30 * unit.months) * 24 * 60


def _amount_at(words: Words, at: int) -> tuple[float, float, int, bool] | None:
    """Return the lowest and highest amount, the place of the unit, and whether it is more than an article."""
    for phrase, low, high in _VAGUE:
        if (after := words.after(at, phrase)) and _is_unit(words, after):
            return low, high, after, True
    if words.word(at) in ("a", "an"):
        return 1, 1, at + 1, False
    number = _number_at(words, at)
    if number is None:
        return None
    start, (low, at) = at, number
    is_between = words.word(start - 1) == "between" and words.word(at) == "and"
    if (is_between or words.word(at) in ("or", "to") or words.mark(at) == "-") and (
        second := _number_at(words, at + 1)
    ):
        return low, second[0], second[1], True
    if after := words.after(at, "and a half"):
        return low + 0.5, low + 0.5, after, True
    return low, low, at, True


def _is_unit(words: Words, at: int) -> bool:
    return words.word(words.skip(at, *_PLAIN)) in UNITS


def _number_at(words: Words, at: int) -> tuple[float, int] | None:
    """Return a number in digits or words, and the place after it; "10d" is a number whose unit stands at its place."""
    token = words[at]
    if token.kind == "number":
        is_thousands = (
            words.mark(at - 1) == "," and words[at - 2].kind == "number" and words[at - 2].end == token.start - 1
        )
        return None if is_thousands else (token.number, at if token.text in UNITS else at + 1)
    word = words.word(at)
    if word in TENS:
        ones = NUMBERS.get(words.word(at + 1), 10)
        return (TENS[word] + ones, at + 2) if ones < 10 else (TENS[word], at + 1)
    if word not in NUMBERS:
        return None
    is_hundred = words.word(at + 1) == "hundred"
    return (NUMBERS[word] * (100 if is_hundred else 1), at + 1 + is_hundred)
