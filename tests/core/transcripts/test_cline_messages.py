"""Cline's newer core: messages with a manifest."""

from __future__ import annotations

from typing import Any

import pytest
from support.document_formats import Nearby, assert_damage_does_not_raise, claims_outside, document
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes, read_file
from support.line_formats import SHARED, head_of, needs_samples

from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.base import NOTHING_BESIDE
from palace_daemon.core.transcripts.cline.messages import ClineMessagesFormat
from palace_daemon.model import Attachment, ToolUse

FORMAT = ClineMessagesFormat()
SAMPLES = SHARED / "cline" / "sdk"
PATH = "/home/sam/.cline/data/sessions/s1/s1.messages.json"
MANIFEST = "/home/sam/.cline/data/sessions/s1/s1.json"


def message(number: int, role: str, *blocks: Any, **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    return {"id": f"msg_{number}", "role": role, "content": content, "ts": 1_783_376_868_000 + number, **more}


def session(*messages: Any, **more: Any) -> bytes:
    fields = {"version": 1, "updated_at": "2026-07-15T05:42:04Z", "agent": "lead", "sessionId": "s1"}
    return document({**fields, "messages": list(messages), **more})


def read(*messages: Any, beside: Beside = NOTHING_BESIDE, **more: Any) -> Whole:
    data = session(*messages, **more)
    assert_cuts_do_not_matter(FORMAT, data, PATH, beside)
    return read_bytes(FORMAT, data, PATH, beside)


@pytest.mark.parametrize("folder", [pytest.param(SAMPLES / "session", marks=needs_samples)])
def test_the_real_session_is_a_fork_with_five_exchanges(folder: Any) -> None:
    path = folder / "session.messages.json"
    assert registry.detect(str(path), head_of(path)) is registry.by_name(FORMAT.name)
    whole = read_file(FORMAT, path)
    assert [one.user_text[:40] for one in whole.exchanges] == [
        "can you update @apps/examples/desktop-ap",
        "can you make the filter icon smaller?",
        "awesome! the Sessions button has a space",
        "can you also rmove that spacing from the",
        "hello",
    ]
    first, *_, last = whole.exchanges
    assert first.key == "cline:msg_mr9sjimy_1:1783376868634"
    assert [tool.name for tool in first.tools] == ["editor", "read_files"]
    assert {tool.target for tool in first.tools} == {
        "/Users/example/dev/cline/apps/examples/desktop-app/webview/components/agent-sidebar.tsx"
    }
    assert [one.kind for one in first.attachments] == ["file"]
    assert first.reply_text.count("\n\n") >= 2
    assert "use client" not in first.user_text
    assert (last.reply_text, last.model) == ("Hello! How can I assist you today?", "mistralai/voxtral-small-24b-2507")
    assert {one.status for one in whole.exchanges} == {"complete"}
    [told] = whole.sessions
    assert (told.session_id, told.parent_session_id, told.relation) == (
        "1784094124598_rruoq",
        "1784094053271_p8pzo",
        "fork",
    )
    assert (told.cwd, told.entrypoint, told.title[:32]) == (
        "/Users/example/dev/cline",
        "cli",
        "can you update @apps/examples/de",
    )
    assert whole.lines_skipped == {"tool_output": 11}
    assert_cuts_do_not_matter(FORMAT, path.read_bytes(), str(path))


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs_samples) for name in ("agentic", "basic")])
def test_what_the_model_got_after_a_compaction_is_no_session(name: str) -> None:
    path = SAMPLES / "session" / f"{name}.compaction.json"
    whole = read_file(FORMAT, path)
    assert (whole.exchanges, whole.lines_skipped) == ((), {"compaction_copy": 1})
    assert not FORMAT.may_hold(str(path))


@pytest.mark.parametrize("known", [pytest.param(FORMAT, marks=needs_samples)])
def test_nobody_elses_transcript_is_taken(known: ClineMessagesFormat) -> None:
    assert claims_outside(known, "cline") == []
    path = SAMPLES / "messages" / "success.messages.json"
    assert read_file(known, path).pairs == [
        ("Inspect the README and summarize it.", "The README describes a small test fixture project.")
    ]


def test_notices_and_wrappers_are_no_words_of_a_person() -> None:
    notice = "<SYSTEM_NOTICE>\nEarlier context was compacted.\n</SYSTEM_NOTICE>"
    whole = read(
        message(1, "user", '<user_input mode="act">\nFix it\n</user_input>', notice, {"type": "image", "data": "AAAA"}),
        message(2, "assistant", {"type": "thinking", "thinking": "x"}, "Fixed."),
        message(3, "user", {"type": "text", "text": "Context summary: x"}, metadata={"kind": "compaction_summary"}),
        message(4, "user", notice),
        message(5, "user", "What is <SYSTEM_NOTICE>?"),
    )
    assert whole.pairs == [("Fix it", "Fixed."), ("What is <SYSTEM_NOTICE>?", "")]
    assert whole.exchanges[0].attachments == (Attachment(kind="image"),)
    assert whole.lines_skipped == {"injected_context": 2, "thinking": 1, "compaction_summary": 1}


def test_a_reply_with_a_call_goes_on() -> None:
    call = {"type": "tool_use", "id": "t", "name": "run_commands", "input": {"commands": ["make test\nrest", "x"]}}
    whole = read(message(1, "user", "Go"), message(2, "assistant", "Running.", call))
    [one] = whole.exchanges
    assert (one.status, one.tools) == ("open", (ToolUse(name="run_commands", target="make test"),))


def test_helpers_are_sessions_of_their_own_with_no_persons_words() -> None:
    beside = Nearby({MANIFEST: {"parent_session_id": "s0", "workspace_root": "/home/sam/tides"}})
    whole = read(message(1, "user", "Search"), message(2, "assistant", "Found."), agent="subagent", beside=beside)
    [told] = whole.sessions
    assert (told.parent_session_id, told.relation, told.is_automated, told.cwd) == (
        "s0",
        "subagent",
        True,
        "/home/sam/tides",
    )
    assert whole.exchanges[0].user_kind == "automated"


def test_ids_without_time_are_unique_in_their_session_only() -> None:
    first = read({"id": "msg_1", "role": "user", "content": "Go"})
    other = read({"id": "msg_1", "role": "user", "content": "Go"}, sessionId="s2")
    assert first.exchanges[0].key == "cline:s1:msg_1"
    assert other.exchanges[0].key == "cline:s2:msg_1"


def test_names_and_directories() -> None:
    assert FORMAT.may_hold(PATH)
    assert not FORMAT.may_hold(MANIFEST)
    assert FORMAT.default_dirs({}, "/home/sam", "linux") == ("/home/sam/.cline/data/sessions",)
    assert FORMAT.default_dirs({}, "/Users/sam", "darwin") == ("/Users/sam/.cline/data/sessions",)
    assert FORMAT.default_dirs({"USERPROFILE": r"C:\Users\sam"}, "x", "win32") == (
        r"C:\Users\sam\.cline\data\sessions",
    )


@pytest.mark.parametrize("value", [None, [], "x", {"messages": {}}, {"messages": [None, 3, {"role": "tool"}]}])
def test_an_unknown_shape_is_counted(value: object) -> None:
    whole = read_bytes(FORMAT, document(value), PATH)
    assert whole.exchanges == ()
    assert not FORMAT.sniff(document(value))


def test_damage_does_not_raise() -> None:
    call = {"type": "tool_use", "id": "t", "name": "x", "input": {"files": [{"path": "a"}]}}
    data = session(message(1, "user", "Go", {"type": "file", "path": "a"}), message(2, "assistant", "Hi", call))
    fork = {"metadata": {"fork": {"forkedFromSessionId": "s0"}, "title": "T"}}
    assert_damage_does_not_raise(FORMAT, data, PATH, Nearby({MANIFEST: fork}))
    assert_damage_does_not_raise(FORMAT, data, PATH, Nearby({MANIFEST: [1]}))
