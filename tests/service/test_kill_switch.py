"""``kill -9`` in the middle of a switch of models: resumed, it ends with the vectors of an undisturbed one."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.claude import append, turn

from palace_daemon.embed import registry
from palace_daemon.store import check, spaces, sqlite

SCRIPT = Path(__file__).parents[1] / "support" / "switching_process.py"
KILLS = max(4, int(os.environ.get("PALACE_SOAK_KILLS", "0")) // 4)
"""`make soak` raises it."""
FORMER, NEXT = "hashing@1", registry.spec(registry.DEFAULT_MODEL).fingerprint


def start(data: Path, transcripts: Path, model_id: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(data), str(transcripts), model_id],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ.copy(),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "switching\n"
    return process


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=120)
    return output


def dump(data: Path) -> tuple[spaces.Spaces, list[tuple[bytes, int, bytes]]]:
    """Return the roles, and all vectors to the bit; nothing may be unsound."""
    connection = sqlite.open_reader(sqlite.database_path(data))
    try:
        assert [finding for finding in check.check(connection, is_deep=True) if not finding.is_ok] == []
        stored = connection.execute("SELECT text_hash, space, vector FROM vectors ORDER BY 1, 2").fetchall()
        return spaces.read(connection), stored
    finally:
        connection.close()


@pytest.mark.model
@pytest.mark.timeout(240 + 30 * KILLS)
def test_a_killed_switch_started_again_gives_the_vectors_of_an_undisturbed_one(
    tmp_path: Path, transcripts: Path
) -> None:
    dice = random.Random(3)
    words = [f"gauge{n}" for n in range(50)]
    for number in range(3):
        lines = [
            turn(n, f"Question {n} of {number}?", " ".join(dice.choices(words, k=60)) + ".", session=f"s{number}")
            for n in range(40)
        ]
        append(transcripts / f"{number}.jsonl", "".join(lines))
    assert finish(start(tmp_path / "former", transcripts, "hashing")) == "done\n"
    shutil.copytree(tmp_path / "former", tmp_path / "calm")
    began = time.monotonic()
    assert finish(start(tmp_path / "calm", transcripts, registry.DEFAULT_MODEL)) == "done\n"
    whole_s = time.monotonic() - began
    seen, expected = set(), dump(tmp_path / "calm")[1]
    data = shutil.copytree(tmp_path / "former", tmp_path / "killed")
    kills_of_round = 0
    for number in range(KILLS):
        # Every other one once something more is embedded, so that it gets on however busy the machine is.
        while not is_killed_midway(data, transcripts, dice.uniform(0.0, whole_s / KILLS), is_later=number % 2 == 1):
            assert_switched(data, expected)
            whole_s = whole_s if kills_of_round else whole_s / 2
            shutil.rmtree(data)
            shutil.copytree(tmp_path / "former", data)
            kills_of_round = 0
        kills_of_round += 1
        dump(data)
        seen.add(embedded(data))
    assert finish(start(data, transcripts, registry.DEFAULT_MODEL)) == "done\n"
    assert len(seen) >= 2  # killed at different places
    assert_switched(data, expected)


def is_killed_midway(data: Path, transcripts: Path, after_s: float, *, is_later: bool) -> bool:
    """Start a switch and kill it, after it embedded something or at once; returns whether it was not done by then."""
    before = embedded(data)
    process = start(data, transcripts, registry.DEFAULT_MODEL)
    while is_later and process.poll() is None and embedded(data) <= before:
        time.sleep(0.01)
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    return finish(process) != "done\n"


def embedded(data: Path) -> int:
    """Return how many vectors the next model has."""
    connection = sqlite.open_reader(sqlite.database_path(data))
    try:
        following = spaces.read(connection).next
        return following.vectors if following else 0
    finally:
        connection.close()


def assert_switched(data: Path, expected: list[tuple[bytes, int, bytes]]) -> None:
    roles, vectors = dump(data)
    assert (roles.answering.model, roles.answering.pending, roles.next) == (NEXT, 0, None)
    assert roles.previous is not None
    assert (roles.previous.model, roles.previous.vectors) == (FORMER, roles.answering.vectors)
    assert vectors == expected
