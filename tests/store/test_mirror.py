from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest
from support.exchanges import FIRST_DAY, exchange

from palace_daemon.store import matrix, mirror, statement_mirror, vectors
from palace_daemon.store.mirror import Mirror, Snapshot

DIM = 8


def view(snapshot: Snapshot) -> dict[int, tuple[Any, ...]]:
    """Return what the snapshot says of each drawer, without row numbers."""
    rows = np.flatnonzero(snapshot.ids >= 0)
    found = {}
    for row in rows.tolist():
        vector = snapshot.vectors(np.array([row]))[0].tolist() if snapshot.has_vector[row] else None
        found[int(snapshot.ids[row])] = (
            int(snapshot.sessions[row]),
            snapshot.project_names[snapshot.projects[row]],
            snapshot.agent_names[snapshot.agents[row]],
            int(snapshot.started_at[row]),
            float(snapshot.lengths[row]),
            int(snapshot.exchanges[row]),
            sorted(snapshot.statements.vectors(snapshot.statements.rows(snapshot.exchanges[row : row + 1])).tolist()),
            bool(snapshot.is_live[row]),
            vector,
        )
        assert snapshot.rows_of(np.array([snapshot.ids[row]]))[0] == row
    return found


def embed_pending(store: Any, dice: random.Random, limit: int) -> None:
    with store.read() as connection:
        queued = vectors.pending(connection, limit)
    if queued:
        matrix = np.array([[dice.random() for _ in range(DIM)] for _ in queued], np.float32)
        store.save_vectors("m", [hash_ for hash_, _ in queued], matrix)


def fresh(store: Any) -> dict[int, tuple[Any, ...]]:
    with store.read() as connection:
        snapshot = Mirror().at(connection)
        assert snapshot is not None
        return view(snapshot)


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
    steps = plan(store, mirror._LOAD_CHANGED, "m", 5)
    assert steps[0] == "SEARCH d USING INDEX drawers_generation (generation>?)"
    assert [step for step in steps if step.startswith("SCAN")] == []
    steps = plan(store, mirror._LOAD_EMBEDDED, "m", 5, 5)
    assert steps[0] == "SEARCH v USING INDEX vectors_generation (model=? AND generation>?)"
    assert [step for step in steps if step.startswith("SCAN")] == []


def test_loading_everything_sorts_nothing(store: Any) -> None:
    steps = plan(store, mirror._LOAD_ALL, "m", -1)
    assert steps[0] == "SCAN d"
    assert [step for step in steps[1:] if not step.startswith("SEARCH")] == []


def test_a_reply_that_grows_loads_few_drawers_again(store: Any, save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    put = mirror._Edit.put

    def counted(edit: Any, one: Any, project: int, agent: int) -> None:
        loaded.append(one.drawer_id)
        put(edit, one, project, agent)

    monkeypatch.setattr(mirror._Edit, "put", counted)
    reply = "\n\n".join(f"Gauge {n} drifted by some millimetres in the night." for n in range(300))
    save(store, "/a.jsonl", exchange("1", reply=reply))
    with store.read_with_drawers() as (_, snapshot):
        assert len(snapshot.ids) == len(loaded) > 15
    loaded.clear()
    save(store, "/a.jsonl", exchange("1", reply=reply + "\n\nOne more line."))
    with store.read_with_drawers() as (_, snapshot):
        assert 1 <= len(loaded) <= 2
        assert view(snapshot) == fresh(store)


# ---------------------------------------------------------------------------------------------------------- statements


def said(snapshot: Snapshot) -> list[tuple[int, bool, list[float]]]:
    """Return the living statements: exchange, whether a wish, vector."""
    held = snapshot.statements
    return sorted(
        (int(held.exchanges[row]), bool(held.is_wish[row]), held.vectors(np.array([row]))[0].tolist())
        for row in np.flatnonzero(held.exchanges >= 0).tolist()
    )


def loaded_anew(store: Any) -> list[tuple[int, bool, list[float]]]:
    with store.read() as connection:
        snapshot = Mirror().at(connection)
        assert snapshot is not None
        return said(snapshot)


def test_statements_say_whether_they_are_wishes(store: Any, save: Any) -> None:
    store.use_model("m")
    save(store, "/a.jsonl", exchange("1", "We moved the lamp. I always trim it."))
    embed_pending(store, random.Random(1), 10)
    with store.read_with_drawers() as (_, snapshot):
        assert [is_wish for _, is_wish, _ in said(snapshot)].count(True) == 1
        query = np.eye(1, DIM, dtype=np.float32)[0]
        held = snapshot.statements
        wish = held.vectors(np.flatnonzero(held.is_wish))[0]
        stated, wished = snapshot.statement_cosines(query)
        assert wished.tolist() == pytest.approx([float(wish @ query)])
        assert stated[0] >= wished[0]


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
                assert said(snapshot) == loaded_anew(store)
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
        assert said(snapshot) == before[1:] == loaded_anew(store)
    save(store, "/a.jsonl", withdrawn_keys=("claude-code:2",))
    with store.read_with_drawers() as (_, snapshot):
        assert said(snapshot) == loaded_anew(store) == []
        stated, wished = snapshot.statement_cosines(np.eye(1, DIM, dtype=np.float32)[0])
        assert set(stated.tolist()) | set(wished.tolist()) == {-1.0}


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
        assert said(snapshot) == loaded_anew(store)
        assert said(snapshot)[0][2] != before[0][2]


def test_where_most_statements_are_dead_they_are_loaded_anew(
    store: Any, save: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "CHUNK_ROWS", 4)
    store.use_model("m")
    longest = 0
    for number in range(12):
        save(store, "/a.jsonl", exchange("1", f"Jar {'x' * number} is here. We keep it lit."))
        embed_pending(store, random.Random(number), 10)
        with store.read_with_drawers() as (_, snapshot):
            assert len(said(snapshot)) == 2
            longest = max(longest, len(snapshot.statements.exchanges))
    assert 2 < longest < 10


def test_following_statements_reads_only_what_changed(store: Any) -> None:
    steps = plan(store, statement_mirror._LOAD_CHANGED, "m", "[1]")
    assert steps[0].startswith("SEARCH s USING PRIMARY KEY (exchange_id=?)")
    steps += plan(store, statement_mirror._LOAD_EMBEDDED, "m", 5)
    assert "SEARCH v USING INDEX vectors_generation (model=? AND generation>?)" in steps
    assert [step for step in steps if step.startswith("SCAN") and "json_each" not in step] == []


def test_loading_all_statements_sorts_nothing(store: Any) -> None:
    steps = plan(store, statement_mirror._LOAD_ALL, "m")
    assert steps[0] == "SCAN s"
    assert [step for step in steps[1:] if not step.startswith("SEARCH")] == []
