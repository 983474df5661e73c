"""A backlog is embedded by the real model while questions are answered, in flat memory.

``PALACE_SOAK_TEXTS`` sets its size; ``make soak`` takes 50,000.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.claude import append, turn

from palace_daemon.config import Config, EmbedConfig, WatchConfig
from palace_daemon.core.ports import Embedder, StopSignal
from palace_daemon.model import RecallQuery
from palace_daemon.service import build, processes
from palace_daemon.watch.scripted import ScriptedNotifier

Wait = Callable[..., None]
TEXTS = int(os.environ.get("PALACE_SOAK_TEXTS", "500"))
TEXTS_A_FILE = 1_000
BOUND_BYTES = 160 << 20
"""What embedding may take beyond the vectors themselves. One call of a thread at 512 tokens takes some 30 MB."""
VECTOR_BYTES = 384 * 4
NOW = 1_800_000_000_000


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[Any, threading.Event]]:
    """A palace whose model is loaded when the event says so."""
    config = Config(data_dir=tmp_path / "data", watch=WatchConfig(defaults=False), embed=EmbedConfig(threads=1))
    palace = build.build(config, notifier=ScriptedNotifier(), clock=lambda: 0)
    wanted, go_on = palace._models.wanted, threading.Event()
    load = wanted._loader
    assert load is not None

    def wait(stop: StopSignal) -> Embedder:
        while not go_on.wait(0.05) and not stop.is_set():
            pass
        return load(stop)

    wanted._loader = wait
    yield palace, go_on
    go_on.set()
    palace.close()


def write(transcripts: Path) -> None:
    dice = random.Random(1)
    words = [f"{stem}{n}" for stem in ("gauge ", "tide ", "lamp ", "rope ") for n in range(300)]
    for first in range(0, TEXTS, TEXTS_A_FILE):
        lines = [
            turn(n % 10_000, f"What of {words[n % len(words)]} in case {n}?", " ".join(dice.choices(words, k=8)) + ".")
            for n in range(first, min(first + TEXTS_A_FILE, TEXTS))
        ]
        append(transcripts / f"{first}.jsonl", "".join(line.replace('"s1"', f'"s{first}"') for line in lines))


@pytest.mark.model
@pytest.mark.timeout(240 + TEXTS // 10)
def test_questions_are_answered_while_a_backlog_is_embedded_in_flat_memory(
    held: tuple[Any, threading.Event], transcripts: Path, wait_until: Wait
) -> None:
    palace, go_on = held
    write(transcripts)
    palace.mine([str(transcripts)])
    wait_until(lambda: palace.status().sources_pending == 0, 120 + TEXTS / 50)
    texts = palace.status().vectors_pending
    assert texts >= TEXTS
    go_on.set()
    wait_until(lambda: palace.status().vectors >= 64)
    before, peak = processes.rss_bytes(), 0
    took_ms: list[float] = []
    while palace.status().vectors_pending:
        began = time.perf_counter()
        answer = palace.recall(RecallQuery(text=f"what of tide {len(took_ms) % 300}?", now=NOW))
        took_ms.append((time.perf_counter() - began) * 1000)
        assert len(answer.hits) == 10
        assert answer.freshness.vectors_used
        peak = max(peak, processes.rss_bytes())
        threading.Event().wait(0.1)
    assert palace.status().embedding.truncated == 0
    assert took_ms
    p50, p95 = np.percentile(took_ms, (50, 95))
    pace = palace.embedding().texts_per_s
    print(
        f"{texts:,} texts at {pace:.0f} a second; {len(took_ms):,} questions meanwhile: p50 {p50:.1f} ms,"
        f" p95 {p95:.1f} ms; memory {(peak - before) / 1e6:+.0f} MB"
    )
    # The matrix of the mirror grows with the vectors, and is copied when it is loaded anew.
    assert peak - before < BOUND_BYTES + 3 * texts * VECTOR_BYTES
