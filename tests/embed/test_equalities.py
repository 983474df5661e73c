"""One text, one vector: real drawers with the real models, in any company, order, number of threads and callers."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palace_daemon.bench import embed_texts
from palace_daemon.bench.embed_turns import cosines
from palace_daemon.core.ports import Float32
from palace_daemon.embed import minilm
from palace_daemon.embed.minilm import OnnxEmbedder

INT8 = "all-minilm-l6-v2-int8"
FP32 = "all-minilm-l6-v2-fp32"
EQUAL = 0.99999
SHORT, LONG = "ok", "tree " * 510
"""The shortest and the longest company that a text can have."""


@pytest.fixture(scope="module")
def drawers() -> list[str]:
    """Drawers of the packaged set, of 20 to 500 tokens."""
    return embed_texts.spread(embed_texts.packaged(), 16)


@pytest.fixture(scope="module")
def models(int8: OnnxEmbedder, fp32: OnnxEmbedder) -> dict[str, OnnxEmbedder]:
    return {"int8": int8, "fp32": fp32}


@pytest.fixture(scope="module")
def int8_alone(int8: OnnxEmbedder, drawers: list[str]) -> Float32:
    return np.array([int8.embed_query(text) for text in drawers])


@pytest.fixture(scope="module")
def fp32_alone(fp32: OnnxEmbedder, drawers: list[str]) -> Float32:
    return np.array([fp32.embed_query(text) for text in drawers])


def least(left: Float32, right: Float32) -> float:
    return float(cosines(left.astype(np.float64), right.astype(np.float64)).min())


def shuffled(count: int, seed: int) -> list[int]:
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return order


@pytest.fixture
def opened(models_dir: Path) -> Iterator[Any]:
    """``opened(model_id, threads)``: a further embedder with a session of its own, closed at the end."""
    made: list[OnnxEmbedder] = []

    def load(model_id: str, threads: int) -> OnnxEmbedder:
        made.append(minilm.load(model_id, models_dir, threads=threads))
        return made[-1]

    yield load
    for embedder in made:
        embedder.close()


@pytest.mark.parametrize("threads", [1, 4])
def test_fp32_in_batches_is_fp32_alone_whatever_the_order_and_the_threads(
    opened: Any, drawers: list[str], fp32_alone: Float32, threads: int
) -> None:
    order = shuffled(len(drawers), threads)
    found = opened(FP32, threads).embed_passages([drawers[at] for at in order])
    assert least(found, fp32_alone[order]) >= EQUAL


@pytest.mark.parametrize("threads", [1, 4])
def test_int8_is_equal_to_the_bit_whatever_the_order_and_the_threads(
    opened: Any, drawers: list[str], int8_alone: Float32, threads: int
) -> None:
    order = shuffled(len(drawers), threads)
    found = opened(INT8, threads).embed_passages([drawers[at] for at in order])
    assert least(found, int8_alone[order]) >= EQUAL
    assert np.array_equal(found, int8_alone[order])


@pytest.mark.parametrize("name", ["int8", "fp32"])
def test_the_shortest_and_the_longest_company_changes_nothing(models: dict[str, OnnxEmbedder], name: str) -> None:
    embedder = models[name]
    text = "We moved the job queue out of Redis because acknowledgements were lost."
    alone = embedder.embed_query(text)
    for company in ([SHORT] * 7, [LONG], [SHORT, LONG], [text] * 3):
        found = embedder.embed_passages([*company, text])[-1]
        assert least(found[None], alone[None]) >= EQUAL
        if name == "int8":
            assert np.array_equal(found, alone)


@pytest.mark.parametrize("name", ["int8", "fp32"])
def test_callers_at_once_do_not_mix_and_questions_between_them_neither(
    models: dict[str, OnnxEmbedder], drawers: list[str], int8_alone: Float32, fp32_alone: Float32, name: str
) -> None:
    embedder, alone = models[name], {"int8": int8_alone, "fp32": fp32_alone}[name]
    orders = [shuffled(len(drawers), seed)[:8] for seed in range(3)]
    with ThreadPoolExecutor(4) as callers:
        passages = [callers.submit(embedder.embed_passages, [drawers[at] for at in order]) for order in orders]
        questions = list(callers.map(embedder.embed_query, drawers[:6]))
    for order, found in zip(orders, passages, strict=True):
        assert least(found.result(), alone[order]) >= EQUAL
    assert np.array_equal(np.array(questions), alone[:6])


def test_int8_is_close_to_fp32_on_real_drawers(int8_alone: Float32, fp32_alone: Float32) -> None:
    found = cosines(int8_alone.astype(np.float64), fp32_alone.astype(np.float64))
    assert found.mean() >= 0.997
    assert found.min() >= 0.985


class _Watched:
    """Stands before a session and notes how many calls run, and how many wait in the pool, at each call."""

    def __init__(self, embedder: OnnxEmbedder) -> None:
        self._session = embedder._session
        self._waiting = embedder._pool._work_queue
        self._lock = threading.Lock()
        self._running = 0
        self.most_running = 0
        self.most_waiting = 0
        self.calls = 0

    def run(self, names: Sequence[str], feed: dict[str, Any], *rest: Any) -> Any:
        with self._lock:
            self.calls += 1
            self._running += 1
            self.most_running = max(self.most_running, self._running)
            self.most_waiting = max(self.most_waiting, self._waiting.qsize())
        try:
            return self._session.run(names, feed, *rest)
        finally:
            with self._lock:
                self._running -= 1


@pytest.mark.parametrize("model_id", [INT8, FP32])
def test_however_much_is_asked_for_few_calls_run_or_wait(
    opened: Any, monkeypatch: pytest.MonkeyPatch, model_id: str
) -> None:
    threads = 2
    embedder: OnnxEmbedder = opened(model_id, threads)
    watched = _Watched(embedder)
    monkeypatch.setattr(embedder, "_session", watched)
    texts = [f"text {number} of many" for number in range(400)]
    assert embedder.embed_passages(texts).shape == (400, 384)
    assert watched.calls >= 400 / minilm.BATCH_TEXTS_MAX
    assert watched.most_running == threads, "all threads are busy, and no more"
    assert 0 < watched.most_waiting < threads * minilm.IN_FLIGHT_PER_THREAD
