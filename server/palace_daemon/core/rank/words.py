"""What words say: BM25, how much of the question a drawer has, and how much of it stands in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from palace_daemon.core.rank.terms import Term, passes
from palace_daemon.core.sentences import BUCKETS

BM25_K1 = 1.5
"""Saturation of term frequency: the value of Robertson and Zaragoza (2009) that the project's design fixes."""
BM25_B = 0.75
"""Length normalisation, from the same place."""
IDF_POWER = 1.5
"""Exponent of the document frequency weight: in a small store the words that every question has ("were", "our") are
not yet common enough to weigh little. Picked on the dev sets, questions whose first session is right, exponent 1.0
against 1.5 against 2.0: LoCoMo dev3 244, 255, 263 of 383; DevMemBench dev 78, 80, 79 of 88; LongMemEval dev 18, 18, 17
of the first 18. At 1.5 no set loses."""

COVERAGE_FULL = 0.5
"""Share of the question's weight in words that the best drawer must have for words to count in full.

Where no drawer has the question's telling words, those that have its ordinary ones say little, yet the best of them
would get the whole of the weight. Picked on our own two lists of questions on real transcripts, which ask in other
words than were used (first session right: 14 of 20 without, 16 with this and frames taken off); on the dev sets it
changes LoCoMo dev3 from 255 to 257 of 383, DevMemBench dev 80 to 80 of 88, LongMemEval dev 18 to 17 of the first 18."""

MARGIN = 1e-4
"""How much above the exact value, as a share of it, what is said of all drawers may be: float32 sums of some dozens of
terms are off by less than a tenth of it, so half of it is added."""

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Lengths = NDArray[np.float64]
FloatsT = TypeVar("FloatsT", NDArray[np.float64], NDArray[np.float32])
Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]

_BITS = ((np.arange(1 << BUCKETS, dtype=np.uint32)[:, None] >> np.arange(BUCKETS, dtype=np.uint32)) & 1).astype(
    np.bool_
)
"""Mask to its bits, ``[65536, 16]``."""


class Collection(Struct, frozen=True, kw_only=True):
    """Of what the weight of a word is counted, whatever part of it is scored."""

    count: int
    """Drawers."""
    length: float
    """Their terms, all together."""


def bm25_at_most(terms: Sequence[Term], lengths: Lengths, collection: Collection) -> Float32:
    """Return float32 ``[n]``: what BM25 is at most for each drawer, above it by :data:`MARGIN` at most; 0 stays 0.

    Args:
        terms: One entry for each distinct query term.
        lengths: Number of terms of each drawer that is scored.
        collection: What document frequencies and the mean length are those of.
    """
    total = np.zeros(len(lengths), np.float32)
    if not collection.count:
        return total
    norms, weights = _norms(lengths.astype(np.float32), collection), _weights(terms, collection)
    for number, at, rows in passes(terms, len(lengths)):
        gained = terms[number].frequencies[at].astype(np.float32)
        below = norms[rows] + gained
        gained *= weights[number] * (BM25_K1 + 1.0)
        gained /= below
        total[rows] += gained
    total *= 1.0 + MARGIN / 2
    return total


def bm25(terms: Sequence[Term], rows: Rows, lengths: Lengths, collection: Collection) -> Float64:
    """Return float64 ``[k]``: the exact BM25 scores of ``rows``; zero where no term stands.

    The document frequency weight is Lucene's ``log(1 + (N - df + 0.5) / (df + 0.5))``, which is never negative, to the
    power of :data:`IDF_POWER`. Terms are added in the order given, so that sums are equal to the bit in every run.

    Args:
        terms: One entry for each distinct query term.
        rows: Which drawers.
        lengths: Number of terms of each of ``rows``.
        collection: What document frequencies and the mean length are those of.
    """
    total = np.zeros(len(rows), np.float64)
    if not collection.count:
        return total
    norms = _norms(lengths.astype(np.float64), collection)
    for term, weight in zip(terms, _weights(terms, collection), strict=True):
        gained = term.frequencies_of(rows).astype(np.float64)
        below = norms + gained
        gained *= weight
        gained *= BM25_K1 + 1.0
        total += gained / below
    return total


def coverage_at_most(terms: Sequence[Term], count: int, collection: Collection) -> Float32:
    """Return float32 ``[count]``: what :func:`coverage` is at most for each drawer, as :func:`bm25_at_most` does."""
    shares = _shares(terms, collection)
    total = np.zeros(count, np.float32)
    for number, at, rows in passes(terms, count):
        total[rows] += (terms[number].frequencies[at] > 0) * np.float32(shares[number])
    total *= 1.0 + MARGIN / 2
    return total


def coverage(terms: Sequence[Term], rows: Rows, collection: Collection) -> Float64:
    """Return float64 ``[k]`` in [0, 1]: the share of the question's weight in words that each of ``rows`` holds.

    A term weighs the square of its document frequency weight; one that stands nowhere weighs most.
    """
    total = np.zeros(len(rows), np.float64)
    for term, share in zip(terms, _shares(terms, collection), strict=True):
        total += share * (term.frequencies_of(rows) > 0)
    return total


def largest(most: Float32, in_scope: Flags, exact: Callable[[Rows], Float64]) -> float:
    """Return the largest exact value in scope, 0 where there is none.

    Args:
        most: ``[n]``, from :func:`bm25_at_most` or :func:`coverage_at_most`.
        in_scope: ``[n]``
        exact: Gives the exact values of some rows.
    """
    inside = most * in_scope
    top = float(inside.max(initial=0.0))
    rows = np.flatnonzero(inside >= top * (1.0 - MARGIN)) if top > 0.0 else np.empty(0, np.int64)
    return float(exact(rows).max(initial=0.0))


def sentence_coverage(terms: Sequence[Term], collection: Collection, rows: Rows) -> Float64:
    """Return float64 ``[k]``: the largest share of the question's weight in one sentence of each of ``rows``.

    Words that are said in one breath belong together; the same words spread over a drawer often do not. Never more than
    :func:`coverage_at_most`.
    """
    by_sentence = np.zeros((len(rows), BUCKETS), np.float64)
    for term, share in zip(terms, _shares(terms, collection), strict=True):
        by_sentence += share * _BITS[term.masks_of(rows)]
    best: Float64 = by_sentence.max(axis=1)
    return best


def confidence(covered: float) -> float:
    """Return how much words can say where the best drawer has ``covered``, from 0 to 1: see :data:`COVERAGE_FULL`."""
    return min(1.0, covered / COVERAGE_FULL)


def over_maximum(scores: Float64, largest: float) -> Float64:
    """Divide by the largest score in scope, so that BM25 becomes comparable to a cosine; zeros stay zeros."""
    return scores / largest if largest > 0.0 else scores


def _norms(lengths: FloatsT, collection: Collection) -> FloatsT:
    """Return what stands below a frequency beside it, by the length of a drawer."""
    mean_length = max(collection.length / collection.count, 1.0)
    norms: FloatsT = BM25_K1 * (1.0 - BM25_B + BM25_B * lengths / mean_length)
    return norms


def _weights(terms: Sequence[Term], collection: Collection) -> list[float]:
    return [_rarity(collection.count, one.matches) ** IDF_POWER for one in terms]


def _shares(terms: Sequence[Term], collection: Collection) -> list[float]:
    """Return each term's share of the question's weight; they sum to 1."""
    weights = [_rarity(collection.count, one.matches) ** 2 for one in terms]
    total = sum(weights)
    return [weight / total for weight in weights] if total else weights


def _rarity(count: int, matches: int) -> float:
    """Return the document frequency weight of a term that ``matches`` of ``count`` drawers have, before its power."""
    return float(np.log1p((count - matches + 0.5) / (matches + 0.5)))
