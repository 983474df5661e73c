"""The word index: for each term, which drawers hold it, how often, and in which of their sentences.

A row holds the postings of one term in one block of 4,096 drawer ids: uint16 offsets into the block, ascending, then
as many uint16 term frequencies, then as many uint16 masks of sentences (:mod:`palace_daemon.core.sentences`). Adding a
drawer rewrites the rows of its terms in the newest block only, so there is nothing to merge later, and a query reads
one row for each term and block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from palace_daemon.core.analysis import BREAK, ONCE, Occurrences, TermPlaces
from palace_daemon.store.sqlite import Connection

BLOCK_BITS = 12
"""4,096 drawers a block: a row of a very common term stays at 24 KiB, and 100,000 drawers make 25 rows a term."""
FREQUENCY_MAX = 65_535
_ENTRY_BYTES = 6
_ID_BITS = 40
_BLOCKS = (1 << (_ID_BITS - BLOCK_BITS)) - 1

Terms = Mapping[str, TermPlaces]
_Int64s = NDArray[np.int64]


class Postings(NamedTuple):
    """Where one term stands, arrays ``[m]`` by drawer."""

    ids: NDArray[np.int64]
    """Ascending."""
    frequencies: NDArray[np.uint16]
    masks: NDArray[np.uint16]


class _Entries(NamedTuple):
    """Postings of many terms, int64 ``[n]``."""

    keys: _Int64s
    """The place of the term among those of the transaction, above the bits of the drawer's id."""
    times: _Int64s
    """0 where the drawer no longer holds the term."""
    masks: _Int64s

    def at(self, places: _Int64s | NDArray[np.bool_]) -> _Entries:
        return _Entries(self.keys[places], self.times[places], self.masks[places])


class PostingsEdit:
    """Collects changes of one transaction and writes each touched row once. Single-threaded."""

    def __init__(self) -> None:
        """Begin with no changes."""
        # All changes, one behind the other: terms, with a break behind each run of them, what each term of a run adds,
        # which drawer each change is of, and how many terms and breaks it has.
        self._terms: list[str] = []
        self._numbers: list[int] = []
        self._drawers: list[int] = []
        self._sizes: list[int] = []

    @property
    def drawer_count(self) -> int:
        """The number of drawers whose changes are collected; one that changed twice counts twice."""
        return len(self._drawers)

    def add(self, drawer_id: int, found: Occurrences) -> None:
        """Note that ``drawer_id``, which held nothing, holds what was found in its text."""
        self._note(drawer_id, found.terms, found.numbers)

    def replace(self, drawer_id: int, old: Terms, new: Terms) -> None:
        """Note that ``drawer_id`` held ``old`` and now holds ``new``; equal terms cost nothing."""
        changed = dict.fromkeys(old.keys() - new.keys(), 0)
        changed |= {term: ONCE * here.times + here.mask for term, here in new.items() if old.get(term) != here}
        self._note(drawer_id, [part for term in changed for part in (term, BREAK)], list(changed.values()))

    def _note(self, drawer_id: int, terms: list[str], numbers: list[int]) -> None:
        self._terms += terms
        self._numbers += numbers
        self._drawers.append(drawer_id)
        self._sizes.append(len(terms))

    def write(self, connection: Connection) -> None:
        """Apply the changes inside the caller's transaction."""
        names = sorted({*self._terms} - {BREAK})
        if names:
            changes = self._added_up(names)
            stored = _stored(connection, names, np.unique(changes.keys >> BLOCK_BITS))
            entries = _last([_unpacked(stored), changes]) if stored else changes
            written = list(_packed(entries.at(entries.times > 0)))
            emptied = stored.keys() - {row for row, _ in written}
            connection.executemany(
                "DELETE FROM postings WHERE term=? AND block=?", [_named(names, row) for row in sorted(emptied)]
            )
            connection.executemany(
                "INSERT INTO postings(term, block, data) VALUES (?,?,?) ON CONFLICT DO UPDATE SET data=excluded.data",
                [(*_named(names, row), data) for row, data in written],
            )
        for changes_of_one_kind in (self._terms, self._numbers, self._drawers, self._sizes):
            changes_of_one_kind.clear()

    def _added_up(self, names: Sequence[str]) -> _Entries:
        """Return what the changes say of each term and drawer, ascending; where several say something, the last one."""
        place = {name: number for number, name in enumerate(names)} | {BREAK: -1}
        terms = np.fromiter(map(place.__getitem__, self._terms), np.int64, len(self._terms))
        is_term = terms >= 0
        numbers = np.array(self._numbers, np.int64)[np.cumsum(~is_term)[is_term]]
        changes = np.repeat(np.arange(len(self._sizes)), self._sizes)[is_term]
        keys = (terms[is_term] << _ID_BITS) | np.array(self._drawers, np.int64)[changes]
        order = np.argsort(keys, kind="stable")
        keys, changes, numbers = keys[order], changes[order], numbers[order]
        firsts = np.flatnonzero(np.diff(keys, prepend=-1) | np.diff(changes, prepend=-1))
        times = np.add.reduceat(numbers // ONCE, firsts)
        return _last([_Entries(keys[firsts], times, np.bitwise_or.reduceat(numbers % ONCE, firsts))])


def read(connection: Connection, term: str, first_block: int = 0) -> Postings:
    """Return the postings of ``term`` in the blocks from ``first_block`` on."""
    rows = connection.execute(
        "SELECT block, data FROM postings WHERE term=? AND block>=? ORDER BY block", (term, first_block)
    ).fetchall()
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


def _named(names: Sequence[str], row: int) -> tuple[str, int]:
    """Return term and block of a row, which is the key of any of its entries without the bits of the offset."""
    return names[row >> (_ID_BITS - BLOCK_BITS)], row & _BLOCKS


def _stored(connection: Connection, names: Sequence[str], rows: _Int64s) -> dict[int, bytes]:
    """Return those of the rows that are stored."""
    found: dict[int, bytes] = {}
    blocks = rows & _BLOCKS
    for block in np.unique(blocks).tolist():
        of_block = rows[blocks == block].tolist()
        terms = msgspec.json.encode([_named(names, row)[0] for row in of_block]).decode()
        stored = connection.execute(
            "SELECT t.key, p.data FROM json_each(?1) t CROSS JOIN postings p ON p.term=t.value AND p.block=?2",
            (terms, block),
        )
        found |= {of_block[at]: data for at, data in stored}
    return found


def _last(parts: Sequence[_Entries]) -> _Entries:
    """Return the last of the entries of each key, by key."""
    entries = _Entries(*map(np.concatenate, zip(*parts, strict=True)))
    order = np.argsort(entries.keys, kind="stable")
    keys = entries.keys[order]
    return entries.at(order[np.append(keys[1:] != keys[:-1], values=True)])


def _columns(sizes: _Int64s) -> tuple[_Int64s, _Int64s]:
    """Return where in rows of these sizes, packed one behind the other, the offsets stand, and how wide each row is."""
    widths = np.repeat(sizes, sizes)
    return np.arange(widths.size) + 2 * np.repeat(np.cumsum(sizes) - sizes, sizes), widths


def _unpacked(stored: Mapping[int, bytes]) -> _Entries:
    """Return the entries of stored rows."""
    if any(len(data) % _ENTRY_BYTES for data in stored.values()):
        raise ValueError("a row of the word index has not the length of three columns")
    sizes = np.array([len(data) // _ENTRY_BYTES for data in stored.values()], np.int64)
    numbers = np.frombuffer(b"".join(stored.values()), "<u2").astype(np.int64)
    places, widths = _columns(sizes)
    keys = (np.repeat(np.array([*stored], np.int64), sizes) << BLOCK_BITS) | numbers[places]
    return _Entries(keys, numbers[places + widths], numbers[places + 2 * widths])


def _packed(entries: _Entries) -> Iterator[tuple[int, bytes]]:
    """Yield the rows of entries, ascending by key, as they are stored."""
    rows, sizes = np.unique(entries.keys >> BLOCK_BITS, return_counts=True)
    places, widths = _columns(sizes)
    numbers = np.empty(3 * widths.size, "<u2")
    numbers[places] = entries.keys & ((1 << BLOCK_BITS) - 1)
    numbers[places + widths] = np.minimum(entries.times, FREQUENCY_MAX)
    numbers[places + 2 * widths] = entries.masks
    data, begin = numbers.tobytes(), 0
    for row, end in zip(rows.tolist(), (_ENTRY_BYTES * np.cumsum(sizes)).tolist(), strict=True):
        yield row, data[begin:end]
        begin = end
