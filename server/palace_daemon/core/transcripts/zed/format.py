"""Zed: the database of its agent's threads, each a whole document in one row.

Invariant: a message has no time of its own. All turns of a thread have the time at which it was saved last, and say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import Redactor
from palace_daemon.core.transcripts.reading.database_rows import DatabaseRows, absent, nested, optional, xdg_data_dir
from palace_daemon.core.transcripts.reading.homes import below, below_home
from palace_daemon.core.transcripts.reading.words import as_text, path_parts
from palace_daemon.core.transcripts.zed.thread import AGENT, ZedThread, read_thread
from palace_daemon.core.turns import Place, Reading

_OPTIONAL = ("parent_id", "folder_paths", "folder_paths_order")
_RECORDS = f"""
SELECT 'thread' AS record, t.id AS id, t.summary AS summary, t.updated_at AS updated_at, t.data AS data,
    {", ".join(f"{optional('threads', column, 't.id')} AS {column}" for column in _OPTIONAL)}
FROM threads AS t, {absent(*_OPTIONAL)}
WHERE t.id = :id
"""
_CONVERSATIONS = "SELECT id, updated_at || '|' || length(data) AS stamp FROM threads"


class ZedRow(Struct):
    """The row of a thread."""

    record: Any = None
    id: Any = None
    summary: Any = None
    updated_at: Any = None
    data: Any = None
    parent_id: Any = None
    folder_paths: Any = None
    folder_paths_order: Any = None


class ZedReader:
    """A :class:`~palace_daemon.core.transcripts.line_parser.RecordReader` of one thread's row."""

    def __init__(self, conversation: str) -> None:
        self._conversation = conversation

    def snapshot(self) -> bytes:
        """Return nothing: a row tells all of its thread."""
        return b""

    def restore(self, state: bytes) -> None:
        """Do nothing."""

    def read(self, record: ZedRow, place: Place, payload: bytes) -> list[Reading]:  # noqa: ARG002
        """Return what the row yields."""
        thread = ZedThread(
            id=as_text(record.id) or self._conversation,
            parent_id=as_text(record.parent_id),
            title=as_text(record.summary),
            cwd=first_folder(as_text(record.folder_paths), as_text(record.folder_paths_order)),
            saved_at=record.updated_at,
        )
        document = nested(record.data)
        if not isinstance(document, dict):
            # Bytes that are no text are a way of packing that this version does not know.
            reason = "malformed" if isinstance(record.data, str) else "unknown_encoding"
            return [Reading(skipped=(reason,), session=thread.name)]
        return [read_thread(thread, document, place)]


def first_folder(paths: str, order: str) -> str:
    """Return the folder that the person opened first; ``paths`` is sorted, ``order`` tells the place of each."""
    folders = [path for path in paths.split("\n") if path]
    places = [int(place) for place in order.split(",") if place.strip().isdecimal()]
    if len(places) != len(folders) or not folders:
        return folders[0] if folders else ""
    return folders[places.index(min(places))]


class ZedDatabase(DatabaseRows[ZedRow]):
    """``threads.db`` of Zed, documents 0.1 to 0.3. Stateless and thread-safe."""

    name = "zed-db"
    agent = AGENT
    record_type = ZedRow
    tables: Mapping[str, tuple[str, ...]] = {"threads": ("id", "summary", "updated_at", "data_type", "data")}
    conversations = _CONVERSATIONS
    records = _RECORDS

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the directory of the threads, that of the flatpak too."""
        if platform == "darwin":
            return (below_home(environ, home, platform, "Library", "Application Support", "Zed", "threads"),)
        if platform == "win32":
            local = environ.get("LOCALAPPDATA") or below_home(environ, home, platform, "AppData", "Local")
            return (below(local, platform, "Zed", "threads"),)
        flatpak = below_home(environ, home, platform, ".var", "app", "dev.zed.Zed", "data", "zed", "threads")
        return (xdg_data_dir(environ, home, platform, "zed", "threads"), flatpak)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` is named like the database."""
        return path_parts(path)[-1] == "threads.db"

    def reader(self, conversation: str, path: str, redact: Redactor, beside: Beside) -> ZedReader:  # noqa: ARG002
        """Return a reader for one thread."""
        return ZedReader(conversation)
