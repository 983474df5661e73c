"""The first run, over a daemon with an in-memory Palace: what it asks, reads, and says."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import palace_daemon
from palace_daemon import model, places
from palace_daemon.cli import main, start
from palace_daemon.cli import models as model_command
from palace_daemon.errors import ModelError
from palace_daemon.service import build

Cli = Callable[..., Any]


@pytest.fixture(autouse=True)
def installed_model(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The model is missing, and installing it is noted."""
    view = model.ModelView(
        model_id="m", dim=384, max_tokens=512, is_installed=False, is_active=True, path="", size_bytes=0
    )
    installed: list[str] = []
    monkeypatch.setattr(build, "list_models", lambda _config: (view,))
    monkeypatch.setattr(model_command, "install", installed.append)
    return installed


@pytest.fixture
def transcript(isolated_home: Path) -> Path:
    samples = Path(palace_daemon.__file__).parent / "samples" / "claude-code"
    source = next(samples.rglob("*.jsonl"))
    target = isolated_home / ".claude" / "projects" / source.parent.name / source.name
    target.parent.mkdir(parents=True)
    target.write_bytes(source.read_bytes())
    return target


class Terminal(io.StringIO):
    """Standard input with a person at it."""

    def isatty(self) -> bool:
        return True


def test_without_a_terminal_and_without_yes_nothing_is_read(
    cli: Cli, running: Any, palace: Any, transcript: Path, installed_model: list[str]
) -> None:
    outcome = cli("start")
    assert (outcome.code, outcome.out) == (1, "")
    assert "1 file" in outcome.err
    assert "--yes" in outcome.err
    assert str(transcript.parents[1]) in outcome.err.replace("\n", "")
    assert palace.mined == []
    assert installed_model == []
    assert not places.config_file().exists()


def test_yes_installs_mines_the_newest_and_asks_about_the_newest_session(
    cli: Cli, running: Any, palace: Any, transcript: Path, installed_model: list[str]
) -> None:
    outcome = cli("start", "--yes")
    assert outcome.code == 0
    assert len(installed_model) == 1
    assert palace.mined == [((), True, 20)]
    assert [query.text for query in palace.queries] == ["A title"]
    assert "echo: A title" in outcome.out
    assert "palace-daemon recall" in outcome.err


def test_a_question_of_ones_own_is_asked(cli: Cli, running: Any, palace: Any, transcript: Path) -> None:
    assert cli("start", "--yes", "--json", "--question", "how?").json["question"] == "how?"
    assert [query.text for query in palace.queries] == ["how?"]


def test_no_is_remembered_and_can_be_taken_back(
    cli: Cli, running: Any, palace: Any, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", Terminal("\n"))
        assert main.run(["start"]) == 1
    assert "defaults = false" in places.config_file().read_text()
    assert palace.mined == []
    assert cli("start", "--yes").code == 0
    assert "defaults = true" in places.config_file().read_text()
    assert len(palace.mined) == 1


def test_without_transcripts_the_samples_answer(cli: Cli, running: Any, palace: Any) -> None:
    outcome = cli("start")
    assert outcome.code == 0
    samples = Path(palace_daemon.__file__).parent / "samples"
    assert palace.mined == [((str(samples),), True, 20)]
    assert [query.text for query in palace.queries] == [start.SAMPLE_QUESTION]


def test_a_model_that_cannot_be_installed_is_no_reason_to_stop(
    cli: Cli, running: Any, palace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_model_id: str) -> None:
        raise ModelError("there is no pip here", hint="install it")

    monkeypatch.setattr(model_command, "install", fail)
    outcome = cli("start")
    assert outcome.code == 0
    assert "there is no pip here" in outcome.err
    assert "palace-daemon model install" in outcome.err


def test_mining_that_takes_too_long_goes_on_in_the_background(
    cli: Cli, running: Any, palace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = palace.mine
    monkeypatch.setattr(palace, "mine", lambda *_arguments, **_more: (palace.gate.wait(), mine())[1])
    monkeypatch.setattr(start, "FIRST_MINE_S", 2.0)  # all else is asked with the same patience
    outcome = cli("start")
    assert "goes on in the background" in " ".join(outcome.err.split())
    assert outcome.code == 0
