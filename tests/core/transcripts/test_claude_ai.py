"""Claude.ai exports: blocks before flat text, branches, attachments, and other spellings of the same fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes, read_file

from palace_daemon.core.transcripts.claude_ai import ClaudeAiFormat
from palace_daemon.model import Attachment, ToolUse

FORMAT = ClaudeAiFormat()
DATA = Path(__file__).parents[2] / "data" / "transcripts" / "claude-ai-export" / "conversations.json"
ROOT = "00000000-0000-4000-8000-000000000000"
FILLER = "```\nThis block is not supported on your current device yet.\n```"


def message(name: str, sender: str, text: str = "", **more: Any) -> dict[str, Any]:
    return {"uuid": name, "sender": sender, "text": text, **more}


def read(*messages: dict[str, Any], **more: Any) -> Whole:
    conversation = {"uuid": "conv", "name": "N", "chat_messages": list(messages), **more}
    return read_bytes(FORMAT, json.dumps([conversation]).encode())


def test_the_conversation_of_the_export() -> None:
    whole = read_file(FORMAT, DATA)
    assert whole.pairs == [
        ("Find a name for the observatory's cat.", "I will look at the star names.\n\nCall her *Vega*."),
        ("Something softer, please.", "Then **Mira**.\nIt means wonderful."),
        ("Good.", ""),
    ]
    assert [(one.user_text, one.reply_text) for one in whole.exchanges if one.is_superseded] == [
        ("Someting shorter?", "Io.")
    ]
    live = [one for one in whole.exchanges if not one.is_superseded]
    assert live[0].key == "claude-ai:c1a0de00-0000-4000-8000-000000000001"
    assert live[0].tools == (ToolUse(name="web_search"),)
    assert live[0].attachments == (Attachment(kind="file", name="paws.txt", size_bytes=12),)
    assert live[2].attachments == (Attachment(kind="image", name="mira.jpeg"),)
    assert (live[0].started_at, live[0].ended_at) == (1_772_611_260_250, 1_772_611_320_250)
    assert {one.time_quality for one in live} == {"exact"}
    assert [one.title for one in whole.sessions] == ["Naming the observatory's cat"]
    assert whole.lines_skipped == {"thinking": 1, "tool_output": 1, "no_messages": 1}
    assert not any("paw list" in one.user_text + one.reply_text for one in whole.exchanges)


def test_cuts_and_restarts_do_not_matter() -> None:
    assert_cuts_do_not_matter(FORMAT, DATA.read_bytes(), str(DATA))


@pytest.mark.shared
def test_the_real_fixtures(shared_transcripts: Path) -> None:
    directory = shared_transcripts / "claude-ai-export"
    whole = read_file(FORMAT, directory / "gbrain-claude-export.json")
    assert whole.pairs == [
        ("Review the acme-seed memo intro paragraph.", "The intro should lead with the fund-a term sheet date.")
    ]
    assert whole.lines_skipped == {"empty": 1, "no_messages": 1}
    one = whole.exchanges[0]
    assert (one.key, one.started_at) == ("claude-ai:claude-conv-0001:cm-1", 1_786_104_005_000)
    assert (one.line_start, one.line_end) == (9, 15)
    whole = read_file(FORMAT, directory / "mempalace-privacy_export.json")
    assert whole.pairs == [
        (
            "Summarize the migration risks before we cut the release candidate.",
            "The main risks are schema drift, stale caches, and missing rollback checkpoints.",
        ),
        (
            "Write down the rollout guardrails so the ops handoff is explicit.",
            "Document the health checks, abort conditions, and ownership for each phase.",
        ),
    ]
    assert [one.session_id for one in whole.sessions] == ["convo-1", "convo-2"]


def test_content_and_text_stand_in_for_each_other() -> None:
    blocks = [{"type": "text", "text": "from blocks"}]
    assert read(message("a", "human", "flat", content=blocks)).pairs == [("from blocks", "")]
    assert read(message("a", "human", "", content=blocks)).pairs == [("from blocks", "")]
    for content in ([], [{"type": "text", "text": ""}], None, 7):
        assert read(message("a", "human", "flat", content=content)).pairs == [("flat", "")]


def test_filler_in_flat_text_is_dropped_and_a_word_about_it_stays() -> None:
    flat = f"One.\n\n{FILLER}\n\n{FILLER}\n\nTwo."
    assert read(message("a", "human", "q"), message("b", "assistant", flat)).pairs == [("q", "One.\n\n\n\nTwo.")]
    word = "It says: This block is not supported on your current device yet."
    assert read(message("a", "human", word)).pairs == [(word, "")]
    whole = read(message("a", "human", "q"), message("b", "assistant", FILLER))
    assert whole.pairs == [("q", "")]
    assert whole.lines_skipped == {"empty": 1}


def test_messages_are_put_into_the_order_of_their_times() -> None:
    whole = read(
        message("b", "assistant", "answer", created_at="2026-03-04T08:02:00Z"),
        message("a", "human", "question", created_at="2026-03-04T08:01:00Z"),
        message("c", "human", "next", created_at="2026-03-04T08:03:00Z"),
    )
    assert whole.pairs == [("question", "answer"), ("next", "")]


def test_messages_that_name_no_parent_follow_the_one_before() -> None:
    whole = read(
        message("a", "human", "one", parent_message_uuid=ROOT),
        message("b", "assistant", "1"),
        message("c", "human", "two", parent_message_uuid="gone"),
        message("d", "assistant", "2", parent_message_uuid="c"),
    )
    assert whole.pairs == [("one", "1"), ("two", "2")]


def test_a_first_message_that_was_edited() -> None:
    edited = (
        message("a", "human", "frist", parent_message_uuid=ROOT),
        message("b", "assistant", "?", parent_message_uuid="a"),
        message("c", "human", "first", parent_message_uuid=ROOT),
        message("d", "assistant", "!", parent_message_uuid="c"),
    )
    assert read(*edited).pairs == [("first", "!")]
    assert read(*edited, current_leaf_message_uuid="b").pairs == [("frist", "?")]


def test_other_spellings_and_missing_fields() -> None:
    conversation: dict[str, Any] = {
        "title": None,
        "messages": [
            {"sender": "human", "content": "q", "created_at": None},
            {"sender": "assistant", "content": "a"},
            {"sender": "moderator", "content": "not said"},
            "no record",
        ],
    }
    whole = read_bytes(FORMAT, json.dumps([conversation]).encode())
    assert whole.pairs == [("q", "a")]
    assert whole.lines_skipped == {"moderator": 1, "none": 1}
    assert len(whole.sessions[0].session_id) == 16
    assert whole.exchanges[0].time_quality == "none"
    conversation["name"], conversation["created_at"] = "", "2026-03-04T08:00:00Z"
    one = read_bytes(FORMAT, json.dumps(conversation).encode()).exchanges[0]
    assert (one.started_at, one.time_quality) == (1_772_611_200_000, "session")


@pytest.mark.parametrize("value", [7, None, "text", [], {}, {"chat_messages": 7}, {"chat_messages": []}])
def test_elements_of_another_shape_are_counted(value: Any) -> None:
    good = {"uuid": "c", "chat_messages": [message("a", "human", "q")]}
    whole = read_bytes(FORMAT, json.dumps([value, good]).encode())
    assert whole.pairs == [("q", "")]
    assert sum(whole.lines_skipped.values()) == 1


@pytest.mark.parametrize(
    ("head", "is_ours"),
    [
        (b'[{"uuid": "x", "name": "", "chat_messages": []}]', True),
        (b'[{"uuid": "x", "name": "y", "chat_messages": [{"uuid": "z", "te', True),
        (b'[{"messages": [{"sender": "human", "content": "x"}]}]', True),
        (b'{"uuid": "x", "chat_messages": []}', True),
        (b'[{"messages": [{"role": "user", "content": "x"}]}]', False),
        (b'[{"messages": [{"sender": "U1", "text": "x"}]}]', False),
        (b'{"messages": [{"sender": "human", "content": "x"}]}', False),
        (b'[{"uuid": "x", "full_name": "Sam", "email_address": "s@example.org"}]', False),
        (b'[{"uuid": "x", "name": "project", "docs": []}]', False),
        (b"[]", False),
        (b"\x00\x01", False),
    ],
)
def test_sniffing(head: bytes, is_ours: bool) -> None:
    assert FORMAT.sniff(head) is is_ours


@pytest.mark.parametrize(
    ("path", "may_hold"),
    [
        ("/home/kim/data.zip!/conversations.json", True),
        ("/home/kim/data/users.json", False),
        ("/home/kim/data/memories.json", False),
        ("/home/kim/data/projects.json", False),
    ],
)
def test_names(path: str, may_hold: bool) -> None:
    assert FORMAT.may_hold(path) is may_hold


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_no_directory_is_watched(platform: str) -> None:
    assert FORMAT.default_dirs({}, "/home/kim", platform) == ()
