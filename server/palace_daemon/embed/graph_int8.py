"""The int8 graph: integer products whose activations are quantised per token.

A vector depends on its text alone. Four choices make it what it is:

* **A scale per row.** Each token's activations are divided by their own largest absolute value, so neighbours in a
  text, and texts in a batch, do not change each other's rounding. The graph takes one text; the row scales are
  multiplied in after the product.
* **7 bits for activations.** They take the values 0 to 127 around a zero point of 64 (0 to 127 without one after GELU).
  CPUs without VNNI add pairs of unsigned-by-signed products in 16 bits with saturation; two products of 127 x 127 make
  32,258, which fits, so the sums are exact on every x86 CPU, in the fast kernels, and all machines agree. With 8 bits
  such a CPU needs kernels that make the whole 13 % slower, or gives other vectors.
* **Centred, balanced channels.** Before a product, channel ``j`` is shifted by its usual middle and divided by a scale
  ``s_j``, which the matrix takes back: outlying channels no longer set the rounding of all others. Shift and scale are
  folded into the LayerNorm (or the value projection) before and into matrix and biases after. This more than makes
  up for the eighth bit.
* **GELU shifted above zero.** Its minimum is about -0.17: with that added, all 127 steps serve values that occur.

Middle and width of each channel come from ``int8_ranges.npy``, measured by the reference script on the packaged golden
texts. Cosine to fp32, mean / least, on 100 real paragraphs on which the exponent was picked: symmetric 8 bits per row
0.9973 / 0.989; this graph 0.9986 / 0.997.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from palace_daemon.embed import registry
from palace_daemon.embed.graph import INPUT_IDS, MICROSOFT, GraphWriter
from palace_daemon.embed.weights import HEADS, HIDDEN, LAYERS, Float32, LayerWeights, Weights

ACTIVATION_MAX = 127
"""Largest quantised activation: 7 bits, see above."""
ACTIVATION_ZERO = 64
_SYMMETRIC_STEPS = ACTIVATION_MAX - ACTIVATION_ZERO
WEIGHT_MAX = 127
BALANCE_EXPONENT = 0.8
"""How much of a channel's width moves into the matrix. Of 0.5, 0.65, 0.8 and 0.9 (mean cosine 0.99790, 0.99840,
0.99857, 0.99859; least 0.9957, 0.9961, 0.9970, 0.9959)."""
GELU_SHIFT = 0.17
"""GELU's minimum is -0.16997."""
_LEAST_WIDTH = 1e-3
"""Keeps a channel that hardly moved on the golden texts from being blown up."""
_LEAST_ROW_MAX = 1e-12
"""Keeps a row of zeros from a division by zero."""


class Channels(NamedTuple):
    """Shift and scale of the channels of one activation: what is quantised is ``(x - shift) / scale``."""

    shift: Float32
    scale: Float32


class _Row(NamedTuple):
    """A quantised activation: uint8 ``[tokens, n]``, its row scales float32 ``[tokens, 1]``, the name of its zero."""

    values: str
    scales: str
    zero: str


def build(weights: Weights) -> bytes:
    """Return the ONNX model: int64 ids ``[1, tokens]`` to a float32 unit vector ``[1, 384]``."""
    return _Builder(weights).build()


def read_ranges() -> Float32:
    """Return the packaged ranges, float32 ``[3, 6, 2, 384]``: input, context or hidden; layer; middle and width."""
    path = registry.data_file(registry.manifest().source.data, "int8_ranges.npy")
    with path.open("rb") as file:
        ranges = np.load(file, allow_pickle=False)
    return np.asarray(ranges, np.float32).reshape(3, LAYERS, 2, HIDDEN)


def balance(middle_and_width: Float32, matrix: Float32) -> Channels:
    """Return shift and scale of the channels ``[2, in]`` in front of ``matrix`` ``[out, in]``.

    Only the relation of the scales matters, since rows are scaled anyway: their geometric mean is 1.
    """
    middle, width = middle_and_width
    largest = np.maximum(np.abs(matrix).max(0), 1e-5)
    scale = (width + _LEAST_WIDTH) ** BALANCE_EXPONENT / largest ** (1 - BALANCE_EXPONENT)
    return Channels(middle, (scale / np.exp(np.log(scale).mean())).astype(np.float32))


def quantise_columns(matrix: Float32) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int8]], Float32]:
    """Return int8 ``[out, in]`` and the scale of each output, float32 ``[out]``; symmetric, -127 to 127."""
    scale = (np.abs(matrix).max(1) / WEIGHT_MAX).astype(np.float32)
    return np.rint(matrix / scale[:, None]).astype(np.int8), scale


class _Builder:
    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._graph = GraphWriter()
        inputs, contexts, hiddens = read_ranges()
        layers = weights.layers
        self._inputs = [balance(inputs[i], np.concatenate([w for w, _ in layer.qkv])) for i, layer in enumerate(layers)]
        # What leaves the last layer is pooled, not quantised.
        self._inputs.append(Channels(np.zeros(HIDDEN, np.float32), np.ones(HIDDEN, np.float32)))
        self._contexts = [
            balance(contexts[i], layer.linear("attention.output.dense")[0]) for i, layer in enumerate(layers)
        ]
        self._hiddens = [balance(hiddens[i], layer.linear("intermediate.dense")[0]) for i, layer in enumerate(layers)]

    def build(self) -> bytes:
        graph, weights = self._graph, self._weights
        # Half precision halves the file; 2^-11 of a value is far below what the products round away.
        words = graph.op("Gather", graph.constant("words", weights.words.astype(np.float16)), INPUT_IDS)
        words = graph.op("Cast", words, to=1)
        x = graph.op("Add", self._rows(words), graph.positions(weights.positions))
        x = self._norm(x, "embedding", weights.embedding_norm, self._inputs[0])
        for index, layer in enumerate(weights.layers):
            x = self._add_layer(x, index, layer)
        mean = graph.op("ReduceMean", x, graph.ints(0), keepdims=1)
        return graph.finish(mean, masked=False)

    def _add_layer(self, x: str, index: int, layer: LayerWeights) -> str:
        entry, hidden, exit_ = self._inputs[index], self._hiddens[index], self._inputs[index + 1]
        context = self._attend(x, index, layer)
        x = self._residual(context, x, f"keep1_{index}", entry)
        x = self._norm(x, f"norm1_{index}", layer.linear("attention.output.LayerNorm"), hidden)
        inner = self._feed_forward(x, index, layer)
        x = self._residual(inner, x, f"keep2_{index}", hidden)
        return self._norm(x, f"norm2_{index}", layer.linear("output.LayerNorm"), exit_)

    def _attend(self, x: str, index: int, layer: LayerWeights) -> str:
        """Add attention and its output projection; the result lacks nothing but the residual."""
        graph, entry, context = self._graph, self._inputs[index], self._contexts[index]
        row = self._quantise(x)
        parts, biases = [], []
        for part, (matrix, bias) in zip("qkv", layer.qkv, strict=True):
            shifted = bias + matrix @ entry.shift
            scaled = matrix * entry.scale
            if part == "v":
                # Attention weights add up to 1, so what shifts and scales the values does the same to the context.
                shifted = (shifted - context.shift) / context.scale
                scaled = scaled / context.scale[:, None]
            product, _ = self._multiply(row, f"{part}_{index}", scaled)
            parts.append(graph.op("Reshape", product, graph.ints(1, -1, HIDDEN)))
            biases.append(shifted)
        bias_name = graph.constant(f"qkv_{index}_bias", np.concatenate(biases).astype(np.float32))
        attended = graph.op("MultiHeadAttention", *parts, bias_name, domain=MICROSOFT, num_heads=HEADS)
        matrix, bias = layer.linear("attention.output.dense")
        product, _ = self._multiply(self._quantise(self._rows(attended)), f"out_{index}", matrix * context.scale)
        return self._add_bias(product, f"out_{index}", bias + matrix @ context.shift + entry.shift)

    def _feed_forward(self, x: str, index: int, layer: LayerWeights) -> str:
        graph, hidden = self._graph, self._hiddens[index]
        matrix, bias = layer.linear("intermediate.dense")
        inner, _ = self._multiply(self._quantise(x), f"up_{index}", matrix * hidden.scale)
        up_bias = (bias + matrix @ hidden.shift).astype(np.float32)
        inner = graph.op("BiasGelu", inner, graph.constant(f"up_{index}_bias", up_bias), domain=MICROSOFT)
        matrix, bias = layer.linear("output.dense")
        product, rounded = self._multiply(self._quantise_gelu(inner), f"down_{index}", matrix)
        # The shift passed through the rounded matrix, so the rounded matrix takes it back.
        return self._add_bias(product, f"down_{index}", bias + hidden.shift - GELU_SHIFT * rounded.sum(1))

    def _rows(self, x: str) -> str:
        """Drop the batch axis: ``[tokens, 384]``."""
        return self._graph.op("Reshape", x, self._graph.ints(-1, HIDDEN))

    def _norm(self, x: str, name: str, gain_bias: tuple[Float32, Float32], channels: Channels) -> str:
        gain, bias = gain_bias
        return self._graph.layer_norm(x, name, gain / channels.scale, (bias - channels.shift) / channels.scale)

    def _residual(self, update: str, x: str, name: str, channels: Channels) -> str:
        """Add ``x``, scaled back; its shift is already part of the bias of ``update``."""
        kept = self._graph.op("Mul", x, self._graph.constant(name, channels.scale))
        return self._graph.op("Add", update, kept)

    def _add_bias(self, x: str, name: str, bias: Float32) -> str:
        return self._graph.op("Add", x, self._graph.constant(f"{name}_bias", bias.astype(np.float32)))

    def _quantise(self, x: str) -> _Row:
        """Round each row to 1 to 127 around 64, by its own largest absolute value."""
        return self._round(x, self._graph.op("Abs", x), _SYMMETRIC_STEPS, ACTIVATION_ZERO)

    def _quantise_gelu(self, x: str) -> _Row:
        """Round each row of a GELU's output to 0 to 127, after shifting it above zero."""
        shifted = self._graph.op("Add", x, self._graph.constant("gelu_shift", np.array(GELU_SHIFT, np.float32)))
        return self._round(shifted, shifted, ACTIVATION_MAX, 0)

    def _round(self, x: str, magnitude: str, steps: int, zero: int) -> _Row:
        graph = self._graph
        largest = graph.op("ReduceMax", magnitude, graph.ints(1), keepdims=1)
        largest = graph.op("Max", largest, graph.constant("least", np.array(_LEAST_ROW_MAX, np.float32)))
        scales = graph.op("Mul", largest, graph.constant(f"step_{steps}", np.array(1 / steps, np.float32)))
        flat = graph.op("Reshape", scales, graph.ints(-1))
        zero_name = graph.constant(f"zero_{zero}", np.array(zero, np.uint8))
        zeros = graph.op("Expand", zero_name, graph.op("Shape", flat))
        return _Row(graph.op("QuantizeLinear", x, flat, zeros, axis=0), scales, zero_name)

    def _multiply(self, row: _Row, name: str, matrix: Float32) -> tuple[str, Float32]:
        """Return the product with ``matrix`` ``[out, in]`` as float32 ``[tokens, out]``, and the matrix as rounded."""
        graph = self._graph
        rounded, scale = quantise_columns(matrix)
        product = graph.op(
            "MatMulIntegerToFloat",
            row.values,
            graph.constant(name, rounded.T),
            graph.constant("one", np.array(1, np.float32)),
            graph.constant(f"{name}_scale", scale),
            row.zero,
            domain=MICROSOFT,
        )
        return graph.op("Mul", product, row.scales), rounded * scale[:, None]
