"""Prompts that wait in an agent's queue: forgotten, withdrawn, read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, queue_line, reply, stamp, turn, user
from support.traces import traces

from palace_daemon.model import ForgetRequest
from palace_daemon.service import mining

SECRET = "Zanzibarwhale quixotry must never reach the marmalade committee."
_PLUMBING = '{"type":"progress","sessionId":"s1","x":"' + "y" * 50_000 + '"}\n'


def rows(palace: Any, query: str) -> list[Any]:
    with palace._store.read() as connection:
        found: list[Any] = connection.execute(query).fetchall()
        return found


def forget_the_secret(palace: Any) -> None:
    ids = [row[0] for row in rows(palace, "SELECT public_id FROM exchanges WHERE user_text LIKE 'Zanz%'")]
    assert len(ids) == 1
    palace.forget(ForgetRequest(exchanges=tuple(ids)))


@pytest.mark.parametrize("slice_bytes", [1 << 20, 1 << 24])
def test_a_forgotten_prompt_that_still_waits_leaves_no_trace_and_lets_the_rest_be_read(
    palace: Any,
    transcripts: Path,
    tmp_path: Path,
    wait_until: Any,
    monkeypatch: pytest.MonkeyPatch,
    slice_bytes: int,
) -> None:
    monkeypatch.setattr(mining, "SLICE_BYTES", slice_bytes)
    file = transcripts / "a.jsonl"
    append(file, turn(1, "How do tides work?", "The moon pulls.") + queue_line("enqueue", SECRET, 30))
    append(file, _PLUMBING * 50 + reply("r9", "Done with it.", at=40))
    palace.mine([str(transcripts)], wait=True)
    forget_the_secret(palace)
    palace.mine([str(transcripts)], wait=True)
    wait_until(lambda: not rows(palace, "SELECT scrub_due FROM state")[0][0])
    assert rows(palace, "SELECT reply_text FROM exchanges") == [("The moon pulls.\n\nDone with it.",)]
    palace.close()
    assert traces(tmp_path / "data", [SECRET]) == []


def test_a_prompt_that_is_pulled_back_while_the_state_is_lost_leaves_no_trace(palace: Any, transcripts: Path) -> None:
    file = transcripts / "a.jsonl"
    append(file, turn(1, "How do tides work?", "The moon pulls.") + queue_line("enqueue", "Also plot it, please.", 30))
    palace.mine([str(transcripts)], wait=True)
    palace._store.write(lambda c: c.execute("UPDATE sources SET cursor=NULL, parser_state=NULL").rowcount)
    append(file, queue_line("popAll", "Also plot it, please.", 31))
    palace.mine([str(transcripts)], wait=True)
    assert rows(palace, "SELECT user_text, is_superseded FROM exchanges") == [("How do tides work?", 0)]


def _attachment(uuid: str, prompt: str, at: int) -> str:
    told = {"type": "queued_command", "prompt": prompt}
    record = {"type": "attachment", "uuid": uuid, "sessionId": "s1", "timestamp": stamp(at), "attachment": told}
    return json.dumps(record) + "\n"


@pytest.mark.parametrize(
    "delivery",
    [
        queue_line("dequeue", at=35) + user("u9", SECRET, at=35),
        queue_line("dequeue", at=35) + user("u9", f"{SECRET}\n\nAnd plot it.", at=35),
        _attachment("at1", SECRET, 34) + queue_line("remove", at=35),
        queue_line("remove", at=35) + _attachment("at1", SECRET, 36),
        user("u9", SECRET, at=35),
    ],
)
def test_a_prompt_that_is_forgotten_while_it_waits_stays_forgotten_when_it_is_delivered(
    palace: Any, transcripts: Path, tmp_path: Path, delivery: str
) -> None:
    file = transcripts / "a.jsonl"
    append(file, turn(1, "How do tides work?", "The moon pulls.") + queue_line("enqueue", SECRET, 30))
    palace.mine([str(transcripts)], wait=True)
    forget_the_secret(palace)
    palace.mine([str(transcripts)], wait=True)
    for grown in (delivery, reply("a9", "So be it.", at=40), turn(5, "And the sun?", "A little.")):
        append(file, grown)
        palace.mine([str(transcripts)], wait=True)
        assert traces(tmp_path / "data", [SECRET]) == []
    alone = "".join(line for line in delivery.splitlines(keepends=True) if "queue-operation" not in line)
    if not delivery.startswith(queue_line("remove", at=35)):  # else it was delivered before the record came
        append(transcripts / "fork.jsonl", alone + turn(5, "And the sun?", "A little."))
    palace.mine([str(transcripts)], wait=True)
    assert [row[0] for row in rows(palace, "SELECT user_text FROM exchanges ORDER BY id")] == [
        "How do tides work?", "And the sun?",
    ]  # fmt: skip


def test_other_words_that_follow_a_forgotten_prompt_are_kept(palace: Any, transcripts: Path) -> None:
    file = transcripts / "a.jsonl"
    append(file, turn(1, "How do tides work?", "The moon pulls.") + queue_line("enqueue", SECRET, 30))
    palace.mine([str(transcripts)], wait=True)
    forget_the_secret(palace)
    append(file, queue_line("popAll", SECRET, 31) + user("u9", "Never mind.", at=32) + reply("a9", "Fine.", at=33))
    palace.mine([str(transcripts)], wait=True)
    assert [row[0] for row in rows(palace, "SELECT user_text FROM exchanges ORDER BY id")] == [
        "How do tides work?", "Never mind.",
    ]  # fmt: skip
