"""Computes a BERT encoder in float64 with numpy alone, as the BERT paper describes it: the judge of the ONNX graphs.

It shares no code with them: no ONNX, no operator fusion, no masks (attention runs over one text at a time and needs
none), no quantisation. Products that treat each token alone are made for all texts together, layer by layer, so that
only one layer's weights are held in float64: a BERT of 110 million parameters takes about 0.4 GB beside its weights.

Invariant: a text's vector depends on the text alone, up to the order of sums in a product (1e-15).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

if TYPE_CHECKING:
    from palace_daemon.core.ports import Float32
    from palace_daemon.embed.shape import BertShape

Float64 = NDArray[np.float64]

PLACES = ("input", "context", "hidden")
"""Where products with matrices take their inputs, in the order of the ranges: a layer's input, the context that its
attention gives, and what its feed-forward part begins with."""
RANGE_PERCENTILES = (0.2, 99.8)
"""What counts as a channel's range: a few outliers among thousands of tokens shall not widen it."""
_GELU_ROWS = 16
"""Rows at a time, so that what lies between stays in the processor's cache."""
_ERF_STEPS = 128
"""Points of the table of erf, for each unit."""
_ERF_END = 6.0
"""From here on erf is 1 in float64."""


class Observed(Struct, frozen=True):
    """What a pass over some texts gives."""

    vectors: Float64
    """``[texts, hidden]``, rows L2-normalised."""
    ranges: Float32
    """``[3, layers, 2, hidden]``: by place, by layer, middle and half-width of each channel over all tokens."""


def observe(
    tensors: Mapping[str, NDArray[np.floating]],
    shape: BertShape,
    texts: Sequence[Sequence[int]],
    on_layer: Callable[[int, int], None] | None = None,
) -> Observed:
    """Return the vectors of texts, and what each channel takes on.

    Args:
        tensors: The encoder's weights, under their names in Hugging Face's BERT, without a prefix.
        shape: Of the encoder.
        texts: Token ids, special tokens included, at most ``shape.positions`` each.
        on_layer: Told how many layers are done, and how many there are; may raise to stop.
    """
    model = _Encoder(tensors, shape)
    ends = np.cumsum([len(ids) for ids in texts])[:-1]
    x = np.concatenate([model.embed(ids) for ids in texts])
    ranges = np.empty((len(PLACES), shape.layers, 2, shape.hidden), np.float32)
    for index in range(shape.layers):
        if on_layer is not None:
            on_layer(index, shape.layers)
        context, hidden, out = model.layer(index, x, ends)
        for place, values in enumerate((x, context, hidden)):
            ranges[place, index] = channel_range(values)
        x = out
    if on_layer is not None:
        on_layer(shape.layers, shape.layers)
    pooled = np.array([rows[0] if shape.pooling == "cls" else rows.mean(0) for rows in np.split(x, ends)])
    return Observed(np.asarray(pooled / np.linalg.norm(pooled, axis=1, keepdims=True), np.float64), ranges)


def channel_range(values: Float64) -> Float64:
    """Return middle and half-width of each channel of ``[tokens, hidden]``, as ``[2, hidden]``."""
    low, high = np.percentile(values, RANGE_PERCENTILES, axis=0)
    return np.array([(high + low) / 2, (high - low) / 2])


class _Encoder:
    def __init__(self, tensors: Mapping[str, NDArray[np.floating]], shape: BertShape) -> None:
        self._tensors = tensors
        self._shape = shape

    def _wide(self, name: str) -> Float64:
        return np.asarray(self._tensors[name], np.float64)

    def embed(self, ids: Sequence[int]) -> Float64:
        """Return the normalised sum of word, position and first token-type embedding, ``[tokens, hidden]``."""
        table = "embeddings.{}_embeddings.weight".format
        x = np.asarray(self._tensors[table("word")][np.asarray(ids)], np.float64)
        x = x + self._wide(table("position"))[: len(ids)] + self._wide(table("token_type"))[0]
        return self._norm(x, "embeddings.LayerNorm")

    def layer(self, index: int, x: Float64, ends: NDArray[np.intp]) -> tuple[Float64, Float64, Float64]:
        """Return attention's context, the feed-forward part's input, and the layer's output, of all texts' tokens."""
        name = f"encoder.layer.{index}"
        context = self._attend(x, ends, f"{name}.attention.self")
        attended = self._linear(context, f"{name}.attention.output.dense")
        hidden = self._norm(x + attended, f"{name}.attention.output.LayerNorm")
        inner = gelu(self._linear(hidden, f"{name}.intermediate.dense"))
        return (
            context,
            hidden,
            self._norm(hidden + self._linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm"),
        )

    def _linear(self, x: Float64, name: str) -> Float64:
        return x @ self._wide(f"{name}.weight").T + self._wide(f"{name}.bias")

    def _norm(self, x: Float64, name: str) -> Float64:
        """Normalise each row to mean 0 and variance 1, then scale and shift its channels."""
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred**2).mean(-1, keepdims=True)
        normal: Float64 = centred / np.sqrt(variance + self._shape.layer_norm_epsilon)
        return normal * self._wide(f"{name}.weight") + self._wide(f"{name}.bias")

    def _attend(self, x: Float64, ends: NDArray[np.intp], name: str) -> Float64:
        """Return the context of scaled dot-product attention, ``[tokens, hidden]``, each text for itself."""
        parts = [np.split(self._linear(x, f"{name}.{part}"), ends) for part in ("query", "key", "value")]
        return np.concatenate([self._attend_text(*text) for text in zip(*parts, strict=True)])

    def _attend_text(self, query: Float64, key: Float64, value: Float64) -> Float64:
        # Contiguous heads: numpy hands nothing else to its fast products.
        q, k, v = (
            np.ascontiguousarray(part.reshape(len(part), self._shape.heads, -1).transpose(1, 0, 2))
            for part in (query, key, value)
        )
        weights = softmax(q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1]))
        return (weights @ v).transpose(1, 0, 2).reshape(len(query), -1)


def softmax(x: Float64) -> Float64:
    """Return each row's exponentials divided by their sum."""
    e: Float64 = np.exp(x - x.max(-1, keepdims=True))
    total: Float64 = e.sum(-1, keepdims=True)
    return e / total


def gelu(x: Float64) -> Float64:
    """Multiply by the Gaussian distribution function, the exact form with erf."""
    out = np.empty_like(x)
    for start in range(0, len(x), _GELU_ROWS):
        rows = x[start : start + _GELU_ROWS]
        out[start : start + _GELU_ROWS] = rows * (0.5 * (1.0 + erf(rows / math.sqrt(2.0))))
    return out


def erf(x: Float64) -> Float64:
    """Return the error function to 1e-15: numpy has none.

    Between the points of a table from ``math.erf`` it is its own Taylor series, whose terms are those of a Gaussian
    times Hermite polynomials; five of them suffice at a distance of 1/256.
    """
    values, slopes = _erf_table()
    inside = np.clip(x, -_ERF_END, _ERF_END)
    at = np.rint((inside + _ERF_END) * _ERF_STEPS).astype(np.intp)
    point = at / _ERF_STEPS - _ERF_END
    d = inside - point
    p2 = point * point
    # Derivatives of exp(-p^2), divided by it and by n!, in Horner's form.
    fifth = (4 * p2 * p2 - 12 * p2 + 3) / 30
    series = 1 + d * (-point + d * ((2 * p2 - 1) / 3 + d * (point * (3 - 2 * p2) / 6 + d * fifth)))
    found: Float64 = values[at] + slopes[at] * d * series
    return found


@functools.cache
def _erf_table() -> tuple[Float64, Float64]:
    """Return erf and its slope at the points."""
    points = [step / _ERF_STEPS - _ERF_END for step in range(int(2 * _ERF_END * _ERF_STEPS) + 1)]
    values = np.array([math.erf(p) for p in points])
    return values, np.array([2 / math.sqrt(math.pi) * math.exp(-p * p) for p in points])
