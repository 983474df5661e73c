"""The int8 graph: integer products whose activations are quantised token by token.

A vector depends on its text alone, and the graph makes few passes over its activations. Five choices make it so:

* **No scale is shared between tokens by what they hold.** Attention contexts and GELU outputs differ widely from token
  to token, so each row is divided by its own largest value, and the row scales are multiplied in after the product. A
  LayerNorm gives all rows nearly the same reach, so those rows share a constant step, fixed when the graph is built;
  what lies beyond is clipped. Neither way can neighbours in a text, or texts in a batch, change each other's rounding.
* **7 bits for activations.** They take the values 0 to 127 around a zero point of 64 (12 after GELU). CPUs without VNNI
  add pairs of unsigned-by-signed products in 16 bits with saturation; two products of 127 x 127 make 32,258, which
  fits, so the sums are exact on every x86 CPU, in the fast kernels, and all machines agree. With 8 bits such a CPU
  needs kernels that make the whole 13 % slower, or gives other vectors.
* **Centred, balanced channels.** Before a product, channel ``j`` is shifted by its usual middle and divided by a scale
  ``s_j``, which the matrix takes back: outlying channels no longer set the rounding of all others. Shift and scale are
  folded into the LayerNorm (or the value projection) before and into matrix and biases after. This more than makes
  up for the eighth bit.
* **GELU's zero near the bottom.** Its minimum is about -0.17, so 12 of the 127 steps below zero are enough, and a step
  is never so small that they are not.
* **Passes that would change nothing are left out.** A bias of the keys adds the same to all scores of a query, which
  the softmax removes. Biases of products with a constant step are added inside the product. GELU is the tanh form,
  which takes half the time and differs by less than 0.0005, a fraction of a step.

Middle and width of each channel come from ``int8_ranges.npy``, measured by the reference script on the packaged golden
texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from palace_daemon.embed import registry
from palace_daemon.embed.graph import INPUT_IDS, MICROSOFT, GraphWriter
from palace_daemon.embed.weights import Float32, LayerWeights, Weights

if TYPE_CHECKING:
    from collections.abc import Sequence

ACTIVATION_MAX = 127
"""Largest quantised activation: 7 bits, see above."""
ACTIVATION_ZERO = 64
_SYMMETRIC_STEPS = ACTIVATION_MAX - ACTIVATION_ZERO
REACH = 1.1
"""Where rows with a constant step are clipped, in half-widths of the widest channel. Of 0.85, 0.92, 1.0, 1.1, 1.2, 1.3
and 1.6 (mean cosine 0.99240, 0.99744, 0.99828, 0.99823, 0.99810, 0.99802, 0.99758): clear of the fall below 1."""
GELU_ZERO = 12
"""Zero point after GELU. Of 4, 6, 8, 10, 12, 16 and 20 (mean cosine to fp32 on 120 real paragraphs 0.99760, 0.99819,
0.99837, 0.99848, 0.99848, 0.99842, 0.99842)."""
GELU_DEPTH = 0.17
"""GELU's minimum is -0.16997; that of its tanh form, -0.17004, is cut by a thousandth of a step."""
WEIGHT_MAX = 127
BALANCE_EXPONENT = 0.8
"""How much of a channel's width moves into the matrix. Of 0.5, 0.65, 0.8 and 0.9 (mean cosine 0.99790, 0.99840,
0.99857, 0.99859; least 0.9957, 0.9961, 0.9970, 0.9959)."""
_LEAST_WIDTH = 1e-3
"""Keeps a channel that hardly moved on the golden texts from being blown up."""
_LEAST_ROW_MAX = 1e-12
"""Keeps a row of zeros from a division by zero."""


class Channels(NamedTuple):
    """Shift and scale of the channels of one activation: what is quantised is ``(x - shift) / scale``."""

    shift: Float32
    scale: Float32
    reach: float
    """Where rows with a constant step are clipped: the largest half-width of a channel after scaling, and some more."""


class _Row(NamedTuple):
    """A quantised activation, by names: uint8 ``[1, tokens, n]``, row scales float32 ``[1, tokens, 1]``; its zero."""

    values: str
    scales: str
    zero: int


def build(weights: Weights, ranges: Float32) -> bytes:
    """Return the ONNX model: int64 ids ``[1, tokens]`` to a float32 unit vector ``[1, hidden]``.

    Args:
        weights: Of the model.
        ranges: What its channels take on, ``[3, layers, 2, hidden]``: input, context or hidden; layer; middle and
            half-width.
    """
    return _Builder(weights, ranges).build()


def read_ranges() -> Float32:
    """Return the packaged ranges of all-MiniLM-L6-v2, float32 ``[3, 6, 2, 384]``."""
    path = registry.data_file(registry.manifest().source.data, "int8_ranges.npy")
    with path.open("rb") as file:
        ranges = np.load(file, allow_pickle=False)
    middles_and_widths = np.asarray(ranges, np.float32)
    return middles_and_widths.reshape(3, -1, *middles_and_widths.shape[1:])


def balance(middle_and_width: Float32, matrix: Float32) -> Channels:
    """Return shift and scale of the channels ``[2, in]`` in front of ``matrix`` ``[out, in]``.

    Only the relation of the scales matters, since rows are scaled anyway: their geometric mean is 1.
    """
    middle, width = middle_and_width
    largest = np.maximum(np.abs(matrix).max(0), 1e-5)
    scale = (width + _LEAST_WIDTH) ** BALANCE_EXPONENT / largest ** (1 - BALANCE_EXPONENT)
    scale = (scale / np.exp(np.log(scale).mean())).astype(np.float32)
    return Channels(middle, scale, REACH * float((width / scale).max()))


def quantise_columns(matrix: Float32) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int8]], Float32]:
    """Return int8 ``[out, in]`` and the scale of each output, float32 ``[out]``; symmetric, -127 to 127."""
    scale = (np.abs(matrix).max(1) / WEIGHT_MAX).astype(np.float32)
    scale[scale == 0.0] = 1.0  # an output that nothing reaches, as pruning leaves them
    return np.rint(matrix / scale[:, None]).astype(np.int8), scale


class _Builder:
    def __init__(self, weights: Weights, ranges: Float32) -> None:
        self._weights = weights
        self._shape = weights.shape
        self._graph = GraphWriter(self._shape)
        self._zeros: dict[int, str] = {}
        inputs, contexts, hiddens = ranges
        width = self._shape.hidden
        layers = weights.layers
        self._inputs = [balance(inputs[i], np.concatenate([w for w, _ in layer.qkv])) for i, layer in enumerate(layers)]
        # What leaves the last layer is pooled, not quantised.
        self._inputs.append(Channels(np.zeros(width, np.float32), np.ones(width, np.float32), 1.0))
        self._contexts = [
            balance(contexts[i], layer.linear("attention.output.dense")[0]) for i, layer in enumerate(layers)
        ]
        self._hiddens = [balance(hiddens[i], layer.linear("intermediate.dense")[0]) for i, layer in enumerate(layers)]

    def build(self) -> bytes:
        graph, weights = self._graph, self._weights
        # Half precision halves the file; 2^-11 of a value is far below what the products round away.
        words = graph.op("Gather", graph.constant("words", weights.words.astype(np.float16)), INPUT_IDS)
        words = graph.op("Cast", words, to=1)
        x = graph.op("Add", words, graph.positions(weights.positions))
        x = self._norm(x, "embedding", weights.embedding_norm, self._inputs[0])
        for index, layer in enumerate(weights.layers):
            x = self._add_layer(x, index, layer)
        return graph.finish(self._pool(x), masked=False)

    def _pool(self, x: str) -> str:
        """Return ``[1, hidden]`` from the rows of the last layer."""
        if self._shape.pooling == "cls":
            return self._graph.op("Gather", x, self._graph.constant("first", np.array(0, np.int64)), axis=1)
        return self._graph.op("ReduceMean", x, self._graph.ints(1), keepdims=0)

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
        row = self._quantise_alike(x, entry)
        (query, query_bias), (key, _), (value, value_bias) = layer.qkv
        # Attention weights add up to 1, so what shifts and scales the values does the same to the context.
        value_bias = (value_bias + value @ entry.shift - context.shift) / context.scale
        value = value * entry.scale / context.scale[:, None]
        attended = graph.op(
            "MultiHeadAttention",
            self._project(row, f"q_{index}", query * entry.scale, entry, query_bias + query @ entry.shift),
            self._project(row, f"k_{index}", key * entry.scale, entry),
            self._project(row, f"v_{index}", value, entry, value_bias),
            domain=MICROSOFT,
            num_heads=self._shape.heads,
        )
        matrix, bias = layer.linear("attention.output.dense")
        product = self._multiply(self._quantise(attended), f"out_{index}", matrix * context.scale)
        return self._add_bias(product, f"out_{index}", bias + matrix @ context.shift + entry.shift)

    def _feed_forward(self, x: str, index: int, layer: LayerWeights) -> str:
        """Add the feed-forward part; the result lacks nothing but the residual."""
        hidden = self._hiddens[index]
        matrix, bias = layer.linear("intermediate.dense")
        row, bias = self._quantise_alike(x, hidden), bias + matrix @ hidden.shift
        inner = self._project(row, f"up_{index}", matrix * hidden.scale, hidden, bias)
        inner = self._graph.op("FastGelu", inner, domain=MICROSOFT)
        matrix, bias = layer.linear("output.dense")
        product = self._multiply(self._quantise_gelu(inner), f"down_{index}", matrix)
        return self._add_bias(product, f"down_{index}", bias + hidden.shift)

    def _norm(self, x: str, name: str, gain_bias: tuple[Float32, Float32], channels: Channels) -> str:
        gain, bias = gain_bias
        return self._graph.layer_norm(x, name, gain / channels.scale, (bias - channels.shift) / channels.scale)

    def _residual(self, update: str, x: str, name: str, channels: Channels) -> str:
        """Add ``x``, scaled back; its shift is already part of the bias of ``update``."""
        kept = self._graph.op("Mul", x, self._graph.constant(name, channels.scale))
        return self._graph.op("Add", update, kept)

    def _add_bias(self, x: str, name: str, bias: Float32) -> str:
        return self._graph.op("Add", x, self._graph.constant(f"{name}_bias", bias.astype(np.float32)))

    def _quantise_alike(self, x: str, channels: Channels) -> str:
        """Round all rows of a LayerNorm's output with one constant step; return the uint8 values."""
        graph = self._graph
        step = graph.constant(f"step_{x}", np.array(channels.reach / _SYMMETRIC_STEPS, np.float32))
        values = graph.op("QuantizeLinear", x, step, self._zero(ACTIVATION_ZERO))
        # The operator itself clips at 0 and 255. Cutting bytes costs a quarter of cutting what they are made of.
        return graph.op("Clip", values, "", graph.constant("activation_max", np.array(ACTIVATION_MAX, np.uint8)))

    def _project(self, values: str, name: str, matrix: Float32, channels: Channels, bias: Float32 | None = None) -> str:
        """Return the product of what :meth:`_quantise_alike` gave with ``matrix`` ``[out, in]``, plus the bias."""
        scale_of_values = channels.reach / _SYMMETRIC_STEPS
        biases = [] if bias is None else ["", self._graph.constant(f"{name}_bias", bias.astype(np.float32))]
        return self._product(values, ACTIVATION_ZERO, name, matrix, biases, scale_of_values)

    def _quantise(self, x: str) -> _Row:
        """Round each row to 1 to 127 around 64, by its own largest absolute value."""
        return self._round(x, self._graph.op("Abs", x), _LEAST_ROW_MAX, _SYMMETRIC_STEPS, ACTIVATION_ZERO)

    def _quantise_gelu(self, x: str) -> _Row:
        """Round each row of a GELU's output by its largest value, with the steps below zero that its minimum needs."""
        steps = ACTIVATION_MAX - GELU_ZERO
        return self._round(x, x, GELU_DEPTH / GELU_ZERO * steps, steps, GELU_ZERO)

    def _round(self, x: str, magnitude: str, least: float, steps: int, zero: int) -> _Row:
        """Divide each row by its largest ``magnitude``, or by ``least`` if that is more, and round it."""
        graph = self._graph
        largest = graph.op("ReduceMax", magnitude, graph.ints(2), keepdims=1)
        largest = graph.op("Max", largest, graph.constant(f"least_{steps}", np.array(least, np.float32)))
        scales = graph.op("Mul", largest, graph.constant(f"step_{steps}", np.array(1 / steps, np.float32)))
        flat = graph.op("Reshape", scales, graph.ints(-1))
        return _Row(graph.op("QuantizeLinear", x, flat, self._zero_of_rows(zero), axis=1), scales, zero)

    def _multiply(self, row: _Row, name: str, matrix: Float32) -> str:
        """Return the product with ``matrix`` ``[out, in]`` as float32 ``[1, tokens, out]``."""
        return self._graph.op("Mul", self._product(row.values, row.zero, name, matrix), row.scales)

    def _product(
        self, values: str, zero: int, name: str, matrix: Float32, biases: Sequence[str] = (), scale: float = 1.0
    ) -> str:
        graph = self._graph
        rounded, column_scale = quantise_columns(matrix)
        return graph.op(
            "MatMulIntegerToFloat",
            values,
            graph.constant(name, rounded.T),
            graph.constant("one", np.array(1, np.float32)),
            graph.constant(f"{name}_scale", (column_scale * scale).astype(np.float32)),
            self._zero(zero),
            *biases,
            domain=MICROSOFT,
        )

    def _zero(self, zero: int) -> str:
        return self._graph.constant(f"zero_{zero}", np.array(zero, np.uint8))

    def _zero_of_rows(self, zero: int) -> str:
        """Return a zero point for each token, made once for all layers."""
        if zero not in self._zeros:
            self._zeros[zero] = self._graph.op("Expand", self._zero(zero), self._graph.tokens())
        return self._zeros[zero]
