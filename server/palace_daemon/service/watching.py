"""What is watched: default directories of the agents, configured ones, and when they are looked at again."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from palace_daemon.config import WatchConfig
from palace_daemon.core.ports import Notifier
from palace_daemon.core.transcripts import registry
from palace_daemon.errors import SourceError
from palace_daemon.model import FileStat, WatchedDir
from palace_daemon.service import material as materials
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
        for known in registry.formats():
            if known.agent not in config.agents_off:
                for path in known.default_dirs(environ, home, platform):
                    dirs.setdefault(
                        path, WatchedDir(path=path, agent=known.agent, origin="default", exists=os.path.exists(path))
                    )
    for path in config.paths:
        full = os.path.abspath(os.path.expanduser(path))
        dirs.setdefault(full, WatchedDir(path=full, agent="", origin="config", exists=os.path.exists(full)))
    return list(dirs.values())


def find_sources(path: str, on_error: discover.ErrorListener | None = None, *, is_default: bool = False) -> list[Found]:
    """Return the files at or below ``path`` that may be transcripts, newest first; a named file whatever its name.

    Below a directory that a person names, a transcript may have any name: what a file holds decides, later. Below an
    agent's own directory (``is_default``) the agents' names decide.

    Raises:
        SourceError: There is nothing at ``path``.
    """
    resolved = discover.resolve(path)
    if not os.path.lexists(resolved):
        raise SourceError(f"there is no file or directory at {path}", hint="check the path")
    if not os.path.isdir(resolved):
        return [(resolved, mtime_ns(resolved))]
    may_hold = registry.may_hold if is_default else registry.has_known_suffix
    found = [(name, stat.mtime_ns) for name, stat in discover.walk(resolved, may_hold, on_error)]
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))


class Watching:
    """Turns notifications and timers into queued sources. Owns one thread besides the notifier's."""

    def __init__(
        self,
        config: WatchConfig,
        queue: MiningQueue,
        notifier: Notifier,
        known_paths: Callable[[], list[str]],
        settled: Callable[[], Mapping[str, FileStat]],
    ) -> None:
        """Take what to watch, the queue to fill, the notifier, and what is stored of sources.

        Args:
            config: What to watch, and how.
            queue: Where sources to read go.
            notifier: Reports changes.
            known_paths: The paths of all stored sources.
            settled: The stats of those that were read to their end, at that time.
        """
        self._config = config
        self._queue = queue
        self._notifier = notifier
        self._known_paths = known_paths
        self._settled = settled
        self._stop = threading.Event()
        self._roots: list[str] = []
        self._named_roots: tuple[str, ...] = ()
        """Those that a person named: files of any name below them may be transcripts."""
        self._found_at: dict[str, int] = {}
        """Agents' directories that appeared while the daemon ran, and when (UTC epoch ms)."""
        self._missing: set[str] = set()
        self._tails: dict[str, tuple[int, float]] = {}
        self._tried_tails: dict[str, int] = {}
        """Held-back lines that were tried once and made no sense, and when their files had changed."""
        self._seen_as: dict[str, FileStat] = {}
        """Stats of the sources that the last scan queued."""
        self._looked_at: dict[str, FileStat] = {}
        """Stats of files that are settled though the store does not say so."""
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
        found = default_dirs(self._config, os.environ, os.path.expanduser("~"), sys.platform)
        return tuple(msgspec.structs.replace(item, found_at=self._found_at.get(item.path)) for item in found)

    def start(self) -> None:
        """Watch all roots and scan them in the background."""
        dirs = self.dirs()
        self._missing = {item.path for item in dirs if not item.exists}
        self._roots = [discover.resolve(item.path) for item in dirs]
        self._named_roots = tuple(discover.resolve(item.path) for item in dirs if item.origin == "config")
        self._notifier.start(self._on_paths)
        for root in self._roots:
            self._notifier.watch(root)
        self._thread.start()

    def scan(self) -> int:
        """Queue every source below the roots that may have changed, and every stored one that is not there any more.

        Returns how many sources there are. A file whose stat is that of its last reading, or look, is passed over:
        with 5,000 files a scan then takes a tenth of a second, not five.
        """
        self._announce()
        seen: set[str] = set()
        self._former_problems, self.problems = self.problems, {}
        settled = self._settled()
        for root in self._roots:
            if self._stop.is_set():
                return len(seen)
            for path, stat in discover.walk(root, self._may_hold, self._note_problem):
                seen.add(path)
                if settled.get(path) != stat and self._looked_at.get(path) != stat:
                    self._seen_as[path] = stat
                    self._queue.put(path, stat.mtime_ns)
        for path in self.vanished(self._roots, seen):
            self._queue.put(path, 0)
        return len(seen)

    def vanished(self, roots: Sequence[str], seen: AbstractSet[str] = frozenset()) -> list[str]:
        """Return the stored sources below ``roots`` whose files are not there any more; ``seen`` are known to be.

        Below a root that is itself not there nothing has vanished: its volume is not mounted.
        """
        there = [root for root in roots if os.path.isdir(root)]
        known = ((path, materials.file_of(path)) for path in self._known_paths() if path not in seen)
        return [path for path, file in known if _is_below(file, there) and not os.path.lexists(file)]

    def note_read(self, path: str, *, is_settled: bool) -> None:
        """Note that a source was read, and whether nothing is to be done for it until its file changes.

        So compressed files, archives, torn lines and files that are no transcripts are not looked into at each scan.
        """
        stat = self._seen_as.pop(path, None)
        if is_settled and stat is not None:
            self._looked_at[path] = stat
        else:
            self._looked_at.pop(path, None)

    def note_tail(self, path: str, changed_ns: int) -> None:
        """Remember that ``path`` ends in a line without line end, to be taken once it has been idle long enough."""
        with self._lock:
            known = self._tails.get(path)
            if self._tried_tails.get(path) != changed_ns and (known is None or known[0] != changed_ns):
                self._tails[path] = (changed_ns, time.monotonic() + self._config.idle_tail_s)

    def drop_tail(self, path: str) -> None:
        """Forget the held-back line of ``path``: it was consumed."""
        with self._lock:
            self._tails.pop(path, None)
            self._tried_tails.pop(path, None)

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
            for path, changed_ns in ready:
                del self._tails[path]
                self._tried_tails[path] = changed_ns
        for path, changed_ns in ready:
            self._queue.put(path, changed_ns, take_tail=True)

    def _on_paths(self, paths: Sequence[str]) -> None:
        """Queue what a notification names; called on the notifier's thread."""
        for path in paths:
            resolved = materials.database_of(discover.resolve(path))
            if not self._is_below_root(resolved):
                continue  # a link deeper in the tree that leads out of it
            if os.path.isdir(resolved):
                for found, stat in discover.walk(resolved, self._may_hold, self._note_problem):
                    self._queue.put(found, stat.mtime_ns)
            elif self._may_hold(resolved):
                self._queue.put(resolved, mtime_ns(resolved))

    def _is_below_root(self, path: str) -> bool:
        return _is_below(path, self._roots)

    def _may_hold(self, path: str) -> bool:
        return registry.has_known_suffix(path) if _is_below(path, self._named_roots) else registry.may_hold(path)

    def _announce(self) -> None:
        """Tell of an agent's directory that was not there before: its agent was installed meanwhile."""
        for item in self.dirs():
            if item.exists and item.path in self._missing:
                self._missing.discard(item.path)
                self._found_at[item.path] = time.time_ns() // 1_000_000
                logger.info("found the directory of %s: %s", item.agent or "a configured path", item.path)

    def _note_problem(self, path: str, error: OSError) -> None:
        reason = error.strerror or type(error).__name__
        self.problems[path] = reason
        if self._former_problems.get(path) != reason:
            logger.warning("cannot look into %s: %s", path, reason)


def _is_below(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip(os.sep) + os.sep) for root in roots)


def size_of(path: str) -> int:
    """Return the size of a source's file; 0 if it is gone."""
    try:
        return os.lstat(materials.file_of(path)).st_size
    except OSError:
        return 0


def mtime_ns(path: str) -> int:
    """Return when the file changed last; now, if it is gone, so that this is noticed soon."""
    try:
        return os.lstat(materials.file_of(path)).st_mtime_ns
    except OSError:
        return time.time_ns()
