"""Where one term of a question stands: as a list of the rows that hold it, or, of a common one, row by row.

Both say the same. A list is short where few rows hold the term; a column of all rows needs no rows written down, so
that adding it up is plain arithmetic on arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from palace_daemon.core.sentences import BUCKETS

Rows = NDArray[np.int64]
RowNumbers = NDArray[np.int64] | NDArray[np.int32]
Frequencies = NDArray[np.uint8] | NDArray[np.uint16]
Masks = NDArray[np.uint16]

_EVERYWHERE = (1 << BUCKETS) - 1
_LARGEST = int(np.iinfo(np.uint16).max)
_CACHED_ROWS = 16_384
"""Three arrays of as many float32 are 192 KiB."""


class TermPostings(Struct, frozen=True, kw_only=True):
    """Arrays ``[m]`` by drawer that holds the term and is scored."""

    term: str
    rows: RowNumbers
    """Ascending rows of drawers of the collection."""
    matches: int
    frequencies: Frequencies
    masks: Masks
    """The sentences that it stands in, see :mod:`palace_daemon.core.sentences`."""

    def frequencies_of(self, rows: Rows) -> NDArray[np.uint16]:
        """Return uint16 ``[k]``: how often the term stands in each of ``rows``."""
        return self._told_of(rows, self.frequencies)

    def masks_of(self, rows: Rows) -> Masks:
        """Return uint16 ``[k]``: the sentences of each of ``rows`` that the term stands in, 0 where in none."""
        return self._told_of(rows, self.masks)

    def _told_of(self, rows: Rows, told: Frequencies) -> NDArray[np.uint16]:
        if not len(self.rows):
            return np.zeros(len(rows), np.uint16)
        at = np.minimum(self.rows.searchsorted(rows), len(self.rows) - 1)
        return np.where(self.rows[at] == rows, told[at], np.uint16(0))


class TermColumn(Struct, frozen=True, kw_only=True):
    """Arrays ``[n]`` by row that is scored."""

    term: str
    matches: int
    frequencies: Frequencies
    """0 where the term does not stand."""
    masks: Masks
    """Of no meaning where the term does not stand."""

    def frequencies_of(self, rows: Rows) -> Frequencies:
        """Return ``[k]``: how often the term stands in each of ``rows``."""
        return self.frequencies[rows]

    def masks_of(self, rows: Rows) -> Masks:
        """Return uint16 ``[k]``: the sentences of each of ``rows`` that the term stands in, 0 where in none."""
        return np.where(self.frequencies[rows] > 0, self.masks[rows], np.uint16(0))


Term = TermPostings | TermColumn


def passes(terms: Sequence[Term], count: int) -> Iterator[tuple[int, slice, RowNumbers | slice]]:
    """Yield what to add up one after the other: the number of a term, places in its arrays, and the rows they are of.

    Columns, of ``count`` rows each, come some rows at a time, which stay in the processor's cache.
    """
    columns = [number for number, term in enumerate(terms) if isinstance(term, TermColumn)]
    for start in range(0, count, _CACHED_ROWS) if columns else ():
        rows = slice(start, start + _CACHED_ROWS)
        yield from ((number, rows, rows) for number in columns)
    for number, term in enumerate(terms):
        if isinstance(term, TermPostings):
            yield number, slice(None), term.rows


def with_everywhere(posting: TermPostings, rows: Rows) -> TermPostings:
    """Return ``posting`` as if the term stood once more, in every sentence, in each of ``rows``, which ascend."""
    at = posting.rows.searchsorted(rows)
    is_new = np.ones(len(rows), np.bool_)
    is_amid = at < len(posting.rows)
    is_new[is_amid] = posting.rows[at[is_amid]] != rows[is_amid]
    merged = np.insert(posting.rows.astype(np.int64), at[is_new], rows[is_new])
    frequencies = np.insert(posting.frequencies.astype(np.uint16), at[is_new], 0)
    masks = np.insert(posting.masks, at[is_new], 0)
    everywhere = merged.searchsorted(rows)
    frequencies[everywhere] = _once_more(frequencies[everywhere])
    masks[everywhere] = _EVERYWHERE
    return TermPostings(
        term=posting.term, rows=merged, matches=len(merged), frequencies=frequencies, masks=masks
    )  # fmt: skip


def column_with_everywhere(column: TermColumn, rows: Rows) -> TermColumn:
    """Return what :func:`with_everywhere` says, of a column."""
    frequencies, masks = column.frequencies.astype(np.uint16), column.masks.copy()
    frequencies[rows] = _once_more(frequencies[rows])
    masks[rows] = _EVERYWHERE
    return TermColumn(
        term=column.term, matches=int(np.count_nonzero(frequencies)), frequencies=frequencies, masks=masks
    )  # fmt: skip


def _once_more(frequencies: NDArray[np.uint16]) -> NDArray[np.uint16]:
    return np.minimum(frequencies, np.uint16(_LARGEST - 1)) + np.uint16(1)
