"""The SQLite driver: pysqlite3 where it has a wheel (a newer SQLite), else the standard library's.

Every connection is opened here, and every driver error leaves this package as one of ours.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
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
Error = sqlite3.Error
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
START_ANEW_HINT = (
    "what was forgotten is not known any more: put a backup back, or delete the file, and all transcripts are read"
    " anew, what was forgotten among them"
)
"""What is left to do with a file that holds nothing."""
_SALVAGE_HINT = "run `palace-daemon doctor --fix`, which takes out what can be read"
_MAX_BOUND_VALUES = 500
_SHARED_BYTES_MIN = 64 << 10
"""More than the 32 KiB that SQLite makes beside a database before anything can be read."""
"""Values bound in one statement; SQLite's own limit is 32,766, older builds stop at 999."""


def database_path(data_dir: Path) -> Path:
    """Return the database file of a data directory."""
    return data_dir / DATABASE_NAME


@contextmanager
def mapped_errors(path: Path | str) -> Iterator[None]:
    """Turn driver errors into the tree of :mod:`palace_daemon.errors`, naming the file.

    Raises:
        StoreBusyError: The lock was held for longer than the busy timeout.
        StoreDamagedError: The file is no database, a page is corrupt, or a stored text is not UTF-8.
        StoreFullError: The disk, or the file's limit, is full.
        StoreError: Anything else, a read-only disk among it.
    """
    try:
        yield
    except sqlite3.Error as exc:
        text = str(exc)
        lower = text.lower()
        if "decode to utf-8" in lower:  # the driver quotes the text: its message is neither told nor logged
            raise StoreDamagedError(f"{path} is damaged: a stored text is not UTF-8", hint=_SALVAGE_HINT) from None
        if "not a database" in lower or "malformed" in lower or "corrupt" in lower:
            raise StoreDamagedError(f"{path} is damaged: {text}", hint=_SALVAGE_HINT) from exc
        if "locked" in lower or "busy" in lower:
            raise StoreBusyError(f"{path} is locked by another process", hint="try again") from exc
        if "full" in lower or ("disk i/o error" in lower and _is_full(Path(path))):  # so it says of files beside it
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
        StoreDamagedError: The file was emptied.
        StoreError: The file cannot be opened; see :func:`mapped_errors`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            _create(path)
    except OSError as exc:
        raise StoreError(f"cannot create {path}: {exc.strerror}") from exc
    _refuse_emptied(path)
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
        StoreDamagedError: The file was emptied.
        StoreError: The file does not exist or cannot be opened.
    """
    if not path.is_file():
        raise StoreError(f"there is no store at {path}", hint="run `palace-daemon mine` or `palace-daemon serve` first")
    _refuse_emptied(path)
    with mapped_errors(path):
        uri = _uri(path, "ro") + ("&immutable=1" if _is_nobody_writing(path) else "")
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


def _create(path: Path) -> None:
    """Make a new database that has its header when it gets its name: one of no bytes was emptied, and is not new."""
    new = path.with_name(f"{path.name}.new-{os.getpid()}-{threading.get_ident()}")
    os.close(os.open(new, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600))
    try:
        with (
            mapped_errors(path),
            closing(sqlite3.connect(_uri(new, "rw"), uri=True, isolation_level=None)) as connection,
        ):
            connection.execute("PRAGMA journal_mode=WAL").fetchone()
        if not path.exists():  # another process may have been first: then its file stands
            _name(new, path)
    finally:
        new.unlink(missing_ok=True)


def _name(new: Path, path: Path) -> None:
    try:
        path.hardlink_to(new)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        new.replace(path)


def _refuse_emptied(path: Path) -> None:
    """Refuse a file of no bytes: begun anew, it would take in again what had been forgotten."""
    log = path.with_name(f"{path.name}-wal")
    if path.stat().st_size == 0 and not (log.exists() and log.stat().st_size):
        raise StoreDamagedError(f"{path} is damaged: it is empty", hint=START_ANEW_HINT)


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


def _is_nobody_writing(path: Path) -> bool:
    """Return whether nobody can be writing: then SQLite is told so, since it cannot make the files that it shares."""
    log, index = (path.with_name(f"{path.name}-{end}") for end in ("wal", "shm"))
    is_settled = not log.exists() or log.stat().st_size == 0
    return is_settled and (not _may_write(path.parent) or (_is_full(path) and not index.exists()))


def _is_full(path: Path) -> bool:
    """Return whether the disk has not even room for the smallest of the files that SQLite makes beside a database."""
    try:
        return shutil.disk_usage(path.parent).free < _SHARED_BYTES_MIN
    except OSError:
        return False


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _uri(path: Path, mode: str) -> str:
    # Quoting keeps ?, # and % in paths from being read as URI syntax.
    return f"file:{quote(os.fsencode(path))}?mode={mode}"
