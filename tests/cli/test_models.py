"""``model use``, ``pause``, ``resume``, and the first question after a start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rpc.fake_daemon import FakePalace, Running

from palace_daemon import model
from palace_daemon.cli import connect, show_recall
from palace_daemon.client import NotRunningError

OLD = model.Coverage(model="m", space="m@1", role="answering", vectors=3, texts=3)
NEXT = model.Coverage(model="n", space="n@1", role="next", vectors=1, texts=3)
Cli = Callable[..., Any]


class Switching(FakePalace):
    """Needs ``steps`` looks at its status until the model that is chosen answers."""

    def __init__(self, steps: int = 3, state: str = "ready") -> None:
        super().__init__()
        self.steps = steps
        self.state = state

    def use_model(self, model_id: str) -> None:
        self.chosen.append(model_id)

    def embedding(self) -> model.Embedding:
        if not self.chosen or self.steps <= 0:
            return super().embedding()
        return model.Embedding(is_switching=True, coverage=(OLD, NEXT), is_paused=self.is_paused)

    def status(self) -> model.Status:
        self.steps -= 1
        return msgspec.structs.replace(super().status(), model="n", model_state=self.state)


@pytest.fixture
def palace() -> FakePalace:
    return Switching()


def test_a_model_is_chosen_and_takes_over_in_the_background(running: Running, palace: Switching, cli: Cli) -> None:
    done = cli("model", "use", "n")
    assert (done.code, palace.chosen) == (0, ["n"])
    assert "n is chosen" in done.out
    assert "until then m answers" in done.out


def test_waiting_ends_when_it_answers(running: Running, palace: Switching, cli: Cli) -> None:
    done = cli("model", "use", "n", "--wait")
    assert (done.code, palace.steps) == (0, 0)
    assert done.out == "n answers: 1 of 3 texts have its vector\n"
    assert cli("model", "use", "n", "--wait", "--json").json["embedding"]["isSwitching"] is False


def test_waiting_ends_when_it_cannot_be_loaded_or_all_is_paused(running: Running, palace: Switching, cli: Cli) -> None:
    palace.steps, palace.state = 1_000, "failed: offline"
    done = cli("model", "use", "n", "--wait")
    assert (done.code, done.err) == (3, "palace-daemon: n failed: offline\n")
    palace.state = "ready"
    cli("pause")
    done = cli("model", "use", "n", "--wait")
    assert done.code == 3
    assert "palace-daemon resume" in done.err


def test_a_model_that_is_not_known_is_said_by_the_daemon(running: Running, cli: Cli, palace: Switching) -> None:
    palace.use_model = FakePalace().use_model  # type: ignore[method-assign]
    done = cli("model", "use", "bogus")
    assert (done.code, done.err) == (2, "palace-daemon: unknown model 'bogus'\n")
    for action in ("install", "remove"):
        done = cli("model", action, "bogus")
        assert (done.code, done.err.partition(" (")[0]) == (2, "palace-daemon: unknown model 'bogus'")


def test_a_model_is_removed_and_what_that_frees_is_said(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALACE_MODELS", str(tmp_path))
    folder = tmp_path / "all-minilm-l6-v2-fp32"

    def install() -> None:
        folder.mkdir()
        (folder / "model.onnx").write_bytes(b"x" * 2_500_000)

    install()
    assert cli("model", "remove", "all-minilm-l6-v2-int8").code == 3
    assert cli("model", "remove", folder.name).out == f"{folder.name} is removed, 2.5 MB are free\n"
    install()
    assert cli("model", "remove", folder.name, "--json").json == {"modelId": folder.name, "freedBytes": 2_500_000}
    assert not folder.exists()


@pytest.mark.parametrize("words", [("model", "use"), ("model", "remove"), ("model", "list", "--wait")])
def test_what_does_not_go_together_is_refused(words: tuple[str, ...], cli: Cli) -> None:
    assert cli(*words).code == 2


def test_pausing_and_going_on(running: Running, palace: FakePalace, cli: Cli) -> None:
    assert cli("pause").out.startswith("paused")
    assert palace.is_paused
    assert "paused" in cli("status").out
    assert cli("resume", "--json").json == {"isPaused": False}
    assert not palace.is_paused


def test_without_a_daemon_there_is_nothing_to_pause(cli: Cli) -> None:
    assert cli("pause").code == 3


def test_status_tells_how_far_a_switch_is(running: Running, palace: Switching, cli: Cli) -> None:
    cli("model", "use", "n")
    out = cli("status").out
    assert "m@1, 3 of 3 texts" in out
    assert "n@1, 1 of 3 texts" in out


@pytest.mark.parametrize(("windowed", "told"), [(1, "1 text above what the model takes got its"), (0, "")])
def test_long_texts_and_the_port_are_told(
    running: Running, palace: Switching, cli: Cli, monkeypatch: pytest.MonkeyPatch, windowed: int, told: str
) -> None:
    shown = msgspec.structs.replace(palace.embedding(), windowed=windowed)
    monkeypatch.setattr(palace, "embedding", lambda: shown)
    monkeypatch.setattr(palace, "status", lambda: msgspec.structs.replace(FakePalace.status(palace), embedding=shown))
    out = cli("status").out
    assert f"{running.tcp.port} on 127.0.0.1" in out
    assert told in out
    assert ("long texts" in out) == bool(windowed)
    status = cli("status", "--json").json
    assert status["embedding"]["windowed"] == windowed
    assert status["port"] == running.tcp.port
    checks = {check["name"]: check for check in cli("doctor", "--json").json["checks"]}
    assert checks["port"]["detail"].startswith(f"{running.tcp.port} on 127.0.0.1, token in ")
    assert checks["port"]["level"] == "ok"
    assert told in checks.get("long texts", {"detail": ""})["detail"]
    running.tcp.path.chmod(0o644)
    assert {check["name"]: check for check in cli("doctor", "--json").json["checks"]}["port"]["level"] == "fail"
    running.tcp.path.unlink()
    assert "127.0.0.1" not in cli("status").out
    assert cli("status", "--json").json["port"] is None


def test_an_answer_says_which_model_it_is_from_while_another_takes_over() -> None:
    both = [msgspec.structs.asdict(OLD), msgspec.structs.asdict(NEXT)]
    fresh = {"sourcesPending": 0, "vectorsReason": "", "vectorsPending": 0, "coverage": both}
    assert show_recall.freshness_lines(fresh) == [
        "vectors, answering: m@1, 3 of 3 texts",
        "vectors, next: n@1, 1 of 3 texts",
    ]
    settled = {**fresh, "coverage": both[:1]}
    assert show_recall.freshness_lines(settled) == []
    assert show_recall.freshness_lines(settled, is_explained=True) == ["vectors, answering: m@1, 3 of 3 texts"]


class StartedClient:
    """A client of a daemon that it had to start, whose model is ready after some looks."""

    looks = 0
    ready_after = 3

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def connect(self) -> Any:
        raise NotRunningError("none")

    def connect_or_start(self) -> Any:
        return self

    def request(self, method: str) -> dict[str, str]:
        assert method == "palace/status"
        type(self).looks += 1
        return {"modelState": "ready" if self.looks >= self.ready_after else "loading"}


@pytest.mark.parametrize(("ready_after", "wait_s", "looks"), [(3, 60.0, 3), (1, 60.0, 1), (3, 0.0, 0)])
def test_the_first_question_waits_for_the_model_of_the_daemon_that_it_started(
    monkeypatch: pytest.MonkeyPatch, ready_after: int, wait_s: float, looks: int
) -> None:
    monkeypatch.setattr(connect, "Client", StartedClient)
    monkeypatch.setattr(StartedClient, "ready_after", ready_after)
    monkeypatch.setattr(StartedClient, "looks", 0)
    connect.reach(_Arguments(), model_wait_s=wait_s)  # type: ignore[arg-type]
    assert StartedClient.looks == looks


def test_it_waits_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "Client", StartedClient)
    monkeypatch.setattr(StartedClient, "ready_after", 1_000_000)
    monkeypatch.setattr(StartedClient, "looks", 0)
    connect.reach(_Arguments(), model_wait_s=0.2)  # type: ignore[arg-type]
    assert StartedClient.looks >= 1


class _Arguments:
    data_dir = None
