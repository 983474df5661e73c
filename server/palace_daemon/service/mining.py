"""Reading one source: from a path to stored exchanges, one transaction for each mebibyte read.

The truth is the file: take its stat, compare it with the cursor, read on from there. What is stored and how far the
file was read land in one transaction, so a kill between two of them costs a re-read of at most one block.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack

from msgspec import Struct, field, structs

from palace_daemon.core import cursor as cursors
from palace_daemon.core.documents import is_open_document
from palace_daemon.core.ports import StopSignal
from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.base import FolderFormat, SourceParser, TranscriptFormat
from palace_daemon.errors import CancelledError, SourceError
from palace_daemon.model import Cursor, FileStat, MineReport, ParseResult, SourceState
from palace_daemon.service import material as materials
from palace_daemon.service.archives import Archives
from palace_daemon.service.material import Found, Listing, Material, StillWrittenError
from palace_daemon.service.reading import HEAD_BYTES_MAX, Reading, head_of, is_same_content, joined, judge
from palace_daemon.store import sources
from palace_daemon.store.exchanges import SaveReport
from palace_daemon.store.forgetting import IGNORED_PATH
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.store import SourceBatch, Store
from palace_daemon.watch import discover

logger = logging.getLogger(__name__)

OWN_FILE = "a file of Palace itself"

READ_BYTES = 1 << 20
"""Bytes read, parsed and stored at a time: about 0.2 s of work on the writer, so live lines wait no longer."""
_MAGIC_BYTES = 16
"""Bytes that tell archives and databases from files."""
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
    share_left: float = 1.0
    """How much of the source is still to be read then."""
    error: str = ""
    """Why the source could not be read."""
    is_unknown: bool = False
    """Whether the file is of no known format."""
    reread: tuple[str, ...] = ()
    """Further sources that must be read anew."""
    is_settled: bool = False
    """Whether there is nothing to do for the source until its file changes."""
    found: tuple[Found, ...] = ()
    """Sources inside this one that are to be read: an archive's members, a database's conversations."""


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
        self.saves.left_out.update(saved.left_out)
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
            exchanges_left_out=dict(saves.left_out),
        )


class SourceMiner:
    """Reads sources one at a time. Used by one thread; the store may be shared."""

    def __init__(
        self, store: Store, clock: Callable[[], int], ignores_path: Callable[[str], bool] = lambda _path: False
    ) -> None:
        """Take the store, the clock (UTC epoch ms), which dates ``last_mined_at`` only, and what is left alone."""
        self._store = store
        self._clock = clock
        self._ignores_path = ignores_path
        self._archives = Archives()
        self._own = discover.resolve(str(store.path.parent))
        self._stamps: dict[str, str] = {}
        """Path of a conversation that waits to be read to what its database's list said of it."""

    def mine(self, path: str, *, take_tail: bool = False, stop: StopSignal | None = None) -> Outcome:
        """Bring the store up to the source at ``path``; never raises for what it is or holds.

        Args:
            path: Resolved path of the source.
            take_tail: Take a last line without line end if it is one whole record.
            stop: Ends the work after the current block.

        Raises:
            CancelledError: ``stop`` was set.
            StoreError: The store failed; the source is untouched and can be tried again.
        """
        if self._ignores_path(path):
            return Outcome(report=MineReport(files=1), error=IGNORED_PATH, is_unknown=True)
        if self.is_own(path):
            return Outcome(report=MineReport(files=1), error=OWN_FILE, is_unknown=True, is_settled=True)
        try:
            outcome = self._mine(path, take_tail=take_tail, stop=stop)
        except StillWrittenError as exc:
            outcome = self._pending(path, str(exc))
        except FileNotFoundError:
            outcome = self._gone(path)
        except OSError as exc:
            outcome = self._failed(path, exc.strerror or str(exc))
        except SourceError as exc:
            outcome = self._failed(path, str(exc))
        if materials.split(path)[1]:  # the container is the file
            outcome.report = structs.replace(outcome.report, files=0)
        return outcome

    def release(self) -> None:
        """Close what was kept open for the next source."""
        self._archives.close()

    def is_own(self, path: str) -> bool:
        """Return whether ``path`` leads into our own data directory.

        Such a file is never opened: closing a second descriptor of the database would drop the locks that this process
        holds on it, and another program could then take the write-ahead log away.
        """
        file = materials.file_of(path)
        if file.startswith(self._own + os.sep):
            return True
        try:
            found = os.stat(file)
            ours = [os.stat(f"{self._store.path}{suffix}") for suffix in ("", "-wal", "-shm")]
        except (OSError, ValueError):
            return False
        return any((found.st_dev, found.st_ino) == (one.st_dev, one.st_ino) for one in ours)

    def settled(self) -> dict[str, FileStat]:
        """Return the sources that were read to their end by the present parsers, and their stats at that time."""
        with self._store.read() as connection:
            rows = sources.read_to_the_end(connection)
        versions = {known.name: known.version for known in registry.formats()}
        return {path: stat for path, (stat, name, version) in rows.items() if versions.get(name) == version}

    def _mine(self, path: str, *, take_tail: bool, stop: StopSignal | None) -> Outcome:
        with ExitStack() as stack:
            source = stack.enter_context(materials.opened(path, self._archives, self._stamps.pop(path, "")))
            if not materials.split(path)[1] and materials.is_container(source.head(_MAGIC_BYTES)):
                return self._list(path)
            row = self._known(path, source)
            known = registry.by_name(row.format) if row and row.format else None
            if known is None:
                known = self._detect(path, source)
            if known is not None and isinstance(known, FolderFormat):
                is_same = row is not None and (row.format, row.format_version) == (known.name, known.version)
                last = row.cursor.stat if row and row.cursor and is_same and row.state == "ok" else None
                session = materials.gathered(path, known, self._archives, last)
                if session is None:
                    return Outcome(report=MineReport(files=1))
                source = session
            reading = self._begin(path, row, known, source)
            if isinstance(reading, Outcome):
                return reading
            outcome = self._read(reading, source, take_tail=take_tail, stop=stop)
            outcome.is_settled = outcome.is_settled and not isinstance(known, FolderFormat)
            return outcome

    def _detect(self, path: str, source: Material) -> TranscriptFormat | None:
        """Return the format that the content shows; a conversation's is that of its database."""
        if not source.has_identity and (found := materials.database_format(path)):
            return found
        return registry.detect(registry.plain_name(path), head_of(source.file))

    def _known(self, path: str, source: Material) -> sources.SourceRow | None:
        """Return the stored source, following a file that was renamed."""
        with self._store.read() as connection:
            row = sources.find(connection, path)
            candidates = [] if row or not source.has_identity else sources.find_by_identity(connection, source.stat)
        for candidate in candidates:
            # Inode numbers are used again: the content decides.
            if not os.path.lexists(candidate.path) and is_same_content(source, candidate.cursor):
                source_id = candidate.source_id
                self._store.write(lambda c: sources.move(c, source_id, path))  # noqa: B023 - runs before the next turn
                with self._store.read() as connection:
                    return sources.find(connection, path)
        return row

    def _begin(
        self, path: str, row: sources.SourceRow | None, known: TranscriptFormat | None, source: Material
    ) -> Reading | Outcome:
        """Decide where to read on; an Outcome when there is nothing to read."""
        if row and row.cursor and known and (row.format, row.format_version) == (known.name, known.version):
            verdict = judge(source, row.cursor)
            if verdict.kind == "unchanged":
                return self._unchanged(row, verdict.cursor, source.stat)
            # A document that changed is read from its start; the same one, from where the last slice ended.
            can_resume = known.shape == "lines" or row.cursor.stat == source.stat
            if (
                can_resume
                and not verdict.must_reread
                and (resumed := self._resume(row, known, path, verdict.cursor, source))
            ):
                return resumed
        if row and row.format:
            known = self._detect(path, source) if not isinstance(known, FolderFormat) else known
        if known is None:
            return self._unknown(path, head_of(source.file), row)
        if twin := materials.unpacked_twin(path):
            reason = f"its uncompressed file is read: {os.path.basename(twin)}"
            self._store.write(lambda c: sources.set_state(c, path, "skipped", reason))
            return Outcome(report=MineReport(files=1), is_settled=True)
        return self._anew(path, known)

    def _resume(
        self, row: sources.SourceRow, known: TranscriptFormat, path: str, cursor: Cursor, source: Material
    ) -> Reading | None:
        """Go on from the cursor; None when the stored state does not fit and the source must be read anew."""
        file = source.file
        file.seek(cursors.partial_start(cursor.offset))
        partial = file.read(cursor.offset - file.tell()) or b""
        following = file.read(1) or b""
        if not cursors.follows_taken_tail(cursor, following):
            return None
        try:
            parser = _open(known, path, row.parser_state, self._archives)
            hasher = cursors.BlockHasher.resume(cursor, partial)
        except ValueError:
            return None
        if parser.offset != cursor.offset:
            return None
        return Reading(row.source_id, row.reading, parser, hasher, cursor)

    def _anew(self, path: str, found: TranscriptFormat) -> Reading:
        def work(connection: Connection) -> tuple[int, int]:
            source_id = sources.ensure(connection, path)
            reading = sources.begin_reading(
                connection,
                source_id,
                agent=found.agent,
                format_name=found.name,
                format_version=found.version,
                is_secondary=found.is_secondary,
            )
            return source_id, reading

        source_id, reading = self._store.write(work)
        return Reading(source_id, reading, _open(found, path, None, self._archives), cursors.BlockHasher(), Cursor())

    def _read(self, reading: Reading, source: Material, *, take_tail: bool, stop: StopSignal | None) -> Outcome:
        """Feed the parser block by block, storing each block's exchanges with the cursor behind them."""
        file, size = source.file, source.stat.size
        start = reading.parser.offset
        file.seek(start)
        position = start
        tally = _Tally()
        has_more = False
        while True:
            if stop is not None and stop.is_set():
                raise CancelledError("mining was stopped")
            block = file.read(min(READ_BYTES, max(0, size - position))) or b""
            position += len(block)
            is_last = not block or position >= size
            result = reading.feed(block)
            if is_last:
                result = joined(result, reading.end(take_tail=take_tail))
            self._save(reading, source.stat, result, tally, is_last=is_last)
            if is_last:
                break
            if position - start >= SLICE_BYTES and reading.parser.offset > start:
                has_more = True
                break
        outcome = Outcome(report=tally.report(), sessions=frozenset(tally.saves.sessions), has_more=has_more)
        outcome.share_left = 1.0 - position / size if has_more else 0.0
        outcome.has_tail = not has_more and reading.parser.offset < size
        outcome.is_settled = not has_more and source.has_identity
        outcome.reread = self._paths(tally.saves.sources_to_reread)
        return outcome

    def _save(self, reading: Reading, stat: FileStat, result: ParseResult, tally: _Tally, *, is_last: bool) -> None:
        if not is_last and reading.hasher.offset == reading.cursor.offset:
            return  # inside one very long line: nothing to store yet
        reading.cursor = cursors.advance(reading.cursor, stat, reading.hasher, tail_taken=reading.has_taken_tail)
        batch = SourceBatch(
            source_id=reading.source_id,
            reading=reading.number,
            cursor=reading.cursor,
            parser_state=reading.parser.snapshot(),
            result=result,
            is_at_end=is_last and reading.parser.is_whole,
            state_without=reading.state_without,
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
        return Outcome(report=MineReport(files=1), has_tail=cursor.offset < stat.size, is_settled=True)

    def _unknown(self, path: str, head: bytes, row: sources.SourceRow | None) -> Outcome:
        """Note a file that is no transcript; what it held when it was one is superseded."""
        if why := registry.why_unreadable(path, head):
            raise SourceError(why)
        former = registry.by_name(row.format) if row is not None and row.format else None
        if former is not None and former.shape == "document" and is_open_document(head):
            return self._pending(path, "it is being written anew")
        if row is not None and row.format:  # it was one until now
            self._store.supersede_source(row.source_id)
        if not head or (b"\n" not in head and len(head) < HEAD_BYTES_MAX and path.endswith(registry.LINE_SUFFIX)):
            # The first line is still being written (or the file is empty): ask again when it has grown.
            state: SourceState = "pending"
            reason = "empty" if not head else "its first line is not complete yet"
        else:
            state, reason = "skipped", "not a transcript of a known format"
        if row is None and not registry.may_hold(path):
            # Any file of a like ending.
            return Outcome(report=MineReport(files=1), error=reason, is_unknown=True, is_settled=True)
        if row is None or (row.state, row.error) != (state, reason):
            self._store.write(lambda c: sources.set_state(c, path, state, reason))
        return Outcome(report=MineReport(files=1), error=reason, is_unknown=True, is_settled=True)

    def _pending(self, path: str, reason: str) -> Outcome:
        """Note that a source cannot be read yet; what was read of it before stands."""
        self._store.write(lambda c: sources.set_state(c, path, "pending", reason))
        return Outcome(report=MineReport(files=1), has_tail=True)

    def _list(self, path: str) -> Outcome:
        """Name what a container holds and is not read yet as it is now."""
        listing = materials.list_container(path, self._archives)
        with self._store.read() as connection:
            stored = {row.path: row for row in sources.below(connection, f"{path}{materials.MEMBER}")}
        if not listing.found and not listing.format_name:
            if stored:
                raise SourceError("it held transcripts and holds none that can be read now", hint="see docs/formats.md")
            reason = "no transcript of a known format in it"
            if registry.may_hold(path):
                self._store.write(lambda c: sources.set_state(c, path, "skipped", reason))
            return Outcome(report=MineReport(files=1), error=reason, is_unknown=True, is_settled=True)
        found = tuple(item for item in listing.found if not _is_read(stored.get(item.path), item))
        self._stamps.update({item.path: item.stamp for item in found if item.stamp})
        self._note_container(path, listing, stored)
        # A database can change without its file: what is new stands in its log.
        return Outcome(report=MineReport(files=1), found=found, is_settled=not listing.format_name)

    def _note_container(self, path: str, listing: Listing, stored: dict[str, sources.SourceRow]) -> None:
        here = {item.path for item in listing.found}
        gone = [name for name, row in stored.items() if name not in here and row.state != "gone"]

        def work(connection: Connection) -> None:
            sources.set_state(connection, path, "ok", agent=listing.agent)
            for name in gone:  # its agent dropped it, as agents delete files
                sources.note_gone(connection, name)

        self._store.write(work)

    def _gone(self, path: str) -> Outcome:
        self._store.write(lambda connection: sources.note_gone(connection, path))
        return Outcome()

    def _failed(self, path: str, reason: str) -> Outcome:
        self._store.write(lambda c: sources.set_state(c, path, "failed", reason))
        logger.warning("cannot read %s: %s", path, reason)
        return Outcome(report=MineReport(files=1, files_failed=1), error=reason)


def _open(known: TranscriptFormat, path: str, state: bytes | None, archives: Archives) -> SourceParser:
    from palace_daemon.core import redaction  # noqa: PLC0415 - first answers need not wait for its patterns

    return known.open(registry.plain_name(path), redaction.redact, state, materials.FilesBeside(archives))


def _is_read(row: sources.SourceRow | None, item: Found) -> bool:
    """Return whether a container's member is stored as it is now; members of archives are judged when opened."""
    if row is None or row.state != "ok" or row.cursor is None or not item.stamp:
        return False
    known = registry.by_name(row.format)
    is_current = known is not None and known.version == row.format_version
    return is_current and materials.is_same_stamp(row.cursor.stat, item.stamp)
