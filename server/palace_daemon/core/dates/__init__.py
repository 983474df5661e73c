"""Reads the dates in a question: the spans of time that it names.

What is read and what is not:

* Everything is relative to the caller's moment and zone, and is handed back as UTC. Weeks begin on Monday, months are
  those of the calendar, seasons are the northern hemisphere's by whole months (spring is March to May).
* Without a year the latest is meant that is not after now: "in March" is the current March in March. "Last March" is
  the latest that is over.
* A weekday alone ("on Tuesday"), a month alone without a preposition, a number of days without "ago" or "last", and
  what lies ahead ("tomorrow", "in two weeks", "next March") are no dates; a date written in full may lie ahead.
* What stands beside another time is seen from there: "two weeks ago yesterday", "in March two years ago" (March of the
  year two before this one), "the weekend before last", "the last Friday of February". "No later than" and "not before"
  hold the time that they name.
* Where a phrase has two readings ("03/05/2024", "last Tuesday" said later in the same week) there are two spans with
  the same ``words``; take the larger of their weights, not the sum.
* Code in backticks and closed fences, identifiers, paths, versions, and time stamps of logs are no dates.

Invariant: no text and no moment raises, and the time taken is linear in the length of the text.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from palace_daemon.core.dates import calendar
from palace_daemon.core.dates.calendar import DAY_MS, MINUTE_MS
from palace_daemon.core.dates.found import DateKind, Found
from palace_daemon.core.dates.phrases import phrase, starts
from palace_daemon.core.dates.words import Words

SPANS_MAX = 16
"""Most spans of one text. Of more, as in a pasted log, the first and the last are kept: there the question stands."""

NO_DATE = int(np.iinfo(np.int64).min)
"""Stands for the date of a drawer that has none."""

_MARGIN_DAYS, _MARGIN_SHARE, _MARGIN_DAYS_MAX = 1.0, 0.25, 45.0
_BROAD_DAYS, _BROAD_POWER, _BROAD_DAYS_MAX = 30.0, 0.6, 730.0


class DateSpan(Struct, frozen=True, kw_only=True):
    """A span of time that a text names."""

    start_ms: int
    """UTC epoch milliseconds, the first that belongs to it."""
    end_ms: int
    """UTC epoch milliseconds, the first that no longer belongs to it; always after the start."""
    words: tuple[int, int]
    """Where the words that name it begin and end in the text, prepositions included."""
    kind: DateKind
    """``day`` for a day or a part of it, ``period`` for a longer unit of the calendar, ``ago`` for a distance, ``past``
    for a stretch up to now, ``vague`` for "recently". ``before`` begins in year 1."""
    certainty: float
    """In (0, 1]: 1.0 there is one way to take it, 0.8 the likeliest, 0.6 doubtful, 0.5 one of two, 0.3 vague."""

    @property
    def width_days(self) -> float:
        """Length in days."""
        return (self.end_ms - self.start_ms) / DAY_MS


def spans(text: str, now_ms: int, utc_offset_minutes: int = 0) -> tuple[DateSpan, ...]:
    """Return the distinct spans of time that ``text`` names, in its order; see the module for what is read.

    Args:
        text: A question, of any length.
        now_ms: The caller's moment, UTC epoch milliseconds.
        utc_offset_minutes: The caller's zone, east positive. One offset is used for all dates: a summer time that began
            in between moves the edges of a day by an hour.
    """
    words = Words(text)
    now = calendar.now_at(now_ms, utc_offset_minutes)
    read: list[DateSpan] = []
    done = 0
    for at in starts(words):
        found = phrase(words, at, now) if at >= done else None
        if found:
            read += _in_utc(found, (words[at].start, words[found.end - 1].end), utc_offset_minutes)
            done = found.end
    by_time: dict[tuple[int, int], DateSpan] = {}
    for span in read:
        by_time.setdefault((span.start_ms, span.end_ms), span)
    distinct, half = tuple(by_time.values()), SPANS_MAX // 2
    return distinct if len(distinct) <= SPANS_MAX else distinct[:half] + distinct[-half:]


def _in_utc(found: Found, place: tuple[int, int], utc_offset_minutes: int) -> list[DateSpan]:
    """Return the readings as spans; those that lie outside the years 1 to 9999 are none."""
    read: list[DateSpan] = []
    for period, certainty in found.readings:
        start, end = (calendar.clamp(ms - utc_offset_minutes * MINUTE_MS) for ms in period)
        if start < end:
            read.append(DateSpan(start_ms=start, end_ms=end, words=place, kind=found.kind, certainty=certainty))
    return read


def window_weight(span: DateSpan, at_ms: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return float64 ``[n]`` in [0, 1]: how well each moment fits a span.

    It is the product of three factors:

    * the span's certainty;
    * narrowness, ``(1 + (width - 1) / 30) ** -0.6`` for a width in days from 1 to 730: 1 for a day, 0.93 for the five
      days of "10 days ago", 0.90 for a week, 0.66 for a month, 0.43 for three months, 0.21 for a year;
    * nearness, 1 inside the span, and outside a half cosine that falls to 0 at a margin of a day and a quarter of the
      width, 45 days at most: people are a little off, and more so for longer times.

    Args:
        span: From :func:`spans`.
        at_ms: UTC epoch milliseconds ``[n]``; :data:`NO_DATE` gives 0.
    """
    at = at_ms.astype(np.float64)
    outside_ms = np.maximum(np.maximum(span.start_ms - at, at - (span.end_ms - 1)), 0.0)
    margin_ms = DAY_MS * min(_MARGIN_DAYS + _MARGIN_SHARE * span.width_days, _MARGIN_DAYS_MAX)
    is_near = outside_ms < margin_ms  # few, as a rule, and a cosine takes longer than all else here
    nearness = np.zeros(len(at), np.float64)
    nearness[is_near] = 0.5 * (1.0 + np.cos(np.pi * (outside_ms[is_near] / margin_ms)))
    width = min(max(span.width_days, 1.0), _BROAD_DAYS_MAX)
    narrowness = (1.0 + (width - 1.0) / _BROAD_DAYS) ** -_BROAD_POWER
    return np.where(at_ms == NO_DATE, 0.0, span.certainty * narrowness * nearness)
