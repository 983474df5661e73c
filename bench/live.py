"""How soon is a new line recallable? A real daemon, a real transcript, a real socket.

Each round appends one exchange to a watched transcript, as an agent does, and asks over the socket until the answer
holds it: first by a word that stands nowhere else, then by a paraphrase that shares no content word with it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from palace_daemon.bench import daemon, machine, talk
from palace_daemon.bench.fingerprint import STORING, fingerprint
from palace_daemon.client import Client

STATEMENTS = (
    ("We moved the job queue into a database table.", "Where do background tasks wait now?"),
    ("The cat is allergic to cheap fish.", "Which food makes my pet ill?"),
    ("Releases are cut every second Thursday.", "On what schedule do we ship new versions?"),
    ("I drink no coffee after lunch any more.", "When do I stop having caffeine?"),
    ("Our flat has a leaking tap in the kitchen.", "What needs a plumber at home?"),
)
"""A sentence and a question that shares no content word with it; written for this bench."""

POLL_S = 0.02
LIMIT_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this bench's arguments."""
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="exchanges to append (default 20)")


def run(args: argparse.Namespace) -> int:
    """Print the times; returns 0, or 1 when a line was not found within a minute."""
    with daemon.running() as running:
        rounds = _measure(running, args.rounds)
    report = {"rounds": len(rounds), "machine": machine.describe(), "fingerprint": fingerprint(of=STORING)} | {
        f"{name}Ms{label}": round(value * 1000, 1)
        for name, column in (("words", 0), ("meaning", 1))
        for label, value in _summary([one[column] for one in rounds]).items()
    }
    print(json.dumps(report) if args.json else _table(report))
    return 0


def _measure(running: daemon.RunningDaemon, rounds: int) -> list[tuple[float, float]]:
    transcript = running.home / ".claude" / "projects" / "-home-bench" / "bench.jsonl"
    transcript.parent.mkdir(parents=True)
    client = running.client
    _until(lambda: client.request("palace/status", {})["modelState"] == "ready")
    return [_round(client, transcript, number) for number in range(rounds)]


def _round(client: Client, transcript: Path, number: int) -> tuple[float, float]:
    """Append one exchange; return seconds until it is found by its word and by its meaning."""
    statement, question = STATEMENTS[number % len(STATEMENTS)]
    word = f"zq{number:04d}x"
    with transcript.open("a", encoding="utf-8") as file:
        file.write(talk.exchange("bench", number, f"{statement} {word}", "Noted."))
    began = time.monotonic()
    by_words = _until(lambda: word in _first(client, word)) - began
    by_meaning = _until(lambda: _is_embedded(client, question, word)) - began
    return by_words, by_meaning


def _first(client: Client, query: str) -> str:
    hits = client.request("palace/recall", {"query": query, "limit": 1})["hits"]
    return str(hits[0]["text"]) if hits else ""


def _is_embedded(client: Client, question: str, word: str) -> bool:
    """Return whether every vector is there and the question alone, without the word, finds the exchange."""
    answer: dict[str, Any] = client.request("palace/recall", {"query": question, "limit": 10})
    return answer["freshness"]["vectorsPending"] == 0 and any(word in hit["text"] for hit in answer["hits"])


def _until(condition: Any) -> float:
    """Ask until ``condition`` holds; return when it did.

    Raises:
        TimeoutError: It did not within a minute.
    """
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not seen within {LIMIT_S:.0f} s")
        time.sleep(POLL_S)
    return time.monotonic()


def _summary(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {"P50": statistics.median(ordered), "P95": ordered[int(0.95 * (len(ordered) - 1))], "Max": ordered[-1]}


def _table(report: dict[str, Any]) -> str:
    lines = [f"{report['rounds']} lines appended to a watched transcript; {report['machine']}", ""]
    lines.append(f"{'recallable':<12}{'p50':>10}{'p95':>10}{'max':>10}{'goal':>10}")
    for name, goal in (("words", 1_000), ("meaning", 3_000)):
        values = "".join(f"{report[f'{name}Ms{label}']:>7.0f} ms" for label in ("P50", "P95", "Max"))
        lines.append(f"by {name:<9}{values}{goal:>7} ms")
    return "\n".join(lines)
