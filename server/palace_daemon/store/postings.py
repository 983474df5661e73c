"""The word index: for each term, which drawers hold it and how often.

A row holds the postings of one term in one block of 4,096 drawer ids: uint16 offsets into the block, ascending, then
as many uint16 term frequencies. Adding a drawer rewrites the rows of its terms in the newest block only, so there is
nothing to merge later, and a query reads one row for each term and block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from palace_daemon.store.sqlite import Connection

BLOCK_BITS = 12
"""4,096 drawers a block: a row of a very common term stays at 16 KiB, and 100,000 drawers make 25 rows a term."""
FREQUENCY_MAX = 65_535

TermCounts = Mapping[str, int]


class PostingsEdit:
    """Collects changes of one transaction and writes each touched row once. Single-threaded."""

    def __init__(self) -> None:
        """Begin with no changes."""
        # (term, block) -> {offset: frequency}; frequency 0 removes.
        self._changes: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)

    def replace(self, drawer_id: int, old: TermCounts, new: TermCounts) -> None:
        """Note that ``drawer_id`` held ``old`` and now holds ``new``; equal terms cost nothing."""
        block, offset = divmod(drawer_id, 1 << BLOCK_BITS)
        for term in old.keys() - new.keys():
            self._changes[term, block][offset] = 0
        for term, frequency in new.items():
            if old.get(term) != frequency:
                self._changes[term, block][offset] = min(frequency, FREQUENCY_MAX)

    def write(self, connection: Connection) -> None:
        """Apply the changes inside the caller's transaction."""
        emptied: list[tuple[str, int]] = []
        written: list[tuple[bytes, str, int]] = []
        for (term, block), changes in sorted(self._changes.items()):
            row = connection.execute("SELECT data FROM postings WHERE term=? AND block=?", (term, block)).fetchone()
            merged = _merge(row[0] if row else b"", changes)
            if merged:
                written.append((merged, term, block))
            elif row:
                emptied.append((term, block))
        connection.executemany("DELETE FROM postings WHERE term=? AND block=?", emptied)
        connection.executemany(
            "INSERT INTO postings(data, term, block) VALUES (?,?,?) ON CONFLICT DO UPDATE SET data=excluded.data",
            written,
        )
        self._changes.clear()


def read(connection: Connection, term: str) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """Return ids int64 ``[m]``, ascending, and frequencies uint16 ``[m]`` of the drawers that hold ``term``."""
    ids: list[NDArray[np.int64]] = []
    frequencies: list[NDArray[np.uint16]] = []
    for block, data in connection.execute("SELECT block, data FROM postings WHERE term=? ORDER BY block", (term,)):
        pair = np.frombuffer(data, dtype="<u2").reshape(2, -1)
        ids.append(pair[0].astype(np.int64) + (block << BLOCK_BITS))
        frequencies.append(pair[1])
    if not ids:
        return np.empty(0, np.int64), np.empty(0, np.uint16)
    return np.concatenate(ids), np.concatenate(frequencies)


def clear(connection: Connection) -> None:
    """Empty the index, before it is built anew."""
    connection.execute("DELETE FROM postings")


def all_terms(connection: Connection) -> Iterable[str]:
    """Yield every indexed term once, ascending."""
    for (term,) in connection.execute("SELECT DISTINCT term FROM postings ORDER BY term"):
        yield term


def _merge(data: bytes, changes: Mapping[int, int]) -> bytes:
    """Return the row with ``changes`` applied; empty when nothing is left."""
    pair = np.frombuffer(data, dtype="<u2").reshape(2, -1)
    entries = dict(zip(pair[0].tolist(), pair[1].tolist(), strict=True))
    entries.update(changes)
    kept = sorted((offset, frequency) for offset, frequency in entries.items() if frequency)
    return np.array(kept, dtype="<u2").T.tobytes() if kept else b""
