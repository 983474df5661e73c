"""Putting the signals together: one sum for each drawer, and one order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from palace_daemon.core.rank.words import Flags, Float64, Rows, confidence, over_maximum


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
    """What is known of all drawers in view of a question, arrays ``[n]`` by row."""

    in_scope: Flags
    """Rows that the filters let through."""
    bm25: Float64
    coverage: Float64
    cosines: Float64 | None
    """Cosine to the question; None when vectors take no part."""
    has_vector: Flags
    """Rows whose cosine is known."""
    statements: Float64 | None
    """Best cosine of what the drawer's exchange states, -1 where it states nothing; None when vectors take no part."""
    wishes: Float64 | None
    """The same of the standing wishes among the statements; None where the question is no request."""
    dates: Float64
    """From :func:`palace_daemon.core.rank.date_lift`."""


class Scored(Struct, frozen=True, kw_only=True):
    """Scores of all drawers, arrays ``[n]`` by row; rows out of scope hold ``-inf`` in ``bound``."""

    parts: dict[str, Float64]
    """Every part but ``sentence``, for which drawers are read closely."""
    cosines: Float64 | None
    """Cosine to the question, with a typical one where it is not known yet; None when vectors take no part."""
    sentence_weight: float
    """Of the part that is still to come."""
    bound: Float64
    """The most that the total can be, whatever ``sentence`` comes to."""


def score(evidence: Evidence, weights: Weights = WEIGHTS) -> Scored:
    """Return the parts of all signals for every drawer.

    Without vectors words have the whole say. Lifts are added to what words and vectors say.
    """
    matched = (evidence.bm25 > 0.0) & evidence.in_scope
    words = over_maximum(evidence.bm25, evidence.in_scope)
    if evidence.cosines is None or evidence.statements is None:
        cosines = None
        parts = {"bm25": weights.bm25 * words}
    else:
        cosines = with_imputed(evidence.cosines, evidence.has_vector, matched)
        parts = {
            "bm25": weights.bm25 * word_share(evidence) * words,
            "cosine": weights.cosine * cosines,
            "statement": weights.statement * np.maximum(evidence.statements, cosines),
        }
        if evidence.wishes is not None:
            parts["wish"] = weights.wish * wish_lift(evidence.wishes)
    if weights.date and evidence.dates.any():
        parts["date"] = weights.date * evidence.dates
    sentence_weight = weights.sentence * (1.0 if evidence.wishes is None else REQUEST_WORDS)
    bound = np.where(evidence.in_scope, _sum(parts, len(words)) + sentence_weight * evidence.coverage, -np.inf)
    return Scored(parts=parts, cosines=cosines, sentence_weight=sentence_weight, bound=bound)


def word_share(evidence: Evidence) -> float:
    """Return what of their weight words have here, from 0 to 1."""
    share = confidence(evidence.coverage, evidence.in_scope)
    return share if evidence.wishes is None else REQUEST_WORDS * share


def wish_lift(cosines: Float64) -> Float64:
    """Return float64 ``[n]``: how much a standing wish bears on a request; 0 where there is none."""
    return np.where(cosines > -1.0, np.maximum(cosines, 0.0) + WISH_OFFSET, 0.0)


def with_imputed(cosines: Float64, has_vector: Flags, matched: Flags) -> Float64:
    """Fill in for drawers whose vector is still to come: the median cosine of those that match by words.

    Without it a line written a second ago would lose to every older one that has a vector, however well it matches.
    """
    known = cosines[has_vector & matched]
    typical = round(float(np.median(known)), 6) if len(known) else 0.0
    return np.where(has_vector, cosines, typical)


def candidates(totals: Float64, limit: int, started_at: Rows | None = None) -> Rows:
    """Return the rows of the ``limit`` best totals, and of all that tie with the last of them, best first.

    With ``started_at`` the newest of those that tie are taken, and all that tie in this as well: a question that no
    word answers leaves everything tied.
    """
    eligible = np.flatnonzero(np.isfinite(totals))
    if len(eligible) > limit:
        cut = _largest(totals[eligible], limit)
        above, tied = eligible[totals[eligible] > cut], eligible[totals[eligible] == cut]
        if started_at is not None and len(above) + len(tied) > limit:
            tied = tied[started_at[tied] >= _largest(started_at[tied], limit - len(above))]
        eligible = np.sort(np.concatenate([above, tied]))
    return eligible[np.argsort(-totals[eligible], kind="stable")]


def _largest(values: NDArray[np.float64] | Rows, place: int) -> float | int:
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


def _sum(parts: dict[str, Float64], count: int) -> Float64:
    total = np.zeros(count, np.float64)
    for name in sorted(parts):
        total = total + parts[name]
    return total
