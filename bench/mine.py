"""How fast are transcripts parsed, and mined without and with vectors?

Parsing alone runs the product's parsers with redaction over bytes that are in memory. Mining runs the service object
of the daemon over the files, into a fresh store. Each figure is the median of several rounds, taken in turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from palace_daemon import places
from palace_daemon.bench import machine, talk
from palace_daemon.bench.fingerprint import STORING, fingerprint
from palace_daemon.bench.ingest import archive
from palace_daemon.config import Config, WatchConfig
from palace_daemon.core import redaction
from palace_daemon.core.ports import Embedder
from palace_daemon.core.transcripts import registry as formats
from palace_daemon.embed import minilm, registry
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.service.build import build
from palace_daemon.service.watching import find_sources
from palace_daemon.watch.scripted import ScriptedNotifier


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this bench's arguments."""
    parser.add_argument("--path", type=Path, help="transcripts to mine (default: made-up ones, 4 MB)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds, of which the median counts")
    parser.add_argument(
        "--no-vectors", action="store_true", help="leave out the embedding, which takes most of the time"
    )


def run(args: argparse.Namespace) -> int:
    """Print the rows; returns 0, or 1 when there is nothing to mine."""
    with tempfile.TemporaryDirectory(prefix="palace-mine-") as root:
        path = args.path or _made_up(Path(root))
        files = [Path(name) for name, _ in find_sources(str(path))]
        read = [(str(file), file.read_bytes()) for file in files]
        known = [(path, data) for path, data in read if formats.detect(path, data[: formats.HEAD_BYTES])]
        if not known:
            print(f"no line or document transcript in {path}")
            return 1
        report = _measure(path, known, args.rounds, with_vectors=not args.no_vectors)
    print(json.dumps(report) if args.json else _table(report))
    return 0


def _measure(path: Path, known: list[tuple[str, bytes]], rounds: int, *, with_vectors: bool) -> dict[str, Any]:
    stages: dict[str, Callable[[], tuple[int, float]]] = {
        "parse": lambda: _parse(known, lambda text: text),
        "parse with redaction": lambda: _parse(known, redaction.redact),
        "mine": lambda: _mine(path, None),
    }
    if with_vectors:
        # A Palace closes its model when it is closed: each round has one of its own.
        stages["mine with vectors"] = lambda: _mine(
            path, minilm.load(registry.DEFAULT_MODEL, places.models_dir(), threads=0)
        )
    seconds: dict[str, list[float]] = {name: [] for name in stages}
    exchanges: dict[str, int] = {}
    for _ in range(rounds):
        for name, stage in stages.items():
            exchanges[name], took = stage()
            seconds[name].append(took)
    total_mb = sum(len(data) for _, data in known) / 1e6
    rows = []
    for name, times in seconds.items():
        took = statistics.median(times)
        rows.append(
            {
                "name": name,
                "seconds": round(took, 3),
                "mbPerSecond": round(total_mb / took, 2),
                "exchangesPerSecond": round(exchanges[name] / took, 1),
            }
        )
    return {
        "files": len(known),
        "megabytes": round(total_mb, 2),
        "exchanges": exchanges["mine"],
        "rounds": rounds,
        "machine": machine.describe(),
        "fingerprint": fingerprint(of=STORING),
        "rows": rows,
    }


def _parse(known: Sequence[tuple[str, bytes]], redact: Callable[[str], str]) -> tuple[int, float]:
    """Parse everything in blocks, as mining does; return the number of exchanges and the seconds it took."""
    began = time.monotonic()
    count = sum(len(archive.exchanges_of(path, data, redact)) for path, data in known)
    return count, time.monotonic() - began


def _mine(path: Path, model: Embedder | None) -> tuple[int, float]:
    """Mine into a fresh store; return the number of exchanges, and the seconds until all can be recalled.

    Without a model that is by words; hashes stand for the vectors, and what they take does not count.
    """
    with tempfile.TemporaryDirectory(prefix="palace-mine-") as data:
        config = Config(data_dir=Path(data), watch=WatchConfig(defaults=False))
        palace = build(config, embedder=model or HashingEmbedder(), notifier=ScriptedNotifier())
        try:
            report = palace.mine([str(path)], wait=True)
            if report.vectors_reason:
                raise RuntimeError(report.vectors_reason)
            return report.exchanges_added, report.seconds_to_vectors if model else report.seconds
        finally:
            palace.close()


def _made_up(root: Path) -> Path:
    folder = root / "transcripts"
    folder.mkdir()
    answer = "The cache is filled at night, then the index is built; both take a minute on this machine.\n\n"
    for session in range(40):
        text = "".join(
            talk.exchange(f"mine-{session}", number, f"What happened in step {number} of run {session}?", answer * 10)
            for number in range(100)
        )
        (folder / f"{session}.jsonl").write_text(text, encoding="utf-8")
    return folder


def _table(report: dict[str, Any]) -> str:
    head = (
        f"{report['files']} transcripts, {report['megabytes']:.1f} MB, {report['exchanges']:,} exchanges,"
        f" median of {report['rounds']} rounds; {report['machine']}\n\n"
        f"{'stage':<24}{'seconds':>10}{'MB/s':>10}{'exchanges/s':>14}"
    )
    rows = [
        f"{row['name']:<24}{row['seconds']:>10.2f}{row['mbPerSecond']:>10.1f}{row['exchangesPerSecond']:>14,.0f}"
        for row in report["rows"]
    ]
    return "\n".join([head, *rows])
