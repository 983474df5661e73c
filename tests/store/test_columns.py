from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palace_daemon.store import columns
from palace_daemon.store.columns import Column


@given(st.lists(st.lists(st.integers(-9, 9), max_size=700), max_size=12))
def test_a_column_holds_what_was_appended_and_views_keep_what_they_showed(parts: list[list[int]]) -> None:
    column = Column(np.int64)
    told: list[int] = []
    shown = []
    for part in parts:
        column.extend(np.array(part, np.int64))
        told += part
        shown.append((column.view(), list(told)))
    for view, expected in shown:
        assert view.tolist() == expected


def test_entries_that_are_skipped_are_filled_and_can_be_written() -> None:
    column = Column(np.int64, -1)
    column.reach(3)
    column.put(np.array([0, 2]), np.array([7, 9]))
    assert column.view().tolist() == [7, -1, 9]
    column.reach(2)
    assert column.count == 3


def test_a_view_cannot_be_written() -> None:
    column = Column(np.int64)
    column.extend(np.arange(3))
    with pytest.raises(ValueError, match="read-only"):
        column.view()[0] = 5


def test_growing_moves_few_entries_for_each_that_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[int] = []
    move = columns._moved

    def counted(buffer: np.ndarray[tuple[int], np.dtype[np.int64]], count: int, size: int, fill: int) -> object:
        moved.append(count)
        return move(buffer, count, size, fill)

    monkeypatch.setattr(columns, "_moved", counted)
    column = Column(np.int64)
    for number in range(60_000):
        column.extend(np.array([number]))
    assert column.view().tolist() == list(range(60_000))
    assert sum(moved) < 5 * 60_000
