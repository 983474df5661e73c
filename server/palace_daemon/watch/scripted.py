"""A notifier that reports what it is told to: for the bench, for ``mine`` without a daemon, and for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence


class ScriptedNotifier:
    """Reports the paths given to :meth:`emit`, on the caller's thread. Thread-safe."""

    def __init__(self) -> None:
        self.name = "scripted"
        """For ``status``."""
        self.watched: list[str] = []
        """Directories passed to :meth:`watch`, each once, in order."""
        self._lock = threading.RLock()
        self._on_paths: Callable[[Sequence[str]], None] | None = None

    def start(self, on_paths: Callable[[Sequence[str]], None]) -> None:
        """Begin to report."""
        with self._lock:
            self._on_paths = on_paths

    def watch(self, directory: str) -> None:
        """Note that ``directory`` is watched; what is emitted is not checked against it."""
        with self._lock:
            if directory not in self.watched:
                self.watched.append(directory)

    def emit(self, paths: Iterable[str]) -> bool:
        """Report ``paths``, each once, before returning.

        Returns:
            Whether they were reported: false before :meth:`start`, after :meth:`stop`, and for no paths.
        """
        batch = list(dict.fromkeys(paths))
        with self._lock:
            if self._on_paths is None or not batch:
                return False
            self._on_paths(batch)
            return True

    def stop(self) -> None:
        """Stop reporting; idempotent."""
        with self._lock:
            self._on_paths = None
