from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3
import stat
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from palace_daemon.errors import ClosedError, StoreDamagedError, StoreError, StoreFullError, StoreTooNewError
from palace_daemon.store import migrations, sqlite
from palace_daemon.store.reader import Readers
from palace_daemon.store.writer import Writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return sqlite.database_path(tmp_path / "data")


def test_new_database_is_private_and_in_wal_mode(path: Path) -> None:
    writer = Writer(path)
    try:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert writer.run(lambda c: c.execute("PRAGMA user_version").fetchone()) == (migrations.SCHEMA_VERSION,)
        with Readers(path).snapshot() as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    finally:
        writer.close()


def test_what_a_row_no_longer_holds_is_overwritten_from_the_first_write_on(path: Path) -> None:
    Writer(path).close()
    writer = Writer(path)
    try:
        assert writer.run(lambda c: c.execute("PRAGMA secure_delete").fetchone()) == (1,)
    finally:
        writer.close()


@pytest.mark.parametrize("name", ["with space", "100%", "what?", "hash#tag", "ünï"])
def test_paths_with_uri_characters_open(tmp_path: Path, name: str) -> None:
    path = sqlite.database_path(tmp_path / name)
    Writer(path).close()
    assert path.is_file()
    with Readers(path).snapshot() as connection:
        assert connection.execute("SELECT count(*) FROM sources").fetchone() == (0,)


def test_failed_work_is_rolled_back_and_the_thread_lives_on(path: Path) -> None:
    writer = Writer(path)
    try:

        def fail(connection: Any) -> None:
            connection.execute("UPDATE state SET model='half'")
            raise ValueError("on purpose")

        with pytest.raises(ValueError, match="on purpose"):
            writer.run(fail)
        assert writer.run(lambda c: c.execute("SELECT model FROM state").fetchone()) == ("",)
    finally:
        writer.close()


def test_use_after_close_says_so(path: Path) -> None:
    writer = Writer(path)
    writer.close()
    writer.close()
    with pytest.raises(ClosedError):
        writer.run(lambda c: None)
    readers = Readers(path)
    readers.close()
    with pytest.raises(ClosedError), readers.snapshot():
        pass


def test_queued_work_is_finished_before_close(path: Path) -> None:
    writer = Writer(path)
    futures = [writer.submit(lambda c: c.execute("UPDATE state SET generation=generation+1")) for _ in range(30)]
    writer.close()
    assert all(future.done() and future.exception() is None for future in futures)
    with Readers(path).snapshot() as connection:
        assert connection.execute("SELECT generation FROM state").fetchone() == (30,)


def test_a_reader_sees_one_state_while_the_writer_goes_on(path: Path) -> None:
    writer = Writer(path)
    try:
        with Readers(path).snapshot() as connection:
            writer.run(lambda c: c.execute("UPDATE state SET model='new'"))
            assert connection.execute("SELECT model FROM state").fetchone() == ("",)
    finally:
        writer.close()


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_reader_that_failed_amid_a_cursor_shows_the_next_one_the_state_of_now(path: Path, *, is_kept: bool) -> None:
    writer, readers = Writer(path), Readers(path)
    rows = [(number,) for number in range(300)]
    writer.run(lambda c: c.executemany("INSERT INTO removed_drawers VALUES (?,1)", rows))
    kept: list[BaseException] = []

    def fail() -> None:
        with readers.snapshot() as connection:
            found = connection.execute("SELECT drawer_id FROM removed_drawers")
            for _ in found:
                raise ValueError("on purpose")

    try:
        fail()
    except ValueError as exc:
        if is_kept:
            kept.append(exc)
    writer.run(lambda c: c.execute("UPDATE state SET model='new'"))
    try:
        with readers.snapshot() as connection:
            assert connection.execute("SELECT model FROM state").fetchone() == ("new",)
    finally:
        readers.close()
        writer.close()
    assert len(kept) == is_kept


def test_readers_cannot_write(path: Path) -> None:
    Writer(path).close()
    with pytest.raises(StoreError), Readers(path).snapshot() as connection:
        connection.execute("UPDATE state SET model='x'")


def hold_lock(path: str, seconds: float, is_held: Any) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    is_held.set()
    time.sleep(seconds)
    connection.execute("COMMIT")
    connection.close()


def test_waits_for_another_process_that_holds_the_write_lock(path: Path) -> None:
    writer = Writer(path)
    context = multiprocessing.get_context("spawn")
    is_held = context.Event()
    other = context.Process(target=hold_lock, args=(str(path), 3.0, is_held))
    other.start()
    try:
        assert is_held.wait(20)
        writer.run(lambda c: c.execute("UPDATE state SET model='waited'"))
        assert writer.run(lambda c: c.execute("SELECT model FROM state").fetchone()) == ("waited",)
    finally:
        other.join(20)
        writer.close()


def test_a_file_that_is_no_database_is_named_and_left_alone(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"These are my notes, not a database.\n" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreDamagedError, match=r"palace\.db is damaged"):
        Writer(path)
    assert path.read_bytes() == before


def test_a_corrupt_page_is_named_and_the_file_left_alone(path: Path) -> None:
    writer = Writer(path)
    writer.run(
        lambda c: c.executemany(
            "INSERT INTO sources(path, state) VALUES (?, 'ok')", [(f"/{n}" * 50,) for n in range(900)]
        )
    )
    writer.close()
    data = bytearray(path.read_bytes())
    for page in range(8, len(data) // 4096):
        data[page * 4096 : page * 4096 + 512] = b"\xff" * 512
    path.write_bytes(data)
    with pytest.raises(StoreDamagedError), Readers(path).snapshot() as connection:
        connection.execute("SELECT count(*) FROM sources NOT INDEXED WHERE length(path) > 0").fetchone()
    assert path.stat().st_size == len(data)


def test_a_newer_store_is_refused_politely(path: Path) -> None:
    writer = Writer(path)
    writer.close()
    connection = sqlite.open_writer(path)
    connection.execute(f"PRAGMA user_version={migrations.SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(StoreTooNewError, match="upgrade palace-daemon"):
        Writer(path)
    with pytest.raises(StoreTooNewError), Readers(path).snapshot():
        pass


def test_the_real_schema_is_looked_at_not_only_its_number(path: Path) -> None:
    Writer(path).close()
    connection = sqlite.open_writer(path)
    connection.execute("DROP TABLE postings")
    connection.close()
    with pytest.raises(StoreDamagedError, match="lacks postings"):
        Writer(path)


def test_a_missing_store_says_what_to_do(path: Path) -> None:
    with pytest.raises(StoreError, match="palace-daemon mine"), Readers(path).snapshot():
        pass


def test_a_failing_migration_leaves_the_former_schema(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Writer(path).close()

    def m002_fails(connection: Any) -> None:
        connection.execute("CREATE TABLE half(x)")
        raise RuntimeError("power cut")

    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, m002_fails))
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", migrations.SCHEMA_VERSION + 1)
    with pytest.raises(RuntimeError, match="power cut"):
        Writer(path)
    connection = sqlite.open_writer(path)
    try:
        assert migrations.schema_version(connection) == migrations.SCHEMA_VERSION - 1
        assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name='half'").fetchone() == (0,)
    finally:
        connection.close()


def test_two_writers_that_open_at_once_migrate_once(path: Path) -> None:
    for attempt in range(30):  # the race is lost about once in 300 openings
        new = path.with_name(f"{attempt}.db")
        writers: list[Writer] = []
        threads = [threading.Thread(target=lambda: writers.append(Writer(new))) for _ in range(6)]  # noqa: B023
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for writer in writers:
            writer.close()
        assert len(writers) == 6


def test_on_a_full_disk_a_settled_store_is_read_without_any_file_beside_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Writer(path).close()
    made = sorted(path.parent.iterdir())
    assert made == [path]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=4_096))
    readers = Readers(path)
    with readers.snapshot() as connection:
        assert connection.execute("SELECT generation FROM state").fetchone() == (0,)
        assert sorted(path.parent.iterdir()) == made
    readers.close()
    with pytest.raises(StoreFullError), sqlite.mapped_errors(path):
        raise sqlite.Error("disk I/O error")


def test_a_directory_whose_name_is_no_utf8_holds_a_store(tmp_path: Path) -> None:
    path = sqlite.database_path(Path(os.fsdecode(os.fsencode(tmp_path) + b"/d\xff")))
    Writer(path).close()
    readers = Readers(path)
    with readers.snapshot() as connection:
        assert connection.execute("SELECT generation FROM state").fetchone() == (0,)
        assert migrations._file_of(connection) == path
    readers.close()


def test_a_full_disk_is_named_and_leaves_no_half_batch(path: Path) -> None:
    writer = Writer(path)
    try:
        pages = writer.submit(lambda c: c.execute("PRAGMA page_count").fetchone()[0]).result()
        writer._connection.execute(f"PRAGMA max_page_count={pages + 5}")

        def fill(connection: Any) -> None:
            for number in range(100):
                connection.execute("INSERT INTO sources(path, state) VALUES (?, 'ok')", (f"/{number}" + "x" * 4_000,))

        with pytest.raises(StoreFullError, match="no space left"):
            writer.run(fill)
        assert writer.run(lambda c: c.execute("SELECT count(*) FROM sources").fetchone()) == (0,)
    finally:
        writer.close()
