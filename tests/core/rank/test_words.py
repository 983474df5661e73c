"""What words say: BM25 by its definition, and how much of the question stands in a drawer and in one sentence."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from palace_daemon.core import rank
from palace_daemon.core.rank import words
from palace_daemon.core.sentences import BUCKETS

EVERYWHERE = (1 << BUCKETS) - 1

Document = list[list[str]]
"""Sentences of words."""

_SENTENCES = st.lists(st.lists(st.sampled_from("abcde"), max_size=4), max_size=5)
_DOCUMENTS: st.SearchStrategy[list[Document]] = st.lists(_SENTENCES, min_size=1, max_size=6)
_QUERY = st.lists(st.sampled_from("abcdf"), max_size=5, unique=True)


def posting(term: str, frequencies: dict[int, int], masks: dict[int, int] | None = None) -> rank.TermPostings:
    rows = sorted(frequencies)
    return rank.TermPostings(
        term=term,
        rows=np.array(rows, np.int64),
        matches=len(rows),
        frequencies=np.array([frequencies[row] for row in rows], np.uint16),
        masks=np.array([(masks or {}).get(row, 1) for row in rows], np.uint16),
    )


def by_row(one: rank.TermPostings, count: int) -> rank.TermColumn:
    """Return the same as columns of ``count`` rows; what masks say of rows without the term must not matter."""
    column = rank.TermColumn(
        term=one.term,
        matches=one.matches,
        frequencies=np.zeros(count, np.uint16),
        masks=np.full(count, EVERYWHERE, np.uint16),
    )
    column.frequencies[one.rows] = one.frequencies
    column.masks[one.rows] = one.masks
    return column


def every_second_by_row(postings: list[rank.TermPostings], count: int) -> list[rank.Term]:
    return [by_row(one, count) if at % 2 else one for at, one in enumerate(postings)]


def collection(count: int, length: float = 0.0) -> rank.Collection:
    return rank.Collection(count=count, length=length)


def index(documents: list[Document], query: list[str]) -> list[rank.TermPostings]:
    found = []
    for term in query:
        holds = {row: [term in sentence for sentence in document] for row, document in enumerate(documents)}
        masks = {row: sum(1 << at for at, has in enumerate(flags) if has) for row, flags in holds.items()}
        frequencies = {row: sum(s.count(term) for s in documents[row]) for row, mask in masks.items() if mask}
        found.append(posting(term, frequencies, masks))
    return found


def rarity(documents: list[Document], term: str) -> float:
    holders = sum(any(term in sentence for sentence in document) for document in documents)
    return math.log(1 + (len(documents) - holders + 0.5) / (holders + 0.5))


def by_the_book(documents: list[Document], query: list[str]) -> list[float]:
    """BM25 written from its definition, one document at a time."""
    flat = [[word for sentence in document for word in sentence] for document in documents]
    mean = max(sum(map(len, flat)) / len(flat), 1.0)
    scores = []
    for said in flat:
        score = 0.0
        for term in query:
            frequency = said.count(term)
            norm = rank.BM25_K1 * (1 - rank.BM25_B + rank.BM25_B * len(said) / mean)
            weight = rarity(documents, term) ** rank.IDF_POWER
            score += weight * frequency * (rank.BM25_K1 + 1) / (frequency + norm)
        scores.append(score)
    return scores


def share_of(documents: list[Document], query: list[str], words: list[str]) -> float:
    """The share of the question's weight that ``words`` hold, from its definition."""
    weights = {term: rarity(documents, term) ** 2 for term in query}
    return sum(weight for term, weight in weights.items() if term in words) / sum(weights.values()) if weights else 0


@given(_DOCUMENTS, _QUERY)
def test_bm25_equals_its_definition(documents: list[Document], query: list[str]) -> None:
    lengths = np.array([sum(map(len, document)) for document in documents], np.float64)
    rows, whole = np.arange(len(documents)), collection(len(documents), float(lengths.sum()))
    scores = rank.bm25(index(documents, query), rows, lengths, whole)
    assert scores.tolist() == pytest.approx(by_the_book(documents, query))


def test_bm25_of_an_empty_collection_is_empty() -> None:
    nothing, lengths = np.empty(0, np.int64), np.array([3.0])
    assert rank.bm25([], nothing, np.empty(0), collection(0)).tolist() == []
    assert rank.bm25([posting("a", {})], np.array([0]), lengths, collection(0)).tolist() == [0.0]
    assert rank.bm25_at_most([posting("a", {})], lengths, collection(0)).tolist() == [0.0]


@given(_DOCUMENTS, _QUERY, st.data())
def test_the_form_of_a_term_and_what_else_is_scored_never_show(
    documents: list[Document], query: list[str], data: st.DataObject
) -> None:
    lengths = np.array([sum(map(len, document)) for document in documents], np.float64)
    whole, postings = collection(len(documents), float(lengths.sum())), index(documents, query)
    rows = np.array(sorted(data.draw(st.sets(st.sampled_from(range(len(documents)))))), np.int64)
    every, mixed = np.arange(len(documents)), every_second_by_row(postings, len(documents))
    scores = rank.bm25(postings, every, lengths, whole)[rows]
    assert rank.bm25(mixed, rows, lengths[rows], whole).tobytes() == scores.tobytes()
    assert rank.coverage(mixed, rows, whole).tobytes() == rank.coverage(postings, every, whole)[rows].tobytes()
    said = rank.sentence_coverage(postings, whole, every)[rows]
    assert rank.sentence_coverage(mixed, whole, rows).tobytes() == said.tobytes()


@given(_DOCUMENTS, _QUERY, st.integers(1, 5))
def test_what_is_said_of_all_is_no_less_than_the_exact_and_little_more(
    documents: list[Document], query: list[str], times: int
) -> None:
    documents = documents * times
    lengths = np.array([sum(map(len, document)) for document in documents], np.float64)
    whole, every = collection(len(documents), float(lengths.sum())), np.arange(len(documents))
    terms = every_second_by_row(index(documents, query), len(documents))
    for most, exact in (
        (rank.bm25_at_most(terms, lengths, whole), rank.bm25(terms, every, lengths, whole)),
        (rank.coverage_at_most(terms, len(documents), whole), rank.coverage(terms, every, whole)),
    ):
        assert np.all(most >= exact)
        assert np.all(most <= exact * (1 + words.MARGIN))


@given(st.lists(st.tuples(st.just(0.0) | st.floats(1e-3, 50.0), st.booleans()), max_size=8), st.integers(0, 2**32 - 1))
def test_the_largest_in_scope_is_that_of_reading_all(known: list[tuple[float, bool]], seed: int) -> None:
    exact = np.array([one for one, _ in known], np.float64)
    in_scope = np.array([flag for _, flag in known], np.bool_)
    above = np.random.default_rng(seed).uniform(words.MARGIN / 4, words.MARGIN * 3 / 4, len(known))
    most = (exact * (1 + above)).astype(np.float32)
    assert rank.largest(most, in_scope, lambda rows: exact[rows]) == exact.max(where=in_scope, initial=0.0)


@given(_DOCUMENTS, _QUERY)
def test_coverage_equals_its_definition(documents: list[Document], query: list[str]) -> None:
    count = len(documents)
    expected = [share_of(documents, query, [word for s in document for word in s]) for document in documents]
    found = rank.coverage(index(documents, query), np.arange(count), collection(count))
    assert found.tolist() == pytest.approx(expected)


@given(_DOCUMENTS, _QUERY)
def test_sentence_coverage_equals_its_definition(documents: list[Document], query: list[str]) -> None:
    whole = collection(len(documents))
    rows = np.arange(len(documents), dtype=np.int64)
    expected = [max((share_of(documents, query, s) for s in document), default=0.0) for document in documents]
    postings = index(documents, query)
    assert rank.sentence_coverage(postings, whole, rows).tolist() == pytest.approx(expected)
    assert rank.sentence_coverage(postings, whole, rows[::-1]).tolist() == pytest.approx(expected[::-1])
    assert rank.sentence_coverage(postings, whole, rows[:0]).tolist() == []


@given(
    st.lists(st.dictionaries(st.integers(0, 9), st.integers(1, EVERYWHERE), max_size=10), max_size=8),
    st.lists(st.booleans(), min_size=10, max_size=10),
)
def test_one_sentence_never_covers_more_than_the_drawer(masks: list[dict[int, int]], live: list[bool]) -> None:
    members = collection(sum(live))
    living = [{row: mask for row, mask in one.items() if live[row]} for one in masks]
    postings = [posting(str(at), dict.fromkeys(one, 1), one) for at, one in enumerate(living)]
    whole = rank.coverage_at_most(postings, 10, members)
    rows = np.arange(10, dtype=np.int64)
    # To the bit: what is read closely is chosen by this bound.
    assert np.all(rank.sentence_coverage(postings, members, rows) <= whole)
    assert np.all(whole <= 1.0 + words.MARGIN)


def test_words_said_in_one_breath_cover_more_than_the_same_words_apart() -> None:
    kiln, yard = posting("kiln", {0: 1, 1: 1}, {0: 0b01, 1: 0b10}), posting("yard", {0: 1, 1: 1}, {0: 0b10, 1: 0b10})
    apart, together = rank.sentence_coverage([kiln, yard], collection(9), np.array([0, 1]))
    assert (apart, together) == (0.5, 1.0)


@given(
    st.dictionaries(st.integers(0, 9), st.tuples(st.integers(1, 65_535), st.integers(1, EVERYWHERE))),
    st.sets(st.integers(0, 9)),
)
def test_a_term_that_stands_everywhere_in_some_rows_counts_once_more_there(
    held: dict[int, tuple[int, int]], named: set[int]
) -> None:
    found = rank.with_everywhere(
        posting("a", {row: pair[0] for row, pair in held.items()}, {row: pair[1] for row, pair in held.items()}),
        np.array(sorted(named), np.int64),
    )
    column = rank.column_with_everywhere(
        by_row(
            posting("a", {row: pair[0] for row, pair in held.items()}, {row: pair[1] for row, pair in held.items()}),
            10,
        ),
        np.array(sorted(named), np.int64),
    )
    assert column.matches == found.matches
    assert column.frequencies_of(np.arange(10)).tolist() == found.frequencies_of(np.arange(10)).tolist()
    assert column.masks_of(np.arange(10)).tolist() == found.masks_of(np.arange(10)).tolist()
    assert found.term == "a"
    assert found.rows.tolist() == sorted(held.keys() | named)
    assert found.matches == len(found.rows)
    for row, frequency, mask in zip(found.rows, found.frequencies.tolist(), found.masks.tolist(), strict=True):
        times, sentences = held.get(int(row), (0, 0))
        assert frequency == min(times + (row in named), 65_535)
        assert mask == (EVERYWHERE if row in named else sentences)


def test_words_count_in_full_where_one_drawer_has_most_of_the_questions_weight() -> None:
    live, whole, every = np.ones(100, np.bool_), collection(100), np.arange(100)
    rare, common = posting("rare", {3: 1}), posting("common", dict.fromkeys(range(60), 1))

    def confidence(terms: list[rank.Term], in_scope: NDArray[np.bool_]) -> float:
        most = rank.coverage_at_most(terms, 100, whole)
        return rank.confidence(rank.largest(most, in_scope, lambda rows: rank.coverage(terms, rows, whole)))

    assert confidence([rare, common], live) == 1.0
    assert 0.0 < confidence([posting("nowhere", {}), common], live) < 0.1
    assert confidence([rare, common], every != 3) < 0.1
    assert confidence([], live) == 0.0
    assert rank.largest(np.empty(0, np.float32), np.empty(0, np.bool_), lambda _: np.empty(0)) == 0.0


def test_the_best_is_one_and_nothing_stays_nothing() -> None:
    assert rank.over_maximum(np.array([2.0, 4.0, 0.0]), 4.0).tolist() == [0.5, 1.0, 0.0]
    assert rank.over_maximum(np.zeros(2), 0.0).tolist() == [0.0, 0.0]
    assert rank.over_maximum(np.empty(0), 0.0).tolist() == []
