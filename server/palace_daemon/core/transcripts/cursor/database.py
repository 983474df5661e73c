"""Cursor's editor: the conversations in its key-value store, ``state.vscdb``.

Invariant: the list of headers in a conversation's record tells what belongs to it, in order. The order of rows tells
nothing, and messages that the list does not name are side checks of the program.

Invariant: turns have no key of their own, so that the same conversation in the agent transcripts, which have no ids,
gives the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import Redactor
from palace_daemon.core.transcripts.cursor import queries
from palace_daemon.core.transcripts.cursor.place import AGENT
from palace_daemon.core.transcripts.cursor.query import reply_of
from palace_daemon.core.transcripts.reading.database_rows import DatabaseRows, nested
from palace_daemon.core.transcripts.reading.homes import below, below_home
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.words import as_text, path_parts
from palace_daemon.core.transcripts.vscode_chat.workspace import path_of_uri
from palace_daemon.core.turns import Event, Facts, Place, Reading, ReplyText, Title, ToolCall, TurnEnd, UserTurn
from palace_daemon.model import Attachment, ExchangeStatus, SessionFacts

_TITLE_RANK = 1
_USER, _ASSISTANT = 1, 2
_ENDS: Mapping[str, ExchangeStatus] = {"completed": "complete", "aborted": "interrupted"}
_MAX_IMAGES = 20


class CursorRow(Struct):
    """A row of any of the queries."""

    record: Any = None
    id: Any = None
    name: Any = None
    created: Any = None
    model: Any = None
    parent: Any = None
    workspace: Any = None
    status: Any = None
    type: Any = None
    text: Any = None
    raw_text: Any = None
    rich_text: Any = None
    images: Any = None
    tool: Any = None
    call_id: Any = None
    target: Any = None
    is_thinking: Any = None


class _State(Struct, array_like=True):
    id: str
    parent_id: str = ""
    cwd: str = ""
    model: str = ""
    created_at: int | None = None

    @property
    def name(self) -> str:
        return f"{self.parent_id}/{self.id}" if self.parent_id else self.id


class CursorReader:
    """A :class:`~palace_daemon.core.transcripts.line_parser.RecordReader` of one conversation's rows."""

    def __init__(self, conversation: str) -> None:
        self._state = _State(conversation)

    def snapshot(self) -> bytes:
        """Return the reader's state; it holds no text."""
        return msgspec.msgpack.encode(self._state)

    def restore(self, state: bytes) -> None:
        """Continue from :meth:`snapshot`."""
        self._state = msgspec.msgpack.decode(state, type=_State)

    def read(self, record: CursorRow, place: Place, payload: bytes) -> list[Reading]:  # noqa: ARG002
        """Return what one row yields."""
        match record.record:
            case "composer":
                return [self._read_composer(record)]
            case "bubble":
                return [self._read_bubble(record, place)]
            case "end":
                status = _ENDS.get(as_text(record.status))
                ends = (TurnEnd(session=self._state.name, status=status),) if status else ()
                return [Reading(events=ends, session=self._state.name)]
            case "missing":
                return [Reading(skipped=("missing_bubble",), session=self._state.name)]
            case _:
                return [Reading(skipped=("malformed",), session=self._state.name)]

    def _read_composer(self, row: CursorRow) -> Reading:
        self._state = _State(
            id=self._state.id,
            parent_id=as_text(row.parent),
            cwd=path_of_uri(row.workspace),
            model=as_text(row.model),
            created_at=to_epoch_ms(row.created),
        )
        is_subagent = bool(self._state.parent_id)
        facts = SessionFacts(
            agent=AGENT,
            session_id=self._state.name,
            parent_session_id=self._state.parent_id,
            relation="subagent" if is_subagent else "none",
            cwd=self._state.cwd,
            is_automated=is_subagent,
        )
        events: list[Event] = [Facts(session=self._state.name, facts=facts)]
        if as_text(row.name).strip():
            events.append(Title(session=self._state.name, text=as_text(row.name), rank=_TITLE_RANK))
        return Reading(events=tuple(events), session=self._state.name)

    def _read_bubble(self, row: CursorRow, place: Place) -> Reading:
        if row.type == _USER:
            return self._read_user(row, place)
        if row.type != _ASSISTANT:
            return self._reading(skipped="unknown_bubble")
        raw = as_text(row.text)
        text = reply_of(raw)
        if text.strip():
            events = (self._reply(row, text, place), *self._tool_calls(row, place))
            return self._reading(*events, skipped="thinking" if text != raw else "")
        calls = self._tool_calls(row, place)
        if calls:
            return self._reading(*calls)
        return self._reading(skipped="thinking" if row.is_thinking or raw.strip() else "empty")

    def _read_user(self, row: CursorRow, place: Place) -> Reading:
        # The editor keeps context apart from the words: tags in them are a person's own.
        text = next((text for text in (as_text(row.text), as_text(row.raw_text)) if text.strip()), "")
        text = (text or rich_text(row.rich_text)).removeprefix("\ufeff").strip()
        count = row.images if isinstance(row.images, int) else 0
        images = tuple(Attachment(kind="image") for _ in range(min(count, _MAX_IMAGES)))
        if not text and not images:
            return self._reading(skipped="empty")
        at = to_epoch_ms(row.created)
        turn = UserTurn(
            session=self._state.name,
            place=place,
            text=text,
            kind="automated" if self._state.parent_id else "prompt",
            at=self._state.created_at if at is None else at,
            time_quality="session" if at is None else None,
            record_ids=(row.id,) if isinstance(row.id, str) else (),
            attachments=images,
            cwd=self._state.cwd or path_of_uri(row.workspace),
            model=self._model(row),
        )
        return self._reading(turn)

    def _reply(self, row: CursorRow, text: str, place: Place) -> Event:
        return ReplyText(
            session=self._state.name,
            place=place,
            text=text,
            message_id=as_text(row.id),
            at=to_epoch_ms(row.created),
            model=self._model(row),
            cwd=self._state.cwd,
        )

    def _tool_calls(self, row: CursorRow, place: Place) -> list[Event]:
        name = as_text(row.tool)
        if not name:
            return []
        call = ToolCall(
            session=self._state.name,
            place=place,
            name=name,
            target=next(iter(as_text(row.target).strip().splitlines()), ""),
            call_id=as_text(row.call_id),
            at=to_epoch_ms(row.created),
        )
        return [call]

    def _model(self, row: CursorRow) -> str:
        return as_text(row.model) or self._state.model

    def _reading(self, *events: Event, skipped: str = "") -> Reading:
        return Reading(events=events, skipped=(skipped,) if skipped else (), session=self._state.name)


def rich_text(value: Any) -> str:
    """Return the words of an editor's document: JSON text of nodes with ``children``, or with ``text``."""
    root = nested(value)
    if not isinstance(root, dict) or not isinstance(root.get("root"), dict):
        return ""
    blocks = root["root"].get("children")
    return "\n".join(_words(block) for block in blocks).strip("\n") if isinstance(blocks, list) else ""


def _words(node: Any) -> str:
    words: list[str] = []
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict):
            continue
        if part.get("type") == "linebreak":
            words.append("\n")
        words.append(as_text(part.get("text")))
        children = part.get("children")
        waiting += reversed(children) if isinstance(children, list) else ()
    return "".join(words)


class CursorDatabase(DatabaseRows[CursorRow]):
    """``state.vscdb`` of Cursor 0.4x to 3.x. Stateless and thread-safe."""

    name = "cursor-db"
    agent = AGENT
    suffixes: tuple[str, ...] = (".vscdb",)
    record_type = CursorRow
    tables: Mapping[str, tuple[str, ...]] = {"cursorDiskKV": ("key", "value")}
    conversations = queries.CONVERSATIONS
    records = queries.RECORDS

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the editor's global storage; those of single workspaces hold no conversations."""
        if platform == "win32":
            base = environ.get("APPDATA") or below_home(environ, home, platform, "AppData", "Roaming")
        elif platform == "darwin":
            base = below_home(environ, home, platform, "Library", "Application Support")
        else:
            base = environ.get("XDG_CONFIG_HOME") or below_home(environ, home, platform, ".config")
        return (below(base, platform, "Cursor", "User", "globalStorage"),)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` is named like the database, in the folder of that of all workspaces."""
        return path_parts(path)[-2:] == ["globalStorage", "state.vscdb"]

    def reader(self, conversation: str, path: str, redact: Redactor, beside: Beside) -> CursorReader:  # noqa: ARG002
        """Return a reader for one conversation."""
        return CursorReader(conversation)
