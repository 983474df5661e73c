"""Debouncing: which of the reported paths are due."""

from __future__ import annotations

from collections.abc import Iterable

MAX_WAIT_FACTOR = 4
"""A path that never rests is due after this many quiet times. With 150 ms that is 0.6 s, which leaves room within the
second in which a new line must be recallable; a debouncer without it never reports a steadily written transcript."""


class PathBatch:
    """Collects paths until each has been quiet for a while, or has waited long enough. Not thread-safe.

    Every path has its own timer, so a busy transcript does not hold up the others. It knows no clock: callers pass
    seconds of any monotonic one.
    """

    def __init__(self, quiet_s: float) -> None:
        self._quiet_s = quiet_s
        self._max_wait_s = quiet_s * MAX_WAIT_FACTOR
        self._times: dict[str, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._times)

    def put(self, paths: Iterable[str], now: float) -> None:
        """Add paths that changed at ``now``, or restart their quiet time."""
        for path in paths:
            first, _ = self._times.get(path, (now, now))
            self._times[path] = (first, now)

    def wait_s(self, now: float) -> float | None:
        """Return the seconds after which :meth:`take` is worth a call; None when nothing waits. O(n)."""
        if not self._times:
            return None
        earliest = min(self._due_at(first, last) for first, last in self._times.values())
        # Never longer than the quiet time: a path that is put while the caller sleeps is due no sooner than that.
        return min(max(earliest - now, 0.0), self._quiet_s)

    def take(self, now: float) -> list[str]:
        """Remove and return the paths that are due, each once, in the order in which they were first put."""
        due = [path for path, (first, last) in self._times.items() if self._due_at(first, last) <= now]
        for path in due:
            del self._times[path]
        return due

    def _due_at(self, first: float, last: float) -> float:
        return min(last + self._quiet_s, first + self._max_wait_s)
