"""Reads other programs' SQLite databases: their tables, their conversations, the rows of each.

Invariant: nothing of theirs changes. The connection is read-only and never checkpoints; it is never ``immutable``
either, since that would pass over the write-ahead log, where the newest messages stand. SQLite itself may lay a log
index (``-shm``) and an empty log beside a database in WAL mode, as it does for every reader.

Invariant: an error says what is wrong, why, and what to do; a changed schema is an error, never an empty history.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import msgspec
import zstandard

from palace_daemon.errors import SourceError

if TYPE_CHECKING:
    import sqlite3
else:
    try:
        import pysqlite3 as sqlite3
    except ImportError:
        import sqlite3

BUSY_TIMEOUT_MS = 2_000
"""How long a read waits for the other program's lock; the conversation is tried again later."""

UNPACKED_BYTES_MAX = 256 << 20
"""Largest compressed value that is unpacked; the largest known thread has some megabytes."""

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_DIVIDER = re.compile(r"^\s*;\s*$", re.MULTILINE)
_COLUMNS = (
    "SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS c"
    " WHERE m.type='table' AND m.sql NOT LIKE 'CREATE VIRTUAL%'"
)


class ForeignDatabase:
    """A read-only view of the database at ``path``, as it is when the context is entered.

    One read transaction spans the context, so that all answers agree. Keep it short: a database that is not in WAL
    mode cannot be written meanwhile. For one thread.

    Args:
        path: The database file; any characters.

    Raises:
        SourceError: On entering and from every method; the message names the path and the reason.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        with _mapped_errors(self._path):
            connection = sqlite3.connect(
                _uri(self._path), uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000
            )
            try:
                connection.text_factory = _decode
                connection.execute("PRAGMA query_only=ON")
                # The schema is not ours: its views and defaults may call nothing that has side effects.
                connection.execute("PRAGMA trusted_schema=OFF")
                connection.execute("BEGIN")
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the snapshot is taken here
            except sqlite3.Error:
                connection.close()
                raise
        self._connection = connection
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def tables(self) -> dict[str, frozenset[str]]:
        """Return each table's columns; views and virtual tables are left out."""
        found: dict[str, set[str]] = {}
        with _mapped_errors(self._path):
            for table, column in self._open().execute(_COLUMNS):
                found.setdefault(table, set()).add(column)
        return {table: frozenset(columns) for table, columns in found.items()}

    def conversations(self, sql: str) -> list[tuple[str, str]]:
        """Return the id and the stamp of each conversation, both as text, sorted by id; rows without an id count not.

        Args:
            sql: A query whose first two columns are these.
        """
        with _mapped_errors(self._path):
            rows = self._open().execute(sql).fetchall()
        return sorted({_as_text(row[0]): _as_text(row[1]) for row in rows if row[0] not in (None, "", b"")}.items())

    def lines(self, sql: str, conversation_id: str) -> Iterator[bytes]:
        """Yield each row of one conversation as a line of JSON: an object with the columns as keys.

        Bytes are unpacked if they are compressed with zstandard, and told as text, or as ``{"base64": …}`` where they
        are no UTF-8.

        Args:
            sql: Statements with the parameter ``:id``, divided by lines that hold ``;`` alone.
            conversation_id: What ``:id`` stands for.
        """
        connection = self._open()
        for statement in _DIVIDER.split(sql):
            if not statement.strip():
                continue
            with _mapped_errors(self._path):
                cursor = connection.execute(statement, {"id": conversation_id})
                names = [column[0] for column in cursor.description or ()]
                for row in cursor:
                    values = {name: self._value(value) for name, value in zip(names, row, strict=True)}
                    yield msgspec.json.encode(values) + b"\n"

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise SourceError(f"{self._path} is not open", hint="use the database as a context manager")
        return self._connection

    def _value(self, value: Any) -> Any:
        if not isinstance(value, bytes):
            return value
        data = self._unpacked(value) if value.startswith(_ZSTD_MAGIC) else value
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(data).decode("ascii")}

    def _unpacked(self, value: bytes) -> bytes:
        try:
            with zstandard.ZstdDecompressor().stream_reader(value, read_across_frames=True) as stream:
                data = stream.read(UNPACKED_BYTES_MAX + 1)
        except zstandard.ZstdError as exc:
            raise SourceError(
                f"{self._path} holds a compressed value that cannot be unpacked: {exc}",
                hint="its program may still be writing, or the file is damaged",
            ) from exc
        if len(data) > UNPACKED_BYTES_MAX:
            raise SourceError(f"{self._path} holds a value of over {UNPACKED_BYTES_MAX >> 20} MiB: it is not read")
        return data


def _uri(path: str) -> str:
    # Quoting keeps ?, # and % in paths from being read as URI syntax.
    if os.name == "nt":
        path = "/" + path.replace("\\", "/")
    return f"file:{quote(os.fsencode(path))}?mode=ro"


def _decode(text: bytes) -> str:
    return text.decode("utf-8", errors="replace")


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return _decode(value) if isinstance(value, bytes) else str(value)


# ----------------------------------------------------------------------------------------------------------- errors


@contextmanager
def _mapped_errors(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as exc:
        what, hint = _explained(path, str(exc))
        raise SourceError(f"{path} cannot be read: {what}", hint=hint) from exc


_REASONS = (
    (
        ("locked", "busy"),
        "its program holds a lock on it",
        "it is tried again; close the program if this stays",
    ),
    (
        ("not a database",),
        "it is no SQLite database, or it is encrypted or its beginning is damaged ({text})",
        "check the file with its own program",
    ),
    (
        ("disk image is malformed", "database corruption", "malformed database schema"),
        "it is damaged ({text})",
        "check the file with its own program",
    ),
    (
        ("no such table", "no such column", "no such function"),
        "its schema has changed ({text})",
        "an update of Palace may know the new one",
    ),
    (
        ("malformed json", "json path"),
        "it holds a value that is no JSON, so its schema has changed or it is damaged ({text})",
        "an update of Palace may know the new one",
    ),
    (
        ("disk i/o",),
        "the disk or the network drive that holds it fails ({text})",
        "check the drive",
    ),
)
"""Words of the driver, what they mean, what to do."""

_NEEDS_RECOVERY = (
    "it has a log (WAL) or journal that has to be taken in first, and for that a file would have to be made in its"
    " directory, which is read-only for this user"
)
_RECOVERY_HINT = "start its program once, or give this user the right to write in {directory}"


def _explained(path: str, text: str) -> tuple[str, str]:
    """Return why the driver says ``text``, and what to do."""
    lower = text.lower()
    directory = os.path.dirname(path) or "."
    if os.path.isdir(path):
        return "it is a directory", "name a file"
    if "readonly" in lower:
        return _NEEDS_RECOVERY, _RECOVERY_HINT.format(directory=directory)
    if "unable to open" in lower:
        return _why_not_opened(path, directory)
    for words, what, hint in _REASONS:
        if any(word in lower for word in words):
            return what.format(text=text), hint
    return text, ""


def _why_not_opened(path: str, directory: str) -> tuple[str, str]:
    if not os.path.exists(path):
        return "there is no such file", "check the path"
    if not os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
        return "the permission is missing", f"give this user the right to read {path}"
    return _NEEDS_RECOVERY, _RECOVERY_HINT.format(directory=directory)
