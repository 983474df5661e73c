"""Prompts that wait in an agent's queue: forgotten, withdrawn, read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.claude import append, queue_line, reply, turn
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
