"""Answering questions: one path for the daemon, the command line and the bench."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from palace_daemon.core import query as query_reader
from palace_daemon.core import rank
from palace_daemon.core.ports import Embedder, Float32, StopSignal
from palace_daemon.errors import CancelledError, RequestError
from palace_daemon.model import Freshness, Hit, RecallAnswer, RecallQuery
from palace_daemon.store import postings, vectors, views
from palace_daemon.store.mirror import NO_DATE, Snapshot
from palace_daemon.store.sqlite import Connection

CANDIDATES_MIN = 200
"""Drawers that are scored again exactly; on 19,800 real vectors the top 200 of a far coarser scan held 99.6 % of the
exact top ten, so rounding in the first pass cannot move a hit out of them."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class DrawerReader(Protocol):
    """The part of a store that recall needs."""

    def read_with_drawers(self) -> AbstractContextManager[tuple[Connection, Snapshot]]:
        """Yield a read transaction and the drawers of the same state."""
        ...


class ModelState(NamedTuple):
    """What can embed the question now, and why not if nothing can."""

    embedder: Embedder | None
    model_id: str
    reason: str


class Recall:
    """Answers queries. Thread-safe; holds no state between calls."""

    def __init__(
        self,
        store: DrawerReader,
        model_state: Callable[[], ModelState],
        sources_pending: Callable[[], int],
        known_agents: Sequence[str],
    ) -> None:
        """Take the store, the way to the model, the number of sources still queued, and the agents with a format."""
        self._store = store
        self._model_state = model_state
        self._sources_pending = sources_pending
        self._known_agents = frozenset(known_agents)

    def search(
        self, query: RecallQuery, stop: StopSignal | None = None, among: Collection[int] | None = None
    ) -> RecallAnswer:
        """Return ranked hits; see :meth:`palace_daemon.service.api.Palace.recall`.

        ``among`` is one more filter: the rows of exchanges.
        """
        began = time.perf_counter()
        query = _checked(query)
        read = query_reader.read(query.text)
        state = self._model_state()
        query_vec = state.embedder.embed_query(read.text) if state.embedder and read.text else None
        _check(stop)
        with self._store.read_with_drawers() as (connection, drawers):
            reason = state.reason or _mismatch(state, drawers.model)
            query_vec = None if reason else query_vec
            in_scope = self._scope(connection, drawers, query)
            if among is not None:
                in_scope = in_scope & np.isin(drawers.ids, views.drawer_ids(connection, among))
            scored, matches = _score(connection, drawers, read.terms, in_scope, query_vec, stop)
            _check(stop)
            hits = self._hits(connection, drawers, query, scored, query_vec, matches, read)
            freshness = self._freshness(connection, drawers, state.model_id, reason, has_question=query_vec is not None)
        matched = int(np.count_nonzero((scored.parts["bm25"] > 0.0) & in_scope))
        return RecallAnswer(
            hits=hits,
            in_scope=int(np.count_nonzero(in_scope)),
            matched=matched,
            freshness=freshness,
            took_ms=round((time.perf_counter() - began) * 1000, 3),
        )

    def _scope(self, connection: Connection, drawers: Snapshot, query: RecallQuery) -> NDArray[np.bool_]:
        """Return which rows the filters let through; they apply before any cut."""
        mask = drawers.is_live if not query.include_superseded else drawers.ids >= 0
        if query.agent:
            self._check_agent(connection, query.agent)
            mask = mask & _codes_in(drawers.agents, drawers.agent_names, lambda name: name == query.agent)
        if query.project:
            mask = mask & _codes_in(drawers.projects, drawers.project_names, lambda p: is_project(p, query.project))
        if query.session:
            mask = mask & np.isin(drawers.sessions, views.session_rows(connection, query.session))
        if query.since is not None:
            mask = mask & (drawers.started_at >= query.since)
        if query.until is not None:
            mask = mask & (drawers.started_at < query.until) & (drawers.started_at != NO_DATE)
        return mask

    def _check_agent(self, connection: Connection, agent: str) -> None:
        known = sorted(self._known_agents | views.agents(connection))
        if agent not in known:
            raise RequestError("unknown agent in the filter", hint=f"known are {', '.join(known)}")

    def _hits(
        self,
        connection: Connection,
        drawers: Snapshot,
        query: RecallQuery,
        scored: rank.Scored,
        query_vec: Float32 | None,
        matches: Sequence[rank.TermPostings],
        read: query_reader.ReadQuery,
    ) -> tuple[Hit, ...]:
        """Score the best candidates exactly, order them and fetch what is shown of them."""
        rows = rank.candidates(scored.total, max(CANDIDATES_MIN, 4 * query.limit))
        parts = {name: values[rows] for name, values in scored.parts.items()}
        if query_vec is not None and "cosine" in parts:
            exact = rank.exact_cosines(drawers.vectors(rows), query_vec)
            parts["cosine"] = np.where(drawers.has_vector[rows], rank.WEIGHTS.cosine * exact, parts["cosine"])
        totals = sum((parts[name] for name in sorted(parts)), np.zeros(len(rows), np.float64))
        # Texts are fetched for those that can be among the best `limit`, ties included.
        keep = rank.candidates(totals, query.limit)
        rows, totals = rows[keep], totals[keep]
        parts = {name: values[keep] for name, values in parts.items()}
        shown = views.drawer_texts(connection, drawers.ids[rows].tolist())
        texts = [shown[drawer_id] for drawer_id in drawers.ids[rows].tolist()]
        ranking = rank.order(totals, drawers.started_at[rows], [f"{text.key}.{text.ordinal:06d}" for text in texts])
        hits: list[Hit] = []
        budget = query.max_chars
        for at in ranking[: query.limit]:
            if budget is not None and hits and len(texts[at].text) > budget:
                break
            budget = None if budget is None else budget - len(texts[at].text)
            found = {name: round(float(values[at]), 9) for name, values in parts.items()}
            hits.append(_hit(texts[at], found, _matched_terms(int(rows[at]), matches, read)))
        return tuple(hits)

    def _freshness(
        self, connection: Connection, drawers: Snapshot, model_id: str, reason: str, *, has_question: bool
    ) -> Freshness:
        """Tell how complete the answer is; ``reason`` is why the question has no vector to compare."""
        pending = vectors.pending_count(connection)
        if not reason and not has_question:
            reason = "the question has no text"
        elif not reason and pending:
            reason = "some drawers still lack a vector"
        return Freshness(
            sources_pending=self._sources_pending(),
            vectors_pending=pending,
            drawers=int(np.count_nonzero(drawers.is_live)),
            vectors_used=has_question and bool(np.any(drawers.has_vector)),
            vectors_reason=reason,
            model=model_id,
            last_mined_at=views.last_mined_at(connection),
        )


def as_stored(text: str) -> str:
    """Return ``text`` as the store would hold it: lone surrogates, which UTF-8 cannot encode, become U+FFFD.

    What callers name goes through here before it meets SQLite, so that such a name is merely an unknown one.
    """
    return _LONE_SURROGATE.sub("\ufffd", text)


def is_project(project: str, wanted: str) -> bool:
    """Return whether ``wanted`` names ``project``: its path, a directory above it, or its last name."""
    wanted = wanted.rstrip("/\\") or wanted
    if project == wanted or project.startswith((wanted + "/", wanted + "\\")):
        return bool(project)
    return project.replace("\\", "/").rsplit("/", 1)[-1] == wanted


def _checked(query: RecallQuery) -> RecallQuery:
    """Return ``query`` with filters that the store can compare.

    Raises:
        RequestError: It asks for less than one hit.
    """
    if query.limit < 1:
        raise RequestError("the limit is below 1", hint="ask for at least one hit")
    return msgspec.structs.replace(
        query, session=as_stored(query.session), project=as_stored(query.project), agent=as_stored(query.agent)
    )


def _mismatch(state: ModelState, stored_model: str) -> str:
    """Return why the loaded model's vectors cannot be compared with the stored ones; empty where they can."""
    if state.embedder is None or state.embedder.model_id == stored_model:
        return ""
    if not stored_model:
        return "the store has no vectors yet"
    return f"the store has vectors of {stored_model}, but {state.embedder.model_id} is loaded"


def _score(
    connection: Connection,
    drawers: Snapshot,
    terms: Sequence[str],
    in_scope: NDArray[np.bool_],
    query_vec: Float32 | None,
    stop: StopSignal | None,
) -> tuple[rank.Scored, list[rank.TermPostings]]:
    """Score every drawer by words, and by meaning where there is a query vector."""
    collection = drawers.is_live | in_scope
    matches = []
    for term in dict.fromkeys(terms):
        _check(stop)
        matches.append(_term(connection, drawers, collection, term))
    words = rank.bm25(matches, drawers.lengths, collection)
    cosines = None
    if query_vec is not None and drawers.chunks:
        cosines = drawers.cosines(query_vec).astype(np.float64)
    scored = rank.score(
        cosines=cosines,
        has_vector=drawers.has_vector,
        bm25_scores=words,
        in_scope=in_scope,
        word_confidence=1.0 if cosines is None else rank.confidence(matches, collection, in_scope),
    )
    return scored, matches


def _term(connection: Connection, drawers: Snapshot, collection: NDArray[np.bool_], term: str) -> rank.TermPostings:
    ids, frequencies = postings.read(connection, term)
    rows = drawers.rows_of(ids)
    kept = rows >= 0
    kept[kept] = collection[rows[kept]]
    return rank.TermPostings(term=term, rows=rows[kept], frequencies=frequencies[kept])


def _codes_in(codes: NDArray[np.int32], names: Sequence[str], accept: Callable[[str], bool]) -> NDArray[np.bool_]:
    accepted = np.array([accept(name) for name in names], np.bool_)
    return accepted[codes] if len(names) else np.zeros(len(codes), np.bool_)


def _matched_terms(row: int, matches: Sequence[rank.TermPostings], read: query_reader.ReadQuery) -> tuple[str, ...]:
    """Return the words of the question that stand in the drawer, as the asker wrote them, each once."""
    found = (match.term for match in matches if row in match.rows)
    return tuple(dict.fromkeys(read.surface(term) for term in found))


def _hit(text: views.DrawerText, parts: dict[str, float], matched_terms: tuple[str, ...]) -> Hit:
    return Hit(
        drawer_id=views.public_drawer_id(text.public_id, text.ordinal),
        exchange_id=text.public_id,
        session_id=text.session_id,
        session_title=text.session_title,
        project=text.project,
        agent=text.agent,
        started_at=text.started_at,
        ended_at=text.ended_at,
        text=text.text,
        path=text.path,
        line_start=text.line_start,
        line_end=text.line_end,
        score=round(sum(parts.values()), 9),
        parts=parts,
        matched_terms=matched_terms,
    )


def _check(stop: StopSignal | None) -> None:
    if stop is not None and stop.is_set():
        raise CancelledError("the request was cancelled")
