"""Amp: thread files and exports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.document_formats import assert_damage_does_not_raise, claims_outside, document
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes, read_file
from support.line_formats import SHARED, head_of, needs_samples

from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.amp import AmpFormat
from palace_daemon.model import Attachment, ToolUse

FORMAT = AmpFormat()
SAMPLE = (
    Path(__file__).parents[2]
    / "data"
    / "transcripts"
    / "amp"
    / "threads"
    / "T-0198aaaa-0000-7000-8000-00000000000a.json"
)
PATH = "/home/sam/.local/share/amp/threads/T-1.json"


def thread(*messages: Any, **more: Any) -> bytes:
    return document({"id": "T-1", "created": 1_770_300_000_000, "messages": list(messages), **more})


def read(*messages: Any, **more: Any) -> Whole:
    data = thread(*messages, **more)
    assert_cuts_do_not_matter(FORMAT, data, PATH)
    return read_bytes(FORMAT, data, PATH)


def test_a_thread_file_is_read() -> None:
    assert registry.detect(str(SAMPLE), head_of(SAMPLE)) is registry.by_name(FORMAT.name)
    assert [known.name for known in registry.formats() if known.sniff(head_of(SAMPLE))] == [FORMAT.name]
    whole = read_file(FORMAT, SAMPLE)
    assert whole.pairs == [("Where is ebb computed?", "Let me search.\n\nIn `flow.py`."), ("Rename it", "Renam")]
    first, second = whole.exchanges
    assert (first.key, second.key) == tuple(f"amp:T-0198aaaa-0000-7000-8000-00000000000a:{number}" for number in (0, 4))
    assert (first.started_at, first.time_quality) == (1770300001000, "exact")
    assert (second.started_at, second.time_quality) == (1770300000000, "session")
    assert (first.status, second.status) == ("complete", "interrupted")
    assert first.tools == (ToolUse(name="Grep", target="ebb"),)
    assert (first.model, first.attachments) == ("claude-sonnet-4", (Attachment(kind="image"),))
    [told] = whole.sessions
    assert (told.title, told.cwd) == ("Ebb and flow", "/home/sam/tides")
    assert whole.lines_skipped == {"thinking": 1, "tool_output": 1}
    assert_cuts_do_not_matter(FORMAT, SAMPLE.read_bytes(), str(SAMPLE))


def test_a_message_keeps_all_its_blocks_in_order() -> None:
    def said(*texts: str) -> dict[str, Any]:
        blocks: list[dict[str, Any]] = []
        for text in texts:
            blocks += [{"type": "text", "text": text}, {"type": "tool_use", "id": f"t{len(blocks)}", "name": "Bash"}]
        return {"role": "assistant", "messageId": 1, "content": blocks}

    asked = {"role": "user", "messageId": 0, "content": [{"type": "text", "text": "Why?"}]}
    for texts in (
        ("The", "Middle.", "The end."),
        ("Let me check.", "Let me check.", "Let me check. Now the log.", "Done."),
    ):
        assert read(asked, said(*texts)).pairs == [("Why?", "\n\n".join(texts))]


@pytest.mark.parametrize("path", [pytest.param(SHARED / "amp" / "ctx-redacted-thread.json", marks=needs_samples)])
def test_an_export_is_read(path: Path) -> None:
    assert registry.detect(str(path), head_of(path)) is registry.by_name(FORMAT.name)
    whole = read_file(FORMAT, path)
    [one] = whole.exchanges
    assert one.user_text.startswith("Amp export oracle prompt")
    assert one.reply_text == "Amp export oracle response: use explicit JSON export only."
    assert one.key == "amp:T-019c0000-0000-7000-8000-0000000000aa:msg_amp_fixture_user_1"
    assert (one.started_at, one.ended_at, one.status) == (1783182210000, 1783182211000, "open")
    assert whole.sessions[0].cwd == "/workspace/ctx-amp-fixture"
    assert whole.lines_skipped == {"thinking": 1, "tool_output": 1, "role:info": 1}
    assert claims_outside(FORMAT, "amp") == []


def test_messages_without_ids_are_known_by_their_place() -> None:
    whole = read(
        {"role": "user", "content": "go on"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "go on"},
    )
    assert whole.pairs == [("go on", "Yes."), ("go on", "")]
    assert len({one.key for one in whole.exchanges}) == 2


@pytest.mark.parametrize(("state", "status"), [("complete", "complete"), ("error", "error"), ("streaming", "open")])
def test_the_state_of_the_last_message_is_that_of_the_turn(state: str, status: str) -> None:
    reply = {"role": "assistant", "content": [{"type": "text", "text": "A"}], "state": {"type": state}}
    assert read({"role": "user", "content": "Q"}, reply).exchanges[0].status == status


def test_names_and_directories() -> None:
    assert FORMAT.may_hold(PATH)
    assert not FORMAT.may_hold("/home/sam/.local/share/amp/session.json")
    assert FORMAT.default_dirs({}, "/home/sam", "linux") == ("/home/sam/.local/share/amp/threads",)
    assert FORMAT.default_dirs({"XDG_DATA_HOME": "/data"}, "/home/sam", "linux") == ("/data/amp/threads",)
    assert FORMAT.default_dirs({}, "/Users/sam", "darwin") == ("/Users/sam/.local/share/amp/threads",)
    assert FORMAT.default_dirs({}, r"C:\Users\sam", "win32") == (r"C:\Users\sam\.local\share\amp\threads",)


@pytest.mark.parametrize("value", [None, [], {"id": "x", "created": 1, "messages": []}, {"id": "T-1", "messages": []}])
def test_other_documents_are_not_taken(value: object) -> None:
    assert not FORMAT.sniff(document(value))


@pytest.mark.parametrize("value", [None, [], "x", {"messages": {}}, {"messages": [None, 3, {"role": []}]}])
def test_an_unknown_shape_is_counted(value: object) -> None:
    assert read_bytes(FORMAT, document(value), PATH).exchanges == ()


def test_damage_does_not_raise() -> None:
    assert_damage_does_not_raise(FORMAT, SAMPLE.read_bytes(), PATH)
    call = {"type": "tool_use", "id": "t", "name": "x", "input": {"path": "a"}}
    data = thread(
        {
            "role": "user",
            "messageId": 0,
            "content": [{"type": "text", "text": "Q"}],
            "meta": {"sentAt": 1_770_300_000_000},
        },
        {"role": "assistant", "content": [{"type": "text", "text": "A"}, call], "state": {"type": "complete"}},
        env={"initial": {"trees": [{"uri": "file:///x"}]}},
    )
    assert_damage_does_not_raise(FORMAT, data, PATH)
