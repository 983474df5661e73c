"""What is known of every drawer in view of a question, and the close reading of the best of them."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palace_daemon.core import analysis, dates, rank
from palace_daemon.core.ports import Float32, StopSignal
from palace_daemon.errors import CancelledError
from palace_daemon.service.cosines import ROUNDING, Cosines, Found
from palace_daemon.service.scope import Scope
from palace_daemon.store.common_terms import ByRow, Listed
from palace_daemon.store.sqlite import Connection

CANDIDATES_MIN = 100
"""Drawers that are read closely at first; more are where one of those left out could still be among the best: of 150
questions to 100,000 drawers half needed 32 of them, all but six 100."""
TYPICAL_READ_MAX = 256
"""Drawers whose stored vectors are read for a median; of more the rounded vectors give it, off by some 1e-4."""
Rows = NDArray[np.int64]
Float64 = NDArray[np.float64]


class Worded(NamedTuple):
    """What words say of some drawers, ``[k]``."""

    bm25: Float64
    sentences: Float64
    """The largest share of the question's weight in one sentence."""

    def at(self, places: Rows | NDArray[np.bool_]) -> Worded:
        """Return those at ``places``."""
        return Worded(self.bm25[places], self.sentences[places])


class Words:
    """What the words of a question find: one entry of ``terms`` for each of its terms, by place in the scope.

    The name of a drawer's project counts as standing in each of its sentences: who asks for a thing "in tidepool" means
    drawers that rarely name it.
    """

    def __init__(
        self,
        connection: Connection,
        scope: Scope,
        terms: Sequence[str],
        stop: StopSignal | None,
        names: Collection[str] = (),
    ) -> None:
        """Look up ``terms`` among the members of the collection; those in ``names`` count only where one holds them."""
        state = scope.state
        self._scope = scope
        is_usual = scope.member_count == state.live_count
        length = state.live_length if is_usual else float(state.lengths.sum(where=scope.members))
        self.collection = rank.Collection(count=scope.member_count, length=length)
        self._has_all_rows = scope.member_count == len(scope.members)
        projects = [_terms_of_name(name) for name in state.project_names]
        self.terms: list[rank.Term] = []
        for term in dict.fromkeys(terms):
            check(stop)
            is_named = np.array([term in own for own in projects], np.bool_)
            named = np.flatnonzero(is_named[state.projects] & scope.members) if is_named.any() else None
            held = state.common_terms.look_up(connection, state, term)
            found = self._listed(term, held, named) if isinstance(held, Listed) else self._by_row(term, held, named)
            if found.matches or term not in names:
                self.terms.append(found)
        self.most_bm25 = rank.bm25_at_most(self.terms, scope.lengths, self.collection)
        self.most_coverage = rank.coverage_at_most(self.terms, scope.size, self.collection)

    @functools.cached_property
    def matches(self) -> NDArray[np.bool_]:
        """Which drawers in scope hold a word of the question, ``[n]``."""
        return self._scope.in_scope & (self.most_bm25 > 0.0)

    @functools.cached_property
    def largest(self) -> float:
        """The largest BM25 in scope."""
        return rank.largest(self.most_bm25, self._scope.in_scope, self.bm25)

    @functools.cached_property
    def confidence(self) -> float:
        """How much words can say."""
        return rank.confidence(rank.largest(self.most_coverage, self._scope.in_scope, self.coverage))

    def bm25(self, rows: Rows) -> Float64:
        """Return the exact scores of ``rows``, places in the scope."""
        return rank.bm25(self.terms, rows, self._scope.lengths[rows], self.collection)

    def coverage(self, rows: Rows) -> Float64:
        """Return how much of the question ``rows`` hold."""
        return rank.coverage(self.terms, rows, self.collection)

    def read(self, rows: Rows) -> Worded:
        """Return what words say of each of ``rows``, exactly."""
        return Worded(self.bm25(rows), rank.sentence_coverage(self.terms, self.collection, rows))

    def _listed(self, term: str, held: Listed, named: Rows | None) -> rank.TermPostings:
        if not self._has_all_rows:
            held = held.at(self._scope.members[held.rows])
        found = rank.TermPostings(
            term=term, rows=held.rows, matches=len(held.rows), frequencies=held.frequencies, masks=held.masks
        )
        return self._scope.narrowed(found if named is None else rank.with_everywhere(found, named))

    def _by_row(self, term: str, held: ByRow, named: Rows | None) -> rank.TermColumn:
        frequencies = held.frequencies if self._has_all_rows else held.frequencies * self._scope.members
        found = rank.TermColumn(
            term=term, matches=int(np.count_nonzero(frequencies)), frequencies=frequencies, masks=held.masks
        )
        return self._scope.narrowed_column(found if named is None else rank.column_with_everywhere(found, named))


def evidence(
    connection: Connection,
    scope: Scope,
    words: Words,
    cosines: Cosines | None,
    spans: Sequence[dates.DateSpan],
    *,
    is_request: bool,
) -> rank.Evidence:
    """Return what words, vectors and dates say of every drawer in scope, the vectors as bounds."""
    most = stated = wished = None
    typical = 0.0
    if cosines is not None:
        most = cosines.drawers()
        typical = _typical(connection, scope, words, cosines, most)
        stated, wished = cosines.stated()
    return rank.Evidence(
        in_scope=scope.in_scope,
        bm25=words.most_bm25,
        coverage=words.most_coverage,
        largest=words.largest,
        confidence=words.confidence,
        cosines=most,
        has_vector=scope.has_vector,
        typical=typical,
        statements=stated,
        wishes=wished if is_request else None,
        dates=_dates(scope, spans) if spans else None,
    )


def _typical(connection: Connection, scope: Scope, words: Words, cosines: Cosines, most: Float32) -> float:
    """Return what stands for the cosine of drawers that lack a vector; of many the rounded vectors tell well enough."""
    if scope.has_vector[scope.in_scope].all():
        return 0.0
    known = np.flatnonzero(scope.has_vector & words.matches)
    if len(known) > TYPICAL_READ_MAX:
        return rank.typical_cosine(cosines.rounded(most, known))
    return rank.typical_cosine(cosines.drawers_exactly(connection, known))


def _dates(scope: Scope, spans: Sequence[dates.DateSpan]) -> Float64 | None:
    """Return how well dates fit; None where none of the whole store does."""
    lift = rank.date_lift(spans, scope.started_at)
    if lift.any() or rank.date_lift(spans, scope.state.started_at).any():
        return lift
    return None


class Close(NamedTuple):
    """Drawers that were read closely."""

    rows: Rows
    """Places in the scope."""
    parts: dict[str, Float64]
    """Exact, by signal: ``[k]``."""
    totals: Float64


class Ranking:
    """The scores of all drawers in scope for one question. Reads closely what can matter."""

    def __init__(
        self,
        connection: Connection,
        drawers: Scope,
        words: Words,
        scored: rank.Scored,
        cosines: Cosines | None,
    ) -> None:
        """Take the drawers in scope and what was found of them; ``connection`` is in the transaction of their state."""
        self.drawers = drawers
        self.words = words
        self.bound: Float32 = scored.bound
        """The most that each drawer can come to; ``-inf`` out of scope."""
        self.count = drawers.count
        """Drawers in scope."""
        self._connection = connection
        self._scored = scored
        self._cosines = cosines

    def best(self, count: int) -> Close:
        """Return the ``count`` best drawers, the newer of those that tie, and all that tie in this as well.

        Only candidates are looked at, and of these only those are read closely that can be among the best. What is
        left out cannot be better than its bound, so the result is that of reading everything.
        """
        candidates = max(CANDIDATES_MIN, 4 * count)
        while True:
            places = rank.candidates(self.bound, candidates)
            close = self.read(*self._that_matter(places, count))
            keep = rank.candidates(close.totals, count, self.drawers.started_at[close.rows])
            is_all = len(places) == self.count
            if is_all or close.totals[keep[-1]] > self.bound[places[-1]] + ROUNDING:
                return Close(
                    close.rows[keep], {name: values[keep] for name, values in close.parts.items()}, close.totals[keep]
                )
            candidates *= 4

    def read(self, rows: Rows, worded: Worded | None = None) -> Close:
        """Return the exact scores of ``rows``, places in the scope; what words say of them may be known."""
        if worded is None:
            worded = self.words.read(rows)
        found = None if self._cosines is None else self._cosines.exact(self._connection, rows)
        return self.scored(rows, worded, found)

    def scored(self, rows: Rows, worded: Worded, found: Found | None) -> Close:
        """Return the scores of ``rows`` by what is known of them; None where vectors take no part."""
        parts = self._parts(rows, worded, found)
        return Close(rows, parts, _sum(parts, len(rows)))

    def _that_matter(self, rows: Rows, count: int) -> tuple[Rows, Worded]:
        """Return those of ``rows`` that can be among the ``count`` best of them, from what is in memory.

        And what words say of these.
        """
        worded = self.words.read(rows)
        if len(rows) <= count or self._cosines is None:
            return rows, worded
        most, least = (_sum(self._parts(rows, worded, found), len(rows)) for found in self._cosines.near(rows))
        floor = np.partition(least, len(rows) - count)[len(rows) - count]
        matters = most >= floor - ROUNDING
        return rows[matters], worded.at(matters)

    def _parts(self, rows: Rows, worded: Worded, found: Found | None) -> dict[str, Float64]:
        return self._scored.parts(rows, *worded, *(found or (None, None, None)))


def _sum(parts: dict[str, Float64], count: int) -> Float64:
    return sum((parts[name] for name in sorted(parts)), np.zeros(count, np.float64))


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
