"""``browse``: typed into by textual's own pilot, over a daemon on its socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rpc.fake_daemon import FakePalace, Running
from textual.widgets import Input, OptionList, Static

from palace_daemon import model
from palace_daemon.cli import browse, browse_screen
from palace_daemon.cli.browse_screen import Browser
from palace_daemon.config import Config
from palace_daemon.core.ports import StopSignal
from palace_daemon.errors import ConfigError

Cli = Callable[..., Any]
DEADLINE_S = 60.0
FILTERS = {"project": "", "agent": "", "limit": 5}


class Ordered(FakePalace):
    """Answers with three hits whose order no client could have made; ``slow`` questions wait for the gate."""

    path = "/nowhere/a.jsonl"

    def recall(self, query: model.RecallQuery, stop: StopSignal | None = None) -> model.RecallAnswer:
        if query.text.startswith("slow"):
            self.queries.append(query)
            self.waiting += 1
            assert self.gate.wait(DEADLINE_S)
        answer = super().recall(msgspec.structs.replace(query, text=query.text.replace("slow", "late")), stop)
        hits = [
            msgspec.structs.replace(
                answer.hits[0],
                session_title=f"{name} [red]{query.text}[/red]\x1b[2J",
                text=f"Text of {name}.\n[b]no markup[/b] echo {query.text}",
                path=self.path,
                score=score,
            )
            for name, score in (("second", 0.1), ("first", 0.9), ("third", 0.5))
        ]
        return msgspec.structs.replace(answer, hits=tuple(hits))


@pytest.fixture
def palace() -> Ordered:
    return Ordered()


@pytest.fixture
def running(palace: Ordered) -> Iterator[Running]:
    started = Running(Config(), lambda _config: palace)
    yield started
    palace.gate.set()
    started.stop()


def typed(steps: Callable[[Browser, Any], Any], query: str = "", **made: Any) -> None:
    """Run a screen, and ``steps`` against it."""

    async def run() -> None:
        app = Browser(None, FILTERS, query, debounce_s=made.pop("debounce_s", 0.05), **made)
        async with app.run_test(size=(100, 30)) as pilot:
            await steps(app, pilot)

    asyncio.run(run())


async def until(pilot: Any, predicate: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not predicate():
            await pilot.pause(0.01)


def preview(app: Browser) -> str:
    return str(app.query_one("#preview", Static).content)


def test_typing_asks_once_and_keeps_the_order_of_the_daemon(running: Running, palace: Ordered) -> None:
    timers: list[tuple[float, Callable[[], None]]] = []

    def set_timer(delay_s: float, call: Callable[[], None]) -> None:
        timers.append((delay_s, call))

    async def steps(app: Browser, pilot: Any) -> None:
        app.set_timer = set_timer  # type: ignore[method-assign,assignment]
        await pilot.press(*"tide")
        assert [delay_s for delay_s, _ in timers] == [0.5] * 4
        assert palace.queries == []
        for _, call in timers:
            app.call_later(call)
        await until(pilot, lambda: app.hits)
        titles = [hit["sessionTitle"].split()[0] for hit in app.hits]
        assert titles == ["second", "first", "third"]
        rows = app.query_one("#hits", OptionList)
        assert (rows.option_count, rows.highlighted) == (3, 0)
        assert "second [red]tide[/red]\ufffd" in str(rows.get_option_at_index(0).prompt)
        await until(pilot, lambda: "Text of second." in preview(app))
        assert "[b]no markup[/b]" in preview(app)

    typed(steps, debounce_s=0.5)
    assert [query.text for query in palace.queries] == ["tide"]
    assert palace.queries[0].limit == 5


def test_an_answer_that_comes_too_late_is_dropped(running: Running, palace: Ordered) -> None:
    async def steps(app: Browser, pilot: Any) -> None:
        await until(pilot, lambda: palace.waiting == 1)
        app.query_one("#question", Input).value = "quick"
        await until(pilot, lambda: app.hits)
        palace.gate.set()
        await until(pilot, lambda: not app.workers)
        assert all("quick" in hit["sessionTitle"] for hit in app.hits)
        assert "late" not in preview(app)

    typed(steps, "slow tide")
    assert [query.text for query in palace.queries][:1] == ["slow tide"]


def test_the_arrows_choose_and_an_empty_question_shows_nothing(running: Running) -> None:
    async def steps(app: Browser, pilot: Any) -> None:
        await until(pilot, lambda: app.hits)
        await pilot.press("down", "down", "up")
        await until(pilot, lambda: "Text of first." in preview(app))
        assert isinstance(app.focused, Input)
        app.query_one("#question", Input).value = ""
        await until(pilot, lambda: not app.hits)
        assert preview(app) == ""

    typed(steps, "tide")


def test_enter_opens_the_transcript_at_its_line(
    running: Running, palace: Ordered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript = tmp_path / "a b.jsonl"
    transcript.write_text("{}\n" * 9)
    palace.path = str(transcript)
    monkeypatch.setenv("EDITOR", "vim -R")
    monkeypatch.delenv("VISUAL", raising=False)
    opened: list[Sequence[str]] = []

    async def steps(app: Browser, pilot: Any) -> None:
        await pilot.press("enter")
        await until(pilot, lambda: app.hits)
        await pilot.press("enter")
        await until(pilot, lambda: opened)

    typed(steps, "tide", run_program=opened.append)
    assert opened == [["vim", "-R", "+3", str(transcript)]]


def test_what_is_no_file_is_told_and_not_opened(running: Running) -> None:
    opened: list[Sequence[str]] = []

    async def steps(app: Browser, pilot: Any) -> None:
        await until(pilot, lambda: app.hits)
        await pilot.press("enter")
        await until(pilot, lambda: app._notifications)
        assert "no file" in next(iter(app._notifications)).message

    typed(steps, "tide", run_program=opened.append)
    assert opened == []


def test_an_error_is_shown_in_the_line_below(running: Running) -> None:
    async def steps(app: Browser, pilot: Any) -> None:
        state = app.query_one("#state", Static)
        await until(pilot, lambda: "unknown agent" in str(state.content))
        await pilot.press("escape")

    async def run() -> None:
        app = Browser(None, {**FILTERS, "agent": "nobody"}, "tide", debounce_s=0.01)
        async with app.run_test() as pilot:
            await steps(app, pilot)

    asyncio.run(run())


def test_it_needs_a_terminal(cli: Cli) -> None:
    outcome = cli("browse", "tide")
    assert outcome.code == 2
    assert "for a terminal" in outcome.err


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ["less", "+7", "/t/a.jsonl"]),
        ({"EDITOR": "nano"}, ["nano", "+7", "/t/a.jsonl"]),
        ({"EDITOR": "nano", "VISUAL": "/usr/bin/code --wait"}, ["/usr/bin/code", "--wait", "--goto", "/t/a.jsonl:7"]),
        ({"EDITOR": "hx"}, ["hx", "/t/a.jsonl:7"]),
        ({"EDITOR": "unheard-of"}, ["unheard-of", "/t/a.jsonl"]),
    ],
)
def test_how_a_file_is_opened_at_a_line(environ: dict[str, str], expected: list[str]) -> None:
    assert browse.command_for("/t/a.jsonl", 7, environ, lambda name: f"/usr/bin/{name}") == expected


def test_without_a_way_to_show_a_file_it_says_so() -> None:
    with pytest.raises(ConfigError, match="no less"):
        browse.command_for("/t/a", 1, {}, lambda _name: None)
    with pytest.raises(ConfigError, match="no command line"):
        browse.command_for("/t/a", 1, {"EDITOR": "'"})


def test_a_program_that_runs_outside_is_waited_for(tmp_path: Path) -> None:
    browse_screen.run_outside(["sh", "-c", f"touch {tmp_path}/done"])
    assert (tmp_path / "done").exists()
