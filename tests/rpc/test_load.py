"""32 clients at once while transcripts grow: every request has one answer, and nothing is left behind.

``PALACE_LOAD_S`` sets the seconds of load; ``make soak`` runs ten minutes of it and prints the figures.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rpc.fake_daemon import Wire
from support.claude import append, turn
from support.footprint import Footprint, assert_no_leak, footprint

from palace_daemon import places
from palace_daemon.client import Client, NotRunningError

LOAD_S = float(os.environ.get("PALACE_LOAD_S", "30"))
ROUNDS = 3
CLIENTS = 32
AT_ONCE = 4
"""Requests that a client sends before it reads the answers."""
APPEND_EVERY_S = 0.1
KB_PER_EXCHANGE = 20
"""What the daemon's memory may grow by for each exchange that is stored: its vectors and words, and room to spare."""
GROWTH_MB_MAX = 150
OTHER_MAX = 32
"""Descriptors without those of the store, when the clients of a round are gone."""
WORDS = ("gauge", "harbour", "queue", "redis", "tide", "lantern", "retry", "schema", "walrus", "index")

pytestmark = [pytest.mark.model, pytest.mark.timeout(2 * LOAD_S + 200)]


@pytest.fixture
def daemon(wait_until: Callable[..., None]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "palace_daemon", "serve", "--tcp"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        client = Client(timeout_s=60.0)

        def is_ready() -> bool:
            try:
                return bool(client.request("palace/status")["modelState"] == "ready")
            except NotRunningError:
                return False

        wait_until(is_ready)
        client.close()
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@dataclass
class Tally:
    """What all clients saw."""

    answers: Counter[str] = field(default_factory=Counter)
    recall_ms: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Asker(threading.Thread):
    """One client: asks a few things at once, withdraws some, and counts the answers to each."""

    def __init__(self, wire: Wire, seed: int, ends_at: float, tally: Tally) -> None:
        super().__init__(name=f"asker-{seed}")
        self.wire = wire
        self.ends_at = ends_at
        self.tally = tally
        self.chance = random.Random(seed)
        self.next_id = 0

    def run(self) -> None:
        try:
            while time.monotonic() < self.ends_at:
                self.ask_some()
            if not self.wire.is_silent(0.05):
                self.fault("an answer that belongs to no request")
        except (OSError, AssertionError, ValueError) as exc:
            self.fault(f"{type(exc).__name__}: {exc}")
        finally:
            self.wire.close()

    def fault(self, text: str) -> None:
        with self.tally.lock:
            self.tally.faults.append(f"{self.name}: {text}")

    def ask_some(self) -> None:
        asked: dict[int, tuple[str, float, set[str]]] = {}
        for _ in range(self.chance.randint(1, AT_ONCE)):
            self.next_id += 1
            method, params = self.something()
            allowed = {"result"} | ({"deadline"} if "timeoutMs" in params else set())
            if self.chance.random() < 0.05:
                allowed.add("cancelled")
            asked[self.next_id] = (method, time.monotonic(), allowed)
            self.wire.request(self.next_id, method, params)
            if "cancelled" in allowed:
                self.wire.notify("$/cancelRequest", {"id": self.next_id})
        while asked:
            answer = self.wire.answer()
            kind = "result" if "result" in answer else str(answer["error"]["data"]["kind"])
            method, begun, allowed = asked.pop(answer["id"], ("", 0.0, set()))
            if kind not in allowed:
                self.fault(f"{method or 'nothing asked'}: {kind} {answer.get('error', '')}")
            self.count(method, kind, (time.monotonic() - begun) * 1000)

    def something(self) -> tuple[str, dict[str, Any]]:
        what = self.chance.random()
        deadline: dict[str, Any] = {"timeoutMs": self.chance.choice([1, 20, 5_000])} if what * 100 % 1 < 0.1 else {}
        if what < 0.7:
            return "palace/recall", {"query": " ".join(self.chance.sample(WORDS, 3)), "limit": 5, **deadline}
        if what < 0.97:
            method = self.chance.choice(["sessions", "projects", "sources", "status", "notes", "models"])
            return f"palace/{method}", deadline
        if what < 0.98:
            return "palace/remember", {"text": f"Note on {self.chance.choice(WORDS)} {self.chance.randint(0, 9)}."}
        return "palace/mine", {"wait": True, "timeoutMs": 500}

    def count(self, method: str, kind: str, took_ms: float) -> None:
        with self.tally.lock:
            self.tally.answers[kind] += 1
            if (method, kind) == ("palace/recall", "result"):
                self.tally.recall_ms.append(took_ms)


def write_transcripts(directory: Path, stop: threading.Event) -> None:
    chance = random.Random(5)
    number = 0
    while not stop.wait(APPEND_EVERY_S):
        number += 1
        question = f"Why does the {chance.choice(WORDS)} need the {chance.choice(WORDS)} {number}?"
        answer = " ".join(chance.choice(WORDS) for _ in range(60))
        name = f"s{number % 8}-{number // 400}"
        append(directory / f"{name}.jsonl", turn(number % 400, question, answer, session=name))


def run_round(seconds: float, seed: int, tally: Tally) -> None:
    socket_path, client = places.socket_path(places.data_dir()), Client()
    wires = []
    for number in range(CLIENTS):
        if number % 2:
            wires.append(Wire(client.connect_tcp().detach()))
        else:
            wires.append(Wire.unix(socket_path))
    ends_at = time.monotonic() + seconds
    askers = [Asker(wire, seed * CLIENTS + number, ends_at, tally) for number, wire in enumerate(wires)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(seconds + 60)
        assert not asker.is_alive()


def test_under_load_every_request_has_one_answer_and_nothing_leaks(
    daemon: subprocess.Popen[bytes], isolated_home: Path, wait_until: Callable[..., None]
) -> None:
    directory = isolated_home / ".claude" / "projects" / "-nowhere-tidepool"
    append(directory / "first.jsonl", turn(1, "Where is the walrus?", "In the harbour.", session="first"))
    stop, tally, seen = threading.Event(), Tally(), []
    writer = threading.Thread(target=write_transcripts, args=(directory, stop))
    writer.start()
    try:
        for number in range(ROUNDS):
            run_round(LOAD_S / ROUNDS, number, tally)
            assert tally.faults == []
            with Client(timeout_s=60.0) as client:
                wait_until(lambda: footprint(daemon.pid).other_descriptors <= OTHER_MAX)
                stored = client.request("palace/status")["exchanges"]
            seen.append((stored, footprint(daemon.pid)))
    finally:
        stop.set()
        writer.join(10)
    report(tally, seen)
    (stored_first, first), (stored_last, last) = seen[0], seen[-1]
    assert stored_last > stored_first > 0, "there was mining under way"
    assert tally.answers["result"] > 100
    assert_no_leak([first], [last])
    assert last.rss_mb <= first.rss_mb + GROWTH_MB_MAX + (stored_last - stored_first) * KB_PER_EXCHANGE / 1024


def report(tally: Tally, seen: list[tuple[int, Footprint]]) -> None:
    times = sorted(tally.recall_ms)
    p50, p95 = times[len(times) // 2], times[len(times) * 95 // 100]
    answers = ", ".join(f"{count:,} {kind}" for kind, count in sorted(tally.answers.items()))
    print(f"\n{CLIENTS} clients, {LOAD_S:.0f} s, mining under way: {answers}")
    print(f"recall p50 / p95 {p50:.0f} / {p95:.0f} ms (the goal for one client on a quiet machine: 20 / 40 ms)")
    for stored, found in seen:
        descriptors = f"{found.store_descriptors} descriptors of the store, {found.other_descriptors} others"
        print(f"{stored:,} exchanges: {descriptors}, {found.threads} threads, {found.rss_mb:.0f} MB")
