"""One state of all drawers in memory."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
from numpy.typing import NDArray

from palace_daemon.store import matrix
from palace_daemon.store.columns import Column, last_known
from palace_daemon.store.common_terms import CommonTerms
from palace_daemon.store.statement_mirror import NO_STATEMENTS, Statements

Rows = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, eq=False)
class Snapshot:
    """One state of all drawers: arrays ``[n]`` by row, dead rows included. Immutable.

    A row never changes, but that it may die and may get a vector: both are told by the generation in which that came
    about, so that later ones write them down without a copy and this state sees nothing of it.
    """

    generation: int
    drawers: Rows
    """Drawer id, that of a dead row as well."""
    exchanges: Rows
    """Id of the exchange that the drawer is cut from."""
    sessions: Rows
    projects: NDArray[np.int32]
    """Index into ``project_names``."""
    agents: NDArray[np.int32]
    """Index into ``agent_names``."""
    started_at: Rows
    """UTC epoch ms; :data:`palace_daemon.core.dates.NO_DATE` where unknown."""
    lengths: NDArray[np.float64]
    """Number of terms."""
    is_superseded: NDArray[np.bool_]
    died_at: Rows
    """The generation that holds the row no more."""
    embedded_at: Rows
    """The first generation with the row's vector."""
    newest_rows: Rows
    """The newest row by drawer id, -1 where there is none; it may be one that this state does not know."""
    former_rows: Column[np.int64]
    """The row that a drawer had before, -1 if none, by row; those of later states included."""
    common_terms: CommonTerms
    """Of these rows, and of those of later states."""
    vectors: matrix.View
    statements: Statements
    project_names: tuple[str, ...]
    agent_names: tuple[str, ...]
    model: str
    """The model of all vectors; empty while none is active."""
    is_filling: bool = False
    """Whether stored vectors are still being read: this state is as if there were none."""

    @functools.cached_property
    def is_held(self) -> NDArray[np.bool_]:
        """Rows that are not dead."""
        return self.died_at > self.generation

    @functools.cached_property
    def is_live(self) -> NDArray[np.bool_]:
        """Rows that are neither dead nor superseded."""
        return self.is_held & ~self.is_superseded

    @functools.cached_property
    def has_vector(self) -> NDArray[np.bool_]:
        """Rows with a vector."""
        return self.embedded_at <= self.generation

    @functools.cached_property
    def runs(self) -> Rows:
        """The run of statements of each row's exchange, -1 where it has none."""
        return self.statements.runs_of(self.exchanges)

    @functools.cached_property
    def ids(self) -> Rows:
        """Drawer ids; -1 in dead rows."""
        return np.where(self.is_held, self.drawers, -1)

    @functools.cached_property
    def live_count(self) -> int:
        """The number of live rows."""
        return int(np.count_nonzero(self.is_live))

    @functools.cached_property
    def live_length(self) -> float:
        """The terms of all live rows together."""
        return float(self.lengths.sum(where=self.is_live))

    def rows_of(self, drawer_ids: Rows) -> Rows:
        """Return the row of each id, -1 for ids that this state does not hold."""
        rows = self.known_rows_of(drawer_ids)
        found = np.flatnonzero(rows >= 0)
        rows[found[~self.is_held[rows[found]]]] = -1
        return rows

    def known_rows_of(self, drawer_ids: Rows) -> Rows:
        """Return the last row that this state knows of each id, be it dead, -1 for ids that it never held."""
        return last_known(self.newest_rows, self.former_rows, drawer_ids, len(self.drawers))


_NO_ROWS: Rows = np.empty(0, np.int64)
_NO_CODES: NDArray[np.int32] = np.empty(0, np.int32)
NO_DRAWERS = Snapshot(
    generation=-1,
    drawers=_NO_ROWS,
    exchanges=_NO_ROWS,
    sessions=_NO_ROWS,
    projects=_NO_CODES,
    agents=_NO_CODES,
    started_at=_NO_ROWS,
    lengths=np.empty(0, np.float64),
    is_superseded=np.empty(0, np.bool_),
    died_at=_NO_ROWS,
    embedded_at=_NO_ROWS,
    newest_rows=_NO_ROWS,
    former_rows=Column(np.int64, -1),
    common_terms=CommonTerms(),
    vectors=matrix.NOTHING,
    statements=NO_STATEMENTS,
    project_names=(),
    agent_names=(),
    model="",
)
