"""The events of a GitHub Copilot CLI session: their shape, what lies beside them, and how a file is recognised."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from palace_daemon.core.jsonl import LineDecoder, sniff_lines
from palace_daemon.core.transcripts.reading.words import as_text
from palace_daemon.model import Attachment

AGENT = "copilot-cli"

_HEAD_TYPES = frozenset(
    {
        "user.message",
        "system.message",
        "assistant.message",
        "assistant.turn_start",
        "tool.execution_start",
        "tool.execution_complete",
    }
)
"""Types that begin a file besides ``session.*``, whose first lines a crash may have taken."""

_BEGINNING = re.compile(rb'\s*\{\s*"(?:type|data|id|timestamp|parentId|agentId|ephemeral)"\s*:')
_TORN_HEAD = re.compile(rb'\s*\{"type":"(?:session|user|system|assistant|tool)\.[a-z_]+","(?:data|id)":')
_YAML_SCALAR = re.compile(r"([a-z_]+):[ \t]*(.*)")
_QUOTES = ("'", '"')


class CopilotRecord(Struct, rename="camel"):
    """The envelope of an event."""

    type: Any = None
    data: Any = None
    id: Any = None
    timestamp: Any = None
    agent_id: Any = None


def is_record(value: dict[str, Any]) -> bool:
    """Return whether an object found after a torn piece is a whole event."""
    return isinstance(value.get("type"), str) and isinstance(value.get("data"), dict)


def begins_record(line: bytes) -> bool:
    """Return whether a line begins like an event."""
    return _BEGINNING.match(line) is not None


def decoder() -> LineDecoder[CopilotRecord]:
    """Return a decoder of events."""
    return LineDecoder(CopilotRecord, is_record)


_HEADS = decoder()


def sniff(head: bytes) -> bool:
    """Return whether ``head`` begins a session's events."""
    return sniff_lines(head, _HEADS, _is_ours, lambda first: _TORN_HEAD.match(first) is not None)


def _is_ours(record: CopilotRecord) -> bool:
    kind = as_text(record.type)
    is_known = kind.startswith("session.") or kind in _HEAD_TYPES
    return is_known and isinstance(record.data, dict) and isinstance(record.timestamp, str)


class Workspace(Struct, frozen=True):
    """What ``workspace.yaml`` beside the events says."""

    cwd: str = ""
    branch: str = ""
    title: str = ""


def read_workspace(content: bytes | None) -> Workspace:
    """Return the plain values of a ``workspace.yaml``; it is a flat list of names and texts."""
    values: dict[str, str] = {}
    for line in (content or b"").decode("utf-8", "replace").splitlines():
        match = _YAML_SCALAR.fullmatch(line.rstrip())
        if match:
            values.setdefault(match[1], _unquote(match[2].strip()))
    return Workspace(values.get("cwd", ""), values.get("branch", ""), values.get("name") or values.get("summary", ""))


def _unquote(value: str) -> str:
    """Return a scalar's text; a text that goes on below its name counts as absent."""
    if value[:1] in ("|", ">"):
        return ""
    if len(value) > 1 and value[0] in _QUOTES and value[-1] == value[0]:
        return value[1:-1].replace(value[0] * 2, value[0])
    return value


def attachments_of(data: dict[str, Any]) -> tuple[Attachment, ...]:
    """Return what was attached to a user's message."""
    attached = data.get("attachments")
    if not isinstance(attached, list):
        return ()
    return tuple(_attachment(item) for item in attached if isinstance(item, dict))


def _attachment(item: dict[str, Any]) -> Attachment:
    name = as_text(item.get("path")) or as_text(item.get("filePath")) or as_text(item.get("displayName"))
    content = as_text(item.get("data"))
    if item.get("type") == "selection":
        return Attachment(kind="selection", name=name)
    is_image = as_text(item.get("mimeType")).startswith("image/")
    return Attachment(kind="image" if is_image else "file", name=name, size_bytes=len(content) * 3 // 4)  # base64
