"""Terms that many drawers hold, in memory by row: what most questions ask for is read from the index once.

The words of a question that stand everywhere ("we", "the", "file") say least and cost most: on 100,000 made-up drawers
nine tenths of what a question reads of the index is of terms that a tenth of the drawers or more hold. The first
question that asks for such a term keeps what it read; later ones add the rows that are new.
"""

from __future__ import annotations

import threading
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from palace_daemon.store import postings
from palace_daemon.store.columns import Column
from palace_daemon.store.sqlite import Connection

ROWS_MIN = 4_096
"""Of fewer rows any list is short."""
SHARE_MIN = 1 / 50
"""Share of the rows that must hold a term to be kept."""
COLUMN_SHARE_MIN = 1 / 3
"""Share of the rows above which two numbers for each row take less room than a list of those that hold the term."""
BYTES_PER_ROW = 384
"""Room for all that is kept, as much as the numbers of one vector. The commonest of the terms that were asked for
stay: of made-up drawers those that a twelfth of them hold or more."""
_BYTES_IN_LIST, _BYTES_IN_COLUMNS = 7, 3
"""For each that is listed, and for each row: frequencies take one byte, but for a term that stands 256 times in one."""
_LATE_ROWS_MAX = 4_096
"""What lacks so many rows is read anew."""

Rows = NDArray[np.int64] | NDArray[np.int32]
Frequencies = NDArray[np.uint8] | NDArray[np.uint16]


class State(Protocol):
    """The part of a snapshot that tells which row a drawer has."""

    @property
    def generation(self) -> int:
        """Of the store."""
        ...

    @property
    def drawers(self) -> NDArray[np.int64]:
        """Drawer id by row."""
        ...

    def known_rows_of(self, drawer_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the last row that the state knows of each id, -1 where it knows none."""
        ...


class Listed(NamedTuple):
    """Where a term stands, arrays ``[m]`` by row that holds it, ascending."""

    rows: Rows
    frequencies: Frequencies
    masks: NDArray[np.uint16]

    def at(self, places: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Listed:
        """Return those at ``places``."""
        return Listed(self.rows[places], self.frequencies[places], self.masks[places])


class ByRow(NamedTuple):
    """The same by row, ``[n]``: dead rows may tell of what they once held."""

    frequencies: Frequencies
    """0 where the term does not stand."""
    masks: NDArray[np.uint16]


class _Kept:
    """What is kept of one term, up to some row: a list, or two columns."""

    def __init__(self, found: Listed, count: int, generation: int) -> None:
        is_small = int(found.frequencies.max(initial=0)) <= np.iinfo(np.uint8).max
        is_list = len(found.rows) < COLUMN_SHARE_MIN * count
        self._rows = Column(np.int32) if is_list else None
        self._frequencies: Column[np.uint8] | Column[np.uint16] = Column(np.uint8) if is_small else Column(np.uint16)
        self._masks = Column(np.uint16)
        self.matches = 0
        self.write(found, count, generation)

    def write(self, found: Listed, count: int, generation: int) -> bool:
        """Reach ``count`` rows, and write what stands in the new ones; return whether there is room for its numbers."""
        if int(found.frequencies.max(initial=0)) > np.iinfo(self._frequencies.buffer.dtype).max:
            return False
        self.matches += len(found.rows)
        self.count, self.generation = count, generation
        if self._rows is None:
            size, at = count, found.rows
        else:
            size, at = self.matches, np.arange(self.matches - len(found.rows), self.matches)
            self._rows.extend(found.rows.astype(np.int32))
        self._frequencies.reach(size)
        self._frequencies.buffer[at] = found.frequencies
        self._masks.reach(size)
        self._masks.buffer[at] = found.masks
        self.bytes = size * (_BYTES_IN_COLUMNS if self._rows is None else _BYTES_IN_LIST)
        return True

    def shown(self, count: int) -> Listed | ByRow:
        """Return what stands in the first ``count`` rows."""
        if self._rows is None:
            return ByRow(self._frequencies.view()[:count], self._masks.view()[:count])
        found = Listed(self._rows.view(), self._frequencies.view(), self._masks.view())
        return found if count == self.count else found.at(slice(int(found.rows.searchsorted(count))))


def read(connection: Connection, state: State, term: str, first_block: int = 0) -> Listed:
    """Return where ``term`` stands in ``state``, which is that of the caller's transaction."""
    stored = postings.read(connection, term, first_block)
    found = Listed(state.known_rows_of(stored.ids), stored.frequencies, stored.masks)
    if len(found.rows) and int(found.rows.min()) < 0:  # a damaged index has words of drawers that are not there
        found = found.at(found.rows >= 0)
    if not (found.rows[1:] > found.rows[:-1]).all():  # rows follow the ids but for drawers that changed
        found = found.at(np.argsort(found.rows, kind="stable"))
    return found


class CommonTerms:
    """What is kept of one load of the drawers, whose rows never move. Thread-safe."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def look_up(self, connection: Connection, state: State, term: str) -> Listed | ByRow:
        """Return where ``term`` stands in ``state``, which is that of the caller's transaction.

        Raises:
            sqlite errors, mapped by the reader that lent ``connection``.
        """
        count = len(state.drawers)
        with self._lock:
            kept = self._kept.get(term)
            if kept is not None and _is_brought_up(connection, state, term, kept):
                return kept.shown(count)
        found = read(connection, state, term)
        if count >= ROWS_MIN and len(found.rows) >= SHARE_MIN * count:
            with self._lock:
                self._keep(term, found, state)
        return found

    def _keep(self, term: str, found: Listed, state: State) -> None:
        """Keep what was found, if there is room for it but for what fewer drawers hold."""
        count, matches = len(state.drawers), len(found.rows)
        known = self._kept.get(term)
        if known is not None and known.generation > state.generation:
            return
        room = BYTES_PER_ROW * count - sum(one.bytes for name, one in self._kept.items() if name != term)
        lesser = sorted((one.matches, name) for name, one in self._kept.items() if one.matches < matches)
        leaving = []
        for _, name in lesser:
            if room >= _bytes(matches, count):
                break
            leaving.append(name)
            room += self._kept[name].bytes if name != term else 0
        if room >= _bytes(matches, count):
            for name in leaving:
                del self._kept[name]
            self._kept[term] = _Kept(found, count, state.generation)


def _bytes(matches: int, count: int) -> int:
    """Return what a term takes that stands in ``matches`` of ``count`` rows."""
    return _BYTES_IN_COLUMNS * count if matches >= COLUMN_SHARE_MIN * count else _BYTES_IN_LIST * matches


def _is_brought_up(connection: Connection, state: State, term: str, kept: _Kept) -> bool:
    """Return whether what is kept says what ``state`` does, after adding what rows it lacks.

    A row that died before it was written tells nothing, so what is kept is of no use to a state before that.
    """
    count, first = len(state.drawers), kept.count
    if state.generation < kept.generation or count - first > _LATE_ROWS_MAX:
        return False
    if count > first:
        block = int(state.drawers[first:count].min()) >> postings.BLOCK_BITS
        found = read(connection, state, term, block)
        return kept.write(found.at(found.rows >= first), count, state.generation)
    return True
