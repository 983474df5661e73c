"""What a daemon's process holds, as the system tells it, and what of it may grow.

Threads of a pool are begun, and their connections to the database opened, when so many requests come at once for the
first time; how soon that happens is chance. So they have a bound, and all else must stay as it was.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from palace_daemon.rpc.server import LONG_THREADS, QUICK_THREADS
from palace_daemon.store import sqlite

OWN_THREADS = 20
"""Besides those that answer: the event loop, mining, embedding with the runtime's own, watching, the scan's."""
THREADS_MAX = QUICK_THREADS + LONG_THREADS + OWN_THREADS
FILES_PER_CONNECTION = 3
"""The database, its log and the log's index."""
STORE_DESCRIPTORS_MAX = FILES_PER_CONNECTION * (QUICK_THREADS + LONG_THREADS + 4)
"""Four besides those that answer: the writer's, the embedding's, and two in passing."""
OTHER_GROWTH_MAX = 8
"""Clients that come and go, files that are being read."""


class Footprint(Struct, frozen=True):
    """What a process holds at one moment."""

    store_descriptors: int
    other_descriptors: int
    threads: int
    rss_mb: float


def footprint(pid: int) -> Footprint:
    """Return what the process holds now."""
    facts = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.count(":") == 1
    )
    names = [_target(path) for path in Path(f"/proc/{pid}/fd").iterdir()]
    of_store = sum(Path(name).name.startswith(sqlite.DATABASE_NAME) for name in names)
    return Footprint(
        store_descriptors=of_store,
        other_descriptors=len(names) - of_store,
        threads=int(facts["Threads"]),
        rss_mb=round(int(facts["VmRSS"].split()[0]) / 1024, 1),
    )


def assert_no_leak(early: list[Footprint], late: list[Footprint]) -> None:
    """Compare what one process held at two times."""
    others = max(one.other_descriptors for one in early)
    for one in late:
        assert one.other_descriptors <= others + OTHER_GROWTH_MAX
        assert one.store_descriptors <= STORE_DESCRIPTORS_MAX
        assert one.threads <= THREADS_MAX


def _target(path: Path) -> str:
    try:
        return os.readlink(path)
    except FileNotFoundError:  # closed meanwhile
        return ""
