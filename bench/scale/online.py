"""What a daemon over a large store costs: its start, its answers, its memory, and lines that are added meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from palace_daemon.bench import daemon, talk
from palace_daemon.bench.recall_metrics import percentile
from palace_daemon.bench.scale import clients
from palace_daemon.bench.scale.build import OnProgress
from palace_daemon.bench.scale.clients import Answer, Filters, ask_all, ask_at_once, timing
from palace_daemon.bench.scale.questions import Question
from palace_daemon.client import Client

STARTS = 3
COLD_QUERIES = 20
"""Questions at once after each start that count as cold."""
WARM_UP = 20
APPEND_EVERY_S = 0.25
"""Between two exchanges that are added while others ask: four agents that each answer once a second."""
ADD_ROUNDS = 10
POLL_S = 0.005
START_POLL_S = 0.05
"""Between two questions until vectors take part: asking without a pause would be what is measured."""
WAIT_LIMIT_S = 600.0
"""For the vectors of a large store to be loaded, or for a line that was added to be found."""
_TRANSCRIPT = Path(".claude") / "projects" / "-home-bench" / "scale.jsonl"


class Workload(Struct, frozen=True):
    """What is asked."""

    questions: tuple[Question, ...]
    """As many as are asked warm; other phases take the first of them."""
    filters: dict[str, Filters]
    clients: int


class Adding:
    """Writes exchanges into a watched transcript. For one thread at a time."""

    def __init__(self, home: Path, texts: Iterator[tuple[str, str]]) -> None:
        """Take the daemon's home, and user turns with their replies."""
        self._path = home / _TRANSCRIPT
        self._texts = texts
        self.exchanges = 0

    def add(self, words: str = "") -> None:
        """Append one exchange, whose user turn also says ``words``."""
        user, reply = next(self._texts)
        line = talk.exchange("scale-live", self.exchanges, f"{user} {words}".strip() or "Go on.", reply or "Done.")
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line)
        self.exchanges += 1

    @contextlib.contextmanager
    def steadily(self) -> Iterator[None]:
        """Add exchanges at a steady rate for as long as the block runs."""
        stop = threading.Event()

        def work() -> None:
            while not stop.wait(APPEND_EVERY_S):
                self.add()

        thread = threading.Thread(target=work, name="scale-adding")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def measure(data: Path, load: Workload, texts: Iterator[tuple[str, str]], on_progress: OnProgress) -> dict[str, Any]:
    """Start daemons over ``data`` and return what they cost; changes the store by what is added meanwhile."""
    starts: list[tuple[float, float]] = []
    start_cpu: list[float] = []
    cold: list[Answer] = []
    count = min(COLD_QUERIES, len(load.questions))
    for number in range(STARTS):
        on_progress("starting", number, STARTS, "times")
        with _over(data) as (running, began):
            starts.append(_first_answers(running.client, began, load.questions[0]))
            start_cpu.append(running.cpu_seconds())
            at = number * count % len(load.questions)  # each start has other questions, if there are enough
            cold += ask_all(running.client, load.questions[at : at + count])
            if number == STARTS - 1:
                report = _ask_in_every_way(running, load, Adding(running.home, texts), on_progress)
    return {
        "startToFirstAnswerMs": round(percentile([first for first, _ in starts], 0.5), 1),
        "startToFirstAnswerWithVectorsMs": round(percentile([second for _, second in starts], 0.5), 1),
        "startCpuSeconds": round(percentile(start_cpu, 0.5), 2),
        "starts": STARTS,
        "cold": timing(cold),
        **report,
    }


@contextlib.contextmanager
def _over(data: Path) -> Iterator[tuple[daemon.RunningDaemon, float]]:
    """Run a daemon over a data directory that lies elsewhere; yield it and when it was started."""
    began: list[float] = []

    def prepare(home: Path) -> None:
        (home / "data").symlink_to(data, target_is_directory=True)
        (home / _TRANSCRIPT).parent.mkdir(parents=True)
        began.append(time.monotonic())

    with (
        daemon.running(prepare=prepare) as running,
        Client(running.home / "data", timeout_s=clients.TIMEOUT_S) as client,
    ):
        running.client = client.connect()
        yield running, began[0]


def _first_answers(client: Client, began: float, question: Question) -> tuple[float, float]:
    """Return the milliseconds from the start to the first answer, and to the first in which vectors took part.

    Raises:
        TimeoutError: Vectors took no part for ten minutes.
    """
    first = 0.0
    while True:
        answer = client.request("palace/recall", {"query": question.text, "limit": clients.LIMIT, "now": clients.NOW})
        passed = (time.monotonic() - began) * 1_000
        first = first or passed
        if answer["freshness"]["vectorsUsed"]:
            return first, passed
        if passed > WAIT_LIMIT_S * 1_000:
            raise TimeoutError(f"no vectors after {WAIT_LIMIT_S:.0f} s: {answer['freshness']['vectorsReason']}")
        time.sleep(START_POLL_S)


def _ask_in_every_way(
    running: daemon.RunningDaemon, load: Workload, adding: Adding, on_progress: OnProgress
) -> dict[str, Any]:
    client, questions = running.client, load.questions
    some = questions[: max(1, len(questions) // 2)]
    each = questions[: max(1, len(questions) // 4)]
    total = len(questions) + len(some) * 3 + len(each) * len(load.filters)
    count = itertools.count(1)

    def told() -> None:
        on_progress("asking", next(count), total, "questions")

    ask_all(client, questions[:WARM_UP])
    cpu_before = running.cpu_seconds()
    warm = ask_all(client, questions, on_answer=told)
    cpu_s = running.cpu_seconds() - cpu_before
    filtered = [_filtered(client, name, filters, each, warm, told) for name, filters in load.filters.items()]
    together, seconds = ask_at_once(running.home / "data", some, load.clients, told)
    status = client.request("palace/status", {})
    with adding.steadily():
        mining_one = ask_all(client, some, on_answer=told)
        mining_many, mining_s = ask_at_once(running.home / "data", some, load.clients, told)
    added = adding.exchanges
    warm_timing = timing(warm)
    return {
        "recallMsP50": warm_timing["p50"],
        "recallMsP95": warm_timing["p95"],
        "recallMsP99": warm_timing["p99"],
        "queries": len(warm),
        "recallCpuMs": round(cpu_s * 1_000 / len(warm), 2),
        "daemonMsP50": round(percentile([answer.daemon_ms for answer in warm], 0.5), clients.SHOWN_MS),
        "foundInTen": sum(answer.is_found for answer in warm),
        "answers": clients.digest(warm),
        "filters": filtered,
        "clients": {"clients": load.clients, **timing(together), "perSecond": round(len(together) / seconds, 1)},
        "whileMining": timing(mining_one),
        "clientsWhileMining": {
            "clients": load.clients,
            **timing(mining_many),
            "perSecond": round(len(mining_many) / mining_s, 1),
        },
        "minedMeanwhile": added,
        "addToRecallableMs": _add_rounds(client, adding),
        "rssMb": round(status["rssBytes"] / 1e6, 1),
        "rssPeakMb": running.memory_mb(is_peak=True),
    }


def _filtered(
    client: Client,
    name: str,
    filters: Filters,
    questions: tuple[Question, ...],
    unfiltered: list[Answer],
    told: Any,
) -> dict[str, Any]:
    """Return the times with a filter, and how they compare with the same questions without."""
    answers = ask_all(client, questions, filters, told)
    found = timing(answers)
    without = percentile([answer.ms for answer in unfiltered[: len(questions)]], 0.5)
    in_scope = answers[0].in_scope
    return {
        "name": name,
        "drawers": in_scope,
        "share": round(in_scope / max(1, unfiltered[0].in_scope), 5),
        **found,
        "toUnfiltered": round(found["p50"] / without, 3) if without else None,
    }


def _add_rounds(client: Client, adding: Adding) -> float:
    """Return the median milliseconds from writing a line to an answer that holds it."""
    times = []
    for number in range(ADD_ROUNDS):
        mark = f"zq{number:03d}scale"
        adding.add(mark)
        began = time.monotonic()
        while not _holds(client, mark):
            if time.monotonic() - began > WAIT_LIMIT_S:
                raise TimeoutError(f"a line was not found within {WAIT_LIMIT_S:.0f} s")
            time.sleep(POLL_S)
        times.append((time.monotonic() - began) * 1_000)
    return round(percentile(times, 0.5), 1)


def _holds(client: Client, mark: str) -> bool:
    """Return whether an answer holds the mark: other words of a long exchange may have another one stand first."""
    hits = client.request("palace/recall", {"query": mark, "limit": clients.LIMIT})["hits"]
    return any(mark in hit["text"] for hit in hits)
