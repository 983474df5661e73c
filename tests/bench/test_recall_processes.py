"""A run that is told to end ends: no folder of a store stays, and no process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from palace_daemon import bench
from palace_daemon.bench import recall_processes
from palace_daemon.errors import ConfigError

END_S = 60.0
"""For what ends as soon as the batch of texts that is being embedded is done, on a machine with other work."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four haystacks of which each takes far longer to embed than the test waits."""
    lines: list[dict[str, object]] = []
    for haystack in range(4):
        lines.append({"type": "haystack", "id": f"h{haystack}"})
        turns = [
            {"role": role, "text": f"Part {number} of {haystack} is about boats. " * 12}
            for number in range(800)
            for role in ("user", "assistant")
        ]
        lines.append({"type": "session", "id": "s", "turns": turns})
        lines.append({"type": "question", "id": "q", "text": "Which part?", "gold": ["s"]})
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def started(data: Path, tmp_path: Path) -> Iterator[Callable[[int], subprocess.Popen[bytes]]]:
    """Starts a run on so many processes; all of them hold its standard error."""
    running: list[subprocess.Popen[bytes]] = []

    def start(jobs: int) -> subprocess.Popen[bytes]:
        arguments = ["recall", "--set", "jsonl", "--data", str(data), "--cache", str(tmp_path / "cache")]
        command = [sys.executable, "-m", "palace_daemon", "--bench", *arguments, "--jobs", str(jobs)]
        running.append(
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        )
        return running[-1]

    yield start
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # workers that outlive their parent would hold the pipe
        process.communicate()


def _stores() -> list[Path]:
    return list(Path(os.environ["TMPDIR"]).glob("palace-recall-*"))


def _all_embed(jobs: int, cache: Path) -> bool:
    """Return whether each process has a store, and a first batch of vectors for it."""
    return len(_stores()) == len(list(cache.rglob("*.bin"))) == jobs


@pytest.mark.model
@pytest.mark.timeout(180)
@pytest.mark.skipif(os.name != "posix", reason="SIGTERM cannot be caught there")
@pytest.mark.parametrize("jobs", [1, 2])
def test_sigterm_leaves_no_store_and_no_process(
    started: Callable[[int], subprocess.Popen[bytes]], wait_until: Callable[..., None], tmp_path: Path, jobs: int
) -> None:
    process = started(jobs)
    wait_until(lambda: _all_embed(jobs, tmp_path / "cache") or process.poll() is not None, timeout_s=END_S)
    process.terminate()
    _, told = process.communicate(timeout=END_S)  # to the end of what all its processes write
    assert (process.returncode, _stores()) == (recall_processes.EXIT_STATUS, [])
    assert b"Traceback" not in told


@pytest.mark.model
@pytest.mark.timeout(180)
@pytest.mark.skipif(os.name != "posix", reason="a worker is woken by a signal to its main thread")
def test_workers_end_with_a_parent_that_was_killed(
    started: Callable[[int], subprocess.Popen[bytes]], wait_until: Callable[..., None], tmp_path: Path
) -> None:
    process = started(2)
    wait_until(lambda: _all_embed(2, tmp_path / "cache") or process.poll() is not None, timeout_s=END_S)
    process.kill()
    process.communicate(timeout=END_S)
    assert (process.returncode, _stores()) == (-signal.SIGKILL, [])


def test_the_former_handler_of_sigterm_comes_back(tmp_path: Path) -> None:
    former = signal.getsignal(signal.SIGTERM)
    with recall_processes.sigterm_exits():
        assert signal.getsignal(signal.SIGTERM) != former
        with pytest.raises(SystemExit, match="143"):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # a further one does not stop what the first one has begun
    assert signal.getsignal(signal.SIGTERM) == former
    with pytest.raises(ConfigError, match="absent"):
        bench.main(["recall", "--set", "jsonl", "--data", str(tmp_path / "absent")])
    assert signal.getsignal(signal.SIGTERM) == former
