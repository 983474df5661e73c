"""Cursor: the agents' transcripts in JSON lines below ``~/.cursor/projects``, of the editor and the command line.

Invariant: lines have neither ids nor, mostly, times. An exchange is known by its conversation, its position and its
words, in these files as in Cursor's databases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from palace_daemon.core.jsonl import LineDecoder, sniff_lines
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.cursor.place import AGENT, CursorPlace
from palace_daemon.core.transcripts.cursor.query import Query, read_query, reply_of
from palace_daemon.core.transcripts.line_parser import LineParser
from palace_daemon.core.transcripts.reading.homes import below, below_home
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.words import as_text, reason_word
from palace_daemon.core.turns import (
    Event,
    Place,
    Reading,
    ReplyText,
    ToolCall,
    TurnContext,
    TurnEnd,
    UserTurn,
)
from palace_daemon.model import Attachment, ExchangeStatus

_ROLES = frozenset({"user", "assistant"})
_TURN_ENDED = "turn_ended"
_STATUSES: dict[str, ExchangeStatus] = {"aborted": "interrupted", "cancelled": "interrupted", "error": "error"}
_TORN_HEAD = re.compile(rb'\{\s*"role"\s*:\s*"(?:user|assistant)"\s*,\s*"message"\s*:\s*\{')


class CursorLine(Struct):
    """A line: a message, or the mark that a turn ended."""

    role: Any = None
    message: Any = None
    type: Any = None
    event: Any = None
    status: Any = None
    timestamp: Any = None

    @property
    def content(self) -> list[Any]:
        """The blocks of the message; a bare text is one."""
        held = self.message.get("content") if isinstance(self.message, dict) else self.message
        return held if isinstance(held, list) else [held]


def decoder() -> LineDecoder[CursorLine]:
    """Return a decoder of such lines."""
    return LineDecoder(CursorLine, _is_record)


def _is_record(value: dict[str, Any]) -> bool:
    return as_text(value.get("role")) in _ROLES and "message" in value


class _State(Struct, array_like=True):
    has_begun: bool = False
    cwd: str = ""


class CursorReader:
    """A :class:`~palace_daemon.core.transcripts.line_parser.RecordReader` of Cursor lines."""

    def __init__(self, place: CursorPlace, beside: Beside) -> None:
        self._file = place
        self._beside = beside
        self._session = place.session
        self._state = _State()

    def snapshot(self) -> bytes:
        """Return the reader's state."""
        return msgspec.msgpack.encode(self._state)

    def restore(self, state: bytes) -> None:
        """Continue from :meth:`snapshot`."""
        self._state = msgspec.msgpack.decode(state, type=_State)

    def read(self, record: CursorLine, place: Place, payload: bytes) -> list[Reading]:  # noqa: ARG002
        """Return what ``record`` yields."""
        readings = self._begin()
        if record.role == "user":
            readings.append(self._read_user(record, place))
        elif record.role == "assistant":
            readings.append(self._read_reply(record, place))
        elif _TURN_ENDED in (record.type, record.event):
            status = _STATUSES.get(as_text(record.status), "complete")
            readings.append(self._told((TurnEnd(session=self._session, status=status),)))
        else:
            kind = as_text(record.type) or as_text(record.role)
            readings.append(self._told((), (f"unknown_type:{reason_word(kind)}",)))
        return readings

    def _begin(self) -> list[Reading]:
        if self._state.has_begun:
            return []
        self._state = _State(has_begun=True, cwd=self._file.told_directory(self._beside))
        return [self._told((self._file.facts(self._state.cwd),))]

    def _told(self, events: tuple[Event, ...], skipped: tuple[str, ...] = ()) -> Reading:
        return Reading(events=events, skipped=skipped, session=self._session)

    def _read_user(self, record: CursorLine, place: Place) -> Reading:
        texts, images, results = _user_blocks(record.content)
        query = read_query("\n\n".join(texts))
        if images:
            query = query._replace(attachments=(*query.attachments, *images), is_turn=True, reason="")
        if not query.is_turn:
            return self._told((), ("tool_result" if results and not texts else query.reason,))
        turn = turn_of(query, self._file, place, self._state.cwd, to_epoch_ms(record.timestamp))
        return self._told((turn,), query.skipped)

    def _read_reply(self, record: CursorLine, place: Place) -> Reading:
        events: list[Event] = []
        skipped: list[str] = []
        at = to_epoch_ms(record.timestamp)
        for block in record.content:
            kind = as_text(block.get("type")) if isinstance(block, dict) else "text"
            raw = as_text(block.get("text") if isinstance(block, dict) else block)
            text = reply_of(raw)
            if kind == "text" and text.strip():
                cwd = self._state.cwd
                events.append(ReplyText(session=self._session, place=place, text=text, at=at, cwd=cwd))
                skipped += ["thinking"] if text != raw else []
            elif kind == "tool_use":
                events += self._read_call(block, place, at)
            else:
                is_thought = kind in ("text", "thinking", "redacted", "redacted_thinking", "reasoning")
                skipped.append("thinking" if is_thought else f"block_{reason_word(kind)}")
        return self._told(tuple(events), tuple(skipped))

    def _read_call(self, block: dict[str, Any], place: Place, at: int | None) -> list[Event]:
        arguments = block.get("input")
        events: list[Event] = []
        if not self._state.cwd and isinstance(arguments, dict):
            self._state.cwd = self._file.shown_directory(arguments.values())
            if self._state.cwd:
                events.append(self._file.facts(self._state.cwd))
                events.append(TurnContext(session=self._session, cwd=self._state.cwd))
        call = ToolCall(
            session=self._session,
            place=place,
            name=as_text(block.get("name")) or "tool",
            target=target_of(arguments),
            call_id=as_text(block.get("id")),
            at=at,
        )
        return [*events, call]


def turn_of(query: Query, file: CursorPlace, place: Place, cwd: str, at: int | None = None) -> UserTurn:
    """Return the turn that a query opens; ``at`` is the record's own time, else the query may tell it to the minute."""
    return UserTurn(
        session=file.session,
        place=place,
        text=query.text,
        kind="automated" if file.is_subagent else "prompt",
        at=query.at if at is None else at,
        time_quality="turn" if at is None else None,
        utc_offset_minutes=query.zone if at is None else None,
        attachments=query.attachments,
        cwd=cwd,
    )


def _user_blocks(content: list[Any]) -> tuple[list[str], tuple[Attachment, ...], int]:
    """Return the texts and the images of a user message, and how many tool results stand in it."""
    texts: list[str] = []
    images: list[Attachment] = []
    results = 0
    for block in content:
        if isinstance(block, str):
            texts.append(block)
        elif isinstance(block, dict):
            kind = as_text(block.get("type"))
            results += kind == "tool_result"
            if kind == "text" and as_text(block.get("text")).strip():
                texts.append(as_text(block.get("text")))
            elif kind == "image":
                source = block.get("source")
                data = as_text(source.get("data")) if isinstance(source, dict) else ""
                images.append(Attachment(kind="image", size_bytes=len(data) * 3 // 4))
    return texts, tuple(images), results


_HEADS = decoder()


def _is_ours(record: CursorLine) -> bool:
    content = record.message.get("content") if isinstance(record.message, dict) else None
    return as_text(record.role) in _ROLES and record.type is None and isinstance(content, str | list)


def _is_ours_torn(first: bytes) -> bool:
    return _TORN_HEAD.match(first) is not None


def default_dirs(environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
    """Return the folder of all projects; ``CURSOR_DATA_DIR`` stands for ``~/.cursor``."""
    data_dir = environ.get("CURSOR_DATA_DIR") or below_home(environ, home, platform, ".cursor")
    return (below(data_dir, platform, "projects"),)


class CursorLinesFormat:
    """JSON lines of Cursor's agents. Stateless and thread-safe."""

    name = "cursor-jsonl"
    agent = AGENT
    version = 1
    shape: Shape = "lines"
    suffixes: tuple[str, ...] = (".jsonl",)
    is_secondary = True  # the editor tells the same in its database, whole

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the folder of all projects."""
        return default_dirs(environ, home, platform)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` has the ending; the agents keep nothing else in this grammar."""
        return path.endswith(self.suffixes)

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        return sniff_lines(head, _HEADS, _is_ours, _is_ours_torn)

    def open(
        self, path: str, redact: Redactor, state: bytes | None = None, beside: Beside = NOTHING_BESIDE
    ) -> LineParser[CursorLine]:
        """Return a parser for the source at ``path``; the path names the conversation."""
        return LineParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            decoder=decoder(),
            reader=CursorReader(CursorPlace(path), beside),
            redact=redact,
            state=state,
        )
