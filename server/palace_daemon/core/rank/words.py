"""Ranking: exact scores for every drawer in scope, then one deterministic order.

The score of a drawer is the sum of its signals' contributions. A signal is a pure function over arrays ``[n]`` by row,
with a documented weight; to add one, write the function, give it a weight in :class:`Weights` and add it in
:func:`score`. Nothing here reads a clock: the caller's ``now`` is an argument where a signal needs it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

BM25_K1 = 1.5
"""Saturation of term frequency: the value of Robertson and Zaragoza (2009) that the project's design fixes."""
BM25_B = 0.75
"""Length normalisation, from the same place."""
IDF_POWER = 1.5
"""Exponent of the document frequency weight: in a small store the words that every question has ("were", "our") are
not yet common enough to weigh little. Picked on the dev sets, questions whose first session is right, exponent 1.0
against 1.5 against 2.0: LoCoMo dev3 244, 255, 263 of 383; DevMemBench dev 78, 80, 79 of 88; LongMemEval dev 18, 18, 17
of the first 18. At 1.5 no set loses."""

Float64 = NDArray[np.float64]
Rows = NDArray[np.int64]


COVERAGE_FULL = 0.5
"""Share of the question's weight in words that the best drawer must have for words to count in full.

Where no drawer has the question's telling words, those that have its ordinary ones say little, yet the best of them
would get the whole of the weight. Picked on our own two lists of questions on real transcripts, which ask in other
words than were used (first session right: 14 of 20 without, 16 with this and frames taken off); on the dev sets it
changes LoCoMo dev3 from 255 to 257 of 383, DevMemBench dev 80 to 80 of 88, LongMemEval dev 18 to 17 of the first 18."""


class Weights(Struct, frozen=True, kw_only=True):
    """What each signal contributes at most. The two are the design's starting point, not yet tuned on any data."""

    cosine: float = 0.65
    bm25: float = 0.35


WEIGHTS = Weights()


class TermPostings(Struct, frozen=True, kw_only=True):
    """Where one query term stands: rows int64 ``[m]`` of live drawers and its frequencies uint16 ``[m]`` there."""

    term: str
    rows: Rows
    frequencies: NDArray[np.uint16]


class Scored(Struct, frozen=True, kw_only=True):
    """Scores of all drawers, arrays ``[n]`` by row; rows out of scope hold ``-inf`` in ``total``."""

    total: Float64
    parts: dict[str, Float64]


def bm25(postings: Sequence[TermPostings], lengths: Float64, is_live: NDArray[np.bool_]) -> Float64:
    """Return exact BM25 scores float64 ``[n]``; zero where no term stands.

    Args:
        postings: One entry for each distinct query term.
        lengths: Number of terms of each drawer.
        is_live: Which rows are part of the collection; the others count neither for document frequency nor length.

    The document frequency weight is Lucene's ``log(1 + (N - df + 0.5) / (df + 0.5))``, which is never negative, to the
    power of :data:`IDF_POWER`. Terms are added in the order given, so that sums are equal to the bit in every run.
    """
    scores = np.zeros(len(lengths), np.float64)
    count = int(np.count_nonzero(is_live))
    if not count:
        return scores
    mean_length = max(float(lengths[is_live].sum()) / count, 1.0)
    for posting in postings:
        matches = len(posting.rows)
        if not matches:
            continue
        weight = _rarity(count, matches) ** IDF_POWER
        frequency = posting.frequencies.astype(np.float64)
        norm = BM25_K1 * (1.0 - BM25_B + BM25_B * lengths[posting.rows] / mean_length)
        scores[posting.rows] += weight * frequency * (BM25_K1 + 1.0) / (frequency + norm)
    return scores


def confidence(postings: Sequence[TermPostings], is_live: NDArray[np.bool_], in_scope: NDArray[np.bool_]) -> float:
    """Return how much words can say here, from 0 to 1: see :data:`COVERAGE_FULL`.

    A term weighs the square of its document frequency weight; one that stands nowhere weighs most.
    """
    count = int(np.count_nonzero(is_live))
    covered = np.zeros(len(is_live), np.float64)
    total = 0.0
    for posting in postings:
        weight = float(_rarity(count, len(posting.rows))) ** 2
        total += weight
        covered[posting.rows] += weight
    best = float(covered[in_scope].max(initial=0.0))
    return min(1.0, best / total / COVERAGE_FULL) if total else 0.0


def _rarity(count: int, matches: int) -> float:
    """Return the document frequency weight of a term that ``matches`` of ``count`` drawers have, before its power."""
    return float(np.log1p((count - matches + 0.5) / (matches + 0.5)))


def over_maximum(scores: Float64, in_scope: NDArray[np.bool_]) -> Float64:
    """Divide by the largest score in scope, so that BM25 becomes comparable to a cosine; zeros stay zeros."""
    largest = float(scores[in_scope].max(initial=0.0))
    return scores / largest if largest > 0.0 else scores


def with_imputed(cosines: Float64, has_vector: NDArray[np.bool_], matched: NDArray[np.bool_]) -> Float64:
    """Fill in for drawers whose vector is still to come: the median cosine of those that match by words.

    Without it a line written a second ago would lose to every older one that has a vector, however well it matches.
    """
    known = cosines[has_vector & matched]
    typical = round(float(np.median(known)), 6) if len(known) else 0.0
    return np.where(has_vector, cosines, typical)


def score(
    *,
    cosines: Float64 | None,
    has_vector: NDArray[np.bool_],
    bm25_scores: Float64,
    in_scope: NDArray[np.bool_],
    word_confidence: float = 1.0,
    weights: Weights = WEIGHTS,
) -> Scored:
    """Return the total of all signals for every drawer.

    Args:
        cosines: Cosine to the query ``[n]``, or None when vectors take no part.
        has_vector: Rows whose cosine is known.
        bm25_scores: From :func:`bm25`.
        in_scope: Rows that the filters let through.
        word_confidence: From :func:`confidence`.
        weights: Of the signals.
    """
    words = over_maximum(bm25_scores, in_scope)
    parts = {"bm25": weights.bm25 * word_confidence * words}
    if cosines is not None:
        parts["cosine"] = weights.cosine * with_imputed(cosines, has_vector, (bm25_scores > 0.0) & in_scope)
    total = np.zeros(len(words), np.float64)
    for name in sorted(parts):
        total = total + parts[name]
    return Scored(total=np.where(in_scope, total, -np.inf), parts=parts)


def candidates(total: Float64, limit: int) -> Rows:
    """Return the rows of the ``limit`` best totals, and of all that tie with the last of them, best first."""
    eligible = np.flatnonzero(np.isfinite(total))
    if len(eligible) > limit:
        cut = np.partition(total[eligible], len(eligible) - limit)[len(eligible) - limit]
        eligible = eligible[total[eligible] >= cut]
    return eligible[np.argsort(-total[eligible], kind="stable")]


def exact_cosines(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> Float64:
    """Return float64 ``[k]``, rounded to 1e-9: the same to the bit wherever a row stands in the matrix.

    A matrix product may add in another order for the last rows of a block, so the few drawers that can be shown are
    scored again by this sum.
    """
    products = vectors.astype(np.float64) * query.astype(np.float64)
    sums: Float64 = products.sum(axis=1)
    return np.round(sums, 9)


def order(totals: Float64, started_at: Rows, keys: Sequence[str]) -> list[int]:
    """Return positions best first: by total, then newer first, then by key."""
    return sorted(range(len(totals)), key=lambda at: (-float(totals[at]), -int(started_at[at]), keys[at]))
