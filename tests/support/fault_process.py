"""Forks a process for each order on standard input, has it do a job, and kills it at a point; see ``faults.py``."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from palace_daemon.config import ChunkConfig, Config, WatchConfig
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.embed.tokens import MiniLmTokenCounter
from palace_daemon.model import ForgetRequest
from palace_daemon.service import mending, mining
from palace_daemon.service.build import build
from palace_daemon.service.palace import LivePalace
from palace_daemon.store import sqlite
from palace_daemon.watch.scripted import ScriptedNotifier

WORD = "quixotry"
"""What holds it is forgotten; equals that of ``damage.py``, which a script cannot import."""


def config(data: Path, transcripts: Path, *, max_chars: int = 2_000) -> Config:
    """Return the settings of all jobs."""
    watch = WatchConfig(defaults=False, paths=(str(transcripts),))
    return Config(data_dir=data, watch=watch, chunk=ChunkConfig(max_chars=max_chars))


def open_palace(settings: Config) -> LivePalace:
    """Open a Palace without a model's weights, a kernel's notices and a clock."""
    mining.READ_BYTES = 4_096  # several transactions a file
    return build(settings, embedder=HashingEmbedder(), notifier=ScriptedNotifier(), clock=lambda: 0)


def mine(data: Path, transcripts: Path) -> None:
    """Mine and embed everything."""
    palace = open_palace(config(data, transcripts))
    palace.mine(wait=True)
    palace.close()


def forget(data: Path, transcripts: Path) -> None:
    """Forget what holds the word, if it is there, and see its bytes go."""
    palace = open_palace(config(data, transcripts))
    ids = tuple(view.exchange_id for view in palace.timeline("s1") if WORD in view.user_text)
    if ids:
        palace.forget(ForgetRequest(exchanges=ids))
    reason = palace._forgetting.wipe()
    palace.close()
    if reason:
        raise RuntimeError(reason)


def reopen(data: Path, transcripts: Path) -> None:
    """Open the store, which migrates it, and mine."""
    mine(data, transcripts)


def recut(data: Path, transcripts: Path) -> None:
    """Open the store with other settings, so that it is cut and indexed anew, and embed."""
    palace = open_palace(config(data, transcripts, max_chars=500))
    palace.mine(wait=True)
    palace.close()


def mend(data: Path, transcripts: Path) -> None:
    """Repair, then mine."""
    mending.mend(config(data, transcripts), embedder=HashingEmbedder())
    mine(data, transcripts)


JOBS: dict[str, Callable[[Path, Path], None]] = {
    "mine": mine,
    "forget": forget,
    "reopen": reopen,
    "recut": recut,
    "mend": mend,
}


def die_at(event: str, times: int) -> None:
    """Have this process killed at the ``times``-th event that begins so."""
    seen = 0
    pid = os.getpid()

    def look(told: str) -> None:
        nonlocal seen
        if told.startswith(event) and os.getpid() == pid:
            seen += 1
            if seen == times:
                os.kill(pid, signal.SIGKILL)

    def audit(name: str, values: tuple[Any, ...]) -> None:
        if name in {"os.rename", "os.link", "os.remove"}:
            look(f"{name} {os.path.basename(os.fsdecode(values[-2 if name == 'os.remove' else 1]))}")

    def watched(opener: Callable[[Path], sqlite.Connection]) -> Callable[[Path], sqlite.Connection]:
        def open_(path: Path) -> sqlite.Connection:
            connection = opener(path)
            connection.set_trace_callback(look)
            return connection

        return open_

    sys.addaudithook(audit)
    for name in ("open_writer", "open_to_copy", "open_copy"):
        setattr(sqlite, name, watched(getattr(sqlite, name)))


def work(order: dict[str, Any]) -> None:
    """Do a job in a process of its own, and end it."""
    code = 1
    try:
        if order["event"]:
            die_at(order["event"], order["times"])
        JOBS[order["job"]](Path(order["data"]), Path(order["transcripts"]))
        code = 0
    except BaseException:  # noqa: BLE001 - the test is to see it, and the child must end here
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Serve orders until standard input ends."""
    MiniLmTokenCounter().count("loads what all need")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            work(json.loads(line))
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        code = 0 if killed else os.waitstatus_to_exitcode(status)
        print(json.dumps({"killed": killed, "code": code}), flush=True)


if __name__ == "__main__":
    main()
