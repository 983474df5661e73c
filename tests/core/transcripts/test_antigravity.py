"""Antigravity: numbered steps, and two logs of one conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.formats import assert_cuts_do_not_matter, read_file
from support.line_formats import SHARED, assert_claims_only, assert_no_damage_raises, lines, needs_samples, parse

from palace_daemon.core.transcripts.antigravity import AntigravityFormat

FORMAT = AntigravityFormat()
SAMPLE = SHARED / "other" / "antigravity" / "ctx-agy-success.jsonl"
DATA = Path(__file__).parents[2] / "data" / "transcripts" / "antigravity" / "transcript_full.jsonl"


def step(index: int, kind: str, content: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "step_index": index,
        "source": "USER_EXPLICIT" if kind == "USER_INPUT" else "MODEL",
        "type": kind,
        "status": "DONE",
        "created_at": f"2026-06-24T10:00:{index:02d}Z",
        "content": content,
        **fields,
    }


class TestSample:
    pytestmark = needs_samples

    def test_only_its_sample_is_claimed(self) -> None:
        assert_claims_only(FORMAT, "other/antigravity")

    def test_the_conversation(self) -> None:
        told = read_file(FORMAT, SAMPLE)
        assert told.pairs == [("Create a tiny README for the demo project.", "I will create a concise README.")]
        (one,) = told.exchanges
        assert [(tool.name, tool.target) for tool in one.tools] == [("write_to_file", "/workspace/demo/README.md")]
        assert one.key == "antigravity:ctx-agy-success:0"
        assert one.time_quality == "exact"
        assert_cuts_do_not_matter(FORMAT, SAMPLE.read_bytes(), str(SAMPLE))


def test_a_conversation() -> None:
    told = read_file(FORMAT, DATA)
    assert told.pairs == [
        ("Why is the table empty?", "I will look.\n\nThe importer skips rows."),
        ("Fill it in.", "Filled in."),
    ]
    assert [(tool.name, tool.target) for tool in told.exchanges[0].tools] == [("run_command", "head table.csv")]
    assert told.lines_skipped == {"run_command": 1, "thinking": 1}
    assert_cuts_do_not_matter(FORMAT, DATA.read_bytes(), str(DATA))


def test_damage_never_raises() -> None:
    assert_no_damage_raises(FORMAT, DATA.read_bytes(), str(DATA))


def test_a_prompt_that_talks_about_the_mark_around_prompts_is_kept() -> None:
    text = "What is <USER_REQUEST> for?"
    assert parse(FORMAT, step(0, "USER_INPUT", text)).pairs == [(text, "")]


def test_a_step_written_again_is_read_once() -> None:
    grown = step(1, "PLANNER_RESPONSE", "I will look at it.")
    first = [step(0, "USER_INPUT", "hi"), step(1, "PLANNER_RESPONSE", "I will look"), grown]
    assert parse(FORMAT, *first, first[0], grown).pairs == [("hi", "I will look at it.")]


def test_both_logs_of_a_conversation_have_the_same_session_and_keys() -> None:
    folder = "/h/.gemini/antigravity/brain/c1/.system_generated/logs/"
    for name in ("transcript.jsonl", "transcript_full.jsonl"):
        (one,) = parse(FORMAT, step(0, "USER_INPUT", "hi"), path=folder + name).exchanges
        assert (one.session_id, one.key) == ("c1", "antigravity:c1:0")


@pytest.mark.parametrize(("has_full", "pairs"), [(True, []), (False, [("hi", "")])])
def test_the_shortened_log_yields_nothing_where_the_full_one_is(
    tmp_path: Path, pairs: list[tuple[str, str]], *, has_full: bool
) -> None:
    folder = tmp_path / "brain" / "c1" / ".system_generated" / "logs"
    folder.mkdir(parents=True)
    (folder / "transcript.jsonl").write_bytes(lines(step(0, "USER_INPUT", "hi")))
    if has_full:
        (folder / "transcript_full.jsonl").write_bytes(lines(step(0, "USER_INPUT", "hi in full")))
    assert read_file(FORMAT, folder / "transcript.jsonl").pairs == pairs


@pytest.mark.parametrize(
    ("record", "is_ours"),
    [
        (step(0, "USER_INPUT", "hi"), True),
        (step(0, "USER_INPUT") | {"step_index": "0"}, False),
        (step(0, "USER_INPUT") | {"status": None}, False),
        ({"type": "USER_INPUT"}, False),
    ],
)
def test_sniffing(record: dict[str, Any], *, is_ours: bool) -> None:
    assert FORMAT.sniff(lines(record)) is is_ours


def test_default_directories() -> None:
    editions = ("antigravity", "antigravity-cli", "antigravity-ide")
    for platform, home in (("linux", "/home/sam"), ("darwin", "/Users/sam")):
        assert FORMAT.default_dirs({}, home, platform) == tuple(f"{home}/.gemini/{name}/brain" for name in editions)
    windows = FORMAT.default_dirs({"USERPROFILE": "D:\\sam"}, "C:\\x", "win32")
    assert windows[0] == "D:\\sam\\.gemini\\antigravity\\brain"


def test_which_names_can_hold_a_log() -> None:
    assert FORMAT.may_hold("/h/.gemini/antigravity/brain/c1/.system_generated/logs/transcript.jsonl")
    assert not FORMAT.may_hold("/h/.gemini/antigravity/brain/c1/plan.md")
