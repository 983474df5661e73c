"""Model values and wire values: nothing gets lost between them, and times are read the same everywhere."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palace_daemon import model
from palace_daemon.rpc import convert, errors, wire, wire_recall

PAIRS = [
    (model.Freshness, wire_recall.WireFreshness, set()),
    (model.ExchangeView, wire.WireExchange, set()),
    (model.Provenance, wire.WireProvenance, set()),
    (model.ToolUse, wire.WireToolUse, set()),
    (model.SessionView, wire.WireSession, set()),
    (model.SourceView, wire.WireSource, set()),
    (model.ProjectView, wire.WireProject, set()),
    (model.WatchedDir, wire.WireWatched, set()),
    (model.Status, wire.StatusResult, {"protocol_version"}),
    (model.MineReport, wire.MineResult, set()),
    (model.ModelView, wire.WireModel, set()),
    # A hit has no end on the wire: the agreed keys hold its beginning alone.
    (model.Hit, wire_recall.WireHit, {"ended_at"}),
    (model.SessionHits, wire_recall.WireSessionHits, set()),
    (model.Neighbour, wire_recall.WireNeighbour, set()),
    (model.AlsoIn, wire_recall.WireAlsoIn, set()),
]


@pytest.mark.parametrize(("kept", "sent", "known"), PAIRS)
def test_every_field_of_the_model_goes_over_the_wire(
    kept: type[msgspec.Struct], sent: type[msgspec.Struct], known: set[str]
) -> None:
    assert set(kept.__struct_fields__) ^ set(sent.__struct_fields__) == known


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (1_772_615_551_123, 1_772_615_551_123),
        ("2026-03-04T09:12:31.123Z", 1_772_615_551_123),
        ("2026-03-04t09:12:31.123z".replace("t", "T"), 1_772_615_551_123),
        ("2026-03-04 09:12:31.123999Z", 1_772_615_551_123),
        ("2026-03-04T10:12:31.123+01:00", 1_772_615_551_123),
        ("2026-03-04T09:12Z", 1_772_615_520_000),
        (" 2026-03-04 ", 1_772_582_400_000 - 3_600_000),
        ("2026-03-04T00:00:00", 1_772_582_400_000 - 3_600_000),
    ],
)
def test_times_are_read_in_every_form_and_those_without_a_zone_in_the_callers(value: str | int, expected: int) -> None:
    assert convert.time_from_wire(value, "since", 60) == expected


def test_a_date_as_the_end_takes_in_its_last_millisecond() -> None:
    begin = convert.time_from_wire("2026-03-04", "since", -300)
    end = convert.time_from_wire("2026-03-04", "until", -300, ends_day=True)
    assert begin is not None
    assert end == begin + 86_400_000


def test_the_last_day_there_is_ends_with_its_last_millisecond() -> None:
    assert convert.time_from_wire("9999-12-31", "until", -300, ends_day=True) == 253_402_300_799_999


@pytest.mark.parametrize("raw", [{"state": "\ud83d"}, {"\ud83d": 1}])
def test_a_name_that_is_no_text_is_a_bad_parameter(raw: dict[str, Any]) -> None:
    with pytest.raises(errors.BadParamsError, match="lone surrogate"):
        convert.params_from_wire(raw, wire.SourcesParams)


@pytest.mark.parametrize(
    "value",
    [
        *("", "now", "2026", "2026-13-01", "2026-03-04T25:00", "20260304", "2026-W10-3", "0001-01-01", "1969-12-31"),
        *(-1, 10**16, "9999-12-31T23:59:59-23:00", "2026-03-04T09:12:31+99:00", "2026-03-04x"),
    ],
)
def test_what_is_no_time_is_refused_by_name(value: str | int) -> None:
    with pytest.raises(errors.BadParamsError) as caught:
        convert.time_from_wire(value, "since", 0)
    assert caught.value.path == "$.since"


@given(st.integers(0, 253_402_300_799_999))
def test_a_time_on_the_wire_reads_back_to_the_millisecond(milliseconds: int) -> None:
    text = convert.time_to_wire(milliseconds)
    assert text is not None
    assert text.endswith("Z")
    assert len(text) == len("2026-03-04T09:12:31.000Z")
    assert convert.time_from_wire(text, "since", 330) == milliseconds


def test_a_time_before_1970_in_a_transcript_is_sent_all_the_same() -> None:
    assert convert.time_to_wire(-1) == "1969-12-31T23:59:59.999Z"
    assert convert.time_to_wire(None) is None


@pytest.mark.parametrize(
    ("now", "offset"), [("2026-03-04T10:12:31-05:30", -330), ("2026-03-04T10:12:31Z", 0), (1_772_615_551_000, 0)]
)
def test_now_carries_its_zone(now: str | int, offset: int) -> None:
    assert convert.now_from_wire(now)[1] == offset


def test_progress_has_no_share_while_the_total_is_unknown() -> None:
    value = convert.progress_to_wire(model.Progress(stage="scan", done=3, total=0, unit="files"))
    assert value.percentage is None
    assert wire.to_builtins(value)["done"] == 3
