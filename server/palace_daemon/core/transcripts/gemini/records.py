"""The records of a Gemini CLI session, alike in both of its forms, and how a file of either form is recognised."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from palace_daemon.core.documents import decode_prefix
from palace_daemon.core.jsonl import LineDecoder, sniff_lines
from palace_daemon.core.transcripts.reading.words import as_text

AGENT = "gemini-cli"

PROMPT = "user"
REPLIES = frozenset({"gemini", "model"})
"""``model`` is what the API calls it; the program writes ``gemini``."""

_TYPES = REPLIES | {PROMPT, "info", "warning", "error"}


class GeminiRecord(Struct, rename="camel"):
    """A line of the newer form, or the root or a message of the older one; which fields are there tells which."""

    # The session: the first line, or the root.
    session_id: Any = None
    project_hash: Any = None
    start_time: Any = None
    last_updated: Any = None
    kind: Any = None
    directories: Any = None
    summary: Any = None
    messages: Any = None
    # A message.
    id: Any = None
    type: Any = None
    timestamp: Any = None
    content: Any = None
    display_content: Any = None
    parts: Any = None
    model: Any = None
    tool_calls: Any = None
    thoughts: Any = None
    # A change of what was written before.
    changed: Any = field(name="$set", default=None)
    rewind_to: Any = field(name="$rewindTo", default=None)

    @property
    def speaker(self) -> str:
        """Who speaks in a message; the type as text."""
        return as_text(self.type)


def to_record(value: Any) -> GeminiRecord | None:
    """Return a decoded object as a record, and anything else as None."""
    return msgspec.convert(value, GeminiRecord) if isinstance(value, dict) else None


def is_record(value: dict[str, Any]) -> bool:
    """Return whether an object found after a torn piece is a whole record and no part of one."""
    is_message = "id" in value and "timestamp" in value and as_text(value.get("type")) in _TYPES
    return is_message or "$set" in value or "$rewindTo" in value or ("sessionId" in value and "startTime" in value)


def decoder() -> LineDecoder[GeminiRecord]:
    """Return a decoder of such lines."""
    return LineDecoder(GeminiRecord, is_record)


_HEADS = decoder()


def sniff_jsonl(head: bytes) -> bool:
    """Return whether ``head`` begins a session in lines: its first line, or a reply where that line is damaged."""
    return sniff_lines(head, _HEADS, _is_ours, _is_ours_torn) and not sniff_json(head)


def sniff_json(head: bytes) -> bool:
    """Return whether ``head`` begins a session that is one document."""
    root = decode_prefix(head)
    if not isinstance(root, dict) or not isinstance(root.get("messages"), list):
        return False
    record = msgspec.convert(root, GeminiRecord)
    replies = (to_record(message) for message in root["messages"])
    return _is_session(record) or (record.session_id is None and any(_is_reply(one) for one in replies if one))


def _is_ours(record: GeminiRecord) -> bool:
    return record.messages is None and (_is_reply(record) or (record.type is None and _is_session(record)))


def _is_ours_torn(first: bytes) -> bool:
    return first.startswith(b'{"sessionId":') and b'"projectHash":' in first and b'"messages":' not in first


def _is_session(record: GeminiRecord) -> bool:
    has_times = isinstance(record.start_time, str) and isinstance(record.last_updated, str)
    return isinstance(record.session_id, str) and has_times


def _is_reply(record: GeminiRecord) -> bool:
    is_message = isinstance(record.id, str) and isinstance(record.timestamp, str)
    return is_message and record.type == "gemini" and record.content is not None
