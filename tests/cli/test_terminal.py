"""What only shows on a terminal, and under signals: progress, and being interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from palace_daemon import bench
from palace_daemon.cli import main


def read_all(terminal: int) -> bytes:
    """Return what was written to the other end of a pseudo-terminal, until it is closed."""
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux reports the end as an input/output error
            return b"".join(parts)
        if not part:
            return b"".join(parts)
        parts.append(part)


def test_mining_shows_a_bar_on_a_terminal_and_only_there(running: Any, palace: Any) -> None:
    palace.progress_steps = 6
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "palace_daemon", "mine", "--wait", os.getcwd()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = read_all(ours).decode()
        out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 0
    assert "mining" in shown
    assert "of 6 files" in shown
    assert "files" in shown
    assert out.decode().startswith("files")
    assert b"\r" not in out


def test_interrupting_a_wait_cancels_the_request_and_leaves_the_daemon(
    running: Any, palace: Any, wait_until: Callable[..., None]
) -> None:
    command = [sys.executable, "-m", "palace_daemon", "mine", "--wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: palace.waiting == 1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert err == b"palace-daemon: stopped waiting; the daemon goes on in the background\n"
    wait_until(lambda: palace.cancelled == 1)
    assert running.thread.is_alive()


def test_everything_behind_bench_goes_to_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[list[str]] = []

    def take(words: list[str]) -> int:
        taken.append(words)
        return 7

    monkeypatch.setattr(bench, "main", take, raising=False)
    assert main.run(["--bench", "embed", "--json", "--limit", "3"]) == 7
    assert main.run(["--data-dir", "/x", "--bench"]) == 7
    assert taken == [["embed", "--json", "--limit", "3"], []]
