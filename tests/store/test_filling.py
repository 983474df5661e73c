from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.exchanges import exchange
from support.mirrors import DIM, embed_pending, fresh, said, said_fresh, view

from palace_daemon.errors import StoreDamagedError
from palace_daemon.store import filling, loading, matrix, mirror, vectors
from palace_daemon.store.mirror import Mirror
from palace_daemon.store.reader import Readers


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a handful of drawers a large store, and of few vectors many steps."""
    monkeypatch.setattr(mirror, "_FEW_ROWS", 4)
    monkeypatch.setattr(mirror, "_WASTE_MAX", 1e9)
    monkeypatch.setattr(filling, "_BATCH_ROWS", 3)
    monkeypatch.setattr(matrix, "CHUNK_ROWS", 8)


def tell(store: Any, save: Any, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        save(
            store, "/a.jsonl", exchange(str(number), f"Jar {number}? We keep it lit.", ordinal=number), is_at_end=False
        )
    embed_pending(store, random.Random(first), 1_000)


def step(store: Any, made: Mirror) -> bool:
    with store.read() as connection:
        return made.fill(connection)


def assert_whole(store: Any, made: Mirror) -> None:
    """Check that a mirror, once filled, says what one says that reads the tables."""
    while step(store, made):
        pass
    with store.read() as connection:
        snapshot = made.at(connection)
    assert snapshot is not None
    assert not snapshot.is_filling
    assert view(snapshot) == fresh(store)
    assert said(snapshot) == said_fresh(store)


def test_while_vectors_are_coming_a_snapshot_is_as_if_there_were_none(store: Any, save: Any) -> None:
    store.use_model("m")
    tell(store, save, 12)
    made = Mirror()
    made.fill_later(lambda: None)
    with store.read() as connection:
        early = made.at(connection)
    assert early is not None
    assert early.is_filling
    assert len(early.drawers) == 12
    assert not early.has_vector.any()
    assert early.vectors.chunks == ()
    assert said(early) == []
    steps = 1
    while step(store, made):
        steps += 1
        with store.read() as connection:
            between = made.at(connection)
        assert between is not None
        assert between.is_filling
    assert steps >= 13 // 3
    with store.read() as connection:
        whole = made.at(connection)
    assert whole is not None
    assert not whole.is_filling
    assert view(whole) == fresh(store)
    assert said(whole) == said_fresh(store)
    assert not early.has_vector.any(), "what somebody works with does not change"


def test_changes_amid_the_filling_are_followed_in_any_history(store: Any, save: Any) -> None:
    store.use_model("m")
    tell(store, save, 8)
    dice = random.Random(4)
    for _ in range(25):
        made = Mirror()
        made.fill_later(lambda: None)
        while step(store, made):
            roll = dice.random()
            name = str(dice.randrange(12))
            if roll < 0.2:
                save(store, "/a.jsonl", withdrawn_keys=(f"claude-code:{name}",), is_at_end=False)
            elif roll < 0.6:
                told = " ".join(dice.choices(["We moved it.", "I always trim it.", f"It is jar {name}."], k=2))
                save(store, "/a.jsonl", exchange(name, told, ordinal=int(name)), is_at_end=False)
                embed_pending(store, dice, dice.randrange(4))
            elif roll < 0.7:
                with store.read() as connection:
                    assert made.at(connection) is not None
        with store.read() as connection:
            whole = made.at(connection)
        assert whole is not None
        assert not whole.is_filling
        assert view(whole) == fresh(store)
        assert said(whole) == said_fresh(store)


def test_a_small_store_is_loaded_at_once(store: Any, save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "_FEW_ROWS", 1_000)
    store.use_model("m")
    tell(store, save, 12)
    made = Mirror()
    made.fill_later(lambda: None)
    with store.read() as connection:
        snapshot = made.at(connection)
        assert snapshot is not None
        assert snapshot.has_vector.all()
        assert not made.fill(connection)


def test_a_model_that_changes_amid_the_filling_has_its_own_vectors_filled_in(store: Any, save: Any) -> None:
    store.use_model("m")
    tell(store, save, 12)
    made = Mirror()
    made.fill_later(lambda: None)
    assert step(store, made)
    store.use_model("n")
    embed_pending(store, random.Random(5), 1_000, "n")
    assert_whole(store, made)


def test_what_is_loaded_anew_later_calls_for_its_vectors_again(store: Any, save: Any) -> None:
    store.use_model("m")
    tell(store, save, 12)
    made = Mirror()
    calls: list[str] = []
    made.fill_later(lambda: calls.append("fill"))
    assert_whole(store, made)
    assert calls == ["fill"]
    store.use_model("n")
    embed_pending(store, random.Random(5), 1_000, "n")
    with store.read() as connection:
        snapshot = made.at(connection)
    assert snapshot is not None
    assert snapshot.is_filling
    assert calls == ["fill", "fill"]
    assert_whole(store, made)


def test_without_somebody_who_fills_all_is_loaded_at_once(store: Any, save: Any) -> None:
    store.use_model("m")
    tell(store, save, 12)
    made = Mirror()
    made.fill_later(lambda: None)
    assert step(store, made)
    made.drop()
    with store.read() as connection:
        snapshot = made.at(connection)
    assert snapshot is not None
    assert not snapshot.is_filling
    assert view(snapshot) == fresh(store)


def test_a_failure_of_another_thread_amid_the_filling_is_made_good(
    store: Any, save: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.use_model("m")
    tell(store, save, 12)
    made = Mirror()
    made.fill_later(lambda: None)
    failures = [made._let_go]  # what following does on an error
    read = filling.Filling.read

    def read_and_fail(self: Any, connection: Any) -> Any:
        batch = read(self, connection)
        while failures:
            failures.pop()()
        return batch

    monkeypatch.setattr(filling.Filling, "read", read_and_fail)
    assert_whole(store, made)


def test_a_filling_of_a_former_model_teaches_nobody_its_width(
    store: Any, save: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store.use_model("m")
    tell(store, save, 12)
    made = Mirror()
    made.fill_later(lambda: None)
    read = filling.Filling.read
    switches = [lambda: store.use_model("n")]

    def read_amid_a_switch(self: Any, connection: Any) -> Any:
        while switches:
            switches.pop()()
            with store.read() as other:
                made.at(other)
        return read(self, connection)

    monkeypatch.setattr(filling.Filling, "read", read_amid_a_switch)
    while step(store, made):
        pass
    with store.read() as connection:
        wider = [hash_ for hash_, _ in vectors.pending(connection, 3)]
    store.save_vectors("n", wider, np.eye(3, 2 * DIM, dtype=np.float32))
    with store.read() as connection:
        snapshot = made.at(connection)
    assert snapshot is not None
    assert np.count_nonzero(snapshot.has_vector) + len(said(snapshot)) >= 3
    assert "another width" not in caplog.text


def test_statements_whose_vector_is_damaged_are_left_out_one_by_one(store: Any, save: Any) -> None:
    store.use_model("m")
    save(store, "/a.jsonl", exchange("1", "We moved the lamp. I always trim it. It is never lit."))
    save(store, "/b.jsonl", exchange("2", "We keep the jar. I never fill it.", ordinal=1))
    embed_pending(store, random.Random(1), 100)
    with store.read_with_drawers() as (_, snapshot):
        assert len(said(snapshot)) == 5
    store.write(
        lambda c: c.execute(
            "UPDATE vectors SET vector=x'00' WHERE text_hash=(SELECT text_hash FROM statements"
            " WHERE exchange_id=1 AND ordinal=1)"
        )
    )
    with store.read() as connection:
        snapshot = Mirror().at(connection)
    assert snapshot is not None
    assert [exchange_id for exchange_id, _, _ in said(snapshot)] == [1, 1, 2, 2]
    assert all(any(vector) for _, _, vector in said(snapshot))


# ------------------------------------------------------------------------------------------------------------ thread


def test_a_store_fills_its_mirror_beside_and_keeps_its_columns(
    open_store: Any, save: Any, wait_until: Callable[..., None]
) -> None:
    store = open_store()
    store.use_model("m")
    tell(store, save, 12)
    store.close()
    store = open_store()
    store.load_words()
    with store.read_with_drawers() as (_, snapshot):
        assert snapshot.is_filling
    store.load_beside()

    def is_whole() -> bool:
        with store.read_with_drawers() as (_, now):
            return not now.is_filling

    wait_until(is_whole)

    def is_kept() -> bool:
        with store.read() as connection:
            return bool(connection.execute("SELECT count(*) FROM kept_columns").fetchone()[0])

    wait_until(is_kept)
    with store.read_with_drawers() as (_, whole):
        assert view(whole) == fresh(store)


def test_what_is_committed_is_followed_though_nobody_asks(
    open_store: Any, save: Any, wait_until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_PAUSE_S", 0.01)
    store = open_store()
    store.load_words()
    store.load_beside()
    store.use_model("m")
    tell(store, save, 12)

    def is_followed() -> bool:
        with store.read() as connection:
            (generation,) = connection.execute("SELECT generation FROM state").fetchone()
        return bool(store._mirror._snapshot.generation == generation)

    wait_until(is_followed)
    assert view(store._mirror._snapshot) == fresh(store)


def test_after_a_switch_of_models_the_vectors_are_read_beside_those_who_ask(
    open_store: Any, save: Any, wait_until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_PAUSE_S", 30.0)  # who asks comes first, and does not wait for this
    store = open_store()
    store.use_model("m")
    tell(store, save, 12)
    store.load_words()
    store.load_beside()
    wait_until(lambda: not store._mirror._snapshot.is_filling)
    store.use_model("n")
    embed_pending(store, random.Random(5), 1_000, "n")
    with store.read_with_drawers() as (_, snapshot):
        assert snapshot.model == "n"
    wait_until(lambda: store._mirror._snapshot.model == "n" and not store._mirror._snapshot.is_filling)
    assert view(store._mirror._snapshot) == fresh(store)


def test_following_goes_on_after_a_failure(
    open_store: Any, save: Any, wait_until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_PAUSE_S", 0.01)
    monkeypatch.setattr(loading, "_LOOK_S", 0.05)
    store = open_store()
    store.use_model("m")
    store.load_words()
    fill, failures = Mirror.fill, [MemoryError()]

    def fill_or_fail(made: Mirror, connection: Any) -> bool:
        if failures:
            raise failures.pop()
        return fill(made, connection)

    monkeypatch.setattr(Mirror, "fill", fill_or_fail)
    store.load_beside()
    tell(store, save, 12)
    wait_until(lambda: store._mirror.is_filled_later and len(store._mirror._snapshot.drawers) == 12)


def test_closing_amid_the_filling_ends_the_thread(open_store: Any, save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store()
    store.use_model("m")
    tell(store, save, 12)
    store.close()
    store = open_store()
    store.load_words()
    monkeypatch.setattr(Mirror, "fill", lambda _mirror, _connection: True)  # there is always more
    store.load_beside()
    store.close()
    assert not store._loading._thread.is_alive()


def test_an_unforeseen_failure_leaves_nobody_with_words_alone(
    open_store: Any, save: Any, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    store = open_store()
    store.use_model("m")
    tell(store, save, 12)
    store.close()
    store = open_store()
    store.load_words()
    failures = [MemoryError()]
    read = filling.Filling.read

    def read_or_fail(self: Any, connection: Any) -> Any:
        if failures:
            raise failures.pop()
        return read(self, connection)

    monkeypatch.setattr(filling.Filling, "read", read_or_fail)
    store.load_beside()
    wait_until(lambda: not store._mirror.is_filled_later)
    with store.read_with_drawers() as (_, snapshot):
        assert view(snapshot) == fresh(store)
        assert snapshot.has_vector.all()


def test_where_the_vectors_cannot_be_read_whoever_asks_hears_why(
    store: Any, save: Any, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    store.use_model("m")
    tell(store, save, 12)
    made = Mirror()
    beside = loading.Loading(made, Readers(store.path), lambda _packed: True)

    def fail(*_: object) -> None:
        raise StoreDamagedError("a page is damaged", hint="run `palace-daemon doctor --fix`")

    monkeypatch.setattr(filling.Filling, "read", fail)
    beside.start()
    try:
        wait_until(lambda: not made.is_filled_later)
        for _ in range(2):
            with store.read() as connection, pytest.raises(StoreDamagedError, match="a page is damaged"):
                made.at(connection)
    finally:
        beside.close()
    monkeypatch.undo()
    with store.read() as connection:
        snapshot = made.at(connection)
    assert snapshot is not None
    assert snapshot.has_vector.all()
