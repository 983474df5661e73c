from __future__ import annotations

import io
import sys

import pytest

from palace_daemon.cli.bar import Bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    return made


def test_the_bar_of_mining_goes_by_the_share_and_the_time_that_the_daemon_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = open_terminal(monkeypatch)
    value = {"kind": "report", "stage": "mine", "done": 99, "total": 100, "unit": "files", "percentage": 2}
    with Bar() as bar:
        bar.on_notification("$/progress", {"value": {**value, "etaS": 150.0}})
        last = terminal.getvalue().rpartition("\r")[2]
        assert "mining:   2%" in last
        assert "99 of 100 files, 2 min left" in last
        bar.on_notification("$/progress", {"value": {**value, "done": 100, "percentage": 100, "etaS": 0.0}})
        assert "mining: 100%" in terminal.getvalue().rpartition("\r")[2]


def test_other_work_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    value = {"kind": "report", "stage": "embed", "done": 5, "total": 10, "unit": "texts", "percentage": 50}
    with Bar() as bar:
        bar.on_notification("$/progress", {"value": value})
        assert "5/10" in terminal.getvalue()
