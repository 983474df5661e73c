"""Rounded vectors: their errors are never larger than they say, and numpy and the library give the same bits."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from palace_daemon.core.ports import Float32
from palace_daemon.store import matrix, packing, spaces

_NUMBERS = st.floats(-0.4375, 0.4375, width=32)
"""Five of them are no longer than a vector may be."""


def vectors(count: int, dim: int, seed: int = 0) -> Float32:
    dice = np.random.default_rng(seed)
    drawn = dice.standard_normal((count, dim)).astype(np.float32)
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), np.float32)


def all_most(view: matrix.View, asked: matrix.Question) -> Float32:
    most = np.zeros(len(view.scales), np.float32)
    for piece in view.pieces(asked, most):
        piece()
    return most


def all_products(view: matrix.View, asked: matrix.Question) -> Float32:
    return view.products(asked, np.arange(len(view.scales)))


def all_errors(view: matrix.View, asked: matrix.Question) -> Float32:
    return view.errors_of(asked, np.arange(len(view.scales)))


@given(hnp.arrays(np.float32, (3, 5), elements=_NUMBERS), hnp.arrays(np.float32, (5,), elements=_NUMBERS))
def test_a_product_is_never_further_off_than_it_says(rows: Float32, query: Float32) -> None:
    view, asked = matrix.of_vectors(rows), matrix.question(query)
    found = all_products(view, asked)
    true = rows.astype(np.float64) @ query.astype(np.float64)
    assert (np.abs(found - true) <= all_errors(view, asked) + 1e-5).all()
    assert (true <= all_most(view, asked) + 1e-5).all()
    near = (view.near(np.arange(3)) @ query).astype(np.float64)
    assert (np.abs(near - true) <= view.errors * asked.length + 1e-5).all()


@pytest.mark.parametrize(
    "rows",
    [
        vectors(40, 384),
        np.eye(40, 384, dtype=np.float32),
        np.repeat(vectors(1, 384), 40, axis=0),
        np.where(np.arange(384) < 1, np.float32(0.999), np.float32(0.002))[None].repeat(40, axis=0),
        np.zeros((40, 384), np.float32),
    ],
    ids=["random", "one number", "all the same", "one large number", "nothing"],
)
def test_errors_are_small_for_vectors_of_length_one(rows: Float32) -> None:
    view, asked = matrix.of_vectors(rows), matrix.question(vectors(1, 384, seed=9)[0])
    true = rows.astype(np.float64) @ asked.vector.astype(np.float64)
    off = all_errors(view, asked)
    assert (np.abs(all_products(view, asked) - true) <= off + 1e-6).all()
    assert off.max() < 0.06


def test_all_rows_and_few_rows_have_the_same_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "CHUNK_ROWS", 16)
    view, asked = matrix.of_vectors(vectors(100, 24)), matrix.question(vectors(1, 24, seed=1)[0])
    assert len(view.chunks) == 7
    whole = all_most(view, asked)
    for rows in (np.array([99, 3, 3, 50]), np.arange(100), np.empty(0, np.int64)):
        assert (view.products(asked, rows) + view.errors_of(asked, rows)).tobytes() == whole[rows].tobytes()


def test_numpy_alone_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "kernels", pytest.importorskip("numkong", exc_type=ImportError))
    view, asked = matrix.of_vectors(vectors(1_000, 384)), matrix.question(vectors(1, 384, seed=1)[0])
    found = all_most(view, asked)
    monkeypatch.setattr(matrix, "kernels", None)
    assert all_most(view, asked).tobytes() == found.tobytes()


def test_a_library_is_used_only_if_it_multiplies_right_here(caplog: pytest.LogCaptureFixture) -> None:
    def library(largest: float) -> ModuleType:
        def cdist(asked: Any, rows: Any, metric: str, *, out: Any) -> None:
            assert metric == "dot"
            pairs = rows.astype(np.float32) * asked.astype(np.float32)
            # In pairs, as 16-bit sums are: those of two products of 127 and 127 need no more than 32,258.
            out[:] = np.add.reduceat(pairs, np.arange(0, pairs.shape[1], 2), axis=1).clip(-largest, largest).sum(1)

        made = ModuleType("made")
        made.cdist = cdist  # type: ignore[attr-defined]
        return made

    assert matrix.is_exact(library(32_767))
    assert caplog.records == []
    assert not matrix.is_exact(library(32_000))
    assert not matrix.is_exact(ModuleType("lacks_it"))
    assert len(caplog.records) == 2


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38, 1.2])
def test_a_damaged_vector_counts_as_zero_and_harms_no_other(bad: float) -> None:
    rows = vectors(3, 8)
    rows[1, 4] = bad
    view, asked = matrix.of_vectors(rows), matrix.question(rows[0])
    found = all_products(view, asked)
    assert found[1] == 0.0
    assert found[0] == pytest.approx(1.0, abs=0.02)
    assert np.isfinite(all_most(view, asked)).all()


def test_rows_that_come_later_show_in_no_older_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "CHUNK_ROWS", 4)
    made = matrix.Matrix()
    rows = vectors(11, 8)
    made.put(np.arange(3), np.arange(3), rows[:3])
    view = made.view()
    before = all_most(view, matrix.question(rows[0])).tolist()
    made.put(np.arange(3, 11), np.arange(3, 11), rows[3:])
    assert all_most(view, matrix.question(rows[0])).tolist() == before
    assert made.view().near(np.array([10, 2]))[0] == pytest.approx(rows[10], abs=0.01)


def test_rows_behind_the_last_chunk_that_has_a_vector_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "CHUNK_ROWS", 4)
    made = matrix.Matrix()
    rows = vectors(4, 8)
    made.put(np.arange(4), np.arange(4), rows)
    made.reach(9)
    view, asked = made.view(), matrix.question(rows[0])
    wanted = np.array([8, 0, 4])
    assert (view.products(asked, wanted) + view.errors_of(asked, wanted)).tolist() == all_most(view, asked)[
        wanted
    ].tolist()
    assert view.products(asked, wanted)[[0, 2]].tolist() == [0.0, 0.0]
    assert not view.near(wanted)[[0, 2]].any()


def test_a_chunk_begins_with_a_large_page() -> None:
    chunk = matrix._new_chunk(24)
    assert chunk.shape == (matrix.CHUNK_ROWS, 24)
    assert chunk.ctypes.data % matrix._LARGE_PAGE_BYTES == 0
    assert not chunk.any()


def save_vectors(store: Any, rows: Float32) -> None:
    def work(connection: Any) -> None:
        connection.execute("UPDATE state SET model='m'")
        for number, row in enumerate(packing.pack(rows)):
            connection.execute(
                "INSERT INTO vectors(id, text_hash, space, vector, generation) VALUES (?,?,?,?,1)",
                (number, bytes([number]), spaces.number("m"), row),
            )

    store.write(work)


def test_stored_vectors_are_read_to_the_bit_in_any_order_and_number(store: Any) -> None:
    rows = packing.unpack(packing.pack(vectors(6, 8)))
    save_vectors(store, rows)
    made = matrix.Matrix()
    made.put(np.arange(1, 7), np.arange(6), rows)
    with store.read() as connection:
        wanted = np.array([4, 1, 4, 6])
        assert made.view().read(connection, wanted).tobytes() == rows[wanted - 1].tobytes()


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM vectors WHERE id IN (1, 4)",
        "UPDATE vectors SET vector=x'00' WHERE id IN (1, 4)",
        "UPDATE vectors SET vector=CAST(x'ff' AS TEXT) WHERE id IN (1, 4)",
        "UPDATE vectors SET vector=vector || x'0000' WHERE id IN (1, 4)",
    ],
)
def test_a_vector_that_is_gone_from_the_table_or_damaged_is_told_as_it_is_remembered(store: Any, damage: str) -> None:
    rows = packing.unpack(packing.pack(vectors(6, 8)))
    save_vectors(store, rows)
    made = matrix.Matrix()
    made.put(np.arange(6), np.arange(6), rows)
    store.write(lambda connection: connection.execute(damage))
    with store.read() as connection:
        found = made.view().read(connection, np.array([4, 2, 1, 5]))
        # Without a sound one beside it there is no width but the matrix's own to go by.
        assert made.view().read(connection, np.array([1])).tobytes() == made.view().near(np.array([1])).tobytes()
    assert found[[1, 3]].tobytes() == rows[[2, 5]].tobytes()
    assert found[[0, 2]].tobytes() == made.view().near(np.array([4, 1])).tobytes()
