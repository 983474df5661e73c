from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.exchanges import DAY_MS, FIRST_DAY, exchange

from palace_daemon.store import check, migrations, spaces, sqlite, vectors
from palace_daemon.store.writer import Writer

OLD, NEW, THIRD = "a@1", "b@1", "c@1"


def embed(store: Any, model: str, limit: int = 1_000) -> list[str]:
    """Embed what is queued for a model, and return the texts."""
    with store.read() as connection:
        queued = vectors.with_texts(connection, vectors.queued(connection, model, limit))
    matrix = np.full((len(queued), 4), 0.5, np.float32)
    if queued:
        store.save_vectors(model, [hash_ for hash_, _ in queued], matrix)
    return [text for _, text in queued]


def said(number: int, **fields: Any) -> Any:
    return exchange(
        str(number), f"What of {number}?", f"Reply {number}.", ordinal=number, started_at=FIRST_DAY + number, **fields
    )


def roles(store: Any) -> tuple[str, str, str]:
    found = store.spaces()
    return tuple(space.model if space else "" for space in found)  # type: ignore[return-value]


def counts(store: Any) -> dict[str, tuple[int, int]]:
    return {space.model: (space.vectors, space.pending) for space in store.spaces() if space}


def assert_sound(store: Any) -> None:
    with store.read() as connection:
        assert [finding for finding in check.check(connection, is_deep=True) if not finding.is_ok] == []


@pytest.fixture
def filled(store: Any, save: Any) -> Any:
    """A store of four texts that the old model covers."""
    store.use_model(OLD)
    save(store, "/a.jsonl", *(said(n) for n in range(4)))
    embed(store, OLD)
    return store


def test_the_first_model_answers_at_once(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", said(1))
    assert counts(store) == {"": (0, 1)}
    assert store.switch_model(OLD)
    assert roles(store) == (OLD, "", "")
    assert counts(store) == {OLD: (0, 1)}
    assert not store.switch_model(OLD)
    assert_sound(store)


def test_the_next_model_takes_over_with_the_last_text_that_it_needs(filled: Any) -> None:
    filled.switch_model(NEW)
    embed(filled, NEW, 3)
    assert roles(filled) == (OLD, NEW, "")
    assert counts(filled) == {OLD: (4, 0), NEW: (3, 1)}
    embed(filled, NEW, 1)
    assert roles(filled) == (NEW, "", OLD)
    assert_sound(filled)


def test_until_then_mirrors_hold_the_vectors_of_the_answering_model_alone(filled: Any) -> None:
    filled.switch_model(NEW)
    with filled.read_with_drawers() as (_, before):
        pass
    embed(filled, NEW, 3)
    with filled.read_with_drawers() as (_, during):
        assert during is before
        assert during.has_vector.all()
    embed(filled, NEW)
    with filled.read_with_drawers() as (_, after):
        assert (before.model, after.model) == (OLD, NEW)


def test_who_began_to_read_before_the_switch_has_the_mirror_not_loaded_twice(filled: Any) -> None:
    with filled.read() as begun_before:
        assert spaces.read(begun_before).answering.model == OLD
        filled.use_model(NEW)
        with filled.read_with_drawers() as (_, after):
            pass
        assert filled._mirror.at(begun_before) is None  # a newer transaction is to be begun
        with filled.read_with_drawers() as (_, again):
            assert again is after


def test_the_newest_texts_come_first(filled: Any) -> None:
    filled.switch_model(NEW)
    assert embed(filled, NEW, 2) == ["> What of 3?\n\nReply 3.", "> What of 2?\n\nReply 2."]


def test_what_is_said_meanwhile_is_queued_for_both(filled: Any, save: Any) -> None:
    filled.switch_model(NEW)
    save(filled, "/a.jsonl", said(9), is_at_end=False)
    assert counts(filled) == {OLD: (4, 1), NEW: (0, 5)}
    embed(filled, OLD)
    embed(filled, NEW, 4)
    assert roles(filled) == (OLD, NEW, "")
    embed(filled, NEW)
    assert roles(filled) == (NEW, "", OLD)
    assert_sound(filled)


def test_a_model_that_had_hardly_begun_is_replaced_as_soon_as_it_is_overtaken(store: Any, save: Any) -> None:
    store.use_model(OLD)
    save(store, "/a.jsonl", *(said(n) for n in range(10)))
    embed(store, OLD, 2)
    store.switch_model(NEW)
    assert embed(store, OLD) == []  # the rest is left to the next
    assert counts(store) == {OLD: (2, 8), NEW: (0, 10)}
    embed(store, NEW, 1)
    assert roles(store) == (OLD, NEW, "")
    embed(store, NEW, 1)
    assert roles(store) == (NEW, "", OLD)
    assert counts(store)[NEW] == (2, 8)
    assert len(embed(store, NEW)) == 8
    assert_sound(store)


def test_vectors_of_the_answering_model_never_end_its_time(store: Any, save: Any) -> None:
    store.use_model(NEW)
    save(store, "/a.jsonl", *(said(n) for n in range(4)))
    embed(store, NEW)
    store.use_model(OLD)  # the other one could not be loaded; its vectors are kept
    store.switch_model(NEW)
    save(store, "/a.jsonl", said(9), is_at_end=False)
    assert embed(store, OLD) == ["> What of 9?\n\nReply 9."]
    assert roles(store) == (OLD, NEW, "")  # the next one may not be there to embed a question
    embed(store, NEW)
    assert roles(store) == (NEW, "", OLD)
    assert_sound(store)


def test_texts_that_come_are_counted_apart_from_those_that_are_left(store: Any, save: Any) -> None:
    store.use_model(OLD)
    save(store, "/a.jsonl", *(said(n) for n in range(3)))
    store.switch_model(NEW)
    save(store, "/a.jsonl", said(9), is_at_end=False)
    with store.read() as connection:
        assert vectors.pending_count(connection) == 4
        assert vectors.waiting_count(connection) == 1


def test_going_back_embeds_only_what_came_since(filled: Any, save: Any) -> None:
    filled.use_model(NEW)
    embed(filled, NEW)
    save(filled, "/a.jsonl", said(9), is_at_end=False)
    embed(filled, NEW)
    filled.switch_model(OLD)
    assert embed(filled, OLD) == ["> What of 9?\n\nReply 9."]
    assert roles(filled) == (OLD, "", NEW)
    assert_sound(filled)


def test_giving_up_a_switch_keeps_what_was_embedded_for_it(filled: Any) -> None:
    filled.switch_model(NEW)
    embed(filled, NEW, 3)
    filled.switch_model(OLD)
    assert roles(filled) == (OLD, "", NEW)
    assert counts(filled) == {OLD: (4, 0), NEW: (3, 0)}
    filled.switch_model(NEW)
    assert len(embed(filled, NEW)) == 1


def test_giving_up_a_switch_takes_up_again_what_was_left(store: Any, save: Any) -> None:
    store.use_model(OLD)
    save(store, "/a.jsonl", *(said(n) for n in range(3)))
    store.switch_model(NEW)
    assert embed(store, OLD) == []
    store.switch_model(OLD)
    assert len(embed(store, OLD)) == 3


def test_of_a_third_model_the_store_keeps_nothing_but_two(filled: Any) -> None:
    filled.use_model(NEW)
    embed(filled, NEW)
    assert filled.drop_unused_vectors(10) == 0
    filled.switch_model(THIRD)
    assert roles(filled) == (NEW, THIRD, "")
    dropped = [filled.drop_unused_vectors(3) for _ in range(4)]
    assert dropped == [3, 1, 0, 0]
    with filled.read() as connection:
        assert connection.execute("SELECT DISTINCT space FROM vectors").fetchall() == [(spaces.number(NEW),)]
        assert connection.execute("SELECT model FROM spaces ORDER BY 1").fetchall() == [("",), (NEW,), (THIRD,)]
    assert_sound(filled)


def test_another_model_than_the_next_starts_anew(filled: Any) -> None:
    filled.switch_model(NEW)
    embed(filled, NEW, 2)
    filled.switch_model(THIRD)
    assert roles(filled) == (OLD, THIRD, "")
    assert filled.save_vectors(NEW, [b"x"], np.zeros((1, 4), np.float32)) == 0
    while filled.drop_unused_vectors(10):
        pass
    assert counts(filled) == {OLD: (4, 0), THIRD: (0, 4)}
    assert_sound(filled)


def test_another_version_of_a_model_is_another_space(filled: Any) -> None:
    filled.switch_model("a@2")
    assert roles(filled) == (OLD, "a@2", "")
    assert counts(filled)["a@2"] == (0, 4)
    filled.finish_switch(keep=False)
    assert roles(filled) == ("a@2", "", "")
    with filled.read_with_drawers() as (_, snapshot):
        assert not snapshot.has_vector.any()
    assert filled.drop_unused_vectors(10) == 4


def test_a_text_that_goes_takes_its_vectors_of_every_model(filled: Any, save: Any) -> None:
    filled.switch_model(NEW)
    embed(filled, NEW, 4)
    save(filled, "/a.jsonl", withdrawn_keys=("claude-code:3",), is_at_end=False)
    assert counts(filled) == {OLD: (3, 0), NEW: (3, 0)}
    assert_sound(filled)


def test_in_any_history_the_counts_are_right_and_no_answer_has_fewer_vectors(store: Any, save: Any) -> None:
    dice = random.Random(4)
    store.use_model(OLD)
    for _ in range(120):
        before = store.spaces().answering
        step = dice.randrange(6)
        if step == 0:
            told = said(dice.randrange(30), user_kind=dice.choice(["prompt", "automated"]))
            save(store, "/a.jsonl", told, is_at_end=False)
        elif step == 1:
            save(store, "/a.jsonl", withdrawn_keys=(f"claude-code:{dice.randrange(30)}",), is_at_end=False)
        elif step == 2:
            store.switch_model(dice.choice([OLD, NEW, THIRD]))
        elif step == 3:
            store.drop_unused_vectors(2)
        else:
            held = store.spaces()
            embed(store, dice.choice([held.answering, held.next or held.answering]).model, dice.randrange(1, 4))
        after = store.spaces().answering
        if after.model != before.model:
            assert after.pending <= before.pending
        assert_sound(store)


def test_a_store_of_the_first_schema_keeps_its_vectors_and_its_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_store: Any
) -> None:
    path = sqlite.database_path(tmp_path / "old")
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "SCHEMA_VERSION", 1)
        patch.setattr(migrations, "_TABLES", frozenset())
        writer = Writer(path)
        writer.run(lambda c: c.execute("UPDATE state SET model='a'"))
        writer.run(lambda c: c.execute("INSERT INTO vectors VALUES (1, x'01', 'a', x'00', 1), (2, x'02', 'b', x'', 1)"))
        writer.run(lambda c: c.execute("INSERT INTO pending_texts VALUES (x'03', 0, ?)", (DAY_MS,)))
        writer.close()
    Writer(path).close()
    connection = sqlite.open_reader(path)
    try:
        held = spaces.read(connection)
        assert held == (("a", 1, 1), None, None)
        assert vectors.queued(connection, "a", 10) == [b"\x03"]
        assert spaces.has_unused(connection)
    finally:
        connection.close()
