"""The sets by name, and the dates that they write."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.sets import utc_ms

from palace_daemon.bench.sets.dates import UNDATED_NOW_MS, day_after, epoch_ms
from palace_daemon.bench.sets.registry import READERS, reader
from palace_daemon.errors import ConfigError


def test_every_set_is_found_under_its_own_name() -> None:
    assert {"longmemeval", "locomo", "beam", "devmembench", "prefeval", "jsonl"} <= set(READERS)
    for name in READERS:
        assert reader(name).name == name


def test_an_unknown_name_is_answered_with_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match="longmemeval, locomo, beam"):
        reader("longmem")


@pytest.mark.parametrize("name", READERS)
def test_a_folder_without_the_set_is_refused_with_what_was_expected(name: str, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ConfigError, match=r"no .* in .*\(expected a file called"):
            list(READERS[name].read(path))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("2023/05/30 (Tue) 22:42", (2023, 5, 30, 22, 42)),
        ("2023/05/30", (2023, 5, 30)),
        ("1:56 pm on 8 May, 2023", (2023, 5, 8, 13, 56)),
        ("12:24 am on 7 April, 2023", (2023, 4, 7, 0, 24)),
        ("12:05 pm on 7 September, 2023", (2023, 9, 7, 12, 5)),
        ("March-15-2024", (2024, 3, 15)),
        ("June 1, 2024", (2024, 6, 1)),
        ("2025-01-15", (2025, 1, 15)),
        ("2025-01-15T10:30:00Z", (2025, 1, 15, 10, 30)),
        ("2025-01-15T10:30:00+02:00", (2025, 1, 15, 8, 30)),
    ],
)
def test_dates_are_read_as_utc(text: str, parts: tuple[int, ...]) -> None:
    assert epoch_ms(text) == utc_ms(*parts)


@pytest.mark.parametrize("text", ["", "soon", "2023/13/01", "25:00 pm on 8 May, 2023", "Smarch-15-2024", "15"])
def test_what_is_no_date_is_none(text: str) -> None:
    assert epoch_ms(text) is None


def test_nothing_dated_is_asked_at_a_fixed_time() -> None:
    assert day_after([]) == UNDATED_NOW_MS == utc_ms(2025, 1, 1)
