"""Asks the runtime whether its integer products are exact on this CPU.

CPUs without VNNI add pairs of unsigned-by-signed 8-bit products in 16 bits, where they saturate. The int8 graph keeps
to 7 bits so that this cannot happen; whether that holds is checked here against whole numbers, not believed. If it does
not, the runtime's precise kernels (``session.x64quantprecision``) are tried.
"""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np
from msgspec import Struct

from palace_daemon.embed.graph_int8 import ACTIVATION_MAX, WEIGHT_MAX

PRECISE_KEY = "session.x64quantprecision"
"""ONNX Runtime session option: ``1`` runs products that might saturate in slower kernels that do not."""
_ROWS, _DEPTH, _COLUMNS = 5, 384, 48
"""Odd rows and a depth of the model's own width, so that full and partial blocks of the kernels are run."""
_BYTE_MAX = 255


class IntegerArithmetic(Struct, frozen=True, kw_only=True):
    """What the integer kernels do on this machine."""

    products: Literal["exact", "saturates"]
    """Of the int8 graph as it is run here."""
    full_range: Literal["exact", "saturates"]
    """Of products with all 8 bits in the default kernels; the graph does not need them."""
    precise_kernels: bool
    """Whether the slower kernels had to be chosen."""


@functools.cache
def integer_arithmetic() -> IntegerArithmetic:
    """Return what was found on this machine; runs three tiny products once (about 10 ms)."""
    full_range = _verdict(_BYTE_MAX, precise=False)
    if _is_exact(ACTIVATION_MAX, precise=False):
        return IntegerArithmetic(products="exact", full_range=full_range, precise_kernels=False)
    products = _verdict(ACTIVATION_MAX, precise=True)
    return IntegerArithmetic(products=products, full_range=full_range, precise_kernels=True)


def _verdict(activation_max: int, *, precise: bool) -> Literal["exact", "saturates"]:
    return "exact" if _is_exact(activation_max, precise=precise) else "saturates"


def _is_exact(activation_max: int, *, precise: bool) -> bool:
    """Return whether products of the largest values come out right, in both operators that add up in integers."""
    import onnxruntime  # noqa: PLC0415 - importing this module costs nothing

    activations = np.full((_ROWS, _DEPTH), activation_max, np.uint8)
    activations[:, ::7] = 0
    weights = np.full((_DEPTH, _COLUMNS), WEIGHT_MAX, np.int8)
    weights[:, 1::2] = -WEIGHT_MAX
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry(PRECISE_KEY, "1" if precise else "0")
    session = onnxruntime.InferenceSession(_probe(weights), options, providers=["CPUExecutionProvider"])
    expected = activations.astype(np.int64) @ weights.astype(np.int64)
    return all(np.array_equal(found, expected) for found in session.run(None, {"a": activations}))


def _probe(weights: np.ndarray[tuple[int, int], np.dtype[np.int8]]) -> bytes:
    """Return a model that multiplies uint8 ``a`` by ``weights`` with ``MatMulInteger`` and ``MatMulIntegerToFloat``."""
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415

    constants = [
        numpy_helper.from_array(value, name)
        for name, value in (
            # One copy for each: the rewriting for the precise kernels fails on a shared constant (runtime 1.32).
            ("b", weights),
            ("c", weights),
            ("zero", np.array(0, np.uint8)),
            ("one", np.array(1, np.float32)),
            ("ones", np.ones(_COLUMNS, np.float32)),
        )
    ]
    nodes = [
        helper.make_node("MatMulInteger", ["a", "b", "zero"], ["y"]),
        helper.make_node("MatMulIntegerToFloat", ["a", "c", "one", "ones", "zero"], ["z"], domain="com.microsoft"),
    ]
    inputs = [helper.make_tensor_value_info("a", TensorProto.UINT8, [_ROWS, _DEPTH])]
    outputs = [
        helper.make_tensor_value_info("y", TensorProto.INT32, [_ROWS, _COLUMNS]),
        helper.make_tensor_value_info("z", TensorProto.FLOAT, [_ROWS, _COLUMNS]),
    ]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "probe", inputs, outputs, constants)
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())
