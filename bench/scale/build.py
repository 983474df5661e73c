"""A synthetic store of a given size, built through the store's own API: many sessions a transaction.

What is stored went through the assembler's values, the product's chunker, its analyser and its index; nothing is
written that the store does not write itself. The transcripts of the sessions are gone, as those of old sessions are:
agents delete theirs after a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from palace_daemon.bench.scale.ahead import drawing_ahead
from palace_daemon.bench.scale.sessions import Session, draw_sessions
from palace_daemon.config import ChunkConfig
from palace_daemon.model import Cursor
from palace_daemon.service.build import token_counter
from palace_daemon.store import sources
from palace_daemon.store.drawers import DrawerStore
from palace_daemon.store.exchanges import ExchangeStore, SaveReport
from palace_daemon.store.sqlite import Connection, database_path
from palace_daemon.store.store import Store

BATCH_DRAWERS = 4_096
"""Drawers in one transaction: a block of the word index, each row of which is then written about once."""

AHEAD_FROM_DRAWERS = 20_000
"""Where so many are to be stored, sessions are made up in another process; for fewer its start takes as long."""

OnProgress = Callable[[str, int, int, str], None]


class Built(Struct, kw_only=True):
    """What was stored, and what it took."""

    sessions: int = 0
    exchanges: int = 0
    drawers: int = 0
    text_bytes: int = 0
    seconds: float = 0.0
    """To cut, index and commit; making the texts up does not count."""


def open_store(folder: Path) -> Store:
    """Open the store of a data directory as the daemon does, without the rules that a person may have set."""
    chunk = ChunkConfig()
    return Store(
        database_path(folder),
        counter=token_counter(),
        max_chars={"exchange": chunk.max_chars, "paragraph": chunk.paragraph_chars},
        min_user_turns=chunk.min_user_turns,
        project_of=lambda cwd: cwd,
    )


def fill(store: Store, drawers: int, seed: int, on_progress: OnProgress) -> Built:
    """Store whole sessions until there are ``drawers`` drawers or a few more."""
    if drawers < AHEAD_FROM_DRAWERS:
        return _fill(store, drawers, draw_sessions(seed), on_progress)
    with drawing_ahead(seed) as coming:
        return _fill(store, drawers, coming, on_progress)


def _fill(store: Store, drawers: int, coming: Iterator[Session], on_progress: OnProgress) -> Built:
    built = Built()
    while built.drawers < drawers:
        batch = _Batch(coming, min(BATCH_DRAWERS, drawers - built.drawers))
        before = batch.seconds_drawing
        began = time.perf_counter()
        report = store.edit(batch.save)
        built.seconds += time.perf_counter() - began - (batch.seconds_drawing - before)
        built.sessions += batch.sessions
        built.exchanges += report.added
        built.drawers += report.drawers_added - report.drawers_removed
        built.text_bytes += batch.text_bytes
        on_progress("building", min(built.drawers, drawers), drawers, "drawers")
    return built


class _Batch:
    """The work of one transaction: sessions until there are enough drawers."""

    def __init__(self, coming: Iterator[Session], drawers: int) -> None:
        self._coming = coming
        self._drawers = drawers
        self.sessions = self.text_bytes = 0
        self.seconds_drawing = 0.0

    def save(self, connection: Connection, drawers: DrawerStore) -> SaveReport:
        """Store the sessions; called by the store's writer inside a transaction."""
        exchanges = ExchangeStore(drawers, lambda cwd: cwd)
        report = SaveReport()
        while report.drawers_added - report.drawers_removed < self._drawers:
            began = time.perf_counter()
            session = next(self._coming)
            self.seconds_drawing += time.perf_counter() - began
            _save(connection, exchanges, session, report)
            self.sessions += 1
            self.text_bytes += session.text_bytes
        exchanges.recut(connection, report)
        return report


def _save(connection: Connection, exchanges: ExchangeStore, session: Session, report: SaveReport) -> None:
    source_id = sources.ensure(connection, session.path)
    reading = sources.begin_reading(
        connection, source_id, agent=session.agent, format_name=session.agent, format_version=1
    )
    exchanges.save(connection, source_id, reading, session.result, report)
    sources.save_progress(connection, source_id, Cursor(), None, lines_read=session.result.lines_read, lines_skipped={})
    sources.set_state(connection, session.path, "gone")
