"""The synthetic store: built through the store's own API, with vectors that lie as real ones do."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palace_daemon.bench.scale import build, clients, exactness, vectors
from palace_daemon.bench.scale.questions import draw_questions
from palace_daemon.bench.scale.vectors import Cloud, nearest
from palace_daemon.client import NotRunningError
from palace_daemon.core.ports import Float32
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.service.ranking import Close, Ranking
from palace_daemon.store.store import Store

DRAWERS = 120


def silent(*_: Any) -> None:
    pass


def built(folder: Path, seed: int = 0) -> tuple[Store, build.Built, vectors.Real]:
    embedder = HashingEmbedder()
    store = build.open_store(folder)
    store.use_model(embedder.fingerprint)
    report = build.fill(store, DRAWERS, seed, silent)
    real = vectors.embed_some(store, embedder, 30, seed, silent)
    vectors.draw_rest(store, embedder, real, seed, silent)
    return store, report, real


def rows(store: Store, query: str) -> list[tuple[Any, ...]]:
    with store.read() as connection:
        return connection.execute(query).fetchall()


def test_the_store_holds_what_was_drawn_and_every_text_has_its_vector(tmp_path: Path) -> None:
    store, report, real = built(tmp_path)
    try:
        assert DRAWERS <= report.drawers < DRAWERS + 150
        assert rows(store, "SELECT count(*) FROM drawers") == [(report.drawers,)]
        assert rows(store, "SELECT count(*) FROM exchanges") == [(report.exchanges,)]
        assert rows(store, "SELECT sum(length(CAST(user_text||reply_text AS BLOB))) FROM exchanges") == [
            (report.text_bytes,)
        ]
        assert vectors.pending(store) == 0
        with store.read_with_drawers() as (_, drawers):
            assert drawers.has_vector.all()
            assert len(drawers.ids) == report.drawers
            assert len(drawers.agent_names) > 1
        assert 30 <= len(real.texts.drawers) < 80
        assert len(real.drawers) == len(set(real.texts.drawers))
    finally:
        store.close()


def test_a_rebuilt_index_is_the_index_that_was_built(tmp_path: Path) -> None:
    store, report, _ = built(tmp_path)
    query = "SELECT term, length(data) FROM postings ORDER BY term, block"
    try:
        before = rows(store, query)
        again = store.rebuild_index()
        assert again.drawers_added == report.drawers
        terms = {term for term, _ in before}
        assert {term for term, _ in rows(store, query)} == terms
        assert vectors.pending(store) == 0
    finally:
        store.close()


def test_the_same_seed_builds_the_same_store_and_asks_the_same(tmp_path: Path) -> None:
    found = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        store, _, real = built(tmp_path / name, seed=3)
        try:
            asked = list(itertools.islice(draw_questions(real.texts, 3), 20))
            texts = rows(store, "SELECT key, user_text, reply_text FROM exchanges ORDER BY id")
            found.append((asked, texts, rows(store, "SELECT text_hash, vector FROM vectors ORDER BY text_hash")))
        finally:
            store.close()
    assert found[0] == found[1]


def test_no_source_of_the_store_is_looked_for(tmp_path: Path) -> None:
    store, report, _ = built(tmp_path)
    try:
        assert rows(store, "SELECT state, count(*) FROM sources GROUP BY state") == [("gone", report.sessions)]
    finally:
        store.close()


def test_a_question_leaves_out_words_of_the_sentence_that_it_asks_for(tmp_path: Path) -> None:
    store, _, real = built(tmp_path)
    store.close()
    asked = list(itertools.islice(draw_questions(real.texts, 0), 50))
    held = "\n".join(real.texts.drawers)
    assert all(question.sentence in held for question in asked)
    assert len({question.text for question in asked}) > 40
    assert sum(question.sentence.lower().rstrip(".?") in question.text for question in asked) < 10


def clusters(count: int, each: int, dim: int) -> Float32:
    chance = np.random.Generator(np.random.PCG64(1))
    centres = chance.standard_normal((count, dim)) + 0.7
    found = np.repeat(centres, each, 0) + 0.6 * chance.standard_normal((count * each, dim))
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)


def test_the_first_ten_are_compared_with_the_scores_of_every_drawer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _, real = built(tmp_path)
    questions = list(itertools.islice(draw_questions(real.texts, 0), 12))
    best = Ranking.best

    def all_but_the_first(self: Ranking, count: int) -> Close:
        close = best(self, count)
        return Close(close.rows[1:], {}, close.totals[1:])

    try:
        answered: list[None] = []
        found = exactness.measure(store, HashingEmbedder(), questions, lambda: answered.append(None))
        assert found == {"n": 12, "equal": 12}
        assert len(answered) == 12
        monkeypatch.setattr(Ranking, "best", all_but_the_first)
        assert exactness.measure(store, HashingEmbedder(), questions, lambda: None) == {"n": 12, "equal": 0}
    finally:
        store.close()


def test_drawn_vectors_are_as_dense_and_as_far_apart_as_the_real_ones() -> None:
    real = clusters(20, 15, 64)
    drawn = Cloud(real, np.random.Generator(np.random.PCG64(2))).draw(2_000)
    assert drawn.dtype == np.float32
    assert np.linalg.norm(drawn, axis=1) == pytest.approx(1.0, abs=1e-5)
    others = ~np.eye(len(real), dtype=bool)
    apart = ~np.eye(len(drawn), dtype=bool)
    assert (drawn @ drawn.T)[apart].mean() == pytest.approx((real @ real.T)[others].mean(), abs=0.05)
    assert np.median((drawn @ real.T).max(1)) == pytest.approx(nearest(real), abs=0.05)


def test_the_same_stream_draws_the_same_vectors() -> None:
    real = clusters(5, 10, 32)
    one, other = (Cloud(real, np.random.Generator(np.random.PCG64(4))).draw(10) for _ in range(2))
    assert one.tobytes() == other.tobytes()


def test_clients_that_cannot_connect_say_why(
    tmp_path: Path, runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime_dir))
    with pytest.raises(NotRunningError):
        clients.ask_at_once(tmp_path, (), 3)
