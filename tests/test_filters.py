"""Projects and times as people name them, and as the daemon compares them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from palace_daemon import filters
from palace_daemon.errors import RequestError


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a repository below a home directory."""
    root = tmp_path.resolve() / "home" / "tidepool"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").touch()
    (root / "src").mkdir()
    monkeypatch.setenv("HOME", str(root.parent))
    monkeypatch.chdir(root)
    return root


# -------------------------------------------------------------------------------------------------------- projects


@pytest.mark.parametrize(
    "named", [".", "./src", "src/", "src/..", "~/tidepool", "~/tidepool/src/", " . ", "{root}/src"]
)
def test_a_path_is_the_project_that_it_lies_in(repository: Path, named: str) -> None:
    assert filters.project(named.format(root=repository)) == str(repository)


@pytest.mark.parametrize("named", ["tidepool", "src", "tide.pool", ".dotfiles", "TIDE pool", ""])
def test_a_bare_name_stays_a_name(repository: Path, named: str) -> None:
    assert (filters.project(f" {named}\t"), filters.directory(named)) == (named, named)


def test_a_directory_above_projects_stays_one(repository: Path) -> None:
    assert filters.project("..") == filters.project("~") == str(repository.parent)
    assert filters.project("/") == "/"


def test_a_path_that_is_not_there_is_made_whole(repository: Path) -> None:
    assert filters.project("gone/away") == str(repository / "gone" / "away")
    assert filters.project("/nowhere/tidepool/") == "/nowhere/tidepool"


@pytest.mark.parametrize("named", ["C:\\work\\tide", "c:/work/tide/", "C:\\work\\.\\tide\\"])
def test_a_path_of_another_system_is_written_as_transcripts_have_it(named: str) -> None:
    assert filters.project(named) == filters.directory(named) == "C:\\work\\tide"


def test_a_directory_is_not_widened_to_its_repository(repository: Path) -> None:
    assert filters.directory("./src/") == filters.directory("~/tidepool/src") == str(repository / "src")
    assert filters.directory(".") == os.fspath(repository)


# ----------------------------------------------------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("given", "ends_day", "expected"),
    [
        ("2026-07-01", False, "2026-06-30T22:00:00+00:00"),
        ("2026-12-01", False, "2026-11-30T23:00:00+00:00"),
        ("2026-07-01", True, "2026-07-01T22:00:00+00:00"),
        ("2026-03-29", False, "2026-03-28T23:00:00+00:00"),
        ("2026-03-29", True, "2026-03-29T22:00:00+00:00"),
        ("2026-07-01 00:30", True, "2026-06-30T22:30:00+00:00"),
        (" 2026-07-01T00:30:01.5 ", False, "2026-06-30T22:30:01.500000+00:00"),
    ],
)
def test_a_time_without_a_zone_has_the_offset_of_its_own_day(
    berlin: None, given: str, ends_day: bool, expected: str
) -> None:
    assert filters.moment(given, "--since", ends_day=ends_day) == expected


@pytest.mark.parametrize(
    "given",
    ["2026-07-01T00:30Z", "2026-07-01T00:30+05:00", "yesterday", "", "2026-02-30", "2026-W10-1", "-5"],
)
def test_what_has_a_zone_or_is_no_time_is_left_to_the_daemon(berlin: None, given: str) -> None:
    assert filters.moment(given, "--until", ends_day=True) == filters.clock(given, "--now") == given


def test_the_day_after_the_last_of_all_days_is_left_to_the_daemon() -> None:
    assert filters.moment("9999-12-31", "--until", ends_day=True) == "9999-12-31"


def test_the_clock_is_told_in_this_zone(berlin: None) -> None:
    assert filters.clock("2026-07-01", "--now") == "2026-07-01T00:00:00+02:00"
    assert filters.clock("2026-12-01 10:30", "--now") == "2026-12-01T10:30:00+01:00"
    assert filters.clock("1772316000000", "--now") == "2026-02-28T23:00:00+01:00"
    assert filters.clock("999999999999999", "--now") == 999_999_999_999_999


def test_milliseconds_are_a_number() -> None:
    assert filters.moment(" 1770000000000 ", "--since") == 1_770_000_000_000


@pytest.mark.parametrize("given", ["0", "20260301", "1770000000", "1" * 16, "1" * 5_000])
def test_a_number_that_can_hardly_be_milliseconds_is_refused(given: str) -> None:
    for read in (filters.moment, filters.clock):
        with pytest.raises(RequestError, match=f"--since: {given[:20]} is neither") as caught:
            read(given, "--since")
        assert "2026-03-04" in caught.value.hint
