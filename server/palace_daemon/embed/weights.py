"""Reads the original weights of all-MiniLM-L6-v2 and checks that they are what the graph builders expect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from palace_daemon.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

Float32 = NDArray[np.float32]

HIDDEN = 384
INNER = 1536
HEADS = 12
LAYERS = 6
MAX_TOKENS = 512
LAYER_NORM_EPSILON = 1e-12
"""These six stand in the model's own ``config.json``."""


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
    """All weights of the encoder, float32."""

    def __init__(self, tensors: dict[str, Float32]) -> None:
        self._tensors = tensors
        self.words = tensors["embeddings.word_embeddings.weight"]
        """``[vocabulary, 384]``."""
        token_type = tensors["embeddings.token_type_embeddings.weight"][0]
        self.positions: Float32 = tensors["embeddings.position_embeddings.weight"] + token_type
        """``[512, 384]``, with the row of token type 0 added: a text here is always one segment."""
        self.layers = tuple(LayerWeights(tensors, index) for index in range(LAYERS))

    @property
    def embedding_norm(self) -> tuple[Float32, Float32]:
        """Gain and bias of the LayerNorm over the embeddings."""
        return self._tensors["embeddings.LayerNorm.weight"], self._tensors["embeddings.LayerNorm.bias"]


def read_weights(path: Path) -> Weights:
    """Return the weights stored in a ``model.safetensors``.

    Raises:
        ModelError: The file cannot be read or holds another model.
    """
    from safetensors.numpy import load_file  # noqa: PLC0415 - only building a model needs it

    try:
        tensors = load_file(path)
        weights = Weights(tensors)
        shapes = [weights.words.shape[1:], weights.positions.shape, weights.layers[-1].linear("output.dense")[0].shape]
    except Exception as exc:  # the binding raises its own SafetensorError, a bare Exception
        raise ModelError(f"cannot read the weights in {path}: {exc}") from exc
    if shapes != [(HIDDEN,), (MAX_TOKENS, HIDDEN), (HIDDEN, INNER)]:
        raise ModelError(f"{path} does not hold all-MiniLM-L6-v2: shapes {shapes}")
    return weights
