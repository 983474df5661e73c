"""The store as the service sees it: one object that owns writer, readers and mirror.

Every method may be called from any thread. Writes are atomic: a batch of exchanges, its words and the cursor of its
source land together or not at all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from palace_daemon.core.ports import Float32, StopSignal, TokenCounter
from palace_daemon.errors import StoreBusyError, StoreError
from palace_daemon.model import Cursor, CutMode, ParseResult
from palace_daemon.store import (
    compactions,
    forgetting,
    kept_columns,
    migrations,
    scrubbing,
    sources,
    spaces,
    sqlite,
    vectors,
)
from palace_daemon.store.drawers import DrawerStore
from palace_daemon.store.exchanges import ExchangeStore, SaveReport, Unwanted
from palace_daemon.store.loading import Loading
from palace_daemon.store.mirror import Mirror, Snapshot
from palace_daemon.store.reader import Readers
from palace_daemon.store.writer import Writer

logger = logging.getLogger(__name__)
T = TypeVar("T")
_SNAPSHOT_TRIES = 8


class SourceBatch(Struct, frozen=True, kw_only=True):
    """What one step of reading a source yields, stored as one transaction."""

    source_id: int
    reading: int
    cursor: Cursor
    parser_state: bytes | None
    result: ParseResult
    is_at_end: bool
    """Whether this pass has now seen the whole file: what an older pass knew and this one did not see has vanished."""
    state_without: Callable[[Unwanted], bytes | None] | None = None
    """Returns ``parser_state`` without the words of what is not kept, or None where that cannot be done."""


class _Readable:
    """The reading half of both kinds of store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._readers = Readers(path)
        self._mirror = Mirror()

    @contextmanager
    def read(self) -> Iterator[sqlite.Connection]:
        """Yield a read-only connection inside one transaction."""
        with self._readers.snapshot() as connection:
            yield connection

    def spaces(self) -> spaces.Spaces:
        """Return which models' vectors are held, and how far each is."""
        with self.read() as connection:
            return spaces.read(connection)

    @contextmanager
    def read_with_drawers(self) -> Iterator[tuple[sqlite.Connection, Snapshot]]:
        """Yield a read-only connection and all drawers in memory, both of one and the same state.

        Another thread may bring the mirror past a transaction that has just begun; then a newer one is begun.
        """
        for _ in range(_SNAPSHOT_TRIES):
            with self._readers.snapshot() as connection:
                snapshot = self._mirror.at(connection)
                if snapshot is not None:
                    yield connection, snapshot
                    return
        raise StoreBusyError("the store changes faster than it can be read", hint="try again")


class Store(_Readable):
    """A data directory's database, open for writing."""

    def __init__(
        self,
        path: Path,
        *,
        counter: TokenCounter,
        max_chars: Mapping[CutMode, int],
        min_user_turns: int,
        project_of: Callable[[str], str],
        ignores_project: Callable[[str], bool] = lambda _project: False,
    ) -> None:
        """Open or create the database at ``path``, migrate it, and rebuild the index if it is of another version.

        Raises:
            StoreError: See :mod:`palace_daemon.store.sqlite` and :mod:`palace_daemon.store.migrations`.
        """
        super().__init__(path)
        self._drawers = DrawerStore(counter, max_chars, min_user_turns)
        self._exchanges = ExchangeStore(self._drawers, project_of, ignores_project)
        self.ignores_project = ignores_project
        self._loading: Loading | None = None
        self._writer = Writer(path, self._follow)
        try:
            self._writer.run(self._prepare)
        except BaseException:
            self.close()
            raise

    def _prepare(self, connection: sqlite.Connection) -> None:
        """Drop tombstones that no mirror needs, open or kept, and make the index current."""
        kept = kept_columns.generation(connection)
        connection.execute(
            "UPDATE state SET pruned_generation=max(pruned_generation, coalesce(?, generation))", (kept,)
        )
        connection.execute("DELETE FROM removed_drawers WHERE generation<=(SELECT pruned_generation FROM state)")
        (version,) = connection.execute("SELECT index_version FROM state").fetchone()
        if version != self._drawers.index_version:
            (count,) = connection.execute("SELECT count(*) FROM exchanges").fetchone()
            if count:
                logger.info("cutting and indexing %d exchanges anew: they were made by another version", count)
            self._rebuild(connection)

    def _rebuild(self, connection: sqlite.Connection) -> SaveReport:
        report = SaveReport()
        kept_columns.drop(connection)
        self._drawers.begin(connection)
        self._drawers.rebuild(connection, report)
        self._drawers.finish(connection)
        return report

    def load_words(self) -> None:
        """Load what answers by words need; the vectors of a large store are left to :meth:`load_beside`."""
        self._loading = self._loading or Loading(self._mirror, self._readers, self._keep)
        with self.read_with_drawers():
            pass

    def load_beside(self) -> None:
        """Have a thread load the vectors of a large store, and follow what is committed from then on.

        Until it has, questions are answered by words alone; without this the first question waits for them, and each
        one for what changed since the last. Once is enough.
        """
        self._loading = self._loading or Loading(self._mirror, self._readers, self._keep)
        self._loading.start()

    def _follow(self) -> None:
        if self._loading is not None:
            self._loading.follow()

    def _keep(self, packed: kept_columns.Packed) -> bool:
        return self._writer.run(lambda connection: kept_columns.save(connection, packed))

    def rebuild_index(self) -> SaveReport:
        """Cut and index everything anew from the stored exchanges, in one transaction."""
        return self._writer.run(self._rebuild)

    def save(self, batch: SourceBatch, mined_at: int) -> SaveReport:
        """Store a batch; blocks until it is committed. ``mined_at`` (UTC epoch ms) is for ``status`` only."""

        def work(connection: sqlite.Connection) -> SaveReport:
            report = SaveReport()
            if sources.reading_of(connection, batch.source_id) != batch.reading:
                raise StoreBusyError("something was forgotten of this source while it was read", hint="it is read anew")
            self._drawers.begin(connection)
            result = batch.result
            self._exchanges.save(connection, batch.source_id, batch.reading, result, report)
            skipped = sources.save_progress(
                connection,
                batch.source_id,
                batch.cursor,
                self._state_to_keep(connection, batch, report),
                lines_read=result.lines_read,
                lines_skipped=result.lines_skipped,
            )
            since = compactions.first_pass_to_judge(connection, batch.source_id, skipped) if batch.is_at_end else None
            if since is not None:
                self._exchanges.supersede_vanished(connection, batch.source_id, batch.reading, report, since=since)
            self._exchanges.recut(connection, report)
            for source_id in report.sources_to_reread:
                sources.forget_cursor(connection, source_id)
            if batch.is_at_end:
                sources.take_over_twins(connection, batch.source_id)
            self._drawers.finish(connection)
            connection.execute("UPDATE state SET last_mined_at=?", (mined_at,))
            return report

        return self._writer.run(work)

    @staticmethod
    def _state_to_keep(connection: sqlite.Connection, batch: SourceBatch, report: SaveReport) -> bytes | None:
        """Return the parser's state without what is not kept; where it cannot be without, none is stored."""
        if any(reason.startswith("ignored") for reason in report.left_out):
            forgetting.hold_back(connection, batch.source_id)
        if not report.unwanted:
            return batch.parser_state
        state = batch.state_without(report.unwanted) if batch.state_without else None
        if state is None:
            sources.drop_state(connection, batch.source_id)
        return state

    def supersede_source(self, source_id: int) -> None:
        """Note that a source holds nothing any more of what it told: it was emptied, or became something else."""

        def work(connection: sqlite.Connection) -> None:
            report = SaveReport()
            self._drawers.begin(connection)
            reading = sources.begin_empty_reading(connection, source_id)
            self._exchanges.supersede_vanished(connection, source_id, reading, report)
            self._exchanges.recut(connection, report)
            for other in report.sources_to_reread:
                sources.forget_cursor(connection, other)
            self._drawers.finish(connection)

        self._writer.run(work)

    def edit(self, work: Callable[[sqlite.Connection, DrawerStore], T]) -> T:
        """Run work that changes exchanges and their drawers in one transaction, with the index kept beside them."""

        def run(connection: sqlite.Connection) -> T:
            self._drawers.begin(connection)
            result = work(connection, self._drawers)
            self._drawers.finish(connection)
            return result

        return self._writer.run(run)

    def scrub(self, stop: StopSignal | None = None) -> None:
        """Get the bytes of what was removed out of file and log; see :func:`scrubbing.scrub`. Writers wait for it."""
        self._writer.run_bare(lambda connection: scrubbing.scrub(connection, self.path, stop))

    def save_vectors(self, model: str, hashes: Sequence[bytes], matrix: Float32) -> int:
        """Store float32 ``[n, dim]`` for ``hashes``, of the model with this fingerprint; returns how many were new."""
        return self._writer.run(lambda connection: vectors.save(connection, model, hashes, matrix))

    def use_model(self, model: str) -> bool:
        """Have the vectors of ``model``, a fingerprint, answer from now on; returns whether that changed anything."""
        return self._writer.run(lambda connection: spaces.use(connection, model))

    def switch_model(self, model: str) -> bool:
        """Have them answer once they cover enough, see :func:`palace_daemon.store.spaces.begin`."""
        return self._writer.run(lambda connection: spaces.begin(connection, model))

    def finish_switch(self, *, keep: bool) -> None:
        """End a switch now, whatever the next model covers; see :func:`palace_daemon.store.spaces.finish`."""
        self._writer.run(lambda connection: spaces.finish(connection, keep=keep))

    def take_up_left_texts(self) -> bool:
        """Have the answering model embed what it had left to a next one that does not come; returns whether it does."""
        with self.read() as connection:
            if not spaces.has_left(connection):
                return False
        return self._writer.run(spaces.take_up_left) > 0

    def drop_unused_vectors(self, limit: int) -> int:
        """Delete up to ``limit`` vectors that no model needs; returns how many, and writes only where there are."""
        with self.read() as connection:
            if not spaces.has_unused(connection):
                return 0
        return self._writer.run(lambda connection: spaces.drop_unused(connection, limit))

    def write(self, work: Callable[[sqlite.Connection], T]) -> T:
        """Run a small piece of work from :mod:`palace_daemon.store.sources` in a transaction of its own."""
        return self._writer.run(work)

    def close(self) -> None:
        """Finish queued writes and close; idempotent.

        The writer goes last: the last connection to close folds the write-ahead log into the database, and a read-only
        one cannot.
        """
        if self._loading is not None:
            self._loading.close()
        self._readers.close()
        self._writer.close()


class ReadOnlyStore(_Readable):
    """A data directory's database, open for questions only; another process may be writing."""

    def __init__(self, path: Path) -> None:
        """Open the existing database at ``path``.

        Raises:
            StoreError: There is none, or it cannot be read by this version.
        """
        super().__init__(path)
        with self.read() as connection:
            migrations.check_version(connection)

    def check_is_current(self) -> None:
        """Check that the store needs no migration, which takes one that is open for writing.

        Raises:
            StoreError: An older Palace wrote it.
        """
        with self.read() as connection:
            version = migrations.schema_version(connection)
        if version < migrations.SCHEMA_VERSION:
            raise StoreError(
                f"the store has schema {version}, questions need {migrations.SCHEMA_VERSION}",
                hint="the daemon brings it up to date: palace-daemon serve",
            )

    def close(self) -> None:
        """Close; idempotent."""
        self._readers.close()
