"""Noticing changes by the operating system's own notifications, through watchdog.

Threads: watchdog's, on which the handler only notes the path; and one of ours, which reports debounced batches and
looks every few seconds whether a root appeared, vanished or was exchanged. The lock of the batch is held for dictionary
work only and is never held together with the lock of the roots, since watchdog calls the handler under its own lock.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat as modes
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from watchdog.events import (
    DirCreatedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from palace_daemon.watch import kernel
from palace_daemon.watch.batch import PathBatch
from palace_daemon.watch.discover import resolve, walk
from palace_daemon.watch.polling import DEFAULT_INTERVAL_S, PollingNotifier

logger = logging.getLogger(__name__)

ROOT_CHECK_S = 2.0
"""Between two looks at the roots themselves: one ``stat`` each, so that a directory which appears is noticed soon. A
watch on its parent would do it sooner, at the price of every event in, say, the home directory."""

JOIN_S = 5.0

_EVENTS: list[type[FileSystemEvent]] = [
    DirCreatedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
]
"""Not opened, not closed: our own reading would cause them, and be answered with reading."""

_LIMIT_ERRORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.ENOMEM})
"""``inotify_init`` gives EMFILE at 128 instances of a user, ``inotify_add_watch`` ENOSPC at ``max_user_watches``."""


@dataclass
class _Root:
    """A watched root and how it is watched at the moment; guarded by the notifier's lock."""

    path: str
    identity: tuple[int, int] | None = None
    """Device and inode of what stood at the path when it was attached."""
    watch: ObservedWatch | None = None
    is_polled: bool = False


class WatchdogNotifier:
    """Reports changes through inotify, FSEvents or their like, and polls where these fail. Thread-safe.

    All roots move to polling, with one warning, when the kernel has no watches left; single roots are polled when they
    lie on a network file system or are files. ``name`` tells.
    """

    def __init__(
        self,
        debounce_ms: int = 150,
        *,
        root_check_s: float = ROOT_CHECK_S,
        poll_interval_s: float = DEFAULT_INTERVAL_S,
        observer_factory: Callable[[], BaseObserver] = Observer,
    ) -> None:
        self.name = "watchdog"
        """For ``status``; the real way of looking is known after :meth:`start`."""
        self._root_check_s = root_check_s
        self._observer_factory = observer_factory
        self._poller = PollingNotifier(poll_interval_s)
        self._on_paths: Callable[[Sequence[str]], None] | None = None
        self._lock = threading.RLock()
        self._roots: dict[str, _Root] = {}
        self._observer: BaseObserver | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._batch = PathBatch(debounce_ms / 1000)
        self._fresh: set[str] = set()
        """Directories in the batch that are new, whose content must be looked for."""

    # ------------------------------------------------------------------------------------------------- the port

    def start(self, on_paths: Callable[[Sequence[str]], None]) -> None:
        """Begin to report; a second call does nothing."""
        with self._lock:
            if self._thread is not None or self._stopping.is_set():
                return
            self._on_paths = on_paths
            self._thread = threading.Thread(target=self._run, name="palace-watch", daemon=True)
            self._poller.start(on_paths)
            self._start_observer()
            for root in list(self._roots.values()):
                self._attach(root)
            self._thread.start()

    def watch(self, directory: str) -> None:
        """Watch ``directory`` and all below it; one that does not exist is watched, and reported, when it appears.

        From the return of this call on, changes are reported. What stood there before is not.
        """
        with self._lock:
            if self._stopping.is_set():
                return
            root = self._roots.setdefault(directory, _Root(directory))
            if self._thread is not None:
                self._attach(root)

    def stop(self) -> None:
        """Stop reporting, end all threads; idempotent."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_S)
        self._poller.stop()
        with self._lock:
            observer, self._observer = self._observer, None
        if observer is not None:
            _end(observer)

    # -------------------------------------------------------------------------------------------------- roots

    def _start_observer(self) -> None:
        try:
            observer = self._observer_factory()
        except OSError as exc:
            self._poll_everything(_reason(exc))
            return
        try:
            observer.start()
        except OSError as exc:
            _end(observer)
            self._poll_everything(_reason(exc))
            return
        self._observer = observer
        self.name = type(observer).__name__.removesuffix("Observer").lower()

    def _attach(self, root: _Root) -> bool:
        """Watch a root if it exists and is not watched as it is now; return whether that is new."""
        if root.is_polled:
            return False
        # Most roots belong to agents that are not installed: one stat each is all that they cost.
        found = _stat(root.path)
        identity = (found.st_dev, found.st_ino) if found is not None else None
        if identity == root.identity and (found is None or self._is_alive(root.watch)):
            return False
        self._detach(root)
        if found is None:
            return False
        target = resolve(root.path)
        if self._observer is None or not modes.S_ISDIR(found.st_mode):
            return self._poll(root)
        if kernel.is_remote(target):
            self.name = self.name.removesuffix("+polling") + "+polling"
            return self._poll(root)
        return self._schedule(root, target, identity)

    def _schedule(self, root: _Root, target: str, identity: tuple[int, int] | None) -> bool:
        if self._observer is None:
            return False
        try:
            root.watch = self._observer.schedule(_Handler(self._put), target, recursive=True, event_filter=_EVENTS)
        except OSError as exc:
            if exc.errno in _LIMIT_ERRORS:
                self._poll_everything(_reason(exc))
                return True
            return False  # gone again, or not readable: the next look at the roots tries once more
        root.identity = identity
        if kernel.inotify_is_exhausted(target):
            self._poll_everything("inotify watch limit reached")
        return True

    def _is_alive(self, watch: ObservedWatch | None) -> bool:
        """Return whether events of ``watch`` still arrive; watchdog ends it when the directory is deleted."""
        if watch is None or self._observer is None or not self._observer.is_alive():
            return False
        return any(emitter.watch == watch and emitter.is_alive() for emitter in self._observer.emitters)

    def _detach(self, root: _Root) -> None:
        watch, root.watch, root.identity = root.watch, None, None
        if watch is not None and self._observer is not None:
            with contextlib.suppress(KeyError, OSError):
                self._observer.unschedule(watch)

    def _poll(self, root: _Root) -> bool:
        self._poller.watch(root.path)
        root.is_polled = True
        return True

    def _poll_everything(self, reason: str) -> None:
        """Give up notifications: the poller takes all roots. What changed until it had looked once is reported too."""
        self.name = f"polling ({reason})"
        logger.warning("file notifications are not available (%s); polling for changes instead", reason)
        observer, self._observer = self._observer, None
        for root in self._roots.values():
            root.watch = None
            if not root.is_polled:
                self._poll(root)
                self._announce(root)
        if observer is not None:
            _end(observer)

    def _announce(self, root: _Root) -> None:
        self._put([path for path, _ in walk(root.path, lambda _path: True)])

    def _check_roots(self) -> None:
        with self._lock:
            for root in list(self._roots.values()):
                if self._attach(root):
                    self._announce(root)

    # ------------------------------------------------------------------------------------------------- batches

    def _put(self, paths: Iterable[str], *, is_new_directory: bool = False) -> None:
        """Note paths; called from watchdog's threads, so it does nothing that could wait."""
        paths = list(paths)
        with self._changed:
            was_empty = not self._batch
            self._batch.put(paths, time.monotonic())
            if is_new_directory:
                self._fresh.update(paths)
            if was_empty:
                self._changed.notify_all()

    def _run(self) -> None:
        next_check = time.monotonic() + self._root_check_s
        while not self._stopping.is_set():
            with self._changed:
                due_s = self._batch.wait_s(time.monotonic())
                check_s = max(next_check - time.monotonic(), 0.0)
                wait_s = check_s if due_s is None else min(due_s, check_s)
                if wait_s > 0 and not self._stopping.is_set():
                    self._changed.wait(wait_s)
            try:
                if time.monotonic() >= next_check:
                    self._check_roots()
                    next_check = time.monotonic() + self._root_check_s
                self._flush()
            except Exception:  # the thread must not die of one batch; the rescan makes up for it
                logger.exception("reporting changed files failed")

    def _flush(self) -> None:
        with self._changed:
            due = self._batch.take(time.monotonic())
            fresh = self._fresh.intersection(due)
            self._fresh -= fresh
        if fresh:
            due = self._expand(due, fresh)
        if due and self._on_paths is not None and not self._stopping.is_set():
            self._on_paths(due)

    def _expand(self, due: list[str], fresh: set[str]) -> list[str]:
        """Put the files in new directories in the place of the directories.

        A file written at once into a directory that is itself new may come without an event of its own.
        """
        files = [path for path in due if path not in fresh]
        done = ""
        for directory in sorted(fresh):
            if not done or not directory.startswith(done + os.sep):
                files += [path for path, _ in walk(directory, lambda _path: True)]
                done = directory
        if self._observer is not None and kernel.inotify_is_exhausted(done):
            with self._lock:
                self._poll_everything("inotify watch limit reached")
        return list(dict.fromkeys(files))


class _Handler(FileSystemEventHandler):
    """Passes paths on; runs on watchdog's thread."""

    def __init__(self, put: Callable[..., None]) -> None:
        self._put = put

    def dispatch(self, event: FileSystemEvent) -> None:
        """Note what an event names: both ends of a move, and only new ones among directories."""
        if event.is_directory:
            self._put([os.fsdecode(event.dest_path or event.src_path)], is_new_directory=True)
        else:
            self._put([os.fsdecode(path) for path in (event.src_path, event.dest_path) if path])


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Drop what watchdog logs as an error when it is merely stopped while it reads."""
    return "called when the thread is inactive" not in record.getMessage()


logging.getLogger("watchdog.observers.inotify").addFilter(_is_worth_logging)


def _end(observer: BaseObserver) -> None:
    """Stop an observer, started or not, and wait for its threads."""
    with contextlib.suppress(OSError, RuntimeError):
        observer.stop()
    with contextlib.suppress(RuntimeError):  # never started
        observer.join(JOIN_S)


def _reason(error: OSError) -> str:
    if error.errno in _LIMIT_ERRORS:
        return "inotify watch limit reached" if error.errno == errno.ENOSPC else "inotify instance limit reached"
    return error.strerror or type(error).__name__


def _stat(path: str) -> os.stat_result | None:
    """Return the stat of what stands at a path, links followed; None where nothing does."""
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None
