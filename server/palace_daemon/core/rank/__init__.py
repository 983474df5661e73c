"""Ranking: exact scores for every drawer in scope, then one deterministic order.

The score of a drawer is the sum of its signals' contributions. A signal is a pure function over arrays ``[n]`` by row,
with a documented weight; to add one, write the function (:mod:`.words` for what is read off words, :mod:`.dating` for
what stands around a drawer), give it a weight in :class:`Weights` and add it in :func:`score`. Nothing here reads a
clock: the caller's ``now`` is an argument where a signal needs it.
"""

from palace_daemon.core.rank.dating import date_lift
from palace_daemon.core.rank.fusion import (
    WEIGHTS,
    Evidence,
    Scored,
    Weights,
    candidates,
    exact_cosines,
    order,
    score,
    typical_cosine,
    wish_lift,
    with_imputed,
)
from palace_daemon.core.rank.terms import (
    Term,
    TermColumn,
    TermPostings,
    column_with_everywhere,
    with_everywhere,
)
from palace_daemon.core.rank.words import (
    BM25_B,
    BM25_K1,
    COVERAGE_FULL,
    IDF_POWER,
    Collection,
    bm25,
    bm25_at_most,
    confidence,
    coverage,
    coverage_at_most,
    largest,
    over_maximum,
    sentence_coverage,
)

__all__ = [
    "BM25_B",
    "BM25_K1",
    "COVERAGE_FULL",
    "IDF_POWER",
    "WEIGHTS",
    "Collection",
    "Evidence",
    "Scored",
    "Term",
    "TermColumn",
    "TermPostings",
    "Weights",
    "bm25",
    "bm25_at_most",
    "candidates",
    "column_with_everywhere",
    "confidence",
    "coverage",
    "coverage_at_most",
    "date_lift",
    "exact_cosines",
    "largest",
    "order",
    "over_maximum",
    "score",
    "sentence_coverage",
    "typical_cosine",
    "wish_lift",
    "with_everywhere",
    "with_imputed",
]
