"""One model takes over from another while questions are answered."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, turn

from palace_daemon import config
from palace_daemon.core.ports import Embedder, Float32, StopSignal
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.errors import ConfigError, ModelError
from palace_daemon.model import RecallQuery
from palace_daemon.service.build import open_read_only
from palace_daemon.service.model_host import ModelHost
from palace_daemon.service.models import Models

Wait = Callable[..., None]
NOW = 1_800_000_000_000
OLD, NEW = "old", "new"


class GatedEmbedder(HashingEmbedder):
    """Embeds so many texts, then waits until more are allowed; remembers what it embedded."""

    def __init__(self, model_id: str, allowed: int = 1_000_000, dim: int = 384) -> None:
        super().__init__(dim=dim, model_id=model_id)
        self.embedded: list[str] = []
        self.questions = 0
        self._allowed = allowed
        self._changed = threading.Condition()

    def allow(self, count: int) -> None:
        with self._changed:
            self._allowed = count
            self._changed.notify_all()

    def embed_passages(self, texts: Sequence[str], stop: StopSignal | None = None) -> Float32:
        with self._changed:
            while self._allowed < len(self.embedded) + len(texts) and not (stop is not None and stop.is_set()):
                self._changed.wait(0.01)
        matrix = super().embed_passages(texts, stop)
        self.embedded += texts
        return matrix


class Bench:
    """A palace whose model changes at run time: any of ``known``, by its fingerprint."""

    def __init__(self, palace: Any, first: HashingEmbedder) -> None:
        self.palace = palace
        self.known: dict[str, HashingEmbedder] = {first.fingerprint: first}
        self.models = Models(ModelHost(first.model_id, first, None), self._open)
        palace._models = palace._embedding._models = self.models
        palace._recall._model_state = self.models.state

    def _open(self, space: str) -> ModelHost | None:
        found = self.known.get(space)
        return ModelHost(found.model_id, found, None) if found else None

    def want(self, embedder: HashingEmbedder) -> None:
        self.known[embedder.fingerprint] = embedder
        embedder._is_closed = False
        self.models.want(ModelHost(embedder.model_id, embedder, None))

    def ask(self, text: str = "where is lever 3?") -> Any:
        return self.palace.recall(RecallQuery(text=text, now=NOW))

    def covered(self) -> dict[str, tuple[str, int, int]]:
        return {one.model: (one.role, one.vectors, one.texts) for one in self.palace.embedding().coverage}


def fill(palace: Any, transcripts: Path, count: int = 60) -> None:
    lines = [turn(n, f"Where is lever {n}?", f"Under desk {n} of the hall.") for n in range(count)]
    append(transcripts / "a.jsonl", "".join(lines))
    palace.mine([str(transcripts)], wait=True)


@pytest.fixture
def bench(make_palace: Any, transcripts: Path) -> Bench:
    made = Bench(make_palace(), GatedEmbedder(OLD))
    fill(made.palace, transcripts)
    return made


# ------------------------------------------------------------------------------------------------------ the switch


def test_while_a_model_is_being_filled_answers_are_those_of_the_former_to_the_bit(
    bench: Bench, wait_until: Wait
) -> None:
    before = bench.ask()
    new = GatedEmbedder(NEW, allowed=32, dim=64)
    bench.want(new)
    wait_until(lambda: bench.covered().get(NEW) == ("next", 32, 60))
    during = bench.ask()
    assert during.hits == before.hits
    assert (during.freshness.model, during.freshness.vectors_used, during.freshness.vectors_reason) == (OLD, True, "")
    assert [(one.model, one.role, one.vectors) for one in during.freshness.coverage] == [
        (OLD, "answering", 60),
        (NEW, "next", 32),
    ]
    assert bench.palace.embedding().is_switching
    new.allow(1_000)
    wait_until(lambda: not bench.palace.embedding().is_switching)
    after = bench.ask()
    assert (after.freshness.model, after.freshness.vectors_used) == (NEW, True)
    assert bench.covered() == {NEW: ("answering", 60, 60), OLD: ("previous", 60, 60)}


def test_each_text_is_embedded_once_the_newest_first(bench: Bench, transcripts: Path, wait_until: Wait) -> None:
    same = "".join(turn(n, "Again?", "The same.", session=f"s{n}") for n in range(100, 110))
    append(transcripts / "b.jsonl", same)
    bench.palace.mine([str(transcripts)], wait=True)
    new = GatedEmbedder(NEW)
    bench.want(new)
    wait_until(lambda: not bench.palace.embedding().is_switching)
    assert len(new.embedded) == len(set(new.embedded)) == 61
    assert [text.split("?")[0] for text in new.embedded[:3]] == [
        "> Again",
        "> Where is lever 59",
        "> Where is lever 58",
    ]


def test_what_is_said_meanwhile_has_the_answering_models_vector(
    bench: Bench, transcripts: Path, wait_until: Wait
) -> None:
    new = GatedEmbedder(NEW, allowed=16)
    bench.want(new)
    wait_until(lambda: len(new.embedded) == 16)
    append(transcripts / "a.jsonl", turn(70, "Where is the zanzibar?", "In the bay."))
    bench.palace.mine([str(transcripts)])
    wait_until(lambda: bench.palace.status().sources_pending == 0)
    new.allow(32)  # the batch that the loop had begun when the text came; then the text's turn has come
    wait_until(lambda: bench.palace.status().vectors_pending == 0)
    answer = bench.ask("where is the zanzibar?")
    assert "cosine" in answer.hits[0].parts
    assert (answer.freshness.model, answer.freshness.vectors_pending) == (OLD, 0)
    new.allow(1_000)
    wait_until(lambda: not bench.palace.embedding().is_switching)
    assert bench.covered()[NEW] == ("answering", 61, 61)


def test_going_back_embeds_nothing(bench: Bench, wait_until: Wait) -> None:
    bench.want(GatedEmbedder(NEW))
    wait_until(lambda: not bench.palace.embedding().is_switching)
    again = GatedEmbedder(OLD)
    bench.want(again)
    wait_until(lambda: bench.ask().freshness.model == OLD)
    assert again.embedded == []


def test_a_switch_can_be_given_up(bench: Bench, wait_until: Wait) -> None:
    new = GatedEmbedder(NEW, allowed=16)
    bench.want(new)
    wait_until(lambda: bench.covered().get(NEW) == ("next", 16, 60))
    bench.want(bench.known["old@1"])
    new.allow(1_000)
    wait_until(lambda: not bench.palace.embedding().is_switching)
    assert bench.covered()[OLD] == ("answering", 60, 60)
    assert bench.covered()[NEW][0] == "previous"


def test_questions_are_answered_all_the_time(bench: Bench, wait_until: Wait) -> None:
    faults: list[BaseException] = []
    used: set[tuple[str, bool]] = set()
    is_done = threading.Event()

    def questions() -> None:
        try:
            while not is_done.is_set():
                answer = bench.ask()
                used.add((answer.freshness.model, answer.freshness.vectors_used))
                assert answer.hits[0].text.startswith("> Where is lever 3?")
        except BaseException as exc:  # noqa: BLE001 - shown by the assertion below
            faults.append(exc)

    threads = [threading.Thread(target=questions) for _ in range(2)]
    for thread in threads:
        thread.start()
    for model_id in (NEW, "third", OLD, NEW):
        bench.want(GatedEmbedder(model_id, dim=64 if model_id == NEW else 384))
        wait_until(lambda: not bench.palace.embedding().is_switching)
    is_done.set()
    for thread in threads:
        thread.join(60)
    assert faults == []
    assert {is_used for _, is_used in used} == {True}


def test_a_start_with_another_model_does_not_wait_for_the_queue_of_all_texts(
    bench: Bench, make_palace: Any, wait_until: Wait
) -> None:
    bench.palace.close()
    again = make_palace()
    again.pause()
    again.start()
    held = again._store.spaces()
    assert (held.answering.model, held.next) == ("old@1", None)
    assert again.embedding().is_switching
    again.resume()
    wait_until(lambda: again._store.spaces().answering[:2] == ("hashing@1", 60))


def test_another_version_of_the_same_model_is_never_compared_with_the_stored_vectors(
    bench: Bench, wait_until: Wait
) -> None:
    newer = GatedEmbedder(OLD, allowed=16)
    newer.fingerprint = "old@2"
    bench.known.clear()  # an upgrade: no process of this version can make the former vectors
    bench.models._others.clear()
    former, bench.models._wanted = bench.models._wanted, ModelHost(OLD, newer, None)
    bench.palace._embedding.wake()
    wait_until(lambda: bench.palace.status().vectors == 16)
    answer = bench.ask()
    assert [(one.space, one.role, one.vectors) for one in answer.freshness.coverage] == [("old@2", "answering", 16)]
    assert answer.freshness.vectors_pending == 44
    newer.allow(1_000)
    wait_until(lambda: bench.ask().freshness.vectors_pending == 0)
    bench.palace._embedding.wake()
    wait_until(lambda: _models(bench.palace) == ["old@2"])
    former.close()


def _models(palace: Any) -> list[str]:
    with palace._store.read() as connection:
        return [
            row[0] for row in connection.execute("SELECT model FROM spaces WHERE number IN (SELECT space FROM vectors)")
        ]


def test_a_model_that_cannot_be_loaded_leaves_the_former_answering(bench: Bench, wait_until: Wait) -> None:
    def fail(stop: StopSignal) -> Embedder:
        raise ModelError("offline")

    bench.models.want(ModelHost(NEW, None, fail, space="new@1"))
    wait_until(lambda: bench.covered().get(NEW) == ("next", 0, 60))
    wait_until(lambda: bench.palace.status().model_state == "failed: offline")
    answer = bench.ask()
    assert (answer.freshness.model, answer.freshness.vectors_used) == (OLD, True)


def test_a_model_that_cannot_be_loaded_leaves_nothing_without_a_vector(
    make_palace: Any, transcripts: Path, wait_until: Wait
) -> None:
    def fail(stop: StopSignal) -> Embedder:
        raise ModelError("offline")

    old = GatedEmbedder(OLD, allowed=16)
    bench = Bench(make_palace(), old)
    append(transcripts / "a.jsonl", "".join(turn(n, f"Where is lever {n}?", f"Under desk {n}.") for n in range(40)))
    bench.palace.mine([str(transcripts)])
    wait_until(lambda: len(old.embedded) == 16)
    bench.models.want(ModelHost(NEW, None, fail, space="new@1"))
    old.allow(32)  # the batch that it had begun: the rest is left to the next model
    wait_until(lambda: bench.palace.status().model_state == "failed: offline")
    old.allow(1_000)
    wait_until(lambda: bench.palace.status().vectors_pending == 0)
    assert bench.covered() == {OLD: ("answering", 40, 40), NEW: ("next", 0, 40)}


def test_models_that_are_chosen_while_it_rests_are_not_all_held(bench: Bench, wait_until: Wait) -> None:
    bench.palace.pause()
    for number in range(5):
        bench.want(GatedEmbedder(f"model-{number}"))
    wait_until(lambda: set(bench.models._others) <= {"old@1"})
    assert bench.ask().freshness.model == OLD


def test_a_model_that_refuses_a_text_takes_over_without_it(bench: Bench, wait_until: Wait) -> None:
    class Picky(GatedEmbedder):
        def embed_passages(self, texts: Sequence[str], stop: StopSignal | None = None) -> Float32:
            if any("lever 30?" in text for text in texts):
                raise ModelError("too long")
            return super().embed_passages(texts, stop)

    bench.want(Picky(NEW))
    wait_until(lambda: not bench.palace.embedding().is_switching)
    assert bench.covered()[NEW] == ("answering", 59, 60)
    assert bench.ask().freshness.vectors_reason == "some texts still lack a vector"


def test_what_a_model_refused_is_told_only_while_it_is_of_use(bench: Bench, wait_until: Wait) -> None:
    class Picky(GatedEmbedder):
        def embed_passages(self, texts: Sequence[str], stop: StopSignal | None = None) -> Float32:
            if any("lever 59?" in text for text in texts):
                raise ModelError("too long")
            return super().embed_passages(texts, stop)

    picky = Picky(NEW, allowed=32)
    bench.want(picky)
    wait_until(lambda: bench.palace._embedding._describe_refused() == "1 text cannot be embedded: too long")
    bench.want(bench.known["old@1"])
    picky.allow(1_000)  # it may have come to a text that waits for this
    wait_until(lambda: bench.palace._embedding._describe_refused() == "")


def test_without_a_daemon_the_model_that_answers_is_the_one_of_the_store(bench: Bench) -> None:
    old = bench.known["old@1"]
    palace = open_read_only(bench.palace._config, embedder=old)
    try:
        answer = palace.recall(RecallQuery(text="where is lever 3?", now=NOW))
        assert answer.hits == bench.ask().hits
        assert [one.role for one in palace.embedding().coverage] == ["answering"]
    finally:
        palace._store.close()


# ------------------------------------------------------------------------------------------------------- choosing


def test_choosing_a_model_writes_the_settings(palace: Any) -> None:
    palace._open_model = lambda model_id: ModelHost(model_id, HashingEmbedder(model_id=model_id), None)
    palace.use_model("all-minilm-l6-v2-fp32")
    assert config.load()[0].embed.model == "all-minilm-l6-v2-fp32"
    assert palace.status().model == "all-minilm-l6-v2-fp32"
    assert [view.model_id for view in palace.models() if view.is_active] == ["all-minilm-l6-v2-fp32"]


def test_an_unknown_model_changes_nothing(palace: Any) -> None:
    with pytest.raises(ModelError, match="unknown model 'bogus'"):
        palace.use_model("bogus")
    assert config.load()[0].embed.model == config.EmbedConfig().model
    assert palace.status().model == "hashing"


def test_choices_at_the_same_moment_leave_one_model_in_settings_and_daemon(palace: Any) -> None:
    palace._open_model = lambda model_id: ModelHost(model_id, HashingEmbedder(model_id=model_id), None)
    faults: list[Exception] = []

    def choose(model_id: str) -> None:
        try:
            for _ in range(10):
                palace.use_model(model_id)
        except Exception as exc:  # noqa: BLE001 - shown by the assertion below
            faults.append(exc)

    threads = [threading.Thread(target=choose, args=(f"model-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert faults == []
    assert palace.status().model == config.load()[0].embed.model


def test_where_the_environment_decides_about_the_model_choosing_one_is_refused(
    palace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "PALACE_EMBED_MODEL", "all-minilm-l6-v2-int8")
    with pytest.raises(ConfigError, match="PALACE_EMBED_MODEL is set"):
        palace.use_model("all-minilm-l6-v2-fp32")
    assert palace.status().model == "hashing"
