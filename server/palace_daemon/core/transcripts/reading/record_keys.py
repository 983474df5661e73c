"""Identities from the ids that agents give their records."""

from __future__ import annotations

import re
from typing import Any

from palace_daemon.core.drafts import digest

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
"""Ids of this form are unique everywhere; others ("u1", "e2") only inside their file, if that."""


def turn_key(agent: str, record_id: str, stamp: Any, text: str) -> str:
    """Return an exchange's identity, empty without an id; one that is no UUID needs its time and words beside it."""
    if not record_id or _UUID.fullmatch(record_id):
        return f"{agent}:{record_id}" if record_id else ""
    return f"{agent}:{record_id}:{digest(f'{stamp}:{text}'):016x}"


def record_identity(record_id: str, payload: bytes) -> str:
    """Return what identifies a record inside its source: its id, with its bytes where the id may be given twice."""
    if not record_id or _UUID.fullmatch(record_id):
        return record_id
    return payload_identity(record_id, payload)


def payload_identity(record_id: str, payload: bytes) -> str:
    """Return an identity for formats that write several records under one id, and the same record again."""
    return f"{record_id}:{digest(payload.decode('utf-8', 'replace')):016x}" if record_id else ""
