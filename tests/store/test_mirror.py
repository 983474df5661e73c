from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest
from support.exchanges import FIRST_DAY, exchange

from palace_daemon.store import mirror as mirrors
from palace_daemon.store import vectors
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
    monkeypatch.setattr(mirrors, "CHUNK_ROWS", 16)
    store.use_model("m")
    dice = random.Random(11)
    for step in range(80):
        name = str(dice.randrange(8))
        reply = "\n\n".join(f"Gauge {dice.randrange(50)} drifted." for _ in range(dice.randrange(1, 200)))
        told = exchange(
            name,
            f"Question {name}?",
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
    steps = plan(store, mirrors._LOAD_CHANGED, "m", 5)
    assert steps[0] == "SEARCH d USING INDEX drawers_generation (generation>?)"
    assert [step for step in steps if step.startswith("SCAN")] == []
    steps = plan(store, mirrors._LOAD_EMBEDDED, "m", 5, 5)
    assert steps[0] == "SEARCH v USING INDEX vectors_generation (model=? AND generation>?)"
    assert [step for step in steps if step.startswith("SCAN")] == []


def test_loading_everything_sorts_nothing(store: Any) -> None:
    steps = plan(store, mirrors._LOAD_ALL, "m", -1)
    assert steps[0] == "SCAN d"
    assert [step for step in steps[1:] if not step.startswith("SEARCH")] == []


def test_a_reply_that_grows_loads_few_drawers_again(store: Any, save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    put = mirrors._Edit.put

    def counted(edit: Any, one: Any, project: int, agent: int) -> None:
        loaded.append(one.drawer_id)
        put(edit, one, project, agent)

    monkeypatch.setattr(mirrors._Edit, "put", counted)
    reply = "\n\n".join(f"Gauge {n} drifted by some millimetres in the night." for n in range(300))
    save(store, "/a.jsonl", exchange("1", reply=reply))
    with store.read_with_drawers() as (_, snapshot):
        assert len(snapshot.ids) == len(loaded) > 15
    loaded.clear()
    save(store, "/a.jsonl", exchange("1", reply=reply + "\n\nOne more line."))
    with store.read_with_drawers() as (_, snapshot):
        assert 1 <= len(loaded) <= 2
        assert view(snapshot) == fresh(store)
