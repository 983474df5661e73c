"""What is known of every drawer in view of a question, and the close reading of the best of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palace_daemon.core import analysis, dates, rank
from palace_daemon.core.ports import Float32, StopSignal
from palace_daemon.errors import CancelledError
from palace_daemon.store import postings
from palace_daemon.store.mirror import Snapshot
from palace_daemon.store.sqlite import Connection

CANDIDATES_MIN = 200
"""Drawers that are read closely at first; more are where one of those left out could still be among the best."""
ROUNDING = 1e-5
"""More than float32 products can be off by."""

Rows = NDArray[np.int64]
Float64 = NDArray[np.float64]


class Words:
    """What the words of a question find: one entry of ``postings`` for each of its terms.

    The name of a drawer's project counts as standing in each of its sentences: who asks for a thing "in tidepool" means
    drawers that rarely name it.
    """

    def __init__(
        self,
        connection: Connection,
        drawers: Snapshot,
        collection: NDArray[np.bool_],
        terms: Sequence[str],
        stop: StopSignal | None,
    ) -> None:
        """Look up ``terms`` among the rows of ``collection``."""
        self.collection = collection
        self._drawers = drawers
        projects = [_terms_of_name(name) for name in drawers.project_names]
        self.postings: list[rank.TermPostings] = []
        for term in dict.fromkeys(terms):
            check(stop)
            named = [code for code, names in enumerate(projects) if term in names]
            self.postings.append(self._look_up(connection, term, named))
        self.bm25 = rank.bm25(self.postings, drawers.lengths, collection)
        self.coverage = rank.coverage(self.postings, collection)

    def _look_up(self, connection: Connection, term: str, projects: Sequence[int]) -> rank.TermPostings:
        held = postings.read(connection, term)
        rows = self._drawers.rows_of(held.ids)
        kept = rows >= 0
        kept[kept] = self.collection[rows[kept]]
        order = np.argsort(rows[kept], kind="stable")
        found = rank.TermPostings(
            term=term,
            rows=rows[kept][order],
            frequencies=held.frequencies[kept][order],
            masks=held.masks[kept][order],
        )
        if not projects:
            return found
        return rank.with_everywhere(found, np.flatnonzero(np.isin(self._drawers.projects, projects) & self.collection))


def evidence(
    drawers: Snapshot,
    words: Words,
    in_scope: NDArray[np.bool_],
    query_vec: Float32 | None,
    spans: Sequence[dates.DateSpan],
    *,
    is_request: bool,
) -> rank.Evidence:
    """Return what words, vectors and dates say of every drawer."""
    cosines = stated = wished = None
    if query_vec is not None and drawers.chunks:
        cosines = drawers.cosines(query_vec).astype(np.float64)
        stated, wished = (found.astype(np.float64) for found in drawers.statement_cosines(query_vec))
    return rank.Evidence(
        in_scope=in_scope,
        bm25=words.bm25,
        coverage=words.coverage,
        cosines=cosines,
        has_vector=drawers.has_vector,
        statements=stated,
        wishes=wished if is_request else None,
        dates=rank.date_lift(spans, drawers.started_at),
    )


class Close(NamedTuple):
    """Drawers that were read closely."""

    rows: Rows
    parts: dict[str, Float64]
    """Exact, by signal: ``[k]``."""
    totals: Float64


class Ranking:
    """The scores of all drawers in scope for one question. Reads closely what can matter."""

    def __init__(
        self, drawers: Snapshot, words: Words, scored: rank.Scored, query_vec: Float32 | None, weights: rank.Weights
    ) -> None:
        """Take one state of the drawers and what was found in it."""
        self.drawers = drawers
        self.words = words
        self.bound: Float64 = scored.bound
        """The most that each drawer can come to; ``-inf`` out of scope."""
        self.count = int(np.count_nonzero(np.isfinite(scored.bound)))
        """Drawers in scope."""
        self._scored = scored
        self._query_vec = query_vec
        self._weights = weights

    def best(self, count: int) -> Close:
        """Return the ``count`` best drawers, the newer of those that tie, and all that tie in this as well.

        Only candidates are read closely. What is left out cannot be better than its bound, so the result is that of
        reading everything.
        """
        candidates = max(CANDIDATES_MIN, 4 * count)
        while True:
            close = self.read(rank.candidates(self.bound, candidates))
            keep = rank.candidates(close.totals, count, self.drawers.started_at[close.rows])
            is_all = len(close.rows) == self.count
            if is_all or close.totals[keep[-1]] > self.bound[close.rows[-1]] + ROUNDING:
                return Close(
                    close.rows[keep], {name: values[keep] for name, values in close.parts.items()}, close.totals[keep]
                )
            candidates *= 4

    def read(self, rows: Rows) -> Close:
        """Return the exact scores of ``rows``."""
        parts = self._exact_parts(rows)
        return Close(rows, parts, sum((parts[name] for name in sorted(parts)), np.zeros(len(rows), np.float64)))

    def _exact_parts(self, rows: Rows) -> dict[str, Float64]:
        scored, words, query_vec = self._scored, self.words, self._query_vec
        parts = {name: values[rows] for name, values in scored.parts.items()}
        if scored.sentence_weight:
            parts["sentence"] = scored.sentence_weight * rank.sentence_coverage(words.postings, words.collection, rows)
        if query_vec is None or scored.cosines is None:
            return parts
        cosines = rank.exact_cosines(self.drawers.vectors(rows), query_vec)
        cosines = np.where(self.drawers.has_vector[rows], cosines, scored.cosines[rows])
        parts["cosine"] = self._weights.cosine * cosines
        stated, wished = _stated_exactly(self.drawers, rows, query_vec)
        parts["statement"] = self._weights.statement * np.maximum(stated, cosines)
        if "wish" in parts:
            parts["wish"] = self._weights.wish * rank.wish_lift(wished)
        return parts


def _stated_exactly(
    drawers: Snapshot, rows: NDArray[np.int64], query_vec: Float32
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return float64 ``[k]`` twice: the best exact cosine of what each row's exchange states, and of its wishes.

    -1 where it states nothing.
    """
    wanted, which = np.unique(drawers.exchanges[rows], return_inverse=True)
    at = drawers.statements.rows(wanted)
    owners = np.searchsorted(wanted, drawers.statements.exchanges[at])
    cosines = rank.exact_cosines(drawers.statements.vectors(at), query_vec) if len(at) else np.empty(0)
    found = []
    for chosen in (np.ones(len(at), np.bool_), drawers.statements.is_wish[at]):
        best = np.full(len(wanted), -1.0)
        np.maximum.at(best, owners[chosen], cosines[chosen])
        found.append(best[which])
    return found[0], found[1]


@functools.lru_cache(maxsize=4_096)
def _terms_of_name(project: str) -> frozenset[str]:
    """Return the terms of a project's name; kept, since every question needs those of all projects."""
    return frozenset(analysis.terms(project_name(project)))


def project_name(project: str) -> str:
    """Return the last name of a project's path, by which people call it."""
    return project.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


def check(stop: StopSignal | None) -> None:
    """Raise if the caller withdrew.

    Raises:
        CancelledError: It did.
    """
    if stop is not None and stop.is_set():
        raise CancelledError("the request was cancelled")
