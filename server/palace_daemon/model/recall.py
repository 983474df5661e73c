"""A question to the store, and its answer."""

from __future__ import annotations

from palace_daemon.model.base import Value


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
    max_chars: int | None = None
    """Budget over all hit texts; the first hit is always whole."""
    include_superseded: bool = False


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


class Freshness(Value):
    """How current and how complete an answer is."""

    sources_pending: int
    vectors_pending: int
    drawers: int
    vectors_used: bool
    vectors_reason: str
    """Why vectors took no part, or did so only in part; empty when all drawers have one."""
    model: str
    last_mined_at: int | None


class RecallAnswer(Value):
    """Ranked hits, totals and freshness."""

    hits: tuple[Hit, ...]
    in_scope: int
    matched: int
    """Drawers in scope with a BM25 score above zero."""
    freshness: Freshness
    took_ms: float
