"""Continue: sessions without ids and times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.document_formats import Nearby, assert_damage_does_not_raise, claims_outside, document
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes, read_file
from support.line_formats import head_of, needs_samples

from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.continue_sessions import ContinueFormat
from palace_daemon.model import Attachment, ToolUse

FORMAT = ContinueFormat()
FOLDER = Path(__file__).parents[2] / "data" / "transcripts" / "continue" / "sessions"
SAMPLE = FOLDER / "5b0c7f2e-1111-4222-8333-444455556666.json"
PATH = "/home/sam/.continue/sessions/s1.json"


def session(*messages: Any, **more: Any) -> bytes:
    history = [{"message": item, "contextItems": []} for item in messages]
    return document({"sessionId": "s1", "title": "T", "workspaceDirectory": "/home/sam/x", "history": history, **more})


def read(*messages: Any, **more: Any) -> Whole:
    data = session(*messages, **more)
    assert_cuts_do_not_matter(FORMAT, data, PATH)
    return read_bytes(FORMAT, data, PATH)


def test_a_session_is_read_and_dated_by_its_index() -> None:
    assert registry.detect(str(SAMPLE), head_of(SAMPLE)) is registry.by_name(FORMAT.name)
    assert [known.name for known in registry.formats() if known.sniff(head_of(SAMPLE))] == [FORMAT.name]
    whole = read_file(FORMAT, SAMPLE)
    assert whole.pairs == [
        ("Why is the height rounded?", "I look it up.\n\nIt is rounded to centimetres."),
        ("go on", "Done."),
        ("go on", ""),
    ]
    first = whole.exchanges[0]
    assert (first.started_at, first.time_quality, first.ended_at) == (1770200000000, "session", 1770200000000)
    assert first.tools == (ToolUse(name="read_file", target="table.py"),)
    assert (first.attachments, first.model) == ((Attachment(kind="image"),), "Sonnet")
    assert first.reply_text[first.reply_final_start :] == "It is rounded to centimetres."
    assert len({one.key for one in whole.exchanges}) == 3
    [told] = whole.sessions
    assert (told.title, told.cwd) == ("Rounding of tides", "/home/sam/tides and moons")
    assert whole.lines_skipped == {
        "role:system": 1,
        "injected_context": 1,
        "thinking": 1,
        "tool_output": 1,
        "compaction_summary": 1,
    }
    assert_cuts_do_not_matter(FORMAT, SAMPLE.read_bytes(), str(SAMPLE))


def test_a_session_without_index_has_no_time() -> None:
    [one] = read({"role": "user", "content": "Q"}).exchanges
    assert (one.started_at, one.time_quality) == (None, "none")


def test_the_title_that_nobody_gave_is_none() -> None:
    assert read({"role": "user", "content": "Q"}, title="New Session").sessions[0].title == ""


def test_a_session_that_grew_keeps_its_keys() -> None:
    user, reply = {"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}
    before, after = read(user), read(user, reply, {"role": "user", "content": "Q"})
    assert before.exchanges[0].key == after.exchanges[0].key != after.exchanges[1].key


@pytest.mark.parametrize("known", [pytest.param(FORMAT, marks=needs_samples)])
def test_nobody_elses_transcript_is_taken(known: ContinueFormat) -> None:
    assert claims_outside(known) == []


@pytest.mark.parametrize(
    "value",
    [
        {"sessionId": "x", "history": []},
        {"workspaceDirectory": "", "history": []},
        {"sessionId": "x", "workspaceDirectory": "", "history": [1]},
        {"sessionId": "x", "workspaceDirectory": "", "history": [{"message": "x"}]},
        [{"sessionId": "x", "workspaceDirectory": "/x", "dateCreated": "1"}],
    ],
)
def test_other_documents_are_not_taken(value: object) -> None:
    assert not FORMAT.sniff(document(value))


def test_names_and_directories() -> None:
    assert FORMAT.may_hold(PATH)
    assert FORMAT.may_hold(r"C:\Users\sam\.continue\sessions\x.json")
    assert not FORMAT.may_hold("/home/sam/.continue/sessions/sessions.json")
    assert not FORMAT.may_hold("/home/sam/.continue/config.json")
    assert FORMAT.default_dirs({}, "/home/sam", "linux") == ("/home/sam/.continue/sessions",)
    assert FORMAT.default_dirs({}, "/Users/sam", "darwin") == ("/Users/sam/.continue/sessions",)
    assert FORMAT.default_dirs({}, r"C:\Users\sam", "win32") == (r"C:\Users\sam\.continue\sessions",)
    assert FORMAT.default_dirs({"CONTINUE_GLOBAL_DIR": "/data/c"}, "/home/sam", "linux") == ("/data/c/sessions",)


@pytest.mark.parametrize("value", [None, [], "x", {"history": {}}, {"history": [None, 3, {}, {"message": []}]}])
def test_an_unknown_shape_is_counted(value: object) -> None:
    whole = read_bytes(FORMAT, document(value), PATH)
    assert whole.exchanges == ()
    assert set(whole.lines_skipped) <= {"unknown_shape", "malformed"}


def test_damage_does_not_raise() -> None:
    index = Nearby(
        {"/home/sam/.continue/sessions/sessions.json": [{"sessionId": "s1", "dateCreated": "1770200000000"}]}
    )
    calls = [{"id": "c", "function": {"name": "f", "arguments": '{"path": "a"}'}}]
    data = session(
        {"role": "user", "content": [{"type": "text", "text": "Q"}]},
        {"role": "assistant", "content": "A", "toolCalls": calls},
    )
    assert_damage_does_not_raise(FORMAT, data, PATH, index)
    assert_damage_does_not_raise(FORMAT, SAMPLE.read_bytes(), PATH, Nearby({}))
