"""GitHub Copilot CLI: whose words an event holds, broken files, sub-agents, rewinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.formats import Files, assert_cuts_do_not_matter, read_bytes, read_file
from support.line_formats import SHARED, assert_claims_only, assert_no_damage_raises, lines, needs_samples, parse

from palace_daemon.core.redaction import redact
from palace_daemon.core.transcripts.copilot_cli.format import CopilotCliFormat
from palace_daemon.core.transcripts.copilot_cli.records import read_workspace
from palace_daemon.core.transcripts.reading.joined_lines import MAX_LINES
from palace_daemon.model import Attachment

FORMAT = CopilotCliFormat()
DATA = Path(__file__).parents[2] / "data" / "transcripts" / "copilot-cli"
SESSION = DATA / "5e551000-0000-4000-8000-00000000c0de" / "events.jsonl"
SAMPLES = SHARED / "copilot-cli"


def uuid(number: int) -> str:
    return f"0c0b0170-0000-4000-8000-{number:012d}"


def event(kind: str, number: int = 1, **fields: Any) -> dict[str, Any]:
    envelope = {name: fields.pop(name) for name in ("agentId",) if name in fields}
    stamp = f"2026-03-02T10:00:{number % 60:02d}.000Z"
    return {"type": kind, "data": fields, "id": uuid(number), "timestamp": stamp, **envelope}


def start(**fields: Any) -> dict[str, Any]:
    return event("session.start", 0, sessionId="s1", copilotVersion="1.0.9", context={"cwd": "/w"}, **fields)


# ------------------------------------------------------------------------------------------------------ real samples


@pytest.mark.parametrize("path", sorted(SAMPLES.rglob("*.jsonl")) or [SAMPLES], ids=lambda path: path.parent.name)
class TestSamples:
    pytestmark = needs_samples

    def test_cuts_and_restarts_do_not_matter(self, path: Path) -> None:
        assert_cuts_do_not_matter(FORMAT, path.read_bytes(), str(path))


class TestSampleWords:
    pytestmark = needs_samples

    def test_only_its_samples_are_claimed(self) -> None:
        assert_claims_only(FORMAT, "copilot-cli")

    @pytest.mark.parametrize(
        ("name", "pairs"),
        [
            ("vscode-2acc594f-590b-4c79-9fcc-c1b1ea774875.jsonl", [("what is 1+1", "1 + 1 = 2")]),
            (
                "vscode-cb2aca77-f42b-4dbd-a10a-41bd04eaa3ba.jsonl",
                [("what is 1+1", "1 + 1 = 2"), ("what is 2+2", "2 + 2 = 4")],
            ),
            (
                "jazzyalex-large.jsonl",
                [("Step 1", "Ok"), ("Step 2", "Captured multiline output."), ("Step 3", "Ok")],
            ),
            ("jazzyalex-schema_drift.jsonl", [("", "Finished.")]),
            (
                "jazzyalex-aaaabbbb-1111-2222-3333-ccccddddeeee/events.jsonl",
                [("List the files", "The directory contains file1 and file2.")],
            ),
            (
                "dejavu-7cf44517-55ca-435c-893a-3fde1973a44e/events.jsonl",
                [
                    (
                        "why is the connection pool exhausted",
                        "the metrics poller leaks rows; add rows.Close in the scan loop",
                    )
                ],
            ),
            ("ctx-session-independent/events.jsonl", []),
            ("ctx-session-mcp/events.jsonl", []),
        ],
    )
    def test_prompts_and_replies(self, name: str, pairs: list[tuple[str, str]]) -> None:
        assert read_file(FORMAT, SAMPLES / name).pairs == pairs

    def test_a_session_that_a_redactor_went_over(self) -> None:
        """Ids, times and words of its last 16 lines are all one placeholder."""
        told = read_file(FORMAT, SAMPLES / "jazzyalex-small.jsonl")
        assert [one.user_text for one in told.exchanges] == ["List the files", "", "[trimmed for fixture]"]
        first, subagent, _ = told.exchanges
        assert first.reply_text == "Listing the files.\n\nDone\n\n[trimmed for fixture]"
        assert (first.status, first.cwd, first.branch) == ("interrupted", "/tmp/repo", "main")
        assert [tool.name for tool in first.tools] == ["shell", "[trimmed for fixture]"]
        assert subagent.session_id == "copilot_stage0_small/[trimmed for fixture]"


# ------------------------------------------------------------------------------------------------------ the main road


def test_a_session_with_all_that_occurs() -> None:
    told = read_file(FORMAT, SESSION)
    assert told.pairs == [
        ("Why is the tide table empty?", "I will look at the importer.\n\nIt skips rows without a harbour."),
        ("Then fill in the harbour.", "Done."),
        ("Which harbour stands for unknown?\nKeel Point", "Set to Keel Point."),
    ]
    assert [one.user_kind for one in told.exchanges] == ["prompt", "queued", "answer"]
    assert [one.status for one in told.exchanges] == ["complete", "complete", "complete"]
    first = told.exchanges[0]
    assert first.key == f"copilot-cli:{uuid(2)}"
    assert [(tool.name, tool.target) for tool in first.tools] == [("view", "/work/tides/importer.py")]
    assert first.attachments == (Attachment(kind="file", name="/work/tides/table.csv"),)
    assert (first.model, first.agent_version, first.branch) == ("model-a", "1.0.9", "main")
    assert first.time_quality == "exact"
    (facts,) = told.sessions
    assert (facts.session_id, facts.cwd, facts.title) == (SESSION.parent.name, "/work/tides", "Fix the tide importer")
    assert told.lines_skipped["thinking"] == 1
    assert told.lines_skipped["skill_body"] == 1


def test_cuts_and_restarts_do_not_matter() -> None:
    assert_cuts_do_not_matter(FORMAT, SESSION.read_bytes(), str(SESSION))


def test_damage_never_raises() -> None:
    assert_no_damage_raises(FORMAT, SESSION.read_bytes(), str(SESSION))


def test_injected_context_is_not_taken() -> None:
    told = parse(FORMAT, start(), event("user.message", 1, content="hi", transformedContent="<now>10:00</now>\nhi"))
    assert told.pairs == [("hi", "")]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, "prompt"),
        ({"source": "user"}, "prompt"),
        ({"delivery": "idle"}, "prompt"),
        ({"delivery": "steering"}, "queued"),
        ({"agentMode": "shell"}, "shell"),
        ({"source": "autopilot"}, "automated"),
        ({"parentAgentTaskId": "t1"}, "prompt"),
    ],
)
def test_kinds_of_user_words(fields: dict[str, Any], kind: str) -> None:
    told = parse(FORMAT, start(), event("user.message", 1, content="words", **fields))
    assert [one.user_kind for one in told.exchanges] == [kind]


def test_a_message_of_tool_calls_alone_is_no_reply() -> None:
    calls = [{"toolCallId": "c1", "name": "bash", "arguments": '{"command": "make all\\nmake test"}'}]
    told = parse(
        FORMAT,
        start(),
        event("user.message", 1, content="build"),
        event("assistant.message", 2, messageId="m1", content="", toolRequests=calls),
        event("tool.execution_start", 3, toolCallId="c1", toolName="bash", arguments={"command": "make all"}),
    )
    (one,) = told.exchanges
    assert one.reply_text == ""
    assert [(tool.name, tool.target) for tool in one.tools] == [("bash", "make all")]


def test_an_exchange_is_complete_when_a_turn_ends_and_no_tool_runs() -> None:
    before = [start(), event("user.message", 1, content="build"), event("assistant.message", 2, content="Building.")]
    call = event("tool.execution_start", 3, toolCallId="c1", toolName="bash", arguments={"command": "make"})
    end, done = event("assistant.turn_end", 4), event("tool.execution_complete", 5, toolCallId="c1", success=True)
    assert parse(FORMAT, *before, end).exchanges[0].status == "complete"
    assert parse(FORMAT, *before, call, end).exchanges[0].status == "open"
    assert parse(FORMAT, *before, call, done, end).exchanges[0].status == "complete"
    assert parse(FORMAT, *before, call, event("abort", 6)).exchanges[0].status == "interrupted"
    assert parse(FORMAT, *before, event("session.error", 6)).exchanges[0].status == "error"


def test_the_model_is_the_one_chosen_last() -> None:
    told = parse(
        FORMAT,
        start(selectedModel="model-a"),
        event("session.model_change", 1, newModel="model-b"),
        event("user.message", 2, content="hi"),
        event("assistant.message", 3, content="hello"),
    )
    assert told.exchanges[0].model == "model-b"


def test_a_subagent_is_a_session_of_its_own() -> None:
    told = parse(
        FORMAT,
        start(),
        event("user.message", 1, content="count"),
        event("subagent.started", 2, toolCallId="c9", agentName="counter"),
        event("user.message", 3, content="Count the files.", agentId="c9"),
        event("assistant.message", 4, content="Seven.", parentToolCallId="c9"),
        event("assistant.message", 5, content="There are seven."),
    )
    assert [(one.session_id, one.user_text, one.reply_text) for one in told.exchanges] == [
        ("s1", "count", "There are seven."),
        ("s1/c9", "Count the files.", "Seven."),
    ]
    assert told.exchanges[1].user_kind == "automated"
    facts = told.sessions[1]
    assert (facts.parent_session_id, facts.relation, facts.is_automated) == ("s1", "subagent", True)


def test_a_rewind_supersedes_the_turns_from_its_event_on() -> None:
    told = parse(
        FORMAT,
        start(),
        event("user.message", 1, content="one"),
        event("assistant.message", 2, content="first"),
        event("user.message", 3, content="two"),
        event("assistant.message", 4, content="second"),
        event("session.snapshot_rewind", 5, upToEventId=uuid(3), eventsRemoved=2),
        event("user.message", 6, content="three"),
    )
    assert [(one.user_text, one.is_superseded) for one in told.exchanges] == [
        ("one", False),
        ("two", True),
        ("three", False),
    ]


def test_an_answer_without_words_is_tool_output() -> None:
    ask = event("tool.execution_start", 2, toolCallId="c1", toolName="ask_user", arguments={"question": "Which?"})
    end = event("tool.execution_complete", 3, toolCallId="c1", result={"content": "The user skipped the question."})
    assert parse(FORMAT, start(), event("user.message", 1, content="go"), ask, end).pairs == [("go", "")]


def test_events_written_twice_are_read_once() -> None:
    records = [start(), event("user.message", 1, content="hi"), event("assistant.message", 2, content="hello")]
    told = parse(FORMAT, *records, *records)
    assert told.pairs == [("hi", "hello")]
    assert told.lines_skipped["duplicate"] == 2


# -------------------------------------------------------------------------------------------------------- broken files


def test_line_separators_of_unicode_do_not_end_a_line() -> None:
    text = "one\u2028two\u2029three\u0085four\x0bfive"
    data = lines(start(), event("user.message", 1, content=text))
    assert "\u2028".encode() in data
    assert read_bytes(FORMAT, data).pairs == [(text, "")]


def broken(record: dict[str, Any]) -> bytes:
    """Return a record as the faulty writer puts it down: line ends inside strings are not escaped."""
    return json.dumps(record).replace("\\n", "\n").encode() + b"\n"


@pytest.mark.parametrize("kind", ["user.message", "assistant.message"])
def test_a_record_over_several_lines_is_joined(kind: str) -> None:
    text = 'first\n\n  {"second": 2}\n}\nlast'
    record = event(kind, 1, content=text.replace('"', "'"))
    data = lines(start()) + broken(record) + lines(event("user.message", 2, content="next"))
    told = read_bytes(FORMAT, data)
    one = told.exchanges[0]
    assert text.replace('"', "'") in (one.user_text, one.reply_text)
    assert one.flags == ("recovered",)
    assert (one.line_start, one.byte_start) == (2, len(lines(start())))
    assert told.exchanges[1].user_text == "next"
    assert told.exchanges[1].line_start == 7
    assert "malformed" not in told.lines_skipped
    assert_cuts_do_not_matter(FORMAT, data, "/home/sam/sample.jsonl")


def test_a_record_broken_between_its_fields_is_joined() -> None:
    record = lines(event("user.message", 1, content="hi")).replace(b', "data"', b',\n "data"')
    assert read_bytes(FORMAT, lines(start()) + record).pairs == [("hi", "")]


def test_a_torn_line_before_a_whole_one_is_counted_and_costs_nothing_else() -> None:
    whole = lines(event("assistant.message", 2, content="the reply"))
    data = lines(start(), event("user.message", 1, content="hi")) + whole[:60] + b"\n" + whole
    told = read_bytes(FORMAT, data)
    assert told.pairs == [("hi", "the reply")]
    assert told.lines_skipped["malformed"] == 1
    assert_cuts_do_not_matter(FORMAT, data, "/home/sam/sample.jsonl")


def test_a_torn_piece_before_a_whole_record_on_one_line() -> None:
    whole = lines(event("assistant.message", 2, content="the reply"))
    data = lines(start(), event("user.message", 1, content="hi")) + whole[:90] + whole
    told = read_bytes(FORMAT, data)
    assert told.pairs == [("hi", "the reply")]
    assert told.exchanges[0].flags == ("recovered",)


def test_a_torn_line_at_the_end_is_not_consumed_before_it_is_clear() -> None:
    head, piece = lines(start()), lines(event("user.message", 1, content="hi"))[:40] + b"\n"
    parser = FORMAT.open("/home/sam/sample.jsonl", redact)
    parser.feed(head + piece)
    assert parser.offset == len(head)
    assert b"user.message" not in parser.snapshot()
    given_up = parser.take_tail()
    assert given_up.lines_skipped == {"malformed": 1}
    assert [problem.line for problem in given_up.problems] == [2]
    assert parser.offset == len(head + piece)


def test_a_torn_line_waits_for_the_tail_after_it() -> None:
    head = lines(start())
    first, second = broken(event("user.message", 1, content="one\ntwo"))[:-1].split(b"\n")
    parser = FORMAT.open("/home/sam/sample.jsonl", redact)
    parser.feed(head + first + b"\n" + second[:5])
    assert parser.take_tail().exchanges == ()
    assert parser.offset == len(head)
    parser.feed(second[5:])
    assert [one.user_text for one in parser.take_tail().exchanges] == ["one\ntwo"]
    assert parser.offset == len(head + first) + 1 + len(second)


def test_a_record_over_too_many_lines_is_given_up() -> None:
    record = broken(event("user.message", 1, content="\n".join("x" * (MAX_LINES + 2))))
    told = read_bytes(FORMAT, lines(start()) + record + lines(event("user.message", 2, content="next")))
    assert told.pairs == [("next", "")]
    assert told.lines_skipped["malformed"] + told.lines_skipped.get("not_an_object", 0) == MAX_LINES + 2


def test_nul_bytes_after_a_crash() -> None:
    data = lines(start(), event("user.message", 1, content="hi")) + b"\x00" * 1728
    assert read_bytes(FORMAT, data).pairs == [("hi", "")]
    grown = data + lines(event("assistant.message", 2, content="hello"))
    assert read_bytes(FORMAT, grown).pairs == [("hi", "hello")]
    assert read_bytes(FORMAT, data + b"\n").lines_skipped["empty"] == 1


def test_a_lone_surrogate_becomes_a_replacement_character() -> None:
    record = lines(event("user.message", 1, content="x"))
    data = lines(start()) + record.replace(b'"content": "x"', b'"content": "a \\ud83d b"')
    (one,) = read_bytes(FORMAT, data).exchanges
    assert one.user_text == "a \ufffd b"
    assert one.flags == ("lossy_unicode",)


def test_a_large_event_is_kept_whole() -> None:
    text = "a word and " * 160_000
    assert read_bytes(FORMAT, lines(start(), event("user.message", 1, content=text))).pairs[0][0] == text


# ------------------------------------------------------------------------------------------------- place and workspace


def test_the_path_names_a_session_without_its_first_event() -> None:
    record = event("user.message", 1, content="hi")
    assert parse(FORMAT, record, path="/s/session-state/abc/events.jsonl").exchanges[0].session_id == "abc"
    assert parse(FORMAT, record, path="/s/session-state/abc.jsonl").exchanges[0].session_id == "abc"
    assert parse(FORMAT, record, path="C:\\s\\abc\\events.jsonl").exchanges[0].session_id == "abc"


def test_the_workspace_beside_tells_what_the_events_do_not(tmp_path: Path) -> None:
    path = tmp_path / "abc" / "events.jsonl"
    path.parent.mkdir()
    (path.parent / "workspace.yaml").write_text("id: abc\ncwd: /work/tides\nsummary: 'It''s low tide'\nbranch: dev\n")
    path.write_bytes(lines(event("session.start", 0, sessionId="abc"), event("user.message", 1, content="hi")))
    told = read_file(FORMAT, path)
    (facts,) = told.sessions
    assert (facts.cwd, facts.branch, facts.title) == ("/work/tides", "dev", "It's low tide")
    assert told.exchanges[0].cwd == "/work/tides"
    assert_cuts_do_not_matter(FORMAT, path.read_bytes(), str(path), Files())


@pytest.mark.parametrize(
    ("content", "title"),
    [
        (b"name: A title\nsummary: other\n", "A title"),
        (b'summary: "quoted: yes"\n', "quoted: yes"),
        (b"summary: |-\n  block\n", ""),
        (b"\xff\xfe", ""),
        (None, ""),
    ],
)
def test_titles_in_the_workspace(content: bytes | None, title: str) -> None:
    assert read_workspace(content).title == title


def test_default_directories() -> None:
    assert FORMAT.default_dirs({}, "/home/sam", "linux") == ("/home/sam/.copilot/session-state",)
    assert FORMAT.default_dirs({}, "/Users/sam", "darwin") == ("/Users/sam/.copilot/session-state",)
    windows = FORMAT.default_dirs({"USERPROFILE": "D:\\sam"}, "C:\\Users\\sam", "win32")
    assert windows == ("D:\\sam\\.copilot\\session-state",)
    assert FORMAT.default_dirs({"COPILOT_HOME": "/c"}, "/home/sam", "linux") == ("/c/session-state",)


def test_which_names_can_hold_a_session() -> None:
    assert FORMAT.may_hold("/h/.copilot/session-state/abc/events.jsonl")
    assert FORMAT.may_hold("/h/.copilot/session-state/abc.jsonl")
    assert not FORMAT.may_hold("/h/.copilot/session-state/abc/workspace.yaml")


@pytest.mark.parametrize(
    ("head", "is_ours"),
    [
        (lines(start()), True),
        (lines(start())[:80], False),
        (b'{"type":"session.start","data":{"sessionId":"s', True),
        (b"garbage\n" + lines(start()), True),
        (b'{"type":"session.start"}\n', False),
        (b'{"type":"message","data":{},"timestamp":"x"}\n', False),
        (b"", False),
    ],
)
def test_sniffing(head: bytes, *, is_ours: bool) -> None:
    assert FORMAT.sniff(head) is is_ours
