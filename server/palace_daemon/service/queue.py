"""Which source is read next: newest first, each once, with the jobs that wait for it."""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from palace_daemon.model import MineReport
from palace_daemon.service.pace import Backlog


class Job:
    """One request to mine, as a set of sources to get through. Thread-safe."""

    def __init__(
        self,
        paths: Iterable[str],
        *,
        take_tail: bool,
        named: Iterable[str] = (),
        sizes: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        """Wait for ``paths``; ``take_tail`` lets a whole last line without line end be taken.

        ``named`` are the files that were asked for one by one: there an unknown format is a failure. ``sizes`` tells
        of each source its bytes, and how many of them are to be read.
        """
        self.take_tail = take_tail
        self.after = 0
        """Number of the last take before the job: what was taken then may have been read too early for it."""
        self._named = frozenset(named)
        self._left = set(paths)
        self._total = len(self._left)
        self._backlog = Backlog({path: (sizes or {}).get(path, (0, 0)) for path in self._left})
        self._worked: set[str] = set()
        self._lock = threading.Lock()
        self._finished = threading.Event()
        self._report = MineReport()
        self._sessions: set[tuple[str, str]] = set()
        if not self._left:
            self._finished.set()

    @property
    def total(self) -> int:
        """How many sources the job has."""
        return self._total

    @property
    def done(self) -> int:
        """How many of them are read."""
        with self._lock:
            return self._total - len(self._left)

    @property
    def work(self) -> tuple[int, int]:
        """How much is done of how much, in bytes; sources that held nothing new count for nothing."""
        with self._lock:
            return self._backlog.done, self._backlog.total

    def waits_for(self, path: str) -> bool:
        """Return whether ``path`` is still to be read."""
        with self._lock:
            return path in self._left

    def add(
        self,
        path: str,
        report: MineReport,
        sessions: AbstractSet[tuple[str, str]],
        *,
        is_last: bool,
        share_left: float = 1.0,
        found: Iterable[str] = (),
    ) -> None:
        """Add what reading a part of ``path`` brought; ``is_last`` ticks it off, else ``share_left`` is still to read.

        ``found`` are sources inside it, for which the job waits from now on.
        """
        with self._lock:
            if path not in self._left:
                return
            fresh = set(found) - self._left
            self._left |= fresh
            self._total += len(fresh)
            self._backlog.find(path, fresh)
            if path in self._named and report.files_skipped:
                report = msgspec.structs.replace(
                    report, files_skipped={}, failures=report.files_skipped, files_failed=1
                )
            self._sessions |= sessions
            self._report = added(self._report, report, is_new_file=is_last)
            if report.lines_read:
                self._worked.add(path)
            if not is_last:
                self._backlog.read_on(path, share_left)
            else:
                self._backlog.finish(path, is_idle=path not in self._worked)
                self._left.discard(path)
                if not self._left:
                    self._finished.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait until every source is read; returns whether it is."""
        return self._finished.wait(timeout_s)

    def report(self) -> MineReport:
        """Return the sum so far."""
        with self._lock:
            return msgspec.structs.replace(self._report, sessions=len(self._sessions))


_Place = tuple[int, int]
"""Where a source stands in the queue: slices of it already read, then minus its mtime; the smallest is next."""


class MiningQueue:
    """Sources to read: newest first, but the rest of a giant behind the others. Thread-safe; made for one taker."""

    def __init__(self) -> None:
        """Begin empty."""
        self._heap: list[tuple[_Place, str]] = []
        self._queued: dict[str, _Place] = {}
        self._again: dict[str, _Place] = {}
        self._slices: dict[str, int] = {}
        self._tails: set[str] = set()
        self._current: str | None = None
        self._takes = 0
        self._jobs: list[Job] = []
        self._is_closed = False
        self._is_paused = False
        self._changed = threading.Condition()

    def put(self, path: str, mtime_ns: int, *, take_tail: bool = False) -> None:
        """Queue a source; one that is being read now is read once more afterwards."""
        with self._changed:
            if take_tail:
                self._tails.add(path)
            self._put(path, (0, -mtime_ns))

    def put_rest(self, path: str, mtime_ns: int) -> None:
        """Queue what is left of a source after a slice, behind all that wait for their first."""
        with self._changed:
            self._slices[path] = self._slices.get(path, 0) + 1
            self._put(path, (self._slices[path], -mtime_ns))

    def put_job(self, job: Job) -> None:
        """Register a job; its sources must be queued afterwards."""
        with self._changed:
            job.after = self._takes
            self._jobs = [known for known in self._jobs if not known.wait(0)] + [job]

    def take(self, timeout_s: float) -> tuple[str, bool] | None:
        """Return the next source and whether its tail may be taken.

        None after ``timeout_s``, after :meth:`close`, and as long as it is paused.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or (bool(self._queued) and not self._is_paused), timeout_s)
            if self._is_closed or self._is_paused:
                return None
            while self._heap:
                place, path = heapq.heappop(self._heap)
                if self._queued.get(path) == place:
                    return self._taken(path)
            return None

    def done(
        self,
        path: str,
        report: MineReport,
        sessions: AbstractSet[tuple[str, str]] = frozenset(),
        *,
        is_last: bool,
        share_left: float = 1.0,
        found: Iterable[str] = (),
    ) -> None:
        """Give back a source that was taken; without ``is_last`` the caller has queued its rest or will again.

        ``share_left`` is how much of it that rest is. ``found`` are sources inside it that the caller has queued.
        """
        with self._changed:
            self._current = None
            if is_last:
                self._slices.pop(path, None)
            again = self._again.pop(path, None)
            if again is not None:
                self._put(path, again)
            jobs = [(job, is_last and job.after < self._takes) for job in self._jobs]
        for job, is_ticked in jobs:
            job.add(path, report, sessions, is_last=is_ticked, share_left=share_left, found=found)

    def _put(self, path: str, place: _Place) -> None:
        known = self._again if path == self._current else self._queued
        if path in known and known[path] <= place:
            return
        known[path] = place
        if known is self._queued:
            heapq.heappush(self._heap, (place, path))
            self._changed.notify()

    def _taken(self, path: str) -> tuple[str, bool]:
        del self._queued[path]
        self._current = path
        self._takes += 1
        is_wanted = path in self._tails or any(job.take_tail and job.waits_for(path) for job in self._jobs)
        self._tails.discard(path)
        return path, is_wanted

    def pending(self) -> int:
        """Return how many sources wait or are being read."""
        with self._changed:
            return len(self._queued) + (self._current is not None)

    def pause(self, *, is_paused: bool) -> None:
        """Give out nothing until this is called anew; what is queued stays, and more may be."""
        with self._changed:
            self._is_paused = is_paused
            self._changed.notify_all()

    def close(self) -> None:
        """Wake the taker for good."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


def added(total: MineReport, part: MineReport, *, is_new_file: bool) -> MineReport:
    """Return the sum of two reports; parts of one source count as one file, when ``is_new_file``.

    Sessions do not add up, since several sources may tell of one: :class:`Job` counts them.
    """
    counts = {
        name: getattr(total, name) + getattr(part, name)
        for name in (
            "exchanges_added",
            "exchanges_replaced",
            "exchanges_superseded",
            "drawers_added",
            "drawers_removed",
            "vectors_added",
            "lines_read",
            "files_failed",
        )
    }
    return MineReport(
        files=total.files + (part.files if is_new_file else 0),
        lines_skipped=dict(sorted((Counter(total.lines_skipped) + Counter(part.lines_skipped)).items())),
        exchanges_left_out=dict(sorted((Counter(total.exchanges_left_out) + Counter(part.exchanges_left_out)).items())),
        failures={**total.failures, **part.failures},
        files_skipped={**total.files_skipped, **part.files_skipped},
        seconds=total.seconds,
        seconds_to_vectors=total.seconds_to_vectors,
        **counts,
    )
