"""Operator times of a graph, read from the runtime's own profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palace_daemon.embed.profiling import profile, read_events
from palace_daemon.errors import ModelError

INT8 = "all-minilm-l6-v2-int8"
FP32 = "all-minilm-l6-v2-fp32"
IDS = [101, *range(2000, 2010), 102]


def node(name: str, operator: str, took_us: int, inputs: list[list[int]], outputs: list[list[int]]) -> dict[str, Any]:
    shapes = {"input_type_shape": [{"float": s} for s in inputs], "output_type_shape": [{"float": s} for s in outputs]}
    return {"cat": "Node", "name": f"{name}_kernel_time", "dur": took_us, "args": {"op_name": operator, **shapes}}


def test_the_least_time_of_each_node_counts_and_only_kernels_do() -> None:
    events = [
        {"cat": "Session", "name": "model_run", "dur": 900},
        node("a", "Add", 30, [[1, 7, 4]], [[1, 7, 4]]),
        node("b", "Add", 10, [[1, 7, 4]], [[1, 7, 4]]),
        {"cat": "Node", "name": "a_fence_before", "dur": 1, "args": {"op_name": "Add"}},
        node("a", "Add", 20, [[1, 7, 4]], [[1, 7, 4]]),
        node("a", "Add", 25, [[1, 7, 4]], [[1, 7, 4]]),
    ]
    assert [(found.operator, found.took_us, found.multiplications) for found in read_events(events)] == [
        ("Add", 20, 0),
        ("Add", 10, 0),
    ]


def test_multiplications_of_a_product_come_from_its_shapes() -> None:
    """The packed matrix is missing among the inputs."""
    (found,) = read_events([node("p", "MatMulIntegerToFloat", 5, [[1, 7, 384], [], [1536]], [[1, 7, 1536]])])
    assert found.multiplications == 7 * 384 * 1536


def test_the_int8_model_spends_its_products_in_whole_numbers(models_dir: Path) -> None:
    found = profile(INT8, models_dir, IDS, runs=2)
    parameters = 6 * (4 * 384 * 384 + 2 * 384 * 1536)
    assert sum(one.multiplications for one in found.nodes) == len(IDS) * parameters
    operators = {one.operator for one in found.nodes}
    assert {"MatMulIntegerToFloat", "MultiHeadAttention", "FastGelu", "LayerNormalization"} <= operators
    assert not operators & {"MatMul", "Gemm"}
    assert found.run_us > 0


def test_the_fp32_model_has_no_product_in_whole_numbers(models_dir: Path) -> None:
    found = profile(FP32, models_dir, IDS, runs=1)
    assert {"MatMul", "Attention"} <= {one.operator for one in found.nodes}
    assert sum(one.multiplications for one in found.nodes) == 0


def test_a_missing_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not installed"):
        profile(INT8, tmp_path, IDS, runs=1)
