"""The base of all values, and the words that they are made of."""

from __future__ import annotations

from typing import Literal, NewType, dataclass_transform

from msgspec import Struct, field

ExchangeKey = NewType("ExchangeKey", str)
"""Identity of an exchange: ``agent:record id``, or ``agent:sha256`` where the format has no ids."""

UserKind = Literal[
    "prompt", "queued", "rejection", "answer", "slash_args", "shell", "plan_handoff", "automated", "speaker", "note"
]
"""How the user's words reached the agent. ``automated`` marks words that no person typed, ``speaker`` what one of
several people said, with the name in front, ``note`` what somebody asked to remember."""

ExchangeStatus = Literal["open", "complete", "interrupted", "error"]
TimeQuality = Literal["exact", "turn", "session", "file", "none"]
Relation = Literal["none", "resume", "fork", "subagent", "branch", "compaction"]
SourceState = Literal["pending", "ok", "failed", "gone", "skipped"]
CutMode = Literal["exchange", "paragraph"]
"""``exchange``: drawers of about 2,000 characters. ``paragraph``: about 800, for sessions with few user turns."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Value(Struct, frozen=True, kw_only=True):
    """Base of the values below: immutable, keyword-only."""
