"""The word index: for each term, which drawers hold it, how often, and in which of their sentences.

A row holds the postings of one term in one block of 4,096 drawer ids: uint16 offsets into the block, ascending, then
as many uint16 term frequencies, then as many uint16 masks of sentences (:mod:`palace_daemon.core.sentences`). Adding a
drawer rewrites the rows of its terms in the newest block only, so there is nothing to merge later, and a query reads
one row for each term and block.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palace_daemon.core.analysis import TermPlaces
from palace_daemon.store.sqlite import Connection

BLOCK_BITS = 12
"""4,096 drawers a block: a row of a very common term stays at 24 KiB, and 100,000 drawers make 25 rows a term."""
FREQUENCY_MAX = 65_535

Terms = Mapping[str, TermPlaces]
_Changes = dict[int, TermPlaces | None]
"""What of one row becomes other, by offset."""


class Postings(NamedTuple):
    """Where one term stands, arrays ``[m]`` by drawer."""

    ids: NDArray[np.int64]
    """Ascending."""
    frequencies: NDArray[np.uint16]
    masks: NDArray[np.uint16]


class PostingsEdit:
    """Collects changes of one transaction and writes each touched row once. Single-threaded."""

    def __init__(self) -> None:
        """Begin with no changes."""
        # Block -> term -> {offset: places}; None removes.
        self._changes: defaultdict[int, defaultdict[str, _Changes]] = defaultdict(lambda: defaultdict(dict))

    def replace(self, drawer_id: int, old: Terms, new: Terms) -> None:
        """Note that ``drawer_id`` held ``old`` and now holds ``new``; equal terms cost nothing."""
        block, offset = divmod(drawer_id, 1 << BLOCK_BITS)
        changes = self._changes[block]
        if not old:
            for term, places in new.items():
                changes[term][offset] = places
            return
        for term in old.keys() - new.keys():
            changes[term][offset] = None
        for term, places in new.items():
            if old.get(term) != places:
                changes[term][offset] = places

    def write(self, connection: Connection) -> None:
        """Apply the changes inside the caller's transaction."""
        emptied: list[tuple[str, int]] = []
        written: list[tuple[bytes, str, int]] = []
        rows = sorted((term, block) for block, terms in self._changes.items() for term in terms)
        for term, block in rows:
            row = connection.execute("SELECT data FROM postings WHERE term=? AND block=?", (term, block)).fetchone()
            merged = _merge(row[0] if row else b"", self._changes[block][term])
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


def read(connection: Connection, term: str) -> Postings:
    """Return the postings of ``term``."""
    rows = connection.execute("SELECT block, data FROM postings WHERE term=? ORDER BY block", (term,)).fetchall()
    tables = [np.frombuffer(data, dtype="<u2").reshape(3, -1) for _, data in rows]
    if not tables:
        return Postings(np.empty(0, np.int64), np.empty(0, np.uint16), np.empty(0, np.uint16))
    firsts = np.array([block << BLOCK_BITS for block, _ in rows], np.int64)
    ids = np.concatenate([table[0] for table in tables]).astype(np.int64)
    ids += np.repeat(firsts, [table.shape[1] for table in tables])
    return Postings(ids, np.concatenate([one[1] for one in tables]), np.concatenate([one[2] for one in tables]))


def clear(connection: Connection) -> None:
    """Empty the index, before it is built anew."""
    connection.execute("DELETE FROM postings")


def all_terms(connection: Connection) -> Iterable[str]:
    """Yield every indexed term once, ascending."""
    for (term,) in connection.execute("SELECT DISTINCT term FROM postings ORDER BY term"):
        yield term


def _merge(data: bytes, changes: Mapping[int, TermPlaces | None]) -> bytes:
    """Return the row with ``changes`` applied; empty when nothing is left."""
    entries: dict[int, tuple[int, int]] = {}
    if data:
        offsets, frequencies, masks = np.frombuffer(data, dtype="<u2").reshape(3, -1).tolist()
        entries = dict(zip(offsets, zip(frequencies, masks, strict=True), strict=True))
    for offset, places in changes.items():
        if places is None:
            entries.pop(offset, None)
        else:
            entries[offset] = places
    if not entries:
        return b""
    ordered = sorted(entries)
    times = [entries[offset][0] for offset in ordered]
    if max(times) > FREQUENCY_MAX:
        times = [min(one, FREQUENCY_MAX) for one in times]
    return struct.pack(f"<{3 * len(ordered)}H", *ordered, *times, *(entries[offset][1] for offset in ordered))
