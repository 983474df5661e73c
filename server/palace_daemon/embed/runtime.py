"""Opens graphs in ONNX Runtime and feeds them token ids, one way for what users run and what it is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palace_daemon.embed import registry
from palace_daemon.embed.arithmetic import PRECISE_KEY
from palace_daemon.embed.graph import INPUT_IDS, INPUT_MASK
from palace_daemon.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

    from onnxruntime import InferenceSession

Ids = list[int]


def feed(texts: list[Ids], *, is_batched: bool) -> dict[str, NDArray[Any]]:
    """Return the inputs of a graph: the ids of each text, padded to the longest; a mask where the graph takes one."""
    width = max(map(len, texts))
    ids = np.zeros((len(texts), width), np.int64)  # 0 is [PAD]
    for row, text in enumerate(texts):
        ids[row, : len(text)] = text
    if not is_batched:
        return {INPUT_IDS: ids}
    lengths = np.array([len(text) for text in texts])
    return {INPUT_IDS: ids, INPUT_MASK: (np.arange(width) < lengths[:, None]).astype(np.int32)}


def open_session(path: Path, *, precise: bool = False, profile_prefix: str = "") -> InferenceSession:
    """Return the graph in ``path``, whose calls run on the thread that makes them.

    Args:
        path: An ONNX file.
        precise: Whether integer products take the slower kernels that never saturate.
        profile_prefix: Where to write a profile, if anywhere.

    Raises:
        ModelError: The runtime does not take the file.
    """
    import onnxruntime  # noqa: PLC0415 - 60 ms that importing this module must not cost

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # A memory pattern is kept for each shape, and almost every text has a length of its own.
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    options.add_session_config_entry(PRECISE_KEY, "1" if precise else "0")
    if profile_prefix:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as exc:  # the binding's exceptions share no base but Exception
        raise ModelError(f"the runtime cannot open {path}: {exc}", hint=registry.INSTALL_HINT) from exc
