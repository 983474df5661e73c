"""Which project a session was about, by its working directory: :mod:`palace_daemon.repositories`, with a cache."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from palace_daemon.repositories import DiskFiles, Files, find_project

CACHE_ENTRIES = 4_096
"""Bound of the cache: a person has hundreds of working directories, not thousands."""

CACHE_S = 60.0
"""Seconds after which a directory is looked at again, since `git init` and `git worktree` may have come by."""


class ProjectResolver:
    """Finds the project of a working directory. Thread-safe; never raises."""

    def __init__(self, files: Files | None = None, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._files = files or DiskFiles()
        self._now_s = now_s
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def project_of(self, cwd: str) -> str:
        """Return the project that the working directory ``cwd`` belongs to, as :func:`find_project` does.

        Answers come from a cache for a minute; otherwise a few ``stat`` calls for each level of the path.
        """
        now = self._now_s()
        with self._lock:
            found = self._known.get(cwd)
            if found is not None and now - found[0] < CACHE_S:
                self._known.move_to_end(cwd)
                return found[1]
        project = find_project(cwd, self._files)
        with self._lock:
            self._known[cwd] = (now, project)
            self._known.move_to_end(cwd)
            while len(self._known) > CACHE_ENTRIES:
                self._known.popitem(last=False)
        return project
