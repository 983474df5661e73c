from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.claude import append, turn

from palace_daemon.model import MineReport, Progress
from palace_daemon.service import mining, pace
from palace_daemon.service.pace import FILE_BYTES, Backlog, Countdown, bytes_left
from palace_daemon.service.queue import Job

BIG = 500 << 20
SMALL = 100 << 10


def test_the_time_left_of_one_large_file_among_small_ones_goes_by_bytes() -> None:
    sizes = {"/big": (BIG, BIG)} | {f"/{number}": (SMALL, SMALL) for number in range(99)}
    backlog = Backlog(sizes)
    for number in range(99):
        backlog.finish(f"/{number}", is_idle=False)
    small = 99 * (SMALL + FILE_BYTES)
    assert (backlog.done, backlog.total) == (small, small + BIG + FILE_BYTES)
    countdown = Countdown()
    countdown.eta_s(10.0, FILE_BYTES, backlog.total)
    left = countdown.eta_s(12.0, backlog.done, backlog.total)
    assert left == pytest.approx(2.0 * BIG / small, rel=0.01), "not two hundredths of a second"
    backlog.read_on("/big", 0.25)
    assert backlog.total - backlog.done == FILE_BYTES + BIG // 4
    backlog.read_on("/big", 0.5)
    assert backlog.total - backlog.done == FILE_BYTES + BIG // 4, "what is done stays done"
    backlog.finish("/big", is_idle=False)
    assert (backlog.done, countdown.eta_s(19.0, backlog.done, backlog.total)) == (backlog.total, 0.0)


@pytest.mark.parametrize(("size", "read", "left"), [(900, 0, 900), (900, 600, 300), (900, 900, 0), (900, 2_000, 0)])
def test_only_what_lies_behind_the_cursor_is_to_be_read(size: int, read: int, left: int) -> None:
    assert bytes_left(size, read) == left


def test_what_held_nothing_new_says_nothing_of_the_pace() -> None:
    backlog = Backlog({"/old": (SMALL, 0), "/new": (SMALL, SMALL)})
    backlog.finish("/old", is_idle=True)
    assert (backlog.done, backlog.total) == (0, SMALL + FILE_BYTES)
    assert Countdown().eta_s(1.0, backlog.done, backlog.total) is None


def test_the_time_left_goes_by_the_pace_since_the_first_work() -> None:
    countdown = Countdown()
    assert countdown.eta_s(0.0, 0, 1_000) is None
    assert countdown.eta_s(60.0, 0, 1_000) is None, "a minute went by with what holds nothing new"
    assert countdown.eta_s(60.1, 100, 1_000) is None, "a first piece has no pace"
    assert countdown.eta_s(60.6, 150, 1_000) is None, "half a second says little"
    assert countdown.eta_s(61.1, 200, 1_000) == pytest.approx(8.0), "100 a second, not 200 in a minute"
    assert countdown.eta_s(69.1, 1_000, 1_000) == 0.0
    assert countdown.eta_s(69.2, 50, 2_000) is None, "what was done has been taken back"
    assert countdown.eta_s(71.2, 150, 2_000) == pytest.approx(37.0)


def test_of_nothing_to_do_no_time_is_told() -> None:
    assert Countdown().eta_s(1.0, 0, 0) is None


def test_the_bytes_of_a_container_are_those_of_what_it_holds() -> None:
    backlog = Backlog({"/all.zip": (BIG, BIG), "/none.zip": (SMALL, SMALL)})
    backlog.find("/all.zip", ["/all.zip!/a", "/all.zip!/b"])
    backlog.find("/none.zip", [])
    backlog.finish("/all.zip", is_idle=True)
    backlog.finish("/none.zip", is_idle=True)
    assert (backlog.done, backlog.total) == (0, BIG + 2 * FILE_BYTES)
    backlog.read_on("/all.zip!/a", 0.5)
    assert backlog.done == BIG // 4
    backlog.finish("/all.zip!/a", is_idle=False)
    backlog.finish("/all.zip!/b", is_idle=False)
    assert backlog.done == backlog.total


def test_a_source_whose_rest_comes_later_counts_by_its_share() -> None:
    job = Job(["/a", "/b"], take_tail=True, sizes={"/a": (1_000, 1_000), "/b": (1_000, 400)})
    job.add("/a", MineReport(lines_read=1), set(), is_last=False)
    assert job.work == (0, 1_400 + 2 * FILE_BYTES), "it was not read at all: the store was locked"
    job.add("/a", MineReport(lines_read=1), set(), is_last=False, share_left=0.3)
    assert job.work[0] == 700
    job.add("/a", MineReport(lines_read=1), set(), is_last=True)
    job.add("/b", MineReport(lines_read=1), set(), is_last=True)
    assert job.work[0] == job.work[1]


def test_what_is_told_of_a_large_file_goes_by_its_bytes(
    make_palace: Any, transcripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mining, "READ_BYTES", 10_000)
    monkeypatch.setattr(mining, "SLICE_BYTES", 20_000)
    monkeypatch.setattr("palace_daemon.service.palace._WAIT_STEP_S", 0.01)
    monkeypatch.setattr(pace, "SEEN_S", 0.0)
    append(transcripts / "big.jsonl", "".join(turn(n, f"Tide {n}?", f"Tide {n}. " * 40) for n in range(400)))
    for number in range(5):
        append(transcripts / f"{number}.jsonl", turn(number, "Gauge?", "Gauge.", session=f"s{number}"))
    told: list[Progress] = []
    make_palace().mine([str(transcripts)], wait=True, on_progress=told.append)
    shares = [step.share for step in told if step.stage == "mine" and step.share is not None]
    assert shares == sorted(shares)
    amid = [step for step in told if step.done == 5 and step.total == 6 and step.share and 0.1 < step.share < 0.9]
    assert len({step.share for step in amid}) > 2, "with five of six files read, most is still to do"
    assert amid[-1].eta_s is not None
