"""Sources of any size are mined in bounded memory. ``PALACE_LARGE_MB`` sets their size; ``make soak`` takes 300."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, reply, turn, user

SCRIPT = Path(__file__).parents[1] / "support" / "large_process.py"
LARGE_MB = int(os.environ.get("PALACE_LARGE_MB", "60"))
BOUND_BYTES = 96 << 20
"""What mining may take beyond what the process had. Measured at 60 MB: 6 MB for lines; below this for the rest."""


def mined(tmp_path: Path, large: Path) -> dict[str, Any]:
    small = tmp_path / "small.jsonl"
    append(small, "".join(turn(n, f"Question {n}?", "word " * 400, session="small") for n in range(50)))
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "data"), str(small), str(large)],
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["failures"] == {}
    print(f"{LARGE_MB} MB: {(result['after'] - result['before']) / 1e6:.0f} MB more than before")
    return result


def grow(path: Path, piece: Callable[[int], str]) -> int:
    """Write pieces until the file is large; return how many."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < LARGE_MB * 1_000_000:
            file.write(piece(count))
            count += 1
    return count


@pytest.mark.timeout(900)
def test_a_large_transcript_of_lines(tmp_path: Path) -> None:
    noise = "output of a tool " * 6_000

    def piece(number: int) -> str:
        tool = json.loads(user(f"t{number}", "x", at=number % 80_000))
        tool["message"]["content"] = [{"type": "tool_result", "tool_use_id": f"call{number}", "content": noise}]
        return turn(number, f"Question {number}?", f"Answer {number}. " + "word " * 300) + json.dumps(tool) + "\n"

    path = tmp_path / "large.jsonl"
    count = grow(path, piece)
    result = mined(tmp_path, path)
    assert result["exchanges"] == count
    assert result["after"] - result["before"] < BOUND_BYTES


@pytest.mark.timeout(900)
def test_a_transcript_with_a_large_line(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    image = '[{"type": "image", "source": {"type": "base64", "data": "' + "iVBORw0K" * (LARGE_MB * 125_000) + '"}}, '
    line = user("u-large", "TEXT").replace(
        '"content": "TEXT"', '"content": ' + image + '{"type": "text", "text": "See"}]'
    )
    path.write_text(turn(1, "Before?", "Yes.") + line + reply("a-large", "I see.", at=20) + turn(3, "After?", "Too."))
    result = mined(tmp_path, path)
    assert result["exchanges"] == 3
    assert result["after"] - result["before"] < BOUND_BYTES


@pytest.mark.timeout(900)
def test_a_large_export_of_many_conversations(tmp_path: Path) -> None:
    noise = "print('output of code')\n" * 4_000

    def node(name: str, role: str, text: str, parent: str | None, children: list[str], kind: str = "text") -> Any:
        content = {"content_type": kind, "parts": [text]} if kind == "text" else {"content_type": kind, "text": text}
        message = {"id": name, "author": {"role": role}, "content": content, "create_time": 1_770_000_000.0}
        return {"id": name, "message": message, "parent": parent, "children": children}

    def piece(number: int) -> str:
        names = [f"{number}-{part}" for part in "abc"]
        mapping = {
            names[0]: node(names[0], "user", f"Question {number}?", None, [names[1]]),
            names[1]: node(names[1], "tool", noise, names[0], [names[2]], "execution_output"),
            names[2]: node(names[2], "assistant", f"Answer {number}.", names[1], []),
        }
        conversation = {
            "title": f"Talk {number}",
            "create_time": 1_770_000_000.0,
            "mapping": mapping,
            "current_node": names[2],
            "conversation_id": f"conversation-{number}",
        }
        return ("[" if number == 0 else ",\n") + json.dumps(conversation)

    path = tmp_path / "conversations.json"
    count = grow(path, piece)
    with path.open("a", encoding="utf-8") as file:
        file.write("]")
    result = mined(tmp_path, path)
    assert result["exchanges"] == count
    assert result["after"] - result["before"] < BOUND_BYTES
