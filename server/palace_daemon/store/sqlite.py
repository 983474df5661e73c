"""The SQLite driver: pysqlite3 where it has a wheel (a newer SQLite), else the standard library's.

Every connection is opened here, and every driver error leaves this package as one of ours.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from palace_daemon.errors import StoreBusyError, StoreDamagedError, StoreError, StoreFullError

if TYPE_CHECKING:
    import sqlite3
else:
    try:
        import pysqlite3 as sqlite3
    except ImportError:
        import sqlite3

Connection = sqlite3.Connection
DRIVER = f"{sqlite3.__name__} {sqlite3.sqlite_version}"
"""Module and SQLite version, for ``doctor`` and test headers."""

BUSY_TIMEOUT_MS = 10_000
"""How long a connection waits for another process's lock; backup tools hold it for seconds."""

DATABASE_NAME = "palace.db"
_CACHE_KIB = 16_384
_WRITER_STATEMENTS = 512
"""Prepared statements kept by the writer. pysqlite3 makes room by dropping what came last: where the hundred or so of
the migrations fill its cache, all that follow are prepared anew each time, which takes ten times as long."""
_RETRY_S = 0.02
_MAX_BOUND_VALUES = 500
"""Values bound in one statement; SQLite's own limit is 32,766, older builds stop at 999."""


def database_path(data_dir: Path) -> Path:
    """Return the database file of a data directory."""
    return data_dir / DATABASE_NAME


@contextmanager
def mapped_errors(path: Path | str) -> Iterator[None]:
    """Turn driver errors into the tree of :mod:`palace_daemon.errors`, naming the file.

    Raises:
        StoreBusyError: The lock was held for longer than the busy timeout.
        StoreDamagedError: The file is no database, or a page is corrupt.
        StoreFullError: The disk, or the file's limit, is full.
        StoreError: Anything else, a read-only disk among it.
    """
    try:
        yield
    except sqlite3.Error as exc:
        text = str(exc)
        lower = text.lower()
        if "not a database" in lower or "malformed" in lower or "corrupt" in lower:
            hint = "run `palace-daemon doctor --fix`, which takes out what can be read"
            raise StoreDamagedError(f"{path} is damaged: {text}", hint=hint) from exc
        if "locked" in lower or "busy" in lower:
            raise StoreBusyError(f"{path} is locked by another process", hint="try again") from exc
        if "full" in lower:
            raise StoreFullError(
                f"no space left for {path}", hint="free disk space; nothing stored so far is lost"
            ) from exc
        if "readonly" in lower or ("unable to open" in lower and not _may_write(Path(path))):
            raise StoreError(f"{path} cannot be written: {text}", hint="the disk or the file is read-only") from exc
        raise StoreError(f"{path}: {text}") from exc


def open_writer(path: Path) -> Connection:
    """Open the one read-write connection, creating file and directory (0600 in 0700) if absent.

    The connection is in autocommit mode: transactions are explicit.

    Raises:
        StoreError: The file cannot be opened; see :func:`mapped_errors`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as exc:
        raise StoreError(f"cannot create {path}: {exc.strerror}") from exc
    with mapped_errors(path):
        connection = sqlite3.connect(
            _uri(path, "rw"),
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_WRITER_STATEMENTS,
        )
        try:
            _set_pragmas(connection)
            _enter_wal_mode(connection)
            # NORMAL: a power cut can lose the last commits, never consistency; lost lines are mined again.
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("PRAGMA wal_autocheckpoint=2000")
            # What a row no longer holds is overwritten, not merely let go. Costs mining nothing that can be measured.
            connection.execute("PRAGMA secure_delete=ON").fetchone()
        except sqlite3.Error:
            connection.close()
            raise
    return connection


def open_reader(path: Path) -> Connection:
    """Open a read-only connection.

    Raises:
        StoreError: The file does not exist or cannot be opened.
    """
    if not path.is_file():
        raise StoreError(f"there is no store at {path}", hint="run `palace-daemon mine` or `palace-daemon serve` first")
    with mapped_errors(path):
        uri = _uri(path, "ro") + ("&immutable=1" if _is_on_read_only_disk(path) else "")
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        try:
            _set_pragmas(connection)
            connection.execute("PRAGMA query_only=ON")
        except sqlite3.Error:
            connection.close()
            raise
    return connection


def open_copy(path: Path) -> Connection:
    """Open a private copy of a database that nobody else uses, to read all of it."""
    return sqlite3.connect(_uri(path, "rw"), uri=True, isolation_level=None, check_same_thread=False)


def open_to_copy(path: Path) -> Connection:
    """Open a read-only connection that may write a copy of the database elsewhere, and reads what it can."""
    return sqlite3.connect(_uri(path, "ro"), uri=True, isolation_level=None, check_same_thread=False)


def open_scratch() -> Connection:
    """Open an empty database in memory."""
    return sqlite3.connect(":memory:", isolation_level=None)


def batches(
    values: list[int] | list[str] | list[bytes], size: int = _MAX_BOUND_VALUES
) -> Iterator[list[int | str | bytes]]:
    """Cut ``values`` into lists short enough to bind."""
    for start in range(0, len(values), size):
        yield list(values[start : start + size])


def _enter_wal_mode(connection: Connection) -> None:
    """Switch to WAL, waiting for others that do the same to a new file.

    SQLite gives up at once here, without its busy timeout, since two connections that both upgrade would wait for each
    other; so the waiting is ours.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as exc:
            if "locked" not in str(exc) or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)
        else:
            return


def _set_pragmas(connection: Connection) -> None:
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA temp_store=MEMORY")
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")


def _is_on_read_only_disk(path: Path) -> bool:
    """Return whether nobody can be writing: then SQLite is told so, since it cannot make the files it shares."""
    log = path.with_name(f"{path.name}-wal")
    is_settled = not log.exists() or log.stat().st_size == 0
    return is_settled and not _may_write(path.parent)


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _uri(path: Path, mode: str) -> str:
    # Quoting keeps ?, # and % in paths from being read as URI syntax.
    return f"file:{quote(str(path))}?mode={mode}"
