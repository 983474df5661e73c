"""Noticing changes by looking: for directories on which notifications do not work."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from palace_daemon.model import FileStat
from palace_daemon.watch.discover import walk

logger = logging.getLogger(__name__)

DEFAULT_INTERVAL_S = 2.0
"""Between two looks: a new line is then recallable by words within about three seconds."""

DUTY = 300
"""The pause is at least this many times as long as the look before it, so that polling costs about a third of a percent
of a core however many files there are (5,000 files take 60 ms to look at, and are then looked at every 18 s)."""

JOIN_S = 5.0

Snapshot = dict[str, FileStat]


class PollingNotifier:
    """Compares stat snapshots of the watched roots at an interval. Thread-safe; one daemon thread.

    From the return of :meth:`watch` on, every change that lasts until the next look is reported. A root that does not
    exist is reported in full when it appears. One that disappears, wholly or in an unreadable part, is not reported:
    an unplugged volume is no deletion.
    """

    def __init__(self, interval_s: float = DEFAULT_INTERVAL_S) -> None:
        self.name = "polling"
        """For ``status``."""
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._snapshots: dict[str, Snapshot] = {}
        self._on_paths: Callable[[Sequence[str]], None] | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, on_paths: Callable[[Sequence[str]], None]) -> None:
        """Begin to look; a second call does nothing."""
        with self._lock:
            if self._thread is not None:
                return
            self._on_paths = on_paths
            self._thread = threading.Thread(target=self._run, name="palace-poll", daemon=True)
            self._thread.start()

    def watch(self, directory: str) -> None:
        """Watch ``directory`` (or a single file); looks at it once before it returns."""
        with self._lock:
            if directory in self._snapshots:
                return
        snapshot = _look(directory, {})
        with self._lock:
            self._snapshots.setdefault(directory, snapshot)

    def stop(self) -> None:
        """Stop looking and wait for the thread; idempotent."""
        self._stopping.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_S)

    def _run(self) -> None:
        pause_s = self._interval_s
        while not self._stopping.wait(pause_s):
            began = time.monotonic()
            self._tick()
            pause_s = max(self._interval_s, (time.monotonic() - began) * DUTY)

    def _tick(self) -> None:
        with self._lock:
            roots = list(self._snapshots.items())
        changed: dict[str, None] = {}
        for root, old in roots:
            if self._stopping.is_set():
                return
            new = _look(root, old)
            changed.update(dict.fromkeys(_differences(old, new)))
            with self._lock:
                if root in self._snapshots:
                    self._snapshots[root] = new
        if changed and self._on_paths is not None and not self._stopping.is_set():
            try:
                self._on_paths(list(changed))
            except Exception:  # the thread must not die of one batch; the rescan makes up for it
                logger.exception("a listener failed on %d changed paths", len(changed))


def _look(root: str, old: Snapshot) -> Snapshot:
    """Return what stands below ``root`` now; what cannot be seen is taken to be as it was."""
    unseen: list[str] = []
    new = dict(walk(root, _accept, lambda path, _error: unseen.append(path)))
    if not new and old:
        return old  # the root is gone or empty: nothing that was in it is reported
    for hidden in unseen:
        prefix = hidden.rstrip("/\\")
        for path, stat in old.items():
            if path == hidden or path.startswith((prefix + "/", prefix + "\\")):
                new.setdefault(path, stat)
    return new


def _accept(path: str) -> bool:  # noqa: ARG001 - which files matter is the service's affair
    return True


def _differences(old: Snapshot, new: Snapshot) -> list[str]:
    changed = [path for path, stat in new.items() if old.get(path) != stat]
    return changed + [path for path in old if path not in new]
