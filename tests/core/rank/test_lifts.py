"""What stands around a drawer: another exchange of its session, and its date."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palace_daemon.core import dates, rank

DAY_MS = 86_400_000
NOW = 1_800_000_000_000

_ROWS = st.lists(
    st.tuples(
        st.sampled_from([-0.25, 0.0, 0.1, 0.25, 0.5, 1.5, -np.inf]), st.integers(0, 5), st.integers(0, 2), st.booleans()
    ),
    max_size=10,
)
"""Total, exchange, session (of an exchange: its number by two), whether in scope."""


def lift(rows: list[tuple[float, int, int, bool]]) -> list[float]:
    totals, exchanges, sessions, in_scope = (list(column) for column in zip(*rows, strict=True)) if rows else [[]] * 4
    found: list[float] = rank.session_lift(
        np.array(totals, np.float64),
        np.array(exchanges, np.int64),
        np.array(sessions, np.int64),
        np.array(in_scope, np.bool_),
    ).tolist()
    return found


@given(_ROWS)
def test_the_lift_is_the_best_total_of_another_exchange_of_the_session(
    drawn: list[tuple[float, int, int, bool]],
) -> None:
    rows = [(total, exchange, exchange // 2, is_in) for total, exchange, _, is_in in drawn]
    expected = [
        max((t for t, e, s, is_in in rows if is_in and s == session and e != exchange), default=0.0)
        for _, exchange, session, _ in rows
    ]
    assert lift(rows) == pytest.approx([max(0.0, one) for one in expected])


def test_drawers_of_one_exchange_do_not_lift_each_other() -> None:
    assert lift([(0.9, 1, 0, True), (0.8, 1, 0, True)]) == [0.0, 0.0]
    assert lift([(0.9, 1, 0, True), (0.8, 1, 0, True), (0.5, 2, 0, True)]) == [0.5, 0.5, 0.9]


def test_of_two_exchanges_that_tie_each_lifts_the_other() -> None:
    assert lift([(0.5, 1, 0, True), (0.5, 2, 0, True), (0.1, 3, 0, True)]) == [0.5, 0.5, 0.5]


def test_what_is_out_of_scope_or_of_another_session_lifts_nothing() -> None:
    assert lift([(0.5, 1, 0, True), (0.9, 2, 0, False), (0.9, 3, 1, True)]) == [0.0, 0.5, 0.0]


def test_the_lift_does_not_depend_on_the_last_bits_of_a_total() -> None:
    off = 0.3 + 4e-8
    assert lift([(0.3, 1, 0, True), (0.1, 2, 0, True)])[1] == lift([(off, 1, 0, True), (0.1, 2, 0, True)])[1]


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
