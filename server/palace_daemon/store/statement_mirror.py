"""The vectors of statements in memory, each with the exchange that says it.

Only what has a vector is here. Like the drawers' mirror it is followed, not loaded: the rows of an exchange that
changed die, and what it says now is appended.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palace_daemon.core.ports import Float32
from palace_daemon.store import matrix
from palace_daemon.store.sqlite import Connection

_LOAD = (
    "SELECT s.exchange_id, s.is_wish, v.vector FROM statements s CROSS JOIN vectors v ON v.text_hash=s.text_hash"
    " AND v.model=? {where} ORDER BY s.exchange_id, s.ordinal"
)
_LOAD_ALL = _LOAD.format(where="")
_LOAD_CHANGED = _LOAD.format(where="WHERE s.exchange_id IN (SELECT value FROM json_each(?))")
_LOAD_EMBEDDED = (
    "SELECT s.exchange_id, s.is_wish, v.vector FROM vectors v INDEXED BY vectors_generation"
    " CROSS JOIN statements s INDEXED BY statements_text ON s.text_hash=v.text_hash"
    " WHERE v.model=? AND v.generation>? ORDER BY s.exchange_id, s.ordinal"
)


class Statements(NamedTuple):
    """One state of all statements that have a vector. Immutable."""

    exchanges: NDArray[np.int64]
    """Exchange id ``[m]``; -1 in dead rows."""
    is_wish: NDArray[np.bool_]
    """Whether it tells a standing wish, ``[m]``."""
    chunks: matrix.Chunks

    def best(self, query: Float32, size: int) -> tuple[Float32, Float32]:
        """Return float32 ``[size]`` by exchange id: the best cosine of its statements, and of those that are wishes.

        -1 where it has none.
        """
        cosines = matrix.products(self.chunks, query, len(self.exchanges))
        found = []
        for rows in (self.exchanges >= 0, (self.exchanges >= 0) & self.is_wish):
            best = np.full(size, -1.0, np.float32)
            np.maximum.at(best, self.exchanges[rows], cosines[rows])
            found.append(best)
        return found[0], found[1]

    def rows(self, exchanges: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of the statements of these exchanges, ascending."""
        return np.flatnonzero(np.isin(self.exchanges, exchanges))

    def vectors(self, rows: NDArray[np.int64]) -> Float32:
        """Return float32 ``[k, dim]``: the vectors of ``rows``."""
        return matrix.rows_of(self.chunks, rows)

    @property
    def dead_share(self) -> float:
        """Share of dead rows; 0 while there are few rows at all."""
        count = len(self.exchanges)
        return float(np.count_nonzero(self.exchanges < 0)) / count if count > matrix.CHUNK_ROWS else 0.0


NO_STATEMENTS = Statements(np.empty(0, np.int64), np.empty(0, np.bool_), ())


def load(connection: Connection, model: str) -> Statements:
    """Return all statements that have a vector of ``model``."""
    return _with_rows(NO_STATEMENTS, connection.execute(_LOAD_ALL, (model,)).fetchall())


def follow(
    connection: Connection, base: Statements, model: str, since: int, changed: Collection[int], gone: Collection[int]
) -> Statements:
    """Return the state after ``base``.

    Args:
        connection: In the transaction whose state is wanted.
        base: The state of generation ``since``.
        model: The model of all vectors.
        since: See ``base``.
        changed: Exchanges whose drawers changed since: they may say something else now.
        gone: Exchanges that are no more.
    """
    embedded = connection.execute(_LOAD_EMBEDDED, (model, since)).fetchall()
    rows = [row for row in embedded if row[0] not in changed]
    exchanges = base.exchanges
    if changed:
        rows += connection.execute(_LOAD_CHANGED, (model, json.dumps(sorted(changed)))).fetchall()
    if changed or gone:
        exchanges = np.where(np.isin(exchanges, np.array([*changed, *gone], np.int64)), -1, exchanges)
    return _with_rows(base._replace(exchanges=exchanges), rows)


def _with_rows(base: Statements, rows: list[tuple[int, int, bytes]]) -> Statements:
    if not rows:
        return base
    first = len(base.exchanges)
    exchanges = np.concatenate([base.exchanges, np.array([row[0] for row in rows], np.int64)])
    is_wish = np.concatenate([base.is_wish, np.array([row[1] for row in rows], np.bool_)])
    vectors = [(first + at, row[2]) for at, row in enumerate(rows)]
    return Statements(exchanges, is_wish, matrix.with_vectors(base.chunks, vectors, len(exchanges)))
