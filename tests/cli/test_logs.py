"""``logs``: the end of the log, over its rotated files, and what comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palace_daemon import places

Cli = Callable[..., Any]


@pytest.fixture
def log(isolated_home: Path) -> Path:
    path = places.log_file(places.data_dir())
    path.parent.mkdir(parents=True)
    return path


def test_the_last_lines_are_shown_over_the_rotated_files(cli: Cli, log: Path) -> None:
    log.with_name(log.name + ".2").write_text("one\ntwo\n")
    log.with_name(log.name + ".1").write_text("three\nfour\n")
    log.write_text("five\nsix \x1b[2J\n")
    assert cli("logs", "-n", "3").out == "four\nfive\nsix \ufffd[2J\n"
    assert cli("logs", "--json").json == {
        "path": str(log),
        "lines": ["one", "two", "three", "four", "five", "six \x1b[2J"],
    }
    assert cli("logs", "-n", "0").out == ""


def test_without_a_log_it_says_so(cli: Cli) -> None:
    outcome = cli("logs")
    assert (outcome.code, outcome.out) == (1, "")
    assert "there is no log yet" in outcome.err
    assert cli("logs", "--json").json["lines"] == []
    assert cli("logs", "-f", "--json").code == 2
    assert cli("logs", "-n", "-1").code == 2


def test_follow_prints_what_comes_until_it_is_interrupted(log: Path, wait_until: Callable[..., None]) -> None:
    log.write_text("old\n")
    command = [sys.executable, "-m", "palace_daemon", "logs", "-f", "-n", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"old\n"
        # It may not have opened the log for following yet, so lines come until one is seen.
        os.set_blocking(process.stdout.fileno(), False)
        seen: list[bytes] = []

        def is_seen(word: str) -> bool:
            with log.open("a") as file:
                file.write(f"{word}\n")
            seen.append((process.stdout.read() if process.stdout else None) or b"")
            return word.encode() in b"".join(seen)

        wait_until(lambda: is_seen("new"))
        log.rename(log.with_name(log.name + ".1"))
        wait_until(lambda: is_seen("after the rotation"))
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
