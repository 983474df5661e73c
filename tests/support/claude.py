"""Writing Claude Code transcripts line by line, as the real program does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FIRST_SECOND = 1_770_000_000


def stamp(second: int) -> str:
    """Return ISO time, ``second`` seconds after 2026-02-02T02:40:00Z, up to a day."""
    minutes, seconds = divmod(second, 60)
    hours, minutes = divmod(minutes + 40, 60)
    return f"2026-02-02T{hours + 2:02d}:{minutes:02d}:{seconds:02d}.000Z"


def user(uuid: str, text: str, *, session: str = "s1", at: int = 0, parent: str | None = None, **fields: Any) -> str:
    """Return one user line."""
    return _line("user", uuid, {"role": "user", "content": text}, session, at, parent, fields)


def reply(uuid: str, text: str, *, session: str = "s1", at: int = 1, message: str = "", **fields: Any) -> str:
    """Return one assistant line with one text block; ``message`` is the message id, the uuid's by default."""
    body = {
        "id": message or f"msg_{uuid}",
        "type": "message",
        "role": "assistant",
        "model": "claude-test-1",
        "content": [{"type": "text", "text": text}],
        "stop_reason": None,
    }
    return _line("assistant", uuid, body, session, at, None, fields)


def _line(
    kind: str, uuid: str, message: dict[str, Any], session: str, at: int, parent: str | None, fields: dict[str, Any]
) -> str:
    record = {
        "parentUuid": parent,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/nowhere/tidepool",
        "sessionId": session,
        "version": "2.1.42",
        "gitBranch": "main",
        "type": kind,
        "message": message,
        "uuid": uuid,
        "timestamp": stamp(at),
    }
    return json.dumps(record | fields, ensure_ascii=False) + "\n"


def turn(number: int, question: str, answer: str, *, session: str = "s1") -> str:
    """Return a user line and the reply to it; numbers keep ids and times apart."""
    name = f"{session}-{number}"
    at = number * 10
    return user(f"u-{name}", question, session=session, at=at) + reply(f"a-{name}", answer, session=session, at=at + 1)


def queue_line(operation: str, content: str = "", at: int = 2, *, session: str = "s1") -> str:
    """Return a line about the prompts that wait: ``enqueue``, ``remove``, ``dequeue`` or ``popAll``."""
    record = {"type": "queue-operation", "operation": operation, "timestamp": stamp(at), "sessionId": session}
    return json.dumps(record | ({"content": content} if content else {})) + "\n"


def append(path: Path, text: str) -> None:
    """Append to a transcript, creating it and its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(text.encode())
