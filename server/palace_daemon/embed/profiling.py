"""Times the operators of an installed model's graph, through ONNX Runtime's own profiling."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from palace_daemon.embed import minilm

if TYPE_CHECKING:
    from collections.abc import Sequence

_NODE_SUFFIX = "_kernel_time"
_INTEGER_PRODUCTS = frozenset({"MatMulIntegerToFloat", "MatMulInteger"})


class NodeTime(Struct, frozen=True, kw_only=True):
    """One node of the graph."""

    operator: str
    took_us: float
    """Least of all runs, by the wall clock: what disturbs a run only ever adds."""
    multiplications: int
    """Of a product in whole numbers, for one run; 0 for all else."""


class GraphTimes(Struct, frozen=True, kw_only=True):
    """What one text cost."""

    nodes: tuple[NodeTime, ...]
    run_us: float
    """Least CPU time of a whole run, with what the runtime does between nodes, profiling included."""


def profile(model_id: str, models_dir: Path, ids: Sequence[int], runs: int) -> GraphTimes:
    """Run one text ``runs`` times and return what each node took.

    Args:
        model_id: An installed model.
        models_dir: Holds it.
        ids: Token ids of the text, special tokens included.
        runs: At least 1; the first one of a session allocates, so take several.

    Raises:
        ModelError: The model is missing or broken.
    """
    with tempfile.TemporaryDirectory(prefix="palace-profile-") as folder:
        path, least_s = minilm.run_profiled(model_id, models_dir, list(ids), runs, Path(folder) / "profile")
        events = msgspec.json.decode(path.read_bytes(), type=list[dict[str, Any]])
    return GraphTimes(nodes=read_events(events), run_us=least_s * 1e6)


def read_events(events: Sequence[dict[str, Any]]) -> tuple[NodeTime, ...]:
    """Return the least times in a profile of ONNX Runtime, one entry a node."""
    least: dict[str, NodeTime] = {}
    for event in events:
        name = str(event["name"])
        if event.get("cat") != "Node" or not name.endswith(_NODE_SUFFIX):
            continue
        found = _node_time(event)
        if name not in least or found.took_us < least[name].took_us:
            least[name] = found
    return tuple(least.values())


def _node_time(event: dict[str, Any]) -> NodeTime:
    operator = str(event["args"]["op_name"])
    multiplications = 0
    if operator in _INTEGER_PRODUCTS:
        # The matrix is missing here, since the runtime has packed it; the output's width is its width.
        (left,), (output,) = (event["args"][key][0].values() for key in ("input_type_shape", "output_type_shape"))
        rows = 1
        for size in left[:-1]:
            rows *= int(size)
        multiplications = rows * int(left[-1]) * int(output[-1])
    return NodeTime(operator=operator, took_us=float(event["dur"]), multiplications=multiplications)
