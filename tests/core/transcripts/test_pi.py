"""Pi: messages in a tree, shell commands of the user, forks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.formats import assert_cuts_do_not_matter, read_file
from support.line_formats import SHARED, assert_claims_only, assert_no_damage_raises, lines, needs_samples, parse

from palace_daemon.core.transcripts.pi.format import PiFormat
from palace_daemon.model import Attachment

FORMAT = PiFormat()
SAMPLE = SHARED / "other" / "pi" / "ctx-pi-session.jsonl"
DATA = (
    Path(__file__).parents[2]
    / "data"
    / "transcripts"
    / "pi"
    / "2026-06-23T16-00-00_5e551000-0000-4000-8000-0000000000b1.jsonl"
)


def session(**fields: Any) -> dict[str, Any]:
    return {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-06-23T16:00:00.000Z", "cwd": "/w", **fields}


def entry(number: int, kind: str = "message", *, parent: int | None = None, **fields: Any) -> dict[str, Any]:
    parent = number - 1 if parent is None else parent
    return {
        "type": kind,
        "id": f"e{number}",
        "parentId": f"e{parent}" if parent else None,
        "timestamp": f"2026-06-23T16:00:{number:02d}.000Z",
        **fields,
    }


def user(number: int, text: Any, **fields: Any) -> dict[str, Any]:
    return entry(number, message={"role": "user", "content": text}, **fields)


def reply(number: int, text: str, stop: str = "stop", **fields: Any) -> dict[str, Any]:
    content = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": text}]
    message = {"role": "assistant", "content": content, "model": "model-p", "stopReason": stop}
    return entry(number, message=message, **fields)


class TestSample:
    pytestmark = needs_samples

    def test_only_its_sample_is_claimed(self) -> None:
        assert_claims_only(FORMAT, "other/pi")

    def test_the_conversation(self) -> None:
        told = read_file(FORMAT, SAMPLE)
        assert told.pairs == [
            ("Inspect the provider metadata rows.", ""),
            (
                "cargo test -p ctx-history-capture",
                "Provider metadata import fixture keeps a sample assistant response.",
            ),
        ]
        assert [one.user_kind for one in told.exchanges] == ["prompt", "shell"]
        assert [tool.name for tool in told.exchanges[0].tools] == ["bash"]
        assert (told.sessions[0].session_id, told.sessions[0].cwd) == ("pi-session-docs-1", "/workspace/example")
        assert told.lines_skipped == {"tool_result": 1, "compaction": 1}
        assert_cuts_do_not_matter(FORMAT, SAMPLE.read_bytes(), str(SAMPLE))


def test_a_session_with_a_branch() -> None:
    told = read_file(FORMAT, DATA)
    assert told.pairs == [("Why is the table empty?", "The importer skips rows."), ("Fill it in.", "Filled in.")]
    assert [one.user_text for one in told.exchanges if one.is_superseded] == ["Drop the table."]
    assert told.sessions[0].title == "Tides"
    assert told.exchanges[0].session_id == "5e551000-0000-4000-8000-0000000000b1"
    assert_cuts_do_not_matter(FORMAT, DATA.read_bytes(), str(DATA))


def test_damage_never_raises() -> None:
    assert_no_damage_raises(FORMAT, DATA.read_bytes(), str(DATA))


def test_thoughts_and_tool_output_are_no_reply() -> None:
    output = entry(3, message={"role": "toolResult", "content": [{"type": "text", "text": "out"}]})
    told = parse(FORMAT, session(), user(1, "hi"), reply(2, "hello"), output)
    assert told.pairs == [("hi", "hello")]
    assert told.exchanges[0].model == "model-p"


@pytest.mark.parametrize(("stop", "status"), [("stop", "complete"), ("aborted", "interrupted"), ("toolUse", "open")])
def test_how_a_reply_stops(stop: str, status: str) -> None:
    assert parse(FORMAT, session(), user(1, "hi"), reply(2, "hello", stop)).exchanges[0].status == status


def test_images_are_named_and_not_kept() -> None:
    blocks = [{"type": "text", "text": "Look"}, {"type": "image", "mimeType": "image/png", "data": "QUJD"}]
    (one,) = parse(FORMAT, session(), user(1, blocks)).exchanges
    assert one.attachments == (Attachment(kind="image", name="image/png", size_bytes=3),)


def standing(*records: dict[str, Any]) -> list[tuple[str, bool]]:
    return [(one.user_text, not one.is_superseded) for one in parse(FORMAT, session(), *records).exchanges]


def test_an_entry_that_follows_an_older_one_leaves_the_turns_between() -> None:
    turns = [user(1, "one"), reply(2, "first"), user(3, "two"), reply(4, "second")]
    assert standing(*turns, user(5, "three")) == [("one", True), ("two", True), ("three", True)]
    assert standing(*turns, user(5, "three", parent=2)) == [("one", True), ("two", False), ("three", True)]
    assert standing(*turns, user(5, "three", parent=0)) == [("one", False), ("two", False), ("three", True)]
    summary = entry(5, "branch_summary", parent=2, fromId="e4", summary="left")
    assert standing(*turns, summary, user(6, "three")) == [("one", True), ("two", False), ("three", True)]


def test_an_unknown_parent_leaves_all() -> None:
    assert standing(user(1, "one"), reply(2, "first"), user(3, "two", parent=77)) == [("one", True), ("two", True)]


def test_files_of_the_first_version_have_no_branches() -> None:
    records = [user(1, "one"), reply(2, "first"), user(3, "two")]
    for record in records:
        del record["parentId"]
    assert standing(*records) == [("one", True), ("two", True)]


def test_a_copy_in_a_forked_session_has_the_same_key() -> None:
    first = parse(FORMAT, session(), user(1, "hi"))
    fork = session(id="s2", parentSession="/h/.pi/agent/sessions/--w--/2026-06-23T16-00-00_s1.jsonl")
    second = parse(FORMAT, fork, user(1, "hi"))
    assert [one.key for one in first.exchanges] == [one.key for one in second.exchanges]
    assert (second.sessions[0].parent_session_id, second.sessions[0].relation) == ("s1", "fork")


@pytest.mark.parametrize(
    ("record", "is_ours"),
    [
        (session(), True),
        (session(cwd=None), False),
        (session(id=None), False),
        (user(1, "hi"), False),
    ],
)
def test_sniffing(record: dict[str, Any], *, is_ours: bool) -> None:
    assert FORMAT.sniff(lines(record)) is is_ours


def test_default_directories() -> None:
    assert FORMAT.default_dirs({}, "/home/sam", "linux") == ("/home/sam/.pi/agent/sessions",)
    assert FORMAT.default_dirs({}, "/Users/sam", "darwin") == ("/Users/sam/.pi/agent/sessions",)
    windows = FORMAT.default_dirs({"USERPROFILE": "D:\\sam"}, "C:\\x", "win32")
    assert windows == ("D:\\sam\\.pi\\agent\\sessions",)
    assert FORMAT.default_dirs({"PI_CODING_AGENT_DIR": "/p"}, "/h", "linux") == ("/p/sessions",)


def test_which_names_can_hold_a_session() -> None:
    assert FORMAT.may_hold("/h/.pi/agent/sessions/--w--/2026_s1.jsonl")
    assert not FORMAT.may_hold("/h/.pi/agent/settings.json")
