"""Other programs' databases: read as they are, changed in nothing, and every failure told in words."""

from __future__ import annotations

import base64
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import zstandard
from support.rights import without_privileges

from palace_daemon.errors import SourceError
from palace_daemon.store import foreign
from palace_daemon.store.foreign import ForeignDatabase

CONVERSATIONS = "SELECT id, changed AS stamp FROM talks"
ROWS = "SELECT id, words FROM talks WHERE id=:id"

Maker = Callable[..., sqlite3.Connection]


@pytest.fixture
def make() -> Iterator[Maker]:
    """Make a database with two conversations and keep its writer open."""
    opened: list[sqlite3.Connection] = []

    def make_(path: Path, mode: str = "wal") -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None)
        opened.append(connection)
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute("CREATE TABLE talks (id TEXT PRIMARY KEY, changed ANY, words ANY)")
        connection.execute("INSERT INTO talks VALUES ('b', 17, 'second'), ('a', '2026-01-01', 'first')")
        return connection

    yield make_
    for connection in opened:
        connection.close()


def rows(database: ForeignDatabase, sql: str, name: str = "a") -> list[dict[str, object]]:
    lines = list(database.lines(sql, name))
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    return [msgspec.json.decode(line) for line in lines]


def failure(path: Path | str, sql: str = ROWS) -> str:
    with pytest.raises(SourceError) as caught, ForeignDatabase(str(path)) as database:
        list(database.lines(sql, "a"))
    assert str(path) in str(caught.value)
    return str(caught.value)


# --------------------------------------------------------------------------------------------------------- answers


def test_tables_conversations_and_rows_come_out(tmp_path: Path, make: Maker) -> None:
    make(tmp_path / "a.db").execute("CREATE VIEW hidden AS SELECT 1 AS x")
    with ForeignDatabase(str(tmp_path / "a.db")) as database:
        assert database.tables() == {"talks": frozenset({"id", "changed", "words"})}
        assert database.conversations(CONVERSATIONS) == [("a", "2026-01-01"), ("b", "17")]
        assert rows(database, ROWS) == [{"id": "a", "words": "first"}]
        assert rows(database, ROWS, "nobody") == []


def test_statements_follow_each_other(tmp_path: Path, make: Maker) -> None:
    make(tmp_path / "a.db")
    sql = "SELECT 'title; no end' AS title\n;\nSELECT words FROM talks WHERE id=:id\n ; \n"
    with ForeignDatabase(str(tmp_path / "a.db")) as database:
        assert rows(database, sql, "b") == [{"title": "title; no end"}, {"words": "second"}]


def test_rows_without_an_id_are_no_conversations(tmp_path: Path, make: Maker) -> None:
    make(tmp_path / "a.db").execute("INSERT INTO talks VALUES (NULL, 1, ''), ('', 2, ''), (x'63', NULL, '')")
    with ForeignDatabase(str(tmp_path / "a.db")) as database:
        assert database.conversations(CONVERSATIONS) == [("a", "2026-01-01"), ("b", "17"), ("c", "")]


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        (None, None),
        (17, 17),
        (1.5, 1.5),
        ('line\nfeed "quoted" \u2028 茶', 'line\nfeed "quoted" \u2028 茶'),
        ("plain bytes 茶".encode(), "plain bytes 茶"),
        (b"\xff\x00\x01", {"base64": base64.b64encode(b"\xff\x00\x01").decode()}),
        (zstandard.compress("packed 茶".encode()), "packed 茶"),
        (zstandard.ZstdCompressor(write_content_size=False).compress(b"no size"), "no size"),
        (zstandard.compress(b"\xff\xfe"), {"base64": base64.b64encode(b"\xff\xfe").decode()}),
    ],
)
def test_a_value_becomes_json(tmp_path: Path, make: Maker, stored: object, told: object) -> None:
    make(tmp_path / "a.db").execute("UPDATE talks SET words=? WHERE id='a'", (stored,))
    with ForeignDatabase(str(tmp_path / "a.db")) as database:
        assert rows(database, ROWS) == [{"id": "a", "words": told}]


def test_text_that_is_no_utf8_is_replaced(tmp_path: Path, make: Maker) -> None:
    make(tmp_path / "a.db").execute("UPDATE talks SET words=CAST(x'61ff62' AS TEXT) WHERE id='a'")
    with ForeignDatabase(str(tmp_path / "a.db")) as database:
        assert rows(database, ROWS) == [{"id": "a", "words": "a\ufffdb"}]


def test_a_path_with_uri_syntax_opens(tmp_path: Path, make: Maker) -> None:
    path = tmp_path / "what?mode=rwc#a %41 b.db"
    make(path)
    with ForeignDatabase(str(path)) as database:
        assert rows(database, ROWS) == [{"id": "a", "words": "first"}]
    assert sorted(item.name.split(".db")[0] for item in tmp_path.iterdir() if item.suffix == ".db") == [path.stem]


# --------------------------------------------------------------------------------------------- beside a live writer


def test_what_stands_in_the_log_only_is_seen_and_what_is_not_committed_is_not(tmp_path: Path, make: Maker) -> None:
    writer = make(tmp_path / "a.db")
    writer.execute("PRAGMA wal_autocheckpoint=0")
    writer.execute("UPDATE talks SET words='in the log' WHERE id='a'")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE talks SET words='not yet' WHERE id='a'")
    before = (tmp_path / "a.db").read_bytes(), (tmp_path / "a.db-wal").read_bytes()
    with ForeignDatabase(str(tmp_path / "a.db")) as database:
        assert rows(database, ROWS) == [{"id": "a", "words": "in the log"}]
        writer.execute("COMMIT")  # a reader is in nobody's way
        assert rows(database, ROWS) == [{"id": "a", "words": "in the log"}], "all answers are of one moment"
        assert database.conversations("SELECT words, 1 FROM talks WHERE id='a'") == [("in the log", "1")]
    with ForeignDatabase(str(tmp_path / "a.db")) as database:
        assert rows(database, ROWS) == [{"id": "a", "words": "not yet"}]
    assert (tmp_path / "a.db").read_bytes() == before[0], "nothing was taken from the log into the database"
    assert (tmp_path / "a.db-wal").read_bytes().startswith(before[1])


def test_nothing_can_be_written_through_it(tmp_path: Path, make: Maker) -> None:
    make(tmp_path / "a.db", "delete")
    before = (tmp_path / "a.db").read_bytes()
    for sql in ("DELETE FROM talks", "CREATE TABLE x (y)", "INSERT INTO talks VALUES ('z', 1, 2)"):
        assert "cannot be read" in failure(tmp_path / "a.db", sql)
    assert (tmp_path / "a.db").read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["a.db"]


def test_a_crashed_writers_log_is_read(tmp_path: Path, make: Maker) -> None:
    writer = make(tmp_path / "a.db")
    writer.execute("UPDATE talks SET words='before the crash' WHERE id='a'")
    left = tmp_path / "left"
    left.mkdir()
    for name in ("a.db", "a.db-wal"):
        (left / name).write_bytes((tmp_path / name).read_bytes())
    with ForeignDatabase(str(left / "a.db")) as database:
        assert rows(database, ROWS) == [{"id": "a", "words": "before the crash"}]


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_lock_of_another_process_is_named(tmp_path: Path, make: Maker, mode: str) -> None:
    path = tmp_path / "a.db"
    make(path, mode).close()
    script = (
        "import sqlite3, sys\n"
        f"c = sqlite3.connect({str(path)!r}, isolation_level=None)\n"
        "c.execute('PRAGMA locking_mode=EXCLUSIVE')\n"
        "c.execute('BEGIN EXCLUSIVE')\n"
        'c.execute("UPDATE talks SET changed=1")\n'
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        told = failure(path)
        holder.communicate("")
    assert "its program holds a lock" in told
    assert "tried again" in told
    with ForeignDatabase(str(path)) as database:
        assert rows(database, ROWS) == [{"id": "a", "words": "first"}]


# -------------------------------------------------------------------------------------------------------- failures


def test_a_file_that_is_no_database_is_named_so(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"any text, longer than a header" * 10)
    told = failure(path)
    assert "no SQLite database, or it is encrypted" in told
    assert "file is not a database" in told


def test_a_damaged_header_is_named_so(tmp_path: Path, make: Maker) -> None:
    path = tmp_path / "a.db"
    make(path, "delete").close()
    data = bytearray(path.read_bytes())
    data[16:24] = b"\xff" * 8  # page size and format versions
    path.write_bytes(data)
    assert "damaged" in failure(path)


def test_a_damaged_page_is_named_so(tmp_path: Path, make: Maker) -> None:
    path = tmp_path / "a.db"
    make(path, "delete").close()
    data = bytearray(path.read_bytes())
    data[4096:8192] = b"\xff" * 4096
    path.write_bytes(data)
    assert "it is damaged (database disk image is malformed)" in failure(path)


@pytest.mark.parametrize("sql", ["SELECT title FROM talks WHERE id=:id", "SELECT id FROM threads WHERE id=:id"])
def test_a_missing_column_or_table_is_a_changed_schema(tmp_path: Path, make: Maker, sql: str) -> None:
    make(tmp_path / "a.db")
    told = failure(tmp_path / "a.db", sql)
    assert "its schema has changed (no such" in told
    assert "update of Palace" in told
    with (
        pytest.raises(SourceError, match="its schema has changed"),
        ForeignDatabase(str(tmp_path / "a.db")) as database,
    ):
        database.conversations(sql.replace(":id", "'a'"))


def test_a_missing_file_and_a_directory_are_named_so(tmp_path: Path) -> None:
    assert "there is no such file" in failure(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()
    assert "it is a directory" in failure(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="permissions are others there")
def test_a_missing_permission_is_named_so(tmp_path: Path, make: Maker) -> None:
    make(tmp_path / "a.db", "delete").close()
    (tmp_path / "a.db").chmod(0)
    with without_privileges(tmp_path):
        assert "the permission is missing" in failure(tmp_path / "a.db")


@pytest.mark.skipif(os.name != "posix", reason="permissions are others there")
@pytest.mark.parametrize("has_log", [True, False])
def test_a_log_in_a_read_only_directory_is_explained(tmp_path: Path, make: Maker, has_log: bool) -> None:
    writer = make(tmp_path / "a.db")
    left = tmp_path / "left"
    left.mkdir()
    if not has_log:
        writer.close()
    for item in [item for item in tmp_path.glob("a.db*") if not item.name.endswith("-shm")]:
        (left / item.name).write_bytes(item.read_bytes())
    left.chmod(0o555)
    try:
        with without_privileges(left):
            told = failure(left / "a.db")
    finally:
        left.chmod(0o755)
    assert "directory, which is read-only" in told
    assert str(left) in told.split("write in ")[1]


@pytest.mark.skipif(os.name != "posix", reason="links need a privilege")
def test_a_log_index_that_cannot_be_made_is_explained(tmp_path: Path, make: Maker) -> None:
    """The same as above, for every user: something else stands where the index would be."""
    make(tmp_path / "a.db")
    left = tmp_path / "left"
    left.mkdir()
    (left / "a.db-shm").symlink_to(tmp_path / "nowhere" / "at all")
    for name in ("a.db", "a.db-wal"):
        (left / name).write_bytes((tmp_path / name).read_bytes())
    told = failure(left / "a.db")
    assert "log (WAL) or journal that has to be taken in first" in told
    assert "start its program once" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("database is locked", "holds a lock"),
        ("database table is locked: talks", "holds a lock"),
        ("attempt to write a readonly database", "directory, which is read-only"),
        ("disk I/O error", "the disk or the network drive"),
        ("malformed JSON", "no JSON"),
        ("database disk image is malformed", "damaged"),
        ("something new", "something new"),
    ],
)
def test_each_word_of_the_driver_has_a_meaning(text: str, told: str) -> None:
    assert told in foreign._explained("/nowhere/a.db", text)[0]


def test_a_value_that_cannot_be_unpacked_is_an_error(tmp_path: Path, make: Maker) -> None:
    broken = bytearray(zstandard.compress(b"some words that are packed" * 100))
    broken[8:] = b"\xff" * (len(broken) - 8)
    make(tmp_path / "a.db").execute("UPDATE talks SET words=? WHERE id='a'", (bytes(broken),))
    assert "cannot be unpacked" in failure(tmp_path / "a.db")


def test_a_value_that_unpacks_to_too_much_is_an_error(
    tmp_path: Path, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "UNPACKED_BYTES_MAX", 1 << 20)
    writer = make(tmp_path / "a.db")
    writer.execute("UPDATE talks SET words=? WHERE id='a'", (zstandard.compress(b"0" * (1 << 20)),))
    with ForeignDatabase(str(tmp_path / "a.db")) as database:
        assert len(str(rows(database, ROWS)[0]["words"])) == 1 << 20
    writer.execute("UPDATE talks SET words=? WHERE id='a'", (zstandard.compress(b"0" * ((1 << 20) + 1)),))
    assert "over 1 MiB" in failure(tmp_path / "a.db")


def test_a_closed_database_answers_nothing(tmp_path: Path, make: Maker) -> None:
    make(tmp_path / "a.db")
    database = ForeignDatabase(str(tmp_path / "a.db"))
    with pytest.raises(SourceError, match="is not open"):
        database.tables()
    with database:
        database.tables()
    with pytest.raises(SourceError, match="is not open"):
        database.tables()
