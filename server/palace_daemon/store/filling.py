"""Reads stored vectors in the order of their table, and brings each to the rows in memory that wait for it.

Texts are stored in another order than their vectors, which come when they are embedded: looking each one up would go
all over the file. Equal texts have one vector, which is read and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palace_daemon.store import matrix
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.widths import Widths

_BATCH_ROWS = 4_096
_READ = (
    "SELECT id, CAST(vector AS BLOB) FROM vectors NOT INDEXED WHERE space=? AND id>? AND generation<=?"
    " ORDER BY id LIMIT ?"
)

Rows = NDArray[np.int64]


class _Waiting(NamedTuple):
    """Rows that wait for their vectors."""

    matrix: matrix.Matrix
    keys: Rows
    """Sorted."""
    rows: Rows
    """The row that waits for each."""


class Batch(NamedTuple):
    """Some vectors as they are remembered."""

    keys: Rows
    """Their numbers, increasing."""
    vectors: matrix.Rounded
    last: int
    """The last number that was read."""


class Filling:
    """One pass over the table. For one thread at a time; only :meth:`put` touches the matrices."""

    def __init__(self, matrices: Sequence[matrix.Matrix], space: int, generation: int, widths: Widths) -> None:
        """Take matrices whose rows have the numbers of their vectors.

        All are vectors of one space, and were there at ``generation``: later ones may have numbers of deleted ones.
        """
        self._space = space
        self._generation = generation
        self._widths = widths
        self._waiting = [_waiting(one) for one in matrices]
        self._last = -1

    def read(self, connection: Connection) -> Batch | None:
        """Read some vectors; None when there are no more. What is no vector is left out."""
        read = connection.execute(_READ, (self._space, self._last, self._generation, _BATCH_ROWS)).fetchall()
        if not read:
            return None
        last = int(read[-1][0])
        if unsound := self._widths.unsound(connection, self._space, read):
            read = [row for row in read if row[0] not in unsound]
        vectors = matrix.unpacked([vector for _, vector in read]) if read else np.empty((0, 0), np.float32)
        return Batch(np.array([key for key, _ in read], np.int64), matrix.rounded(vectors), last)

    def put(self, batch: Batch) -> None:
        """Bring vectors to their rows."""
        self._last = batch.last
        if not len(batch.keys):
            return
        for waiting in self._waiting:
            start, end = np.searchsorted(waiting.keys, [batch.keys[0], batch.keys[-1] + 1])
            keys, rows = waiting.keys[start:end], waiting.rows[start:end]
            places = np.searchsorted(batch.keys, keys)
            is_read = batch.keys[places] == keys
            waiting.matrix.fill(rows[is_read], batch.vectors.at(places[is_read]))


def _waiting(made: matrix.Matrix) -> _Waiting:
    keys = made.view().keys
    order = np.argsort(keys, kind="stable")
    order = order[np.searchsorted(keys[order], 0) :]  # without those that have no vector
    return _Waiting(made, keys[order], order)
