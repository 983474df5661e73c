"""Reading one source: from a path to stored exchanges, one transaction for each mebibyte read.

The truth is the file: take its stat, compare it with the cursor, read on from there. What is stored and how far the
file was read land in one transaction, so a kill between two of them costs a re-read of at most one block.
"""

from __future__ import annotations

import logging
import os
import stat as stat_module
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO

from msgspec import Struct, field

from palace_daemon.core import cursor as cursors
from palace_daemon.core import redaction
from palace_daemon.core.jsonl import drop_payload_runs
from palace_daemon.core.ports import StopSignal
from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.base import SourceParser, TranscriptFormat
from palace_daemon.errors import CancelledError, SourceError
from palace_daemon.model import Cursor, FileStat, MineReport, ParseResult, SourceState
from palace_daemon.store import sources
from palace_daemon.store.exchanges import SaveReport
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.store import SourceBatch, Store

logger = logging.getLogger(__name__)

READ_BYTES = 1 << 20
"""Bytes read, parsed and stored at a time: about 0.2 s of work on the writer, so live lines wait no longer."""
HEAD_BYTES = 1 << 16
"""Bytes from which a format is recognised, where the first line ends within them."""
HEAD_BYTES_MAX = 32 << 20
"""Bytes of text that a first line may have: an opening prompt can hold a whole log. Pasted images are left out."""
SLICE_BYTES = 16 << 20
"""Bytes of one source after which the others get their first turn."""


class Outcome(Struct, kw_only=True):
    """What reading one source came to."""

    report: MineReport = field(default_factory=MineReport)
    sessions: frozenset[tuple[str, str]] = frozenset()
    """Agent and session id of what was stored."""
    has_tail: bool = False
    """Whether bytes without a line end were held back."""
    has_more: bool = False
    """Whether the slice ended before the file did."""
    error: str = ""
    """Why the source could not be read."""
    is_unknown: bool = False
    """Whether the file is of no known format."""
    reread: tuple[str, ...] = ()
    """Further sources that must be read anew."""


class _Tally:
    """Adds up one source's batches."""

    def __init__(self) -> None:
        self.saves = SaveReport()
        self.lines_read = 0
        self.lines_skipped: Counter[str] = Counter()

    def add(self, result: ParseResult, saved: SaveReport) -> None:
        self.lines_read += result.lines_read
        self.lines_skipped.update(result.lines_skipped)
        for name in ("added", "replaced", "superseded", "drawers_added", "drawers_removed"):
            setattr(self.saves, name, getattr(self.saves, name) + getattr(saved, name))
        self.saves.sessions |= saved.sessions
        self.saves.sources_to_reread |= saved.sources_to_reread

    def report(self) -> MineReport:
        saves = self.saves
        return MineReport(
            files=1,
            sessions=len(saves.sessions),
            exchanges_added=saves.added,
            exchanges_replaced=saves.replaced,
            exchanges_superseded=saves.superseded,
            drawers_added=saves.drawers_added,
            drawers_removed=saves.drawers_removed,
            lines_read=self.lines_read,
            lines_skipped=dict(self.lines_skipped),
        )


class SourceMiner:
    """Reads sources one at a time. Used by one thread; the store may be shared."""

    def __init__(self, store: Store, clock: Callable[[], int]) -> None:
        """Take the store and the clock (UTC epoch ms), which dates ``last_mined_at`` only."""
        self._store = store
        self._clock = clock

    def mine(self, path: str, *, take_tail: bool = False, stop: StopSignal | None = None) -> Outcome:
        """Bring the store up to the file at ``path``; never raises for what the file is or holds.

        Args:
            path: Resolved path of the source.
            take_tail: Take a last line without line end if it is one whole record.
            stop: Ends the work after the current block.

        Raises:
            CancelledError: ``stop`` was set.
            StoreError: The store failed; the source is untouched and can be tried again.
        """
        try:
            return self._mine(path, take_tail=take_tail, stop=stop)
        except FileNotFoundError:
            return self._gone(path)
        except OSError as exc:
            return self._failed(path, exc.strerror or str(exc))
        except SourceError as exc:
            return self._failed(path, str(exc))

    def _mine(self, path: str, *, take_tail: bool, stop: StopSignal | None) -> Outcome:
        with _opened(path) as (file, stat):
            row = self._known(path, stat, file)
            reading = self._begin(path, row, stat, file)
            if isinstance(reading, Outcome):
                return reading
            return self._read(reading, file, stat, take_tail=take_tail, stop=stop)

    def _known(self, path: str, stat: FileStat, file: FileIO) -> sources.SourceRow | None:
        """Return the stored source, following a file that was renamed."""
        with self._store.read() as connection:
            row = sources.find(connection, path)
            candidates = [] if row else sources.find_by_identity(connection, stat)
        for candidate in candidates:
            # Inode numbers are used again: the content decides.
            if not os.path.lexists(candidate.path) and _is_same_content(file, candidate.cursor, stat):
                source_id = candidate.source_id
                self._store.write(lambda c: sources.move(c, source_id, path))  # noqa: B023 - runs before the next turn
                with self._store.read() as connection:
                    return sources.find(connection, path)
        return row

    def _begin(self, path: str, row: sources.SourceRow | None, stat: FileStat, file: FileIO) -> _Reading | Outcome:
        """Decide where to read on; an Outcome when there is nothing to read."""
        known = registry.by_name(row.format) if row and row.format else None
        if row and row.cursor and known and known.version == row.format_version:
            verdict = _judge(file, row.cursor, stat)
            if verdict.kind == "unchanged":
                return self._unchanged(row, verdict.cursor, stat)
            if not verdict.must_reread and (resumed := self._resume(row, known, path, verdict.cursor, file)):
                return resumed
        head = _head(file)
        found = registry.detect(path, head)
        if found is None:
            return self._unknown(path, head, row)
        return self._anew(path, found)

    def _resume(
        self, row: sources.SourceRow, known: TranscriptFormat, path: str, cursor: Cursor, file: FileIO
    ) -> _Reading | None:
        """Go on from the cursor; None when the stored state does not fit and the source must be read anew."""
        file.seek(cursors.partial_start(cursor.offset))
        partial = file.read(cursor.offset - file.tell())
        following = file.read(1)
        if not cursors.follows_taken_tail(cursor, following):
            return None
        try:
            parser = known.open(path, redaction.redact, row.parser_state)
            hasher = cursors.BlockHasher.resume(cursor, partial)
        except ValueError:
            return None
        if parser.offset != cursor.offset:
            return None
        return _Reading(row.source_id, row.reading, parser, hasher, cursor)

    def _anew(self, path: str, found: TranscriptFormat) -> _Reading:
        def work(connection: Connection) -> tuple[int, int]:
            source_id = sources.ensure(connection, path)
            reading = sources.begin_reading(
                connection,
                source_id,
                agent=found.agent,
                format_name=found.name,
                format_version=found.version,
            )
            return source_id, reading

        source_id, reading = self._store.write(work)
        return _Reading(source_id, reading, found.open(path, redaction.redact), cursors.BlockHasher(), Cursor())

    def _read(
        self, reading: _Reading, file: FileIO, stat: FileStat, *, take_tail: bool, stop: StopSignal | None
    ) -> Outcome:
        """Feed the parser block by block, storing each block's exchanges with the cursor behind them."""
        start = reading.parser.offset
        file.seek(start)
        position = start
        tally = _Tally()
        has_more = False
        while True:
            if stop is not None and stop.is_set():
                raise CancelledError("mining was stopped")
            block = file.read(min(READ_BYTES, max(0, stat.size - position)))
            position += len(block)
            is_last = not block or position >= stat.size
            result = reading.feed(block)
            if is_last and take_tail:
                result = _joined(result, reading.take_tail())
            self._save(reading, stat, result, tally, is_last=is_last)
            if is_last:
                break
            if position - start >= SLICE_BYTES and reading.parser.offset > start:
                has_more = True
                break
        outcome = Outcome(report=tally.report(), sessions=frozenset(tally.saves.sessions), has_more=has_more)
        outcome.has_tail = not has_more and reading.parser.offset < stat.size
        outcome.reread = self._paths(tally.saves.sources_to_reread)
        return outcome

    def _save(self, reading: _Reading, stat: FileStat, result: ParseResult, tally: _Tally, *, is_last: bool) -> None:
        if not is_last and reading.hasher.offset == reading.cursor.offset:
            return  # inside one very long line: nothing to store yet
        reading.cursor = cursors.advance(reading.cursor, stat, reading.hasher, tail_taken=reading.has_taken_tail)
        batch = SourceBatch(
            source_id=reading.source_id,
            reading=reading.number,
            cursor=reading.cursor,
            parser_state=reading.parser.snapshot(),
            result=result,
            is_at_end=is_last,
        )
        tally.add(result, self._store.save(batch, self._clock()))

    def _paths(self, source_ids: set[int]) -> tuple[str, ...]:
        with self._store.read() as connection:
            return tuple(sources.path_of(connection, source_id) for source_id in sorted(source_ids))

    def _unchanged(self, row: sources.SourceRow, cursor: Cursor, stat: FileStat) -> Outcome:
        if cursor != row.cursor or row.state != "ok":
            self._store.write(
                lambda c: sources.save_progress(c, row.source_id, cursor, None, lines_read=0, lines_skipped={})
            )
        return Outcome(report=MineReport(files=1), has_tail=cursor.offset < stat.size)

    def _unknown(self, path: str, head: bytes, row: sources.SourceRow | None) -> Outcome:
        """Note a file that is no transcript; what it held when it was one is superseded."""
        if row is not None and row.format:  # it was one until now
            self._store.supersede_source(row.source_id)
        if b"\n" not in head and len(head) < HEAD_BYTES_MAX:
            # The first line is still being written (or the file is empty): ask again when it has grown.
            state: SourceState = "pending"
            reason = "empty" if not head else "its first line is not complete yet"
        else:
            state, reason = "skipped", "not a transcript of a known format"
        if row is None or (row.state, row.error) != (state, reason):
            self._store.write(lambda c: sources.set_state(c, path, state, reason))
        return Outcome(report=MineReport(files=1), error=reason, is_unknown=True)

    def _gone(self, path: str) -> Outcome:
        """A deleted transcript is not a wish to forget: agents delete theirs after a while."""

        def work(connection: Connection) -> None:
            if sources.find(connection, path) is not None:
                sources.set_state(connection, path, "gone")

        self._store.write(work)
        return Outcome(error="the file is gone")

    def _failed(self, path: str, reason: str) -> Outcome:
        self._store.write(lambda c: sources.set_state(c, path, "failed", reason))
        logger.warning("cannot read %s: %s", path, reason)
        return Outcome(report=MineReport(files=1, files_failed=1), error=reason)


class _Reading:
    """One source being read: the parser, the hashes of what it consumed, and the bytes between the two."""

    def __init__(
        self, source_id: int, number: int, parser: SourceParser, hasher: cursors.BlockHasher, cursor: Cursor
    ) -> None:
        self.source_id = source_id
        self.number = number
        self.parser = parser
        self.hasher = hasher
        self.cursor = cursor
        self.has_taken_tail = False
        self._unhashed = bytearray()

    def feed(self, block: bytes) -> ParseResult:
        result = self.parser.feed(block)
        self._unhashed += block
        self._hash_consumed()
        return result

    def take_tail(self) -> ParseResult:
        before = self.parser.offset
        result = self.parser.take_tail()
        self.has_taken_tail = self.parser.offset > before
        self._hash_consumed()
        return result

    def _hash_consumed(self) -> None:
        consumed = self.parser.offset - self.hasher.offset
        self.hasher.feed(bytes(self._unhashed[:consumed]))
        del self._unhashed[:consumed]


def _head(file: FileIO) -> bytes:
    """Return the file's beginning up to the end of its first line, at least, without pasted binary payloads."""
    file.seek(0)
    head = file.read(HEAD_BYTES)
    while b"\n" not in head and len(head) < HEAD_BYTES_MAX and (more := file.read(READ_BYTES)):
        head, _ = drop_payload_runs(head + more)
    return head


def _is_same_content(file: FileIO, cursor: Cursor | None, stat: FileStat) -> bool:
    """Return whether the file still holds what was read up to ``cursor``."""
    return cursor is not None and cursor.offset > 0 and not _judge(file, cursor, stat).must_reread


def _judge(file: FileIO, cursor: Cursor, stat: FileStat) -> cursors.Verdict:
    hashes: dict[int, bytes] = {}
    for index in cursors.plan(cursor, stat).blocks:
        start, end = cursors.block_span(index, cursor.offset)
        file.seek(start)
        hashes[index] = cursors.block_hash(file.read(end - start))
    return cursors.judge(cursor, stat, hashes)


def _joined(first: ParseResult, second: ParseResult) -> ParseResult:
    """Return both results as one; a later telling of an exchange takes the place of the earlier."""
    exchanges = {exchange.key: exchange for exchange in (*first.exchanges, *second.exchanges)}
    return ParseResult(
        exchanges=tuple(exchanges.values()),
        sessions=first.sessions + second.sessions,
        lines_read=first.lines_read + second.lines_read,
        lines_skipped=dict(Counter(first.lines_skipped) + Counter(second.lines_skipped)),
        problems=first.problems + second.problems,
        superseded_keys=first.superseded_keys + second.superseded_keys,
    )


@contextmanager
def _opened(path: str) -> Iterator[tuple[FileIO, FileStat]]:
    """Open a regular file without ever blocking on a pipe.

    Raises:
        SourceError: It is no regular file.
        OSError: It cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb", buffering=0) as raw:
        found = os.fstat(raw.fileno())
        if not stat_module.S_ISREG(found.st_mode):
            raise SourceError("not a regular file")
        yield (
            raw,
            FileStat(
                size=found.st_size,
                mtime_ns=found.st_mtime_ns,
                ctime_ns=found.st_ctime_ns,
                device=found.st_dev,
                inode=found.st_ino,
            ),
        )
