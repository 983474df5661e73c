from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest
from support.exchanges import FIRST_DAY, exchange
from support.mirrors import embed_pending, fresh, said, said_fresh, view

from palace_daemon.store import drawer_mirror, filling, matrix, mirror, statement_mirror, vectors


def test_following_equals_loading_anew_in_any_history(store: Any, save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "CHUNK_ROWS", 16)
    store.use_model("m")
    dice = random.Random(11)
    for step in range(80):
        name = str(dice.randrange(8))
        reply = "\n\n".join(f"Gauge {dice.randrange(50)} drifted." for _ in range(dice.randrange(1, 200)))
        said = "".join(f" Gauge {dice.randrange(4)} is mine." for _ in range(dice.randrange(4)))
        told = exchange(
            name,
            f"Question {name}?{said}",
            reply,
            ordinal=int(name),
            session_id=f"s{dice.randrange(3)}",
            cwd=f"/p{dice.randrange(3)}",
            started_at=FIRST_DAY + int(name) if dice.random() < 0.9 else None,
            is_superseded=dice.random() < 0.2,
        )
        save(store, "/a.jsonl", told, is_at_end=False)
        embed_pending(store, dice, dice.randrange(6))
        if step % 3 == 0:
            with store.read_with_drawers() as (_, snapshot):
                assert view(snapshot) == fresh(store)


def test_a_snapshot_in_use_does_not_change(store: Any, save: Any) -> None:
    store.use_model("m")
    save(store, "/a.jsonl", exchange("1"))
    embed_pending(store, random.Random(1), 10)
    with store.read_with_drawers() as (_, snapshot):
        before = view(snapshot)
        save(store, "/a.jsonl", exchange("1", reply="Now it says something else."), exchange("2", "New?", ordinal=1))
        embed_pending(store, random.Random(2), 10)
        with store.read_with_drawers() as (_, newer):
            assert view(newer) != before
        assert view(snapshot) == before


def test_changing_the_model_drops_the_other_models_vectors(store: Any, save: Any) -> None:
    store.use_model("m")
    save(store, "/a.jsonl", exchange("1"))
    embed_pending(store, random.Random(1), 10)
    store.use_model("other")
    with store.read_with_drawers() as (connection, snapshot):
        assert not snapshot.has_vector.any()
        assert vectors.pending_count(connection) == 1
    store.use_model("m")
    with store.read_with_drawers() as (connection, snapshot):
        assert snapshot.has_vector.all()
        assert vectors.pending_count(connection) == 0


def test_a_vector_that_is_none_is_left_out_and_after_it_was_mended_the_mirror_is_whole(
    store: Any, save: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store.use_model("m")
    save(store, "/a.jsonl", exchange("1"))
    embed_pending(store, random.Random(1), 10)
    with store.read_with_drawers() as (_, snapshot):
        assert snapshot.has_vector.all()
    save(store, "/a.jsonl", exchange("2", "Who tends the kiln?", ordinal=1), exchange("3", "And now?", ordinal=2))
    embed_pending(store, random.Random(2), 10)
    store.write(lambda c: c.execute("UPDATE vectors SET vector=vector||x'00' WHERE id=2"))
    for _ in range(2):
        with store.read_with_drawers() as (_, snapshot):
            assert np.count_nonzero(~snapshot.has_vector) == 1
            assert view(snapshot) == fresh(store)
    told = [one.args for one in caplog.records if one.name == "palace_daemon.store.widths"]
    assert told == [("2", "")] * 3, "once by the mirror of the store, and once by each of the two fresh ones"
    lost = store.write(lambda c: c.execute("DELETE FROM vectors WHERE id=2 RETURNING text_hash").fetchone()[0])
    store.write(lambda c: vectors.want(c, lost, None, is_statement=False))
    embed_pending(store, random.Random(3), 10)
    with store.read_with_drawers() as (_, snapshot):
        assert snapshot.has_vector.all()
        assert view(snapshot) == fresh(store)


@pytest.mark.parametrize("damage", ["x'00'", "'text'", "7", "substr(vector, 1, 12)"])
@pytest.mark.parametrize("which", ["id=1", "1"], ids=["one", "all"])
def test_what_is_stored_as_a_vector_and_is_none_counts_as_none(store: Any, save: Any, damage: str, which: str) -> None:
    store.use_model("m")
    save(store, "/a.jsonl", exchange("1"), exchange("2", "Who tends the kiln? I always do.", ordinal=1))
    embed_pending(store, random.Random(1), 10)
    store.write(lambda c: c.execute(f"UPDATE vectors SET vector={damage} WHERE {which}"))
    with store.read_with_drawers() as (_, snapshot):
        assert view(snapshot) == fresh(store)
        assert snapshot.has_vector.any() == (which == "id=1")
        assert len(said(snapshot)) == (1 if which == "id=1" else 0)


def test_superseded_drawers_are_known_but_not_live(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1"), exchange("2", "Other?", ordinal=1, is_superseded=True))
    with store.read_with_drawers() as (_, snapshot):
        assert snapshot.is_live.tolist() == [True, False]
        assert snapshot.is_superseded.tolist() == [False, True]


def test_readers_and_writer_at_once_agree(store: Any, save: Any) -> None:
    store.use_model("m")
    faults: list[BaseException] = []
    is_done = threading.Event()

    def read() -> None:
        try:
            while not is_done.is_set():
                with store.read_with_drawers() as (connection, snapshot):
                    (count,) = connection.execute("SELECT count(*) FROM drawers").fetchone()
                    assert int(np.count_nonzero(snapshot.ids >= 0)) == count
        except BaseException as exc:  # noqa: BLE001 - shown by the assertion below
            faults.append(exc)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(40):
        save(store, "/a.jsonl", exchange(str(number), f"Question {number}?", ordinal=number), is_at_end=False)
    is_done.set()
    for thread in threads:
        thread.join(20)
    assert faults == []


def test_a_snapshot_names_the_model_of_its_vectors(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1"))
    with store.read_with_drawers() as (_, snapshot):
        assert snapshot.model == ""
    for model in ("m", "other"):
        store.use_model(model)
        with store.read_with_drawers() as (_, snapshot):
            assert snapshot.model == model


def plan(store: Any, statement: str, *values: object) -> list[str]:
    with store.read() as connection:
        return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


def test_following_reads_only_what_changed(store: Any) -> None:
    steps = plan(store, drawer_mirror._LOAD_CHANGED, "m", 5)
    assert steps[0] == "SEARCH d USING INDEX drawers_generation (generation>?)"
    assert [step for step in steps if step.startswith("SCAN")] == []
    steps = plan(store, drawer_mirror._LOAD_EMBEDDED, "m", 5, 5)
    assert steps[0] == "SEARCH v USING INDEX vectors_generation (space=? AND generation>?)"
    assert [step for step in steps if step.startswith("SCAN")] == []


def test_loading_everything_sorts_nothing(store: Any) -> None:
    steps = plan(store, drawer_mirror._LOAD_ALL, "m")
    assert steps[0] == "SCAN d"
    assert [step for step in steps[1:] if not step.startswith("SEARCH")] == []
    assert "COVERING INDEX" in steps[-1], "the rows of vectors are read in their own order, not in that of the drawers"
    assert plan(store, filling._READ, "m", 5, 5, 5) == ["SEARCH vectors USING INTEGER PRIMARY KEY (rowid>?)"]


def test_a_reply_that_grows_loads_few_drawers_again(store: Any, save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    append = drawer_mirror.Kept.append

    def counted(drawers: Any, told: Any) -> None:
        loaded.extend(told.drawers)
        append(drawers, told)

    monkeypatch.setattr(drawer_mirror.Kept, "append", counted)
    reply = "\n\n".join(f"Gauge {n} drifted by some millimetres in the night." for n in range(300))
    save(store, "/a.jsonl", exchange("1", reply=reply))
    with store.read_with_drawers() as (_, snapshot):
        assert len(snapshot.ids) == len(loaded) > 15
    loaded.clear()
    save(store, "/a.jsonl", exchange("1", reply=reply + "\n\nOne more line."))
    with store.read_with_drawers() as (_, snapshot):
        assert 1 <= len(loaded) <= 2
        assert view(snapshot) == fresh(store)


def test_adding_an_exchange_copies_nothing_of_what_is_held(store: Any, save: Any) -> None:
    store.use_model("m")
    dice = random.Random(3)
    for number in range(60):
        save(
            store, "/a.jsonl", exchange(str(number), f"Jar {number}? We keep it lit.", ordinal=number), is_at_end=False
        )
    embed_pending(store, dice, 1_000)
    with store.read_with_drawers() as (_, before):
        pass
    save(store, "/a.jsonl", exchange("60", "Jar 60? We keep it dark.", ordinal=60), is_at_end=False)
    embed_pending(store, dice, 1_000)
    with store.read_with_drawers() as (_, after):
        pass
    assert (len(before.drawers), len(after.drawers)) == (60, 61)
    for old, new in ((before, after), (before.statements, after.statements), (before.vectors, after.vectors)):
        fields = vars(old) if old is before else old._asdict()
        arrays = [name for name, value in fields.items() if isinstance(value, np.ndarray) and name in fields]
        assert len(arrays) >= 4
        for name in arrays:
            if name not in ("ids", "is_held", "is_live", "has_vector"):  # worked out when somebody asks
                assert np.shares_memory(getattr(old, name), getattr(new, name)), name
    assert all(old is new for old, new in zip(before.vectors.chunks, after.vectors.chunks, strict=True))


@pytest.mark.parametrize("count", [4, 40])
def test_what_following_reads_and_writes_does_not_grow_with_the_store(
    store: Any, save: Any, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.use_model("m")
    dice = random.Random(3)
    for number in range(count):
        save(
            store, "/a.jsonl", exchange(str(number), f"Jar {number}? We keep it lit.", ordinal=number), is_at_end=False
        )
    embed_pending(store, dice, 1_000)
    with store.read_with_drawers():
        pass
    rows: list[int] = []
    counts = {"steps": 0}
    put = matrix.Matrix.put

    def counted(made: Any, places: Any, keys: Any, drawn: Any) -> None:
        rows.append(len(places))
        put(made, places, keys, drawn)

    monkeypatch.setattr(matrix.Matrix, "put", counted)
    save(store, "/a.jsonl", exchange("new", "Jar x? We keep it dark.", ordinal=count), is_at_end=False)
    embed_pending(store, dice, 1_000)
    with store.read() as connection:
        connection.set_progress_handler(lambda: counts.update(steps=counts["steps"] + 1), 1)
        snapshot = store._mirror.at(connection)
        connection.set_progress_handler(None, 1)
    assert snapshot is not None
    assert len(snapshot.drawers) == count + 1
    assert sum(rows) == 2  # a drawer and a statement
    assert 0 < counts["steps"] < 700


def test_a_snapshot_finds_its_own_rows_of_drawers_that_moved_since(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1"), exchange("2", "Other?", ordinal=1))
    shown = []
    for number in range(4):
        with store.read_with_drawers() as (_, snapshot):
            shown.append((snapshot, view(snapshot)))
        save(store, "/a.jsonl", exchange("1", cwd=f"/p{number}"), exchange("2", "Other?", ordinal=1))
    assert len({snapshot.generation for snapshot, _ in shown}) == 4
    for snapshot, before in shown:
        assert view(snapshot) == before
        assert snapshot.rows_of(np.array([1, 2, 999])).tolist()[2] == -1


def test_where_much_changes_everything_is_loaded_once(store: Any, save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "_FEW_ROWS", 4)
    turns = [exchange(str(number), f"Jar {number}?", ordinal=number) for number in range(20)]
    save(store, "/a.jsonl", *turns)
    with store.read_with_drawers():
        pass
    save(store, "/a.jsonl", *(exchange(str(number), f"Jug {number}?", ordinal=number) for number in range(20)))
    with store.read_with_drawers() as (_, snapshot):
        assert len(snapshot.drawers) == 20
        assert view(snapshot) == fresh(store)


def test_many_new_vectors_are_loaded_in_batches(store: Any, save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "_FEW_ROWS", 4)
    for module in (drawer_mirror, statement_mirror, filling):
        monkeypatch.setattr(module, "_BATCH_ROWS", 5)
    store.use_model("m")
    save(store, "/a.jsonl", *(exchange(str(n), f"Jar {n}? We keep it dark.", ordinal=n) for n in range(20)))
    with store.read_with_drawers():
        pass
    embed_pending(store, random.Random(1), 1_000)
    sizes: list[int] = []
    unpacked = matrix.unpacked

    def counted(stored: Any) -> Any:
        sizes.append(len(stored))
        return unpacked(stored)

    monkeypatch.setattr(matrix, "unpacked", counted)
    with store.read_with_drawers() as (_, snapshot):
        assert snapshot.has_vector.all()
        assert len(snapshot.statements.runs) == 20
        assert sum(sizes) == 21, "equal texts have one vector"
        assert max(sizes) <= 5
        assert view(snapshot) == fresh(store)


# ---------------------------------------------------------------------------------------------------------- statements


def test_statements_say_whether_they_are_wishes(store: Any, save: Any) -> None:
    store.use_model("m")
    save(store, "/a.jsonl", exchange("1", "We moved the lamp. I always trim it."))
    embed_pending(store, random.Random(1), 10)
    with store.read_with_drawers() as (_, snapshot):
        assert [is_wish for _, is_wish, _ in said(snapshot)].count(True) == 1
        held = snapshot.statements
        most = np.array([0.25, 0.5], np.float32)[held.is_wish.astype(np.int64)]
        assert held.best(most)[snapshot.runs].tolist() == [0.5]


def test_following_statements_equals_loading_anew_in_any_history(
    store: Any, save: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "CHUNK_ROWS", 16)
    store.use_model("m")
    dice = random.Random(5)
    for step in range(90):
        name = str(dice.randrange(7))
        if dice.random() < 0.25:
            save(store, "/a.jsonl", withdrawn_keys=(f"claude-code:{name}",), is_at_end=False)
        else:
            told = dice.choices(["We moved it.", "I always trim it.", "Is it lit?", f"It is jar {name}."], k=4)
            kind = dice.choice(["prompt", "prompt", "automated"])
            one = exchange(name, " ".join(told), "Good.", ordinal=int(name), user_kind=kind)
            save(store, "/a.jsonl", one, is_at_end=False)
        embed_pending(store, dice, dice.randrange(5))
        if step % 4 == 0:
            with store.read_with_drawers() as (_, snapshot):
                assert said(snapshot) == said_fresh(store)
                assert view(snapshot) == fresh(store)


def test_an_exchange_that_vanishes_takes_its_statements_and_leaves_the_others(store: Any, save: Any) -> None:
    store.use_model("m")
    save(store, "/a.jsonl", exchange("1", "We moved the lamp."), exchange("2", "We moved the lamp.", "Ah.", ordinal=1))
    embed_pending(store, random.Random(1), 10)
    with store.read_with_drawers() as (_, snapshot):
        before = said(snapshot)
    assert len(before) == 2
    save(store, "/a.jsonl", withdrawn_keys=("claude-code:1",))
    with store.read_with_drawers() as (_, snapshot):
        assert said(snapshot) == before[1:] == said_fresh(store)
    save(store, "/a.jsonl", withdrawn_keys=("claude-code:2",))
    with store.read_with_drawers() as (_, snapshot):
        assert said(snapshot) == said_fresh(store) == []
        nothing = np.zeros(len(snapshot.statements.runs), np.float32)
        assert set(snapshot.statements.best(nothing)[snapshot.runs].tolist()) <= {-1.0}
        assert set(snapshot.statements.runs_of(np.arange(5)).tolist()) == {-1}


def test_another_exchange_under_the_id_of_one_that_vanished_has_its_own_statements(store: Any, save: Any) -> None:
    store.use_model("m")
    save(store, "/a.jsonl", exchange("1", "We moved the lamp."))
    embed_pending(store, random.Random(1), 10)
    with store.read_with_drawers() as (_, snapshot):
        before = said(snapshot)
    save(store, "/a.jsonl", withdrawn_keys=("claude-code:1",))
    save(store, "/a.jsonl", exchange("2", "We trim the lamp.", ordinal=1))
    embed_pending(store, random.Random(2), 10)
    with store.read_with_drawers() as (_, snapshot):
        assert said(snapshot) == said_fresh(store)
        assert said(snapshot)[0][2] != before[0][2]


def test_where_most_statements_are_dead_they_are_loaded_anew(
    store: Any, save: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "_FEW_ROWS", 4)
    store.use_model("m")
    longest = 0
    for number in range(12):
        save(store, "/a.jsonl", exchange("1", f"Jar {'x' * number} is here. We keep it lit."))
        embed_pending(store, random.Random(number), 10)
        with store.read_with_drawers() as (_, snapshot):
            assert len(said(snapshot)) == 2
            longest = max(longest, len(snapshot.statements.runs))
    assert 2 < longest < 10


def test_following_statements_reads_only_what_changed(store: Any) -> None:
    steps = plan(store, statement_mirror._LOAD_CHANGED, "m", "[1]")
    assert steps[0].startswith("SEARCH s USING PRIMARY KEY (exchange_id=?)")
    steps += plan(store, statement_mirror._EMBEDDED, "m", 5)
    assert "SEARCH v USING INDEX vectors_generation (space=? AND generation>?)" in steps
    assert [step for step in steps if step.startswith("SCAN") and "json_each" not in step] == []


def test_loading_all_statements_sorts_nothing(store: Any) -> None:
    steps = plan(store, statement_mirror._LOAD_ALL, "m")
    assert steps[0] == "SCAN s"
    assert [step for step in steps[1:] if not step.startswith("SEARCH")] == []
