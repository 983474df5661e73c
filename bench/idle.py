"""What does a daemon cost that has nothing to do? CPU time with thousands of transcripts watched.

A real daemon under a temporary home mines seeded transcripts, embeds them, and is then left alone: once with the
system's notifications, once polling, as on a network drive. The usual timer is left as it is: a look of its 300 s holds
exactly one rescan of everything. ``--rescan 40 --seconds 60`` shows the same with one or two a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from pathlib import Path
from typing import Any

from palace_daemon.bench import daemon, machine, talk
from palace_daemon.config import WatchConfig

GOAL_PERCENT = 0.5
SETTLE_S = 3.0
USUAL_RESCAN_S = WatchConfig().rescan_s


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this bench's arguments."""
    parser.add_argument("--files", type=int, default=5_000, metavar="N", help="transcripts to watch (default 5000)")
    parser.add_argument("--rescan", type=float, default=USUAL_RESCAN_S, metavar="S", help="a rescan every S seconds")
    parser.add_argument("--seconds", type=float, metavar="S", help="how long to look (default: from rescan to rescan)")


def run(args: argparse.Namespace) -> int:
    """Print the shares of a core; returns 0."""
    seconds = args.seconds or args.rescan
    rows = [_measure(args.files, args.rescan, seconds, is_polling=is_polling) for is_polling in (False, True)]
    report = {
        "files": args.files,
        "rescanS": args.rescan,
        "seconds": seconds,
        "machine": machine.describe(),
        "rows": rows,
    }
    print(json.dumps(report) if args.json else _table(report))
    return 0


def _measure(files: int, rescan_s: float, seconds: float, *, is_polling: bool) -> dict[str, Any]:
    settings = f"[watch]\nrescan_s = {rescan_s}\n" + ("polling = true\n" if is_polling else "")
    with daemon.running(settings, prepare=lambda home: _write(home, files)) as running:
        status = running.wait_until_settled()
        time.sleep(SETTLE_S)
        before, began = running.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        share = (running.cpu_seconds() - before) / (time.monotonic() - began) * 100
        rss_mb = running.client.request("palace/status", {})["rssBytes"] / 1e6
    return {
        "notifier": status["notifier"],
        "exchanges": status["exchanges"],
        "percentOfCore": round(share, 3),
        "rssMb": round(rss_mb, 1),
    }


def _write(home: Path, files: int) -> None:
    """Write transcripts of one short exchange each, fifty to a project, as a long-time user's home has them."""
    chance = random.Random(0)  # noqa: S311 - seeded on purpose
    for number in range(files):
        path = home / ".claude" / "projects" / f"-home-bench-p{number // 50}" / f"{number:08d}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        words = " ".join(chance.choice(("queue", "cache", "tide", "index", "port", "test", "night")) for _ in range(6))
        path.write_text(talk.exchange(f"idle-{number}", number, words, "Noted."), encoding="utf-8")
        os.utime(path, (1_770_000_000 + number, 1_770_000_000 + number))


def _table(report: dict[str, Any]) -> str:
    head = (
        f"an idle daemon with {report['files']:,} transcripts, {report['seconds']:.0f} s with a rescan every"
        f" {report['rescanS']:.0f} s; {report['machine']}\n\n"
        f"{'notices changes by':<20}{'of a core':>12}{'goal':>10}{'memory':>12}"
    )
    rows = [
        f"{row['notifier']:<20}{row['percentOfCore']:>10.2f} %{f'< {GOAL_PERCENT} %':>10}{row['rssMb']:>9.0f} MB"
        for row in report["rows"]
    ]
    return "\n".join([head, *rows])
