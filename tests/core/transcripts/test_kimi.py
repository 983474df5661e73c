"""Kimi Code: prompts that stand twice, loop events, undo, and sub-agents by their folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.formats import assert_cuts_do_not_matter, read_file
from support.line_formats import SHARED, assert_claims_only, assert_no_damage_raises, lines, needs_samples, parse

from palace_daemon.core.transcripts.kimi.format import KimiFormat

FORMAT = KimiFormat()
SAMPLE = SHARED / "other" / "kimi" / "jazzyalex-assistant_tools.jsonl"
DATA = Path(__file__).parents[2] / "data" / "transcripts" / "kimi" / "session_tides" / "agents"
MAIN, WORKER = DATA / "main" / "wire.jsonl", DATA / "agent-0" / "wire.jsonl"

USER = {"kind": "user"}


def prompt(text: str, name: str = "turn.prompt", **origin: Any) -> dict[str, Any]:
    return {"type": name, "input": [{"type": "text", "text": text}], "origin": origin or USER, "time": 1785000000000}


def message(role: str, text: str, **origin: Any) -> dict[str, Any]:
    body = {"role": role, "content": [{"type": "text", "text": text}], "origin": origin or USER}
    return {"type": "context.append_message", "message": body, "time": 1785000000001}


def loop(kind: str, **fields: Any) -> dict[str, Any]:
    event = {"type": kind, "stepUuid": "s1", "turnId": "0", **fields}
    return {"type": "context.append_loop_event", "event": event, "time": 1785000000002}


def said(text: str, step: str = "s1") -> dict[str, Any]:
    return loop("content.part", part={"type": "text", "text": text}, stepUuid=step)


class TestSample:
    pytestmark = needs_samples

    def test_only_its_sample_is_claimed(self) -> None:
        assert_claims_only(FORMAT, "other/kimi")

    def test_the_conversation(self) -> None:
        told = read_file(FORMAT, SAMPLE)
        assert [one.user_text for one in told.exchanges] == [
            *("hi", "hi", "hi", "run ls command", "cat /nonexistent-file-xyz"),
            "run subagent to count swift files in this repo",
            "plan counting all html files in this repo",
            'read README.md then grep for "Kimi"',
        ]
        assert [one.reply_text[:20] for one in told.exchanges] == [
            *("", "", "Hi there! How can I ", "Here is the output o", "The file `/nonexiste"),
            *("The subagent counted", "Done. Here is the co", "Done.\n\n**README.md**"),
        ]
        assert sum(len(one.tools) for one in told.exchanges) == 19
        assert {one.user_kind for one in told.exchanges} == {"prompt"}
        assert told.exchanges[2].model == "kimi-k2.7-code"
        assert told.exchanges[2].started_at == 1785613796901
        counts = {name: told.lines_skipped[name] for name in ("repeated_prompt", "injected_context", "thinking")}
        assert counts == {"repeated_prompt": 8, "injected_context": 5, "thinking": 22}

    def test_its_project_is_where_its_tools_ran(self) -> None:
        told = read_file(FORMAT, SAMPLE)
        assert {one.cwd for one in told.sessions} == {"/private/tmp/as-agent-lab/kimi/project"}

    def test_cuts_and_restarts_do_not_matter(self) -> None:
        assert_cuts_do_not_matter(FORMAT, SAMPLE.read_bytes(), str(SAMPLE))


def test_a_session_with_all_that_occurs() -> None:
    told = read_file(FORMAT, MAIN)
    assert told.pairs == [
        ("Why is the table empty?", "I will look.\n\nThe importer skips rows."),
        ("Look at the harbour too.", "It is missing."),
        ("Fill it in.", "Filled in."),
    ]
    assert [(one.user_text, one.status) for one in told.exchanges if one.is_superseded] == [("Drop it.", "interrupted")]
    assert [one.user_kind for one in told.exchanges] == ["prompt", "queued", "prompt", "prompt"]
    assert told.exchanges[0].session_id == "session_tides"
    assert [(tool.name, tool.target) for tool in told.exchanges[0].tools] == [("Read", "/work/tides/importer.py")]
    assert told.exchanges[0].model == "model-k"
    assert told.lines_skipped["injected_context"] == 1


def test_a_workers_log_is_a_session_of_its_own() -> None:
    told = read_file(FORMAT, WORKER)
    assert told.pairs == [("Count the rows.", "Seven.")]
    (one,), (facts,) = told.exchanges, told.sessions
    assert (one.session_id, one.user_kind) == ("session_tides/agent-0", "automated")
    assert (facts.parent_session_id, facts.relation, facts.is_automated) == ("session_tides", "subagent", True)


@pytest.mark.parametrize("path", [MAIN, WORKER], ids=lambda path: path.parent.name)
def test_cuts_and_restarts_do_not_matter(path: Path) -> None:
    assert_cuts_do_not_matter(FORMAT, path.read_bytes(), str(path))


def test_damage_never_raises() -> None:
    assert_no_damage_raises(FORMAT, MAIN.read_bytes(), str(MAIN))


def test_a_prompt_that_stands_only_in_the_context_is_taken() -> None:
    told = parse(FORMAT, message("user", "hi"), said("hello"), message("user", "<system-reminder>", kind="injection"))
    assert told.pairs == [("hi", "hello")]


def test_the_same_words_typed_twice_are_two_prompts() -> None:
    told = parse(
        FORMAT, prompt("hi"), message("user", "hi"), prompt("hi"), message("user", "hi"), message("user", "hi")
    )
    assert [one.user_text for one in told.exchanges] == ["hi", "hi", "hi"]
    assert told.lines_skipped == {"repeated_prompt": 2}


def test_a_reply_that_stands_in_the_context_too_is_taken_once() -> None:
    told = parse(FORMAT, prompt("hi"), said("hello"), message("assistant", "hello"), message("assistant", "more"))
    assert told.pairs == [("hi", "hello\n\nmore")]


@pytest.mark.parametrize(
    ("record", "kinds"),
    [
        (prompt("words"), ["prompt"]),
        (prompt("words", "turn.steer"), ["queued"]),
        (prompt("words", kind="cron"), ["automated"]),
        (prompt("", kind="retry"), []),
        (prompt("words", kind="injection"), []),
    ],
)
def test_kinds_of_user_words(record: dict[str, Any], kinds: list[str]) -> None:
    assert [one.user_kind for one in parse(FORMAT, record).exchanges] == kinds


def test_a_skill_that_was_called_is_a_turn_with_the_words_after_its_name() -> None:
    called = prompt("Body of the skill", kind="skill_activation", trigger="user-slash", args="the harbour")
    bare = prompt("Body of the skill", kind="skill_activation", trigger="user-slash")
    told = parse(FORMAT, called, said("First.", "s1"), bare, said("Second.", "s2"))
    assert told.pairs == [("the harbour", "First."), ("", "Second.")]
    assert {one.user_kind for one in told.exchanges} == {"slash_args"}


@pytest.mark.parametrize("field", ["display", "args"])
def test_the_first_call_that_names_a_directory_names_the_project(field: str) -> None:
    calls = [
        loop("tool.call", name="Bash", toolCallId=str(number), **{field: {"command": "ls", "cwd": cwd}})
        for number, cwd in enumerate(["/work/tides", "/work/tides/src", ""])
    ]
    told = parse(FORMAT, prompt("hi"), *calls, said("done"), prompt("more"))
    assert [one.cwd for one in told.exchanges] == ["/work/tides", "/work/tides"]
    assert {one.cwd for one in told.sessions} == {"/work/tides"}
    assert parse(FORMAT, prompt("hi"), loop("tool.call", name="Bash", display=7, args=[])).sessions[0].cwd == ""


def test_a_step_that_ends_the_turn_completes_it() -> None:
    first = [prompt("hi"), said("hello")]
    assert parse(FORMAT, *first, loop("step.end", finishReason="tool_use")).exchanges[0].status == "open"
    assert parse(FORMAT, *first, loop("step.end", finishReason="end_turn")).exchanges[0].status == "complete"
    assert parse(FORMAT, *first, {"type": "turn.cancel", "time": 1}).exchanges[0].status == "interrupted"
    assert parse(FORMAT, *first, {"type": "turn.ended", "reason": "failed"}).exchanges[0].status == "error"


def undo(count: Any) -> dict[str, Any]:
    return {"type": "context.undo", "count": count, "time": 1785000000003}


ALL = ["one", "two", "job", "three"]


@pytest.mark.parametrize(
    ("count", "left"),
    [(1, ["one", "two", "job"]), (2, ["one"]), (3, []), (4, ALL), (0, ALL), ("x", ALL)],
)
def test_an_undo_counts_what_was_typed(count: Any, left: list[str]) -> None:
    records = [prompt("one"), prompt("two"), prompt("job", kind="cron"), prompt("three"), undo(count)]
    assert [one.user_text for one in parse(FORMAT, *records).exchanges if not one.is_superseded] == left


def test_an_undo_does_not_reach_behind_a_compaction() -> None:
    compaction = {"type": "context.apply_compaction", "summary": "so far", "time": 1785000000003}
    told = parse(FORMAT, prompt("one"), compaction, prompt("two"), undo(1), undo(1))
    assert [(one.user_text, one.is_superseded) for one in told.exchanges] == [("one", False), ("two", True)]


@pytest.mark.parametrize(
    ("record", "is_ours"),
    [
        ({"type": "metadata", "protocol_version": "1.4", "created_at": 1785000000000}, True),
        (prompt("hi"), True),
        (said("hi"), True),
        ({"type": "metadata", "created_at": 1785000000000}, False),
        ({"type": "turn.prompt", "input": 1}, False),
        ({"type": "message"}, False),
    ],
)
def test_sniffing(record: dict[str, Any], *, is_ours: bool) -> None:
    assert FORMAT.sniff(lines(record)) is is_ours


def test_the_path_names_the_session() -> None:
    for path, session in (
        ("/k/sessions/wd/session_1/agents/main/wire.jsonl", "session_1"),
        ("/k/sessions/wd/session_1/agents/agent-2/wire.jsonl", "session_1/agent-2"),
        ("C:\\k\\session_1\\agents\\main\\wire.jsonl", "session_1"),
        ("/k/session_1/wire.jsonl", "session_1"),
        ("/k/some.jsonl", "some"),
        ("wire.jsonl", "wire"),
    ):
        assert parse(FORMAT, prompt("hi"), path=path).exchanges[0].session_id == session


def test_default_directories() -> None:
    assert FORMAT.default_dirs({}, "/home/sam", "linux") == ("/home/sam/.kimi-code/sessions",)
    assert FORMAT.default_dirs({}, "/Users/sam", "darwin") == ("/Users/sam/.kimi-code/sessions",)
    windows = FORMAT.default_dirs({"USERPROFILE": "D:\\sam"}, "C:\\x", "win32")
    assert windows == ("D:\\sam\\.kimi-code\\sessions",)
    assert FORMAT.default_dirs({"KIMI_CODE_HOME": "/k"}, "/h", "linux") == ("/k/sessions",)


def test_which_names_can_hold_a_log() -> None:
    assert FORMAT.may_hold("/h/.kimi-code/sessions/wd/session_1/agents/main/wire.jsonl")
    assert not FORMAT.may_hold("/h/.kimi-code/session_index.jsonl")
    assert not FORMAT.may_hold("/h/.kimi-code/sessions/wd/session_1/state.json")
