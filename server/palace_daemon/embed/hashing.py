"""A deterministic embedder without a model, for unit tests of other layers.

It is shipped so that those tests run the product's own wiring, and it passes the real one's contract test.
It knows no meaning: two texts are similar as far as they share words and parts of words.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import numpy as np

from palace_daemon.errors import CancelledError, ClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from palace_daemon.core.ports import Float32, StopSignal

_WORD = re.compile(r"\w+")
_PART_CHARS = 3
_WORD_WEIGHT = 3
"""A shared word counts as much as nine shared trigrams, so that words decide and endings do not."""


class HashingEmbedder:
    """Embeds a text as the signed, hashed bag of its words and their trigrams. Thread-safe."""

    def __init__(self, dim: int = 384, model_id: str = "hashing", max_tokens: int = 512) -> None:
        self.dim = dim
        self.model_id = model_id
        self.max_tokens = max_tokens
        self.fingerprint = f"{model_id}@1"
        self.truncated = 0
        self._is_closed = False

    def embed_passages(self, texts: Sequence[str], stop: StopSignal | None = None) -> Float32:
        """Return float32 ``[n, dim]``, rows L2-normalised, in the order of ``texts``.

        Raises:
            CancelledError: ``stop`` was set before all were done.
            ClosedError: After :meth:`close`.
        """
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in enumerate(texts):
            if stop is not None and stop.is_set():
                raise CancelledError("embedding was stopped")
            vectors[row] = self.embed_query(text)
        return vectors

    def embed_query(self, text: str) -> Float32:
        """Return float32 ``[dim]``, L2-normalised; a text without words gives the first unit vector.

        Raises:
            ClosedError: After :meth:`close`.
        """
        if self._is_closed:
            raise ClosedError("the embedder is closed")
        vector = np.zeros(self.dim, np.float32)
        for feature, weight in _features(text):
            value = int.from_bytes(hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest())
            vector[(value >> 1) % self.dim] += weight if value & 1 else -weight
        norm = float(np.linalg.norm(vector))
        if norm == 0.0:
            vector[0] = norm = 1.0
        return vector / np.float32(norm)

    def close(self) -> None:
        """Refuse further work; idempotent."""
        self._is_closed = True


def _features(text: str) -> Iterator[tuple[str, int]]:
    """Yield words and their trigrams, marked at the ends, with their weights."""
    for word in _WORD.findall(text.lower()):
        yield word, _WORD_WEIGHT
        marked = f"<{word}>"
        for start in range(len(marked) - _PART_CHARS + 1):
            yield f"#{marked[start : start + _PART_CHARS]}", 1
