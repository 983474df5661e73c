"""Gives a ready ``model.onnx`` the form that all installed graphs have: token ids of one text in, a unit vector out.

What the exporters of such graphs agree on are the names of the inputs. The mask and the token types are constants here,
since each text is embedded alone; with that a graph that was quantised per tensor does not let texts leak into each
other either. Pooling, where the graph does not do it, and the division by the length are added behind it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from palace_daemon.embed.graph import INPUT_IDS, OUTPUT
from palace_daemon.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palace_daemon.embed.shape import Pooling

ONES, ZEROS = "attention_mask", "token_type_ids"
INPUTS = (INPUT_IDS, ONES, ZEROS)
_POOLED_OUTPUT = "sentence_embedding"
"""What exporters call the pooled, final vector."""
_TOKEN_OUTPUTS = ("last_hidden_state", "token_embeddings")
"""What they call the vectors of tokens; where there is neither, the first output of three axes is taken."""
_PREFIX = "ready/"
_OPSET_MIN, _OPSET_AXES_INPUT = 9, 18
"""First opset with ``ConstantOfShape``, and first one in which reductions take their axes as an input."""


class Ready(NamedTuple):
    """A wrapped graph, and how it comes to one vector a text."""

    graph: bytes
    pooling: Pooling | Literal["graph"]


def wrap(path: Path, pooling: Pooling | None) -> Ready:
    """Return the graph in ``path`` with int64 ids ``[1, tokens]`` as its input and a unit vector as its output.

    Args:
        path: A graph that takes token ids, and at most a mask and token types besides.
        pooling: How to pool the vectors of tokens; None takes the graph's own ``sentence_embedding``.

    Raises:
        ModelError: It cannot be read, has other inputs, or gives nothing that can be made into a vector a text.
    """
    import onnx  # noqa: PLC0415 - 150 ms, and only building needs it
    from onnx import compose, helper  # noqa: PLC0415

    try:
        model = onnx.load(str(path))
    except Exception as exc:  # protobuf's and onnx's exceptions share no base but Exception
        raise ModelError(f"{path} cannot be read as ONNX: {exc}", hint="is the download whole?") from exc
    opset = max((entry.version for entry in model.opset_import if entry.domain in {"", "ai.onnx"}), default=0)
    if opset < _OPSET_MIN:
        raise ModelError(f"{path} is of opset {opset}", hint=f"export it with opset {_OPSET_MIN} or newer")
    kinds = _input_kinds(model.graph, path)
    output, found = _choose_output(model.graph, path, pooling)
    inner = compose.add_prefix(model, _PREFIX)
    before = _before(kinds)
    after = _after(_PREFIX + output.name, found, takes_axes_as_input=opset >= _OPSET_AXES_INPUT)
    nodes, constants = list(inner.graph.node), list(inner.graph.initializer)
    graph = helper.make_graph(
        [*before, *nodes, *after],
        "ready",
        [helper.make_tensor_value_info(INPUT_IDS, onnx.TensorProto.INT64, ["batch", "tokens"])],
        [helper.make_tensor_value_info(OUTPUT, onnx.TensorProto.FLOAT, ["batch", "width"])],
        constants,
        sparse_initializer=list(inner.graph.sparse_initializer),
    )
    wrapped = helper.make_model(
        graph, opset_imports=list(model.opset_import), functions=list(inner.functions), producer_name="palace-daemon"
    )
    wrapped.ir_version = model.ir_version
    try:
        return Ready(bytes(wrapped.SerializeToString()), found)
    except ValueError as exc:  # protobuf holds 2 GiB at most
        raise ModelError(f"{path} is too large for one file", hint="give model.safetensors instead") from exc


def data_files(path: Path) -> list[Path]:
    """Return the files beside ``path`` that hold tensors of the graph in it, without those that lie in it.

    Raises:
        ModelError: It cannot be read, or a file is not beside it.
    """
    import onnx  # noqa: PLC0415
    from onnx import external_data_helper  # noqa: PLC0415

    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as exc:  # see wrap
        raise ModelError(f"{path} cannot be read as ONNX: {exc}", hint="is the download whole?") from exc
    names = {
        entry.value
        for graph in (model.graph, *model.functions)
        for tensor in _tensors(graph)
        if external_data_helper.uses_external_data(tensor)
        for entry in tensor.external_data
        if entry.key == "location"
    }
    files = [path.parent / name for name in sorted(names)]
    for file in files:
        if ".." in file.parts or not file.is_relative_to(path.parent) or not file.is_file():
            raise ModelError(f"{path} needs {file}, which is no file beside it", hint="it comes with the model")
    return files


def _tensors(graph: Any) -> Iterator[Any]:
    """Yield the tensors of a graph or function, and of the graphs inside."""
    yield from getattr(graph, "initializer", ())
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)


def _input_kinds(graph: Any, path: Path) -> dict[str, int]:
    """Return the element type of each input that is no constant."""
    constants = {tensor.name for tensor in graph.initializer}
    kinds = {value.name: value.type.tensor_type.elem_type for value in graph.input if value.name not in constants}
    unknown = sorted(set(kinds) - set(INPUTS))
    if unknown or INPUT_IDS not in kinds:
        what = f"unknown inputs {', '.join(unknown)}" if unknown else f"no input {INPUT_IDS}"
        raise ModelError(
            f"{path} has {what}; its inputs are {', '.join(sorted(kinds)) or 'none'}",
            hint=f"a graph may take {', '.join(INPUTS)}",
        )
    return kinds


def _choose_output(graph: Any, path: Path, pooling: Pooling | None) -> tuple[Any, Pooling | Literal["graph"]]:
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in graph.output}
    by_name = {value.name: value for value in graph.output}
    named = [name for name in (*_TOKEN_OUTPUTS, *ranks) if ranks.get(name) == 3]
    tokens = named[0] if named else None
    if pooling is None and ranks.get(_POOLED_OUTPUT) == 2:
        return by_name[_POOLED_OUTPUT], "graph"
    if tokens is None:
        raise ModelError(
            f"{path} gives no vectors of tokens; its outputs are "
            + ", ".join(f"{name} (rank {rank})" for name, rank in ranks.items()),
            hint=f"it must have an output [batch, tokens, width], or {_POOLED_OUTPUT} [batch, width] and no --pooling",
        )
    if pooling is None:
        raise ModelError(
            f"nothing says how {path} is pooled", hint="say --pooling mean or --pooling cls, as its model card does"
        )
    return by_name[tokens], pooling


def _before(kinds: dict[str, int]) -> list[Any]:
    """Return the nodes that make the graph's inputs from int64 ids."""
    from onnx import helper, numpy_helper  # noqa: PLC0415

    nodes = [
        helper.make_node("Cast", [INPUT_IDS], [_PREFIX + INPUT_IDS], to=kinds[INPUT_IDS]),
        helper.make_node("Shape", [INPUT_IDS], ["shape"]),
    ]
    for name, value in ((ONES, 1), (ZEROS, 0)):
        if name in kinds:
            filled = numpy_helper.from_array(np.array([value], np.int64))
            nodes.append(helper.make_node("ConstantOfShape", ["shape"], [name], value=filled))
            nodes.append(helper.make_node("Cast", [name], [_PREFIX + name], to=kinds[name]))
    return nodes


def _after(output: str, pooling: str, *, takes_axes_as_input: bool) -> list[Any]:
    """Return the nodes that make a unit vector of the graph's output."""
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415

    nodes = [helper.make_node("Cast", [output], ["wide"], to=TensorProto.FLOAT)]
    pooled = "wide" if pooling == "graph" else "pooled"
    if pooling == "cls":
        first = numpy_helper.from_array(np.array(0, np.int64))
        nodes.append(helper.make_node("Constant", [], ["first"], value=first))
        nodes.append(helper.make_node("Gather", ["wide", "first"], [pooled], axis=1))
    elif pooling == "mean" and takes_axes_as_input:
        axes = numpy_helper.from_array(np.array([1], np.int64))
        nodes.append(helper.make_node("Constant", [], ["axes"], value=axes))
        nodes.append(helper.make_node("ReduceMean", ["wide", "axes"], [pooled], keepdims=0))
    elif pooling == "mean":
        nodes.append(helper.make_node("ReduceMean", ["wide"], [pooled], axes=[1], keepdims=0))
    nodes.append(helper.make_node("LpNormalization", [pooled], [OUTPUT], axis=-1, p=2))
    return nodes
