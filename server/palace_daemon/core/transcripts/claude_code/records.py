"""The records of a Claude Code transcript: their shape, and how a file of them is recognised."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from palace_daemon.core.jsonl import LineDecoder, sniff_lines
from palace_daemon.core.transcripts.iflow import records as iflow_records
from palace_daemon.core.transcripts.qwen_code import records as qwen_code_records

AGENT = "claude-code"

UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
"""Ids of this form are unique everywhere; others ("u1") only inside their file."""

CONVERSATION_TYPES = frozenset({"user", "assistant"})

SNIFF_TYPES = CONVERSATION_TYPES | {
    "summary",
    "system",
    "file-history-snapshot",
    "queue-operation",
    "attachment",
    "mode",
    "permission-mode",
    "progress",
    "custom-title",
    "ai-title",
    "agent-name",
    "last-prompt",
    "worktree-state",
    "pr-link",
    "bridge-session",
}
"""Line types that begin a file. Other programs use some of these words, so one more field must agree."""

PLUMBING_TYPES = {
    "progress": "progress",
    "file-history-snapshot": "snapshot",
    "mode": "mode",
    "permission-mode": "mode",
    "agent-name": "agent_name",
    "last-prompt": "last_prompt",
    "worktree-state": "worktree_state",
    "pr-link": "pr_link",
    "bridge-session": "bridge_session",
    "tool_use": "tool_use",
    "tool_result": "tool_result",
}
"""Line types that never hold words of a person or an agent, and the reason under which they are counted."""


class ClaudeRecord(Struct, rename="camel"):
    """The fields that are read. ``toolUseResult`` is left out: it repeats the tool's text and is half of the bytes."""

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
    entrypoint: Any = None
    origin: Any = None
    forked_from: Any = None
    is_sidechain: Any = None
    is_meta: Any = None
    is_compact_summary: Any = None
    is_visible_in_transcript_only: Any = None
    is_api_error_message: Any = None
    message: Any = None
    content: Any = None
    operation: Any = None
    attachment: Any = None
    summary: Any = None
    leaf_uuid: Any = None
    custom_title: Any = None
    ai_title: Any = None


def is_record(value: dict[str, Any]) -> bool:
    """Return whether an object found after a torn piece is a whole record and no part of one.

    Progress records nest whole messages, with type, uuid and time; only records name their session.
    """
    return isinstance(value.get("type"), str) and ("sessionId" in value or "leafUuid" in value)


def decoder() -> LineDecoder[ClaudeRecord]:
    """Return a decoder of such records."""
    return LineDecoder(ClaudeRecord, is_record)


class _Head(Struct, rename="camel"):
    type: Any = None
    session_id: Any = None
    leaf_uuid: Any = None
    snapshot: Any = None
    timestamp: Any = None
    uuid: Any = None
    cwd: Any = None
    message: Any = None


_HEADS = LineDecoder(_Head, is_record)
_TORN_HEAD = re.compile(rb'^\{"(?:parentUuid|type|sessionId|uuid|isSidechain)":')
"""How records begin; for a first line longer than the head that sniffing gets."""


def sniff(head: bytes) -> bool:
    """Return whether ``head`` begins a Claude Code transcript: the first record that tells decides.

    Qwen Code and iFlow write the same envelope; what shows them to be the writer stands in other lines than what
    shows Claude Code.
    """
    is_ours = sniff_lines(head, _HEADS, _is_ours, _is_ours_torn)
    return is_ours and not qwen_code_records.sniff(head) and not iflow_records.sniff(head)


def _is_ours_torn(first: bytes) -> bool:
    return _TORN_HEAD.match(first) is not None and b'"sessionId":"' in first


def _is_ours(record: _Head) -> bool:
    if not isinstance(record.type, str) or record.type not in SNIFF_TYPES:
        return False
    message = record.message
    if record.type in CONVERSATION_TYPES:
        # Qwen writes the same lines with `parts`; programs without any of these marks are somebody else's.
        if not isinstance(message, dict | str) or (isinstance(message, dict) and "parts" in message):
            return False
        return bool(record.session_id or record.uuid or (record.timestamp and isinstance(message, dict)))
    return bool(record.session_id or record.leaf_uuid or record.snapshot)
