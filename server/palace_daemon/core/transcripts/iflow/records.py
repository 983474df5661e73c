"""How an iFlow session is recognised: Claude Code's records, under session ids and message ids of its own."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from palace_daemon.core.jsonl import LineDecoder, sniff_lines
from palace_daemon.core.transcripts.reading.words import as_text

_TYPES = frozenset({"user", "assistant"})
_SESSION = re.compile(r"session-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MESSAGE = re.compile(r"response-\d+(-.*)?")
_TORN_HEAD = re.compile(rb'\s*\{"(?:uuid|parentUuid|sessionId|isSidechain)":')
_TORN_SESSION = re.compile(rb'"sessionId":"session-[0-9a-fA-F]{8}-')


class _Head(Struct, rename="camel"):
    type: Any = None
    uuid: Any = None
    session_id: Any = None
    is_sidechain: Any = None
    message: Any = None


def _is_record(value: dict[str, Any]) -> bool:
    return as_text(value.get("type")) in _TYPES and "sessionId" in value


_HEADS = LineDecoder(_Head, _is_record)


def sniff(head: bytes) -> bool:
    """Return whether ``head`` begins an iFlow session."""
    return sniff_lines(head, _HEADS, _is_ours, _is_ours_torn)


def _is_ours_torn(first: bytes) -> bool:
    return _TORN_HEAD.match(first) is not None and _TORN_SESSION.search(first) is not None


def _is_ours(record: _Head) -> bool:
    message = record.message
    if as_text(record.type) not in _TYPES or not isinstance(message, dict) or "content" not in message:
        return False
    if not isinstance(record.is_sidechain, bool):
        return False
    if _SESSION.fullmatch(as_text(record.session_id)):
        return True
    return record.type == "assistant" and _MESSAGE.fullmatch(as_text(message.get("id"))) is not None
