"""``kill -9`` at named points: started again, the store equals one that was never disturbed.

``docs/damage.md`` lists the points by these names.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.damage import WORD, leaf_of_exchanges, overwrite, write_sessions
from support.dumps import logical_dump
from support.faults import Forker, Point, forker
from support.old_store import make_schema_1
from support.traces import traces

from palace_daemon.store import backups, check, migrations, sqlite

POINTS = {
    "mining: before a source is known": Point("mine", "INSERT INTO sources"),
    "mining: before a session is stored": Point("mine", "INSERT INTO sessions"),
    "mining: before an exchange is stored": Point("mine", "INSERT INTO exchanges(", 5),
    "mining: before its place is stored": Point("mine", "INSERT INTO provenance", 3),
    "mining: before a drawer is stored": Point("mine", "INSERT INTO drawers", 7),
    "mining: before a statement is stored": Point("mine", "INSERT INTO statements", 4),
    "mining: before a text is queued": Point("mine", "INSERT INTO pending_texts", 6),
    "mining: amid the words of a batch": Point("mine", "INSERT INTO postings", 40),
    "mining: before the cursor moves": Point("mine", "UPDATE sources SET state='ok'", 2),
    "mining: before a batch is committed": Point("mine", "COMMIT", 4),
    "mining: between two batches": Point("mine", "BEGIN IMMEDIATE", 7),
    "embedding: before the first vector": Point("mine", "INSERT INTO vectors"),
    "embedding: amid a batch of vectors": Point("mine", "INSERT INTO vectors", 9),
    "embedding: before a text leaves the queue": Point("mine", "DELETE FROM pending_texts", 3),
    "forgetting: before its tombstones": Point("forget", "INSERT INTO tombstones"),
    "forgetting: before its drawers go": Point("forget", "DELETE FROM drawers"),
    "forgetting: before its words go": Point("forget", "DELETE FROM postings"),
    "forgetting: before the exchange goes": Point("forget", "DELETE FROM exchanges"),
    "forgetting: before the wiping is noted": Point("forget", "UPDATE state SET scrub_due=1"),
    "forgetting: before backups are deleted": Point("forget", "os.remove 2"),
    "forgetting: before the file is rewritten": Point("forget", "VACUUM INTO"),
    "forgetting: before the log is cut": Point("forget", "PRAGMA wal_checkpoint", 2),
    "forgetting: before it is noted as done": Point("forget", "UPDATE state SET scrub_due=0"),
    "migrating: before the backup is written": Point("reopen", "VACUUM INTO"),
    "migrating: before the backup has its name": Point("reopen", "os.rename 2"),
    "migrating: before the first statement": Point("reopen", "ALTER TABLE state"),
    "migrating: amid the statements": Point("reopen", "CREATE TRIGGER vectors_added"),
    "migrating: before the rows move": Point("reopen", "INSERT INTO pending_texts(text_hash, model"),
    "migrating: before its number is set": Point("reopen", "PRAGMA user_version=2"),
    "migrating: before it is committed": Point("reopen", "COMMIT"),
    "migrating: amid the packing of vectors": Point("reopen", "INSERT INTO vectors VALUES", 5),
    "migrating: before the former vectors go": Point("reopen", "DROP TABLE vectors_before"),
    "migrating: before the last number is set": Point("reopen", f"PRAGMA user_version={migrations.SCHEMA_VERSION}"),
    "index building: before the former words go": Point("recut", "DELETE FROM postings"),
    "index building: before the former drawers go": Point("recut", "DELETE FROM drawers"),
    "index building: amid the drawers": Point("recut", "INSERT INTO drawers", 8),
    "index building: amid the words": Point("recut", "INSERT INTO postings", 12),
    "index building: before its version is set": Point("recut", "UPDATE state SET index_version"),
    "index building: before it is committed": Point("recut", "COMMIT"),
    "repairing: amid the rows that are saved": Point("mend", "INSERT OR IGNORE INTO exchanges", 5),
    "repairing: before the new file is whole": Point("mend", "os.rename palace.db.rebuilt"),
    "repairing: before the damaged file is kept": Point("mend", "os.link palace.db.damaged"),
    "repairing: before the new file takes its place": Point("mend", "os.rename palace.db", 2),
    "repairing: amid the index of the new file": Point("mend", "INSERT INTO drawers", 4),
}


class Stores(NamedTuple):
    """What is prepared once: the transcripts, and for each job a store to begin with and one that it ends with."""

    forker: Forker
    transcripts: Path
    before: dict[str, Path]
    after: dict[str, dict[str, Any]]


def dump(data: Path) -> dict[str, Any]:
    path = sqlite.database_path(data)
    connection = sqlite.open_reader(path)
    try:
        assert [finding for finding in check.check(connection, is_deep=True) if not finding.is_ok] == []
        assert migrations.schema_version(connection) == migrations.SCHEMA_VERSION
        tombstones = connection.execute("SELECT digest, kind, reply_digest FROM tombstones ORDER BY 1, 3").fetchall()
    finally:
        connection.close()
    return logical_dump(path) | {"tombstones": tombstones}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    base = tmp_path_factory.mktemp("points")
    transcripts = base / "transcripts"
    write_sessions(transcripts, 6)
    before = {job: base / "before" / job for job in ("mine", "forget", "reopen", "recut", "mend")}
    before["mine"].mkdir(parents=True)
    with forker() as runner:
        assert not runner.run("mine", before["recut"], transcripts)
        whole = sqlite.database_path(before["recut"])
        for job in ("forget", "mend"):
            shutil.copytree(before["recut"], before[job])
        (before["forget"] / backups.FOLDER).mkdir()
        shutil.copy(whole, before["forget"] / backups.FOLDER / "20260101T000000Z-schema-1.db")
        make_schema_1(whole, sqlite.database_path(before["reopen"]), without_vectors=3)
        damaged = sqlite.database_path(before["mend"])
        overwrite(damaged, leaf_of_exchanges(damaged))
        after = {}
        for job, start in before.items():
            data = base / "after" / job
            shutil.copytree(start, data)
            assert not runner.run(job, data, transcripts)
            after[job] = dump(data)
        yield Stores(runner, transcripts, before, after)


@pytest.mark.parametrize("name", POINTS)
def test_killed_there_and_started_again_it_equals_an_undisturbed_run(name: str, stores: Stores, tmp_path: Path) -> None:
    point = POINTS[name]
    data = tmp_path / "data"
    shutil.copytree(stores.before[point.job], data)
    assert stores.forker.run(point.job, data, stores.transcripts, point), "it was not killed: there is no such point"
    assert not stores.forker.run(point.job, data, stores.transcripts)
    assert dump(data) == stores.after[point.job]
    leftovers = [path.name for path in data.rglob("*") if path.suffix in {".partial", ".scrub", ".rebuilding"}]
    assert leftovers == []
    if point.job == "forget":
        assert traces(data, (WORD,)) == []
    if point.job == "reopen":
        assert 1 <= len(backups.newest_first(sqlite.database_path(data))) <= backups.KEPT
    if point.job == "mend":
        assert len(backups.damaged(sqlite.database_path(data))) >= 1


@pytest.mark.parametrize("name", [name for name, point in POINTS.items() if point.event.startswith("os.link")])
def test_a_repair_that_was_broken_off_is_finished_by_whoever_opens_the_store_next(
    name: str, stores: Stores, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(stores.before["mend"], data)
    assert stores.forker.run("mend", data, stores.transcripts, POINTS[name])
    assert not stores.forker.run("mine", data, stores.transcripts)
    assert dump(data) == stores.after["mend"]
    assert len(backups.damaged(sqlite.database_path(data))) >= 1


def test_a_damaged_store_of_a_former_schema_is_salvaged_into_one_of_now(stores: Stores, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(stores.before["reopen"], data)
    path = sqlite.database_path(data)
    overwrite(path, leaf_of_exchanges(path))
    assert not stores.forker.run("mend", data, stores.transcripts)
    assert dump(data) == stores.after["reopen"]


def test_a_repaired_and_a_migrated_store_equal_one_that_was_never_damaged_nor_old(stores: Stores) -> None:
    never = dump(stores.before["recut"])
    assert stores.after["mend"] == never
    assert stores.after["reopen"] == never
    assert stores.after["mine"] == never


def test_there_are_points_in_every_kind_of_work() -> None:
    kinds = [name.partition(":")[0] for name in POINTS]
    assert {kind: kinds.count(kind) >= 3 for kind in kinds} == dict.fromkeys(
        ("mining", "embedding", "forgetting", "migrating", "index building", "repairing"), True
    )
    assert len(POINTS) >= 20
