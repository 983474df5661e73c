"""Budgets in characters and in tokens."""

from __future__ import annotations

import pytest

from palace_daemon.core.budget import Budget, estimated_tokens


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("記憶", 2), ("記abcde", 3)]
)
def test_tokens_are_estimated_by_script(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


def test_a_budget_without_bounds_takes_everything() -> None:
    assert Budget(None, None).take("x" * 10**6)


def test_both_sides_of_a_budget_hold() -> None:
    budget = Budget(10, 2)
    assert not budget.take("x" * 11)
    assert not budget.take("記憶記")
    assert budget.take("記", "a")
    assert not budget.take("a")
    assert budget.take("")


def test_what_does_not_fit_takes_nothing_unless_it_must_be_taken() -> None:
    budget = Budget(10, None)
    assert not budget.take("x" * 6, "x" * 5)
    assert budget.take("x" * 10)
    forced = Budget(3, None)
    assert forced.take("x" * 10, is_forced=True)
    assert not forced.take("x")
