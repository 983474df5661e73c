"""The real daemon with the real model, real files and real sockets: lines appear, and are recalled."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, turn

from palace_daemon.client import Client, NotRunningError

WaitUntil = Callable[..., Any]
pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]


class LiveDaemon:
    """A daemon process over its own data directory; restarts on request."""

    def __init__(self, home: Path) -> None:
        self.data = home / "palace"
        self.transcripts = home / ".claude" / "projects" / "-nowhere-tidepool"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "palace_daemon", "serve", "--data-dir", str(self.data)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ.copy(),
        )

    def end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None

    def client(self, wait_until: WaitUntil) -> Client:
        client = Client(self.data, timeout_s=60)

        def is_connected() -> bool:
            with contextlib.suppress(NotRunningError):
                client.connect()
                return True
            return False

        wait_until(is_connected)
        return client


@pytest.fixture
def daemon(isolated_home: Path) -> Iterator[LiveDaemon]:
    live = LiveDaemon(isolated_home)
    yield live
    live.end(signal.SIGTERM)


def first_text(client: Client, query: str) -> str:
    hits = client.request("palace/recall", {"query": query, "limit": 1})["hits"]
    return str(hits[0]["text"]) if hits else ""


def is_covered(client: Client) -> bool:
    status = client.request("palace/status", {})
    return bool(status["modelState"] == "ready" and status["vectorsPending"] == 0 and status["sourcesPending"] == 0)


def test_an_appended_line_is_recalled_by_words_and_by_meaning(daemon: LiveDaemon, wait_until: WaitUntil) -> None:
    path = daemon.transcripts / "s1.jsonl"
    append(path, "".join(turn(n, f"How is gauge {n}?", f"Gauge {n} drifts by {n} mm a year.") for n in range(5)))
    daemon.start()
    with daemon.client(wait_until) as client:
        wait_until(lambda: is_covered(client) and first_text(client, "gauge drift"))
        append(path, turn(50, "The cat is allergic to cheap fish, zanzibar.", "I will keep that in mind."))
        wait_until(lambda: "zanzibar" in first_text(client, "zanzibar"))
        wait_until(lambda: is_covered(client))
        answer = client.request("palace/recall", {"query": "Which food makes my pet ill?", "limit": 1})
    assert "zanzibar" in answer["hits"][0]["text"]
    assert answer["hits"][0]["matchedTerms"] == []
    assert answer["freshness"]["vectorsUsed"] is True
    assert (answer["hits"][0]["path"], answer["hits"][0]["lineStart"]) == (str(path), 11)


def test_a_new_project_directory_is_picked_up(daemon: LiveDaemon, wait_until: WaitUntil) -> None:
    daemon.start()
    with daemon.client(wait_until) as client:
        wait_until(lambda: client.request("palace/status", {})["sourcesPending"] == 0)
        append(daemon.transcripts / "s9" / "subagents" / "agent-a.jsonl", turn(1, "Where is quux?", "Behind the shed."))
        append(daemon.transcripts / "s8.jsonl", turn(1, "Where is the flamingo?", "On the roof.", session="s8"))
        wait_until(lambda: "roof" in first_text(client, "flamingo"))


def test_two_clients_get_their_own_answers_while_mining_goes_on(daemon: LiveDaemon, wait_until: WaitUntil) -> None:
    for name in ("walrus", "penguin"):
        append(
            daemon.transcripts / f"{name}.jsonl", turn(1, f"Where is the {name}?", f"The {name} sleeps.", session=name)
        )
    daemon.start()
    faults: list[str] = []

    def ask(client: Client, name: str) -> None:
        for _ in range(40):
            text = first_text(client, name)
            if name not in text:
                faults.append(f"{name}: {text}")

    with daemon.client(wait_until) as one, daemon.client(wait_until) as two:
        wait_until(
            lambda: "walrus" in first_text(one, "walrus") and "penguin" in first_text(two, "penguin"), timeout_s=60
        )
        threads = [threading.Thread(target=ask, args=pair) for pair in ((one, "walrus"), (two, "penguin"))]
        for thread in threads:
            thread.start()
        for number in range(20):
            append(daemon.transcripts / "busy.jsonl", turn(number, f"Busy {number}?", "Yes.", session="busy"))
        for thread in threads:
            thread.join(60)
    assert faults == []


def test_a_killed_daemon_goes_on_where_it_was(daemon: LiveDaemon, wait_until: WaitUntil) -> None:
    for name in range(6):
        text = "".join(turn(n, f"Question {n} of {name}?", f"Answer {n}. " * 40, session=f"s{name}") for n in range(40))
        append(daemon.transcripts / f"{name}.jsonl", text)
    daemon.start()
    with daemon.client(wait_until) as client:
        wait_until(lambda: client.request("palace/status", {})["exchanges"] > 0)
    daemon.end(signal.SIGKILL)
    daemon.start()
    with daemon.client(wait_until) as client:
        wait_until(lambda: client.request("palace/status", {})["exchanges"] == 240)
        wait_until(lambda: is_covered(client), timeout_s=300)  # at low priority: it yields to all other work
        assert client.request("palace/status", {})["exchanges"] == 240
        again = client.request("palace/mine", {"wait": True})
    assert (again["exchangesAdded"], again["drawersAdded"]) == (0, 0)
