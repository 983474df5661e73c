"""Qwen Code: the parts of a message, words in unusual places, rewinds, and the likeness to Claude Code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.formats import assert_cuts_do_not_matter, read_bytes, read_file
from support.line_formats import SHARED, assert_claims_only, assert_no_damage_raises, lines, needs_samples, parse

from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.claude_code.format import ClaudeCodeFormat
from palace_daemon.core.transcripts.qwen_code.format import QwenCodeFormat
from palace_daemon.model import Attachment

FORMAT = QwenCodeFormat()
DATA = Path(__file__).parents[2] / "data" / "transcripts" / "qwen-code" / "chat.jsonl"
SAMPLES = SHARED / "qwen"


def uuid(number: int) -> str:
    return f"0a0b0170-0000-4000-8000-{number:012d}"


def record(kind: str, number: int, parts: list[Any] | None = None, *, parent: int | None = None, **fields: Any) -> Any:
    body: dict[str, Any] = {
        "uuid": uuid(number),
        "parentUuid": uuid(number - 1 if parent is None else parent) if number > 1 and parent != 0 else None,
        "sessionId": "5e551000-0000-4000-8000-000000000001",
        "timestamp": f"2026-05-01T08:00:{number % 60:02d}.000Z",
        "type": kind,
        "cwd": "/work/tides",
        "version": "0.21.13",
    }
    if parts is not None:
        body["message"] = {"role": "model" if kind == "assistant" else kind, "parts": parts}
    return body | fields


def user(number: int, text: str, **fields: Any) -> Any:
    return record("user", number, [{"text": text}], **fields)


def reply(number: int, text: str, **fields: Any) -> Any:
    return record("assistant", number, [{"text": text}], **fields)


def system(number: int, subtype: str, **fields: Any) -> Any:
    return record("system", number, subtype=subtype, **fields)


# ------------------------------------------------------------------------------------------------------ real samples


class TestSamples:
    pytestmark = needs_samples

    def test_only_its_samples_are_claimed(self) -> None:
        assert_claims_only(FORMAT, "qwen")

    @pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.jsonl")) or [SAMPLES], ids=lambda path: path.stem)
    def test_cuts_and_restarts_do_not_matter(self, path: Path) -> None:
        assert_cuts_do_not_matter(FORMAT, path.read_bytes(), str(path))

    @pytest.mark.parametrize(
        ("name", "pairs"),
        [
            ("splitrail-qwen_code", [("List the files here.", "Done.")]),
            ("ctx-qwen-session-1", [("qwen jsonl oracle prompt", "qwen jsonl oracle answer")]),
            (
                "jazzyalex-019f0000-0000-7000-8000-000000000001",
                [("Inspect the synthetic fixture.", "The synthetic fixture is valid.")],
            ),
            (
                "jazzyalex-019f0000-0000-7000-8000-000000000002",
                [("This record deliberately carries the wrong session ID.", "")],
            ),
            (
                "jazzyalex-019f0000-0000-7000-8000-000000000004",
                [("Continue from the rewound branch.", "Active branch answer.")],
            ),
            (
                "jazzyalex-019f0000-0000-7000-8000-000000000005",
                [('Inspect {"glued": "objects"} safely.', "Recovered both synthetic objects.")],
            ),
            ("jazzyalex-system_telemetry", [("", "[trimmed for fixture]\n\n[trimmed for fixture]")]),
        ],
    )
    def test_prompts_and_replies(self, name: str, pairs: list[tuple[str, str]]) -> None:
        assert read_file(FORMAT, SAMPLES / f"{name}.jsonl").pairs == pairs

    def test_a_rewound_branch(self) -> None:
        told = read_file(FORMAT, SAMPLES / "jazzyalex-019f0000-0000-7000-8000-000000000004.jsonl")
        left, taken = told.exchanges
        assert (left.user_text, left.is_superseded) == ("Begin the active-chain fixture.", True)
        assert (taken.user_kind, taken.model, taken.cwd) == (
            "queued",
            "synthetic-active-model",
            "/tmp/as-qwen-fixture/new-project",
        )
        assert [tool.target for tool in taken.tools] == ["/tmp/as-qwen-fixture/new-project/README.md"]
        assert told.sessions[0].title == "Active branch title"

    def test_two_records_on_one_line(self) -> None:
        told = read_file(FORMAT, SAMPLES / "jazzyalex-019f0000-0000-7000-8000-000000000005.jsonl")
        assert told.exchanges[0].flags == ("joined_line",)

    def test_the_records_session_counts_and_not_the_files(self) -> None:
        told = read_file(FORMAT, SAMPLES / "jazzyalex-019f0000-0000-7000-8000-000000000002.jsonl")
        assert told.exchanges[0].session_id == "019f0000-0000-7000-8000-000000000099"


# ------------------------------------------------------------------------------------------------------ the main road


def test_a_chat_with_all_that_occurs() -> None:
    told = read_file(FORMAT, DATA)
    assert told.pairs == [
        ("Why is @tides.csv empty?", "I will look at it.\n\nThe importer skips rows."),
        ("And the harbour?", "It is missing."),
        ("Use the second table instead.", "Changed."),
    ]
    assert [one.user_text for one in told.exchanges if one.is_superseded] == ["Drop the table."]
    first = told.exchanges[0]
    assert first.key == f"qwen-code:{uuid(3)}"
    assert first.attachments == (Attachment(kind="file", name="tides.csv"),)
    assert [(tool.name, tool.target) for tool in first.tools] == [("read_file", "/work/tides/importer.py")]
    assert (first.model, first.branch, first.agent_version) == ("model-q", "main", "0.21.13")
    assert told.exchanges[1].user_kind == "queued"
    (facts,) = told.sessions
    assert (facts.title, facts.cwd) == ("Tides", "/work/tides")
    assert {"ui_telemetry", "slash_command", "tool_result", "notification", "chat_compression"} <= set(
        told.lines_skipped
    )


def test_cuts_and_restarts_do_not_matter() -> None:
    assert_cuts_do_not_matter(FORMAT, DATA.read_bytes(), str(DATA))


def test_damage_never_raises() -> None:
    assert_no_damage_raises(FORMAT, DATA.read_bytes(), str(DATA))


def test_thoughts_are_no_reply() -> None:
    parts = [{"text": "Hm.", "thought": True}, {"text": "Yes.", "thought": False}]
    assert parse(FORMAT, user(1, "Well?"), record("assistant", 2, parts)).pairs == [("Well?", "Yes.")]
    only = parse(FORMAT, user(1, "Well?"), record("assistant", 2, parts[:1]))
    assert only.pairs == [("Well?", "")]
    assert only.lines_skipped == {"thinking": 1}


def test_context_of_hooks_is_not_taken() -> None:
    context = "<qwen:user-prompt-submit-context>\nfrom a hook\n</qwen:user-prompt-submit-context>"
    prompt = record("user", 1, [{"text": "Hello"}, {"text": context}])
    assert parse(FORMAT, prompt).pairs == [("Hello", "")]
    told = parse(FORMAT, record("user", 1, [{"text": context}]))
    assert told.pairs == []
    assert told.lines_skipped == {"injected_context": 1}


def test_a_prompt_about_such_context_is_kept() -> None:
    text = "What does <qwen:user-prompt-submit-context> mean?"
    assert parse(FORMAT, user(1, text)).pairs == [(text, "")]


def test_the_text_that_was_shown_counts_and_not_what_the_model_got() -> None:
    told = parse(FORMAT, user(1, "expanded", systemPayload={"displayText": "typed", "hookContext": "x"}))
    assert told.pairs == [("typed", "")]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, "prompt"),
        ({"provenance": "real_user"}, "prompt"),
        ({"provenance": "system"}, "automated"),
        ({"subtype": "mid_turn_user_message"}, "queued"),
        ({"subtype": "cron"}, "automated"),
    ],
)
def test_kinds_of_user_words(fields: dict[str, Any], kind: str) -> None:
    assert [one.user_kind for one in parse(FORMAT, user(1, "words", **fields)).exchanges] == [kind]


@pytest.mark.parametrize("subtype", ["notification", "goal_runtime"])
def test_notices_of_the_program_are_no_prompts(subtype: str) -> None:
    told = parse(FORMAT, user(1, "Go on."), user(2, "The worker is done.", subtype=subtype), reply(3, "Good."))
    assert told.pairs == [("Go on.", "Good.")]
    assert told.lines_skipped == {subtype: 1}


def test_images_are_named_and_not_kept() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}
    (one,) = parse(FORMAT, record("user", 1, [{"text": "Look"}, image])).exchanges
    assert one.attachments == (Attachment(kind="image", name="image/png", size_bytes=3),)


def test_a_message_written_in_two_records_under_one_id() -> None:
    told = parse(
        FORMAT,
        user(1, "Well?"),
        record("assistant", 2, [{"text": "Hm.", "thought": True}]),
        record("assistant", 2, [{"functionCall": {"id": "c", "name": "ls", "args": {"path": "/w"}}}, {"text": "Yes."}]),
    )
    assert told.pairs == [("Well?", "Yes.")]
    assert [(tool.name, tool.target) for tool in told.exchanges[0].tools] == [("ls", "/w")]


def test_records_written_again_are_read_once() -> None:
    records = [user(1, "Well?"), reply(2, "Yes."), system(3, "custom_title", systemPayload={"customTitle": "T"})]
    told = parse(FORMAT, *records, *records, records[2])
    assert told.pairs == [("Well?", "Yes.")]
    assert told.lines_skipped == {"duplicate": 4}


def test_the_last_title_wins_whoever_gave_it() -> None:
    titles = [("By hand", "manual"), ("By machine", "auto")]
    records = [
        system(number, "custom_title", systemPayload={"customTitle": title, "titleSource": source})
        for number, (title, source) in enumerate(titles, 2)
    ]
    assert parse(FORMAT, user(1, "hi"), *records).sessions[0].title == "By machine"


def test_a_background_agent_is_a_session_of_its_own() -> None:
    told = parse(FORMAT, user(1, "Count."), user(2, "Count files.", agentId="w1"), reply(3, "7", agentId="w1"))
    assert [(one.session_id.rpartition("/")[2], one.user_kind) for one in told.exchanges] == [
        ("5e551000-0000-4000-8000-000000000001", "prompt"),
        ("w1", "automated"),
    ]
    assert told.sessions[1].relation == "subagent"


# ------------------------------------------------------------------------------------------------------------ rewinds


def standing(*records: Any) -> list[tuple[str, bool]]:
    return [(one.user_text, not one.is_superseded) for one in parse(FORMAT, *records).exchanges]


TWO_TURNS = [user(1, "one"), reply(2, "first"), system(3, "ui_telemetry"), user(4, "two"), reply(5, "second")]


def test_a_rewind_supersedes_the_turns_after_the_record_that_it_follows() -> None:
    rewind = system(6, "rewind", parent=3, systemPayload={"truncatedCount": 2})
    assert standing(*TWO_TURNS, rewind) == [("one", True), ("two", False)]
    again = [user(7, "three"), reply(8, "third")]
    assert standing(*TWO_TURNS, rewind, *again) == [("one", True), ("two", False), ("three", True)]


def test_a_rewind_to_the_start_supersedes_all() -> None:
    rewind = system(6, "rewind", parent=0)
    assert rewind["parentUuid"] is None
    assert standing(*TWO_TURNS, rewind, user(7, "anew")) == [("one", False), ("two", False), ("anew", True)]


def test_a_rewind_to_a_prompt_takes_its_reply_and_so_the_exchange() -> None:
    assert standing(*TWO_TURNS, system(6, "rewind", parent=4)) == [("one", True), ("two", False)]
    assert standing(user(1, "one"), system(2, "rewind", parent=1)) == [("one", True)]


def test_a_rewind_to_an_unknown_record_supersedes_nothing() -> None:
    assert standing(*TWO_TURNS, system(6, "rewind", parent=77)) == [("one", True), ("two", True)]


def test_a_rewind_that_is_written_again_takes_no_later_turn() -> None:
    rewind = system(6, "rewind", parent=3)
    assert standing(*TWO_TURNS, rewind, user(7, "three"), rewind)[-1] == ("three", True)


def test_two_rewinds_one_after_the_other() -> None:
    records = [*TWO_TURNS, system(6, "rewind", parent=3), user(7, "three"), system(8, "rewind", parent=2)]
    assert standing(*records, user(9, "four")) == [("one", True), ("two", False), ("three", False), ("four", True)]


# ------------------------------------------------------------------------------------------------ whose file it is


@pytest.mark.parametrize(
    "data",
    [
        lines(user(1, "hi")),
        lines(system(1, "ui_telemetry", systemPayload={"uiEvent": {}}), user(2, "hi")),
        lines(user(1, "hi", message={"role": "user", "content": [{"type": "text", "text": "hi"}]}, model="m")),
        lines(user(1, "long " * 20_000)).replace(b": ", b":").replace(b", ", b",")[:60_000],
    ],
)
def test_claude_code_does_not_claim_such_a_file(data: bytes) -> None:
    head = data[: registry.HEAD_BYTES]
    assert FORMAT.sniff(head)
    assert not ClaudeCodeFormat().sniff(head)
    assert registry.detect("/home/sam/x.jsonl", head) is not None


@pytest.mark.parametrize(
    "record",
    [
        {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "hi"}},
        {"type": "system", "uuid": "u", "sessionId": "s", "subtype": "turn_duration", "content": "x"},
        {"type": "user", "uuid": "u", "sessionId": "s", "isSidechain": False, "message": {"role": "user", "parts": []}},
        {"type": "gemini", "id": "u", "sessionId": "s", "message": {"parts": []}},
    ],
)
def test_what_is_no_chat(record: dict[str, Any]) -> None:
    assert not FORMAT.sniff(lines(record))


def test_other_writers_type_their_parts() -> None:
    blocks = [{"type": "text", "text": "Yes."}, {"type": "tool_use", "id": "c", "name": "ls", "input": {"path": "/w"}}]
    told = parse(
        FORMAT,
        user(1, "", message={"role": "user", "content": "Well?"}),
        record("assistant", 2, message={"role": "assistant", "content": blocks}, model="m"),
    )
    assert told.pairs == [("Well?", "Yes.")]
    assert [(tool.name, tool.target) for tool in told.exchanges[0].tools] == [("ls", "/w")]


def test_the_files_name_stands_in_for_a_missing_session() -> None:
    told = read_bytes(FORMAT, lines(user(1, "hi", sessionId=None)), "/q/chats/abc.jsonl")
    assert told.exchanges[0].session_id == "abc"


def test_default_directories() -> None:
    assert FORMAT.default_dirs({}, "/home/sam", "linux") == ("/home/sam/.qwen/projects", "/home/sam/.qwen/tmp")
    assert FORMAT.default_dirs({}, "/Users/sam", "darwin") == ("/Users/sam/.qwen/projects", "/Users/sam/.qwen/tmp")
    windows = FORMAT.default_dirs({"USERPROFILE": "D:\\sam"}, "C:\\x", "win32")
    assert windows == ("D:\\sam\\.qwen\\projects", "D:\\sam\\.qwen\\tmp")
    assert FORMAT.default_dirs({"QWEN_RUNTIME_DIR": "/q"}, "/h", "linux") == ("/q/projects", "/q/tmp")


def test_which_names_can_hold_a_chat() -> None:
    assert FORMAT.may_hold("/h/.qwen/projects/-work-tides/chats/abc.jsonl")
    assert not FORMAT.may_hold("/h/.qwen/projects/-work-tides/chats/abc.json")
