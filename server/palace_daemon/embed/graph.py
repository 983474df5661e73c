"""A small writer of ONNX graphs, and the parts that both precisions share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from palace_daemon.embed.shape import BertShape
    from palace_daemon.embed.weights import Float32

MICROSOFT = "com.microsoft"
"""The operator domain of ONNX Runtime's own fused operators."""
OPSET = 18
"""First one in which the reductions take their axes as an input; every ONNX Runtime that we allow knows it."""
MICROSOFT_OPSET = 1
IR_VERSION = 9
"""The format's version, held down so that a newer ``onnx`` still writes what an older runtime reads."""
INPUT_IDS = "input_ids"
INPUT_MASK = "attention_mask"
OUTPUT = "vector"


class GraphWriter:
    """Collects nodes and constants; values are named by strings, as in ONNX. Not thread-safe."""

    def __init__(self, shape: BertShape) -> None:
        from onnx import helper, numpy_helper  # noqa: PLC0415 - 150 ms, and only building needs it

        self._shape = shape
        self._helper = helper
        self._to_tensor = numpy_helper.from_array
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._tokens: str | None = None

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """Add a constant once and return its name; the first value given under a name stays."""
        if name not in self._constants:
            self._constants[name] = self._to_tensor(np.ascontiguousarray(value).reshape(np.shape(value)), name)
        return name

    def ints(self, *values: int) -> str:
        """Return the name of a constant int64 ``[len(values)]``."""
        return self.constant("i" + "_".join(map(str, values)), np.array(values, np.int64))

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output and return the output's name."""
        output = f"{kind}_{len(self._nodes)}"
        self._nodes.append(
            self._helper.make_node(kind, list(inputs), [output], name=output, domain=domain, **attributes)
        )
        return output

    def layer_norm(self, x: str, name: str, gain: Float32, bias: Float32) -> str:
        """Add a LayerNorm over the last axis."""
        return self.op(
            "LayerNormalization",
            x,
            self.constant(f"{name}_gain", gain),
            self.constant(f"{name}_bias", bias),
            axis=-1,
            epsilon=self._shape.layer_norm_epsilon,
        )

    def positions(self, table: Float32) -> str:
        """Return the first ``tokens`` rows of the position table.

        Sliced directly: a ``Gather`` by ``Range`` is rewritten by ONNX Runtime's optimiser into a broken ``Slice``.
        """
        return self.op("Slice", self.constant("positions", table), self.ints(0), self.tokens())

    def tokens(self) -> str:
        """Return the number of tokens of each text, int64 ``[1]``; it is found once."""
        if self._tokens is None:
            self._tokens = self.op("Slice", self.op("Shape", INPUT_IDS), self.ints(1), self.ints(2))
        return self._tokens

    def finish(self, vectors: str, *, masked: bool) -> bytes:
        """Normalise ``vectors`` ``[batch, hidden]`` to length 1, make them the output, and return the model's bytes."""
        from onnx import TensorProto, checker  # noqa: PLC0415

        helper = self._helper
        unit = self.op("LpNormalization", vectors, axis=-1, p=2)
        self._nodes.append(helper.make_node("Identity", [unit], [OUTPUT], name=OUTPUT))
        inputs = [helper.make_tensor_value_info(INPUT_IDS, TensorProto.INT64, ["batch", "tokens"])]
        if masked:
            inputs.append(helper.make_tensor_value_info(INPUT_MASK, TensorProto.INT32, ["batch", "tokens"]))
        output = helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", self._shape.hidden])
        graph = helper.make_graph(self._nodes, "minilm", inputs, [output], list(self._constants.values()))
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, MICROSOFT_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="palace-daemon")
        checker.check_model(model)
        return bytes(model.SerializeToString())
