"""From chosen drawers to what callers see: with what stands around them, each thing once, within the budget."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
import numpy as np

from palace_daemon.core import query as query_reader
from palace_daemon.core import rank
from palace_daemon.core.budget import Budget
from palace_daemon.model import AlsoIn, Hit, Neighbour, RecallAnswer, RecallQuery, SessionHits
from palace_daemon.service.ranking import Ranking
from palace_daemon.service.shortlist import Group, Shown
from palace_daemon.store import hits as around
from palace_daemon.store import views
from palace_daemon.store.sqlite import Connection

ALSO_IN_MAX = 20
"""Places that are listed of what says the same as a hit; there may be hundreds of "go on"."""


def shown(
    connection: Connection,
    groups: Sequence[Group],
    query: RecallQuery,
    ranking: Ranking,
    read: query_reader.ReadQuery,
) -> tuple[tuple[Hit, ...], tuple[SessionHits, ...]]:
    """Return the hits, each with all its neighbours, and their sessions where those are asked for.

    What of it an answer holds is for :func:`fitted` to say.
    """
    flat = [one for group in groups for one in group.shown]
    exchange_of = {one.row: int(ranking.drawers.exchanges[one.row]) for one in flat}
    beside = around.neighbours(connection, set(exchange_of.values()), query.neighbours)
    places = around.places(connection, {one for hit in flat for one in hit.folded[:ALSO_IN_MAX]})
    matched = _matched_terms([one.row for one in flat], ranking.words.terms, read)
    hits = {
        one.row: _hit(
            one,
            matched_terms=matched[one.row],
            also_in=tuple(places[exchange] for exchange in one.folded[:ALSO_IN_MAX]),
            neighbours=beside.get(exchange_of[one.row], ()),
        )
        for one in flat
    }
    return tuple(hits.values()), _sessions(connection, groups, hits) if query.by_session else ()


def fitted(answer: RecallAnswer, query: RecallQuery) -> RecallAnswer:
    """Return what the budget of ``query`` lets through of ``answer``, each neighbour once.

    Hits come first: the first is always whole, and the list ends before the one that does not fit. Neighbours get what
    is left, in the order of the hits. A neighbour comes with the first hit that it stands beside, and not at all where
    it is itself the exchange of a hit.
    """
    budget = Budget(query.max_chars, query.max_tokens)
    kept = _within(answer.hits, budget)
    told = {hit.exchange_id for hit in kept}
    hits: dict[str, Hit] = {}
    is_cut = len(kept) < len(answer.hits)
    for hit in kept:
        new = [one for one in hit.neighbours if one.exchange_id not in told]
        told |= {one.exchange_id for one in new}
        fitting = _that_fit(new, budget)
        is_cut = is_cut or len(fitting) < len(new)
        hits[hit.drawer_id] = msgspec.structs.replace(hit, neighbours=fitting)
    return msgspec.structs.replace(
        answer,
        hits=tuple(hits.values()),
        sessions=tuple(
            msgspec.structs.replace(session, hits=inside)
            for session in answer.sessions
            if (inside := tuple(hits[hit.drawer_id] for hit in session.hits if hit.drawer_id in hits))
        ),
        is_cut=is_cut,
        hits_left_out=len(answer.hits) - len(kept),
    )


def _within(hits: Sequence[Hit], budget: Budget) -> Sequence[Hit]:
    """Return the hits as far as the budget reaches."""
    for at, hit in enumerate(hits):
        if not budget.take(hit.text, is_forced=not at):
            return hits[:at]
    return hits


def _that_fit(neighbours: Collection[Neighbour], budget: Budget) -> tuple[Neighbour, ...]:
    """Return the neighbours that the budget has room for, the nearest first served, in order."""
    nearest = sorted(neighbours, key=lambda one: (abs(one.relation), one.relation))
    kept = [one for one in nearest if budget.take(one.user_text, one.reply_text)]
    return tuple(sorted(kept, key=lambda one: one.relation))


def _sessions(connection: Connection, groups: Sequence[Group], hits: dict[int, Hit]) -> tuple[SessionHits, ...]:
    spans = around.session_spans(connection, [group.session for group in groups])
    found = []
    for group in groups:
        inside = tuple(hits[one.row] for one in group.shown)
        best = inside[0]
        started_at, ended_at = spans[group.session]
        found.append(
            SessionHits(
                session_id=best.session_id,
                title=best.session_title,
                project=best.project,
                agent=best.agent,
                started_at=started_at,
                ended_at=ended_at,
                score=best.score,
                hits=inside,
            )
        )
    return tuple(found)


def _matched_terms(
    rows: Sequence[int], matches: Sequence[rank.Term], read: query_reader.ReadQuery
) -> dict[int, tuple[str, ...]]:
    """Return the words of the question that stand in each drawer, as the asker wrote them, each once."""
    wanted = np.array(rows, np.int64)
    has = [match.frequencies_of(wanted) > 0 for match in matches]
    surfaces = [read.surface(match.term) for match in matches]
    return {
        row: tuple(dict.fromkeys(surface for surface, where in zip(surfaces, has, strict=True) if where[at]))
        for at, row in enumerate(rows)
    }


def _hit(
    one: Shown, *, matched_terms: tuple[str, ...], also_in: tuple[AlsoIn, ...], neighbours: tuple[Neighbour, ...]
) -> Hit:
    text = one.text
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
        score=round(sum(one.parts.values()), 9),
        parts=one.parts,
        matched_terms=matched_terms,
        also_in=also_in,
        also_in_count=len(one.folded),
        neighbours=neighbours,
    )
