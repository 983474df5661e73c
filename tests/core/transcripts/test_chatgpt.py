"""ChatGPT exports: the branch that was shown last, what is nobody's words, and exports that are not quite right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes, read_file

from palace_daemon.core.transcripts.chatgpt.format import ChatGptFormat
from palace_daemon.model import Attachment, ToolUse

FORMAT = ChatGptFormat()
DATA = Path(__file__).parents[2] / "data" / "transcripts" / "chatgpt-export" / "conversations.json"


def node_id(number: int) -> str:
    return f"c0ffee00-0000-4000-8000-{number:012d}"


def node(name: str, parent: str | None, role: str = "", *parts: Any, **more: Any) -> dict[str, Any]:
    message: dict[str, Any] | None = None
    if role:
        message = {"author": {"role": role}, "content": {"content_type": "text", "parts": list(parts)}} | more
    return {"id": name, "parent": parent, "children": [], "message": message}


def export(*nodes: dict[str, Any], current: str | None = None, **more: Any) -> bytes:
    conversation = {"title": "T", "mapping": {one["id"]: one for one in nodes}, "conversation_id": "conv", **more}
    if current is not None:
        conversation["current_node"] = current
    return json.dumps([conversation]).encode()


def pairs(*nodes: dict[str, Any], current: str | None = None, **more: Any) -> list[tuple[str, str]]:
    return read_bytes(FORMAT, export(*nodes, current=current, **more)).pairs


def test_a_persons_text_keeps_what_looks_like_a_citation() -> None:
    text = "the log says \u30104\u2020source\u3011 and \ue200cite\ue202turn0search1\ue201"
    assert pairs(node("a", None, "user", text), node("b", "a", "assistant", text), current="b") == [
        (text, "the log says  and")
    ]


def told(role: str, **more: Any) -> Whole:
    """Read a conversation whose second message is the one in question."""
    first, second = node("a", None, "user", "q"), node("b", "a", role, "text", **more)
    return read_bytes(FORMAT, export(first, second, current="b"))


def test_the_branch_that_was_shown_last_is_the_conversation() -> None:
    whole = read_file(FORMAT, DATA)
    assert whole.pairs == [
        (
            "How do I back up the readings of the greenhouse sensors?",
            "Let me look at how your database is set up.\n\nUse **restic** with a nightly snapshot; 42 MB are nothing.",
        ),
        ("Which options does it take, for this layout?", "Mainly `--tag` and `--exclude`."),
        ("And when should it run?", "Run it from cron at 03:10, and keep restic up to date."),
    ]
    assert whole.is_whole
    first, second, third = (one for one in whole.exchanges if not one.is_superseded)
    assert first.key == f"chatgpt:{node_id(4)}"
    assert first.reply_text[first.reply_final_start :] == "Use **restic** with a nightly snapshot; 42 MB are nothing."
    assert first.tools == (ToolUse(name="python"),)
    assert (first.started_at, first.ended_at) == (1_772_445_601_000, 1_772_445_665_000)
    assert (first.time_quality, first.status, first.model) == ("exact", "complete", "gpt-5")
    assert second.attachments == (Attachment(kind="image", name="layout.png", size_bytes=1234),)
    assert third.model == "gpt-5-thinking"
    assert [(one.session_id, one.title) for one in whole.sessions] == [
        (node_id(1000), "Backup of the greenhouse sensors")
    ]


def test_abandoned_branches_are_superseded() -> None:
    whole = read_file(FORMAT, DATA)
    old = [one for one in whole.exchanges if one.is_superseded]
    assert [(one.user_text, one.reply_text) for one in old] == [
        ("How do I back up the readings of the greenhouse sensors?", "Use a floppy disk."),
        ("A floppy disk, really?", "You are right, that was a joke."),
        ("Wich options does it take?", "It takes many options."),
    ]
    assert sorted(one.key for one in old) == sorted(whole.superseded_keys)
    assert len({one.key for one in whole.exchanges}) == len(whole.exchanges)


def test_what_is_nobodys_words_is_counted_and_not_kept() -> None:
    whole = read_file(FORMAT, DATA)
    assert whole.lines_skipped == {
        "system": 1,
        "custom_instructions": 1,
        "thinking": 2,
        "tool_output": 1,
        "audio_asset_pointer": 1,
        "no_messages": 1,
    }
    for words in ("houseboat", "They want backups", "print(", "42 MB\n"):
        assert not any(words in one.user_text + one.reply_text for one in whole.exchanges)


def test_cuts_and_restarts_do_not_matter() -> None:
    assert_cuts_do_not_matter(FORMAT, DATA.read_bytes(), str(DATA))


@pytest.mark.shared
def test_the_real_fixture(shared_transcripts: Path) -> None:
    whole = read_file(FORMAT, shared_transcripts / "chatgpt-export" / "mempalace-conversations.json")
    assert [user for user, _ in whole.pairs] == [
        "Review the storage migration plan and call out the rollback hazards before deployment.",
        "List the release-owner guardrails that must be checked during cutover.",
    ]
    assert whole.pairs[1][1] == (
        "Verify health checks, abort conditions, and owner acknowledgements for each deployment phase."
    )
    assert [one.title for one in whole.sessions] == ["Migration review", "Ops handoff"]
    assert {one.time_quality for one in whole.exchanges} == {"none"}
    assert [(one.line_start, one.line_end) for one in whole.exchanges] == [(9, 25), (51, 67)]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"weight": 0}, "weight_zero"),
        ({"weight": 0.0}, "weight_zero"),
        ({"metadata": {"is_visually_hidden_from_conversation": True}}, "hidden"),
        ({"metadata": {"is_visually_hidden": True}}, "hidden"),
        ({"metadata": {"is_user_system_message": True}}, "custom_instructions"),
        ({"content": {"content_type": "user_editable_context", "user_profile": "text"}}, "custom_instructions"),
        ({"content": {"content_type": "model_editable_context", "parts": ["text"]}}, "custom_instructions"),
        ({"content": {"content_type": "thoughts", "thoughts": []}}, "thinking"),
        ({"content": {"content_type": "reasoning_recap", "content": "text"}}, "thinking"),
        ({"content": {"content_type": "code", "text": "text"}}, "code"),
        ({"content": {"content_type": "execution_output", "text": "text"}}, "execution_output"),
        ({"content": {"content_type": "tether_quote", "text": "text"}}, "tether_quote"),
        ({"content": {"content_type": "system_error", "text": "text"}}, "system_error"),
        ({"channel": "commentary"}, "commentary"),
        ({"channel": "analysis"}, "analysis"),
        ({"content": {"content_type": "text", "parts": [""]}}, "empty"),
        ({"content": None}, "empty"),
    ],
)
def test_a_message_without_words_of_the_model(more: dict[str, Any], reason: str) -> None:
    whole = told("assistant", **more)
    assert whole.pairs == [("q", "")]
    assert whole.lines_skipped == {reason: 1}


def test_a_call_is_a_tool_and_no_text() -> None:
    whole = told("assistant", recipient="canmore.create_textdoc")
    assert whole.pairs == [("q", "")]
    assert whole.exchanges[0].tools == (ToolUse(name="canmore.create_textdoc"),)


@pytest.mark.parametrize("more", [{"weight": 1.0}, {"weight": None}, {"recipient": "all"}, {"channel": "final"}, {}])
def test_a_message_with_words(more: dict[str, Any]) -> None:
    assert told("assistant", **more).pairs == [("q", "text")]


@pytest.mark.parametrize("role", ["system", "critic", ""])
def test_other_authors_say_nothing(role: str) -> None:
    assert told(role, author={"role": role}).pairs == [("q", "")]


def test_an_interrupted_reply() -> None:
    whole = told("assistant", metadata={"finish_details": {"type": "interrupted"}})
    assert whole.exchanges[0].status == "interrupted"


def test_a_turn_without_time_has_the_time_of_its_conversation() -> None:
    data = export(node("a", None, "user", "q", create_time=None), current="a", create_time=1_772_445_600.25)
    one = read_bytes(FORMAT, data).exchanges[0]
    assert (one.started_at, one.time_quality) == (1_772_445_600_250, "session")


def test_the_newest_leaf_stands_in_for_a_missing_current_node() -> None:
    nodes = [
        node("a", None, "user", "q", create_time=1_772_445_600.0),
        node("new", "a", "assistant", "second answer", create_time=1_772_445_900.0),
        node("old", "a", "assistant", "first answer", create_time=1_772_445_700.0),
    ]
    for current in (None, "gone"):
        assert pairs(*nodes, current=current) == [("q", "second answer")]


def test_children_that_are_wrong_do_not_matter() -> None:
    nodes = [node("a", None, "user", "q"), node("b", "a", "assistant", "answer")]
    nodes[0]["children"] = ["gone", "a"]
    assert pairs(*nodes, current="b") == [("q", "answer")]


def test_a_ring_of_parents_ends() -> None:
    nodes = [node("a", "b", "user", "q"), node("b", "a", "assistant", "answer"), node("c", "c", "user", "alone")]
    assert pairs(*nodes, current="b") == [("q", "answer")]


def test_a_reply_without_a_question_is_kept() -> None:
    whole = read_bytes(FORMAT, export(node("a", None, "assistant", "Welcome back."), current="a"))
    assert whole.pairs == [("", "Welcome back.")]
    assert whole.exchanges[0].key == "chatgpt:conv:a"


def test_a_live_reply_without_a_question_does_not_join_an_abandoned_turn() -> None:
    nodes = [
        node("root", None),
        node("a", "root", "user", "old words"),
        node("b", "root", "assistant", "Welcome back."),
    ]
    whole = read_bytes(FORMAT, export(*nodes, current="b"))
    assert whole.pairs == [("", "Welcome back.")]
    assert [(one.user_text, one.is_superseded) for one in whole.exchanges] == [("old words", True), ("", False)]


def test_citations_are_left_out_and_names_stay() -> None:
    text = (
        "Rain \ue200cite\ue202turn0search1\ue201 falls\ue203 here\ue204, in "
        '\ue200entity\ue202["city", "Lyon", "in France"]\ue201 and '
        "\ue200entity\ue202broken\ue201 see \ue200navlist\ue202x\ue201.\u30106\u2020source\u3011"
    )
    references = [{"matched_text": "\ue200navlist\ue202x\ue201", "alt": "[the list](https://example.org)"}, 7, None]
    whole = told(
        "assistant",
        content={"content_type": "text", "parts": [text]},
        metadata={"content_references": references},
    )
    assert whole.pairs[0][1] == "Rain falls here, in Lyon and see [the list](https://example.org)."


def test_a_reference_without_a_mark_changes_nothing() -> None:
    references = [{"matched_text": " ", "alt": "X"}, {"matched_text": "", "alt": "Y"}]
    whole = told(
        "assistant",
        content={"content_type": "text", "parts": ["a b \ue200cite\ue202t\ue201"]},
        metadata={"content_references": references},
    )
    assert whole.pairs[0][1] == "a b"


def test_one_conversation_alone_and_one_without_an_id() -> None:
    whole = read_bytes(FORMAT, export(node("a", None, "user", "q"), current="a")[1:-1])
    assert whole.pairs == [("q", "")]
    nameless = export(node("a", None, "user", "q"), current="a", conversation_id=None)
    assert len(read_bytes(FORMAT, nameless).sessions[0].session_id) == 16


@pytest.mark.parametrize("value", [7, "text", [], {}, {"mapping": 7}, {"mapping": {"a": 7, "b": {"message": []}}}])
def test_elements_of_another_shape_are_counted_or_empty(value: Any) -> None:
    whole = read_bytes(FORMAT, json.dumps([value, {"mapping": {"a": node("a", None, "user", "q")}}]).encode())
    assert whole.pairs == [("q", "")]


def test_a_large_export_leaves_no_text_in_the_state() -> None:
    conversations = [
        {"conversation_id": f"c{number}", "mapping": {"a": node("a", None, "user", "many words " * 500)}}
        for number in range(20)
    ]
    parser = FORMAT.open("x", str)
    result = parser.feed(json.dumps(conversations).encode())
    assert len(result.exchanges) == 20
    assert b"many words" not in parser.snapshot()
    assert len(parser.snapshot()) < 20 * 400


@pytest.mark.parametrize(
    ("head", "is_ours"),
    [
        (b'[{"title": "x", "create_time": 1, "mapping": {"a": {"id": "a", "message": null, "par', True),
        (b'{"title": "x", "mapping": {"a": {"id": "a", "parent": null, "message": {}}}}', True),
        (b'\xef\xbb\xbf[{"mapping": {}, "title": "x"}, {"mapping": {"a": {"parent": null}}}]', True),
        (b'[{"title": "x", "mapping": {"a": 1}}]', False),
        (b'[{"title": "x", "mapping": []}]', False),
        (b'{"mappings": {"a": {"parent": null}}}', False),
        (b'[{"uuid": "x", "chat_messages": []}]', False),
        (b'{"email": "sam@example.org", "phone_number": "1"}', False),
        (b"[]", False),
        (b"", False),
    ],
)
def test_sniffing(head: bytes, is_ours: bool) -> None:
    assert FORMAT.sniff(head) is is_ours


@pytest.mark.parametrize(
    ("path", "may_hold"),
    [
        ("/home/kim/export.zip!/conversations.json", True),
        ("C:\\export\\conversations-000.json", True),
        ("/home/kim/export/user.json", False),
        ("/home/kim/export/shared_conversations.json", False),
        ("/home/kim/export/message_feedback.json", False),
        ("/home/kim/.config/any.json", False),
    ],
)
def test_names(path: str, may_hold: bool) -> None:
    assert FORMAT.may_hold(path) is may_hold


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_no_directory_is_watched(platform: str) -> None:
    assert FORMAT.default_dirs({"HOME": "/home/kim"}, "/home/kim", platform) == ()
