"""Exchanges in Claude Code's format, for benches that need a transcript to be written."""

from __future__ import annotations

import json
import time

FIRST_SECOND = 1_770_000_000


def exchange(session: str, number: int, question: str, answer: str) -> str:
    """Return a user line and a reply; ``number`` makes their ids and times, a minute apart."""
    common = {"sessionId": session, "cwd": "/home/bench", "version": "2.1.42", "isSidechain": False}
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(FIRST_SECOND + number * 60))
    user = common | {
        "type": "user",
        "uuid": f"{session}-u{number}",
        "timestamp": f"{stamp}.000Z",
        "message": {"role": "user", "content": question},
    }
    reply = common | {
        "type": "assistant",
        "uuid": f"{session}-a{number}",
        "timestamp": f"{stamp}.900Z",
        "message": {
            "id": f"{session}-m{number}",
            "role": "assistant",
            "model": "bench",
            "content": [{"type": "text", "text": answer}],
        },
    }
    return json.dumps(user) + "\n" + json.dumps(reply) + "\n"
