"""Debouncing on an invented clock."""

from __future__ import annotations

import pytest

from palace_daemon.watch.batch import MAX_WAIT_FACTOR, PathBatch


def test_a_path_is_due_once_it_has_been_quiet() -> None:
    batch = PathBatch(1.0)
    assert (batch.wait_s(0.0), batch.take(0.0)) == (None, [])
    batch.put(["a"], 10.0)
    assert batch.take(10.9) == []
    assert batch.wait_s(10.5) == pytest.approx(0.5)
    batch.put(["a"], 10.9)
    assert batch.take(11.5) == [], "the quiet time began anew"
    assert batch.take(11.9) == ["a"]
    assert (len(batch), batch.wait_s(12.0)) == (0, None)


def test_a_path_that_never_rests_is_due_after_the_longest_wait() -> None:
    batch = PathBatch(1.0)
    taken = []
    for step in range(100):
        batch.put(["busy"], step / 10)
        taken += [step / 10 for _ in batch.take(step / 10)]
    assert taken[0] == pytest.approx(MAX_WAIT_FACTOR)
    assert len(taken) == 2


def test_a_busy_path_does_not_hold_up_another() -> None:
    batch = PathBatch(1.0)
    batch.put(["busy"], 0.0)
    batch.put(["calm"], 0.1)
    batch.put(["busy"], 1.0)
    assert batch.take(1.2) == ["calm"]


def test_waiting_never_overshoots_a_path_that_is_put_meanwhile() -> None:
    batch = PathBatch(1.0)
    batch.put(["a"], 0.0)
    batch.put(["a"], 0.9)
    assert batch.wait_s(0.9) == pytest.approx(1.0)
    assert batch.wait_s(50.0) == 0.0


def test_paths_come_out_once_in_the_order_of_their_first_change() -> None:
    batch = PathBatch(0.0)
    batch.put(["b", "a", "b", "c"], 0.0)
    assert batch.take(0.0) == ["b", "a", "c"]
