"""Bounds from rounded vectors, filters first and close reading of few give what reading everything gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palace_daemon.core import rank
from palace_daemon.core.analysis import TermPlaces
from palace_daemon.core.ports import Float32
from palace_daemon.embed.tokens import MiniLmTokenCounter
from palace_daemon.service import ranking, scope
from palace_daemon.service.cosines import ROUNDING, Cosines
from palace_daemon.service.ranking import Ranking, Words, evidence
from palace_daemon.service.scope import Scope
from palace_daemon.store import matrix, statement_mirror
from palace_daemon.store.columns import NEVER
from palace_daemon.store.mirror import Snapshot
from palace_daemon.store.postings import PostingsEdit
from palace_daemon.store.snapshot import NO_DRAWERS
from palace_daemon.store.store import Store

DIM = 24
TERMS = ("lamp", "kiln", "moss")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(
        tmp_path / "palace.db",
        counter=MiniLmTokenCounter(),
        max_chars={"exchange": 2_000, "paragraph": 800},
        min_user_turns=3,
        project_of=lambda cwd: cwd,
    )
    yield opened
    opened.close()


def unit(rows: Float32) -> Float32:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def cloud(kind: str, count: int, dice: np.random.Generator) -> Float32:
    """Return vectors that are hard to tell apart, each kind in its own way."""
    drawn = dice.standard_normal((count, DIM)).astype(np.float32)
    if kind == "near each other":
        drawn = unit(drawn[:1]) + 1e-4 * drawn
    if kind == "repeated":
        drawn = drawn[dice.integers(0, min(5, count), count)]
    if kind == "of one number":
        drawn = np.eye(DIM, dtype=np.float32)[dice.integers(0, DIM, count)]
    return unit(drawn)


def state(kind: str, count: int, seed: int) -> Snapshot:
    """Return drawers of which some are dead, superseded or without a vector; three statements to two exchanges."""
    dice = np.random.default_rng(seed)
    rows = np.arange(count)
    exchanges = np.sort(dice.integers(0, count // 2 + 1, count))
    owners = np.sort(dice.integers(0, count // 2 + 4, 3 * count // 4))
    lacks = dice.random(count) < dice.choice([0.0, 0.1])
    shown = cloud(kind, count, dice)
    return dataclasses.replace(
        NO_DRAWERS,
        generation=5,
        drawers=rows + 1,
        exchanges=exchanges,
        sessions=exchanges // 3,
        projects=np.zeros(count, np.int32),
        agents=np.zeros(count, np.int32),
        started_at=dice.integers(1, 40, count),
        lengths=dice.integers(1, 60, count).astype(np.float64),
        is_superseded=dice.random(count) < 0.1,
        died_at=np.where(dice.random(count) < 0.1, 4, NEVER),
        embedded_at=np.where(lacks, NEVER, 1),
        newest_rows=np.concatenate([[-1], rows]),
        vectors=matrix.of_vectors(np.where(lacks[:, None], np.float32(0.0), shown)),
        statements=statement_mirror.of_vectors(owners, dice.random(len(owners)) < 0.3, cloud(kind, len(owners), dice)),
        project_names=("/work/lamp",),
        agent_names=("claude-code",),
        model="m",
    )


def index(store: Store, drawers: Snapshot, seed: int) -> None:
    dice = np.random.default_rng(seed)
    edit = PostingsEdit()
    for drawer_id in drawers.drawers.tolist():
        held = {term: TermPlaces(int(dice.integers(1, 5)), 1 << int(dice.integers(0, 9))) for term in TERMS}
        edit.replace(drawer_id, {}, {term: one for term, one in held.items() if dice.random() < 0.4})
    store.write(edit.write)


def asked(connection: Any, drawers: Snapshot, mask: Any, query: Float32, *, is_request: bool) -> Ranking:
    places = Scope(drawers, mask)
    cosines = Cosines(places, lambda: query, wishes=is_request)
    words = Words(connection, places, TERMS, None)
    known = evidence(connection, places, words, cosines, (), is_request=is_request)
    return Ranking(connection, places, words, rank.score(known), cosines)


def all_totals(drawers: Snapshot, found: Ranking, query: Float32, *, is_request: bool) -> dict[int, float]:
    """Return the total of every drawer in scope by id, from the vectors themselves."""
    exact = drawers.vectors.exact
    said = drawers.statements
    assert exact is not None
    assert said.vectors.exact is not None
    everything = found.drawers
    places = np.flatnonzero(everything.in_scope)
    rows = everything.rows_at(places)
    cosines = rank.exact_cosines(exact[rows], query)
    has_vector = drawers.has_vector[rows]
    bm25 = found.words.bm25(places)
    typical = rank.typical_cosine(cosines[has_vector & (bm25 > 0.0)])
    cosines = np.where(has_vector, cosines, typical)
    owners = said.exchanges[said.runs]
    by_statement = rank.exact_cosines(said.vectors.exact, query)
    w, total = rank.WEIGHTS, {}
    sentences = rank.sentence_coverage(found.words.terms, found.words.collection, places)
    covered = float(found.words.coverage(places).max(initial=0.0))
    share = rank.confidence(covered) * (0.4 if is_request else 1.0)
    words = rank.over_maximum(bm25, float(bm25.max(initial=0.0)))
    for at, row in enumerate(rows.tolist()):
        own = owners == drawers.exchanges[row]
        stated = float(by_statement[own].max(initial=-1.0))
        wished = by_statement[own & said.is_wish].max(initial=-1.0, keepdims=True)
        summed = w.bm25 * share * float(words[at]) + w.cosine * float(cosines[at])
        summed += w.sentence * (0.4 if is_request else 1.0) * float(sentences[at])
        summed += w.statement * max(stated, float(cosines[at]))
        summed += w.wish * float(rank.wish_lift(wished)[0]) if is_request else 0.0
        total[int(drawers.drawers[row])] = summed
    return total


@pytest.mark.parametrize("kind", ["random", "near each other", "repeated", "of one number"])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.1, 0.02])
@pytest.mark.parametrize("is_request", [False, True])
def test_the_best_are_those_of_reading_everything(
    store: Store, kind: str, share: float, is_request: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "CANDIDATES_MIN", 1)
    monkeypatch.setattr(matrix, "CHUNK_ROWS", 64)
    drawers = state(kind, 300, seed=3)
    index(store, drawers, seed=4)
    dice = np.random.default_rng(5)
    for query in cloud(kind, 3, dice):
        mask = drawers.is_live & (dice.random(300) < share)
        answers = []
        with store.read() as connection:
            for gathered in (0.0, 1.0):
                monkeypatch.setattr(scope, "GATHERED_MAX", gathered)
                found = asked(connection, drawers, mask, query, is_request=is_request)
                expected = all_totals(drawers, found, query, is_request=is_request)
                assert found.count == len(expected) == int(mask.sum())
                for count in (1, 7, 10_000):
                    close = found.best(count)
                    ids = found.drawers.ids[close.rows].tolist()
                    assert dict(zip(ids, close.totals.tolist(), strict=True)) == pytest.approx(
                        {one: expected[one] for one in ids}, abs=1e-9
                    )
                    best = sorted(expected.values(), reverse=True)[: len(ids)]
                    assert close.totals.tolist() == pytest.approx(best, abs=1e-9)
                    assert len(ids) >= min(count, found.count)
                    answers.append(
                        [ids, close.totals.tobytes(), {name: v.tobytes() for name, v in close.parts.items()}]
                    )
                whole = found.bound[np.isfinite(found.bound)]
                assert (found.read(np.flatnonzero(np.isfinite(found.bound))).totals <= whole + ROUNDING).all()
        assert answers[:3] == answers[3:]


@pytest.mark.parametrize("count", [0, 300])
def test_words_of_drawers_that_are_not_there_find_nothing(store: Store, count: int) -> None:
    drawers = state("random", count, seed=8) if count else NO_DRAWERS
    index(store, drawers, seed=4)
    with store.read() as connection:
        expected = Words(connection, Scope(drawers, drawers.is_live), TERMS, None)
        edit = PostingsEdit()
        edit.replace(count + 7, {}, dict.fromkeys(TERMS, TermPlaces(1, 1)))
        store.write(edit.write)
    with store.read() as connection:
        found = Words(connection, Scope(drawers, drawers.is_live), TERMS, None)
    assert found.most_bm25.tobytes() == expected.most_bm25.tobytes()
    assert [one.matches for one in found.terms] == [one.matches for one in expected.terms]


def test_superseded_drawers_in_scope_count_and_those_outside_do_not(store: Store) -> None:
    drawers = state("random", 300, seed=8)
    index(store, drawers, seed=4)
    mask = drawers.is_held & (drawers.sessions < 20)
    with store.read() as connection:
        words = Words(connection, Scope(drawers, mask), TERMS, None)
        alone = Words(connection, Scope(drawers, drawers.is_live & mask), TERMS, None)
    assert words.collection.count == int((drawers.is_live | mask).sum()) > alone.collection.count
    assert alone.collection.count == drawers.live_count
    assert words.terms[1].matches > alone.terms[1].matches


def test_many_drawers_without_a_vector_get_a_cosine_that_is_typical(store: Store) -> None:
    drawers = state("random", 900, seed=2)
    drawers = dataclasses.replace(drawers, embedded_at=np.where(np.arange(900) % 3 == 0, NEVER, 1))
    index(store, drawers, seed=4)
    query = cloud("random", 1, np.random.default_rng(6))[0]
    with store.read() as connection:
        found = asked(connection, drawers, drawers.is_live, query, is_request=False)
    exact = drawers.vectors.exact
    assert exact is not None
    known = drawers.has_vector & drawers.is_live & found.words.matches
    assert int(known.sum()) > ranking.TYPICAL_READ_MAX
    typical = float(np.median(rank.exact_cosines(exact[known], query)))
    assert found._scored.evidence.typical == pytest.approx(typical, abs=2e-3)


def test_few_vectors_are_read_as_they_are_stored(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    whole = matrix.View.read

    def counted(view: matrix.View, connection: Any, rows: Any) -> Float32:
        read.append(len(rows))
        return whole(view, connection, rows)

    monkeypatch.setattr(matrix.View, "read", counted)
    drawers = state("random", 3_000, seed=1)
    drawers = dataclasses.replace(drawers, embedded_at=np.ones(3_000, np.int64))
    query = cloud("random", 1, np.random.default_rng(6))[0]
    with store.read() as connection:
        asked(connection, drawers, drawers.is_live, query, is_request=False).best(10)
    assert 10 <= sum(read) < 150
