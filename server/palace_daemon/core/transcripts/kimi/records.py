"""The records of a Kimi Code wire log: their shape, and how a file of them is recognised."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from palace_daemon.core.jsonl import LineDecoder, sniff_lines
from palace_daemon.core.transcripts.reading.words import as_text
from palace_daemon.model import Attachment

AGENT = "kimi"

_HEAD_TYPES = frozenset({"context.append_message", "context.append_loop_event"})
_SLASH_ORIGINS = frozenset({"skill_activation", "plugin_command"})


class KimiRecord(Struct):
    """The fields that are read; ``time`` is in milliseconds."""

    type: Any = None
    time: Any = None
    protocol_version: Any = None
    created_at: Any = None
    input: Any = None
    origin: Any = None
    message: Any = None
    event: Any = None
    model: Any = None
    count: Any = None
    reason: Any = None


def is_record(value: dict[str, Any]) -> bool:
    """Return whether an object found after a torn piece is a whole record."""
    return isinstance(value.get("type"), str) and "." in value["type"] and "time" in value


def decoder() -> LineDecoder[KimiRecord]:
    """Return a decoder of such records."""
    return LineDecoder(KimiRecord, is_record)


_HEADS = decoder()


def sniff(head: bytes) -> bool:
    """Return whether ``head`` begins a wire log."""
    return sniff_lines(head, _HEADS, _is_ours, lambda _: False)


def _is_ours(record: KimiRecord) -> bool:
    kind = as_text(record.type)
    if kind == "metadata":
        return isinstance(record.protocol_version, str) and isinstance(record.created_at, int)
    if kind == "turn.prompt":
        return isinstance(record.input, list | str) and isinstance(record.origin, dict)
    return kind in _HEAD_TYPES and (isinstance(record.message, dict) or isinstance(record.event, dict))


def origin_kind(origin: Any) -> str:
    """Return who brought words in; where nothing is said it was the user."""
    return (as_text(origin.get("kind")) or "user") if isinstance(origin, dict) else "user"


def is_slash(origin: Any) -> bool:
    """Return whether a person called for a skill or a plugin's command, whose text the record then holds."""
    is_called = isinstance(origin, dict) and origin.get("trigger") == "user-slash"
    return is_called and origin_kind(origin) in _SLASH_ORIGINS


def texts_of(content: Any) -> list[str]:
    """Return the texts of a message's content."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else ()
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]


def attachments_of(content: Any) -> tuple[Attachment, ...]:
    """Return the images of a message's content."""
    parts = content if isinstance(content, list) else ()
    return tuple(Attachment(kind="image") for part in parts if isinstance(part, dict) and _is_image(part))


def _is_image(part: dict[str, Any]) -> bool:
    return part.get("type") in ("image", "image_url")
