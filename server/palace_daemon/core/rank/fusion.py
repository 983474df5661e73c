"""Putting the signals together: one sum for each drawer, and one order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from palace_daemon.core.rank.words import Flags, Float32, Float64, Rows, over_maximum

Floats = NDArray[np.float64] | NDArray[np.float32]


class Weights(Struct, frozen=True, kw_only=True):
    """What each signal is multiplied by; 0 takes a signal out. Names are those of the parts of a score."""

    cosine: float = 0.65
    bm25: float = 0.35
    statement: float = 0.5
    wish: float = 0.6
    sentence: float = 0.2
    date: float = 0.4


WEIGHTS = Weights()

REQUEST_WORDS = 0.4
"""What words weigh in a request, whose own words are of what is wanted now."""
WISH_OFFSET = 0.17
"""Added to the cosine of a wish and a request: wishes bear on requests even where their topics hardly touch."""


class Evidence(Struct, frozen=True, kw_only=True):
    """What is known of all drawers that are scored in view of a question, arrays ``[n]`` by row."""

    in_scope: Flags
    """Rows that the filters let through."""
    bm25: Floats
    """What BM25 is at most."""
    coverage: Floats
    """What one sentence can have of the question at most."""
    largest: float
    """The largest BM25 in scope."""
    confidence: float
    """How much words can say, from :func:`palace_daemon.core.rank.confidence`."""
    cosines: Floats | None
    """What the cosine to the question is at most; None when vectors take no part."""
    has_vector: Flags
    """Rows whose cosine is known."""
    typical: float
    """What stands for a cosine that is not known yet, from :func:`typical_cosine`."""
    statements: Floats | None
    """What the best cosine of what the drawer's exchange states is at most, -1 where it states nothing; None when
    vectors take no part."""
    wishes: Floats | None
    """The same of the standing wishes among the statements; None where the question is no request."""
    dates: Float64 | None
    """From :func:`palace_daemon.core.rank.date_lift`; None where no date is named."""


class Scored(Struct, frozen=True, kw_only=True):
    """Scores of all drawers, as far as they can be told without reading any closely."""

    bound: Float32
    """The most that the total can be but for the rounding of float32, ``[n]`` by row: whatever ``sentence`` comes to,
    words and cosines at their most. Rows out of scope hold ``-inf``."""
    sentence_weight: float
    """Of the part that is still to come."""
    word_weight: float
    """Of BM25, divided by the largest in scope."""
    evidence: Evidence
    weights: Weights

    def parts(
        self,
        rows: Rows,
        words: Float64,
        sentences: Float64,
        cosines: Float64 | None,
        statements: Float64 | None,
        wishes: Float64 | None,
    ) -> dict[str, Float64]:
        """Return all parts of the scores of ``rows``, given what is read of them closely.

        Args:
            rows: Of which drawers, ``[k]``; the other arguments likewise.
            words: From :func:`palace_daemon.core.rank.bm25`.
            sentences: From :func:`palace_daemon.core.rank.sentence_coverage`.
            cosines: Where they are not known anything; None when vectors take no part.
            statements: As in the evidence.
            wishes: As in the evidence.
        """
        known, weights = self.evidence, self.weights
        parts = {"bm25": self.word_weight * over_maximum(words, known.largest)}
        if cosines is not None and statements is not None:
            cosines = np.where(known.has_vector[rows], cosines, known.typical)
            parts["cosine"] = weights.cosine * cosines
            parts["statement"] = weights.statement * np.maximum(statements, cosines)
            if known.wishes is not None and wishes is not None:
                parts["wish"] = weights.wish * np.asarray(wish_lift(wishes), np.float64)
        if weights.date and known.dates is not None:
            parts["date"] = weights.date * known.dates[rows]
        if self.sentence_weight:
            parts["sentence"] = self.sentence_weight * sentences
        return parts


def score(evidence: Evidence, weights: Weights = WEIGHTS) -> Scored:
    """Return what the score of every drawer can come to.

    Without vectors words have the whole say. Lifts are added to what words and vectors say.
    """
    has_vectors = evidence.cosines is not None and evidence.statements is not None
    word_weight = weights.bm25 * word_share(evidence) if has_vectors else weights.bm25
    sentence_weight = weights.sentence * (1.0 if evidence.wishes is None else REQUEST_WORDS)
    scale = word_weight / evidence.largest if evidence.largest > 0.0 else 0.0
    bound = (evidence.bm25 * scale).astype(np.float32, copy=False)
    bound += evidence.coverage * sentence_weight
    if evidence.cosines is not None and evidence.statements is not None:
        cosines = with_imputed(evidence.cosines, evidence.has_vector, evidence.typical)
        bound += cosines * weights.cosine
        bound += np.maximum(cosines, evidence.statements) * weights.statement
        if evidence.wishes is not None:
            bound += wish_lift(evidence.wishes) * weights.wish
    if weights.date and evidence.dates is not None:
        bound += weights.date * evidence.dates
    np.copyto(bound, -np.inf, where=~evidence.in_scope)
    return Scored(
        bound=bound, sentence_weight=sentence_weight, word_weight=word_weight, evidence=evidence, weights=weights
    )  # fmt: skip


def word_share(evidence: Evidence) -> float:
    """Return what of their weight words have here, from 0 to 1."""
    return evidence.confidence if evidence.wishes is None else REQUEST_WORDS * evidence.confidence


def wish_lift(cosines: Floats) -> Floats:
    """Return floats ``[n]``: how much a standing wish bears on a request; 0 where there is none."""
    lift: Floats = np.maximum(cosines, 0.0)
    lift += WISH_OFFSET
    lift *= cosines > -1.0
    return lift


def typical_cosine(known: Floats) -> float:
    """Return the median of ``known``, the cosines of the drawers that match by words: 0 where there are none.

    It stands for the cosine of a drawer whose vector is still to come. Without it a line written a second ago would
    lose to every older one that has a vector, however well it matches.
    """
    return round(float(np.median(known)), 6) if len(known) else 0.0


def with_imputed(cosines: Floats, has_vector: Flags, typical: float) -> Floats:
    """Return ``cosines`` with ``typical`` where they are not known."""
    if has_vector.all():
        return cosines
    filled: Floats = np.where(has_vector, cosines, cosines.dtype.type(typical))
    return filled


def candidates(totals: Floats, limit: int, started_at: Rows | None = None) -> Rows:
    """Return the rows of the ``limit`` best totals, and of all that tie with the last of them, best first.

    With ``started_at`` the newest of those that tie are taken, and all that tie in this as well: a question that no
    word answers leaves everything tied.
    """
    cut = _largest(totals, limit) if len(totals) > limit else -np.inf
    eligible = np.flatnonzero(totals >= cut) if np.isfinite(cut) else np.flatnonzero(np.isfinite(totals))
    if started_at is not None and len(eligible) > limit:
        above, tied = eligible[totals[eligible] > cut], eligible[totals[eligible] == cut]
        tied = tied[started_at[tied] >= _largest(started_at[tied], limit - len(above))]
        eligible = np.sort(np.concatenate([above, tied]))
    return eligible[np.argsort(-totals[eligible], kind="stable")]


def _largest(values: Floats | Rows, place: int) -> float | int:
    """Return the value at a place from 1, the largest first."""
    at = len(values) - place
    found: float | int = np.partition(values, at)[at]
    return found


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
