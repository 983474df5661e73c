"""opencode and Kilo: the database in which they keep all sessions.

Invariant: a message's key is the one that the older tree of JSON files gives it, which stays after the migration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import Redactor
from palace_daemon.core.transcripts.opencode import queries
from palace_daemon.core.transcripts.opencode.records import AGENT, SHELL_NOTE, OpencodeMessages, SessionInfo
from palace_daemon.core.transcripts.reading.database_rows import DatabaseRows, nested, xdg_data_dir
from palace_daemon.core.transcripts.reading.words import as_text, path_parts, reason_word
from palace_daemon.core.turns import Event, Place, Reading, Title

KILO = "kilo"
_TITLE_RANK = 1
_NO_TITLE = re.compile(r"(New|Child) session - \d{4}-\d\d-\d\dT")
"""What a session is called until the model found a title."""

_CHANNEL = r"(-[\w.-]+)?"
_ENTRY_ROLES = frozenset({"user", "assistant"})


class OpencodeRow(Struct):
    """A row of any of the queries."""

    record: Any = None
    id: Any = None
    # of a session
    directory: Any = None
    parent_id: Any = None
    title: Any = None
    version: Any = None
    revert: Any = None
    # of a message
    type: Any = None
    message: Any = None
    parts: Any = None


class _State(Struct, array_like=True):
    session: SessionInfo
    messages: bytes


class OpencodeReader:
    """A :class:`~palace_daemon.core.transcripts.line_parser.RecordReader` of one session's rows."""

    def __init__(self, conversation: str, agent: str) -> None:
        self._agent = agent
        self._session = SessionInfo(id=conversation)
        self._messages = OpencodeMessages(agent)

    def snapshot(self) -> bytes:
        """Return the reader's state; it holds no text."""
        return msgspec.msgpack.encode(_State(self._session, self._messages.snapshot()))

    def restore(self, state: bytes) -> None:
        """Continue from :meth:`snapshot`."""
        saved = msgspec.msgpack.decode(state, type=_State)
        self._session = saved.session
        self._messages.restore(saved.messages)

    def read(self, record: OpencodeRow, place: Place, payload: bytes) -> list[Reading]:  # noqa: ARG002
        """Return what one row yields."""
        kind = as_text(record.record)
        if kind == "session":
            return [self._read_session(record)]
        message = nested(record.message)
        if kind not in ("message", "entry") or not isinstance(message, dict):
            return [Reading(skipped=("malformed",), session=self._session.name)]
        parts = nested(record.parts)
        parts = parts if isinstance(parts, list) else []
        if kind == "message":
            return [self._messages.read(self._session, message, parts, place)]
        return self._read_entry(as_text(record.type), message, parts, place)

    def _read_session(self, row: OpencodeRow) -> Reading:
        revert = nested(row.revert)
        self._session = SessionInfo(
            id=as_text(row.id) or self._session.id,
            parent_id=as_text(row.parent_id),
            cwd=as_text(row.directory),
            agent_version=as_text(row.version),
            reverted_from=as_text(revert.get("messageID")) if isinstance(revert, dict) else "",
        )
        name, title = self._session.name, as_text(row.title)
        events: list[Event] = [self._session.facts(self._agent)]
        if title.strip() and not _NO_TITLE.match(title):
            events.append(Title(session=name, text=title, rank=_TITLE_RANK))
        return Reading(events=tuple(events), session=name)

    def _read_entry(self, kind: str, entry: dict[str, Any], parts: list[Any], place: Place) -> list[Reading]:
        """Read a row of the later builds, which holds its parts itself, as the message that it would have been."""
        if kind == "user":
            parts = [{"type": "text", "text": entry.get("text")}, *parts]
        elif kind == "shell":
            note = {"type": "text", "text": SHELL_NOTE, "synthetic": True}
            call = {"type": "tool", "tool": "bash", "state": {"input": {"command": entry.get("command")}}}
            said = self._messages.read(self._session, {**entry, "role": "user"}, [note], place)
            done = self._messages.read(self._session, {**entry, "role": "assistant"}, [call], place)
            return [said, done]
        elif kind not in _ENTRY_ROLES:
            return [Reading(skipped=(f"entry:{reason_word(kind)}",), session=self._session.name)]
        return [self._messages.read(self._session, entry, parts, place)]


class OpencodeDatabase(DatabaseRows[OpencodeRow]):
    """The database of opencode 1.2 and later, or of Kilo on its core. Stateless and thread-safe.

    Args:
        agent: Whose it is; the tables are the same, so that its name decides.
        has_entries: Whether it has the table of the later builds.
    """

    record_type = OpencodeRow

    def __init__(self, agent: str = AGENT, *, has_entries: bool = False) -> None:
        self.agent = agent
        self.name = f"{agent}-entries-db" if has_entries else f"{agent}-db"
        self.tables: Mapping[str, tuple[str, ...]] = queries.TABLES | (queries.ENTRY_TABLE if has_entries else {})
        self.conversations = queries.CONVERSATIONS_WITH_ENTRIES if has_entries else queries.CONVERSATIONS
        self.records = queries.RECORDS_WITH_ENTRIES if has_entries else queries.RECORDS
        self._file_name = re.compile(rf"{agent}{_CHANNEL}\.db")

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the data directory, at whose top the database lies."""
        return (xdg_data_dir(environ, home, platform, self.agent),)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` is named like the database, of a preview channel too."""
        return self._file_name.fullmatch(path_parts(path)[-1]) is not None

    def reader(self, conversation: str, path: str, redact: Redactor, beside: Beside) -> OpencodeReader:  # noqa: ARG002
        """Return a reader for one session."""
        return OpencodeReader(conversation, self.agent)


OPENCODE_DATABASES = tuple(
    OpencodeDatabase(agent, has_entries=has_entries) for agent in (AGENT, KILO) for has_entries in (True, False)
)
"""In the order in which their tables are looked for: the more tables first."""
