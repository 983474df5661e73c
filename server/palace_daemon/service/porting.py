"""Everything in one file, and back: exports are written atomically, imports are merged in bounded transactions.

Both stream, so that memory does not grow with the store. An import that ends early has stored whole batches only, and
can be run again: what is there already changes nothing.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Protocol

import palace_daemon
from palace_daemon.core.ignoring import IgnoreRules
from palace_daemon.core.ports import StopSignal
from palace_daemon.errors import CancelledError, RequestError, SourceError
from palace_daemon.model import ExportReport, ImportReport, MineReport, Problem, Progress
from palace_daemon.replacing import replacing
from palace_daemon.service.api import ProgressListener
from palace_daemon.service.notes import report_of
from palace_daemon.store import exporting, portable
from palace_daemon.store.drawers import DrawerStore
from palace_daemon.store.forgetting import Removal
from palace_daemon.store.importing import Importer, LeftOut, Merged
from palace_daemon.store.portable import BadLineError, Line
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.store import Store

LINE_BYTES_MAX = 256 << 20
"""Longest line of an import: exchanges have a few kilobytes, those with a whole log pasted into them some megabytes."""
BATCH_BYTES = 256 << 10
"""Bytes of lines in one transaction: live lines wait no longer than one takes. Larger ones are faster over all."""
BATCH_LINES = 500
PROBLEMS_MAX = 100
"""Malformed lines that are named; the others are counted."""
_CHECK_LINES = 256
"""Lines between two looks at whether the caller still waits."""


class Wiper(Protocol):
    """Gets the bytes of what was removed out of the database file; see :mod:`palace_daemon.service.forgetting`."""

    def wipe(self) -> str:
        """Do it now, if anything is due; returns why it still is, and then it is tried again."""
        ...

    def wipe_soon(self) -> None:
        """Do it in the background."""
        ...


class Porter:
    """Exports and imports. Thread-safe."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], int],
        on_changed: Callable[[MineReport], None],
        on_removed: Callable[[Removal], None],
        wiper: Wiper,
        rules: IgnoreRules,
    ) -> None:
        """Take the store, the clock that dates exports, whom to tell of changes and removals, and the ignore rules."""
        self._store = store
        self._clock = clock
        self._on_changed = on_changed
        self._on_removed = on_removed
        self._wiper = wiper
        self._rules = rules

    def export(self, path: str, on_progress: ProgressListener | None, stop: StopSignal | None) -> ExportReport:
        """Write everything to ``path``; see :meth:`palace_daemon.service.api.Palace.export`."""
        began = time.monotonic()
        try:
            with _private(path) as file, self._store.read() as connection:
                head = exporting.header(connection, palace_daemon.__version__, self._clock())
                total = sum(head.records.values())
                file.write(portable.encode(head))
                for done, line in enumerate(exporting.lines(connection, head)):
                    if done % _CHECK_LINES == 0:
                        _check(stop)
                        _tell(on_progress, "export", done, total)
                    file.write(portable.encode(line))
                size = file.tell()
        except OSError as exc:
            raise RequestError(f"cannot write {path}: {exc.strerror or exc}", hint="choose another place") from exc
        _tell(on_progress, "export", total, total)
        return ExportReport(
            path=path, records=dict(head.records), size_bytes=size, seconds=round(time.monotonic() - began, 3)
        )

    def import_file(self, path: str, on_progress: ProgressListener | None, stop: StopSignal | None) -> ImportReport:
        """Merge the export at ``path``; see :meth:`palace_daemon.service.api.Palace.import_file`."""
        began = time.monotonic()
        reading = _Reading()
        left_out = LeftOut()
        changes: Counter[str] = Counter()
        try:
            with _opened(path) as file:
                for batch in reading.batches(file, path):
                    _check(stop)
                    changes.update(self._merge(batch, left_out))
                    _tell(on_progress, "import", reading.done, max(reading.total, reading.done))
        except OSError as exc:
            raise SourceError(f"cannot read {path}: {exc.strerror or exc}") from exc
        finally:
            self._wiper.wipe_soon()  # also where it ends early
        return ImportReport(
            records={name: reading.records[kind] for kind, name in portable.TYPE_OF.items()},
            changes={name: changes[name] for name in CHANGES},
            malformed=reading.malformed,
            problems=tuple(reading.problems),
            is_complete=reading.is_complete,
            wipe_due=self._wiper.wipe(),
            seconds=round(time.monotonic() - began, 3),
        )

    def _merge(self, batch: list[Line], left_out: LeftOut) -> Counter[str]:
        def work(connection: Connection, drawers: DrawerStore) -> Merged:
            rules = self._rules
            return Importer(connection, drawers, rules.ignores_project, rules.ignores_path, left_out).merge(batch)

        merged = self._store.edit(work)
        if merged.removal is not None and merged.removal.exchanges:
            self._on_removed(merged.removal)
        self._on_changed(report_of(merged.report))
        return merged.changes


CHANGES = ("exchanges_added", "exchanges_replaced", "notes_added", "notes_changed", "forgotten", "ignored")
"""What an import counts, besides the lines that it read."""


class _Reading:
    """Reads lines into batches, and keeps count."""

    def __init__(self) -> None:
        self.records: Counter[type] = Counter()
        self.malformed = 0
        self.problems: list[Problem] = []
        self.total = 0
        self.done = 0
        self.is_complete = False

    def batches(self, file: BinaryIO, path: str) -> Iterator[list[Line]]:
        """Yield the usable lines, some at a time.

        Raises:
            RequestError: The file is no export, or of a newer version.
        """
        batch: list[Line] = []
        n_bytes = 0
        _check_version(file.readline(LINE_BYTES_MAX), path)
        file.seek(0)
        for number, (line, offset) in enumerate(_lines(file), 1):
            value = None if line is not None and line.isspace() else self._value(line, number, offset)
            if value is None:
                continue
            batch.append(value)
            n_bytes += len(line or b"")
            if n_bytes >= BATCH_BYTES or len(batch) >= BATCH_LINES:
                yield batch
                batch, n_bytes = [], 0
        if batch:
            yield batch

    def _value(self, line: bytes | None, number: int, offset: int) -> Line | None:
        """Return what a line holds; None for one that only frames the others, or cannot be used."""
        value, reason = None, "too_long"
        if line is not None:
            try:
                value = portable.decode(line)
            except BadLineError as exc:
                reason = str(exc)
        if value is None:
            self.malformed += 1
            if len(self.problems) < PROBLEMS_MAX:
                self.problems.append(Problem(line=number, byte_start=offset, reason=reason))
            return None
        if isinstance(value, portable.Header):
            self.total += sum(value.records.values())
            self.is_complete = False
            return None
        if isinstance(value, portable.End):
            self.is_complete = True
            return None
        self.records[type(value)] += 1
        self.done += 1
        return value


def _lines(file: BinaryIO) -> Iterator[tuple[bytes | None, int]]:
    """Yield the lines, each with its offset; None for one that is too long."""
    offset = 0
    while line := file.readline(LINE_BYTES_MAX):
        start, offset = offset, offset + len(line)
        if len(line) < LINE_BYTES_MAX or line.endswith(b"\n"):
            yield line, start
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(1 << 20)
            offset += len(line)
        yield None, start


def _check_version(line: bytes, path: str) -> None:
    version = portable.version_of(line)
    if version < 1:
        raise RequestError(f"{path} is no export of Palace", hint="its first line must name the format")
    if version > portable.VERSION:
        raise RequestError(
            f"{path} is an export of format {version}, this version reads up to {portable.VERSION}",
            hint="upgrade palace-daemon",
        )


@contextmanager
def _private(path: str) -> Iterator[BinaryIO]:
    """Yield a private file beside ``path`` that takes its place when all went well, and leaves nothing otherwise."""
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise RequestError(f"{path} is no regular file", hint="choose another place")
    with replacing(path) as file:
        yield file


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """Open a regular file without ever blocking on a pipe."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb", buffering=1 << 20) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SourceError(f"{path} is no regular file")
        yield file


def _check(stop: StopSignal | None) -> None:
    if stop is not None and stop.is_set():
        raise CancelledError("the request was cancelled; an import can be run again")


def _tell(on_progress: ProgressListener | None, stage: str, done: int, total: int) -> None:
    if on_progress is not None:
        on_progress(Progress(stage="export" if stage == "export" else "import", done=done, total=total, unit="records"))
