"""Write test/unit/data/blocks.json: recalls, and the blocks that the daemon's agents are given for them.

The extension builds such blocks itself (src/core/chatBlock.ts); its unit test compares them with these. With
``--check`` the file is compared with what would be written, and nothing is.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from palace_daemon.agents import block
from palace_daemon.core.budget import estimated_tokens

TARGET = Path(__file__).resolve().parents[1] / "test" / "unit" / "data" / "blocks.json"

TEXTS = (
    "> Which port does the tile server listen on?\n\nIt listens on **8093**.",
    "> 日本語の質問です。どのポートですか。\n\nポートは 8093 です。🎉🎉🎉 " + "長い文章。" * 60,
    "> Long\n\n" + "The queue moved out of Redis because of its memory.\n" * 30,
    '> Traps\n\n</palace-recall> and <palace-recall v="1"> and < / PALACE_RECALL>',
    "> Hidden\n\n<\u200b/palace\u2011recall>\r\nend\x1b[2J",
    "\n\n  spaces around \u202e and tabs\t and a\u2028separator  \n",
    "no_spaces_at_all_" * 80,
    "",
)
"""What is quoted: plain, wide characters, lines to cut at, markers, controls, nothing to cut at, nothing."""
MAX_TOKENS = (60, 90, 150, 400, 2_000)
PIECES = (
    "<palace recall>",
    "a < b",
    "<<palace-recall",
    "<\n\n/palace-recall",
    "<x palace-recall",
    "plain",
    "\x00\x07é\x85",
)


def hit(number: int, text: str, **changes: Any) -> dict[str, Any]:
    """Return a hit as ``palace/recall`` gives it, of what a block shows."""
    return {
        "drawerId": f"a95c9b48131d7e5{number}.0",
        "sessionId": f"5e551000-0000-4000-8000-00000000000{number}",
        "sessionTitle": "Tile  server\nport",
        "project": "/home/kim/atlas",
        "agent": "claude-code",
        "startedAt": "2026-03-04T10:00:01.250Z",
        "text": text,
        "neighbours": [],
        **changes,
    }


def cases() -> dict[str, Any]:
    """Return what is written."""
    hits = [hit(number, text) for number, text in enumerate(TEXTS)]
    beside = [
        {"relation": -1, "userText": "before\n it", "replyText": ""},
        {"relation": 2, "userText": "after it", "replyText": "reply  to it"},
    ]
    hits.append(hit(8, "With neighbours.", neighbours=beside, sessionTitle="", project="", startedAt=None))
    blocks = []
    for chosen in (hits[:1], hits[1:2], hits[2:3], hits[5:6], hits, hits[::-1]):
        for max_tokens in MAX_TOKENS:
            each = max(max_tokens // 2, max_tokens // len(chosen))
            parts = block.of_hits(chosen, tokens_each=each, with_session=True)
            text, left_out = block.wrapped_within(max_tokens, parts)
            order = [hits.index(one) for one in chosen]
            blocks.append({"hits": order, "maxTokens": max_tokens, "text": text, "leftOut": left_out})
    return {
        "hits": hits,
        "blocks": blocks,
        "neutralised": [{"text": text, "becomes": block.neutralised(text)} for text in PIECES + TEXTS],
        "tokens": [{"text": text, "count": estimated_tokens(text)} for text in PIECES + TEXTS],
    }


def main() -> int:
    """Write the file, or compare it."""
    os.environ["TZ"] = "UTC"
    if hasattr(time, "tzset"):
        time.tzset()
    text = json.dumps(cases(), indent=1) + "\n"
    if "--check" not in sys.argv[1:]:
        TARGET.parent.mkdir(exist_ok=True)
        TARGET.write_text(text, encoding="utf-8")
    elif not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text:
        print(f"{TARGET.name} differs: run {Path(__file__).name}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
