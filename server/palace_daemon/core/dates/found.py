"""What a rule that reads dates hands back, and how sure it can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from palace_daemon.core.dates.calendar import Now, Period
from palace_daemon.core.dates.words import Words

DateKind = Literal["day", "period", "ago", "past", "range", "since", "before", "after", "vague"]

SURE, LIKELY, DOUBTFUL, EITHER, VAGUE = 1.0, 0.8, 0.6, 0.5, 0.3
"""Certainties: there is one way to take it; the likeliest of several; a word that may mean else; one reading of two;
"recently"."""


class Found(NamedTuple):
    """What a rule found."""

    end: int
    """The place after its last word."""
    kind: DateKind
    readings: tuple[tuple[Period, float], ...]
    """Periods with their certainties, the likelier first."""
    yearless: tuple[int, int] | None = None
    """Month and day (0 for a period that begins with the month) where no year was named."""
    is_calendar: bool = False
    """Days, months, quarters and years by their names and numbers: what stands on both sides of a dash."""


Rule = Callable[[Words, int, Now, str], Found | None]
"""Of the words, the place where it begins, the caller's moment, and the *lead*, the preposition before it."""
