"""The vectors of statements in memory, those of one exchange in one run of rows.

Only what has a vector is here. Like the drawers' mirror it is followed, not loaded: where what an exchange says has
changed its run ends, and what it says now is appended as a new one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palace_daemon.core.ports import Float32
from palace_daemon.store import matrix, spaces
from palace_daemon.store.columns import NEVER, Column, last_known
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.widths import Widths

_LOAD = (
    "SELECT s.exchange_id, s.is_wish, v.id{vector} FROM statements s"
    " CROSS JOIN vectors v ON v.text_hash=s.text_hash AND v.space=? {where} ORDER BY s.exchange_id, s.ordinal"
)
_LOAD_ALL = _LOAD.format(vector="", where="")
_LOAD_CHANGED = _LOAD.format(
    vector=", v.generation, CAST(v.vector AS BLOB)", where="WHERE s.exchange_id IN (SELECT value FROM json_each(?))"
)
_EMBEDDED = (
    "SELECT s.exchange_id FROM vectors v INDEXED BY vectors_generation"
    " CROSS JOIN statements s INDEXED BY statements_text ON s.text_hash=v.text_hash"
    " WHERE v.space=? AND v.generation>?"
)
_BATCH_ROWS = 4_096

Rows = NDArray[np.int64]
_Loaded = tuple[int, int, int, int, bytes]
"""Exchange, whether it is a wish, and the vector: its row, its generation, its bytes."""


class Statements(NamedTuple):
    """One state of all statements that have a vector: arrays ``[m]`` by row or ``[r]`` by run. Immutable."""

    generation: int
    is_wish: NDArray[np.bool_]
    """Whether it tells a standing wish, ``[m]``."""
    runs: Rows
    """The run that each row is of, ``[m]``."""
    vectors: matrix.View
    """``[m]``"""
    starts: Rows
    """The first row of each run, ``[r]``; the next run follows at once."""
    exchanges: Rows
    """Whose run it is, ``[r]``."""
    ended_at: Rows
    """The generation that holds the run no more, ``[r]``."""
    newest_runs: Rows
    """The newest run by exchange id, -1 where there is none; it may be one that this state does not know."""
    former_runs: Column[np.int64]
    """The run that an exchange had before, -1 if none, by run; those of later states included."""

    def best(self, values: Float32) -> Float32:
        """Return float32 ``[r + 1]`` by run: the largest value ``[m]`` of its rows; the last is -1, for no run."""
        best = np.full(len(self.starts) + 1, -1.0, np.float32)
        np.maximum.at(best, self.runs, values)  # runs are short: a reduction of each takes twice as long
        return best

    def rows(self, exchanges: Rows) -> tuple[Rows, Rows]:
        """Return the rows of the statements of these exchanges, and of each the place of its exchange in them."""
        runs = self.runs_of(exchanges)
        owners = np.flatnonzero(runs >= 0)
        runs = runs[owners]
        starts = self.starts[runs]
        is_last = runs + 1 == len(self.starts)
        ends = np.where(is_last, len(self.is_wish), self.starts[np.where(is_last, 0, runs + 1)])
        counts = ends - starts
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(starts, counts) + within, np.repeat(owners, counts)

    def runs_of(self, exchanges: Rows) -> Rows:
        """Return the run of each exchange, -1 where it has none."""
        runs = last_known(self.newest_runs, self.former_runs, exchanges, len(self.starts))
        found = np.flatnonzero(runs >= 0)
        runs[found[self.ended_at[runs[found]] <= self.generation]] = -1
        return runs


_NO_ROWS: Rows = np.empty(0, np.int64)
NO_STATEMENTS = Statements(
    generation=-1,
    is_wish=np.empty(0, np.bool_),
    runs=_NO_ROWS,
    vectors=matrix.NOTHING,
    starts=_NO_ROWS,
    exchanges=_NO_ROWS,
    ended_at=_NO_ROWS,
    newest_runs=_NO_ROWS,
    former_runs=Column(np.int64, -1),
)


def of_vectors(exchanges: Rows, is_wish: NDArray[np.bool_], vectors: Float32) -> Statements:
    """Return statements whose vectors ``[m, dim]`` are in no store; those of one exchange stand together."""
    if not len(exchanges):
        return NO_STATEMENTS
    kept = Kept()
    kept.append(Told(exchanges, is_wish, np.full(len(exchanges), -1)))
    return kept.view(0)._replace(vectors=matrix.of_vectors(vectors))


class Told(NamedTuple):
    """What is told of statements that have a vector: arrays ``[k]``, those of one exchange side by side."""

    exchanges: Rows
    is_wish: NDArray[np.bool_]
    vector_keys: Rows
    """Rows in the table of vectors."""


class Changes(NamedTuple):
    """What was read of the statements of some exchanges: all of theirs."""

    exchanges: set[int]
    rows: list[_Loaded]


class Kept:
    """All statements of the newest state and former ones. For one writer; views may be read meanwhile."""

    def __init__(self) -> None:
        """Begin empty."""
        self.dead_count = 0
        """Rows whose run has ended."""
        self.change_count = 0
        """Rows that were appended or whose run ended, in all this time."""
        self.matrix = matrix.Matrix()
        self._is_wish = Column(np.bool_)
        self._runs = Column(np.int64)
        self._starts = Column(np.int64)
        self._exchanges = Column(np.int64)
        self._ended_at = Column(np.int64, NEVER)
        self._newest_runs = Column(np.int64, -1)
        self._former_runs = Column(np.int64, -1)

    @property
    def count(self) -> int:
        """The number of rows."""
        return self._is_wish.count

    def load(self, connection: Connection, model: str) -> None:
        """Take all statements that have a vector of ``model``; nothing is held yet. :meth:`filled` is to follow."""
        rows = connection.execute(_LOAD_ALL, (spaces.number(model),))
        rest: list[tuple[int, int, int]] = []
        while read := rows.fetchmany(_BATCH_ROWS):
            ready, rest = _parted(rest + read)  # the last exchange of a batch may go on in the next one
            self.append(_told(ready))
        self.append(_told(rest))

    def told(self) -> Told:
        """Return what is told of the statements that there are."""
        runs = self._runs.view()
        rows = np.flatnonzero(self._ended_at.view()[runs] == NEVER)
        rows = rows[np.argsort(self._exchanges.buffer[runs[rows]], kind="stable")]
        return Told(self._exchanges.buffer[runs[rows]], self._is_wish.buffer[rows], self.matrix.view().keys[rows])

    def filled(self, generation: int) -> None:
        """Leave out, from ``generation`` on, statements whose stored vector turned out to be none."""
        has_vector = self.matrix.drop_empty_keys()
        for run in np.unique(self._runs.view()[~has_vector]).tolist():
            if self._ended_at.buffer[run] != NEVER:
                continue
            at, exchange = self._rows(run), int(self._exchanges.buffer[run])
            left = np.arange(at.start, at.stop)[has_vector[at]]
            keys = self.matrix.view().keys[left]
            self._end(exchange, generation)
            self.append(Told(np.full(len(left), exchange), self._is_wish.buffer[left], keys))
            self.matrix.fill(np.arange(self.count - len(left), self.count), self.matrix.view().rounded(left))

    def change(self, changes: Changes, since: int, generation: int) -> None:
        """Take what some exchanges say now, of which the state of ``since`` is held."""
        held = {exchange: list(rows) for exchange, rows in groupby(changes.rows, itemgetter(0))}
        new = [row for exchange, rows in held.items() if not self._is_same(exchange, rows, since) for row in rows]
        for exchange in changes.exchanges - held.keys() | {row[0] for row in new}:
            self._end(exchange, generation)
        if new:
            first = self.count
            self.append(_told([row[:3] for row in new]))
            keys = np.array([row[2] for row in new], np.int64)
            self.matrix.put(np.arange(first, self.count), keys, matrix.unpacked([row[4] for row in new]))

    def view(self, generation: int) -> Statements:
        """Return the state of now."""
        return Statements(
            generation,
            self._is_wish.view(),
            self._runs.view(),
            self.matrix.view(),
            self._starts.view(),
            self._exchanges.view(),
            self._ended_at.view(),
            self._newest_runs.view(),
            self._former_runs,
        )

    def append(self, told: Told) -> None:
        """Append runs of exchanges that have none; their vectors are still to come."""
        exchanges = told.exchanges
        if not len(exchanges):
            return
        self.change_count += len(exchanges)
        first, first_run = self.count, self._starts.count
        begins = np.flatnonzero(np.r_[True, exchanges[1:] != exchanges[:-1]])
        runs, owners = first_run + np.arange(len(begins)), exchanges[begins]
        self.matrix.append(told.vector_keys)
        self._is_wish.extend(told.is_wish)
        self._runs.extend(first_run + np.repeat(np.arange(len(begins)), np.diff(np.r_[begins, len(exchanges)])))
        self._starts.extend(first + begins)
        self._exchanges.extend(owners)
        self._ended_at.extend(np.full(len(runs), NEVER))
        self._newest_runs.reach(int(owners.max()) + 1)
        self._former_runs.extend(self._newest_runs.buffer[owners])
        self._newest_runs.put(owners, runs)

    def _run(self, exchange: int) -> int:
        """Return the exchange's run in the newest state, -1 if it has none."""
        run = int(self._newest_runs.buffer[exchange]) if exchange < self._newest_runs.count else -1
        return run if run >= 0 and self._ended_at.buffer[run] == NEVER else -1

    def _rows(self, run: int) -> slice:
        starts = self._starts
        return slice(int(starts.buffer[run]), int(starts.buffer[run + 1]) if run + 1 < starts.count else self.count)

    def _is_same(self, exchange: int, rows: list[_Loaded], since: int) -> bool:
        """Return whether the exchange's run holds just this."""
        run = self._run(exchange)
        if run < 0 or any(row[3] > since for row in rows):
            return False
        at = self._rows(run)
        held = zip(self._is_wish.buffer[at].tolist(), self.matrix.view().keys[at].tolist(), strict=True)
        return list(held) == [(bool(row[1]), row[2]) for row in rows]

    def _end(self, exchange: int, generation: int) -> None:
        run = self._run(exchange)
        if run >= 0:
            at = self._rows(run)
            self.dead_count += at.stop - at.start
            self.change_count += at.stop - at.start
            self._ended_at.put(run, generation)


def changes(
    connection: Connection, model: str, since: int, widths: Widths, changed: Collection[int], gone: Collection[int]
) -> Changes:
    """Return what to :meth:`Kept.change`.

    Args:
        connection: In the transaction whose state is wanted.
        model: The model of all vectors.
        since: The generation that is held.
        widths: Of the model's vectors.
        changed: Exchanges whose drawers changed since: they may say something else now.
        gone: Exchanges that are no more.
    """
    space = spaces.number(model)
    embedded = {row[0] for row in connection.execute(_EMBEDDED, (space, since))}
    wanted = sorted(embedded.union(changed))
    rows = connection.execute(_LOAD_CHANGED, (space, json.dumps(wanted))).fetchall() if wanted else []
    return Changes({*wanted, *gone}, _sound(connection, space, rows, widths))


def _sound(connection: Connection, space: int, rows: list[_Loaded], widths: Widths) -> list[_Loaded]:
    """Return ``rows`` without those of damaged vectors."""
    unsound = widths.unsound(connection, space, [(row[2], row[4]) for row in rows])
    return [row for row in rows if row[2] not in unsound] if unsound else rows


def _told(rows: Sequence[tuple[int, int, int]]) -> Told:
    exchanges, wishes, keys = (
        np.array(column, np.int64) for column in (zip(*rows, strict=True) if rows else ((),) * 3)
    )
    return Told(exchanges, wishes.astype(np.bool_), keys)


def _parted(
    rows: list[tuple[int, int, int]],
) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """Return ``rows`` without those of the last exchange, and these."""
    at = len(rows)
    last = rows[-1][0] if rows else -1
    while at and rows[at - 1][0] == last:
        at -= 1
    return rows[:at], rows[at:]
