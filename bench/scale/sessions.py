"""Seeded sessions: which project, which agent, when, and what was said."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from palace_daemon.bench.scale import figures
from palace_daemon.bench.scale.text import Prose, Ranks, word
from palace_daemon.model import Exchange, ExchangeKey, ParseResult, SessionFacts

PROJECTS = 150
"""Of which the largest has about a tenth of all sessions, the smallest about a tenth of a percent."""
_PROJECT_OFFSET = 2.0
AGENTS = (("claude-code", 0.70), ("codex", 0.15), ("gemini-cli", 0.06), ("copilot-cli", 0.05), ("cursor", 0.04))
"""And the share of the sessions that each has."""
LAST_MS = 1_769_904_000_000
"""2026-02-01, after the last session: when questions are asked."""
DAY_MS = 86_400_000
SPAN_DAYS = 1_095
"""Three years."""
_SHORTEST_TURN = "Go on."
"""Stands where neither side was drawn to say anything: there is no such exchange."""
_GOLDEN = 0.6180339887498949
"""Steps of this share of the span fill it evenly, however many sessions there are."""


class Session(Struct, frozen=True, kw_only=True):
    """A session as a parser would tell it."""

    path: str
    agent: str
    project: str
    result: ParseResult

    @property
    def text_bytes(self) -> int:
        """How much was said, in bytes of UTF-8."""
        return sum(
            len(exchange.user_text.encode()) + len(exchange.reply_text.encode()) for exchange in self.result.exchanges
        )


def project_path(number: int) -> str:
    """Return the directory of a project."""
    return f"/home/bench/{word(300 + 7 * number)}-{word(4_000 + 11 * number)}"


def draw_sessions(seed: int) -> Iterator[Session]:
    """Yield sessions without end; the same ones for the same seed."""
    random = np.random.Generator(np.random.PCG64(seed))
    prose = Prose(random)
    topics = [prose.topic() for _ in range(PROJECTS)]
    shares = np.cumsum(1.0 / (np.arange(PROJECTS) + _PROJECT_OFFSET))
    agents = np.cumsum([share for _, share in AGENTS])
    number = 0
    while True:
        project = int(np.searchsorted(shares / shares[-1], random.random()))
        agent, _ = AGENTS[min(int(np.searchsorted(agents, random.random())), len(AGENTS) - 1)]
        yield _session(prose, number, agent, project, topics[project])
        number += 1


def _session(prose: Prose, number: int, agent: str, project: int, topic: Ranks) -> Session:
    name = f"scale-{number:08d}"
    path = project_path(project)
    at = LAST_MS - DAY_MS - int((number * _GOLDEN) % 1.0 * SPAN_DAYS * DAY_MS)
    exchanges: list[Exchange] = []
    for turn in range(prose.length(figures.SESSION_EXCHANGES)):
        user, reply = prose.user_turn(topic), prose.reply(topic)
        if not user and not reply:
            user = _SHORTEST_TURN
        exchanges.append(_exchange(name, turn, agent, path, at, user, reply))
        at = min(at + prose.length(figures.GAP_SECONDS) * 1_000, LAST_MS - 1_000)
    facts = SessionFacts(agent=agent, session_id=name, cwd=path)
    return Session(
        path=f"/home/bench/.transcripts/{agent}/{name}.jsonl",
        agent=agent,
        project=path,
        result=ParseResult(exchanges=tuple(exchanges), sessions=(facts,), lines_read=2 * len(exchanges)),
    )


def _exchange(session: str, turn: int, agent: str, project: str, at: int, user: str, reply: str) -> Exchange:
    return Exchange(
        key=ExchangeKey(f"{agent}:{session}-{turn}"),
        agent=agent,
        session_id=session,
        ordinal=turn,
        user_text=user,
        user_kind="prompt",
        reply_text=reply,
        started_at=at,
        ended_at=at + 500,
        time_quality="exact",
        status="complete",
        cwd=project,
        line_start=2 * turn + 1,
        line_end=2 * turn + 2,
        byte_start=2_000 * turn,
        byte_end=2_000 * (turn + 1),
    )


def exchange_of(session: str, turn: int, user: str, reply: str) -> Exchange:
    """Return one exchange more, for the measurement of what adding one costs."""
    return _exchange(session, turn, "claude-code", project_path(0), LAST_MS + turn * 60_000, user, reply)
