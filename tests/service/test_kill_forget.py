"""``kill -9`` at every step of forgetting: the forgotten stays forgotten, and its bytes go at the next start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.claude import append, turn
from support.traces import traces

from palace_daemon.store import check, sqlite

SCRIPT = Path(__file__).parents[1] / "support" / "forgetting_process.py"
SECRET = "Zanzibarwhale quixotry must never reach the marmalade committee."


def start(data: Path, transcripts: Path, step: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), str(data), str(transcripts), step],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ.copy(),
    )


def kill_at(step: str, data: Path, transcripts: Path) -> None:
    process = start(data, transcripts, step)
    assert process.stdout is not None
    assert process.stdout.readline() == f"{step}\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)


def finish(data: Path, transcripts: Path) -> None:
    output, _ = start(data, transcripts, "none").communicate(timeout=60)
    assert output == "done\n"


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "step",
    ["before_scrubbing", "before_copying_back", "while_copying_back", "before_the_log_is_cut"],
)
def test_killed_between_the_steps_it_is_forgotten_and_its_bytes_go_at_the_next_start(
    step: str, tmp_path: Path, transcripts: Path
) -> None:
    data = tmp_path / "data"
    kept = "".join(turn(number, f"Question {number}?", "On tides. " * 400) for number in range(20))
    append(transcripts / "one.jsonl", kept + turn(30, SECRET, "Understood."))
    kill_at(step, data, transcripts)
    connection = sqlite.open_reader(sqlite.database_path(data))
    assert connection.execute("SELECT scrub_due FROM state").fetchone()[0] == 1
    assert connection.execute("SELECT count(*), max(user_text=?) FROM exchanges", (SECRET,)).fetchone() == (20, 0)
    connection.close()
    finish(data, transcripts)
    assert traces(data, (SECRET, "quixotry", "quixotri")) == []
    assert [path.name for path in data.iterdir() if path.name.endswith(".scrub")] == []
    connection = sqlite.open_reader(sqlite.database_path(data))
    assert [finding for finding in check.check(connection, is_deep=True) if not finding.is_ok] == []
    assert connection.execute("SELECT count(*) FROM exchanges").fetchone()[0] == 20
    connection.close()


@pytest.mark.timeout(180)
def test_killed_before_the_commit_nothing_is_forgotten_and_it_can_be_asked_again(
    tmp_path: Path, transcripts: Path
) -> None:
    data = tmp_path / "data"
    append(transcripts / "one.jsonl", turn(1, "How?", "So.") + turn(2, SECRET, "Understood."))
    kill_at("before_the_commit", data, transcripts)
    connection = sqlite.open_reader(sqlite.database_path(data))
    assert connection.execute("SELECT scrub_due FROM state").fetchone()[0] == 0
    assert connection.execute("SELECT count(*) FROM tombstones").fetchone()[0] == 0
    assert connection.execute("SELECT count(*) FROM exchanges").fetchone()[0] == 2
    connection.close()
    kill_at("before_scrubbing", data, transcripts)
    finish(data, transcripts)
    assert traces(data, (SECRET, "quixotry")) == []
