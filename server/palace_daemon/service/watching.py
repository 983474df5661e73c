"""What is watched: default directories of the agents, configured ones, and when they are looked at again."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from palace_daemon.config import WatchConfig
from palace_daemon.core.ports import Notifier
from palace_daemon.core.transcripts import registry
from palace_daemon.errors import SourceError
from palace_daemon.model import WatchedDir
from palace_daemon.service.queue import MiningQueue
from palace_daemon.watch import discover

logger = logging.getLogger(__name__)

Found = tuple[str, int]
"""Resolved path and mtime in nanoseconds."""
_TICK_S = 1.0


def default_dirs(config: WatchConfig, environ: Mapping[str, str], home: str, platform: str) -> list[WatchedDir]:
    """Return where the agents that are switched on write, existing or not, then the configured paths."""
    dirs: dict[str, WatchedDir] = {}
    if config.defaults:
        for known in registry.FORMATS:
            if known.agent not in config.agents_off:
                for path in known.default_dirs(environ, home, platform):
                    dirs.setdefault(
                        path, WatchedDir(path=path, agent=known.agent, origin="default", exists=os.path.exists(path))
                    )
    for path in config.paths:
        full = os.path.abspath(os.path.expanduser(path))
        dirs.setdefault(full, WatchedDir(path=full, agent="", origin="config", exists=os.path.exists(full)))
    return list(dirs.values())


def find_sources(path: str, on_error: discover.ErrorListener | None = None) -> list[Found]:
    """Return the transcript files at or below ``path``, newest first; a named file is returned whatever its name.

    Raises:
        SourceError: There is nothing at ``path``.
    """
    resolved = discover.resolve(path)
    if not os.path.lexists(resolved):
        raise SourceError(f"there is no file or directory at {path}", hint="check the path")
    if not os.path.isdir(resolved):
        return [(resolved, mtime_ns(resolved))]
    found = [(name, stat.mtime_ns) for name, stat in discover.walk(resolved, registry.may_hold, on_error)]
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))


class Watching:
    """Turns notifications and timers into queued sources. Owns one thread besides the notifier's."""

    def __init__(
        self, config: WatchConfig, queue: MiningQueue, notifier: Notifier, known_paths: Callable[[], list[str]]
    ) -> None:
        """Take what to watch, the queue to fill, the notifier, and the way to the stored sources' paths."""
        self._config = config
        self._queue = queue
        self._notifier = notifier
        self._known_paths = known_paths
        self._stop = threading.Event()
        self._roots: list[str] = []
        self._tails: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="palace-rescan", daemon=True)
        self.problems: dict[str, str] = {}
        """Path to reason, of what the last scan could not look into."""
        self._former_problems: dict[str, str] = {}

    @property
    def notifier_name(self) -> str:
        """How changes are noticed."""
        return self._notifier.name

    def dirs(self) -> tuple[WatchedDir, ...]:
        """Return what is watched, with what is there now."""
        return tuple(default_dirs(self._config, os.environ, os.path.expanduser("~"), sys.platform))

    def start(self) -> None:
        """Watch all roots and scan them in the background."""
        self._roots = [discover.resolve(item.path) for item in self.dirs()]
        self._notifier.start(self._on_paths)
        for root in self._roots:
            self._notifier.watch(root)
        self._thread.start()

    def scan(self) -> int:
        """Queue every source below the roots, and every stored one that is not there any more; returns how many."""
        seen: set[str] = set()
        self._former_problems, self.problems = self.problems, {}
        for root in self._roots:
            if self._stop.is_set():
                return len(seen)
            for path, stat in discover.walk(root, registry.may_hold, self._note_problem):
                seen.add(path)
                self._queue.put(path, stat.mtime_ns)
        for path in self._known_paths():
            if path not in seen and not os.path.lexists(path) and self._is_below_root(path):
                self._queue.put(path, 0)
        return len(seen)

    def note_tail(self, path: str, changed_ns: int) -> None:
        """Remember that ``path`` ends in a line without line end, to be taken once it has been idle long enough."""
        with self._lock:
            known = self._tails.get(path)
            if known is None or known[0] != changed_ns:
                self._tails[path] = (changed_ns, time.monotonic() + self._config.idle_tail_s)

    def drop_tail(self, path: str) -> None:
        """Forget the held-back line of ``path``: it was consumed."""
        with self._lock:
            self._tails.pop(path, None)

    def close(self) -> None:
        """Stop watching; idempotent."""
        self._stop.set()
        self._notifier.stop()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def _run(self) -> None:
        next_scan = time.monotonic()
        while not self._stop.is_set():
            try:
                if time.monotonic() >= next_scan:
                    self.scan()
                    next_scan = time.monotonic() + self._config.rescan_s
                self._queue_idle_tails()
            except Exception:
                logger.exception("a rescan failed; the next one is in %.0f s", self._config.rescan_s)
                next_scan = time.monotonic() + self._config.rescan_s
            self._stop.wait(_TICK_S)

    def _queue_idle_tails(self) -> None:
        now = time.monotonic()
        with self._lock:
            ready = [(path, changed_ns) for path, (changed_ns, due) in self._tails.items() if due <= now]
            for path, _ in ready:
                del self._tails[path]
        for path, changed_ns in ready:
            self._queue.put(path, changed_ns, take_tail=True)

    def _on_paths(self, paths: Sequence[str]) -> None:
        """Queue what a notification names; called on the notifier's thread."""
        for path in paths:
            resolved = discover.resolve(path)
            if not self._is_below_root(resolved):
                continue  # a link deeper in the tree that leads out of it
            if os.path.isdir(resolved):
                for found, stat in discover.walk(resolved, registry.may_hold, self._note_problem):
                    self._queue.put(found, stat.mtime_ns)
            elif registry.may_hold(resolved):
                self._queue.put(resolved, mtime_ns(resolved))

    def _is_below_root(self, path: str) -> bool:
        return any(path == root or path.startswith(root + os.sep) for root in self._roots)

    def _note_problem(self, path: str, error: OSError) -> None:
        reason = error.strerror or type(error).__name__
        self.problems[path] = reason
        if self._former_problems.get(path) != reason:
            logger.warning("cannot look into %s: %s", path, reason)


def mtime_ns(path: str) -> int:
    """Return when the file changed last; now, if it is gone, so that this is noticed soon."""
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return time.time_ns()
