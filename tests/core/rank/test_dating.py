"""What stands around a drawer: its date."""

from __future__ import annotations

import numpy as np

from palace_daemon.core import dates, rank

DAY_MS = 86_400_000
NOW = 1_800_000_000_000


def test_dates_in_a_span_that_is_named_are_lifted_and_others_are_not() -> None:
    spans = dates.spans("what did we fire 10 days ago?", NOW, 0)
    starts = np.array([NOW - 10 * DAY_MS, NOW - 90 * DAY_MS, np.iinfo(np.int64).min])
    near, far, undated = rank.date_lift(spans, starts)
    assert 0.0 < near <= 1.0
    assert (far, undated) == (0.0, 0.0)


def test_of_several_spans_the_best_counts() -> None:
    one = dates.spans("what did we fire 10 days ago?", NOW, 0)
    other = dates.spans("what did we fire 40 days ago?", NOW, 0)
    starts = NOW - DAY_MS * np.array([10, 40, 200])
    both = rank.date_lift([*one, *other], starts)
    assert both.tolist() == np.maximum(rank.date_lift(one, starts), rank.date_lift(other, starts)).tolist()
    assert both[0] > 0.0
    assert both[1] > 0.0


def test_a_question_without_a_date_lifts_nothing() -> None:
    assert rank.date_lift([], np.array([NOW, 0])).tolist() == [0.0, 0.0]
