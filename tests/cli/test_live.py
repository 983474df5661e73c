"""``status --watch`` and ``restart``."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rpc.fake_daemon import FakePalace
from support import daemons as daemon_processes
from support.daemons import Daemons, lock_holder

import palace_daemon
from palace_daemon.cli import live
from palace_daemon.rpc import convert, wire

Cli = Callable[..., Any]
WATCH = [sys.executable, "-m", "palace_daemon", "status", "--watch"]


@pytest.fixture
def daemons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemons]:
    with daemon_processes.started(tmp_path / "daemons", monkeypatch) as made:
        yield made


def told(**changes: Any) -> dict[str, Any]:
    status = msgspec.structs.replace(FakePalace().status(), **changes)
    built: dict[str, Any] = wire.to_builtins(convert.status_to_wire(status))
    return built


def test_a_pipe_gets_a_line_for_each_change(running: Any, palace: Any, cli: Cli) -> None:
    with subprocess.Popen(WATCH, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "1 of 3 vectors" in process.stdout.readline()
        assert cli("pause").code == 0
        assert "paused" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


def test_json_is_one_object_a_line(running: Any, cli: Cli) -> None:
    with subprocess.Popen([*WATCH, "--json"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert (first["drawers"], first["embedding"]["isPaused"]) == (3, False)
        assert cli("pause").code == 0
        assert json.loads(process.stdout.readline())["embedding"]["isPaused"] is True
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


def test_a_terminal_is_drawn_anew_in_place(running: Any) -> None:
    ours, theirs = os.openpty()
    environ = {**os.environ, "COLUMNS": "60", "TERM": "xterm"}
    with subprocess.Popen(WATCH, stdout=theirs, env=environ) as process:
        os.close(theirs)
        shown = ""
        while not re.search(r"\x1b\[\d+A", shown):
            shown += os.read(ours, 65536).decode()
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):
            while part := os.read(ours, 65536):
                shown += part.decode()
        assert process.wait(timeout=60) == 0
    os.close(ours)
    first, _, _ = shown.partition("\x1b[J")
    height = first.count("\n")
    assert f"\x1b[{height}A" in shown
    assert all(len(line) <= 70 for line in first.split("\r\n"))


def test_a_daemon_that_ends_ends_the_watch(running: Any) -> None:
    with subprocess.Popen(WATCH, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        running.daemon.stop()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "lost the daemon" in err


def test_without_a_daemon_there_is_nothing_to_watch(cli: Cli) -> None:
    assert cli("status", "--watch").code == 3


def test_what_is_shown_of_a_state() -> None:
    busy = live.lines(told(last_error="a\x1bfile: gone", failures={"/a": "x"}), age_s=60)
    text = "\n".join(busy)
    assert "up 1 min" in text
    assert "mining and embedding" in text
    assert "1 to be mined, 1 failed" in text
    assert "last error  a\ufffdfile: gone" in text
    calm = told(sources_pending=0, vectors_pending=0)
    assert "nothing waits" in "\n".join(live.lines(calm))
    assert live.one_line(calm).endswith("nothing waits")
    assert "last error: disk" in live.one_line(told(last_error="disk"))


def test_restart_gives_another_process_of_this_version(
    cli: Cli, daemons: Daemons, wait_until: Callable[..., None]
) -> None:
    started = cli("restart")
    assert (started.code, started.out) == (0, f"started: process {lock_holder()}\n")
    first = lock_holder()
    again = cli("restart", "--json").json
    assert again == {"wasRunning": True, "pid": lock_holder()}
    assert again["pid"] != first
    wait_until(lambda: daemons.pids() == [again["pid"]])  # the former lets go of the lock a moment before it is gone


def test_a_command_replaces_an_older_daemon_and_says_so(cli: Cli, daemons: Daemons) -> None:
    daemons.are_of("0.0.9")
    cli("restart")
    daemons.are_of(palace_daemon.__version__)
    outcome = cli("projects")
    assert f"the daemon was palace-daemon 0.0.9: one of {palace_daemon.__version__}" in outcome.err
    assert cli("projects").err == ""
