from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, reply, turn, user

from palace_daemon.core.ports import Embedder, Float32, StopSignal
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.errors import ModelError
from palace_daemon.service import embedding, model_host
from palace_daemon.service.embedding import EmbeddingLoop
from palace_daemon.service.model_host import ModelHost
from palace_daemon.service.models import Models
from palace_daemon.service.palace import LivePalace

Wait = Callable[..., None]
MARK = "zanzibar"


class PickyEmbedder(HashingEmbedder):
    """Refuses what ``refuses`` says, as a runtime that one text breaks; counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.refuses: Callable[[str], bool] = lambda text: MARK in text
        self.error: Exception = ModelError("the runtime failed")

    def embed_passages(self, texts: Sequence[str], stop: StopSignal | None = None) -> Float32:
        self.calls += 1
        if any(map(self.refuses, texts)):
            raise self.error
        return super().embed_passages(texts, stop)


class FlakyLoader:
    """Fails so many times, then loads."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.calls = 0

    def __call__(self, stop: StopSignal) -> Embedder:
        self.calls += 1
        if self.calls <= self.failures:
            raise ModelError(f"offline, try {self.calls}")
        return HashingEmbedder()


class CountingModels(Models):
    """Counts how often a loop asks for a model."""

    asked = 0

    def embedder(self, space: str) -> Embedder | None:
        self.asked += 1
        return super().embedder(space)


def hosted(palace: Any, host: ModelHost) -> Models:
    """Have the palace use the host."""
    models = palace._models = palace._embedding._models = Models(host)
    palace._recall._model_state = models.state
    return models


def loading(loader: Any) -> ModelHost:
    return ModelHost("hashing", None, loader, space="hashing@1")


class RecordingStop(threading.Event):
    """Notes how long it was waited for, lets all time pass at once, and is set after ``last`` waits."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.waits: list[float | None] = []
        self._last = last

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        if len(self.waits) == self._last:
            self.set()
        return self.is_set()


@pytest.fixture
def picky(make_palace: Any) -> tuple[Any, PickyEmbedder]:
    """A palace and its embedder, which refuses texts that hold the mark."""
    palace, embedder = make_palace(), PickyEmbedder()
    hosted(palace, ModelHost("", embedder, None))
    return palace, embedder


def pending(palace: Any) -> int:
    count: int = palace.status().vectors_pending
    return count


# ------------------------------------------------------------------------------------------------- loading the model


def test_a_failed_load_keeps_no_thread_busy(palace: Any, wait_until: Wait) -> None:
    models = CountingModels(loading(FlakyLoader(1)))
    loop = EmbeddingLoop(palace._store, models, lambda _: None)
    models.start(palace._store.spaces(), loop.wake)
    wait_until(lambda: models.wanted.has_failed)
    loop.start()
    try:
        threading.Event().wait(0.3)  # the span that is looked at: a busy loop would ask thousands of times
        assert models.asked <= 10
    finally:
        loop.close()
        models.close()


def test_a_failed_load_is_tried_again_and_then_texts_get_vectors(
    make_palace: Any, transcripts: Path, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_host, "LOAD_RETRY_FIRST_S", 0.05)
    palace, loader = make_palace(), FlakyLoader(2)
    hosted(palace, loading(loader))
    append(transcripts / "a.jsonl", turn(1, "Where is the lever?", "Under the desk."))
    palace.mine([str(transcripts)])
    wait_until(lambda: palace.status().vectors == 1)
    assert (loader.calls, palace.status().model_state, palace._models.state("hashing@1").reason) == (3, "ready", "")


def test_between_tries_the_failure_stays_visible_and_nobody_waits(
    make_palace: Any, transcripts: Path, wait_until: Wait
) -> None:
    palace, host = make_palace(), loading(FlakyLoader(1))
    hosted(palace, host)
    append(transcripts / "a.jsonl", turn(1, "Where is the lever?", "Under the desk."))
    report = palace.mine([str(transcripts)], wait=True)
    assert report.vectors_reason == host.state().reason == "offline, try 1"
    assert host.describe() == "failed: offline, try 1"


def test_a_failure_stays_visible_while_the_next_try_runs(monkeypatch: pytest.MonkeyPatch, wait_until: Wait) -> None:
    monkeypatch.setattr(model_host, "LOAD_RETRY_FIRST_S", 0.01)
    flaky, is_trying, go_on = FlakyLoader(1), threading.Event(), threading.Event()

    def load(stop: StopSignal) -> Embedder:
        if flaky.calls:
            is_trying.set()
            assert go_on.wait(10)
        return flaky(stop)

    host = loading(load)
    host.start()
    try:
        assert is_trying.wait(10)
        assert host.has_failed
        assert host.describe() == "failed: offline, try 1"
        go_on.set()
        wait_until(lambda: host.describe() == "ready")
        assert not host.has_failed
    finally:
        go_on.set()
        host.close()


def test_tries_grow_rarer_up_to_a_bound() -> None:
    host = loading(FlakyLoader(100))
    host._stop = stop = RecordingStop(last=8)
    host._keep_loading()
    assert stop.waits == [60, 120, 240, 480, 960, 1800, 1800, 1800]


def test_closing_ends_the_wait_for_the_next_try(wait_until: Wait) -> None:
    host = loading(FlakyLoader(1))
    host.start()
    wait_until(lambda: host.has_failed)
    host.close()
    assert host._thread is not None
    assert not host._thread.is_alive()


def test_a_model_that_comes_after_the_end_is_released() -> None:
    late = HashingEmbedder()
    host = loading(lambda stop: late)
    host.close()
    host.load_now()
    assert late._is_closed


# -------------------------------------------------------------------------------------- texts that cannot be embedded


def test_resuming_while_another_pauses_leaves_all_at_rest_or_all_at_work(
    palace: LivePalace, monkeypatch: pytest.MonkeyPatch
) -> None:
    others: list[threading.Thread] = []
    pause = palace._queue.pause

    def interrupted(*, is_paused: bool) -> None:
        if is_paused:
            others.append(threading.Thread(target=palace.resume))
            others[0].start()
            others[0].join(0.3)  # it may have to wait until this one is done
        pause(is_paused=is_paused)

    monkeypatch.setattr(palace._queue, "pause", interrupted)
    palace.pause()
    others[0].join(10)
    assert palace.embedding().is_paused == palace._queue._is_paused == palace._embedding._interrupt.is_set()


def test_a_text_that_is_refused_stops_no_other(
    picky: tuple[Any, PickyEmbedder], transcripts: Path, caplog: pytest.LogCaptureFixture
) -> None:
    palace, _ = picky
    lines = [turn(n, f"Question {n}?", MARK if n in (7, 35) else f"Answer {n}.") for n in range(40)]
    append(transcripts / "a.jsonl", "".join(lines))
    with caplog.at_level(logging.WARNING):
        report = palace.mine([str(transcripts)], wait=True)
    assert (palace.status().vectors, pending(palace)) == (38, 2)
    assert report.vectors_reason == palace.status().last_error == "2 texts cannot be embedded: the runtime failed"
    with palace._store.read() as connection:
        hashes = [row[0].hex()[:12] for row in connection.execute("SELECT text_hash FROM pending_texts")]
    assert all(hash_ in caplog.text for hash_ in hashes)
    assert MARK not in caplog.text


def test_more_refused_texts_than_a_batch_holds_block_none_behind_them(
    picky: tuple[Any, PickyEmbedder], transcripts: Path
) -> None:
    palace, _ = picky
    count = 2 * embedding.BATCH_TEXTS + 1
    lines = [turn(n, f"Question {n}?", f"Old answer {n}.") for n in range(20)]
    lines += [turn(n, f"Question {n}?", f"{MARK} {n}") for n in range(20, 20 + count)]
    append(transcripts / "a.jsonl", "".join(lines))
    report = palace.mine([str(transcripts)], wait=True)
    assert (palace.status().vectors, pending(palace)) == (20, count)
    assert report.vectors_reason == f"{count} texts cannot be embedded: the runtime failed"


def test_a_refused_text_keeps_nobody_from_waiting_for_the_next(
    picky: tuple[Any, PickyEmbedder], transcripts: Path, wait_until: Wait
) -> None:
    palace, _ = picky
    append(transcripts / "a.jsonl", turn(1, "Where?", f"In {MARK}."))
    assert palace.mine([str(transcripts)], wait=True).vectors_reason
    append(transcripts / "a.jsonl", "".join(turn(n, f"Question {n}?", f"Answer {n}.") for n in range(2, 40)))
    report = palace.mine([str(transcripts)], wait=True)
    assert (report.vectors_added, pending(palace)) == (38, 1)
    assert report.vectors_reason == "1 text cannot be embedded: the runtime failed"


def test_a_refused_text_is_not_tried_for_ever(
    picky: tuple[Any, PickyEmbedder], transcripts: Path, wait_until: Wait
) -> None:
    palace, embedder = picky
    append(transcripts / "a.jsonl", turn(1, "Where?", f"In {MARK}."))
    palace.mine([str(transcripts)], wait=True)
    calls = embedder.calls
    for _ in range(3):
        palace._embedding.wake()
        wait_until(lambda: palace._embedding.error)
    assert embedder.calls == calls


@pytest.mark.parametrize(
    ("is_broken", "reason"), [(False, "1 text cannot be embedded: ValueError"), (True, "ValueError")]
)
def test_foreign_errors_are_told_by_their_type_alone(
    picky: tuple[Any, PickyEmbedder], transcripts: Path, caplog: pytest.LogCaptureFixture, is_broken: bool, reason: str
) -> None:
    palace, embedder = picky
    embedder.refuses = lambda text: is_broken or MARK in text
    embedder.error = ValueError(f"cannot take '{MARK}'")
    append(transcripts / "a.jsonl", turn(1, "Where?", f"In {MARK}."))
    report = palace.mine([str(transcripts)], wait=True)
    assert report.vectors_reason == reason
    assert "ValueError" in caplog.text
    assert MARK not in caplog.text


def test_a_refused_text_that_leaves_the_store_is_no_longer_told(
    picky: tuple[Any, PickyEmbedder], transcripts: Path
) -> None:
    palace, embedder = picky
    embedder.refuses = lambda text: "half" in text and "whole" not in text
    append(transcripts / "a.jsonl", user("u1", "Tell me?") + reply("a1", "The half."))
    assert palace.mine([str(transcripts)], wait=True).vectors_reason
    append(transcripts / "a.jsonl", reply("a2", "Now the whole.", at=2))
    assert palace.mine([str(transcripts)], wait=True).vectors_reason == ""
    assert (palace._embedding.error, pending(palace)) == ("", 0)


def test_a_broken_embedder_sets_no_text_aside(
    picky: tuple[Any, PickyEmbedder], transcripts: Path, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "_RETRY_S", 0.05)
    palace, embedder = picky
    embedder.refuses = lambda text: True
    append(transcripts / "a.jsonl", "".join(turn(n, f"Question {n}?", f"Answer {n}.") for n in range(20)))
    assert palace.mine([str(transcripts)], wait=True).vectors_reason == "the runtime failed"
    embedder.refuses = lambda text: False
    wait_until(lambda: pending(palace) == 0)
    wait_until(lambda: palace._embedding.error == "")
    assert palace.status().vectors == 20


def test_an_embedder_that_was_closed_keeps_no_thread_busy(
    picky: tuple[Any, PickyEmbedder], transcripts: Path, wait_until: Wait
) -> None:
    palace, embedder = picky
    embedder.close()
    append(transcripts / "a.jsonl", turn(1, "Where?", "There."))
    palace.mine([str(transcripts)])
    wait_until(lambda: palace._embedding.error == "the embedder is closed")
    threading.Event().wait(0.2)  # the span that is looked at
    assert embedder.calls == 1
