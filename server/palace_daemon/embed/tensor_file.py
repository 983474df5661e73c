"""Reads ``.safetensors`` files: a length, a JSON table of names, and the numbers one after the other.

Read here rather than by the format's own binding, which gives no numpy array for bfloat16 and changes its low-level
functions between versions. Tensors are read one at a time, so that the file is never in memory as a whole twice.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import msgspec
import numpy as np
from msgspec import Struct

from palace_daemon.core.ports import Float32
from palace_daemon.errors import ModelError

_LENGTH_BYTES = 8
_HEADER_BYTES_MAX = 100_000_000
"""The format's own limit."""
_METADATA = "__metadata__"
_BYTES = {"F32": 4, "F16": 2, "BF16": 2, "F64": 8}
"""The kinds that are read; whole numbers (such as a table of position ids) are no weights."""
_NUMPY = {"F32": "<f4", "F16": "<f2", "F64": "<f8"}


class _Entry(Struct, frozen=True):
    """A row of the table."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


class TensorFile(Mapping[str, Float32]):
    """The floating-point tensors of a file, each read and widened to float32 when it is asked for.

    Raises:
        ModelError: The file cannot be read or is no safetensors file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as file:
                size = int.from_bytes(file.read(_LENGTH_BYTES), "little")
                if size > _HEADER_BYTES_MAX:
                    raise ModelError(f"{path} is no safetensors file: its header would have {size} bytes")
                header = file.read(size)
                if len(header) != size:
                    raise ModelError(f"{path} is no safetensors file, or a cut one: it ends within its header")
                table = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
            table.pop(_METADATA, None)
            entries = {name: msgspec.json.decode(row, type=_Entry) for name, row in table.items()}
        except OSError as exc:
            raise ModelError(f"cannot read {path}: {exc.strerror or exc}") from exc
        except (msgspec.DecodeError, RecursionError) as exc:
            raise ModelError(f"{path} is no safetensors file, or a cut one: {exc}") from exc
        self._start = _LENGTH_BYTES + size
        self._entries = {name: entry for name, entry in entries.items() if entry.dtype in _BYTES}
        self._check(path.stat().st_size - self._start)

    def _check(self, size_bytes: int) -> None:
        for name, entry in self._entries.items():
            begin, end = entry.data_offsets
            expected = math.prod(entry.shape) * _BYTES[entry.dtype]
            if not 0 <= begin <= end <= size_bytes or end - begin != expected:
                raise ModelError(f"{self._path} is damaged or cut: {name} lies at {begin} to {end} of {size_bytes}")
        # Tensors that share bytes would make more memory of a file than it has size.
        places = sorted(entry.data_offsets for entry in self._entries.values())
        for (_, end), (begin, _) in itertools.pairwise(places):
            if begin < end:
                raise ModelError(f"{self._path} is damaged: two tensors lie at {begin}")

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Return a tensor's shape without reading it."""
        return self._entries[name].shape

    def __getitem__(self, name: str) -> Float32:
        entry = self._entries[name]
        begin, end = entry.data_offsets
        with self._path.open("rb") as file:
            file.seek(self._start + begin)
            return _widened(_read(file, end - begin), entry)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _read(file: IO[bytes], size_bytes: int) -> bytes:
    content = file.read(size_bytes)
    if len(content) != size_bytes:
        raise ModelError(f"{file.name} was cut while it was read")
    return content


def _widened(raw: bytes, entry: _Entry) -> Float32:
    """Return the numbers as float32; a bfloat16 is the upper half of one."""
    if entry.dtype == "BF16":
        upper = np.frombuffer(raw, "<u2").astype(np.uint32) << 16
        return upper.view(np.float32).reshape(entry.shape)
    return np.frombuffer(raw, _NUMPY[entry.dtype]).astype(np.float32).reshape(entry.shape)
