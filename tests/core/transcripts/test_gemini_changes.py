"""Gemini CLI sessions that change: messages written again, rewinds, a history that is written anew."""

from __future__ import annotations

import json

from support.formats import read_bytes
from support.gemini import HEADER, message, read

from palace_daemon.core.transcripts.gemini.format import GeminiDocumentFormat

# ------------------------------------------------------------------------------------------------- messages that change


def test_the_last_telling_of_a_reply_counts_at_its_first_place() -> None:
    found = read(
        message(1, "user", "Which?"),
        message(2, "gemini", "Perhaps the left one."),
        message(3, "gemini", "Or the right one."),
        message(2, "gemini", "The left one."),
    )
    assert found.pairs == [("Which?", "The left one.\n\nOr the right one.")]


def test_a_step_that_is_written_again_adds_its_new_tools_only() -> None:
    first = {"id": "t1", "name": "read_file", "args": {"file_path": "a.py"}}
    second = {"id": "t2", "name": "list_directory", "args": {"dir_path": "src"}}
    third = {"name": "web_fetch", "args": {"prompt": "look at example.org"}}
    found = read(
        message(1, "user", "Look."),
        message(2, "gemini", "", toolCalls=[first]),
        message(2, "gemini", "", toolCalls=[first, second]),
        message(2, "gemini", "Done.", toolCalls=[first, second, third]),
        message(2, "gemini", "Done.", toolCalls=[first, second, third]),
    )
    assert found.pairs == [("Look.", "Done.")]
    assert [tool.target for tool in found.exchanges[0].tools] == ["a.py", "src", "look at example.org"]


def test_a_call_that_stands_in_the_parts_alone_is_a_tool() -> None:
    call = {"functionCall": {"id": "t1", "name": "glob", "args": {"pattern": "*.py"}}}
    found = read(message(1, "user", "Look."), message(2, "gemini", [{"text": "Looking."}, call]))
    assert [(tool.name, tool.target) for tool in found.exchanges[0].tools] == [("glob", "*.py")]


def test_a_prompt_that_is_written_again_is_one_turn() -> None:
    found = read(message(1, "user", "Look."), message(2, "gemini", "Yes."), message(1, "user", "Look."))
    assert found.pairs == [("Look.", "Yes.")]
    assert found.lines_skipped == {"duplicate": 1}


def test_a_prompt_that_was_changed_before_the_reply_replaces_the_first() -> None:
    found = read(message(1, "user", "Lok."), message(1, "user", "Look."), message(2, "gemini", "Yes."))
    assert found.pairs == [("Look.", "Yes.")]
    assert [one.user_text for one in found.exchanges if one.is_superseded] == ["Lok."]


def test_a_document_that_holds_an_id_twice_tells_the_last_at_the_first_place() -> None:
    root = {**HEADER, "messages": [message(1, "user", "A?"), message(2, "gemini", "No."), message(2, "gemini", "Yes.")]}
    assert read_bytes(GeminiDocumentFormat(), json.dumps(root).encode()).pairs == [("A?", "Yes.")]


# ------------------------------------------------------------------------------------------------------------- rewinds


def test_a_rewind_supersedes_that_message_and_all_after_it() -> None:
    found = read(
        message(1, "user", "One."),
        message(2, "gemini", "1"),
        message(3, "user", "Two."),
        message(4, "gemini", "2"),
        message(5, "user", "Three."),
        {"$rewindTo": "m3"},
        message(6, "user", "Two, better."),
        message(7, "gemini", "2b"),
        {"$rewindTo": "m6"},
        message(8, "user", "Two, best."),
    )
    assert found.pairs == [("One.", "1"), ("Two, best.", "")]
    assert [one.user_text for one in found.exchanges if one.is_superseded] == ["Two.", "Three.", "Two, better."]


def test_turns_without_words_do_not_put_a_rewind_off() -> None:
    found = read(
        message(1, "user", "One."),
        message(2, "gemini", "1"),
        message(3, "user", "/help"),
        message(4, "user", '<palace-recall v="1">old</palace-recall>'),
        message(5, "user", "Two."),
        {"$rewindTo": "m3"},
    )
    assert found.pairs == [("One.", "1")]


def test_a_rewind_reaches_turns_that_are_no_longer_at_hand() -> None:
    turns = [message(number, "user", f"{number} " + "long words " * 400) for number in range(1, 40)]
    found = read(*turns, {"$rewindTo": "m3"})
    assert [one.user_text[:2].strip() for one in found.exchanges if not one.is_superseded] == ["1", "2"]


def test_a_rewind_to_nothing_known_does_nothing_and_is_counted() -> None:
    found = read(message(1, "user", "One."), {"$rewindTo": "m9"})
    assert found.pairs == [("One.", "")]
    assert found.lines_skipped == {"rewind_unknown": 1}


def test_a_reply_after_a_rewind_into_a_reply_is_not_lost() -> None:
    found = read(
        message(1, "user", "One."),
        message(2, "gemini", "1"),
        message(3, "user", "Two."),
        {"$rewindTo": "m2"},
        message(4, "gemini", "1b"),
    )
    assert found.pairs == [("One.", "1"), ("", "1b")]


def test_the_same_words_after_a_rewind_are_a_turn_of_their_own() -> None:
    found = read(message(1, "user", "Go on."), {"$rewindTo": "m1"}, message(2, "user", "Go on."))
    assert [one.is_superseded for one in found.exchanges] == [True, False]


# ------------------------------------------------------------------------------------------------------- a new history


def test_a_new_history_takes_nothing_back_and_adds_what_is_new() -> None:
    history = [
        message(20, "user", [{"text": "<state_snapshot>all of it</state_snapshot>"}]),
        message(21, "gemini", [{"text": "Got it."}]),
        message(3, "user", [{"text": "Two."}]),
        message(22, "gemini", [{"text": "2"}]),
        message(23, "gemini", [{"functionCall": {"name": "glob", "args": {}}}]),
        message(24, "user", [{"functionResponse": {"name": "glob"}}]),
        message(25, "user", [{"text": "Three, typed meanwhile."}]),
    ]
    found = read(
        message(1, "user", "One."),
        message(2, "gemini", "1"),
        message(3, "user", "Two."),
        message(4, "gemini", "2"),
        {"$set": {"messages": history}},
        message(5, "gemini", "3"),
    )
    assert found.pairs == [("One.", "1"), ("Two.", "2"), ("Three, typed meanwhile.", "3")]
    assert found.exchanges[1].tools == ()


def test_a_rewind_after_a_new_history_reaches_what_it_holds() -> None:
    history = [message(9, "user", "Two."), message(4, "gemini", "2")]  # the same words under another id
    found = read(
        message(1, "user", "One."),
        message(3, "user", "Two."),
        message(4, "gemini", "2"),
        {"$set": {"messages": history}},
        {"$rewindTo": "m9"},
    )
    assert found.pairs == [("One.", "")]


def test_a_title_that_comes_later_is_taken() -> None:
    found = read(
        message(1, "user", "One."), {"$set": {"summary": "First title"}}, {"$set": {"summary": "Second title"}}
    )
    assert found.sessions[0].title == "Second title"
