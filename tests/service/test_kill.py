"""``kill -9`` in the middle of mining and embedding: nothing lost, nothing twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, turn
from support.dumps import logical_dump

from palace_daemon.store import check, sqlite

SCRIPT = Path(__file__).parents[1] / "support" / "mining_process.py"
KILLS = int(os.environ.get("PALACE_SOAK_KILLS", "8"))
"""`make soak` raises it."""


def start(data: Path, transcripts: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(data), str(transcripts)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ.copy(),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "mining\n"
    return process


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=60)
    return output


@pytest.mark.timeout(180 + 15 * KILLS)
def test_a_killed_run_started_again_gives_the_undisturbed_store(tmp_path: Path, transcripts: Path) -> None:
    dice = random.Random(9)
    for number in range(12):
        text = "".join(
            turn(
                n,
                f"Question {n} of {number}?",
                "\n\n".join(["A sentence on tides."] * dice.randrange(60)),
                session=f"s{number}",
            )
            for n in range(40)
        )
        append(transcripts / f"{number}.jsonl", text)
    began = time.monotonic()
    calm = start(tmp_path / "calm", transcripts)
    assert finish(calm) == "done\n"
    whole_s = time.monotonic() - began
    expected = logical_dump(sqlite.database_path(tmp_path / "calm"))
    round_number = kills_of_round = 0
    for _ in range(KILLS):
        while not is_killed_midway(tmp_path / f"killed{round_number}", transcripts, dice.uniform(0.0, whole_s / 3)):
            assert_sound(tmp_path / f"killed{round_number}", expected)
            # The undisturbed run may have found a busier machine than those that are to be killed.
            whole_s = whole_s if kills_of_round else whole_s / 2
            round_number, kills_of_round = round_number + 1, 0
        kills_of_round += 1
    assert finish(start(tmp_path / f"killed{round_number}", transcripts)) == "done\n"
    assert_sound(tmp_path / f"killed{round_number}", expected)


def is_killed_midway(data: Path, transcripts: Path, after_s: float) -> bool:
    """Start a run and kill it; returns whether it was not done by then."""
    process = start(data, transcripts)
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    return finish(process) != "done\n"


def assert_sound(data: Path, expected: dict[str, Any]) -> None:
    path = sqlite.database_path(data)
    assert logical_dump(path) == expected
    connection = sqlite.open_reader(path)
    assert [finding for finding in check.check(connection, is_deep=True) if not finding.is_ok] == []
    connection.close()
