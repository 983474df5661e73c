"""The records of a Qwen Code chat: their shape, the parts of a message, and how a file of them is recognised.

The envelope is Claude Code's. What tells them apart: ``message.parts``, ``systemPayload``, ``toolCallResult`` and a
``model`` beside the message.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from palace_daemon.core.jsonl import LineDecoder, sniff_lines
from palace_daemon.core.transcripts.reading.words import as_text
from palace_daemon.model import Attachment

AGENT = "qwen-code"

_TYPES = frozenset({"user", "assistant", "tool_result", "system"})
_INJECTED = re.compile(
    r"\s*<(qwen:user-prompt-submit-context|system-reminder)>.*?</\1>\s*",
    re.DOTALL,
)
"""A part that the program added to the prompt; only a part that is nothing else is dropped."""


class QwenRecord(Struct, rename="camel"):
    """The fields that are read. ``toolCallResult`` is left out: it repeats the tool's output."""

    type: Any = None
    subtype: Any = None
    uuid: Any = None
    parent_uuid: Any = None
    session_id: Any = None
    agent_id: Any = None
    timestamp: Any = None
    cwd: Any = None
    git_branch: Any = None
    version: Any = None
    model: Any = None
    provenance: Any = None
    message: Any = None
    system_payload: Any = None

    @property
    def payload(self) -> dict[str, Any]:
        """What the program noted beside the message."""
        return self.system_payload if isinstance(self.system_payload, dict) else {}


def is_record(value: dict[str, Any]) -> bool:
    """Return whether an object found after a torn piece is a whole record."""
    return as_text(value.get("type")) in _TYPES and "sessionId" in value and "uuid" in value


def decoder() -> LineDecoder[QwenRecord]:
    """Return a decoder of such records."""
    return LineDecoder(QwenRecord, is_record)


class _Head(Struct, rename="camel"):
    type: Any = None
    uuid: Any = None
    session_id: Any = None
    is_sidechain: Any = None
    model: Any = None
    message: Any = None
    system_payload: Any = None
    tool_call_result: Any = None


_HEADS = LineDecoder(_Head, is_record)
_TORN_HEAD = re.compile(rb'\s*\{"(?:uuid|parentUuid|sessionId)":')
_TORN_MARK = re.compile(rb'"message":\{"role":"(?:user|model)","parts":\[')


def sniff(head: bytes) -> bool:
    """Return whether ``head`` begins a Qwen Code chat."""
    return sniff_lines(head, _HEADS, _is_ours, _is_ours_torn)


def _is_ours_torn(first: bytes) -> bool:
    is_envelope = _TORN_HEAD.match(first) is not None and b'"sessionId":"' in first
    return is_envelope and (_TORN_MARK.search(first) is not None or b'"systemPayload":{' in first)


def _is_ours(record: _Head) -> bool:
    is_envelope = isinstance(record.session_id, str) and isinstance(record.uuid, str) and record.is_sidechain is None
    if as_text(record.type) not in _TYPES or not is_envelope:
        return False
    message = record.message if isinstance(record.message, dict) else {}
    if isinstance(message.get("parts"), list):
        return True
    if record.type == "system":
        return isinstance(record.system_payload, dict)
    if record.type == "tool_result":
        return record.tool_call_result is not None
    return isinstance(record.model, str) and isinstance(message.get("content"), list)


class Content(Struct, frozen=True):
    """A message's parts by kind, each in order; calls are names, ids and arguments."""

    texts: tuple[str, ...] = ()
    calls: tuple[tuple[str, str, Any], ...] = ()
    attachments: tuple[Attachment, ...] = ()
    has_thoughts: bool = False
    has_context: bool = False


def read_content(message: Any) -> Content:
    """Return the parts of a message; other writers of this format name them ``content`` and type them."""
    body = message if isinstance(message, dict) else {}
    parts = body.get("parts") if body.get("parts") is not None else body.get("content")
    if isinstance(parts, str):
        parts = [{"text": parts}]
    texts, calls, attachments = [], [], []
    has_thoughts = has_context = False
    for part in parts if isinstance(parts, list) else ():
        if not isinstance(part, dict):
            continue
        text = part.get("text")
        if isinstance(text, str):
            if part.get("thought") is True or part.get("type") in ("thinking", "thought"):
                has_thoughts = True
            elif _INJECTED.fullmatch(text):
                has_context = True
            else:
                texts.append(text)
        elif call := _call(part):
            calls.append(call)
        elif attachment := _attachment(part):
            attachments.append(attachment)
    return Content(tuple(texts), tuple(calls), tuple(attachments), has_thoughts, has_context)


def _call(part: dict[str, Any]) -> tuple[str, str, Any] | None:
    call = part.get("functionCall")
    if isinstance(call, dict):
        return as_text(call.get("name")), as_text(call.get("id")), call.get("args")
    if part.get("type") == "tool_use":
        return as_text(part.get("name")), as_text(part.get("id")), part.get("input")
    return None


def _attachment(part: dict[str, Any]) -> Attachment | None:
    for name in ("inlineData", "fileData"):
        data = part.get(name)
        if isinstance(data, dict):
            mime = as_text(data.get("mimeType"))
            label = as_text(data.get("displayName")) or as_text(data.get("fileUri")) or mime
            size = len(as_text(data.get("data"))) * 3 // 4  # base64
            return Attachment(kind="image" if mime.startswith("image/") else "file", name=label, size_bytes=size)
    return None
