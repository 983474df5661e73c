"""Clients of a working day: each asks what it is told to, in order, and counts the answers to each question."""

from __future__ import annotations

import queue
import re
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rpc.fake_daemon import Wire

CONNECT_S = 60.0
ANSWER_S = 60.0
_AT_ONCE_MAX = 16
_MARK = re.compile(r"mark\d{6}x")


@dataclass
class Question:
    """One request of a burst."""

    params: dict[str, Any]
    is_cancelled: bool = False


@dataclass
class Burst:
    """What a client asks before it reads an answer; one that dies reads none."""

    questions: list[Question]
    dies: bool = False


@dataclass
class Tally:
    """What all clients saw."""

    answers: Counter[str] = field(default_factory=Counter)
    recall_ms: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    forgotten: frozenset[str] = frozenset()
    """Marks that no answer may hold whose question is asked from now on."""
    ends: int = 0
    """Counts when the daemon is ended on purpose, and when it has ended: odd in between; connections end with it."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, kind: str, questions: int = 1) -> None:
        """Count what became of questions: the kind of their answers, or why they have none."""
        with self.lock:
            self.answers[kind] += questions


class Asker(threading.Thread):
    """One client. Give it bursts by :meth:`ask`; :meth:`drain` waits until they are done."""

    def __init__(self, socket_path: Path, number: int, tally: Tally) -> None:
        super().__init__(name=f"asker-{number}")
        self._path = socket_path
        self._tally = tally
        self._bursts: queue.Queue[Burst | None] = queue.Queue(_AT_ONCE_MAX)
        self._wire: Wire | None = None
        self._wire_ends = 0
        self._last_id = 0
        self._open: dict[int, tuple[float, Question]] = {}

    def ask(self, burst: Burst) -> None:
        """Have it ask this next; waits where much is waiting."""
        self._bursts.put(burst)

    def drain(self) -> None:
        """Wait until all is answered."""
        self._bursts.join()

    def end(self) -> None:
        """End the thread, once all is answered."""
        self._bursts.put(None)
        self.join(CONNECT_S)
        assert not self.is_alive()

    def run(self) -> None:
        """Ask until told to end."""
        while (burst := self._bursts.get()) is not None:
            try:
                self._ask(burst)
            except (OSError, AssertionError, ValueError) as exc:
                self._lost(exc)
            finally:
                self._bursts.task_done()
        if self._wire is not None:
            if not self._wire.is_silent(0.05):
                self._fault("an answer that belongs to no request")
            self._wire.close()

    def _fault(self, text: str) -> None:
        with self._tally.lock:
            self._tally.faults.append(f"{self.name}: {text}")

    def _lost(self, exc: Exception) -> None:
        """The connection broke: it may, where the daemon was ended meanwhile."""
        if not self._may_lose():
            self._fault(f"{type(exc).__name__}: {exc}")
        self._tally.count("lost with the daemon", len(self._open))
        self._hang_up()

    def _may_lose(self) -> bool:
        """Return whether the daemon of this connection is being ended, or has been."""
        ends = self._tally.ends
        return ends % 2 == 1 or self._wire_ends != ends

    def _hang_up(self) -> None:
        if self._wire is not None:
            self._wire.close()
        self._wire = None

    def _connected(self) -> Wire:
        deadline = time.monotonic() + CONNECT_S
        if self._wire_ends != self._tally.ends:
            self._hang_up()
        while self._wire is None:
            try:
                self._wire_ends = self._tally.ends
                self._wire = _dial(self._path)
            except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        return self._wire

    def _ask(self, burst: Burst) -> None:
        self._open = {self._last_id + at: (0.0, question) for at, question in enumerate(burst.questions, 1)}
        self._last_id += len(burst.questions)
        wire, forgotten = self._connected(), self._tally.forgotten
        for message_id, (_, question) in self._open.items():
            self._open[message_id] = (time.monotonic(), question)
            wire.request(message_id, "palace/recall", question.params)
            if question.is_cancelled:
                wire.notify("$/cancelRequest", {"id": message_id})
        if burst.dies:
            self._die()
            return
        while self._open:
            answer = wire.answer()
            if answer["id"] not in self._open:
                raise ValueError("an answer to nothing, or a second one")
            self._check(answer, *self._open.pop(answer["id"]), forgotten)

    def _die(self) -> None:
        """Leave as a process does that is killed: what is on its way is thrown away."""
        self._hang_up()
        self._tally.count("nobody there any more", len(self._open))

    def _check(self, answer: dict[str, Any], begun: float, question: Question, forgotten: frozenset[str]) -> None:
        if "result" not in answer:
            kind = str(answer["error"]["data"]["kind"])
            if not self._may_lose() and not (kind == "cancelled" and question.is_cancelled):
                self._fault(f"{kind}: {answer['error']['message']}")
            self._tally.count(kind)
            return
        self._tally.count("result")
        with self._tally.lock:
            self._tally.recall_ms.append((time.monotonic() - begun) * 1000)
        shown = {mark for hit in answer["result"]["hits"] for mark in _MARK.findall(hit["text"])}
        if back := shown & forgotten:
            self._fault(f"forgotten, and found: {sorted(back)}")


def _dial(path: Path) -> Wire:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    wire = Wire(connection)
    wire.socket.settimeout(ANSWER_S)
    return wire


def percentile(values: list[float], share: float) -> float:
    """Return the value below which ``share`` of them lie; 0 where there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
