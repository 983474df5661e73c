"""Cline's model history: a person's words that speak of its tags, and a model's text that quotes calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.document_formats import Nearby, document
from support.formats import Whole, read_bytes, read_file
from support.line_formats import SHARED, head_of

from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.base import NOTHING_BESIDE
from palace_daemon.core.transcripts.cline.history_words import words_in_output, words_of
from palace_daemon.core.transcripts.cline.spoken import reply_of
from palace_daemon.core.transcripts.cline.tasks import TASK_FORMATS

_, CLINE, ROO, _ = TASK_FORMATS
FOLDER = "/home/sam/.config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/77"
UI, HISTORY = f"{FOLDER}/ui_messages.json", f"{FOLDER}/api_conversation_history.json"
TASKS = "/home/sam/.config/Code/User/globalStorage/saoudrizwan.claude-dev/state/taskHistory.json"

SHARED_ONLY = pytest.mark.skipif(not SHARED.is_dir(), reason="the real transcripts are absent")


def say(kind: str, text: str, side: str = "say") -> dict[str, Any]:
    return {"ts": 1_770_100_000_000, "type": side, side: kind, "text": text}


def read(path: str, *messages: Any, beside: Beside = NOTHING_BESIDE) -> Whole:
    return read_bytes(CLINE, document(list(messages)), path, beside)


# ------------------------------------------------------------------------------------------------- a person's words


def test_words_that_speak_of_tags_and_results_stay() -> None:
    text = "Why is there '] Result:' and <feedback> in my log?"
    assert [words.text for words in words_of(text)] == [text]
    assert words_in_output("The user cannot log in") == []
    assert [words.text for words in words_of("The user cannot log in")] == ["The user cannot log in"]
    assert [words.text for words in words_of("<task>\nsee <answer>x</answer> and </task> there\n</task>")] == [
        "see <answer>x</answer> and </task> there"
    ]


def test_tags_in_the_models_prose_are_prose() -> None:
    text = "Use `<read_file>` here:\n\n```xml\n<path>x</path>\n```\nand <result>"
    assert [piece.text for piece in reply_of(text)] == [text]
    torn = (
        "Running.\n\n<execute_command>\n<command>git log\n\n[Response interrupted by a tool use result. Only one tool.]"
    )
    assert [(piece.text, piece.call) for piece in reply_of(torn)] == [("Running.", ""), ("", "execute_command")]


INNER = "The XML <{0}>inner</{0}> element is dropped by my parser, fix it please"


@pytest.mark.parametrize("tag", ["task", "user_message", "feedback", "answer"])
@pytest.mark.parametrize("words", [INNER, "Escape </{0}> in the log", "see\n<{0}>\nthis\n</{0}>\nand that"])
def test_words_end_at_the_last_closing_tag_of_their_wrapper(tag: str, words: str) -> None:
    typed = words.format(tag)
    assert [one.text for one in words_of(f"<{tag}>\n{typed}\n</{tag}>")] == [typed]
    behind = f"<{tag}>\n{typed}\n</{tag}>\n\n<file_content path='a'>\n1\n</file_content>"
    assert [one.text for one in words_of(behind)] == [typed]
    resumed = f"[TASK RESUMPTION] It was interrupted.\n\nNew instructions:\n<{tag}>\n{typed}\n</{tag}>"
    assert [one.text for one in words_of(resumed)] == [typed]
    asked = f"[ask_followup_question for 'x'] Result:\n\n<{tag}>\n{typed}\n</{tag}>"
    assert [one.text for one in words_in_output(asked)] == [typed]


def test_a_remark_ends_at_its_last_tag_and_one_before_output_at_its_own_line() -> None:
    typed = "not </feedback> there"
    denied = f"The user denied this operation and said:\n<feedback>\n{typed}\n</feedback>"
    assert words_in_output(denied) == [(typed, "rejection")]
    approved = f"The user approved this operation and said:\n<feedback>\n{typed}\n</feedback>\n1 | </feedback>\n"
    assert words_in_output(approved) == [(typed, "prompt")]


def test_two_wrappers_that_follow_each_other_are_two_remarks() -> None:
    text = "<feedback>\na\n</feedback>\n\n<feedback>\nb\n</feedback>\n<answer>\nc\n</answer>"
    assert [one.text for one in words_of(text)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "text",
    [
        "<task>inner</task> is dropped by my parser, why?",
        "my parser drops this:\n<answer>\n42\n</answer>\nwhy?",
        "<task>\nnever closed",
    ],
)
def test_words_that_the_program_did_not_wrap_are_kept_whole(text: str) -> None:
    assert [one.text for one in words_of(text)] == [text]


def test_a_sentence_of_the_program_before_a_wrapper_is_no_words() -> None:
    text = "You seem to be stuck. The user said:\n<feedback>\nuse <b>\n</feedback>\n"
    assert [one.text for one in words_of(text)] == ["use <b>"]


# --------------------------------------------------------------------------------------------------- a model's text

QUOTED = "Write this:\n\n```xml\n<write_to_file>\n<path>a.py</path>\n</write_to_file>\n```\n\nThen go on."


def test_a_call_in_a_code_fence_is_prose() -> None:
    assert reply_of(QUOTED) == [(QUOTED, "", "", False)]
    thought = "So it reasons:\n```\n<thinking>\nhm\n</thinking>\n```\nand answers."
    assert reply_of(thought) == [(thought, "", "", False)]


def test_a_call_that_ends_the_text_was_made_even_where_a_fence_stands_open_before_it() -> None:
    pieces = reply_of("Look:\n```\ncode\n\n<read_file>\n<path>a.py</path>\n</read_file>\n")
    assert [(piece.text, piece.call, piece.target) for piece in pieces] == [
        ("Look:\n```\ncode", "", ""),
        ("", "read_file", "a.py"),
    ]


@pytest.mark.parametrize(
    ("text", "said", "calls"),
    [
        ("The tag\n<write_to_file>\nopens a call. It takes a path.", None, []),
        ("A.\n<write_to_file>\n<path>a</path>\n<content>x</content>\n\nB.", "A.\n\nB.", ["write_to_file"]),
        ("A.\n<write_to_file>\n<path>a</path>\n<content>\ncut of", "A.", ["write_to_file"]),
        ("A.\n<load_mcp_documentation>\n</load_mcp_documentation>\nB.", "A.\n\nB.", ["load_mcp_documentation"]),
        ("A `<thinking>` tag and `</thinking>`.", None, []),
        ("<thinking>\nhm\n</thinking>\n\nA.", "A.", []),
        ("<thinking>\nnever closed", None, []),
        ("A [Response interrupted by x", None, []),
        ("A [Response interrupted by the user]\nB.", None, []),
        ("A.\n\n[Response interrupted by the user]\n", "A.", []),
    ],
)
def test_what_is_said_around_calls(text: str, said: str | None, calls: list[str]) -> None:
    pieces = reply_of(text)
    assert "\n\n".join(piece.text for piece in pieces if piece.text) == (text if said is None else said)
    assert [piece.call for piece in pieces if piece.call] == calls


def test_an_unclosed_result_is_said() -> None:
    assert [(one.text, one.call) for one in reply_of("<attempt_completion>\n<result>\nDone, but")] == [
        ("Done, but", "attempt_completion")
    ]


# ---------------------------------------------------------------------------------------------- what the person saw


@pytest.mark.parametrize("last", ["Done.", "Done.\n"])
def test_the_flag_of_a_result_is_no_words(last: str) -> None:
    whole = read(
        UI, say("text", "Go"), say("completion_result", f"{last}HAS_CHANGES"), say("completion_result", last, "ask")
    )
    assert whole.pairs == [("Go", last)]
    alone = read(UI, say("text", "Go"), say("text", "A."), say("completion_result", "HAS_CHANGES"))
    assert alone.pairs == [("Go", "A.")]
    assert alone.exchanges[0].status == "complete"


HISTORY_OF = [{"role": "user", "content": [{"type": "text", "text": "<task>\nAdd a tide\ncolumn\n</task>"}]}]


@pytest.mark.parametrize(
    ("files", "text", "pairs"),
    [
        ({}, "Anything", [("Anything", "")]),
        ({TASKS: [{"id": "77", "task": "Add a tide column"}]}, "Add a tide\ncolumn", [("Add a tide\ncolumn", "")]),
        ({TASKS: [{"id": "77", "task": "Add a tide column"}]}, "Added table.py", [("", "Added table.py")]),
        ({TASKS: [{"id": "76", "task": "Add a tide column"}]}, "Added table.py", [("Added table.py", "")]),
        ({f"{FOLDER}/history_item.json": {"task": "Add"}}, "Did it", [("", "Did it")]),
        ({HISTORY: HISTORY_OF}, "Add a tide column", [("Add a tide column", "")]),
        ({HISTORY: HISTORY_OF}, "Created table.py", [("", "Created table.py")]),
        ({HISTORY: HISTORY_OF}, "see @/tides.py", [("see @/tides.py", "")]),
        ({HISTORY: [{"role": "assistant", "content": "x"}]}, "Anything", [("Anything", "")]),
        ({HISTORY: b"[{broken"}, "Anything", [("Anything", "")]),
    ],
)
def test_the_first_text_is_the_task_where_the_files_beside_do_not_tell_another(
    files: dict[str, Any], text: str, pairs: list[tuple[str, str]]
) -> None:
    assert read(UI, say("text", text), beside=Nearby(files)).pairs == pairs


@SHARED_ONLY
@pytest.mark.shared
@pytest.mark.parametrize(
    ("path", "known"), [("cline/ctx/tasks/cline-task-1", CLINE), ("roo-code/ctx/roo-task-1", ROO)], ids=["cline", "roo"]
)
def test_in_the_samples_with_one_line_that_line_is_the_agents(path: str, known: Any) -> None:
    folder = SHARED / path
    assert [pair[0] for pair in read_file(known, folder / "ui_messages.json").pairs] == [""]
    history = read_file(known, folder / "api_conversation_history.json")
    prompt = json.loads((folder / "api_conversation_history.json").read_bytes())[0]["content"][0]["text"]
    assert history.exchanges[0].user_text == prompt


def test_a_history_in_the_extensions_own_folder_is_known_by_its_name() -> None:
    head = document([{"role": "user", "content": [{"type": "text", "text": "Plain words"}]}])
    assert registry.detect(HISTORY, head) is CLINE
    assert registry.detect(HISTORY.replace("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline"), head) is ROO
    assert registry.detect("/home/sam/notes/api_conversation_history.json", head) is None
    assert registry.detect(HISTORY, document([{"role": "system", "content": "x"}])) is None
    assert registry.detect(HISTORY.replace("api_conversation_history", "other"), head) is None


@pytest.mark.parametrize(
    ("ui", "is_read"),
    [
        ([], True),
        (b"{broken", True),
        ([say("api_req_started", "{}")], True),
        ([say("text", "Created table.py")], True),
        ([say("text", "Add a tide column")], False),
        ([say("tool", "{}", "ask"), say("user_feedback", "Stop")], False),
    ],
)
def test_the_history_is_read_where_the_other_file_holds_no_words_of_a_person(ui: Any, is_read: bool) -> None:
    whole = read(HISTORY, *HISTORY_OF, beside=Nearby({UI: ui, HISTORY: HISTORY_OF}))
    assert whole.pairs == ([("Add a tide\ncolumn", "")] if is_read else [])
    assert whole.lines_skipped == ({} if is_read else {"told_by:ui_messages": 1})


@SHARED_ONLY
@pytest.mark.shared
def test_every_sample_of_a_history_is_recognised() -> None:
    for path in sorted((SHARED / "roo-code").rglob("api_conversation_history.json")):
        assert registry.detect(str(path), head_of(path)) is ROO
