"""How much a moment counts for a span of time."""

from __future__ import annotations

import numpy as np
import pytest
from support.dating import MIN_MS, at

from palace_daemon.core.dates import NO_DATE, DateSpan, window_weight

DAY_MS = 86_400_000
MAX_MS = 253_402_300_799_999


def span_of(days: float, certainty: float = 1.0) -> DateSpan:
    start = at("2024-03-05")
    return DateSpan(start_ms=start, end_ms=start + round(days * DAY_MS), words=(0, 1), kind="day", certainty=certainty)


def weights(span: DateSpan, *moments: int) -> list[float]:
    return [float(weight) for weight in window_weight(span, np.array(moments, np.int64))]


def test_inside_a_span_all_moments_weigh_the_same() -> None:
    span = span_of(7)
    first, middle, last = weights(span, span.start_ms, span.start_ms + 3 * DAY_MS, span.end_ms - 1)
    assert first == middle == last == pytest.approx((1 + 6 / 30) ** -0.6)


def test_a_narrow_span_weighs_more_than_a_broad_one() -> None:
    found = [weights(span_of(days), at("2024-03-05"))[0] for days in (0.25, 1, 5, 7, 31, 92, 365, 730, 700_000)]
    assert found[0] == found[1] == 1.0
    assert found[1:8] == sorted(found[1:8], reverse=True)
    assert len(set(found[1:8])) == 7
    assert found[7] == found[8] > 0.1


def test_certainty_scales_a_weight() -> None:
    assert weights(span_of(1, 0.3), at("2024-03-05")) == [pytest.approx(0.3)]


def test_outside_a_span_the_weight_falls_smoothly_to_nothing() -> None:
    span = span_of(4)  # the margin is two days
    steps = [span.end_ms - 1 + round(share * 2 * DAY_MS) for share in (0.0, 0.01, 0.25, 0.5, 0.75, 1.0, 1.5)]
    falling = weights(span, *steps)
    assert falling == sorted(falling, reverse=True)
    assert falling[1] == pytest.approx(falling[0], rel=1e-3)
    assert falling[3] == pytest.approx(falling[0] / 2)
    assert falling[5:] == [0.0, 0.0]
    before = [span.start_ms - (moment - span.end_ms + 1) for moment in steps]
    assert weights(span, *before) == pytest.approx(falling)


def test_the_margin_grows_with_the_width_up_to_a_bound() -> None:
    def reach(days: float) -> int:
        span = span_of(days)
        beyond = np.arange(0, 400) * DAY_MS // 4 + span.end_ms
        return int(np.count_nonzero(window_weight(span, beyond.astype(np.int64))))

    assert reach(1) < reach(7) < reach(92) < reach(180) == reach(3650)


def test_a_row_without_a_date_weighs_nothing() -> None:
    everything = DateSpan(start_ms=MIN_MS, end_ms=MAX_MS, words=(0, 1), kind="before", certainty=1.0)
    assert weights(everything, NO_DATE, at("2024-03-05"))[0] == 0.0
    assert weights(everything, NO_DATE, at("2024-03-05"))[1] > 0.0
    assert window_weight(everything, np.empty(0, np.int64)).shape == (0,)
