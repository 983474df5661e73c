"""No secret reaches the disk, wherever it stands in a transcript, and ``status`` counts what was replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, reply, stamp, user

from palace_daemon.model import ForgetRequest, RecallQuery

_DRAWN = "Zx9Kq2Lm7Vb4Nw8Rt1Yc6Hd3Jf5Gs0PaQwEr"
KEY = "gh" + "p_" + _DRAWN
PRIVATE = "the salary is 4711"
BLOCK = f"<private>{PRIVATE}</private>"
SECRETS = (_DRAWN, "hunter2", "4711")


def stored_bytes(data_dir: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(data_dir.rglob("*")) if path.is_file())


def claude_line(kind: str, **fields: Any) -> str:
    return json.dumps({"type": kind, "sessionId": "s1", "timestamp": stamp(50)} | fields) + "\n"


def claude_transcript() -> str:
    """Return a transcript with a secret in each place that text is taken from."""
    tool = {
        "id": "msg_t",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "text", "text": f"I use {KEY}. {BLOCK}"},
            {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "mysql -u root -phunter2 shop"}},
        ],
    }
    return "".join(
        [
            claude_line("summary", summary=f"Waiting title password=hunter2 {BLOCK}", leafUuid="nowhere"),
            user("u1", f"password=hunter2 and {BLOCK} and {KEY}", at=1),
            claude_line("assistant", uuid="a1", message=tool),
            claude_line(
                "attachment", uuid="at1", attachment={"type": "file", "filename": f"/tmp/{KEY}.txt"}, parentUuid="a1"
            ),
            claude_line("queue-operation", operation="enqueue", content=f"queued password=hunter2 {BLOCK}"),
            claude_line("ai-title", aiTitle=f"About {KEY} {BLOCK}"),
            user("u2", f"never closed <private>{PRIVATE}", at=60),
            reply("a2", "Understood.", at=61),
            claude_line("queue-operation", operation="enqueue", content=f"still waiting {KEY} {BLOCK}"),
        ]
    )


def codex_transcript() -> str:
    def line(kind: str, **payload: Any) -> str:
        return json.dumps({"timestamp": stamp(5), "type": kind, "payload": payload}) + "\n"

    def item(role: str, text: str) -> str:
        block = {"type": "input_text" if role == "user" else "output_text", "text": text}
        return line("response_item", type="message", role=role, content=[block])

    return "".join(
        [
            line("session_meta", id="019d07d4-9ab8-7bc3-839c-10dee1290009", cwd="/w", originator="codex_cli_rs"),
            item("user", f"first password=hunter2 {BLOCK}"),
            item("assistant", f"answer {KEY}"),
            line("response_item", type="local_shell_call", action={"command": ["curl", "-u", "sam:hunter2", "x"]}),
            item("user", f"waits for an event {KEY} {BLOCK}"),
        ]
    )


@pytest.mark.parametrize(
    ("name", "transcript", "wanted"),
    [
        ("s1.jsonl", claude_transcript(), ["github-token", "password", "private"]),
        ("rollout-2026-02-02T02-40-00-019d07d4-9ab8-7bc3-839c-10dee1290009.jsonl", codex_transcript(),
         ["github-token", "password", "private"]),
    ],
)  # fmt: skip
def test_no_secret_is_anywhere_in_the_data_directory(
    make_palace: Any, transcripts: Path, tmp_path: Path, name: str, transcript: str, wanted: list[str]
) -> None:
    palace = make_palace()
    append(transcripts / name, transcript)
    report = palace.mine([str(transcripts / name)], wait=True)
    assert not report.failures
    assert report.exchanges_added
    status = palace.status()
    assert sorted(status.redactions) == wanted
    answer = palace.recall(RecallQuery(text="password salary hunter2 4711", now=1_800_000_000_000))
    assert answer.hits
    palace.close()
    held = stored_bytes(tmp_path / "data")
    assert b"[redacted:private]" in held
    assert [secret for secret in SECRETS if secret.encode() in held] == []


def test_counts_stay_right_when_the_file_changes(palace: Any, transcripts: Path) -> None:
    path = transcripts / "s1.jsonl"
    append(path, user("u1", "password=hunter2") + reply("a1", "ok"))
    palace.mine([str(path)], wait=True)
    assert palace.status().redactions == {"password": 1}
    append(path, user("u2", f"{BLOCK} password=hunter2", at=9, parent="a1") + reply("a2", f"no {KEY}", at=10))
    palace.mine([str(path)], wait=True)
    assert palace.status().redactions == {"github-token": 1, "password": 2, "private": 1}
    path.write_text(user("u1", "nothing to hide") + reply("a1", "ok"), encoding="utf-8")
    palace.mine([str(path)], wait=True)
    status = palace.status()
    assert status.exchanges_superseded == 2
    assert status.redactions == {"github-token": 1, "password": 2, "private": 1}, "superseded ones are stored"
    palace.forget(ForgetRequest(sessions=("s1",)))
    assert palace.status().redactions == {}


def test_a_tag_that_somebody_talks_about_is_stored(palace: Any, transcripts: Path) -> None:
    path = transcripts / "s1.jsonl"
    append(path, user("u1", "What does `<private>` do?") + reply("a1", "```\n<private>x</private>\n```\nhides x."))
    palace.mine([str(path)], wait=True)
    (told,) = palace.timeline("s1")
    assert told.user_text == "What does `<private>` do?"
    assert "<private>x</private>" in told.reply_text
    assert palace.status().redactions == {}
