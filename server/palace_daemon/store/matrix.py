"""A matrix that grows in chunks, so that views of it stay valid while rows are added and growth copies nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palace_daemon.core.ports import Float32

CHUNK_ROWS = 4_096
"""Rows in one piece of the matrix: 6.3 MB at 384 dimensions."""

Chunks = tuple[Float32, ...]
"""Float32 ``[CHUNK_ROWS, dim]`` each; rows without a vector hold zeros."""


def with_vectors(chunks: Chunks, vectors: Sequence[tuple[int, bytes]], count: int) -> Chunks:
    """Return ``chunks`` with room for ``count`` rows and ``vectors`` written into rows that no older view reads.

    Args:
        chunks: The matrix so far.
        vectors: Row and float32 little-endian bytes ``[dim]``.
        count: Rows that there are then, those without a vector included.
    """
    if not chunks and not vectors:
        return ()
    dim = chunks[0].shape[1] if chunks else len(vectors[0][1]) // 4
    missing = -(-count // CHUNK_ROWS) - len(chunks)
    grown = chunks + tuple(np.zeros((CHUNK_ROWS, dim), np.float32) for _ in range(max(0, missing)))
    for row, vector in vectors:
        grown[row // CHUNK_ROWS][row % CHUNK_ROWS] = np.frombuffer(vector, "<f4")
    return grown


def products(chunks: Chunks, query: Float32, count: int) -> Float32:
    """Return float32 ``[count]``: the dot product of every row with ``query`` ``[dim]``."""
    found = np.zeros(count, np.float32)
    for start, chunk in zip(range(0, count, CHUNK_ROWS), chunks, strict=False):
        end = min(start + CHUNK_ROWS, count)
        found[start:end] = chunk[: end - start] @ query
    return found


def rows_of(chunks: Chunks, rows: NDArray[np.int64]) -> Float32:
    """Return float32 ``[k, dim]``: copies of ``rows``; dim is 0 while there is no vector at all."""
    dim = chunks[0].shape[1] if chunks else 0
    found = np.zeros((len(rows), dim), np.float32)
    if dim:
        numbers = rows // CHUNK_ROWS
        for number in np.unique(numbers).tolist():
            chosen = numbers == number
            found[chosen] = chunks[number][rows[chosen] % CHUNK_ROWS]
    return found
