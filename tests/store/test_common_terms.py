"""What is kept of common terms says, of each state, what the index of that state does."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from support.exchanges import exchange
from support.mirrors import embed_pending

from palace_daemon.store import common_terms, forgetting, postings
from palace_daemon.store.common_terms import ByRow, CommonTerms, Listed, read
from palace_daemon.store.mirror import Snapshot

WORDS = ("lamp", "kiln", "moss", "pond", "rake")
Told = dict[int, tuple[int, int]]
"""Drawer to how often a term stands in it, and in which of its sentences."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a handful of drawers a large store."""
    monkeypatch.setattr(common_terms, "ROWS_MIN", 3)


def told(snapshot: Snapshot, found: Listed | ByRow) -> Told:
    """Return what is said of living drawers."""
    if isinstance(found, ByRow):
        assert len(found.frequencies) == len(found.masks) == len(snapshot.drawers)
        rows = np.flatnonzero(found.frequencies)
        found = Listed(rows, found.frequencies[rows], found.masks[rows])
    assert (found.rows[1:] > found.rows[:-1]).all()
    assert len(found.rows) == 0 or int(found.rows[-1]) < len(snapshot.drawers)
    numbers = zip(found.rows.tolist(), found.frequencies.tolist(), found.masks.tolist(), strict=True)
    return {int(snapshot.ids[row]): (times, mask) for row, times, mask in numbers if snapshot.is_held[row]}


def indexed(connection: Any, snapshot: Snapshot, term: str) -> Told:
    return told(snapshot, read(connection, snapshot, term))


def asked(connection: Any, snapshot: Snapshot, term: str) -> Told:
    return told(snapshot, snapshot.common_terms.look_up(connection, snapshot, term))


def tell(store: Any, save: Any, number: int, text: str) -> None:
    save(store, "/a.jsonl", exchange(str(number), "Well?", text, ordinal=number), is_at_end=False)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Terms that are read from the index, and from which block on."""
    seen: list[tuple[str, int]] = []
    whole = postings.read

    def noted(connection: Any, term: str, first_block: int = 0) -> postings.Postings:
        seen.append((term, first_block))
        return whole(connection, term, first_block)

    monkeypatch.setattr(postings, "read", noted)
    return seen


@pytest.mark.parametrize("seed", range(4))
def test_any_history_is_told_as_the_index_tells_it(
    store: Any, save: Any, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(postings, "BLOCK_BITS", 3)
    monkeypatch.setattr(common_terms, "_LATE_ROWS_MAX", 12)
    monkeypatch.setattr(common_terms, "BYTES_PER_ROW", (8, 384)[seed % 2])
    store.use_model("m")
    dice = random.Random(seed)
    held: list[int] = []
    for step in range(90):
        number = dice.randrange(14)
        if dice.random() < 0.1:
            save(store, "/a.jsonl", withdrawn_keys=(f"claude-code:{number}",), is_at_end=False)
        elif dice.random() < 0.1 and held:
            chosen = dice.sample(held, 1)
            store.edit(lambda connection, drawers, chosen=chosen: forgetting.forget(connection, drawers, chosen, 7))
        else:
            weights = [5 ** (at % 3) for at in range(len(WORDS))]
            said = ". ".join(" ".join(dice.choices(WORDS, weights, k=dice.randrange(1, 5))) for _ in range(3))
            tell(store, save, number, said * dice.choice([1, 1, 1, 120]))
        embed_pending(store, dice, dice.randrange(3))
        with store.read_with_drawers() as (connection, snapshot):
            held = snapshot.exchanges[snapshot.is_held].tolist()
            for term in dice.sample(WORDS, 3):
                assert asked(connection, snapshot, term) == indexed(connection, snapshot, term), (step, term)


def test_a_common_term_is_read_once_and_then_only_what_is_new(
    store: Any, save: Any, reads: list[tuple[str, int]]
) -> None:
    for number in range(8):
        tell(store, save, number, "The lamp is lit." if number % 2 else "The lamp near the kiln is lit.")
    for _ in range(3):
        with store.read_with_drawers() as (connection, snapshot):
            assert asked(connection, snapshot, "lamp").keys() >= asked(connection, snapshot, "kiln").keys()
    assert sorted(reads) == [("kiln", 0), ("lamp", 0)]
    tell(store, save, 8, "Another lamp.")
    with store.read_with_drawers() as (connection, snapshot):
        reads.clear()
        assert len(asked(connection, snapshot, "lamp")) == 9
        assert reads == [("lamp", 0)]  # the newest block
        asked(connection, snapshot, "lamp")
        assert len(reads) == 1


def test_a_rare_term_and_those_of_a_small_store_are_not_kept(
    store: Any, save: Any, reads: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        tell(store, save, number, f"The lamp number{number} is lit.")
    for _ in range(2):
        with store.read_with_drawers() as (connection, snapshot):
            assert len(asked(connection, snapshot, "number7")) == 1
    assert reads == [("number7", 0)] * 2
    monkeypatch.setattr(common_terms, "ROWS_MIN", 1_000)
    for _ in range(2):
        with store.read_with_drawers() as (connection, snapshot):
            asked(connection, snapshot, "lamp")
    assert reads[2:] == [("lamp", 0)] * 2


def test_a_state_before_what_is_kept_is_told_by_the_index(store: Any, save: Any) -> None:
    for number in range(6):
        tell(store, save, number, "The lamp is lit.")
    with store.read_with_drawers() as (connection, before):
        for number in range(3):
            tell(store, save, number, "It is dark. Lamp and lamp and lamp.")
        tell(store, save, 6, "Lamp lamp.")
        with store.read_with_drawers() as (newer, after):
            assert asked(newer, after, "lamp") == indexed(newer, after, "lamp")
        assert asked(connection, before, "lamp") == indexed(connection, before, "lamp")
        with store.read_with_drawers() as (newer, after):
            assert asked(newer, after, "lamp") == indexed(newer, after, "lamp")


def test_the_commonest_stay_where_there_is_not_room_for_all(
    store: Any, save: Any, reads: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common_terms, "BYTES_PER_ROW", 3)  # one by row
    for number in range(12):
        tell(store, save, number, "lamp " + "kiln " * (number % 2) + "moss " * (number % 3 == 0))
    for term in ("moss", "kiln", "lamp", "kiln", "lamp", "moss", "lamp"):
        with store.read_with_drawers() as (connection, snapshot):
            asked(connection, snapshot, term)
    assert [term for term, _ in reads] == ["moss", "kiln", "lamp", "kiln", "moss"]


def test_many_of_one_word_in_a_drawer_are_all_counted(store: Any, save: Any) -> None:
    for number in range(6):
        tell(store, save, number, "The lamp is lit.")
    with store.read_with_drawers() as (connection, snapshot):
        asked(connection, snapshot, "lamp")
    tell(store, save, 6, "lamp " * 390)
    with store.read_with_drawers() as (connection, snapshot):
        found = asked(connection, snapshot, "lamp")
        assert max(times for times, _ in found.values()) == 390
        assert found == indexed(connection, snapshot, "lamp")
        assert isinstance(snapshot.common_terms, CommonTerms)


def test_what_was_loaded_anew_begins_with_nothing(store: Any, save: Any, reads: list[tuple[str, int]]) -> None:
    for number in range(6):
        tell(store, save, number, "The lamp is lit.")
    with store.read_with_drawers() as (connection, snapshot):
        asked(connection, snapshot, "lamp")
    store._mirror.drop()
    with store.read_with_drawers() as (connection, snapshot):
        assert asked(connection, snapshot, "lamp") == indexed(connection, snapshot, "lamp")
    assert [term for term, _ in reads] == ["lamp"] * 3
