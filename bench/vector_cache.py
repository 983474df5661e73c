"""Vectors that outlive a run, so that the same texts are embedded once however often a set is measured.

A folder for each model holds append-only files of records: 32 bytes of key, then the vector as little-endian float32.
Each process that has something new writes a file of its own and all read those that were there when they opened the
cache, so any number of them may run at once; a record that was cut short by a crash is passed over.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from palace_daemon.core.ports import Embedder, Float32, StopSignal
from palace_daemon.errors import CancelledError, ConfigError

KEY_BYTES = 32
_BATCH_TEXTS = 64
"""Texts between two writes: what an interrupted run loses at most."""
_LENGTH_TOLERANCE = 1e-3
_UNSAFE = re.compile(r"[^\w.@-]")


def default_folder() -> Path:
    """Return the place of the cache: beside the models in the platform's cache directory."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        chosen = os.environ.get("XDG_CACHE_HOME", "")
        base = Path(chosen) if chosen.startswith("/") else Path.home() / ".cache"
    return base / "palace" / "bench"


class VectorCache:
    """Vectors of one model by text. For one process at a time on one thread; several processes may share a folder."""

    def __init__(self, folder: Path, fingerprint: str, dim: int) -> None:
        """Open the cache, and read which texts it knows.

        Args:
            folder: Of all models; made where it is missing.
            fingerprint: Names the model: equal fingerprints mean comparable vectors.
            dim: Length of its vectors.

        Raises:
            ConfigError: The folder is none, or cannot be made or read.
        """
        self._fingerprint = fingerprint
        self._dtype = np.dtype([("key", np.uint8, (KEY_BYTES,)), ("vector", "<f4", (dim,))])
        self._folder = folder / _UNSAFE.sub("_", fingerprint)
        self._shards: list[NDArray[Any]] = []
        self._rows: dict[bytes, tuple[int, int]] = {}
        self._added: dict[bytes, Float32] = {}
        self._file: IO[bytes] | None = None
        with self._told():
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for path in sorted(self._folder.glob("*.bin")):
                self._load(path)

    def __len__(self) -> int:
        """Return how many texts are known."""
        return len(self._rows) + len(self._added)

    def get(self, text: str) -> Float32 | None:
        """Return the vector of ``text``, or None where it is not known."""
        key = self._key(text)
        if (added := self._added.get(key)) is not None:
            return added
        found = self._rows.get(key)
        if found is None:
            return None
        shard, row = found
        vector: Float32 = np.array(self._shards[shard]["vector"][row], np.float32)
        # A file system may have lost a block of a file whose length it kept.
        is_whole = abs(float(vector @ vector) - 1.0) < _LENGTH_TOLERANCE
        return vector if is_whole else None

    def put(self, texts: Sequence[str], matrix: Float32) -> None:
        """Keep float32 ``[n, dim]`` for ``texts``, in memory and on disk.

        Raises:
            ConfigError: The folder cannot be written to.
        """
        records = np.zeros(len(texts), self._dtype)
        for at, text in enumerate(texts):
            key = self._key(text)
            records["key"][at] = np.frombuffer(key, np.uint8)
            records["vector"][at] = matrix[at]
            self._added[key] = np.array(matrix[at], np.float32)
        with self._told():
            if self._file is None:
                self._file = (self._folder / f"{os.getpid()}-{secrets.token_hex(6)}.bin").open("xb")
            self._file.write(records.tobytes())
            self._file.flush()

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise ConfigError(
                f"cannot keep vectors in {self._folder}: {exc.strerror}", hint="--cache takes a folder to write to"
            ) from exc

    def _load(self, path: Path) -> None:
        count = path.stat().st_size // self._dtype.itemsize
        if not count:
            return
        shard: NDArray[Any] = np.memmap(path, self._dtype, mode="r", shape=(count,))
        for row, key in enumerate(np.array(shard["key"])):
            self._rows.setdefault(key.tobytes(), (len(self._shards), row))
        self._shards.append(shard)

    def _key(self, text: str) -> bytes:
        named = hashlib.sha256(self._fingerprint.encode())
        named.update(b"\0")
        named.update(text.encode("utf-8", "surrogatepass"))
        return named.digest()


class CachedEmbedder:
    """Embeds what the cache lacks; satisfies :class:`~palace_daemon.core.ports.Embedder`.

    Of questions only the last one is kept, for further searches with it; so the time of a first search is the real one.
    """

    def __init__(
        self, model: Embedder, cache: VectorCache, embed: Callable[[Sequence[str]], Float32] | None = None
    ) -> None:
        """Take the model and the cache; both are closed with this.

        ``embed`` stands in for the model's ``embed_passages``.
        """
        self.model_id = model.model_id
        self.fingerprint = model.fingerprint
        self.truncated = 0
        self.dim = model.dim
        self.max_tokens = model.max_tokens
        self.from_cache = 0
        """Texts that the cache had."""
        self.embedded = 0
        """Texts that it lacked."""
        self.embed_s = 0.0
        """What embedding those took."""
        self._model = model
        self._cache = cache
        self._embed = embed or model.embed_passages
        self._question: tuple[str, Float32] | None = None

    def embed_passages(self, texts: Sequence[str], stop: StopSignal | None = None) -> Float32:
        """Return float32 ``[n, dim]``, rows L2-normalised, in the order of ``texts``."""
        matrix = np.empty((len(texts), self.dim), np.float32)
        missing: dict[str, list[int]] = {}
        for row, text in enumerate(texts):
            known = self._cache.get(text)
            if known is None:
                missing.setdefault(text, []).append(row)
            else:
                matrix[row] = known
        self.from_cache += len(texts) - sum(map(len, missing.values()))
        lacking = list(missing)
        for start in range(0, len(lacking), _BATCH_TEXTS):
            if stop is not None and stop.is_set():
                raise CancelledError("embedding was stopped")
            batch = lacking[start : start + _BATCH_TEXTS]
            for text, vector in zip(batch, self._fresh(batch), strict=True):
                matrix[missing[text]] = vector
        return matrix

    def _fresh(self, texts: Sequence[str]) -> Float32:
        began = time.perf_counter()
        vectors = self._embed(texts)
        self.embed_s += time.perf_counter() - began
        self.embedded += len(texts)
        self._cache.put(texts, vectors)
        return vectors

    def embed_query(self, text: str) -> Float32:
        """Return float32 ``[dim]`` from the model."""
        if self._question is None or self._question[0] != text:
            self._question = text, self._model.embed_query(text)
        return self._question[1]

    def close(self) -> None:
        """Close the model and the cache; idempotent."""
        self._model.close()
        self._cache.close()
