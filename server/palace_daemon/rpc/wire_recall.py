"""The question and its answer on the wire; see :mod:`palace_daemon.rpc.wire`."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from palace_daemon.model import NEIGHBOURS_MAX
from palace_daemon.rpc.wire_base import Limit, Params, Result, WireTime
from palace_daemon.rpc.wire_models import WireCoverage

Positive = Annotated[int, Meta(ge=1, le=2**53)]
Neighbours = Annotated[int, Meta(ge=0, le=NEIGHBOURS_MAX)]


class RecallParams(Params, frozen=True):
    """A question and its filters; empty filters filter nothing."""

    query: str
    project: str = ""
    agent: str = ""
    session: str = ""
    since: WireTime | UnsetType = UNSET
    """Inclusive. A plain date begins at midnight in the zone of ``now``."""
    until: WireTime | UnsetType = UNSET
    """Exclusive, but a plain date takes in its whole day."""
    limit: Limit | UnsetType = UNSET
    """Hits at most, or sessions; left out, the daemon's setting ``recall.limit``."""
    now: WireTime | UnsetType = UNSET
    """The caller's clock. An ISO string with an offset carries the caller's zone; left out, the daemon's own."""
    max_chars: Positive | UnsetType = UNSET
    """Characters of text at most, of hits first and then of their neighbours; the first hit is always whole."""
    max_tokens: Positive | UnsetType = UNSET
    """The same in tokens, estimated: one for four ASCII characters, one for any other character."""
    include_superseded: bool = False
    group_by_session: bool = False
    """Whether ``limit`` counts sessions, which ``sessions`` then lists, each with its best hits."""
    group_by_exchange: bool = False
    """Whether each exchange comes once, by its best drawer: for lists that people read. Not with ``groupBySession``."""
    neighbours: Neighbours = 0
    """Exchanges before and after each hit that come with it; each comes once, with the best hit that it is beside."""
    fold: bool = True
    """Whether what says the same as a better hit of another exchange is listed under that one, in ``alsoIn``."""


class WireNeighbour(Result, frozen=True):
    """An exchange beside another in its session; of its texts the beginnings."""

    exchange_id: str
    relation: int
    """-1 is the one before, 1 the one after, and so on."""
    started_at: str | None
    user_text: str
    reply_text: str


class WireAlsoIn(Result, frozen=True):
    """An exchange that says the same as a hit."""

    exchange_id: str
    session_id: str
    started_at: str | None
    path: str


class WireHit(Result, frozen=True):
    """One drawer that answers a query."""

    drawer_id: str
    exchange_id: str
    session_id: str
    session_title: str
    project: str
    agent: str
    started_at: str | None
    text: str
    path: str
    line_start: int
    line_end: int
    score: float
    parts: dict[str, float]
    matched_terms: tuple[str, ...]
    also_in: tuple[WireAlsoIn, ...]
    """Of many the first twenty."""
    also_in_count: int
    neighbours: tuple[WireNeighbour, ...]
    """Without those that are hits themselves, or neighbours of a better hit."""


class WireSessionHits(Result, frozen=True):
    """A session that answers a query; it ranks by its best hit."""

    session_id: str
    title: str
    project: str
    agent: str
    started_at: str | None
    ended_at: str | None
    score: float
    hits: tuple[WireHit, ...]
    """At most three, best first."""


class WireTotals(Result, frozen=True):
    """Drawers in scope, and those of them that share a word with the query."""

    in_scope: int
    matched: int


class WireFreshness(Result, frozen=True):
    """How current and how complete an answer is."""

    sources_pending: int
    vectors_pending: int
    drawers: int
    vectors_used: bool
    vectors_reason: str
    model: str
    """The model whose vectors answer."""
    last_mined_at: str | None
    coverage: tuple[WireCoverage, ...] = ()
    """How many of the stored texts have a vector of each model, the one that answers first."""


class RecallResult(Result, frozen=True):
    """Ranked hits, totals and freshness."""

    hits: tuple[WireHit, ...]
    """Best first; grouped by session, session by session."""
    sessions: tuple[WireSessionHits, ...]
    """Best first, with the hits again; empty unless they were asked for."""
    totals: WireTotals
    freshness: WireFreshness
    took_ms: float
    is_cut: bool
    """Whether ``max_chars`` or ``max_tokens`` left out hits or neighbours."""
    hits_left_out: int
    """Hits that they left out of those within the limit."""
    projects_near: tuple[str, ...]
    """Where the filter names no known project: at most five known ones with a similar name."""
