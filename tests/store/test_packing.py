from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from palace_daemon.store import packing

DIM = 384


def unit_rows(count: int, dim: int = DIM) -> NDArray[np.float32]:
    rows = np.random.default_rng(7).standard_normal((count, dim)).astype(np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def test_cosines_of_stored_vectors_are_off_by_less_than_what_is_shown_of_a_score() -> None:
    rows = unit_rows(300)
    held = packing.unpack(packing.pack(rows))
    exact = rows.astype(np.float64) @ rows.astype(np.float64).T
    assert np.abs(held.astype(np.float64) @ rows.astype(np.float64).T - exact).max() < 1e-5
    assert np.abs(np.linalg.norm(held.astype(np.float64), axis=1) - 1.0).max() < 1e-5


def test_what_was_read_is_stored_as_it_was() -> None:
    stored = packing.pack(unit_rows(200))
    assert packing.pack(packing.unpack(stored)) == stored


def test_a_vector_is_stored_and_read_alone_as_among_others() -> None:
    rows = unit_rows(20)
    together = packing.pack(rows)
    assert [packing.pack(row[None])[0] for row in rows] == together
    alone = np.concatenate([packing.unpack([one]) for one in together])
    assert alone.tobytes() == packing.unpack(together).tobytes()


def test_five_vectors_of_the_product_fit_a_page_with_their_keys() -> None:
    (row,) = packing.pack(unit_rows(1))
    assert (len(row), packing.dim_of(row)) == (4 + 2 * DIM, DIM)
    of_keys = 2 + 2 + 3 + 7 + 16 + 4 + 4  # pointer, lengths, id, header, hash, space, generation
    assert 5 * (len(row) + of_keys) <= 4_096 - 8


def test_vectors_along_an_axis_are_exact_and_one_of_zeros_stays_that() -> None:
    rows = np.vstack([np.eye(3, dtype=np.float32), np.zeros((1, 3), np.float32)])
    assert packing.unpack(packing.pack(rows)).tolist() == rows.tolist()
    assert packing.pack(np.empty((0, 3), np.float32)) == []


def test_a_value_too_small_for_its_scale_does_not_overflow() -> None:
    rows = np.array([[1e-44, -1e-44, 0.0], [1.0, 1e-30, -1.0]], np.float32)
    held = packing.unpack(packing.pack(rows))
    assert np.abs(held - rows).max() < 1e-5


@pytest.mark.parametrize("data", [b"", b"\0", b"\0" * 6])
def test_what_was_no_vector_before_is_none_now(data: bytes) -> None:
    row = np.array([0.6, 0.8], "<f4")
    packed = packing.pack_former([data, row.tobytes(), data])
    assert packed == [b"", packing.pack(row[None])[0], b""]


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_vector_that_held_no_numbers_keeps_its_width_and_is_of_no_length(odd: float) -> None:
    row = np.array([odd, 1.0], "<f4")
    assert packing.unpack(packing.pack_former([row.tobytes()])).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("scale", ["0000c07f", "0000807f", "ffff7f7f"], ids=["no number", "infinite", "too large"])
@pytest.mark.parametrize("steps", ["0000ff7f", "00000000"])
def test_a_damaged_scale_harms_its_own_vector_alone(scale: str, steps: str) -> None:
    row = np.array([[0.6, 0.8]], np.float32)
    held = packing.unpack([bytes.fromhex(scale + steps), *packing.pack(row)])
    assert held[1] == pytest.approx(row[0], abs=1e-4)
    assert not (held[0] == row[0]).any()


def test_former_vectors_of_several_widths_keep_their_places() -> None:
    rows = [unit_rows(1, dim)[0] for dim in (4, 8, 4, 8, 2)]
    assert packing.pack_former([row.tobytes() for row in rows]) == [packing.pack(row[None])[0] for row in rows]


@pytest.mark.parametrize(("data", "is_packed"), [(b"\0" * 6, True), (b"\0" * 4, False), (b"\0" * 7, False)])
def test_the_length_of_a_stored_vector_is_known(data: bytes, is_packed: bool) -> None:
    assert packing.is_packed(data) is is_packed
