"""Putting the signals together: weighted sums, an upper bound, and one order. No test knows a weight."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palace_daemon.core import rank
from palace_daemon.core.rank import fusion

W = rank.WEIGHTS
ROUNDING = 1e-5
"""What those who use bounds allow float32 to be off by."""
FULL = rank.Weights(cosine=0.65, bm25=0.35, statement=0.5, wish=0.6, sentence=0.2, date=0.12)
"""Every signal has a say, whatever the product gives it."""


def evidence(count: int = 3, **fields: Any) -> rank.Evidence:
    """Return what is known of ``count`` drawers: nothing but ``fields``."""
    known: dict[str, Any] = {
        "in_scope": np.ones(count, np.bool_),
        "bm25": np.zeros(count),
        "coverage": np.zeros(count),
        "cosines": np.zeros(count),
        "has_vector": np.ones(count, np.bool_),
        "typical": 0.0,
        "statements": np.full(count, -1.0),
        "wishes": None,
        "dates": None,
    }
    return _weighed(known | fields)


def _weighed(known: dict[str, Any]) -> rank.Evidence:
    """Return the evidence with what follows from words: all of it as if it were exact."""
    in_scope = known["in_scope"]
    largest = float(known["bm25"].max(where=in_scope, initial=0.0))
    covered = float(known["coverage"].max(where=in_scope, initial=0.0))
    return rank.Evidence(**known, largest=largest, confidence=rank.confidence(covered))


def parts(scored: rank.Scored) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Return the parts of all drawers but ``sentence``, as if their cosines were just what the evidence says."""
    known, nothing = scored.evidence, np.zeros(len(scored.bound))
    rows = np.arange(len(nothing))
    found = scored.parts(rows, known.bm25, nothing, known.cosines, known.statements, known.wishes)  # type: ignore[arg-type]
    return {name: values for name, values in found.items() if name != "sentence"}


def totals(scored: rank.Scored) -> list[float]:
    found: list[float] = sum(parts(scored).values(), np.zeros(len(scored.bound))).tolist()
    return found


def test_each_part_is_its_signal_times_its_weight() -> None:
    scored = rank.score(
        evidence(
            bm25=np.array([4.0, 8.0, 0.0]),
            coverage=np.array([1.0, 1.0, 0.0]),
            cosines=np.array([0.5, 0.2, 0.3]),
            statements=np.array([0.1, 0.7, -1.0]),
            dates=np.array([0.0, 0.5, 1.0]),
        ),
        FULL,
    )
    assert parts(scored)["bm25"].tolist() == pytest.approx([0.5 * FULL.bm25, FULL.bm25, 0.0])
    assert parts(scored)["cosine"].tolist() == pytest.approx([FULL.cosine * one for one in (0.5, 0.2, 0.3)])
    assert parts(scored)["statement"].tolist() == pytest.approx([FULL.statement * one for one in (0.5, 0.7, 0.3)])
    assert parts(scored)["date"].tolist() == pytest.approx([0.0, 0.5 * FULL.date, FULL.date])
    assert scored.sentence_weight == FULL.sentence
    assert set(parts(scored)) == {"bm25", "cosine", "statement", "date"}


def test_what_is_out_of_scope_has_no_bound_and_does_not_scale_the_others() -> None:
    scored = rank.score(
        evidence(bm25=np.array([4.0, 8.0, 16.0]), coverage=np.ones(3), in_scope=np.array([True, True, False]))
    )
    assert scored.bound[2] == -np.inf
    assert parts(scored)["bm25"][:2].tolist() == pytest.approx([W.bm25 / 2, W.bm25])


def test_words_alone_rank_when_there_is_no_question_vector() -> None:
    scored = rank.score(
        evidence(2, bm25=np.array([0.0, 3.0]), coverage=np.array([0.0, 0.01]), cosines=None, statements=None)
    )
    assert totals(scored) == [0.0, W.bm25]  # in full, however little of the question it is
    assert "cosine" not in parts(scored)
    assert "statement" not in parts(scored)


@pytest.mark.parametrize(("coverage", "first"), [(1.0, 0), (0.01, 1)])
def test_weak_words_weigh_less_against_meaning(coverage: float, first: int) -> None:
    scored = rank.score(
        evidence(2, bm25=np.array([1.0, 0.0]), coverage=np.array([coverage, 0.0]), cosines=np.array([0.2, 0.3])),
        FULL,
    )
    assert int(np.argmax(totals(scored))) == first


def test_an_exchange_that_states_nothing_is_read_as_a_whole() -> None:
    scored = rank.score(evidence(2, cosines=np.array([0.4, 0.4]), statements=np.array([-1.0, 0.4])), FULL)
    assert parts(scored)["statement"][0] == parts(scored)["statement"][1]


def test_a_drawer_without_vector_gets_the_typical_cosine_of_those_that_match() -> None:
    typical = rank.typical_cosine(np.array([0.4, 0.6]))
    filled = rank.with_imputed(np.array([0.4, 0.6, 0.0, 0.1]), np.array([True, True, False, True]), typical)
    assert filled.tolist() == [0.4, 0.6, 0.5, 0.1]
    nothing = rank.typical_cosine(np.empty(0))
    assert rank.with_imputed(np.array([0.4, 0.0]), np.array([True, False]), nothing).tolist() == [0.4, 0.0]


def test_in_score_a_typical_cosine_stands_only_where_none_is_known() -> None:
    scored = rank.score(
        evidence(cosines=np.array([0.3, 0.9, 0.0]), has_vector=np.array([True, True, False]), typical=0.25), FULL
    )
    assert parts(scored)["cosine"].tolist() == pytest.approx([FULL.cosine * one for one in (0.3, 0.9, 0.25)])
    assert scored.bound[2] == pytest.approx((FULL.cosine + FULL.statement) * 0.25)


# ------------------------------------------------------------------------------------------------------------ requests


def test_in_a_request_words_weigh_less_and_wishes_more() -> None:
    known: dict[str, Any] = {
        "bm25": np.array([3.0, 0.0, 0.0]),
        "coverage": np.array([1.0, 0.0, 0.0]),
        "cosines": np.array([0.3, 0.2, 0.2]),
        "statements": np.array([-1.0, 0.2, 0.2]),
    }
    plain = rank.score(evidence(**known), FULL)
    request = rank.score(evidence(**known, wishes=np.array([-1.0, 0.2, -1.0])), FULL)
    assert "wish" not in parts(plain)
    assert parts(request)["bm25"][0] == pytest.approx(fusion.REQUEST_WORDS * parts(plain)["bm25"][0])
    assert 0.0 <= fusion.REQUEST_WORDS < 1.0
    assert request.sentence_weight == pytest.approx(fusion.REQUEST_WORDS * plain.sentence_weight)
    assert parts(request)["wish"].tolist() == pytest.approx([0.0, FULL.wish * (0.2 + fusion.WISH_OFFSET), 0.0])
    words, wish, _ = totals(plain)
    words_asked, wish_asked, other = totals(request)
    assert wish_asked - words_asked > wish - words
    assert wish_asked > other


def test_wishes_bear_on_requests_even_of_another_topic_and_the_nearer_the_more() -> None:
    none, far, near = rank.wish_lift(np.array([-1.0, -0.2, 0.4])).tolist()
    assert none == 0.0
    assert 0.0 < far < near


# ------------------------------------------------------------------------------------------------------ weights, bound

_UNIT = st.floats(0.0, 1.0)
_COSINE = st.floats(-1.0, 1.0)


@st.composite
def _any_evidence(draw: st.DrawFn) -> rank.Evidence:
    count = draw(st.integers(1, 6))

    def array(of: st.SearchStrategy[Any], kind: type = float) -> np.ndarray[Any, Any]:
        return np.array(draw(st.lists(of, min_size=count, max_size=count)), kind)

    has_model = draw(st.booleans())
    return _weighed(
        {
            "in_scope": array(st.booleans(), np.bool_),
            "bm25": array(st.just(0.0) | st.floats(0.01, 50.0)),
            "coverage": array(_UNIT),
            "cosines": array(_COSINE) if has_model else None,
            "has_vector": array(st.booleans(), np.bool_),
            "typical": draw(_COSINE),
            "statements": array(_COSINE) if has_model else None,
            "wishes": array(_COSINE) if has_model and draw(st.booleans()) else None,
            "dates": array(_UNIT) if draw(st.booleans()) else None,
        }
    )


_WEIGHTS = st.builds(rank.Weights, **dict.fromkeys(rank.Weights.__struct_fields__, st.sampled_from([0.0, 0.1, 0.7])))


@given(_any_evidence(), _WEIGHTS, _UNIT)
def test_no_total_is_above_its_bound(known: rank.Evidence, weights: rank.Weights, share: float) -> None:
    scored = rank.score(known, weights)
    best = np.array(totals(scored)) + scored.sentence_weight * share * known.coverage
    assert np.all(best[known.in_scope] <= scored.bound[known.in_scope] + ROUNDING / 2)
    assert np.isneginf(scored.bound[~known.in_scope]).all()


@given(_any_evidence(), _WEIGHTS, st.sampled_from(rank.Weights.__struct_fields__))
def test_a_weight_of_zero_takes_its_signal_out(known: rank.Evidence, weights: rank.Weights, name: str) -> None:
    scored = rank.score(known, msgspec.structs.replace(weights, **{name: 0.0}))
    if name == "sentence":
        assert scored.sentence_weight == 0.0
    else:
        assert not parts(scored).get(name, np.zeros(1)).any()


@given(_any_evidence())
def test_scoring_twice_gives_the_same_bits(known: rank.Evidence) -> None:
    one, other = rank.score(known), rank.score(known)
    assert one.bound.tobytes() == other.bound.tobytes()


def test_a_store_without_drawers_is_scored_as_empty() -> None:
    for weights in (W, FULL):
        assert rank.score(evidence(0), weights).bound.tolist() == []


# --------------------------------------------------------------------------------------------------- candidates, order


def test_candidates_keep_all_that_tie_with_the_last() -> None:
    total = np.array([1.0, 3.0, 2.0, 2.0, -np.inf, 2.0])
    assert rank.candidates(total, 2).tolist() == [1, 2, 3, 5]
    assert rank.candidates(total, 99).tolist() == [1, 2, 3, 5, 0]
    assert rank.candidates(np.empty(0), 3).tolist() == []


def test_of_those_that_tie_the_newest_are_candidates() -> None:
    total = np.array([0.0, 3.0, 0.0, 0.0, -np.inf, 0.0])
    started_at = np.array([5, 1, 7, 9, 99, 7])
    assert rank.candidates(total, 2, started_at).tolist() == [1, 3]
    assert rank.candidates(total, 3, started_at).tolist() == [1, 2, 3, 5]
    assert rank.candidates(total, 99, started_at).tolist() == [1, 0, 2, 3, 5]


def test_exact_cosines_do_not_depend_on_the_row() -> None:
    dice = np.random.default_rng(4)
    matrix = dice.standard_normal((257, 384)).astype(np.float32)
    query = dice.standard_normal(384).astype(np.float32)
    whole = rank.exact_cosines(matrix, query)
    for start in (0, 1, 3, 100, 250):
        assert rank.exact_cosines(matrix[start:], query).tolist() == whole[start:].tolist()


def test_order_is_by_total_then_newer_then_key() -> None:
    dates = np.array([9, 5, 7, 7])
    assert rank.order(np.array([1.0, 2.0, 2.0, 2.0]), dates, ["a", "b", "d", "c"]) == [3, 2, 1, 0]
