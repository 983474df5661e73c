"""Vectors as they are stored: 16-bit whole numbers, and what one of them is worth.

Half the bytes of float32, so that five rows of 384 dimensions fill a page of the database instead of two. A vector's
largest component gets the largest number, so a cosine is off by a millionth as a rule, by a hundred-thousandth at
worst; 16-bit floats would be seven times as far off. What is read follows from the stored bytes one component at a
time: the same bytes give the same float32 everywhere. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palace_daemon.core.ports import Float32

_STEPS = 32_767
_SCALE_BYTES = 4
_NORM_OFF_MAX = 1e-3
"""How far a vector's length may be from 1; a stored one is within 1e-5."""


def pack(matrix: Float32) -> list[bytes]:
    """Return the stored form of each row of float32 ``[n, dim]``: its scale as float32, then int16 ``[dim]``.

    Little-endian. A row that holds what is no number is stored as zeros, which checking tells apart from a vector.
    """
    matrix = np.where(np.isfinite(matrix).all(1, keepdims=True), matrix, np.float32(0.0))
    largest = np.abs(matrix).max(1, keepdims=True, initial=0.0)
    scales = (largest / np.float32(_STEPS)).astype("<f4")
    # A row of zeros has no scale, nor has one whose scale is too small for a float32.
    exact = matrix.astype(np.float64) / np.where(scales > 0, scales, np.float32(1.0))
    steps = np.clip(np.rint(exact), -_STEPS, _STEPS).astype("<i2")
    return [scale.tobytes() + row.tobytes() for scale, row in zip(scales, steps, strict=True)]


def unpack(rows: Sequence[bytes]) -> Float32:
    """Return stored vectors of one model, at least one, as float32 ``[n, dim]``.

    All are of one width: those that are not were left out before, see :mod:`palace_daemon.store.widths`.
    """
    table = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)
    found = table[:, _SCALE_BYTES:].view("<i2").astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # a damaged scale harms its own row alone
        found *= np.ascontiguousarray(table[:, :_SCALE_BYTES]).view("<f4")
    return found


def dim_of(row: bytes) -> int:
    """Return the number of dimensions of a stored vector."""
    return (len(row) - _SCALE_BYTES) // 2


def width_of(dim: int) -> int:
    """Return the bytes of a stored vector of that many dimensions."""
    return _SCALE_BYTES + 2 * dim


def is_unit(row: bytes) -> bool:
    """Return whether a stored vector is of length 1, as those of models are."""
    vector = unpack([row])[0].astype(np.float64)
    # A comparison with "not a number" is false.
    return bool(abs(float(vector @ vector) - 1.0) <= 2 * _NORM_OFF_MAX)


def is_packed(row: bytes) -> bool:
    """Return whether ``row`` has the length of a stored vector."""
    return len(row) > _SCALE_BYTES and len(row) % 2 == 0


def pack_former(rows: Sequence[bytes]) -> list[bytes]:
    """Return the stored form of vectors that schemas 1 and 2 kept as float32; nothing for what has no such length."""
    found = [b""] * len(rows)
    places: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        if row and len(row) % 4 == 0:
            places.setdefault(len(row), []).append(place)
    for of_one_length in places.values():
        matrix = np.frombuffer(b"".join(rows[place] for place in of_one_length), "<f4").reshape(len(of_one_length), -1)
        for place, row in zip(of_one_length, pack(matrix), strict=True):
            found[place] = row
    return found
