"""What every embedder promises, run against the shipped fake and both real models."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import pytest

from palace_daemon.core.ports import Embedder
from palace_daemon.embed import minilm
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.errors import CancelledError, ClosedError

TEXTS = [
    "We moved the job queue from Redis to Postgres.",
    "the job queue moved to postgres",
    "Tomatoes need six hours of sun.",
    "",
    "ok",
    "def add(a, b):\n    return a + b",
    "昨天我们迁移了任务队列。",
    "Токены больше не хранятся в переменных окружения.",
    "lone surrogate free, but \u200b zero width and \x00 a NUL",
    "word " * 300,
]


class Make(Protocol):
    def __call__(self) -> Embedder: ...


@pytest.fixture(
    params=["hashing", pytest.param("int8", marks=pytest.mark.model), pytest.param("fp32", marks=pytest.mark.model)]
)
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    made: list[Embedder] = []

    def build() -> Embedder:
        if request.param == "hashing":
            made.append(HashingEmbedder())
        else:
            models_dir = request.getfixturevalue("models_dir")
            made.append(minilm.load(f"all-minilm-l6-v2-{request.param}", models_dir, threads=2))
        return made[-1]

    yield build
    for embedder in made:
        embedder.close()


def test_vectors_are_float32_unit_rows_in_order(make: Make) -> None:
    embedder = make()
    vectors = embedder.embed_passages(TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.dim)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    backwards = embedder.embed_passages(TEXTS[::-1])[::-1]
    assert (vectors * backwards).sum(1).min() >= 0.99999


def test_a_query_has_the_vector_of_the_same_passage(make: Make) -> None:
    embedder = make()
    vectors = embedder.embed_passages(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        query = embedder.embed_query(text)
        assert query.shape == (embedder.dim,)
        assert query.dtype == np.float32
        assert query @ vector >= 0.99999


def test_similar_texts_are_nearer_than_others(make: Make) -> None:
    vectors = make().embed_passages(TEXTS)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2


def test_different_texts_have_different_vectors(make: Make) -> None:
    vectors = make().embed_passages(TEXTS)
    products = vectors @ vectors.T
    np.fill_diagonal(products, 0)
    assert products.max() < 0.999


def test_no_texts_give_no_rows(make: Make) -> None:
    embedder = make()
    assert embedder.embed_passages([]).shape == (0, embedder.dim)


def test_a_stop_that_is_set_cancels(make: Make) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(CancelledError):
        make().embed_passages(TEXTS, stop)


def test_a_stop_in_the_middle_cancels_before_the_end(make: Make) -> None:
    class SetAfter:
        def __init__(self, calls: int) -> None:
            self.calls = calls

        def is_set(self) -> bool:
            self.calls -= 1
            return self.calls < 0

    embedder = make()
    stop = SetAfter(2)
    with pytest.raises(CancelledError):
        embedder.embed_passages(TEXTS * 10, stop)
    assert stop.calls == -1, "it kept on working after the stop"
    assert embedder.embed_passages(TEXTS[:1]).shape == (1, embedder.dim), "a stop must not end the embedder"


def test_after_close_nothing_is_embedded(make: Make) -> None:
    embedder = make()
    embedder.close()
    embedder.close()
    calls: list[Callable[[], Any]] = [lambda: embedder.embed_query("x"), lambda: embedder.embed_passages(["x"])]
    for call in calls:
        with pytest.raises(ClosedError):
            call()


def test_close_leaves_no_threads(make: Make) -> None:
    before = set(threading.enumerate())
    embedder = make()
    embedder.embed_passages(TEXTS)
    embedder.close()
    assert set(threading.enumerate()) <= before


def test_many_callers_at_once_get_their_own_vectors(make: Make) -> None:
    embedder = make()
    expected = embedder.embed_passages(TEXTS)

    def ask(turn: int) -> float:
        rows = [(turn + i) % len(TEXTS) for i in range(4)]
        found = embedder.embed_passages([TEXTS[row] for row in rows])
        query = embedder.embed_query(TEXTS[rows[0]])
        return float(min((found * expected[rows]).sum(1).min(), query @ expected[rows[0]]))

    with ThreadPoolExecutor(6) as pool:
        assert min(pool.map(ask, range(12))) >= 0.99999
