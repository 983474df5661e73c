"""Sessions of Gemini CLI in its newer form, made of single records."""

from __future__ import annotations

import json
from typing import Any

from palace_daemon.core.transcripts.gemini.format import GeminiLinesFormat
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes

HEADER = {
    "sessionId": "5e551000-0000-4000-8000-000000000109",
    "projectHash": "8c2f",
    "startTime": "2026-05-02T09:30:00.000Z",
    "lastUpdated": "2026-05-02T09:30:00.000Z",
}


def message(number: int, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    """Return a message."""
    return {"id": f"m{number}", "timestamp": f"2026-05-02T09:{number:02}:00Z", "type": kind, "content": content, **more}


def lines(*records: Any) -> bytes:
    """Return a file of a first line and ``records``."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in (HEADER, *records))


def read(*records: Any, path: str = "/home/sam/x.jsonl") -> Whole:
    """Read such a file, in one go and in all kinds of cuts."""
    data = lines(*records)
    assert_cuts_do_not_matter(GeminiLinesFormat(), data, path)
    return read_bytes(GeminiLinesFormat(), data, path)
