"""What the embedding of a backlog leaves to the rest of the machine, and to the person before it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, turn

from palace_daemon import places
from palace_daemon.config import Config, EmbedConfig, WatchConfig
from palace_daemon.core.ports import Embedder, Float32, StopSignal
from palace_daemon.embed import minilm, priority, registry
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.errors import RequestError
from palace_daemon.model import RecallQuery
from palace_daemon.service import build, embedding
from palace_daemon.service.embedding import Pace
from palace_daemon.service.model_host import ModelHost
from palace_daemon.service.models import Models
from palace_daemon.store import sqlite, vectors
from palace_daemon.watch.scripted import ScriptedNotifier

Wait = Callable[..., None]
NOW = 1_800_000_000_000


def tell(transcripts: Path, count: int, words: int = 5, name: str = "a") -> None:
    append(
        transcripts / f"{name}.jsonl",
        "".join(turn(n, f"What of gauge {n}?", f"Gauge {n} drifts. " + "It drifts. " * words) for n in range(count)),
    )


@pytest.fixture
def with_model(tmp_path: Path) -> Iterator[Any]:
    """A palace that loads the real model."""
    watch = WatchConfig(defaults=False)
    config = Config(data_dir=tmp_path / "data", watch=watch, embed=EmbedConfig(threads=1))
    palace = build.build(config, notifier=ScriptedNotifier(), clock=lambda: 0)
    yield palace
    palace.close()


@pytest.fixture
def model() -> Iterator[minilm.OnnxEmbedder]:
    loaded = minilm.load(registry.DEFAULT_MODEL, places.models_dir(), threads=2)
    yield loaded
    loaded.close()


# ------------------------------------------------------------------------------------------------ threads and priority


def test_half_of_the_cores_embed_unless_the_settings_say_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, expected in ((1, 1), (2, 1), (3, 1), (8, 4)):
        monkeypatch.setattr(minilm, "usable_cores", lambda cores=cores: cores)
        assert build.threads(Config()) == expected
    assert build.threads(Config(embed=EmbedConfig(threads=3))) == 3


@pytest.mark.model
@pytest.mark.skipif(sys.platform != "linux", reason="priorities are those of a process elsewhere")
def test_passages_are_embedded_at_low_priority_and_questions_at_the_callers(model: minilm.OnnxEmbedder) -> None:
    found: dict[bool, set[int]] = {True: set(), False: set()}
    run = model._session.run

    class Watched:
        def run(self, *arguments: Any) -> Any:
            is_pool = threading.current_thread().name.startswith("palace-embed")
            found[is_pool].add(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
            return run(*arguments)

    model._session = Watched()
    model.embed_passages(["One text.", "Another text.", "A third."])
    model.embed_query("A question?")
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert found == {True: {max(own, priority.NICE)}, False: {own}}


@pytest.mark.model
def test_a_question_is_embedded_while_every_thread_of_the_pool_is_busy(model: minilm.OnnxEmbedder) -> None:
    run = model._session.run
    is_full, go_on = threading.Barrier(3), threading.Event()

    class Held:
        def run(self, *arguments: Any) -> Any:
            if threading.current_thread().name.startswith("palace-embed") and not go_on.is_set():
                is_full.wait(30)
                assert go_on.wait(30)
            return run(*arguments)

    expected = model.embed_query("A question?")
    model._session = Held()
    backlog = threading.Thread(target=model.embed_passages, args=([f"Text {n}." for n in range(20)],))
    backlog.start()
    try:
        is_full.wait(30)
        assert model.embed_query("A question?").tolist() == expected.tolist()
        assert backlog.is_alive()
    finally:
        go_on.set()
        backlog.join(30)


# ----------------------------------------------------------------------------------------------------- pause and stop


def test_while_paused_nothing_is_mined_or_embedded_and_questions_are_answered(
    make_palace: Any, transcripts: Path, wait_until: Wait
) -> None:
    palace = make_palace()
    tell(transcripts, 20)
    palace.mine([str(transcripts)], wait=True)
    palace.pause()
    assert palace.status().embedding.is_paused
    tell(transcripts, 40, name="b")
    palace.mine([str(transcripts)])
    threading.Event().wait(0.3)  # the span that is looked at
    assert (palace.status().sources_pending, palace.status().vectors) == (2, 20)
    answer = palace.recall(RecallQuery(text="gauge 3", now=NOW))
    assert (answer.freshness.sources_pending, answer.freshness.vectors_used) == (2, True)
    palace.resume()
    wait_until(lambda: (palace.status().vectors, palace.status().vectors_pending) == (40, 0))
    assert not palace.status().embedding.is_paused


def test_nobody_waits_for_a_paused_palace(make_palace: Any, transcripts: Path) -> None:
    palace = make_palace()
    tell(transcripts, 3)
    palace.pause()
    with pytest.raises(RequestError, match="paused"):
        palace.mine([str(transcripts)], wait=True)
    palace.resume()
    assert palace.mine([str(transcripts)], wait=True).vectors_added == 3


def test_a_pause_ends_the_batch_that_is_under_way_and_whoever_waits_is_told(
    make_palace: Any, transcripts: Path, wait_until: Wait
) -> None:
    palace, began = make_palace(), threading.Event()

    class Slow(HashingEmbedder):
        def embed_passages(self, texts: Sequence[str], stop: StopSignal | None = None) -> Float32:
            began.set()
            while palace.embedding().is_paused is False and stop is not None and not stop.is_set():
                time.sleep(0.005)
            return super().embed_passages(texts, stop)

    palace._models = palace._embedding._models = Models(ModelHost("", Slow(), None))
    tell(transcripts, 3)
    told: list[BaseException] = []

    def wait() -> None:
        try:
            palace.mine([str(transcripts)], wait=True)
        except RequestError as exc:
            told.append(exc)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert began.wait(10)
    palace.pause()
    waiting.join(10)
    assert "paused" in str(told[0])
    assert palace.status().vectors == 0
    assert palace._embedding.error == ""


def test_a_pause_does_not_outlive_the_daemon(make_palace: Any, transcripts: Path) -> None:
    first = make_palace()
    first.pause()
    first.close()
    tell(transcripts, 3)
    second = make_palace()
    assert not second.embedding().is_paused
    assert second.mine([str(transcripts)], wait=True).vectors_added == 3


@pytest.mark.model
def test_a_large_backlog_is_left_at_once_when_all_is_to_end(
    with_model: Any, transcripts: Path, wait_until: Wait
) -> None:
    tell(transcripts, 150, words=120)
    with_model.mine([str(transcripts)])
    wait_until(lambda: with_model.status().vectors > 0)
    wait_until(lambda: with_model.status().sources_pending == 0)
    assert with_model.status().vectors_pending > 50
    with_model.close()
    assert not with_model._embedding._thread.is_alive()
    connection = sqlite.open_reader(sqlite.database_path(with_model._config.data_dir))
    assert vectors.waiting_count(connection) > 0, "nothing was embedded but what had begun"
    connection.close()


# ----------------------------------------------------------------------------------------------------------- loading


@pytest.mark.model
def test_words_answer_before_the_model_is_there_and_say_so(
    with_model: Any, transcripts: Path, wait_until: Wait
) -> None:
    go_on = threading.Event()
    load = with_model._models.wanted._loader

    def held(stop: StopSignal) -> Embedder:
        assert go_on.wait(30)
        return load(stop)  # type: ignore[no-any-return]

    with_model._models.wanted._loader = held
    tell(transcripts, 5)
    with_model.mine([str(transcripts)])
    wait_until(lambda: with_model.status().sources_pending == 0)
    answer = with_model.recall(RecallQuery(text="gauge 3", now=NOW))
    assert answer.hits[0].text.startswith("> What of gauge 3?")
    assert (answer.freshness.vectors_used, answer.freshness.vectors_reason) == (False, "the model is being loaded")
    assert (with_model.status().model_state, with_model.embedding().model_load_ms) == ("loading", None)
    go_on.set()
    wait_until(lambda: with_model.status().vectors_pending == 0)
    assert with_model.embedding().model_load_ms > 0
    assert with_model.recall(RecallQuery(text="gauge 3", now=NOW)).freshness.vectors_used


# ------------------------------------------------------------------------------------------------------------ memory


def test_however_long_the_queue_no_more_than_a_batch_is_in_memory(
    make_palace: Any, transcripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[int] = []
    with_texts = vectors.with_texts

    def noting(connection: Any, hashes: Sequence[bytes]) -> list[tuple[bytes, str]]:
        rendered.append(len(hashes))
        return with_texts(connection, hashes)

    class Picky(HashingEmbedder):
        def embed_passages(self, texts: Sequence[str], stop: StopSignal | None = None) -> Float32:
            if any(text.startswith("> What of gauge 4") for text in texts):
                raise ValueError("refused")
            return super().embed_passages(texts, stop)

    monkeypatch.setattr(vectors, "with_texts", noting)
    palace = make_palace()
    palace._models = palace._embedding._models = Models(ModelHost("", Picky(), None))
    tell(transcripts, 500)
    report = palace.mine([str(transcripts)], wait=True)
    refused = 1 + 10 + 100  # 4, 40 to 49, 400 to 499
    assert (report.vectors_added, palace.status().vectors_pending) == (500 - refused, refused)
    assert 1 <= max(rendered) <= embedding.BATCH_TEXTS


# -------------------------------------------------------------------------------------------------------------- pace


def test_the_pace_is_that_of_the_last_minute_without_its_pauses() -> None:
    now = [100.0]
    pace = Pace(lambda: now[0])
    assert pace.per_s() == 0
    now[0] = 102.0
    pace.note(100.0, 16)
    now[0] = 130.0
    pace.note(128.0, 32)
    assert pace.per_s() == 12
    now[0] = 180.0
    assert pace.per_s() == 16
    now[0] = 300.0
    assert pace.per_s() == 0
