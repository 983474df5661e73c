"""Building exchanges for tests of store and service."""

from __future__ import annotations

from typing import Any

from palace_daemon.model import Exchange, ExchangeKey

DAY_MS = 86_400_000
FIRST_DAY = 1_770_000_000_000
"""2026-02-02T02:40:00Z."""


def exchange(
    name: str, user: str = "How do tides work?", reply: str = "The moon pulls the sea.", **fields: Any
) -> Exchange:
    """Return an exchange of session ``s1`` with sensible fields; ``name`` is its record id."""
    known: dict[str, Any] = {
        "agent": "claude-code",
        "session_id": "s1",
        "ordinal": 0,
        "user_kind": "prompt",
        "started_at": FIRST_DAY,
        "ended_at": FIRST_DAY + 1_000,
        "time_quality": "exact",
        "status": "complete",
        "cwd": "/nowhere/tidepool",
        "line_start": 1,
        "line_end": 2,
        "byte_start": 0,
        "byte_end": 100,
    }
    key = ExchangeKey(f"{fields.get('agent', 'claude-code')}:{name}")
    return Exchange(key=key, user_text=user, reply_text=reply, **(known | fields))
