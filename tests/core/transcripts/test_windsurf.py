"""Windsurf's transcript hook: steps without ids and times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.formats import assert_cuts_do_not_matter, read_file
from support.line_formats import SHARED, assert_claims_only, assert_no_damage_raises, lines, needs_samples, parse

from palace_daemon.core.transcripts.windsurf import WindsurfFormat

FORMAT = WindsurfFormat()
SAMPLES = SHARED / "windsurf"
DATA = Path(__file__).parents[2] / "data" / "transcripts" / "windsurf" / "trajectory.jsonl"


def step(kind: str, **body: Any) -> dict[str, Any]:
    return {"type": kind, "status": "done", kind: body}


class TestSamples:
    pytestmark = needs_samples

    def test_only_its_samples_are_claimed(self) -> None:
        assert_claims_only(FORMAT, "windsurf")

    def test_a_trajectory(self) -> None:
        path = SAMPLES / "ctx-windsurf-hook-trajectory-1.jsonl"
        told = read_file(FORMAT, path)
        assert told.pairs == [
            (
                "create a hello world file with windsurf cascade hook oracle",
                (
                    "I'll create a hello world file for the windsurf cascade hook oracle.\n\n"
                    "I created the windsurf cascade hook oracle file for you."
                ),
            )
        ]
        (one,) = told.exchanges
        assert [(tool.name, tool.target) for tool in one.tools] == [("code_action", "src/windsurf_hook_oracle.py")]
        assert (one.session_id, one.time_quality) == ("ctx-windsurf-hook-trajectory-1", "none")
        assert told.lines_skipped == {"unknown_type:custom_note": 1}
        assert_cuts_do_not_matter(FORMAT, path.read_bytes(), str(path))

    def test_a_malformed_line_costs_only_itself(self) -> None:
        path = SAMPLES / "ctx-windsurf-malformed.jsonl"
        told = read_file(FORMAT, path)
        assert told.pairs == [("windsurf malformed before bad oracle", "windsurf malformed after bad oracle")]
        assert told.lines_skipped == {"malformed": 1}
        assert_cuts_do_not_matter(FORMAT, path.read_bytes(), str(path))


def test_a_trajectory_of_two_turns() -> None:
    told = read_file(FORMAT, DATA)
    assert told.pairs == [
        ("Why is the table empty?", "I will look.\n\nThe importer skips rows."),
        ("Fill it in.", "Filled in."),
    ]
    assert_cuts_do_not_matter(FORMAT, DATA.read_bytes(), str(DATA))


def test_damage_never_raises() -> None:
    assert_no_damage_raises(FORMAT, DATA.read_bytes(), str(DATA))


def test_a_trajectory_that_is_written_anew_keeps_its_keys() -> None:
    first = [step("user_input", user_response="one"), step("planner_response", response="first")]
    more = [step("user_input", user_response="two")]
    before, after = parse(FORMAT, *first), parse(FORMAT, *first, *more)
    assert [one.key for one in before.exchanges] == [one.key for one in after.exchanges][:1]
    assert len({one.key for one in after.exchanges}) == 2


@pytest.mark.parametrize(
    ("record", "is_ours"),
    [
        (step("user_input", user_response="hi"), True),
        (step("planner_response", response="hi"), True),
        (step("user_input", user_response="hi") | {"status": None}, False),
        ({"type": "user_input", "status": "done", "user_input": "hi"}, False),
        ({"type": "other", "status": "done", "other": {"a": 1}}, False),
    ],
)
def test_sniffing(record: dict[str, Any], *, is_ours: bool) -> None:
    assert FORMAT.sniff(lines(record)) is is_ours


def test_default_directories() -> None:
    assert FORMAT.default_dirs({}, "/home/sam", "linux") == ("/home/sam/.windsurf/transcripts",)
    assert FORMAT.default_dirs({}, "/Users/sam", "darwin") == ("/Users/sam/.windsurf/transcripts",)
    windows = FORMAT.default_dirs({"USERPROFILE": "D:\\sam"}, "C:\\x", "win32")
    assert windows == ("D:\\sam\\.windsurf\\transcripts",)


def test_which_names_can_hold_a_trajectory() -> None:
    assert FORMAT.may_hold("/h/.windsurf/transcripts/abc.jsonl")
    assert not FORMAT.may_hold("/h/.windsurf/transcripts/abc.pb")
