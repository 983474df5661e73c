"""Which drawers an answer shows: the best, those of the best sessions, each thing said once.

Invariant: the outcome is that of ordering every drawer in scope and going down the whole list.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palace_daemon.core import folding, rank
from palace_daemon.core.folding import Chosen, Entry
from palace_daemon.model import RecallQuery
from palace_daemon.service.cosines import ROUNDING
from palace_daemon.service.ranking import Close, Ranking
from palace_daemon.store import hits, views
from palace_daemon.store.sqlite import Connection

SESSION_HITS_MAX = 3
"""Drawers that are shown of one session, where sessions are asked for."""
_GROWTH = 4
_TEXTS_AHEAD = 8
_DEPTH = 4 * SESSION_HITS_MAX
"""Drawers of each of the best sessions that are read closely at first, those of the highest bound."""


class Shown(NamedTuple):
    """One drawer that is shown."""

    row: int
    parts: dict[str, float]
    text: views.DrawerText
    folded: tuple[int, ...]
    """Exchanges that say the same, best first, each once."""


class Group(NamedTuple):
    """A session, an exchange, or one drawer where neither is asked for."""

    session: int
    shown: tuple[Shown, ...]


def choose(connection: Connection, ranking: Ranking, query: RecallQuery) -> list[Group]:
    """Return what is shown, best first, before any budget."""
    return _Choice(connection, ranking, query).groups()


class _Walked(NamedTuple):
    close: Close
    order: list[int]
    """Positions in ``close``, best first."""
    found: folding.Shortlist

    def position(self, chosen: Chosen) -> int:
        return self.order[chosen.at]


class _Choice:
    """Grows what is read until more could change nothing. Keeps keys and texts between the rounds."""

    def __init__(self, connection: Connection, ranking: Ranking, query: RecallQuery) -> None:
        self._connection = connection
        self._ranking = ranking
        self._query = query
        self._per_group = SESSION_HITS_MAX if query.by_session else 1
        self._keys: dict[int, hits.DrawerKey] = {}
        self._texts: dict[int, views.DrawerText] = {}
        self._said: dict[bytes, str] = {}

    def groups(self) -> list[Group]:
        # Room for drawers that fold, or that are further ones of a session or an exchange.
        query = self._query
        wanted = query.limit * (1 + query.fold + 2 * query.by_session + query.by_exchange)
        while True:
            close = self._ranking.best(wanted)
            walked = self._walk(close)
            is_all = len(close.rows) == self._ranking.count
            if walked.found.is_settled or is_all:
                break
            wanted *= _GROWTH
        if self._query.by_session and not is_all:
            walked = self._filled(walked)
        return self._shown(walked)

    def _filled(self, walked: _Walked) -> _Walked:
        """Find the best drawers inside the sessions that are shown: they may rank far below the worst session."""
        drawers, bound = self._ranking.drawers, self._ranking.bound
        begun = walked.close.rows
        own = np.flatnonzero(np.isin(drawers.sessions, list(walked.found.groups)) & np.isfinite(bound))
        own = own[np.lexsort((-bound[own], drawers.sessions[own]))]
        depth = _DEPTH
        while True:
            rows = np.union1d(begun, own[_places(drawers.sessions[own]) < depth])
            walked = self._walk(self._ranking.read(rows))
            if self._is_full(walked, own[~np.isin(own, rows)]):
                return walked
            depth *= _GROWTH

    def _is_full(self, walked: _Walked, unread: NDArray[np.int64]) -> bool:
        """Return whether no drawer of ``unread`` can be among the best of its session."""
        sessions, bound = self._ranking.drawers.sessions[unread], self._ranking.bound[unread]
        for session, chosen in walked.found.groups.items():
            left = bound[sessions == session]
            worst = walked.close.totals[walked.position(chosen[-1])] if len(chosen) == self._per_group else -np.inf
            if len(left) and worst <= left.max() + ROUNDING:
                return False
        return True

    def _walk(self, close: Close) -> _Walked:
        """Order what was read and go down the list."""
        drawers = self._ranking.drawers
        ids = drawers.ids[close.rows].tolist()
        self._keys |= hits.keys(self._connection, [drawer_id for drawer_id in ids if drawer_id not in self._keys])
        order = rank.order(close.totals, drawers.started_at[close.rows], [self._keys[one].key for one in ids])
        rows = close.rows[order]
        groups = self._groups_of(rows)
        ranked = list(map(Entry, groups.tolist(), drawers.exchanges[rows].tolist()))
        ranked_ids = [ids[at] for at in order]
        said_at = functools.partial(self._said_at, ranked_ids) if self._query.fold else None
        found = folding.shortlist(ranked, said_at, limit=self._query.limit, per_group=self._per_group)
        return _Walked(close, order, found)

    def _groups_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what each row is listed with, as one place."""
        if self._query.by_session:
            return self._ranking.drawers.sessions[rows]
        return self._ranking.drawers.exchanges[rows] if self._query.by_exchange else rows

    def _said_at(self, drawer_ids: Sequence[int], at: int) -> str:
        """Return what the drawer at a place says. Texts are read a few ahead, and one of those that are equal."""
        text_hash = self._keys[drawer_ids[at]].text_hash
        if text_hash not in self._said:
            ahead = {self._keys[one].text_hash: one for one in drawer_ids[at : at + _TEXTS_AHEAD]}
            new = {known: one for known, one in ahead.items() if known not in self._said}
            self._read_texts(list(new.values()))
            self._said |= {known: folding.said(self._texts[one].text) for known, one in new.items()}
        return self._said[text_hash]

    def _read_texts(self, drawer_ids: Sequence[int]) -> None:
        self._texts |= views.drawer_texts(self._connection, [one for one in drawer_ids if one not in self._texts])

    def _shown(self, walked: _Walked) -> list[Group]:
        drawers, close = self._ranking.drawers, walked.close
        chosen = [one for group in walked.found.groups.values() for one in group]
        self._read_texts(drawers.ids[close.rows[[walked.position(one) for one in chosen]]].tolist())

        def shown(one: Chosen) -> Shown:
            at = walked.position(one)
            row = int(close.rows[at])
            folded = close.rows[[walked.order[place] for place in one.folded]]
            return Shown(
                row=row,
                parts={name: round(float(values[at]), 9) for name, values in close.parts.items()},
                text=self._texts[int(drawers.ids[row])],
                folded=tuple(dict.fromkeys(drawers.exchanges[folded].tolist())),
            )

        return [
            Group(int(drawers.sessions[close.rows[walked.position(group[0])]]), tuple(map(shown, group)))
            for group in walked.found.groups.values()
        ]


def _places(sessions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each row in its session, from 0; rows of one session stand together."""
    starts = np.flatnonzero(np.r_[True, sessions[1:] != sessions[:-1]])
    return np.arange(len(sessions)) - np.repeat(starts, np.diff(np.r_[starts, len(sessions)]))
