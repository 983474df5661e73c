"""Copies that part ways, files that are emptied, replaced or reused, and a store that is busy."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, reply, turn, user

from palace_daemon.errors import StoreBusyError
from palace_daemon.model import MineReport, RecallQuery
from palace_daemon.service.pace import FILE_BYTES
from palace_daemon.service.queue import Job, MiningQueue
from palace_daemon.store import sqlite

WaitUntil = Callable[..., Any]


def mine(palace: Any, *paths: Path) -> Any:
    return palace.mine([str(path) for path in paths], wait=True)


def texts(palace: Any, query: str) -> list[str]:
    return [hit.text for hit in palace.recall(RecallQuery(text=query, now=0)).hits]


# ----------------------------------------------------------------------------------------------------- long first lines


def test_a_first_line_longer_than_the_head_is_a_transcript_all_the_same(palace: Any, transcripts: Path) -> None:
    append(transcripts / "a.jsonl", user("u1", "pasted log line\n" * 20_000 + "zebra") + reply("a1", "I see."))
    assert mine(palace, transcripts).exchanges_added == 1
    assert any("zebra" in text for text in texts(palace, "zebra"))


def test_an_image_in_the_first_prompt_is_no_obstacle(palace: Any, transcripts: Path) -> None:
    block = (
        '{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "'
        + "iVBORw0K" * 20_000
        + '"}}'
    )
    line = user("u1", "TEXT").replace(
        '"content": "TEXT"', '"content": [' + block + ', {"type": "text", "text": "Look here"}]'
    )
    append(transcripts / "a.jsonl", line + reply("a1", "A cat."))
    assert mine(palace, transcripts).exchanges_added == 1
    assert texts(palace, "cat") == ["> Look here\n\nA cat."]


# ------------------------------------------------------------------------------------------------------- changing files


def test_a_reused_inode_does_not_take_the_old_exchanges_away(
    palace: Any, transcripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = transcripts / "a.jsonl", transcripts / "b.jsonl"
    append(old, turn(1, "Why do tides rise?", "The moon pulls."))
    mine(palace, transcripts)
    old.rename(new)  # the same inode, as if the file system had given it to a new file
    new.write_text(turn(1, "Which port?", "Port 8080.", session="s2"))
    mine(palace, transcripts)
    assert any("moon" in text for text in texts(palace, "tides moon"))
    assert any("8080" in text for text in texts(palace, "port"))


def test_an_emptied_file_leaves_recall(palace: Any, transcripts: Path) -> None:
    path = transcripts / "a.jsonl"
    append(path, turn(1, "Why do tides rise?", "The moon pulls."))
    mine(palace, transcripts)
    path.write_text("")
    mine(palace, transcripts)
    assert texts(palace, "tides") == []
    append(path, turn(1, "Why do tides rise?", "The moon pulls."))
    mine(palace, transcripts)
    assert len(texts(palace, "tides")) == 1


def test_a_file_that_becomes_something_else_leaves_recall(palace: Any, transcripts: Path) -> None:
    path = transcripts / "a.jsonl"
    append(path, turn(1, "Why do tides rise?", "The moon pulls."))
    mine(palace, transcripts)
    path.write_text("no transcript any more\n" * 50)
    mine(palace, transcripts)
    assert texts(palace, "tides") == []
    assert palace.sources()[0].state == "skipped"
    with palace._store.read() as connection:
        before = connection.execute("SELECT generation FROM state").fetchone()
    mine(palace, transcripts)  # looked at again, and nothing is written
    with palace._store.read() as connection:
        assert connection.execute("SELECT generation FROM state").fetchone() == before


def test_a_time_before_1970_is_a_time(palace: Any, transcripts: Path) -> None:
    path = transcripts / "a.jsonl"
    append(path, turn(1, "One?", "1."))
    os.utime(path, (-5, -5))
    assert mine(palace, transcripts).exchanges_added == 1


def test_a_file_that_was_compacted_once_can_be_rewritten_like_any_other(palace: Any, transcripts: Path) -> None:
    path = transcripts / "a.jsonl"
    first, second = turn(1, "Which port?", "Port 8080."), turn(2, "Why do tides rise?", "The moon pulls.")
    summary = user("c1", "This session is being continued from an earlier one.", at=5, isCompactSummary=True)
    append(path, first + second)
    mine(palace, transcripts)
    path.write_text(summary + second)
    mine(palace, transcripts)
    assert any("8080" in text for text in texts(palace, "port")), "a compaction's drop retracts nothing"
    path.write_text(summary + turn(3, "And the ebb?", "It follows."))
    mine(palace, transcripts)
    assert not any("moon" in text for text in texts(palace, "tides rise"))
    assert any("8080" in text for text in texts(palace, "port"))
    assert palace.sources()[0].lines_skipped == {"compact_summary": 1}


# --------------------------------------------------------------------------------------------------- copies part ways


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_reply_that_goes_another_way_in_a_fork_is_kept_beside_the_first(
    palace: Any, transcripts: Path, order: str
) -> None:
    append(transcripts / "a.jsonl", user("u1", "Choose a queue") + reply("a1", "We take Redis, after a long look."))
    append(transcripts / "b.jsonl", user("u1", "Choose a queue", session="s2") + reply("a2", "zeromq.", session="s2"))
    for name in order:
        mine(palace, transcripts / f"{name}.jsonl")
    assert sorted(texts(palace, "queue")) == [
        "> Choose a queue\n\nWe take Redis, after a long look.",
        "> Choose a queue\n\nzeromq.",
    ]
    append(transcripts / "b.jsonl", reply("a3", "With brokers.", session="s2", at=3))
    report = mine(palace, transcripts)
    assert (report.exchanges_added, report.exchanges_replaced) == (0, 1)
    assert any("With brokers." in text for text in texts(palace, "zeromq brokers"))


def test_copies_that_part_later_become_two(palace: Any, transcripts: Path) -> None:
    start = user("u1", "Choose a queue") + reply("a1", "Let me look.")
    append(transcripts / "a.jsonl", start)
    append(transcripts / "b.jsonl", start.replace('"s1"', '"s2"'))
    mine(palace, transcripts)
    assert len(texts(palace, "queue")) == 1
    append(transcripts / "a.jsonl", reply("a2", "Redis it is, I say.", at=2))
    append(transcripts / "b.jsonl", reply("b2", "zeromq.", session="s2", at=2))
    mine(palace, transcripts)
    assert sorted(text.rsplit("\n", 1)[-1] for text in texts(palace, "queue")) == ["Redis it is, I say.", "zeromq."]


def test_the_living_copy_is_shown_when_the_owner_is_rewritten(palace: Any, transcripts: Path) -> None:
    append(transcripts / "a.jsonl", user("u1", "Choose a queue") + reply("a1", "Redis it is, as WRITTEN before."))
    append(
        transcripts / "b.jsonl", user("u1", "Choose a queue", session="s2") + reply("a1", "Redis it is", session="s2")
    )
    mine(palace, transcripts)
    (transcripts / "a.jsonl").write_text(turn(9, "Other?", "Other."))
    mine(palace, transcripts)
    mine(palace, transcripts)  # the copy is read anew
    hits = [hit for hit in palace.recall(RecallQuery(text="queue redis", now=0)).hits if "queue" in hit.text]
    assert [(hit.path, hit.text) for hit in hits] == [(str(transcripts / "b.jsonl"), "> Choose a queue\n\nRedis it is")]


def test_a_rewritten_owner_is_stored_though_a_deleted_copy_was_longer(palace: Any, transcripts: Path) -> None:
    append(transcripts / "a.jsonl", user("u1", "Choose a queue") + reply("a1", "Redis"))
    append(
        transcripts / "b.jsonl",
        user("u1", "Choose a queue", session="s2") + reply("a1", "Redis, longer.", session="s2"),
    )
    mine(palace, transcripts)
    (transcripts / "b.jsonl").unlink()
    (transcripts / "a.jsonl").write_text(user("u1", "Choose a queue") + reply("a1", "NATS"))
    mine(palace, transcripts)
    assert sorted(texts(palace, "queue")) == ["> Choose a queue\n\nNATS", "> Choose a queue\n\nRedis, longer."]


# ------------------------------------------------------------------------------------------------------------ the queue


def test_a_job_is_not_ticked_off_by_a_reading_that_began_before_it() -> None:
    queue = MiningQueue()
    queue.put("/a", 1)
    assert queue.take(0) == ("/a", False)
    job = Job(["/a"], take_tail=True)
    queue.put_job(job)
    queue.put("/a", 2)
    queue.done("/a", _report(), is_last=True)
    assert not job.wait(0)
    assert queue.take(0) == ("/a", True)
    queue.done("/a", _report(), is_last=True)
    assert job.wait(0)


def test_the_rest_of_a_giant_stands_behind_the_others() -> None:
    queue = MiningQueue()
    queue.put("/giant", 9)
    queue.put("/small", 1)
    order = []
    for _ in range(4):
        taken = queue.take(0)
        assert taken is not None
        order.append(taken[0])
        is_last = taken[0] == "/small" or len(order) > 3
        if not is_last:
            queue.put_rest(taken[0], 9)
        queue.done(taken[0], _report(), is_last=is_last)
    assert order == ["/giant", "/small", "/giant", "/giant"]
    assert queue.pending() == 0


def test_a_source_is_pending_until_it_is_done_also_when_it_is_read_again() -> None:
    queue = MiningQueue()
    queue.put("/a", 1)
    queue.take(0)
    queue.put("/a", 2)
    queue.done("/a", _report(), is_last=True)
    assert queue.pending() == 1


def _report() -> MineReport:
    return MineReport(files=1)


# --------------------------------------------------------------------------------------------------------- a busy store


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palace_daemon.store.sqlite.BUSY_TIMEOUT_MS", 200)


def lock(palace: Any) -> sqlite.Connection:
    # The same library as Palace: two SQLite libraries in one process do not see each other's locks.
    connection = sqlite.open_writer(palace._store.path)
    connection.execute("BEGIN IMMEDIATE")
    return connection


def test_a_locked_store_loses_no_source(impatient: None, make_palace: Any, transcripts: Path) -> None:
    palace = make_palace()
    append(transcripts / "a.jsonl", turn(1, "One?", "1."))
    mine(palace, transcripts)
    holder = lock(palace)
    append(transcripts / "a.jsonl", turn(2, "Two?", "2."))
    release = threading.Timer(1.0, lambda: holder.execute("COMMIT"))
    release.start()
    assert mine(palace, transcripts).exchanges_added == 1
    release.join()
    holder.close()
    assert palace.status().last_error == ""


def test_a_first_start_that_fails_can_be_tried_again(impatient: None, make_palace: Any, transcripts: Path) -> None:
    palace = make_palace()
    holder = lock(palace)
    append(transcripts / "a.jsonl", turn(1, "One?", "1."))
    with pytest.raises(StoreBusyError):
        mine(palace, transcripts)
    holder.execute("COMMIT")
    holder.close()
    assert mine(palace, transcripts).exchanges_added == 1


def test_a_fault_in_one_source_is_recorded_and_the_rest_mined(
    palace: Any, transcripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(transcripts / "bad.jsonl", turn(1, "Bad?", "1.", session="s2"))
    append(transcripts / "good.jsonl", turn(1, "Good?", "2."))
    real = palace._miner.mine

    def mine_or_fail(path: str, **more: Any) -> Any:
        if path.endswith("bad.jsonl"):
            raise KeyError("on purpose")
        return real(path, **more)

    monkeypatch.setattr(palace._miner, "mine", mine_or_fail)
    report = mine(palace, transcripts)
    assert report.failures == {str(transcripts / "bad.jsonl"): "internal error: KeyError"}
    assert palace.status().failures == report.failures
    assert len(texts(palace, "good")) == 1
    monkeypatch.undo()
    assert mine(palace, transcripts).failures == {}
    assert palace.status().failures == {}


def test_an_id_that_was_given_out_is_answered_after_a_fork_with_a_smaller_key(palace: Any, transcripts: Path) -> None:
    line = turn(1, "Why do tides rise?", "The moon pulls.")
    append(transcripts / "z.jsonl", line)
    mine(palace, transcripts)
    given = palace.recall(RecallQuery(text="tides", now=0)).hits[0].exchange_id
    forked = line.replace("u-s1-1", "AA-fork").replace("a-s1-1", "AB-fork").replace('"s1"', '"s0"')
    append(transcripts / "y.jsonl", forked)
    mine(palace, transcripts)
    now = palace.recall(RecallQuery(text="tides", now=0)).hits[0].exchange_id
    assert palace.get(given) == palace.get(given[:8]) == palace.get(now)


def test_files_that_hold_nothing_new_say_nothing_of_the_time_left() -> None:
    job = Job(["/read before", "/new", "/in two parts", "/left"], take_tail=True)
    job.add("/read before", MineReport(), set(), is_last=True)
    assert (job.done, job.work) == (1, (0, 3 * FILE_BYTES))
    job.add("/in two parts", MineReport(lines_read=3), set(), is_last=False)
    job.add("/in two parts", MineReport(), set(), is_last=True)
    job.add("/new", MineReport(lines_read=1), set(), is_last=True)
    assert (job.done, job.total, job.work) == (3, 4, (2 * FILE_BYTES, 3 * FILE_BYTES))
