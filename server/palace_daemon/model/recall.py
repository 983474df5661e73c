"""A question to the store, and its answer."""

from __future__ import annotations

from typing import Literal

from palace_daemon.model.base import Value

NEIGHBOURS_MAX = 3
"""Exchanges on one side that can be asked for; the session's timeline has more."""


class RecallQuery(Value):
    """A question to the store. Filters apply before any cut; empty ones filter nothing."""

    text: str
    now: int
    """The caller's now; the only clock that recall knows."""
    utc_offset_minutes: int = 0
    project: str = ""
    agent: str = ""
    session: str = ""
    since: int | None = None
    """Inclusive."""
    until: int | None = None
    """Exclusive."""
    limit: int = 10
    """Hits at most; with ``by_session`` sessions at most."""
    max_chars: int | None = None
    """Budget over the texts of hits, then of their neighbours; the first hit is always whole."""
    max_tokens: int | None = None
    """The same in tokens, estimated: one for four ASCII characters, one for any other character."""
    include_superseded: bool = False
    by_session: bool = False
    """Whether the best sessions are wanted, each with the best drawers inside; a session ranks by its best drawer."""
    by_exchange: bool = False
    """Whether each exchange comes once, by its best drawer; not together with ``by_session``."""
    neighbours: int = 0
    """Exchanges before and after each hit in its session, up to :data:`NEIGHBOURS_MAX`; each comes once."""
    fold: bool = False
    """Whether what says the same as a better hit of another exchange is folded into that, before the limit."""


class Neighbour(Value):
    """An exchange beside another in its session, in short."""

    exchange_id: str
    relation: int
    """-1 is the one before, 1 the one after, and so on."""
    started_at: int | None
    user_text: str
    """The beginning."""
    reply_text: str
    """The beginning."""


class AlsoIn(Value):
    """An exchange that says the same as a hit."""

    exchange_id: str
    session_id: str
    started_at: int | None
    path: str


class Hit(Value):
    """One drawer that answers a query, with its provenance and the parts of its score."""

    drawer_id: str
    exchange_id: str
    session_id: str
    session_title: str
    project: str
    agent: str
    started_at: int | None
    ended_at: int | None
    text: str
    path: str
    line_start: int
    line_end: int
    score: float
    parts: dict[str, float]
    """Signal name to weighted contribution; they add up to ``score``."""
    matched_terms: tuple[str, ...]
    also_in: tuple[AlsoIn, ...] = ()
    """Exchanges whose drawers were folded into this, best first; of many the first twenty."""
    also_in_count: int = 0
    """All that were folded: those that rank above the last hit and some below it, so more where more hits are asked."""
    neighbours: tuple[Neighbour, ...] = ()
    """In the order of the session, without those that are hits, or neighbours of a better hit."""


class SessionHits(Value):
    """A session that answers a query, with its best drawers."""

    session_id: str
    title: str
    project: str
    agent: str
    started_at: int | None
    ended_at: int | None
    score: float
    """Of the best drawer."""
    hits: tuple[Hit, ...]


class Coverage(Value):
    """How many of the stored texts have a vector of one model."""

    model: str
    """Its id."""
    space: str
    """Its fingerprint: vectors of another version of a model are not compared with these."""
    role: Literal["answering", "next", "previous"]
    """``next`` takes over when it covers as much; ``previous`` is kept for going back."""
    vectors: int
    texts: int
    """Distinct texts of drawers and statements."""


class Freshness(Value):
    """How current and how complete an answer is."""

    sources_pending: int
    vectors_pending: int
    drawers: int
    vectors_used: bool
    vectors_reason: str
    """Why vectors took no part, or did so only in part; empty when all drawers have one."""
    model: str
    """The model whose vectors answer."""
    last_mined_at: int | None
    coverage: tuple[Coverage, ...] = ()
    """Of each model that the store has vectors of, the one that answers first."""


class RecallAnswer(Value):
    """Ranked hits, totals and freshness."""

    hits: tuple[Hit, ...]
    """Best first; grouped by session, session by session."""
    in_scope: int
    matched: int
    """Drawers in scope with a BM25 score above zero."""
    freshness: Freshness
    took_ms: float
    sessions: tuple[SessionHits, ...] = ()
    """Best first, and only where they were asked for; they hold ``hits``."""
    is_cut: bool = False
    """Whether a budget left out hits or neighbours."""
    hits_left_out: int = 0
    """Hits that a budget left out of those within the limit."""
    projects_near: tuple[str, ...] = ()
    """Where the filter names no known project: known ones with a similar name, the most similar first."""
