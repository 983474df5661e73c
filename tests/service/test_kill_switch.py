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
    assert finish(start(tmp_path / "killed", transcripts, "hashing")) == "done\n"
    shutil.copytree(tmp_path / "killed", tmp_path / "calm")
    began = time.monotonic()
    assert finish(start(tmp_path / "calm", transcripts, registry.DEFAULT_MODEL)) == "done\n"
    whole_s = time.monotonic() - began
    seen = set()
    for _ in range(KILLS):
        process = start(tmp_path / "killed", transcripts, registry.DEFAULT_MODEL)
        time.sleep(dice.uniform(0.0, 1.5 * whole_s / KILLS))
        process.send_signal(signal.SIGKILL)
        finish(process)
        roles, _ = dump(tmp_path / "killed")
        seen.add(roles.next.vectors if roles.next else -1)
    assert finish(start(tmp_path / "killed", transcripts, registry.DEFAULT_MODEL)) == "done\n"
    assert len(seen) >= 2  # killed at different places
    roles, vectors = dump(tmp_path / "killed")
    assert (roles.answering.model, roles.answering.pending, roles.next) == (NEXT, 0, None)
    assert roles.previous is not None
    assert (roles.previous.model, roles.previous.vectors) == (FORMER, roles.answering.vectors)
    assert vectors == dump(tmp_path / "calm")[1]
