"""Getting the bytes of removed texts out of the database file and its write-ahead log.

A removed row leaves its bytes in free pages, in the slack of used ones, and in the log. So what is left is written
anew, page by page, over the old file (``VACUUM INTO`` a private file, copied back through the log), and the log is cut
to nothing. Plain ``VACUUM`` would do the same through a temporary database, which builds of SQLite such as the one in
``pysqlite3`` keep in memory, whatever its size.

A kill in between costs nothing: the copy is only ever committed whole, and ``state.scrub_due`` still says that it is
due. Readers go on; those that began before are waited for when the log is cut. Backups, and damaged files that were
kept aside, may hold the text as well: they are deleted. They stay where a migration left the file with free pages and
nothing was forgotten: then it is rewritten only to give the room back.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

from palace_daemon.core.ports import StopSignal
from palace_daemon.errors import CancelledError, StoreBusyError, StoreError, StoreFullError
from palace_daemon.store import backups, kept_columns, sqlite

ROOM_DUE = 2
"""``state.scrub_due`` where nothing was removed, but a migration left much room free; 1 where something was."""
COPY_SUFFIX = ".scrub"
"""Ending of the private copy beside the database."""
_STEP_PAGES = 2_000
"""Pages copied between two looks at ``stop``: about 8 MB."""
_HANDLER_STEPS = 100_000
"""Instructions of SQLite between two such looks while the copy is written."""
_BUSY = {5, 6}
"""SQLITE_BUSY and SQLITE_LOCKED."""


def scrub(connection: sqlite.Connection, path: Path, stop: StopSignal | None = None) -> None:
    """Rewrite the database at ``path``; call on the write connection, outside a transaction.

    Raises:
        StoreFullError: There is no room for a copy and a log of the same size.
        StoreBusyError: A reader kept the log from being cut.
        CancelledError: ``stop`` was set.
        StoreError: Anything else. In all cases nothing is lost, and it is still due.
    """
    drop_copy(path)
    if connection.execute("SELECT scrub_due FROM state").fetchone() != (ROOM_DUE,):
        backups.remove_all(path)  # first: it needs no room, and gives some
    _checkpoint(connection)  # a long log would count against the room
    _check_room(connection, path)
    copy = _copy_path(path)
    try:
        os.close(os.open(copy, os.O_CREAT | os.O_RDWR | os.O_EXCL, 0o600))
        _write_copy(connection, copy, stop)
        _copy_back(connection, copy, stop)
    except OSError as exc:
        raise StoreError(f"cannot write {copy}: {exc.strerror}") from exc
    finally:
        drop_copy(path)
    if not _checkpoint(connection):
        raise StoreBusyError("a reader keeps the log of the database from being emptied", hint="it is tried again")
    connection.execute("UPDATE state SET scrub_due=0")


def mark_due(connection: sqlite.Connection) -> None:
    """Note that bytes of something removed may still stand in the file; call in the transaction that removes it."""
    # With STAT4, ANALYZE keeps samples of index keys, and so words and ids of what went.
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name='sqlite_stat4'").fetchone():
        connection.execute("DELETE FROM sqlite_stat4")
    kept_columns.drop(connection)
    connection.execute("UPDATE state SET scrub_due=1")


def drop_copy(path: Path) -> None:
    """Remove what a killed process may have left."""
    with contextlib.suppress(FileNotFoundError):
        _copy_path(path).unlink()


def _copy_path(path: Path) -> Path:
    return path.with_name(path.name + COPY_SUFFIX)


def _checkpoint(connection: sqlite.Connection) -> bool:
    """Fold the log into the file and cut it to nothing; returns whether no reader was in the way."""
    (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


def _check_room(connection: sqlite.Connection, path: Path) -> None:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free_pages,) = connection.execute("PRAGMA freelist_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    needed = 2 * (pages - free_pages) * page_bytes
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        raise StoreFullError(
            f"no room to rewrite {path}: {needed / 1e6:,.0f} MB are needed, {free / 1e6:,.0f} MB are free",
            hint="free disk space",
        )


def _write_copy(connection: sqlite.Connection, copy: Path, stop: StopSignal | None) -> None:
    connection.set_progress_handler(lambda: int(_is_set(stop)), _HANDLER_STEPS)
    try:
        connection.execute("VACUUM INTO ?", (str(copy),))
    except Exception:
        _check(stop)
        raise
    finally:
        connection.set_progress_handler(None, 0)


def _copy_back(connection: sqlite.Connection, copy: Path, stop: StopSignal | None) -> None:
    deadline = time.monotonic() + sqlite.BUSY_TIMEOUT_MS / 1000

    def on_step(status: int, _remaining: int, _total: int) -> None:
        nonlocal deadline
        _check(stop)
        if status not in _BUSY:
            deadline = time.monotonic() + sqlite.BUSY_TIMEOUT_MS / 1000
        elif time.monotonic() > deadline:  # the driver would wait for ever
            raise StoreBusyError("another process holds the lock of the database", hint="it is tried again")

    source = sqlite.open_copy(copy)
    try:
        source.backup(connection, pages=_STEP_PAGES, progress=on_step)
    finally:
        source.close()


def _is_set(stop: StopSignal | None) -> bool:
    return stop is not None and stop.is_set()


def _check(stop: StopSignal | None) -> None:
    if _is_set(stop):
        raise CancelledError("the rewriting of the database was stopped; it goes on at the next start")
