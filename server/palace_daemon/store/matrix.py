"""Vectors in memory at one byte a number, with how far each is from the stored one: enough to leave most rows alone.

A row is its numbers ``[dim]``, from -127 to 127, times a scale. Of the stored vector it lacks a remainder, whose length
is kept. So the product of a stored vector and a question is known but for an error that can never be larger than
these lengths allow, and whoever wants the exact product reads the few vectors that matter from the store.

Products of whole numbers have no rounding: they are the same to the bit on every machine and in any order. The matrix
grows in chunks, so that views of it stay valid while rows are added and growth copies nothing.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palace_daemon.core.ports import Float32
from palace_daemon.store import packing
from palace_daemon.store.columns import Column
from palace_daemon.store.sqlite import Connection

logger = logging.getLogger(__name__)

CHUNK_ROWS = 16_384
"""Rows in one piece of the matrix: 6.3 MB at 384 dimensions."""

Int8 = NDArray[np.int8]
Rows = NDArray[np.int64]

_LARGEST = 127
_SQUARE_MAX = 1.02
"""Models give vectors of length 1, which packing keeps within a part in 80,000. A flipped bit can make one longer,
and then it would be the best of all for every question."""
_CHECKED_ROWS, _CHECKED_DIMS = 41, (384, 37)
_CACHED_ROWS = 256
"""Rows that are worked on at once: they stay in the processor's cache."""
_LARGE_PAGE_BYTES = 2 << 20
"""On x86-64, and on ARM with the usual pages of 4 KiB."""
# Damage may have made a text of it, and one that is not UTF-8.
_READ = "SELECT id, CAST(vector AS BLOB) FROM vectors WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"


def _library() -> ModuleType | None:
    try:
        import numkong  # noqa: PLC0415 - numpy does without it
    except ImportError:  # no wheel for this system: numpy comes to the same products, more slowly
        return None
    return numkong if is_exact(numkong) else None


def is_exact(library: ModuleType) -> bool:
    """Return whether the products of ``library`` are those of whole numbers on this processor.

    It picks its code by the processor, and bounds are worth nothing where one of them saturates.
    """
    try:
        for dim in _CHECKED_DIMS:
            numbers = np.arange(_CHECKED_ROWS * dim) * 89 % (2 * _LARGEST + 1) - _LARGEST
            rows = numbers.astype(np.int8).reshape(_CHECKED_ROWS, dim)
            rows[1], rows[2] = _LARGEST, -_LARGEST
            found = np.empty(len(rows), np.float32)
            for at in range(4):
                library.cdist(rows[at : at + 1], rows, "dot", out=found[None])
                if not np.array_equal(found, rows.astype(np.float32) @ rows[at].astype(np.float32)):
                    logger.warning("%s multiplies wrongly on this processor: numpy is used", library.__name__)
                    return False
    except Exception:
        logger.exception("%s cannot be used: numpy is", library.__name__)
        return False
    return True


kernels = _library()


def unpacked(stored: Sequence[bytes]) -> Float32:
    """Return float32 ``[k, dim]``: stored vectors as numbers; at least one."""
    return packing.unpack(stored)


class Rounded(NamedTuple):
    """Vectors at one byte a number, float32 ``[k]`` each but ``numbers``."""

    numbers: Int8
    """``[k, dim]``"""
    scales: Float32
    """Never zero."""
    lengths: Float32
    """Of the rounded vectors, never less."""
    errors: Float32
    """Lengths of what they lack, never less."""

    def at(self, rows: Rows) -> Rounded:
        """Return those at ``rows``."""
        return Rounded(self.numbers[rows], self.scales[rows], self.lengths[rows], self.errors[rows])


def rounded(vectors: Float32) -> Rounded:
    """Round vectors ``[k, dim]``; one that holds what is no number counts as zero."""
    count, dim = vectors.shape
    made = Rounded(np.empty((count, dim), np.int8), *(np.empty(count, np.float32) for _ in range(3)))
    for start in range(0, count, _CACHED_ROWS):
        at = slice(start, start + _CACHED_ROWS)
        part = Rounded(made.numbers[at], made.scales[at], made.lengths[at], made.errors[at])
        _round(vectors[at], part)
    return made


def _round(vectors: Float32, made: Rounded) -> None:
    vectors = _sound(vectors)
    largest = np.maximum(vectors.max(1, initial=0.0), -vectors.min(1, initial=0.0))
    scales = np.maximum(largest / _LARGEST, np.finfo(np.float32).tiny).astype(np.float32)
    near = vectors / scales[:, None]
    np.clip(np.rint(near, out=near), -_LARGEST, _LARGEST, out=near)
    made.numbers[:] = near
    near *= scales[:, None]
    made.scales[:] = scales
    made.lengths[:] = _lengths(near)
    np.subtract(vectors, near, out=near)
    made.errors[:] = _lengths(near)


def _sound(vectors: Float32) -> Float32:
    """Return ``vectors`` with zero for those that no model gives: damage is to stay where it is."""
    with np.errstate(over="ignore", invalid="ignore"):
        is_sound = np.einsum("ij,ij->i", vectors, vectors) <= _SQUARE_MAX
    return vectors if is_sound.all() else np.where(is_sound[:, None], vectors, np.float32(0.0))


def _lengths(vectors: Float32) -> Float32:
    """Return the lengths of rows, rounded up by more than these sums can be off."""
    lengths: Float32 = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return lengths * np.float32(1.0001) + np.float32(1e-7)


class Question(NamedTuple):
    """A question's vector ``[dim]``, and what it is when it is rounded as the rows are."""

    vector: Float32
    numbers: Int8
    """``[1, dim]``"""
    scale: float
    length: float
    error: float


def question(vector: Float32) -> Question:
    """Return the question to ask of views."""
    own = rounded(vector[None])
    length = float(_lengths(vector[None])[0])
    return Question(vector, own.numbers, float(own.scales[0]), length, float(own.errors[0]))


class View(NamedTuple):
    """One state of a matrix: arrays ``[n]`` by row. Rows without a vector are zero."""

    chunks: tuple[Int8, ...]
    """``[CHUNK_ROWS, dim]`` each."""
    scales: Float32
    lengths: Float32
    errors: Float32
    keys: Rows
    """Row in the table of vectors, -1 where there is none."""
    exact: Float32 | None = None
    """The vectors themselves where they are in no store."""

    def pieces(self, asked: Question, most: Float32) -> list[Callable[[], None]]:
        """Return the work, in parts, of writing into ``most`` ``[n]`` what the product with each row is at most.

        Of rows that have a chunk, and to the bit what :meth:`products` and :meth:`errors_of` come to together.
        """
        parts = (slice(start, start + CHUNK_ROWS) for start in range(0, len(most), CHUNK_ROWS))
        return [
            functools.partial(self._bound, asked, chunk, part, most[part])
            for chunk, part in zip(self.chunks, parts, strict=False)
        ]

    def _bound(self, asked: Question, chunk: Int8, rows: slice, most: Float32) -> None:
        _multiply(asked.numbers, chunk[: len(most)], most)
        most *= self.scales[rows]
        most *= np.float32(asked.scale)
        most += self.errors_of(asked, rows)

    def products(self, asked: Question, rows: Rows) -> Float32:
        """Return float32 ``[k]``: the products of rounded rows and the rounded question."""
        found = np.zeros(len(rows), np.float32)
        if len(rows) and self.chunks:
            _multiply(asked.numbers, self.numbers(rows), found)
        found *= self.scales[rows]
        found *= np.float32(asked.scale)
        return found

    def errors_of(self, asked: Question, rows: Rows | slice) -> Float32:
        """Return float32 ``[k]``: the most that :meth:`products` can be off by."""
        off = self.errors[rows] * np.float32(asked.length)
        off += self.lengths[rows] * np.float32(asked.error)
        return off

    def numbers(self, rows: Rows) -> Int8:
        """Return int8 ``[k, dim]``: copies of rows; dim is 0 while there is no vector at all."""
        dim = self.chunks[0].shape[1] if self.chunks else 0
        found = np.zeros((len(rows), dim), np.int8)
        if dim and len(rows):
            order = np.argsort(rows, kind="stable")
            numbers = rows[order] // CHUNK_ROWS
            bounds = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]]).tolist()
            for start, end in zip(bounds, [*bounds[1:], len(rows)], strict=True):
                chosen, number = order[start:end], int(numbers[start])
                if number < len(self.chunks):  # the last rows have no chunk while none of them has a vector
                    found[chosen] = self.chunks[number][rows[chosen] % CHUNK_ROWS]
        return found

    def rounded(self, rows: Rows) -> Rounded:
        """Return copies of the vectors of ``rows``."""
        return Rounded(self.numbers(rows), self.scales[rows], self.lengths[rows], self.errors[rows])

    def near(self, rows: Rows) -> Float32:
        """Return float32 ``[k, dim]``: the rounded vectors of ``rows``."""
        return self.numbers(rows) * self.scales[rows][:, None]

    def read(self, connection: Connection, rows: Rows) -> Float32:
        """Return float32 ``[k, dim]``: the vectors of ``rows`` as they are stored; rows without one are zero.

        ``connection`` is in the transaction whose state this is. A vector that was taken out of the table behind the
        store's back, or damaged, is told as it is remembered.
        """
        if self.exact is not None:
            return self.exact[rows]
        keys, places = np.unique(self.keys[rows], return_inverse=True)
        width = packing.width_of(self.chunks[0].shape[1]) if self.chunks else 0
        rows_read = connection.execute(_READ, (json.dumps(keys[keys >= 0].tolist()),))
        read = [(key, vector) for key, vector in rows_read if len(vector) == width]
        is_read = np.isin(keys, np.array([key for key, _ in read], np.int64))
        if is_read.all():
            found = unpacked([vector for _, vector in read])[places]
        else:
            found = self.near(rows)
            if read:
                stored, at = unpacked([vector for _, vector in read]), np.cumsum(is_read) - 1
                found[is_read[places]] = stored[at[places[is_read[places]]]]
        return _sound(found)


NOTHING = View((), np.zeros(0, np.float32), np.zeros(0, np.float32), np.zeros(0, np.float32), np.zeros(0, np.int64))


class Matrix:
    """A growing matrix. For one writer; views may be read meanwhile."""

    def __init__(self) -> None:
        """Begin empty."""
        self._chunks: tuple[Int8, ...] = ()
        self._scales = Column(np.float32)
        self._lengths = Column(np.float32)
        self._errors = Column(np.float32)
        self._keys = Column(np.int64, -1)

    def reach(self, count: int) -> None:
        """Have at least ``count`` rows, the new ones without a vector."""
        for column in (self._scales, self._lengths, self._errors, self._keys):
            column.reach(count)

    def append(self, keys: Rows) -> None:
        """Append rows with the numbers of their vectors, -1 for none; :meth:`fill` is to bring the vectors."""
        first = self._keys.count
        self.reach(first + len(keys))
        self._keys.buffer[first : first + len(keys)] = keys

    def key(self, row: int) -> int:
        """Return the number of a row's vector, -1 where there is none."""
        return int(self._keys.buffer[row])

    def put(self, rows: Rows, keys: Rows, vectors: Float32) -> None:
        """Give rows that have none their vectors ``[k, dim]``: views show them, and must not ask for these rows."""
        if len(rows) and vectors.shape[1]:
            self.reach(int(rows.max()) + 1)
            self._keys.put(rows, keys)
            self.fill(rows, rounded(vectors))

    def drop_empty_keys(self) -> NDArray[np.bool_]:
        """Take the numbers of vectors that did not come from their rows; return bool ``[n]``: which have a vector."""
        is_filled: NDArray[np.bool_] = self._scales.view() > 0.0
        keys = Column(np.int64, -1)  # views that are out keep the former one
        keys.extend(np.where(is_filled, self._keys.view(), -1))
        self._keys = keys
        return is_filled

    def fill(self, rows: Rows, vectors: Rounded) -> None:
        """Bring the vectors of rows that have their numbers."""
        if not len(rows):
            return
        missing = -(-self._keys.count // CHUNK_ROWS) - len(self._chunks)
        dim = vectors.numbers.shape[1]
        self._chunks += tuple(_new_chunk(dim) for _ in range(max(0, missing)))
        for number in np.unique(rows // CHUNK_ROWS).tolist():
            chosen = rows // CHUNK_ROWS == number
            self._chunks[number][rows[chosen] % CHUNK_ROWS] = vectors.numbers[chosen]
        self._scales.put(rows, vectors.scales)
        self._lengths.put(rows, vectors.lengths)
        self._errors.put(rows, vectors.errors)

    def view(self) -> View:
        """Return the state of now."""
        return View(
            self._chunks, self._scales.view(), self._lengths.view(), self._errors.view(), self._keys.view()
        )  # fmt: skip


def _new_chunk(dim: int) -> Int8:
    """Return zeros ``[CHUNK_ROWS, dim]`` that begin where a large page does.

    numpy asks the system for large pages, which hold only what they cover whole. A scan of 400 MB on a virtual machine
    (Xeon, 6 runs in turns) took 0.83 of the time that it takes where the chunk begins anywhere.
    """
    size = CHUNK_ROWS * dim
    room = np.zeros(size + _LARGE_PAGE_BYTES, np.int8)
    first = -room.ctypes.data % _LARGE_PAGE_BYTES
    return room[first : first + size].reshape(CHUNK_ROWS, dim)


def of_vectors(vectors: Float32) -> View:
    """Return a view of vectors ``[n, dim]`` that are in no store."""
    made = Matrix()
    places = np.arange(len(vectors))
    made.reach(len(vectors))
    made.put(places, np.full(len(vectors), -1, np.int64), vectors)
    return made.view()._replace(exact=vectors)


def _multiply(asked: Int8, chunk: Int8, out: Float32) -> None:
    """Write the products of ``chunk`` ``[k, dim]`` and ``asked`` ``[1, dim]`` into ``out`` ``[k]``."""
    if kernels is not None:
        kernels.cdist(asked, chunk, "dot", out=out[None])
        return
    wide = asked[0].astype(np.float32)
    for start in range(0, len(chunk), _CACHED_ROWS):
        out[start : start + _CACHED_ROWS] = chunk[start : start + _CACHED_ROWS].astype(np.float32) @ wide
