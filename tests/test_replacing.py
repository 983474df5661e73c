"""A file is replaced whole, or stays as it was."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from palace_daemon.replacing import replacing


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with replacing(path, mode=0o640) as file:
        file.write(b"new")
        assert path.read_text() == "old"
        (temporary,) = set(tmp_path.iterdir()) - {path}
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, fault: type[BaseException]) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def write() -> None:
        with replacing(path) as file:
            file.write(b"half")
            raise fault

    with pytest.raises(fault):
        write()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    aim, link = tmp_path / "aim", tmp_path / "link"
    aim.write_text("kept")
    link.symlink_to(aim)
    with replacing(link) as file:
        file.write(b"new")
    assert (aim.read_text(), link.read_text(), link.is_symlink()) == ("kept", "new", False)


def test_a_name_without_a_directory_and_a_long_one_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("file", "n" * 250):
        with replacing(name) as file:
            file.write(b"x")
    assert sorted(map(len, os.listdir(tmp_path))) == [4, 250]


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "missing" / "file"):
        pass
