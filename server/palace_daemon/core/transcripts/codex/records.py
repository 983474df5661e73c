"""The records of a Codex rollout: today's envelope, the older shapes, and how a file of them is recognised."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from palace_daemon.core.jsonl import LineDecoder, sniff_lines
from palace_daemon.core.transcripts.reading.words import as_text

AGENT = "codex"

ENVELOPES = frozenset(
    {
        "session_meta",
        "response_item",
        "event_msg",
        "turn_context",
        "compacted",
        "world_state",
        "inter_agent_communication",
        "inter_agent_communication_metadata",
        "security_risk_score",
        "realtime_item",
    }
)
"""Types of ``{timestamp, type, payload}`` lines."""

_ROLES = frozenset({"user", "assistant", "system", "developer"})
_HEAD_TYPES = ENVELOPES - {"event_msg", "response_item"}


class CodexRecord(Struct):
    """A line of any age. Lines before the envelope hold an item's fields at the top."""

    timestamp: Any = None
    type: Any = None
    payload: Any = None
    ordinal: Any = None
    # What follows belongs to lines without an envelope.
    created_at: Any = None
    id: Any = None
    record_type: Any = None
    instructions: Any = None
    git: Any = None
    role: Any = None
    content: Any = None
    message: Any = None
    model: Any = None
    name: Any = None
    arguments: Any = None
    input: Any = None
    action: Any = None
    function: Any = None
    call_id: Any = None

    def unwrap(self) -> tuple[str, dict[str, Any]]:
        """Return the line's type and payload as the envelope would give them."""
        kind = as_text(self.type)
        if isinstance(self.payload, dict) and (kind in ENVELOPES or not self.is_bare):
            return kind, self.payload
        if self.record_type is not None:
            return "state", {}
        if self.role is not None or kind:
            item = {
                "type": kind or "message",
                "role": self.role,
                "content": self.content if self.content is not None else self.message,
                "name": self.name,
                "arguments": self.arguments,
                "input": self.input,
                "action": self.action,
                "function": self.function,
                "call_id": self.call_id,
                "model": self.model,
            }
            return ("response_item" if kind not in ENVELOPES else kind), item
        if self.id is not None and self.timestamp is not None:
            return "session_meta", {"id": self.id, "timestamp": self.timestamp, "git": self.git}
        return "", {}

    @property
    def is_bare(self) -> bool:
        """Whether the line names a speaker itself, without an envelope."""
        return self.role is not None

    @property
    def stamp(self) -> Any:
        """The line's time, as written."""
        return self.timestamp if self.timestamp is not None else self.created_at


def is_record(value: dict[str, Any]) -> bool:
    """Return whether an object found after a torn piece is a whole record."""
    return value.get("type") in ENVELOPES and "payload" in value


def decoder() -> LineDecoder[CodexRecord]:
    """Return a decoder of such records."""
    return LineDecoder(CodexRecord, is_record)


_HEADS = decoder()


def sniff(head: bytes) -> bool:
    """Return whether ``head`` begins a rollout: the first record that tells decides."""
    return sniff_lines(head, _HEADS, _is_ours, _is_ours_torn)


def _is_ours_torn(first: bytes) -> bool:
    return b'"type":"session_meta"' in first.replace(b" ", b"")[:512]


def _is_ours(record: CodexRecord) -> bool:
    if isinstance(record.type, str) and record.type in ENVELOPES:
        return isinstance(record.payload, dict) and _is_envelope(record)
    if record.record_type is not None:
        return True
    if as_text(record.role) in _ROLES and record.stamp is not None and record.type in (None, "message"):
        # Cursor writes a role too, with an object as message and without a time.
        return isinstance(record.content, str | list) or isinstance(record.message, str)
    return record.type is None and record.role is None and _is_old_meta(record)


def _is_envelope(record: CodexRecord) -> bool:
    return record.type in _HEAD_TYPES or record.timestamp is not None or "type" in record.payload


def _is_old_meta(record: CodexRecord) -> bool:
    has_origin = isinstance(record.instructions, str) or isinstance(record.git, dict)
    return isinstance(record.id, str) and record.timestamp is not None and has_origin
