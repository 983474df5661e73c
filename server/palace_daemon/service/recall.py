"""Answering questions: one path for the daemon, the command line and the bench."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from palace_daemon.core import dates, rank, wishes
from palace_daemon.core import query as query_reader
from palace_daemon.core.ports import Embedder, Float32, StopSignal
from palace_daemon.errors import ModelError, RequestError
from palace_daemon.model import NEIGHBOURS_MAX, Coverage, Freshness, RecallAnswer, RecallQuery
from palace_daemon.service import hits, shortlist
from palace_daemon.service.cosines import Cosines
from palace_daemon.service.ranking import Ranking, Words, check, evidence, project_name
from palace_daemon.service.scope import Scope
from palace_daemon.store import spaces, views
from palace_daemon.store.mirror import Snapshot
from palace_daemon.store.sqlite import Connection

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class DrawerReader(Protocol):
    """The part of a store that recall needs."""

    def read_with_drawers(self) -> AbstractContextManager[tuple[Connection, Snapshot]]:
        """Yield a read transaction and the drawers of the same state."""
        ...


class ModelState(NamedTuple):
    """What can embed a question now, and why not if nothing can."""

    embedder: Embedder | None
    model_id: str
    reason: str


class Ranked(NamedTuple):
    """A question as it was read, and what that makes of the drawers."""

    question: query_reader.ReadQuery
    state: ModelState
    ranking: Ranking
    has_question: bool
    """Whether it has a vector."""


class Recall:
    """Answers queries. Thread-safe; holds no state between calls."""

    def __init__(
        self,
        store: DrawerReader,
        model_state: Callable[[str], ModelState],
        sources_pending: Callable[[], int],
        known_agents: Callable[[], Sequence[str]],
        weights: rank.Weights = rank.WEIGHTS,
    ) -> None:
        """Take the store, the models, the number of sources still queued, and the agents with a format.

        ``model_state`` gets the space of the vectors that a question is to be compared with. ``weights`` are those of
        the signals; a comparison may give others.
        """
        self._store = store
        self._model_state = model_state
        self._sources_pending = sources_pending
        self._known_agents = known_agents
        self._weights = weights

    def search(
        self, query: RecallQuery, stop: StopSignal | None = None, among: Collection[int] | None = None
    ) -> RecallAnswer:
        """Return ranked hits; see :meth:`palace_daemon.service.api.Palace.recall`.

        Budgets are for :func:`palace_daemon.service.hits.fitted` to apply.

        ``among`` is one more filter: the rows of exchanges.
        """
        began = time.perf_counter()
        query = _checked(query)
        with self._store.read_with_drawers() as (connection, drawers):
            ranked = self.ranked(connection, drawers, query, stop, among)
            ranking = ranked.ranking
            groups = shortlist.choose(connection, ranking, query)
            check(stop)
            found, sessions = hits.shown(connection, groups, query, ranking, ranked.question)
            freshness = self._freshness(connection, drawers, ranked.state, has_question=ranked.has_question)
        return RecallAnswer(
            hits=found,
            in_scope=ranking.count,
            matched=int(np.count_nonzero(ranking.words.matches)),
            freshness=freshness,
            took_ms=round((time.perf_counter() - began) * 1000, 3),
            sessions=sessions,
        )

    def ranked(
        self,
        connection: Connection,
        drawers: Snapshot,
        query: RecallQuery,
        stop: StopSignal | None = None,
        among: Collection[int] | None = None,
    ) -> Ranked:
        """Return what the scores of all drawers in scope can come to; ``connection`` is in their transaction."""
        read = query_reader.read(query.text)
        check(stop)
        state = self._model_state(drawers.model)
        embed = _embedding(read.text, state, drawers.model)
        scope = Scope(drawers, self._scope(connection, drawers, query, among))
        is_request = bool(self._weights.wish) and wishes.is_request(read.text)
        cosines = None
        if embed is not None and drawers.vectors.chunks:  # begins here, and goes on while words are looked up
            cosines = Cosines(scope, embed, wishes=is_request)
        spans = dates.spans(read.text, query.now, query.utc_offset_minutes) if self._weights.date else ()
        dated = [span.words for span in spans]
        terms, names = query_reader.terms_outside(read, dated), query_reader.names_inside(read, dated)
        words = Words(connection, scope, terms, stop, names)
        known = evidence(connection, scope, words, cosines, spans, is_request=is_request)
        check(stop)
        ranking = Ranking(connection, scope, words, rank.score(known, self._weights), cosines)
        check(stop)
        return Ranked(read, state, ranking, has_question=embed is not None)

    def _scope(
        self, connection: Connection, drawers: Snapshot, query: RecallQuery, among: Collection[int] | None
    ) -> NDArray[np.bool_]:
        """Return which rows the filters let through; they apply before any cut."""
        mask = drawers.is_live if not query.include_superseded else drawers.is_held
        if query.agent:
            check_agent(connection, query.agent, self._known_agents())
            mask = mask & _codes_in(drawers.agents, drawers.agent_names, lambda name: name == query.agent)
        if query.project:
            mask = mask & _codes_in(drawers.projects, drawers.project_names, lambda p: is_project(p, query.project))
        if query.session:
            mask = mask & np.isin(drawers.sessions, views.session_rows(connection, query.session))
        if query.since is not None:
            mask = mask & (drawers.started_at >= query.since)
        if query.until is not None:
            mask = mask & (drawers.started_at < query.until) & (drawers.started_at != dates.NO_DATE)
        if among is not None:
            mask = mask & _flags(drawers.rows_of(np.array(views.drawer_ids(connection, among), np.int64)), len(mask))
        return mask

    def _freshness(
        self, connection: Connection, drawers: Snapshot, state: ModelState, *, has_question: bool
    ) -> Freshness:
        """Tell how complete the answer is."""
        held = spaces.read(connection)
        pending, reason = held.answering.pending, state.reason
        if not reason and not has_question:
            reason = "the question has no text"
        elif not reason and drawers.is_filling:
            reason = "the vectors are being read"
        elif not reason and pending:
            reason = "some texts still lack a vector"
        return Freshness(
            sources_pending=self._sources_pending(),
            vectors_pending=pending,
            drawers=drawers.live_count,
            vectors_used=has_question and bool(np.any(drawers.has_vector)),
            vectors_reason=reason,
            model=state.model_id,
            last_mined_at=views.last_mined_at(connection),
            coverage=coverage(held),
        )


def coverage(held: spaces.Spaces) -> tuple[Coverage, ...]:
    """Return how much of the store each model covers, the one that answers first."""
    roles = {"answering": held.answering, "next": held.next, "previous": held.previous}
    return tuple(
        Coverage(
            model=space.model.partition("@")[0],
            space=space.model,
            role=role,  # type: ignore[arg-type]
            vectors=space.vectors,
            texts=held.answering.texts,
        )
        for role, space in roles.items()
        if space is not None and space.model
    )


def as_stored(text: str) -> str:
    """Return ``text`` as the store would hold it: lone surrogates, which UTF-8 cannot encode, become U+FFFD.

    What callers name goes through here before it meets SQLite, so that such a name is merely an unknown one.
    """
    return _LONE_SURROGATE.sub("\ufffd", text)


def is_project(project: str, wanted: str) -> bool:
    """Return whether ``wanted`` names ``project``: its path, a directory above it, or its last name."""
    wanted = wanted.strip()
    if not (project and wanted):
        return False
    root = wanted.rstrip("/\\")  # empty for a root, above which nothing is
    return project == root or project.startswith((root + "/", root + "\\")) or project_name(project) == root


def _checked(query: RecallQuery) -> RecallQuery:
    """Return ``query`` with filters that the store can compare.

    Raises:
        RequestError: It asks for less than one hit, or for more neighbours than there may be.
    """
    if query.limit < 1:
        raise RequestError("the limit is below 1", hint="ask for at least one hit")
    if query.by_session and query.by_exchange:
        raise RequestError("hits are grouped by session or by exchange, not by both", hint="leave one out")
    check_neighbours(query.neighbours)
    return msgspec.structs.replace(
        query, session=as_stored(query.session), project=as_stored(query.project), agent=as_stored(query.agent)
    )


def check_agent(connection: Connection, agent: str, known: Sequence[str]) -> None:
    """Check the name of an agent in a filter.

    Args:
        connection: In a transaction.
        agent: The name.
        known: Agents with a format; those of which something is stored are known as well.

    Raises:
        RequestError: It is the name of none.
    """
    names = sorted({*known, *views.agents(connection)})
    if agent not in names:
        raise RequestError("unknown agent in the filter", hint=f"known are {', '.join(names)}")


def check_neighbours(count: int) -> None:
    """Check a number of neighbours.

    Raises:
        RequestError: It is negative, or above :data:`palace_daemon.model.NEIGHBOURS_MAX`.
    """
    if not 0 <= count <= NEIGHBOURS_MAX:
        raise RequestError(
            f"neighbours are from 0 to {NEIGHBOURS_MAX}", hint="`palace-daemon sessions ID` lists a whole session"
        )


def _embedding(text: str, state: ModelState, space: str) -> Callable[[], Float32] | None:
    """Return what gives the question's vector in ``space``; None where there is no text, or no such model."""
    embedder = state.embedder
    if embedder is None or not text:
        return None
    if embedder.fingerprint != space:  # a product of vectors of two models is a number without a meaning
        raise ModelError(f"a question in {embedder.fingerprint} cannot be compared with vectors of {space}")
    return functools.partial(embedder.embed_query, text)


def _flags(rows: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Return which of ``count`` rows are among ``rows``, of which -1 is none."""
    flags = np.zeros(count, np.bool_)
    flags[rows[rows >= 0]] = True
    return flags


def _codes_in(codes: NDArray[np.int32], names: Sequence[str], accept: Callable[[str], bool]) -> NDArray[np.bool_]:
    accepted = np.array([accept(name) for name in names], np.bool_)
    return accepted[codes] if len(names) else np.zeros(len(codes), np.bool_)
