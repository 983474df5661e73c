"""The drawers that a question is about: all rows of a state, or few of them put together for it.

Where the filters leave few drawers only these are scored; where they leave many all are, and what is out of scope is
left out at the end. What either gives is the same to the bit. Everything beyond speaks of *places*: rows of the
arrays that stand here.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from palace_daemon.core import rank
from palace_daemon.store.columns import Scalar
from palace_daemon.store.mirror import Snapshot

Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]

GATHERED_MAX = 1 / 8
"""Share of the rows above which all are scored: putting together more of them takes longer than what it spares."""


class Scope:
    """What is scored, arrays ``[k]`` by place."""

    def __init__(self, state: Snapshot, in_scope: Flags) -> None:
        """Take a state of the drawers, and which of its rows the filters let through."""
        self.state = state
        self.count = int(np.count_nonzero(in_scope))
        """Drawers that the filters let through."""
        self._rows = np.flatnonzero(in_scope) if self.count <= GATHERED_MAX * len(in_scope) else None
        self.in_scope = in_scope if self._rows is None else np.ones(self.count, np.bool_)
        self.members = state.is_live | in_scope
        """The rows of which the weights of words are counted: live drawers, whatever the filters say, and the scope."""
        self.member_count = int(np.count_nonzero(self.members))
        self.is_whole = self._rows is None
        """Whether all rows have a place, so that rows and places are the same."""

    @property
    def size(self) -> int:
        """The number of places."""
        return len(self.in_scope)

    @functools.cached_property
    def _place_of_row(self) -> Rows:
        found = np.full(len(self.state.drawers), -1, np.int64)
        found[self._rows] = np.arange(self.count)
        return found

    @property
    def rows(self) -> Rows | None:
        """The row of each place; None where rows and places are the same."""
        return self._rows

    def rows_at(self, places: Rows) -> Rows:
        """Return the rows of the state at ``places``."""
        return places if self._rows is None else self._rows[places]

    def narrowed_column(self, found: rank.TermColumn) -> rank.TermColumn:
        """Return a column by row as one by place."""
        if self._rows is None:
            return found
        return rank.TermColumn(
            term=found.term,
            matches=found.matches,
            frequencies=found.frequencies[self._rows],
            masks=found.masks[self._rows],
        )

    def narrowed(self, found: rank.TermPostings) -> rank.TermPostings:
        """Return postings by row as postings by place, without those that have none."""
        if self._rows is None:
            return found
        places = self._place_of_row[found.rows]
        kept = places >= 0
        return rank.TermPostings(
            term=found.term,
            rows=places[kept],
            matches=found.matches,
            frequencies=found.frequencies[kept],
            masks=found.masks[kept],
        )

    @functools.cached_property
    def ids(self) -> Rows:
        """Drawer ids."""
        return self._at(self.state.drawers)

    @functools.cached_property
    def exchanges(self) -> Rows:
        """Ids of exchanges."""
        return self._at(self.state.exchanges)

    @functools.cached_property
    def sessions(self) -> Rows:
        """Ids of sessions."""
        return self._at(self.state.sessions)

    @functools.cached_property
    def started_at(self) -> Rows:
        """UTC epoch ms."""
        return self._at(self.state.started_at)

    @functools.cached_property
    def lengths(self) -> NDArray[np.float64]:
        """Number of terms."""
        return self._at(self.state.lengths)

    @functools.cached_property
    def has_vector(self) -> Flags:
        """Which have a vector."""
        return self._at(self.state.has_vector)

    def _at(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        return values if self._rows is None else values[self._rows]
