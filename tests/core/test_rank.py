from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palace_daemon.core import rank


def postings(term: str, frequencies: dict[int, int]) -> rank.TermPostings:
    return rank.TermPostings(
        term=term,
        rows=np.array(sorted(frequencies), np.int64),
        frequencies=np.array([frequencies[row] for row in sorted(frequencies)], np.uint16),
    )


def by_the_book(documents: list[list[str]], query: list[str]) -> list[float]:
    """BM25 written from its definition, one document at a time."""
    mean = max(sum(map(len, documents)) / len(documents), 1.0)
    scores = []
    for document in documents:
        score = 0.0
        for term in dict.fromkeys(query):
            holders = sum(term in other for other in documents)
            idf = math.log(1 + (len(documents) - holders + 0.5) / (holders + 0.5)) ** 1.5
            frequency = document.count(term)
            score += (
                idf * frequency * 2.5 / (frequency + 1.5 * (0.25 + 0.75 * len(document) / mean)) if frequency else 0
            )
        scores.append(score)
    return scores


@given(
    st.lists(st.lists(st.sampled_from("abcde"), max_size=8), min_size=1, max_size=6), st.lists(st.sampled_from("abf"))
)
def test_bm25_equals_its_definition(documents: list[list[str]], query: list[str]) -> None:
    lengths = np.array([len(document) for document in documents], np.float64)
    terms = [
        postings(term, {row: d.count(term) for row, d in enumerate(documents) if term in d})
        for term in dict.fromkeys(query)
    ]
    scores = rank.bm25(terms, lengths, np.ones(len(documents), np.bool_))
    assert scores.tolist() == pytest.approx(by_the_book(documents, query))


def test_bm25_of_an_empty_collection_is_empty() -> None:
    assert rank.bm25([], np.empty(0), np.empty(0, np.bool_)).tolist() == []


def test_dead_rows_do_not_change_the_living() -> None:
    alone = rank.bm25([postings("a", {0: 2})], np.array([4.0, 6.0]), np.array([True, True]))
    beside = rank.bm25([postings("a", {0: 2})], np.array([4.0, 6.0, 99.0]), np.array([True, True, False]))
    assert beside[:2].tolist() == alone.tolist()


def test_score_adds_weighted_parts_and_hides_what_is_out_of_scope() -> None:
    scored = rank.score(
        cosines=np.array([0.5, 0.2, 0.9]),
        has_vector=np.array([True, True, True]),
        bm25_scores=np.array([4.0, 8.0, 16.0]),
        in_scope=np.array([True, True, False]),
    )
    assert scored.total[:2].tolist() == pytest.approx([0.65 * 0.5 + 0.35 * 0.5, 0.65 * 0.2 + 0.35])
    assert scored.total[2] == -np.inf


def test_a_drawer_without_vector_gets_the_typical_cosine_of_those_that_match() -> None:
    filled = rank.with_imputed(
        np.array([0.4, 0.6, 0.0, 0.1]), np.array([True, True, False, True]), np.array([True, True, True, False])
    )
    assert filled.tolist() == [0.4, 0.6, 0.5, 0.1]


def test_words_alone_rank_when_there_is_no_question_vector() -> None:
    scored = rank.score(
        cosines=None,
        has_vector=np.array([True, False]),
        bm25_scores=np.array([0.0, 3.0]),
        in_scope=np.array([True, True]),
    )
    assert scored.total.tolist() == [0.0, 0.35]
    assert set(scored.parts) == {"bm25"}


def test_candidates_keep_all_that_tie_with_the_last() -> None:
    total = np.array([1.0, 3.0, 2.0, 2.0, -np.inf, 2.0])
    assert rank.candidates(total, 2).tolist() == [1, 2, 3, 5]
    assert rank.candidates(total, 99).tolist() == [1, 2, 3, 5, 0]
    assert rank.candidates(np.empty(0), 3).tolist() == []


def test_exact_cosines_do_not_depend_on_the_row() -> None:
    dice = np.random.default_rng(4)
    matrix = dice.standard_normal((257, 384)).astype(np.float32)
    query = dice.standard_normal(384).astype(np.float32)
    whole = rank.exact_cosines(matrix, query)
    for start in (0, 1, 3, 100, 250):
        assert rank.exact_cosines(matrix[start:], query).tolist() == whole[start:].tolist()


def test_order_is_by_total_then_newer_then_key() -> None:
    totals = np.array([1.0, 2.0, 2.0, 2.0])
    dates = np.array([9, 5, 7, 7])
    assert rank.order(totals, dates, ["a", "b", "d", "c"]) == [3, 2, 1, 0]


def test_words_count_in_full_where_one_drawer_has_most_of_the_questions_weight() -> None:
    live = np.ones(100, np.bool_)
    rare, common = postings("rare", {3: 1}), postings("common", dict.fromkeys(range(60), 1))
    nowhere = postings("nowhere", {})
    assert rank.confidence([rare, common], live, live) == 1.0
    weak = rank.confidence([nowhere, common], live, live)
    assert 0.0 < weak < 0.1
    out_of_scope = live.copy()
    out_of_scope[3] = False
    assert rank.confidence([rare, common], live, out_of_scope) < 0.1
    assert rank.confidence([], live, live) == 0.0


@pytest.mark.parametrize(("word_confidence", "first"), [(1.0, 0), (0.1, 1)])
def test_weak_words_weigh_less_against_meaning(word_confidence: float, first: int) -> None:
    scored = rank.score(
        cosines=np.array([0.2, 0.4]),
        has_vector=np.array([True, True]),
        bm25_scores=np.array([1.0, 0.0]),
        in_scope=np.array([True, True]),
        word_confidence=word_confidence,
    )
    assert scored.total.argmax() == first
