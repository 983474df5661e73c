"""Reading .safetensors: as the format's own package reads them, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file
from support.tiny_bert import SHAPE, random_tensors

from palace_daemon.embed.tensor_file import TensorFile
from palace_daemon.embed.weights import read_weights
from palace_daemon.errors import ModelError

VALUES = np.array([[0.0, -1.5, 3.25], [1e-3, 65_504.0, -0.0]], np.float32)


def write(path: Path, header: dict[str, Any], data: bytes) -> Path:
    table = json.dumps(header).encode()
    path.write_bytes(len(table).to_bytes(8, "little") + table + data)
    return path


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_every_width_becomes_float32(tmp_path: Path, dtype: type[np.floating[Any]]) -> None:
    stored = VALUES.astype(dtype)
    save_file({"a": stored, "ids": np.arange(3)}, tmp_path / "x.safetensors", metadata={"format": "pt"})
    found = TensorFile(tmp_path / "x.safetensors")
    assert list(found) == ["a"], "whole numbers are no weights"
    assert found.shape_of("a") == (2, 3)
    assert found["a"].dtype == np.float32
    assert np.array_equal(found["a"], stored.astype(np.float32))


def test_bfloat16_is_the_upper_half_of_a_float32(tmp_path: Path) -> None:
    halves: NDArray[np.uint16] = (VALUES.view(np.uint32) >> 16).astype("<u2")
    header = {"a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}}
    found = TensorFile(write(tmp_path / "x", header, halves.tobytes()))["a"]
    assert np.array_equal(found[0], VALUES[0])
    assert np.allclose(found, VALUES, rtol=2**-7, atol=0)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "damaged or cut: a lies at 0 to 24 of 8"),
        ({"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 8]}, "damaged or cut"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}, "damaged or cut"),
        ({"dtype": "F32", "shape": [2]}, "no safetensors file"),
    ],
)
def test_a_table_that_does_not_fit_the_file_is_refused(tmp_path: Path, entry: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        TensorFile(write(tmp_path / "x", {"a": entry}, b"\0" * 8))


@pytest.mark.parametrize("content", [b"", b"\x80\x02}q\x00", b"\xff" * 40, b"\x08" + b"\0" * 7 + b"[1, 2,"])
def test_other_files_are_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ModelError, match=rf"{tmp_path}/x is no safetensors file"):
        TensorFile(tmp_path / "x")


# ------------------------------------------------------------------------------------------------------ the encoder


def test_names_may_stand_behind_bert(tmp_path: Path) -> None:
    tensors = random_tensors(SHAPE)
    more = {f"bert.{name}": tensor for name, tensor in tensors.items()} | {"cls.bias": np.zeros(3, np.float32)}
    save_file(more, tmp_path / "x")
    found = read_weights(tmp_path / "x", SHAPE)
    assert found.tensors.keys() == tensors.keys()
    assert all(np.array_equal(found.tensors[name], tensor) for name, tensor in tensors.items())


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    tensors = random_tensors(SHAPE)
    del tensors["encoder.layer.1.output.dense.bias"]
    save_file(tensors, tmp_path / "x")
    with pytest.raises(ModelError, match=r"x lacks the tensor encoder\.layer\.1\.output\.dense\.bias.*config\.json"):
        read_weights(tmp_path / "x", SHAPE)


def test_a_tensor_of_another_shape_is_named_with_both_shapes(tmp_path: Path) -> None:
    tensors = random_tensors(SHAPE)
    tensors["embeddings.position_embeddings.weight"] = np.zeros((63, 32), np.float32)
    save_file(tensors, tmp_path / "x")
    with pytest.raises(ModelError, match=r"position_embeddings\.weight has the shape \[63, 32\], expected \[64, 32\]"):
        read_weights(tmp_path / "x", SHAPE)


def test_another_architecture_is_refused_by_what_it_holds(tmp_path: Path) -> None:
    save_file({"model.layers.0.weight": VALUES}, tmp_path / "x")
    with pytest.raises(ModelError, match=r"holds no embeddings\.word_embeddings\.weight.*model\.layers\.0\.weight"):
        read_weights(tmp_path / "x", SHAPE)


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    tensors = random_tensors(SHAPE)
    tensors["encoder.layer.0.output.dense.bias"][3] = np.nan
    save_file(tensors, tmp_path / "x")
    with pytest.raises(ModelError, match=r"encoder\.layer\.0\.output\.dense\.bias holds numbers that are not finite"):
        read_weights(tmp_path / "x", SHAPE)


def test_tensors_that_share_bytes_are_refused(tmp_path: Path) -> None:
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    shifted = {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}
    for other in (entry, shifted):
        with pytest.raises(ModelError, match="damaged: two tensors lie at"):
            TensorFile(write(tmp_path / "x", {"a": entry, "b": other}, bytes(12)))


def test_a_header_longer_than_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes((90_000_000).to_bytes(8, "little") + b"{}")
    with pytest.raises(ModelError, match="ends within its header"):
        TensorFile(tmp_path / "x")


def test_a_model_without_token_types_is_refused(tmp_path: Path) -> None:
    tensors = random_tensors(SHAPE)
    tensors["embeddings.token_type_embeddings.weight"] = np.zeros((0, SHAPE.hidden), np.float32)
    save_file(tensors, tmp_path / "x")
    with pytest.raises(ModelError, match=r"token_type_embeddings\.weight has the shape \[0, 32\]"):
        read_weights(tmp_path / "x", SHAPE)
