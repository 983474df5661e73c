"""What writing to a large store costs, without a daemon: one exchange more, and a new index."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from palace_daemon.bench.recall_metrics import percentile
from palace_daemon.bench.scale.build import OnProgress, open_store
from palace_daemon.bench.scale.sessions import exchange_of
from palace_daemon.model import Cursor, ParseResult, SessionFacts
from palace_daemon.store import sources
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.store import SourceBatch, Store

ADDED = 20
_SESSION = "scale-added"
_AGENT = "claude-code"


def measure(data: Path, texts: Iterator[tuple[str, str]], *, rebuild: bool, on_progress: OnProgress) -> dict[str, Any]:
    """Return what was measured; changes the store."""
    store = open_store(data)
    try:
        began = time.perf_counter()
        with store.read_with_drawers():
            loaded_s = time.perf_counter() - began
        saved, followed = _add_each(store, texts)
        report: dict[str, Any] = {
            "loadDrawersSeconds": round(loaded_s, 3),
            "addStoreMs": round(percentile(saved, 0.5), 2),
            "addFollowMs": round(percentile(followed, 0.5), 2),
        }
        if rebuild:
            on_progress("rebuilding the index", 0, 0, "")
            began = time.perf_counter()
            store.rebuild_index()
            report["rebuildSeconds"] = round(time.perf_counter() - began, 2)
        return report
    finally:
        store.close()


def _add_each(store: Store, texts: Iterator[tuple[str, str]]) -> tuple[list[float], list[float]]:
    """Add exchanges one by one; return the milliseconds until each is committed, and until readers know of it."""

    def begin(connection: Connection) -> tuple[int, int]:
        source_id = sources.ensure(connection, f"/home/bench/{_SESSION}.jsonl")
        reading = sources.begin_reading(
            connection, source_id, agent=_AGENT, format_name=_AGENT, format_version=1, is_secondary=False
        )
        return source_id, reading

    source_id, reading = store.write(begin)
    saved: list[float] = []
    followed: list[float] = []
    for turn in range(ADDED):
        user, reply = next(texts)
        exchange = exchange_of(_SESSION, turn, user or "Go on.", reply)
        batch = SourceBatch(
            source_id=source_id,
            reading=reading,
            cursor=Cursor(),
            parser_state=None,
            result=ParseResult(
                exchanges=(exchange,), sessions=(SessionFacts(agent=_AGENT, session_id=_SESSION, cwd=exchange.cwd),)
            ),
            is_at_end=True,
        )
        began = time.perf_counter()
        store.save(batch, mined_at=0)
        at = time.perf_counter()
        with store.read_with_drawers():
            followed.append((time.perf_counter() - at) * 1_000)
        saved.append((at - began) * 1_000)
    return saved, followed
