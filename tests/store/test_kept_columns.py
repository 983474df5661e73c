from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from support.exchanges import FIRST_DAY, exchange
from support.mirrors import embed_pending, fresh, said, said_fresh, view

from palace_daemon.store import drawer_mirror, forgetting, kept_columns, mirror, notes, repair
from palace_daemon.store.exchanges import SaveReport
from palace_daemon.store.mirror import Mirror


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a handful of drawers a large store."""
    monkeypatch.setattr(mirror, "_FEW_ROWS", 4)
    monkeypatch.setattr(mirror, "_KEEP_SHARE", 0.0)


@pytest.fixture
def reads_of_tables(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Models for which all drawers were read."""
    read: list[str] = []
    load = drawer_mirror.Kept.load

    def counted(kept: Any, connection: Any, model: str) -> None:
        read.append(model)
        load(kept, connection, model)

    monkeypatch.setattr(drawer_mirror.Kept, "load", counted)
    return read


def keep(store: Any) -> bool:
    """Keep the columns of what the store's mirror holds, if that is worth it."""
    with store.read_with_drawers():
        pass
    columns = store._mirror.worth_keeping(is_kept=kept(store) is not None)
    return columns is not None and bool(store._keep(kept_columns.pack(columns)))


def tell(store: Any, save: Any, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        save(
            store, "/a.jsonl", exchange(str(number), f"Jar {number}? We keep it lit.", ordinal=number), is_at_end=False
        )
    embed_pending(store, random.Random(first), 1_000)


def kept(store: Any) -> kept_columns.Columns | None:
    with store.read() as connection:
        return kept_columns.load(connection)


def forget(store: Any, *exchanges: int) -> None:
    store.edit(lambda connection, drawers: forgetting.forget(connection, drawers, exchanges, 7))


def random_change(store: Any, save: Any, dice: random.Random) -> None:
    name = str(dice.randrange(9))
    roll = dice.random()
    if roll < 0.12:
        save(store, "/a.jsonl", withdrawn_keys=(f"claude-code:{name}",), is_at_end=False)
    elif roll < 0.16:
        store.use_model(dice.choice("mn"))
    else:
        said = " ".join(dice.choices(["We moved it.", "I always trim it.", "Is it lit?", f"It is jar {name}."], k=3))
        reply = "\n\n".join(f"Gauge {dice.randrange(50)} drifted." for _ in range(dice.randrange(1, 90)))
        told = exchange(
            name,
            said,
            reply,
            ordinal=int(name),
            session_id=f"s{dice.randrange(3)}",
            cwd=f"/p{dice.randrange(3)}",
            started_at=FIRST_DAY + int(name) if dice.random() < 0.9 else None,
            is_superseded=dice.random() < 0.2,
        )
        save(store, "/a.jsonl", told, is_at_end=False)
    with store.read() as connection:
        (model,) = connection.execute("SELECT model FROM state").fetchone()
    embed_pending(store, dice, dice.randrange(9), model)


def test_what_is_kept_and_followed_equals_what_is_read_in_any_history(
    open_store: Any, save: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "_WASTE_MAX", 1e9)  # follow, whatever changed
    store = open_store()
    store.use_model("m")
    dice = random.Random(3)
    used = 0
    for _ in range(40):
        for _ in range(dice.randrange(12)):
            random_change(store, save, dice)
        if dice.random() < 0.7:
            keep(store)
        for _ in range(dice.randrange(6)):
            random_change(store, save, dice)
        store.close()
        store = open_store()
        with store.read_with_drawers() as (_, snapshot):
            assert view(snapshot) == fresh(store)
            assert said(snapshot) == said_fresh(store)
            used += store._mirror._kept_at is not None
    assert used > 10


def test_a_start_reads_no_tables_where_little_changed(open_store: Any, save: Any, reads_of_tables: list[str]) -> None:
    store = open_store()
    store.use_model("m")
    tell(store, save, 12)
    assert keep(store)
    tell(store, save, 2, first=12)
    store.close()
    reads_of_tables.clear()
    store = open_store()
    with store.read_with_drawers() as (_, snapshot):
        assert len(snapshot.drawers) == 14
        assert snapshot.has_vector.all()
    assert reads_of_tables == []
    assert view(snapshot) == fresh(store)


def test_where_much_changed_the_tables_are_read(open_store: Any, save: Any, reads_of_tables: list[str]) -> None:
    store = open_store()
    store.use_model("m")
    tell(store, save, 12)
    assert keep(store)
    tell(store, save, 30, first=12)
    store.close()
    reads_of_tables.clear()
    store = open_store()
    with store.read_with_drawers() as (_, snapshot):
        assert view(snapshot) == fresh(store)
    assert reads_of_tables == ["m", "m"], "once by the store, once by the fresh mirror"


def test_what_is_kept_is_worth_keeping_anew_once_enough_changed(
    store: Any, save: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.use_model("m")
    tell(store, save, 2)
    assert not keep(store), "a small store is read in no time"
    tell(store, save, 20, first=2)
    monkeypatch.setattr(mirror, "_KEEP_SHARE", 0.5)
    assert keep(store)
    store._mirror.was_kept()
    tell(store, save, 2, first=22)
    assert not keep(store)
    tell(store, save, 40, first=24)
    assert keep(store)


def test_a_number_that_another_vector_has_now_brings_no_foreign_vector(open_store: Any, save: Any) -> None:
    store = open_store()
    store.use_model("m")
    tell(store, save, 12)
    assert keep(store)
    with store.read() as connection:
        (last, hash_) = connection.execute("SELECT id, text_hash FROM vectors ORDER BY id DESC").fetchone()
    # As a repair does it: the text stays, its vector goes, and its number is given to the next one.
    store.write(lambda c: c.execute("DELETE FROM vectors WHERE id=?", (last,)))
    save(store, "/a.jsonl", exchange("new", "Who tends the kiln?", ordinal=50), is_at_end=False)
    embed_pending(store, random.Random(9), 1_000)
    with store.read() as connection:
        assert connection.execute("SELECT text_hash FROM vectors WHERE id=?", (last,)).fetchone()[0] != hash_
    store.close()
    store = open_store()
    with store.read_with_drawers() as (_, snapshot):
        assert store._mirror._kept_at is not None
        assert np.count_nonzero(~snapshot.has_vector) + (12 - len(said(snapshot))) >= 1
        assert view(snapshot) == fresh(store)
        assert said(snapshot) == said_fresh(store)


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM kept_columns WHERE name='drawers.exchanges'",
        "DELETE FROM kept_columns WHERE name='head'",
        "UPDATE kept_columns SET data=substr(data, 1, 9) WHERE name='drawers.text_keys'",
        "UPDATE kept_columns SET data='text' WHERE name='statements.exchanges'",
        "UPDATE kept_columns SET data=x'7b7d' WHERE name='head'",
        "UPDATE kept_columns SET data='[' WHERE name='head'",
        "UPDATE kept_columns SET data=7 WHERE name='head'",
        (
            "UPDATE kept_columns SET data=(SELECT data FROM kept_columns WHERE name='statements.is_wish')"
            " WHERE name='statements.vector_keys'"
        ),
    ],
)
def test_damaged_columns_are_read_from_the_tables(open_store: Any, save: Any, damage: str) -> None:
    store = open_store()
    store.use_model("m")
    tell(store, save, 12)
    assert keep(store)
    store.write(lambda c: c.execute(damage))
    store.close()
    store = open_store()
    with store.read_with_drawers() as (_, snapshot):
        assert store._mirror._kept_at is None
        assert view(snapshot) == fresh(store)
    assert keep(store)
    assert kept(store) is not None


def test_what_is_forgotten_is_kept_no_longer_nor_kept_anew_by_a_mirror_that_held_it(store: Any, save: Any) -> None:
    store.use_model("m")
    tell(store, save, 12)
    assert keep(store)
    with store.read_with_drawers():
        columns = store._mirror.worth_keeping(is_kept=False)
    assert columns is not None
    forget(store, 3)
    assert kept(store) is None
    assert not store._keep(kept_columns.pack(columns))
    assert kept(store) is None
    assert keep(store)
    again = kept(store)
    assert again is not None
    assert 3 not in again.drawers.exchanges
    assert 3 in columns.drawers.exchanges


@pytest.mark.parametrize("change", ["rebuild", "references", "vectors"])
def test_what_changes_rows_without_a_generation_drops_what_is_kept(store: Any, save: Any, change: str) -> None:
    store.use_model("m")
    tell(store, save, 12)
    assert keep(store)
    if change == "rebuild":
        store.rebuild_index()
    elif change == "references":
        store.write(repair.mend_references)
    else:
        store.write(repair.mend_vectors)
    assert kept(store) is None


def test_opening_keeps_the_traces_of_removed_drawers_that_kept_columns_need(open_store: Any, save: Any) -> None:
    def traces() -> list[int]:
        with store.read() as connection:
            return [row[0] for row in connection.execute("SELECT drawer_id FROM removed_drawers ORDER BY 1")]

    store = open_store()
    store.use_model("m")
    tell(store, save, 12)
    save(store, "/a.jsonl", withdrawn_keys=("claude-code:1",), is_at_end=False)
    assert keep(store)
    save(store, "/a.jsonl", withdrawn_keys=("claude-code:5",), is_at_end=False)
    assert len(traces()) == 2
    store.close()
    store = open_store()
    assert traces() == [6]
    with store.read_with_drawers() as (_, snapshot):
        assert len(snapshot.ids[snapshot.ids >= 0]) == 10
    store.write(kept_columns.drop)
    store.close()
    store = open_store()
    assert traces() == []


def test_columns_of_another_model_are_not_used(open_store: Any, save: Any) -> None:
    store = open_store()
    store.use_model("m")
    tell(store, save, 12)
    assert keep(store)
    store.use_model("n")
    store.close()
    store = open_store()
    with store.read_with_drawers() as (_, snapshot):
        assert store._mirror._kept_at is None
        assert not snapshot.has_vector.any()
    store.use_model("m")
    with store.read_with_drawers() as (_, snapshot):
        assert snapshot.has_vector.all()
        assert view(snapshot) == fresh(store)


def test_a_mirror_of_another_process_follows_from_kept_columns_too(store: Any, save: Any) -> None:
    store.use_model("m")
    tell(store, save, 12)
    assert keep(store)
    tell(store, save, 1, first=12)
    with store.read() as connection:
        other = Mirror()
        snapshot = other.at(connection)
        assert snapshot is not None
        assert other._kept_at is not None
        assert view(snapshot) == fresh(store)


def test_no_name_of_a_forgotten_project_is_kept_anew(open_store: Any, save: Any) -> None:
    store = open_store()
    store.use_model("m")
    tell(store, save, 12)
    open_one = exchange("y", "Is it open?", cwd="/w/open", ordinal=50, session_id="sx")
    save(store, "/b.jsonl", open_one, exchange("x", "Is it?", cwd="/w/hidden", ordinal=51, session_id="sx"))
    embed_pending(store, random.Random(9), 1_000)
    assert keep(store)
    with store.read() as connection:
        (row,) = connection.execute("SELECT id FROM exchanges WHERE project='/w/hidden'").fetchone()
    forget(store, row)
    store.scrub()
    assert keep(store)
    columns = kept(store)
    assert columns is not None
    assert "/w/open" in columns.projects
    assert "/w/hidden" not in columns.projects
    store.close()
    assert b"/w/hidden" not in store.path.read_bytes()
    store = open_store()
    with store.read_with_drawers() as (_, snapshot):
        assert store._mirror._kept_at is not None
        assert view(snapshot) == fresh(store)


def test_of_a_note_that_was_put_right_nothing_stays_in_what_is_kept(store: Any, save: Any) -> None:
    def remember(connection: Any, drawers: Any) -> int:
        note = notes.Note(key="", text="The pin is 4711.", created_at=5)
        row, _ = notes.remember(connection, drawers, note, SaveReport())
        return int(row)

    def put_right(connection: Any, drawers: Any) -> None:
        note = notes.load(connection, row)
        notes.save(connection, drawers, replace(note, text="The pin is elsewhere.", edited_at=6), SaveReport())

    store.use_model("m")
    tell(store, save, 12)
    row = store.edit(remember)
    assert keep(store)
    store.edit(put_right)
    assert kept(store) is None


def test_what_was_dropped_is_kept_anew_though_little_changed(
    store: Any, save: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.use_model("m")
    tell(store, save, 40)
    assert keep(store)
    store._mirror.was_kept()
    monkeypatch.setattr(mirror, "_KEEP_SHARE", 0.5)
    assert not keep(store)
    forget(store, 3)
    assert keep(store)


def test_a_mirror_that_is_loaded_anew_for_its_waste_has_none_afterwards(
    store: Any, save: Any, reads_of_tables: list[str]
) -> None:
    store.use_model("m")
    tell(store, save, 40)
    assert keep(store)
    reads_of_tables.clear()
    for number in range(14):
        save(store, "/a.jsonl", withdrawn_keys=(f"claude-code:{number}",), is_at_end=False)
    for _ in range(5):
        with store.read_with_drawers() as (_, snapshot):
            assert len(snapshot.ids[snapshot.ids >= 0]) == 26
    assert reads_of_tables == ["m"]
    assert len(snapshot.drawers) == 26


def test_a_reload_between_taking_and_keeping_does_not_count_as_kept(store: Any, save: Any) -> None:
    store.use_model("m")
    tell(store, save, 12)
    with store.read_with_drawers():
        pass
    assert store._mirror.worth_keeping(is_kept=False) is not None
    store._mirror.drop()
    with store.read_with_drawers():
        pass
    store._mirror.was_kept()
    assert store._mirror._kept_at is None


@pytest.mark.parametrize("generation", ["-3", "915", "99999999999999999999"])
def test_columns_of_a_generation_that_was_never_are_none(
    open_store: Any, save: Any, generation: str, reads_of_tables: list[str]
) -> None:
    store = open_store()
    store.use_model("m")
    tell(store, save, 12)
    assert keep(store)

    def damage(connection: Any) -> None:
        (head,) = connection.execute("SELECT data FROM kept_columns WHERE name='head'").fetchone()
        known = json.loads(head) | {"generation": int(generation)}
        connection.execute("UPDATE kept_columns SET data=? WHERE name='head'", (json.dumps(known).encode(),))

    store.write(damage)
    store.close()
    reads_of_tables.clear()
    store = open_store()
    for _ in range(3):
        with store.read_with_drawers() as (_, snapshot):
            assert len(snapshot.drawers) == 12
    assert reads_of_tables == ["m"]


def test_a_damaged_page_of_what_is_kept_keeps_nobody_from_an_answer(open_store: Any, save: Any) -> None:
    store = open_store()
    store.use_model("m")
    tell(store, save, 12)
    assert keep(store)
    column = random.Random(1).randbytes(50_000)  # as large as that of a large store
    store.write(lambda c: c.execute("UPDATE kept_columns SET data=? WHERE name='drawers.text_keys'", (column,)))
    with store.read() as connection:
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    store.close()
    pages = bytearray(store.path.read_bytes())
    at = pages.index(column[25_000:25_016]) // page_size * page_size
    pages[at : at + 4] = b"\xff\xff\xff\xf0"  # the number of the page that is to follow
    store.path.write_bytes(pages)
    store = open_store()
    with store.read_with_drawers() as (_, snapshot):
        assert len(snapshot.drawers) == 12
