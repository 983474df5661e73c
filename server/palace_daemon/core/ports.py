"""The Protocols through which layers meet.

They live in the core, the lowest layer that names them, so that ``store``, ``embed`` and ``watch`` can satisfy them
without knowing each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]


class TokenCounter(Protocol):
    """Counts tokens as the chunking model does. Thread-safe."""

    max_tokens: int
    """Most tokens that one drawer may have, special tokens included."""

    def count(self, text: str) -> int:
        """Return the number of tokens of ``text``, special tokens included, without truncation."""
        ...


class Beside(Protocol):
    """What lies around a source and tells of it: its project, its title, the files that belong to its session.

    Paths are absolute and spelled as the source's own path is. Reads are bounded and never raise.
    """

    def read(self, path: str) -> bytes | None:
        """Return the whole file at ``path``, or ``None``: no such file, unreadable, or over 16 MiB."""
        ...

    def names(self, directory: str) -> tuple[str, ...]:
        """Return the names in ``directory``, sorted; empty where there is none."""
        ...


class StopSignal(Protocol):
    """Tells long work to stop; ``threading.Event`` satisfies it."""

    def is_set(self) -> bool:
        """Return whether the work should stop."""
        ...


class Embedder(Protocol):
    """Turns texts into unit vectors. Thread-safe; one text has one vector, whatever its company."""

    model_id: str
    fingerprint: str
    """Names the space of its vectors: equal ones mean comparable vectors."""
    dim: int
    max_tokens: int
    truncated: int
    """Passages that were cut, all of them because the caller asked for it."""

    def embed_passages(self, texts: Sequence[str], stop: StopSignal | None = None) -> Float32:
        """Return float32 ``[n, dim]``, rows L2-normalised, in the order of ``texts``.

        Raises:
            CancelledError: ``stop`` was set before all were done.
            ModelError: The runtime failed.
        """
        ...

    def embed_query(self, text: str) -> Float32:
        """Return float32 ``[dim]``; runs on the caller's thread and never waits behind passages."""
        ...

    def close(self) -> None:
        """Release threads and memory; idempotent."""
        ...


class Notifier(Protocol):
    """Reports paths that may have changed. Its reports are hints: duplicates and misses are allowed."""

    name: str
    """How it looks: ``inotify``, ``fsevents``, ``polling``, ``scripted`` ..., for ``status``."""

    def start(self, on_paths: Callable[[Sequence[str]], None]) -> None:
        """Begin to report; ``on_paths`` is called from the notifier's thread and must return at once."""
        ...

    def watch(self, directory: str) -> None:
        """Watch ``directory`` and all below it; called again for a directory that appeared. Never raises."""
        ...

    def stop(self) -> None:
        """Stop reporting; idempotent; no call of ``on_paths`` after it returns."""
        ...
