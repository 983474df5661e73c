"""Ranks into figures, on cases that can be counted by hand."""

from __future__ import annotations

import pytest

from palace_daemon.bench.recall_metrics import (
    Judged,
    Key,
    Moved,
    Ranks,
    compare,
    figures,
    mcnemar,
    per_kind,
    percentile,
    shown,
    written,
)


def _judged(name: str, kind: str, *ranks: int | None) -> Judged:
    return Judged(question_id=name, kind=kind, ranks=ranks)


FOUR = [
    _judged("a", "x", 1),
    _judged("b", "x", 4, 2),
    _judged("c", "y", None, 5),
    _judged("d", "y", None),
]


def test_some_gold_and_all_gold_are_counted_apart() -> None:
    found = figures(FOUR)
    assert found.n == 4
    assert found.any_at == {1: 1, 3: 2, 5: 3, 10: 3}
    assert found.all_at == {1: 1, 3: 1, 5: 2, 10: 2}


def test_the_reciprocal_rank_is_that_of_the_best_gold() -> None:
    assert figures(FOUR).mrr == pytest.approx((1 + 1 / 2 + 1 / 5 + 0) / 4)


def test_kinds_are_counted_apart_and_come_by_name() -> None:
    kinds = per_kind(list(reversed(FOUR)))
    assert list(kinds) == ["x", "y"]
    assert (kinds["x"].n, kinds["x"].any_at[1], kinds["y"].any_at[5]) == (2, 1, 1)


def test_no_question_gives_zeros() -> None:
    assert figures([]).mrr == 0.0
    assert figures([]).any_at[10] == 0


@pytest.mark.parametrize(
    ("gained", "lost", "expected"),
    [
        (0, 0, 1.0),
        (1, 0, 1.0),
        (5, 0, 2 / 32),
        (0, 5, 2 / 32),
        (8, 2, 2 * (1 + 10 + 45) / 1024),
        (3, 3, 1.0),
    ],
)
def test_the_paired_test_is_the_exact_one(gained: int, lost: int, expected: float) -> None:
    assert mcnemar(gained, lost) == pytest.approx(expected)


def test_the_paired_test_takes_more_pairs_than_a_float_has_powers_of_two() -> None:
    assert 0.0 < mcnemar(1_000, 1_100) < 0.05


@pytest.mark.parametrize(
    ("p_value", "in_json", "in_words"),
    [
        (1.0, 1.0, "p = 1"),
        (0.0625, 0.0625, "p = 0.062"),
        (0.000_123_456_78, 0.000_123_457, "p = 0.00012"),
        (0.000_099, 0.000_099, "p < 0.0001"),
        (mcnemar(40, 0), 1.818_99e-12, "p < 0.0001"),
    ],
)
def test_a_small_p_is_never_written_as_zero(p_value: float, in_json: float, in_words: str) -> None:
    assert written(p_value) == in_json
    assert shown(p_value) == in_words


def _keyed(ranks: dict[str, Ranks]) -> dict[Key, Ranks]:
    return {Key("h", name): one for name, one in ranks.items()}


def test_two_runs_are_compared_over_the_questions_with_gold_that_both_have() -> None:
    before: dict[str, Ranks] = {"a": (2,), "b": (1,), "c": (None,), "d": (3, None), "only before": (1,), "no gold": ()}
    after: dict[str, Ranks] = {"a": (1,), "b": (None,), "c": (10,), "d": (3, 4), "only after": (1,), "no gold": (1,)}
    found = compare(_keyed(before), _keyed(after))
    assert found.n == 4
    assert found.up == (
        Moved(key=Key("h", "a"), before=2, after=1),
        Moved(key=Key("h", "c"), before=None, after=10),
    )
    assert found.down == (Moved(key=Key("h", "b"), before=1, after=None),)
    assert [(one.k, one.gained, one.lost) for one in found.paired] == [(1, 1, 1), (3, 0, 1), (5, 0, 1), (10, 1, 1)]


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(value) for value in range(20, 0, -1)]
    assert (percentile(values, 0.5), percentile(values, 0.95), percentile(values, 1.0)) == (10.0, 19.0, 20.0)
    assert percentile([], 0.5) == 0.0
    assert percentile([7.0], 0.95) == 7.0
