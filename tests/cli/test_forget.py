from __future__ import annotations

import builtins
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rpc.fake_daemon import FakePalace, Running

from palace_daemon import model
from palace_daemon.cli import forget
from palace_daemon.config import Config
from palace_daemon.core.ports import StopSignal


class ForgettingPalace(FakePalace):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[model.ForgetRequest, bool]] = []
        self.count = 25
        self.wipe_due = ""
        self.sources_pending = 0

    def forget(
        self, request: model.ForgetRequest, *, dry_run: bool = False, stop: StopSignal | None = None
    ) -> model.ForgetReport:
        self.asked.append((request, dry_run))
        items = tuple(
            model.ForgetItem(
                exchange_id=f"e{number}", session_id="s1", agent="codex", project="/w", started_at=None,
                title=f"Why \x1b[31m{number}?",
            )
            for number in range(self.count)
        )  # fmt: skip
        return model.ForgetReport(
            is_dry_run=dry_run, exchanges=self.count, drawers=2 * self.count, items=items,
            sources_pending=self.sources_pending, wipe_due="" if dry_run else self.wipe_due,
        )  # fmt: skip


@pytest.fixture
def palace() -> ForgettingPalace:
    return ForgettingPalace()


@pytest.fixture
def running(palace: ForgettingPalace) -> Any:
    started = Running(Config(), lambda _config: palace)
    yield started
    started.stop()


@pytest.fixture
def terminal(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """``terminal(answer, *words)``: run a command line on a terminal where somebody answers."""

    def run(answer: str, *words: str) -> Any:
        def reply(prompt: str) -> str:
            print(prompt)
            return answer

        monkeypatch.setattr(builtins, "input", reply)
        monkeypatch.setattr(forget, "_can_ask", lambda: True)
        return cli(*words)

    return run


def test_it_lists_asks_and_forgets_what_was_listed(
    running: Running, palace: ForgettingPalace, terminal: Callable[..., Any]
) -> None:
    outcome = terminal("y", "forget", "--query", "why", "--limit", "3")
    assert outcome.code == 0
    assert "Forget 25 exchanges (50 drawers) for good?" in outcome.out
    assert "... and 5 more" in outcome.out
    assert "forgot 25 exchanges" in outcome.out
    assert "\x1b[31m" not in outcome.out
    (asked, is_dry_run), (done, is_done_dry) = palace.asked
    assert (is_dry_run, is_done_dry) == (True, False)
    assert asked.query is not None
    assert asked.query.limit == 3
    assert done == model.ForgetRequest(exchanges=tuple(f"e{number}" for number in range(25)))


@pytest.mark.parametrize("answer", ["", "n", "no", "maybe"])
def test_any_other_answer_forgets_nothing(
    running: Running, palace: ForgettingPalace, terminal: Callable[..., Any], answer: str
) -> None:
    outcome = terminal(answer, "forget", "--session", "s1")
    assert outcome.code == 1
    assert "nothing was forgotten" in outcome.out
    assert [is_dry_run for _, is_dry_run in palace.asked] == [True]


def test_nothing_that_matches_is_no_question(
    running: Running, palace: ForgettingPalace, terminal: Callable[..., Any]
) -> None:
    palace.count = 0
    outcome = terminal("y", "forget", "--session", "s1")
    assert (outcome.code, outcome.out) == (1, "nothing matches\n")


def test_scripts_say_yes_or_dry_run(running: Running, palace: ForgettingPalace, cli: Callable[..., Any]) -> None:
    refused = cli("forget", "e1")
    assert refused.code == 2
    assert "--dry-run lists" in refused.err
    assert cli("forget", "e1", "--json").code == 2
    assert palace.asked == []
    listed = cli("forget", "e1", "--dry-run")
    assert (listed.code, "would forget 25 exchanges" in listed.out, "id e24" in listed.out) == (0, True, True)
    assert cli("forget", "e1", "--dry-run", "--json").json["isDryRun"] is True
    done = cli("forget", "e1", "--yes", "--json")
    assert (done.code, done.json["exchanges"], done.json["isDryRun"]) == (0, 25, False)
    assert [is_dry_run for _, is_dry_run in palace.asked] == [True, True, False]


def test_selectors_are_sent_as_they_are_stored(
    running: Running, palace: ForgettingPalace, cli: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "real.jsonl").touch()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    words = ["e1", "--exchange", "e2", "--drawer", "d.0", "--session", "s1", "--session", "s2", "--agent", "codex"]
    words += ["--project", "~/work", "--source", str(tmp_path / "link.jsonl"), "--since", "2026-03-01"]
    assert cli("forget", *words, "--yes").code == 0
    ((request, _),) = palace.asked
    assert (request.exchanges, request.drawers, request.sessions) == (("e1", "e2"), ("d.0",), ("s1", "s2"))
    assert request.project == os.path.expanduser("~/work")
    assert request.source == os.path.realpath(tmp_path / "real.jsonl")
    assert request.since is not None


def test_a_directory_to_forget_is_not_widened_to_its_repository(
    running: Running, palace: ForgettingPalace, cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").touch()
    monkeypatch.chdir(tmp_path)
    assert cli("forget", "--project", "./src/", "--since", "1770000000000", "--yes").code == 0
    ((request, _),) = palace.asked
    assert (request.project, request.since) == (f"{tmp_path}/src", 1_770_000_000_000)
    assert cli("forget", "--since", "20260301", "--yes").code == 2
    assert len(palace.asked) == 1


@pytest.mark.parametrize(
    "words",
    [
        [""],
        ["--exchange", ""],
        ["--drawer", ""],
        ["--session", "s1", "--session", " "],
        ["--project", "", "--since", "2026-01-01"],
        ["--source", "", "--agent", "codex"],
        ["--agent", "", "--query", "kiwi"],
        ["--since", "", "--project", "/w"],
        ["--until", "", "--project", "/w"],
        ["--query", "", "--project", "/w"],
    ],
)
def test_an_empty_selector_forgets_nothing(
    running: Running, palace: ForgettingPalace, cli: Callable[..., Any], words: list[str]
) -> None:
    refused = cli("forget", *words, "--yes")
    assert (refused.code, "is empty" in refused.err) == (2, True)
    assert palace.asked == []


def test_what_cannot_be_done_is_said(running: Running, palace: ForgettingPalace, cli: Callable[..., Any]) -> None:
    nothing = cli("forget", "--yes")
    assert (nothing.code, "needs to know what" in nothing.err) == (2, True)
    alone = cli("forget", "--agent", "codex", "--limit", "3", "--yes")
    assert (alone.code, "--limit" in alone.err) == (2, True)
    bad = cli("forget", "--since", "yesterday", "--yes")
    assert (bad.code, "--since" in bad.err) == (2, True)
    palace.wipe_due, palace.sources_pending = "no room", 2
    late = cli("forget", "e1", "--yes")
    assert (late.code, "not from the database file yet: no room" in late.err) == (1, True)
    assert "2 files to be read first may tell more of it" in late.out
