"""What commands make of filters, and what they say where a filter leaves nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palace_daemon.cli import show

Cli = Callable[..., Any]


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ((), ""),
        (("--project", "harbour"), "--project harbour; `palace-daemon projects` lists what is there"),
        (
            ("--session", "5e55"),
            "--session 5e55; `palace-daemon sessions` lists the ids, of which eight characters or more will do",
        ),
        (("--agent", "codex", "--since", "2026-01-01"), "--agent codex, --since 2026-01-01"),
        (
            ("--project", "/nowhere/x/", "--until", "2026-01-01"),
            "--project /nowhere/x, --until 2026-01-01; `palace-daemon projects` lists what is there",
        ),
    ],
)
def test_recall_says_which_filters_leave_nothing(cli: Cli, running: Any, words: tuple[str, ...], note: str) -> None:
    outcome = cli("recall", "nothing at all", *words)
    assert (outcome.code, outcome.err) == (1, f"palace-daemon: nothing stored fits {note}\n" if note else "")
    assert cli("recall", "something", *words).err == ""


def test_a_directory_is_asked_for_as_the_project_that_it_lies_in(
    cli: Cli, running: Any, palace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").touch()
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    for named in (".", "..", str(tmp_path / "src"), "./", " tidepool "):
        cli("recall", "q", "--project", named)
    assert {query.project for query in palace.queries[:4]} == {os.path.realpath(tmp_path)}
    assert palace.queries[4].project == "tidepool"


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_a_time_that_an_answer_shows_is_one_that_may_be_asked_for(
    cli: Cli, running: Any, palace: Any, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    shown = cli("recall", "q").out.splitlines()[0].split("tidepool")[1].strip()
    summer = show.local_time("2026-07-01T10:00:30Z")
    for given in (shown, summer):
        cli("recall", "q", "--since", given, "--until", given[:10], "--now", given)
    monkeypatch.undo()
    time.tzset()
    first, second = palace.queries[1:]
    assert first.since == first.now == 1_772_615_551_000 // 60_000 * 60_000
    assert second.since == second.now == 1_782_900_000_000
    assert second.until > second.since


def test_milliseconds_are_a_time_on_the_command_line(cli: Cli, running: Any, palace: Any) -> None:
    cli("recall", "q", "--since", "1770000000000", "--until", "1780000000000", "--now", "1790000000000")
    (query,) = palace.queries
    assert (query.since, query.until, query.now) == (1_770_000_000_000, 1_780_000_000_000, 1_790_000_000_000)
    assert cli("sessions", "--json", "--since", "1770000000000").code == 0
    refused = cli("recall", "q", "--since", "20260301")
    assert (refused.code, "--since: 20260301 is neither a date nor milliseconds" in refused.err) == (2, True)


def test_sessions_and_notes_take_a_directory_and_say_that_a_filter_leaves_nothing(
    cli: Cli, running: Any, palace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def nothing(**filters: Any) -> tuple[()]:
        asked.append(filters["project"])
        return ()

    for method in ("sessions", "notes"):
        monkeypatch.setattr(palace, method, nothing)
    monkeypatch.chdir(tmp_path)
    outcome = cli("sessions", "--project", "src/", "--agent", "codex")
    where = os.path.realpath(tmp_path) + "/src"
    assert (outcome.code, outcome.out, asked) == (1, "no sessions\n", [where])
    assert outcome.err.startswith("palace-daemon: nothing stored fits --project ")
    assert outcome.err.endswith(", --agent codex; `palace-daemon projects` lists what is there\n")
    assert cli("sessions", "--agent", "codex").err == ""
    cli("notes", "--project", ".")
    assert asked[-1] == os.path.realpath(tmp_path)
