"""Timestamps that cannot be right are absent."""

from __future__ import annotations

import pytest

from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms, zone_minutes


@pytest.mark.parametrize(
    "stamp", [10**400, -(10**400), float("nan"), float("inf"), "9" * 500, True, 0, [], None, "soon"]
)
def test_a_stamp_that_cannot_be_right_is_absent(stamp: object) -> None:
    assert to_epoch_ms(stamp) is None


@pytest.mark.parametrize("stamp", [1_770_000_000, 1_770_000_000_000, "1770000000000", "2026-02-02T02:40:00Z"])
def test_seconds_milliseconds_and_iso_are_one_moment(stamp: object) -> None:
    assert to_epoch_ms(stamp) == 1_770_000_000_000


@pytest.mark.parametrize(
    ("stamp", "minutes"),
    [
        ("2026-02-02T10:00:00+02:00", 120),
        ("2026-02-02T10:00:00-03:30", -210),
        ("2026-02-02T10:00:00Z", None),
        ("2026-02-02T10:00:00", None),
        ("noon", None),
        (1_770_000_000, None),
    ],
)
def test_the_writers_zone_is_kept_where_the_stamp_names_one(stamp: object, minutes: int | None) -> None:
    assert zone_minutes(stamp) == minutes
