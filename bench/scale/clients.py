"""Asking over the socket, with the clients that scripts and the command line use, and how long the answers take."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from palace_daemon.bench.recall_metrics import percentile
from palace_daemon.bench.scale.questions import Question
from palace_daemon.client import Client

LIMIT = 10
NOW = "2026-02-01T12:00:00Z"
"""When the questions are asked: after the last session of the store."""
TIMEOUT_S = 600.0
"""For one answer: what is too slow is to be measured, not given up."""
SHOWN_MS = 2
"""Decimals of a time in milliseconds."""

Filters = dict[str, str]


class Answer(Struct, frozen=True):
    """One answer, and how long the client waited for it."""

    ms: float
    daemon_ms: float
    """Of which the daemon's own part, as it tells: without the socket and the JSON."""
    is_found: bool
    """Whether some hit holds the sentence that was asked for."""
    in_scope: int
    digest: bytes
    """Names the hits and their scores."""


def ask(client: Client, question: Question, filters: Filters | None = None) -> Answer:
    """Ask one question."""
    params = {"query": question.text, "limit": LIMIT, "now": NOW} | (filters or {})
    began = time.perf_counter()
    answer: dict[str, Any] = client.request("palace/recall", params)
    ms = (time.perf_counter() - began) * 1_000
    hits = [f"{hit['exchangeId']} {hit['drawerId']} {hit['score']:.5f}" for hit in answer["hits"]]
    return Answer(
        ms=ms,
        daemon_ms=answer["tookMs"],
        is_found=any(question.sentence in hit["text"] for hit in answer["hits"]),
        in_scope=answer["totals"]["inScope"],
        digest=hashlib.sha256("\n".join(hits).encode()).digest(),
    )


def ask_all(
    client: Client,
    questions: Iterable[Question],
    filters: Filters | None = None,
    on_answer: Callable[[], None] = lambda: None,
) -> list[Answer]:
    """Ask one question after the other."""
    answers = []
    for question in questions:
        answers.append(ask(client, question, filters))
        on_answer()
    return answers


def ask_at_once(
    data: Path, questions: Sequence[Question], clients: int, on_answer: Callable[[], None] = lambda: None
) -> tuple[list[Answer], float]:
    """Ask with several clients, each of which asks again as soon as it has its answer.

    Returns:
        The answers, and the seconds that all took together.

    Raises:
        Exception: What went wrong first in any of them.
    """
    answers: list[Answer] = []
    faults: list[Exception] = []
    lock = threading.Lock()
    ready = threading.Barrier(clients + 1)

    def work(share: Sequence[Question]) -> None:
        try:
            with Client(data, timeout_s=TIMEOUT_S) as client:
                client.connect()
                ready.wait()
                for question in share:
                    answer = ask(client, question)
                    with lock:
                        answers.append(answer)
                        on_answer()
        except Exception as exc:  # noqa: BLE001 - the thread that waits raises it
            faults.append(exc)
            ready.abort()

    threads = [
        threading.Thread(target=work, args=(questions[number::clients],), name=f"scale-client-{number}")
        for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    with contextlib.suppress(threading.BrokenBarrierError):  # a client could not connect: it says why below
        ready.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    if faults:
        raise next((one for one in faults if not isinstance(one, threading.BrokenBarrierError)), faults[0])
    return answers, seconds


def timing(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the percentiles of how long answers took, in milliseconds."""
    times = [answer.ms for answer in answers]
    return {
        "n": len(answers),
        "p50": round(percentile(times, 0.50), SHOWN_MS),
        "p95": round(percentile(times, 0.95), SHOWN_MS),
        "p99": round(percentile(times, 0.99), SHOWN_MS),
    }


def digest(answers: Sequence[Answer]) -> str:
    """Return 12 hex digits over all hits and scores: equal for equal stores, questions and rankers."""
    return hashlib.sha256(b"".join(answer.digest for answer in answers)).hexdigest()[:12]
