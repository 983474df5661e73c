"""Goose: the database of its sessions, and the line files that came before and stay after they were taken over.

Invariant: a message's key is its own id. A compaction deletes all rows of a session and writes them anew, under new row
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from palace_daemon.core.jsonl import LineDecoder, sniff_lines
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.goose.records import AGENT, SUBAGENT, GooseSession, read_message
from palace_daemon.core.transcripts.line_parser import LineParser
from palace_daemon.core.transcripts.reading.database_rows import (
    DatabaseRows,
    absent,
    nested,
    optional,
    target,
    xdg_data_dir,
)
from palace_daemon.core.transcripts.reading.homes import below, below_home
from palace_daemon.core.transcripts.reading.words import as_text, path_parts
from palace_daemon.core.turns import Place, Reading

_SCHEDULED = "scheduled"


class _Directories:
    """Where both forms lie."""

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the sessions' directory; ``GOOSE_PATH_ROOT`` moves it, the first releases kept it in ``~/.goose``."""
        root = environ.get("GOOSE_PATH_ROOT", "")
        if root:
            return (below(root, platform, "data", "sessions"),)
        first = below_home(environ, home, platform, ".goose", "sessions")
        if platform == "win32":
            roaming = environ.get("APPDATA") or below_home(environ, home, platform, "AppData", "Roaming")
            return (below(roaming, platform, "Block", "goose"), first)
        return (xdg_data_dir(environ, home, platform, "goose", "sessions"), first)


# -------------------------------------------------------------------------------------------------------- the database

_OPTIONAL = ("name", "description", "user_set_name", "session_type", "schedule_id", "parent_session_id")
_MESSAGE_OPTIONAL = ("message_id", "metadata_json")

_MODEL = "CASE WHEN json_valid(model_config_json) THEN json_extract(model_config_json, '$.model_name') END"

_BLOCK = f"""json(CASE WHEN b.type <> 'object' THEN '0' ELSE json_object(
    'type', json_extract(b.value, '$.type'),
    'text', CASE WHEN json_extract(b.value, '$.type') = 'text' THEN json_extract(b.value, '$.text') END,
    'id', json_extract(b.value, '$.id'),
    'toolCall', json(CASE WHEN json_extract(b.value, '$.type') LIKE '%oolRequest' THEN json_object(
        'id', json_extract(b.value, '$.toolCall.id'),
        'name', coalesce(json_extract(b.value, '$.toolCall.value.name'), json_extract(b.value, '$.toolCall.name')),
        'arguments', json_object(
            'path', {target("b.value", "$.toolCall.value.arguments", "$.toolCall.arguments")})) END)) END)"""

_RECORDS = f"""
SELECT 'session' AS record, s.id AS id, s.working_dir AS working_dir,
    {", ".join(f"{optional('sessions', column, 's.id')} AS {column}" for column in _OPTIONAL)},
    {optional("sessions", _MODEL, "s.id")} AS model
FROM sessions AS s, {absent(*_OPTIONAL, "model_config_json")}
WHERE s.id = :id
;
SELECT 'message' AS record, {optional("messages", "message_id", "m.id")} AS id, m.role AS role,
    m.created_timestamp AS created, {optional("messages", "metadata_json", "m.id")} AS metadata,
    CASE WHEN json_valid(m.content_json) AND json_type(m.content_json) = 'array' THEN
        (SELECT json_group_array({_BLOCK}) FROM json_each(m.content_json) AS b) END AS content
FROM messages AS m, {absent(*_MESSAGE_OPTIONAL)}
WHERE m.session_id = :id
ORDER BY m.id
"""

_CONVERSATIONS = """
SELECT s.id AS id, coalesce(s.updated_at, '')
    || '|' || (SELECT count(*) FROM messages AS m WHERE m.session_id = s.id)
    || '|' || coalesce(
        (SELECT max(m.id) || '|' || length(m.content_json) FROM messages AS m WHERE m.session_id = s.id), '')
    AS stamp
FROM sessions AS s
"""


class GooseRow(Struct):
    """A row of the session or of a message."""

    record: Any = None
    id: Any = None
    working_dir: Any = None
    name: Any = None
    description: Any = None
    user_set_name: Any = None
    session_type: Any = None
    schedule_id: Any = None
    parent_session_id: Any = None
    model: Any = None
    role: Any = None
    created: Any = None
    metadata: Any = None
    content: Any = None


class GooseRowReader:
    """A :class:`~palace_daemon.core.transcripts.line_parser.RecordReader` of one session's rows."""

    def __init__(self, conversation: str) -> None:
        self._session = GooseSession(id=conversation)

    def snapshot(self) -> bytes:
        """Return the reader's state; it holds no text."""
        return msgspec.msgpack.encode(self._session)

    def restore(self, state: bytes) -> None:
        """Continue from :meth:`snapshot`."""
        self._session = msgspec.msgpack.decode(state, type=GooseSession)

    def read(self, record: GooseRow, place: Place, payload: bytes) -> list[Reading]:  # noqa: ARG002
        """Return what one row yields."""
        if record.record == "session":
            return [self._read_session(record)]
        message = {
            "id": record.id,
            "role": record.role,
            "created": record.created,
            "content": nested(record.content),
            "metadata": nested(record.metadata),
        }
        return [read_message(self._session, message, place)]

    def _read_session(self, row: GooseRow) -> Reading:
        kind = as_text(row.session_type)
        self._session = GooseSession(
            id=as_text(row.id) or self._session.id,
            parent_id=as_text(row.parent_session_id),
            kind=_SCHEDULED if row.schedule_id and kind != SUBAGENT else kind,
            cwd=as_text(row.working_dir),
            model=as_text(row.model),
        )
        title = as_text(row.name) or as_text(row.description)
        return self._session.told(title, is_chosen=bool(row.user_set_name))


class GooseDatabase(_Directories, DatabaseRows[GooseRow]):
    """``sessions.db`` of Goose 1.10 and later, schema 1 to 15. Stateless and thread-safe."""

    name = "goose-db"
    agent = AGENT
    record_type = GooseRow
    tables: Mapping[str, tuple[str, ...]] = {
        "sessions": ("id", "working_dir", "updated_at"),
        "messages": ("id", "session_id", "role", "content_json", "created_timestamp"),
    }
    conversations = _CONVERSATIONS
    records = _RECORDS

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` is named like the database."""
        return path_parts(path)[-1] == "sessions.db"

    def reader(self, conversation: str, path: str, redact: Redactor, beside: Beside) -> GooseRowReader:  # noqa: ARG002
        """Return a reader for one session."""
        return GooseRowReader(conversation)


# ------------------------------------------------------------------------------------------------------- the line files


class GooseLine(Struct):
    """A line: the session's on the first, a message's on the others."""

    working_dir: Any = None
    description: Any = None
    message_count: Any = None
    schedule_id: Any = None
    id: Any = None
    role: Any = None
    created: Any = None
    content: Any = None
    metadata: Any = None


def _is_line(value: dict[str, Any]) -> bool:
    return ("role" in value and "content" in value) or "message_count" in value


_LINES = LineDecoder(GooseLine, _is_line)


class GooseLineReader:
    """A :class:`~palace_daemon.core.transcripts.line_parser.RecordReader` of the old files' lines."""

    def __init__(self, file_name: str) -> None:
        self._session = GooseSession(id=file_name.removesuffix(".jsonl"))

    def snapshot(self) -> bytes:
        """Return the reader's state; it holds no text."""
        return msgspec.msgpack.encode(self._session)

    def restore(self, state: bytes) -> None:
        """Continue from :meth:`snapshot`."""
        self._session = msgspec.msgpack.decode(state, type=GooseSession)

    def read(self, record: GooseLine, place: Place, payload: bytes) -> list[Reading]:  # noqa: ARG002
        """Return what one line yields."""
        if record.role is None and (record.message_count is not None or record.working_dir is not None):
            kind = _SCHEDULED if record.schedule_id else ""
            name = as_text(record.id) or self._session.id
            self._session = GooseSession(id=name, cwd=as_text(record.working_dir), kind=kind)
            return [self._session.told(as_text(record.description), is_chosen=False)]
        message = {
            "id": record.id,
            "role": record.role,
            "created": record.created,
            "content": record.content,
            "metadata": record.metadata,
        }
        return [read_message(self._session, message, place)]


class GooseFormat(_Directories):
    """JSON lines of Goose before 1.10, rewritten as a whole at each save. Stateless and thread-safe.

    Secondary: the database takes these sessions over under the same ids, and gives messages without an id one.
    """

    name = "goose-jsonl"
    agent = AGENT
    version = 1
    shape: Shape = "lines"
    suffixes: tuple[str, ...] = (".jsonl",)
    is_secondary = True

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` has the ending; nothing else lies there in this grammar."""
        return path.endswith(self.suffixes)

    def sniff(self, head: bytes) -> bool:
        """Return whether ``head`` begins with the session's line."""
        return sniff_lines(head, _LINES, _is_session, _is_session_torn)

    def open(
        self,
        path: str,
        redact: Redactor,
        state: bytes | None = None,
        beside: Beside = NOTHING_BESIDE,  # noqa: ARG002 - its lines say everything
    ) -> LineParser[GooseLine]:
        """Return a parser for the session at ``path``, whose name is its id."""
        return LineParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            decoder=LineDecoder(GooseLine, _is_line),
            reader=GooseLineReader(path_parts(path)[-1]),
            redact=redact,
            state=state,
        )


def _is_session(record: GooseLine) -> bool:
    return isinstance(record.working_dir, str) and isinstance(record.message_count, int) and record.role is None


def _is_session_torn(first: bytes) -> bool:
    return first.lstrip().startswith(b"{") and b'"working_dir":' in first and b'"message_count":' in first
