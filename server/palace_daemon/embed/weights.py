"""Reads the weights of a BERT encoder and checks that they are what the graph builders expect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from palace_daemon.embed.tensor_file import TensorFile
from palace_daemon.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palace_daemon.embed.shape import BertShape

Float32 = NDArray[np.float32]

PREFIXES = ("", "bert.")
"""What may stand before all names: nothing, or ``bert.`` where the encoder was saved as part of a larger model."""
_SAMPLE = "embeddings.word_embeddings.weight"
"""A tensor that every BERT has, by which the prefix is found."""


class LayerWeights:
    """Weights of one encoder layer; matrices are ``[out, in]`` as stored."""

    def __init__(self, tensors: dict[str, Float32], index: int) -> None:
        prefix = f"encoder.layer.{index}."
        self._tensors = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}

    def linear(self, name: str) -> tuple[Float32, Float32]:
        """Return matrix ``[out, in]`` and bias ``[out]`` of a dense layer or a LayerNorm (gain and bias)."""
        return self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"]

    @property
    def qkv(self) -> tuple[tuple[Float32, Float32], ...]:
        """Matrix and bias of query, key and value."""
        return tuple(self.linear(f"attention.self.{part}") for part in ("query", "key", "value"))


class Weights:
    """All weights of the encoder, float32, under the names that they have without a prefix."""

    def __init__(self, tensors: dict[str, Float32], shape: BertShape) -> None:
        self.shape = shape
        self.tensors = tensors
        self.words = tensors[_SAMPLE]
        """``[vocabulary, hidden]``."""
        token_type = tensors["embeddings.token_type_embeddings.weight"][0]
        self.positions: Float32 = tensors["embeddings.position_embeddings.weight"] + token_type
        """``[positions, hidden]``, with the row of token type 0 added: a text here is always one segment."""
        self.layers = tuple(LayerWeights(tensors, index) for index in range(shape.layers))

    @property
    def embedding_norm(self) -> tuple[Float32, Float32]:
        """Gain and bias of the LayerNorm over the embeddings."""
        return self.tensors["embeddings.LayerNorm.weight"], self.tensors["embeddings.LayerNorm.bias"]


def read_weights(path: Path, shape: BertShape) -> Weights:
    """Return the weights stored in a ``model.safetensors``, with or without a ``bert.`` prefix.

    Raises:
        ModelError: The file cannot be read, a tensor is missing or one layer too many, or one has another shape than
            ``shape`` says.
    """
    stored = TensorFile(path)
    prefix = next((p for p in PREFIXES if p + _SAMPLE in stored), None)
    if prefix is None:
        some = ", ".join(sorted(stored)[:3])
        raise ModelError(
            f"{path} holds no {_SAMPLE}, with or without bert. before it (it begins with {some})",
            hint="it must hold the encoder of a BERT; for another layout give a ready model.onnx",
        )
    tensors: dict[str, Float32] = {}
    for name, expected in expected_shapes(shape):
        if prefix + name not in stored:
            raise ModelError(f"{path} lacks the tensor {prefix + name}", hint="is the config.json of another model?")
        found = stored.shape_of(prefix + name)
        if not _fits(found, expected):
            raise ModelError(
                f"{path}: {prefix + name} has the shape {list(found)}, expected {list(expected)}",
                hint="is the config.json of another model?",
            )
        tensor = stored[prefix + name]
        if not np.isfinite(tensor).all():
            raise ModelError(f"{path}: {prefix + name} holds numbers that are not finite")
        tensors[name] = tensor
    if (more := f"{prefix}encoder.layer.{shape.layers}.output.dense.weight") in stored:
        raise ModelError(
            f"{path} holds {more}, but {shape.layers} layers are expected", hint="is the config.json of another model?"
        )
    return Weights(tensors, shape)


def expected_shapes(shape: BertShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every tensor of the encoder; -1 stands for any number from 1."""
    hidden, inner = shape.hidden, shape.intermediate
    yield _SAMPLE, (shape.vocabulary, hidden)
    yield "embeddings.position_embeddings.weight", (shape.positions, hidden)
    yield "embeddings.token_type_embeddings.weight", (-1, hidden)
    yield "embeddings.LayerNorm.weight", (hidden,)
    yield "embeddings.LayerNorm.bias", (hidden,)
    linear = {
        "attention.self.query": (hidden, hidden),
        "attention.self.key": (hidden, hidden),
        "attention.self.value": (hidden, hidden),
        "attention.output.dense": (hidden, hidden),
        "intermediate.dense": (inner, hidden),
        "output.dense": (hidden, inner),
    }
    for index in range(shape.layers):
        for name, matrix in linear.items():
            yield f"encoder.layer.{index}.{name}.weight", matrix
            yield f"encoder.layer.{index}.{name}.bias", matrix[:1]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            yield f"encoder.layer.{index}.{name}.weight", (hidden,)
            yield f"encoder.layer.{index}.{name}.bias", (hidden,)


def _fits(found: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    return len(found) == len(expected) and all(f == e or (e < 0 < f) for f, e in zip(found, expected, strict=True))
