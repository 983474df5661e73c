"""Arrays that are appended to: what was shown of them before stays as it was, and growing costs what is added.

A column keeps room to spare. A view of it shows the entries that there were when it was taken; later ones are written
behind them, and where the room is used up all are moved to a larger buffer, which leaves the views the former one.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)

NEVER = int(np.iinfo(np.int64).max)
"""A generation that does not come."""
_ROOM_MIN = 1_024
_ROOM = 4
"""One entry in so many is room to spare, after a move."""


class Column(Generic[Scalar]):
    """One growing array. For one writer; views may be read meanwhile."""

    def __init__(self, kind: type[Scalar], fill: int = 0) -> None:
        """Begin empty; entries that are skipped hold ``fill``."""
        self._fill = fill
        self._buffer: NDArray[Scalar] = np.empty(0, kind)
        self.count = 0

    @property
    def buffer(self) -> NDArray[Scalar]:
        """All entries and the room behind them, as they are now."""
        return self._buffer

    def view(self) -> NDArray[Scalar]:
        """Return the entries that there are; nothing that is appended later shows in it."""
        shown = self._buffer[: self.count]
        shown.flags.writeable = False
        return shown

    def extend(self, values: NDArray[Scalar]) -> None:
        """Append ``values``."""
        first = self.count
        self.reach(first + len(values))
        self._buffer[first : self.count] = values

    def reach(self, count: int) -> None:
        """Have at least ``count`` entries, the new ones filled."""
        if count > len(self._buffer):
            self._buffer = _moved(self._buffer, self.count, max(_ROOM_MIN, count + count // _ROOM), self._fill)
        self.count = max(self.count, count)

    def put(self, at: int | NDArray[np.int64], value: int | NDArray[Scalar]) -> None:
        """Write entries that there are. Views show it: only for what they can tell from later entries."""
        self._buffer[at] = value


def _moved(buffer: NDArray[Scalar], count: int, size: int, fill: int) -> NDArray[Scalar]:
    """Return the first ``count`` entries with room for ``size``."""
    # Zeros cost no memory before they are written to.
    moved = np.full(size, fill, buffer.dtype) if fill else np.zeros(size, buffer.dtype)
    moved[:count] = buffer[:count]
    return moved


def last_known(
    newest: NDArray[np.int64], former: Column[np.int64], ids: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Return int64 ``[k]``: the last place below ``count`` of each id, -1 where it has none.

    Args:
        newest: The newest place by id, which may be one that a state of ``count`` places does not know yet.
        former: By place, the one that the same id had before.
        ids: Which are asked for.
        count: Places that the state has.
    """
    if len(ids) and ids.max() < len(newest):
        places: NDArray[np.int64] = newest[ids]
    else:
        places = np.full(len(ids), -1, np.int64)
        known = ids < len(newest)
        places[known] = newest[ids[known]]
    if former.count <= count:  # there is no later state: each place is one of this
        return places
    late = np.flatnonzero(places >= count)
    while len(late):
        places[late] = former.buffer[places[late]]
        late = late[places[late] >= count]
    return places
