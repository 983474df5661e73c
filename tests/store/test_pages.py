from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.damage import overwrite, root_of

from palace_daemon.store import pages, sqlite

LONG = "tide and time, " * 4_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with values of every kind and size, trees of several levels, in its file alone."""
    path = tmp_path / "some.db"
    connection = sqlite.open_writer(path)
    connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, number INTEGER, real REAL, text TEXT, data BLOB)")
    connection.execute("CREATE TABLE w(key TEXT, number INTEGER, data BLOB, PRIMARY KEY(key, number)) WITHOUT ROWID")
    connection.execute("BEGIN")
    for number in range(400):
        connection.execute("INSERT INTO t VALUES (?,?,?,?,?)", row(number))
        connection.execute("INSERT INTO w VALUES (?,?,?)", (f"key {number:04d}", number, b"w" * (number * 11)))
    connection.execute("COMMIT")
    connection.close()
    return path


def row(number: int) -> tuple[pages.Value, ...]:
    wide = (0, 1, -1, 127, -129, 40_000, -9_000_000, 2**31, -(2**40), 2**62, None)[number % 11]
    text = LONG[: number * 37 % 9_000] + "é記" if number % 5 else None
    return number * 3 - 100, wide, number / 7, text, bytes(range(256)) * (number % 30)


def rows(path: Path, columns: int, *, has_rowid: bool) -> Iterator[pages.Row]:
    file = pages.PageFile(path)
    try:
        for number in range(1, file.count + 1):
            for found in file.rows(number):
                if found is not None and len(found.values) == columns and (found.rowid is not None) == has_rowid:
                    yield found
        assert file.unreadable() == 0
    finally:
        file.close()


def test_every_row_is_read_as_sqlite_reads_it(path: Path) -> None:
    found = {one.rowid: one.values for one in rows(path, 5, has_rowid=True) if one.values[0] is None}
    assert found == {int(key or 0): (None, *values) for key, *values in map(row, range(400))}
    keyed = sorted(one.values for one in rows(path, 3, has_rowid=False))
    assert keyed == [(f"key {number:04d}", number, b"w" * (number * 11)) for number in range(400)]


def test_what_is_committed_in_the_log_counts_and_what_is_not_does_not(path: Path, tmp_path: Path) -> None:
    connection = sqlite.open_writer(path)
    connection.execute("PRAGMA wal_autocheckpoint=0")
    connection.execute("PRAGMA cache_size=5")  # so that pages of an open transaction are written to the log
    connection.execute("UPDATE t SET text='committed' WHERE id=-100")
    connection.execute("BEGIN")
    connection.execute("UPDATE t SET text=text||'not committed'")
    copy = tmp_path / "copy.db"
    for ending in ("", "-wal"):
        copy.with_name(copy.name + ending).write_bytes(path.with_name(path.name + ending).read_bytes())
    connection.execute("ROLLBACK")
    connection.close()
    found = {one.rowid: one.values[3] for one in rows(copy, 5, has_rowid=True) if one.values[0] is None}
    assert found[-100] == "committed"
    assert not any(str(text).endswith("not committed") for text in found.values())


def test_pages_that_the_log_has_cut_off_do_not_come_back(path: Path, tmp_path: Path) -> None:
    connection = sqlite.open_writer(path)
    connection.execute("PRAGMA wal_autocheckpoint=0")
    connection.execute("PRAGMA secure_delete=OFF").fetchone()
    connection.execute("DELETE FROM w")
    connection.execute("DELETE FROM t WHERE id>0")
    connection.execute("VACUUM")
    copy = tmp_path / "copy.db"
    for ending in ("", "-wal"):
        copy.with_name(copy.name + ending).write_bytes(path.with_name(path.name + ending).read_bytes())
    connection.close()
    assert copy.stat().st_size > 2 * path.stat().st_size
    assert {one.rowid for one in rows(copy, 5, has_rowid=True) if one.values[0] is None} == set(range(-100, 1, 3))
    assert list(rows(copy, 3, has_rowid=False)) == []


def test_a_damaged_page_costs_its_own_rows_only(path: Path) -> None:
    file = pages.PageFile(path)
    leaf = next(n for n in range(2, file.count) if file.kind(n) == pages.TABLE_LEAF and len(list(file.rows(n))) > 2)
    lost = len(list(file.rows(leaf)))
    root, other = root_of(path, "t"), root_of(path, "w")
    assert file.is_whole(root)
    file.close()
    overwrite(path, leaf)
    file = pages.PageFile(path)
    kept = [one for n in range(2, file.count + 1) if file.kind(n) == pages.TABLE_LEAF for one in file.rows(n)]
    assert len(kept) == 400 - lost
    assert file.unreadable() >= 1
    assert (file.is_whole(root), file.is_whole(other)) == (False, True)
    file.close()


@pytest.mark.parametrize("fill", [b"\x0d", b"\x0a", b"\x02", b"\x05", b"\x0d\x00\x00\xff\xff", b"\x0d\x00\x00\x01\x00"])
def test_pages_that_only_look_like_pages_raise_nothing(tmp_path: Path, fill: bytes) -> None:
    path = tmp_path / "some.db"
    path.write_bytes((fill * 65_536)[:65_536])
    file = pages.PageFile(path)
    for number in range(1, file.count + 1):
        list(file.rows(number))
        file.is_whole(number)
    file.unreadable()
    file.close()


def test_a_file_that_is_no_database_holds_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"These are my notes, not a database.\n" * 500)
    file = pages.PageFile(path)
    assert [found for number in (1, 2, 3) for found in file.rows(number)] == []
    file.close()


def test_pages_of_zeros_that_are_not_free_cannot_be_read(path: Path) -> None:
    connection = sqlite.open_writer(path)
    connection.execute("DELETE FROM w WHERE number>300")  # which frees pages, overwritten with zeros
    connection.close()
    file = pages.PageFile(path)
    leaf = next(n for n in range(2, file.count) if file.kind(n) == pages.TABLE_LEAF)
    list(rows(path, 5, has_rowid=True))
    file.close()
    data = bytearray(path.read_bytes())
    data[(leaf - 1) * pages.PAGE_BYTES : leaf * pages.PAGE_BYTES] = bytes(pages.PAGE_BYTES)
    path.write_bytes(data)
    file = pages.PageFile(path)
    for number in range(1, file.count + 1):
        list(file.rows(number))
    assert file.unreadable() >= 1
    file.close()


def test_a_file_of_no_bytes_has_no_pages(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    path.touch()
    file = pages.PageFile(path)
    assert (file.count, file.unreadable()) == (0, 0)
    file.close()
