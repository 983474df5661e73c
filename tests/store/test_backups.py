from __future__ import annotations

import shutil
import stat
import threading
from pathlib import Path
from typing import NamedTuple

import pytest
from support.old_store import make_schema_1

from palace_daemon.errors import StoreDamagedError, StoreFullError
from palace_daemon.store import backups, migrations, sqlite
from palace_daemon.store.writer import Writer


class Usage(NamedTuple):
    """What is left on a disk."""

    free: int


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store of schema 1 with a source in it."""
    new, path = tmp_path / "new.db", sqlite.database_path(tmp_path / "data")
    writer = Writer(new)
    writer.run(lambda c: c.execute("INSERT INTO sources(path, state) VALUES ('/one', 'ok')"))
    writer.close()
    make_schema_1(new, path)
    return path


def content(path: Path) -> tuple[int, list[tuple[str]]]:
    connection = sqlite.open_to_copy(path)
    try:
        found = connection.execute("SELECT path FROM sources").fetchall()
        return migrations.schema_version(connection), found
    finally:
        connection.close()


def test_a_migration_leaves_a_private_backup_of_the_former_schema(old: Path) -> None:
    Writer(old).close()
    assert content(old) == (migrations.SCHEMA_VERSION, [("/one",)])
    (backup,) = backups.newest_first(old)
    assert content(backup.path) == (1, [("/one",)])
    assert "schema-1" in backup.path.name
    assert stat.S_IMODE(backup.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(backup.path.parent.stat().st_mode) == 0o700


def test_a_backup_put_back_is_migrated_like_the_original(old: Path) -> None:
    """The steps of docs/damage.md."""
    Writer(old).close()
    (backup,) = backups.newest_first(old)
    for ending in ("", "-wal", "-shm"):
        old.with_name(old.name + ending).unlink(missing_ok=True)
    shutil.copy(backup.path, old)
    Writer(old).close()
    assert content(old) == (migrations.SCHEMA_VERSION, [("/one",)])


def test_neither_a_new_store_nor_a_current_one_is_backed_up(tmp_path: Path) -> None:
    path = sqlite.database_path(tmp_path)
    Writer(path).close()
    Writer(path).close()
    assert not backups.folder(path).exists()


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    path = sqlite.database_path(tmp_path)
    Writer(path).close()
    taken = [backups.take(path, f"schema-{number}") for number in range(4)]
    assert [one.path for one in backups.newest_first(path)] == [taken[3], taken[2]]


def test_what_a_killed_backup_left_is_removed(tmp_path: Path) -> None:
    path = sqlite.database_path(tmp_path)
    Writer(path).close()
    backups.folder(path).mkdir()
    (backups.folder(path) / "20260101T000000Z-schema-1.partial").write_bytes(b"half")
    taken = backups.take(path, "schema-1")
    assert list(backups.folder(path).iterdir()) == [taken]


def test_without_room_for_a_backup_nothing_is_migrated(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _path: Usage(10))
        with pytest.raises(StoreFullError, match="no room for a backup"):
            Writer(old)
    assert content(old) == (1, [("/one",)])
    Writer(old).close()
    assert content(old)[0] == migrations.SCHEMA_VERSION


def test_a_damaged_store_is_not_migrated(old: Path) -> None:
    data = bytearray(old.read_bytes())
    connection = sqlite.open_to_copy(old)
    (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name='sources'").fetchone()
    connection.close()
    data[(root - 1) * 4096 : root * 4096] = b"\xff" * 4096
    old.write_bytes(data)
    with pytest.raises(StoreDamagedError, match="doctor --fix"):
        Writer(old)
    assert not list(backups.folder(old).iterdir())
    connection = sqlite.open_to_copy(old)
    assert migrations.schema_version(connection) == 1
    connection.close()


def test_two_that_open_an_old_store_at_once_make_one_backup(old: Path) -> None:
    failures: list[BaseException] = []

    def open_() -> None:
        try:
            Writer(old).close()
        except BaseException as exc:  # noqa: BLE001 - the test is to see it
            failures.append(exc)

    threads = [threading.Thread(target=open_) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert len(backups.newest_first(old)) == 1
