"""Commands whose standard streams are closed, or take nothing: one line that says so, and no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def shell(words: str) -> tuple[int, bytes, bytes]:
    """Return the exit code, and what came out, of a command line with redirections."""
    command = f'"{sys.executable}" -m palace_daemon {words}'
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("recall <&-", 2, b"recall needs a question"),
        ("recall - <&-", 2, b"recall needs a question"),
        ("remember - <&-", 2, b"--text: Expected"),
        ("notes edit n1 - <&-", 2, b"--text: Expected"),
        ("uninstall <&- >/dev/null", 1, b"there is no terminal to ask on"),
        ("forget deadbeef <&-", 2, b"cannot ask"),
        ("--stdio <&-", 0, b""),
    ],
)
def test_a_closed_standard_input_is_an_empty_one(
    running: Any, words: str, code: int, said: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALACE_MODELS", str(tmp_path))  # one of these is about removing
    done = shell(words)
    assert (done[0], done[1]) == (code, b"")
    assert said in done[2]
    assert b"Traceback" not in done[2]


@pytest.mark.parametrize(
    "words", ["recall redis", "recall size900000 --json", "status --json", "export -", "config path"]
)
def test_an_output_that_is_full_is_told_in_a_line(running: Any, words: str) -> None:
    code, out, err = shell(f"{words} >/dev/full")
    assert (code, out, err) == (3, b"", b"palace-daemon: cannot write the answer: No space left on device\n")


def test_what_fails_otherwise_is_told_even_where_its_output_is_full(running: Any) -> None:
    code, _, err = shell("get nothing >/dev/full")
    assert (code, err.count(b"\n")) == (1, 1)


def test_an_answer_is_not_lost_for_a_note_that_nobody_can_be_told(running: Any) -> None:
    code, out, _ = shell("projects --json --no-daemon 2>/dev/full")
    assert (code, out) == (3, b""), "there is no store: that is an error, and no note"
    code, out, _ = shell("recall redis --project tidepoo 2>/dev/full")
    assert (code, bool(out)) == (0, True)


def test_notes_do_not_get_among_the_answer_where_standard_error_is_closed(running: Any) -> None:
    code, out, _ = shell("--no-such-option 2>&-")
    assert (code, out) == (2, b"")


def test_help_for_nobody_is_no_fault() -> None:
    assert shell("--help >&-")[0] == 0
    assert shell("--help >&- 2>&- <&-")[0] == 0
