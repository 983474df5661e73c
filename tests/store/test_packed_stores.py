"""Stores of the schema whose vectors were float32, under this version."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from support.exchanges import exchange
from support.old_store import make_schema_2

from palace_daemon.embed import registry
from palace_daemon.errors import StoreFullError
from palace_daemon.store import backups, check, forgetting, migrations, salvage, spaces, sqlite, vectors
from palace_daemon.store.writer import Writer

OLD, NEW = "a@1", "b@1"


def embed(store: Any, model: str, limit: int, dim: int) -> None:
    with store.read() as connection:
        queued = vectors.queued(connection, model, limit)
    rows = np.random.default_rng(len(queued) + dim).standard_normal((len(queued), dim)).astype(np.float32)
    store.save_vectors(model, queued, rows / np.linalg.norm(rows, axis=1, keepdims=True))


def state_of(path: Path) -> dict[str, Any]:
    """Return roles, counts, queues and vectors to the bit; nothing may be unsound."""
    connection = sqlite.open_reader(path)
    try:
        assert [finding for finding in check.check(connection, is_deep=True) if not finding.is_ok] == []
        return {
            "spaces": spaces.read(connection),
            "vectors": connection.execute("SELECT * FROM vectors ORDER BY id").fetchall(),
            "queue": connection.execute("SELECT * FROM pending_texts ORDER BY 1, 2").fetchall(),
            "model": connection.execute("SELECT model, generation FROM state").fetchall(),
        }
    finally:
        connection.close()


@pytest.fixture
def now(tmp_path: Path, open_store: Any, save: Any) -> Path:
    """A store amid a switch: every text has a vector of one model, some have one of the next."""
    store = open_store(tmp_path / "now")
    store.use_model(OLD)
    for number in range(60):
        save(store, f"/{number}.jsonl", exchange(str(number), f"I set dial {number}.", f"Reply {number}."))
    embed(store, OLD, 1_000, 16)
    store.switch_model(NEW)
    embed(store, NEW, 40, 8)
    store.close()
    return sqlite.database_path(tmp_path / "now")


@pytest.fixture
def old(now: Path, tmp_path: Path) -> Path:
    path = sqlite.database_path(tmp_path / "old")
    make_schema_2(now, path)
    return path


def test_a_store_amid_a_switch_keeps_both_spaces_their_counts_and_their_queues(old: Path, now: Path) -> None:
    Writer(old).close()
    held = state_of(old)
    assert held == state_of(now)
    assert held["spaces"].next is not None
    assert min(held["spaces"].next.vectors, held["spaces"].next.pending) > 0


def test_a_switch_goes_on_where_it_was(old: Path, open_store: Any) -> None:
    store = open_store(old.parent)
    embed(store, NEW, 1_000, 8)
    assert store.spaces().answering == (NEW, len(state_of(old)["vectors"]) // 2, 0)
    store.close()


@pytest.mark.parametrize("at", ["ALTER TABLE vectors", "INSERT INTO vectors", "DROP TABLE vectors_before", "CREATE TR"])
def test_a_migration_that_is_broken_off_leaves_the_store_as_it_was(
    old: Path, now: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = old.read_bytes()

    class Breaking:
        def __init__(self, connection: Any) -> None:
            self._connection = connection

        def __getattr__(self, name: str) -> Any:
            def call(sql: str, *values: Any) -> Any:
                if sql.startswith(at):
                    raise OSError("killed")
                return getattr(self._connection, name)(sql, *values)

            return call

    first, second, packing_them, *later = migrations.MIGRATIONS
    with monkeypatch.context() as patch:
        patch.setattr(
            migrations,
            "MIGRATIONS",
            (first, second, lambda c: packing_them(cast("sqlite.Connection", Breaking(c))), *later),
        )
        with pytest.raises(OSError, match="killed"):
            Writer(old)
    assert old.read_bytes() == whole
    Writer(old).close()
    assert state_of(old) == state_of(now)


def test_why_a_migration_failed_is_told_where_the_database_has_undone_it_already(
    old: Path, now: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_the_disk(connection: sqlite.Connection) -> None:
        connection.execute("ROLLBACK")  # as SQLite may when a write fails
        raise StoreFullError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS[:2], fill_the_disk, *migrations.MIGRATIONS[3:]))
        with pytest.raises(StoreFullError):
            Writer(old)
    Writer(old).close()
    assert state_of(old) == state_of(now)


def test_an_older_store_that_lacks_what_the_migration_replaces_is_migrated(old: Path, now: Path) -> None:
    connection = sqlite.open_writer(old)
    connection.execute("DROP TRIGGER vectors_added")
    connection.execute("DROP TRIGGER vectors_gone")
    connection.execute("DROP INDEX vectors_generation")
    connection.close()
    Writer(old).close()
    assert state_of(old) == state_of(now)


def test_vectors_that_were_none_are_told_and_made_again(old: Path, open_store: Any) -> None:
    connection = sqlite.open_writer(old)
    connection.execute("UPDATE vectors SET vector=x'00' WHERE id=3")
    connection.execute("UPDATE vectors SET vector=x'0000c07f'||substr(vector, 5) WHERE id=4")
    connection.close()
    store = open_store(old.parent)
    with store.read() as connection:
        assert check.broken_vectors(connection) == [3, 4]
    store.close()


def test_the_room_that_packing_leaves_is_given_back_and_the_backup_stays(
    tmp_path: Path, open_store: Any, save: Any
) -> None:
    store = open_store(tmp_path / "large")
    store.use_model(OLD)
    for number in range(150):
        save(store, f"/{number}.jsonl", exchange(str(number), f"I set dial {number}.", f"Reply {number}."))
    embed(store, OLD, 1_000, 384)
    store.close()
    path = sqlite.database_path(tmp_path / "old")
    make_schema_2(sqlite.database_path(tmp_path / "large"), path)
    before = path.stat().st_size
    store = open_store(path.parent)
    with store.read() as connection:
        assert forgetting.is_scrub_due(connection)
        assert not forgetting.has_traces(connection)
    store.scrub()
    with store.read() as connection:
        assert not forgetting.is_scrub_due(connection)
    store.close()
    assert path.stat().st_size < 0.7 * before
    assert len(backups.newest_first(path)) == 1


def test_what_is_forgotten_while_room_is_due_takes_the_backup_with_it(old: Path, open_store: Any) -> None:
    store = open_store(old.parent)
    store.edit(lambda connection, drawers: forgetting.forget(connection, drawers, [1], 0))
    with store.read() as connection:
        assert forgetting.has_traces(connection)
    store.scrub()
    store.close()
    assert backups.newest_first(old) == []


def test_a_new_store_has_nothing_to_rewrite(tmp_path: Path) -> None:
    path = sqlite.database_path(tmp_path / "new")
    Writer(path).close()
    connection = sqlite.open_reader(path)
    assert not forgetting.is_scrub_due(connection)
    connection.close()


def test_vectors_are_taken_out_of_a_damaged_store_of_either_schema(old: Path, now: Path) -> None:
    expected = state_of(now)
    found = []
    for path in (old, now):
        damaged = path.with_name("damaged.db")
        shutil.copy(path, damaged)
        with damaged.open("rb+") as file:
            file.write(b"\0" * 100)
        assert salvage.salvage(damaged, "20260101T000000Z").rows["vectors"] == len(expected["vectors"])
        connection = sqlite.open_reader(damaged)
        found.append(connection.execute("SELECT * FROM vectors ORDER BY id").fetchall())
        assert connection.execute("SELECT number FROM spaces WHERE model=?", (NEW,)).fetchone() == (spaces.number(NEW),)
        connection.close()
    assert found == [expected["vectors"]] * 2


def test_no_two_models_of_ours_share_a_number_now_or_soon() -> None:
    models = [f"{model}@{version}" for model in registry.model_ids() for version in range(200)]
    assert len({spaces.number(model) for model in ("", *models)}) == 1 + len(models) > 200


def test_numbers_of_spaces_follow_from_the_fingerprint_alone() -> None:
    # Stored: never to change.
    assert [spaces.number(model) for model in ("all-minilm-l6-v2-int8@2", "")] == [765_815_365, 154_724_242]
