"""VS Code Copilot Chat as a mutation log: replay, edits, damage."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from support.document_formats import Nearby, claims_outside, document
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes, read_file
from support.line_formats import assert_no_damage_raises, head_of, needs_samples
from support.mutators import MUTATORS

from palace_daemon.core.redaction import redact
from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.vscode_chat.format import VsCodeChatFormat
from palace_daemon.core.transcripts.vscode_chat.log import VsCodeChatLogFormat
from palace_daemon.model import ToolUse

LOG = VsCodeChatLogFormat()
FOLDER = Path(__file__).parents[2] / "data" / "transcripts" / "vscode-copilot-chat" / "workspaceStorage" / "0a1b2c"
SAMPLE = FOLDER / "chatSessions" / "6f1e0c1a-7b1d-4c55-9a61-2f6a3a1f0b01.jsonl"
PATH = "/home/sam/.config/Code/User/workspaceStorage/0a1b/chatSessions/s1.jsonl"
ID = "request_00000000-0000-4000-8000-00000000000{}"


def request(number: int, text: str, reply: str = "", **more: Any) -> dict[str, Any]:
    parts = [{"value": reply}] if reply else []
    return {
        "requestId": ID.format(number),
        "message": {"text": text},
        "response": parts,
        "timestamp": 1_770_000_000_000,
    } | more


def initial(*requests: Any, **more: Any) -> dict[str, Any]:
    return {"kind": 0, "v": {"version": 3, "sessionId": "s1", "requests": list(requests), **more}}


def put(path: list[Any], value: Any) -> dict[str, Any]:
    return {"kind": 1, "k": path, "v": value}


def push(path: list[Any], *values: Any, cut: int | None = None) -> dict[str, Any]:
    return {"kind": 2, "k": path, "v": list(values)} | ({} if cut is None else {"i": cut})


def lines(*entries: Any) -> bytes:
    return b"".join(document(entry) + b"\n" for entry in entries)


def read(*entries: Any) -> Whole:
    data = lines(*entries)
    assert_cuts_do_not_matter(LOG, data, PATH)
    return read_bytes(LOG, data, PATH)


def test_a_log_is_replayed_and_an_edited_prompt_superseded() -> None:
    whole = read_file(LOG, SAMPLE)
    first, edited, last = whole.exchanges
    assert first.user_text == "Why does the tide table start at noon?"
    assert first.reply_text == "Let me look at table.py.\n\nIt starts at noon because `START` is 12."
    assert first.reply_text[first.reply_final_start :] == "It starts at noon because `START` is 12."
    assert first.tools == (ToolUse(name="copilot_readFile", target="/home/sam/tides/table.py"),)
    assert (first.status, first.started_at, first.ended_at) == ("complete", 1770000010000, 1770000014200)
    assert (first.model, first.agent_version, first.cwd) == ("copilot/gpt-5", "0.40.0", "/home/sam/tides and moons")
    assert (first.line_start, first.line_end) == (2, 7)
    assert (edited.user_text, edited.reply_text, edited.is_superseded) == (
        "Make it start at six",
        "Changed to 6.",
        True,
    )
    assert (last.user_text, last.reply_text, last.status) == (
        "Make it start at midnight",
        "Changed to 0.",
        "interrupted",
    )
    assert not last.is_superseded
    assert whole.superseded_keys == (edited.key,)
    [told] = whole.sessions
    assert (told.title, told.cwd, told.session_id) == (
        "Tide table start",
        "/home/sam/tides and moons",
        "6f1e0c1a-7b1d-4c55-9a61-2f6a3a1f0b01",
    )
    assert whole.lines_skipped == {"thinking": 1}
    assert whole.is_whole


def test_the_sample_may_arrive_in_any_cuts() -> None:
    assert_cuts_do_not_matter(LOG, SAMPLE.read_bytes(), str(SAMPLE))


def test_following_the_log_live_ends_as_reading_it_once_does() -> None:
    data = SAMPLE.read_bytes()
    ends = [index + 1 for index, byte in enumerate(data) if byte == 10]
    superseded: set[str] = set()
    for end in ends:
        whole = read_bytes(LOG, data[:end], str(SAMPLE))
        superseded |= set(whole.superseded_keys)
    assert superseded == set(read_bytes(LOG, data, str(SAMPLE)).superseded_keys)


def test_the_document_of_the_same_session_has_the_same_keys() -> None:
    state = {"version": 3, "responderUsername": "x", "sessionId": "s1"}
    requests = [request(1, "Q", "A"), request(2, "R", "B")]
    log = read(initial(*requests))
    flat = read_bytes(VsCodeChatFormat(), document({**state, "requests": requests}), PATH.removesuffix("l"))
    assert [one.key for one in log.exchanges] == [one.key for one in flat.exchanges]
    assert log.sessions[0].session_id == flat.sessions[0].session_id
    assert log.pairs == flat.pairs


def test_an_edit_of_an_earlier_prompt_removes_all_that_came_after() -> None:
    whole = read(
        initial(request(1, "One", "1"), request(2, "Two", "2"), request(3, "Three", "3")),
        push(["requests"], request(4, "Two again", "2a"), request(5, "Four", "4"), cut=1),
        push(["requests"], request(6, "One again", "1a"), cut=0),
    )
    assert whole.pairs == [("One again", "1a")]
    assert [one.user_text for one in whole.exchanges] == ["One", "Two", "Three", "Two again", "Four", "One again"]


def test_removing_without_a_successor_supersedes_too() -> None:
    whole = read(initial(request(1, "One", "1"), request(2, "Two", "2")), push(["requests"], cut=1))
    assert whole.pairs == [("One", "1")]
    assert whole.superseded_keys == (f"copilot-chat:{ID.format(2)}",)


def test_a_removed_prompt_without_words_takes_nobody_with_it() -> None:
    whole = read(initial(request(1, "One", "1"), request(2, "")), push(["requests"], request(3, "Two"), cut=1))
    assert whole.pairs == [("One", "1"), ("Two", "")]
    assert whole.superseded_keys == ()


def test_a_request_that_comes_back_stands_again() -> None:
    whole = read(
        initial(request(1, "One", "1"), request(2, "Two", "2")),
        push(["requests"], cut=1),
        push(["requests"], request(2, "Two", "2"), request(3, "Three", "3")),
    )
    assert whole.pairs == [("One", "1"), ("Two", "2"), ("Three", "3")]
    assert whole.superseded_keys == ()


def test_setting_one_request_or_the_whole_list_is_followed() -> None:
    whole = read(
        initial(request(1, "One", "1"), request(2, "Two", "2")),
        put(["requests", 1], request(3, "Other", "3")),
        put(["requests"], [request(1, "One", "1 and more"), request(4, "Last", "4")]),
    )
    assert whole.pairs == [("One", "1 and more"), ("Last", "4")]
    assert {one.user_text for one in whole.exchanges if one.is_superseded} == {"Two", "Other"}


def test_a_log_that_was_written_anew_is_one_line() -> None:
    whole = read(initial(request(1, "One", "1"), customTitle="Short"))
    assert whole.pairs == [("One", "1")]
    assert whole.sessions[0].title == "Short"
    assert whole.is_whole


def test_a_notice_may_be_marked_as_such_later() -> None:
    whole = read(
        initial(request(1, "Go", "Going.")),
        push(["requests"], request(2, "Terminal exited", "Good.")),
        put(["requests", 1, "isSystemInitiated"], value=True),
    )
    assert whole.pairs == [("Go", "Going."), ("", "Good.")]


def test_words_that_wait_to_be_sent_are_queued() -> None:
    waiting = {"id": ID.format(2), "request": request(2, "And then the moons"), "kind": "queued"}
    whole = read(initial(request(1, "Go", "Going.", modelState={"value": 1})), push(["pendingRequests"], waiting, 3))
    assert [(one.user_text, one.user_kind) for one in whole.exchanges] == [
        ("Go", "prompt"),
        ("And then the moons", "queued"),
    ]
    assert whole.lines_skipped == {"unknown_shape": 1}
    sent = read(initial(request(1, "Go", "Going."), request(2, "And then the moons")))
    assert sent.exchanges[1].key == whole.exchanges[1].key


def test_a_damaged_log_that_begins_with_a_change_keeps_what_it_can() -> None:
    whole = read(
        put(["hasPendingEdits"], value=False),
        put(["requests", 4, "result"], {}),
        push(["requests", 4, "response"], {"value": "lost"}),
        push(["requests"], request(1, "One", "1")),
    )
    assert whole.pairs == [("One", "1")]
    assert whole.lines_skipped == {"broken_patch": 2}
    assert not whole.is_whole
    assert whole.sessions[0].session_id == "s1"
    assert LOG.sniff(lines(put(["hasPendingEdits"], value=False)))


@pytest.mark.parametrize(
    "entry",
    [
        put([], {"requests": []}),
        put(["requests", -1], {}),
        put(["requests", 9], {}),
        put(["requests", True, "x"], 1),
        put(["version", "x"], 1),
        push(["requests"], cut=-1),
        {"kind": 2, "k": ["requests"], "v": 3},
        {"kind": 2, "k": ["sessionId"], "v": [1]},
        {"kind": 2, "k": ["requests"], "i": "1"},
        {"kind": 3, "k": ["requests", 5]},
        {"kind": 1, "k": "requests", "v": []},
        {"kind": 1, "k": [["requests"]], "v": []},
        {"kind": 0, "v": []},
        {"kind": 9, "k": ["requests"]},
        {"kind": None, "k": ["requests"], "v": []},
    ],
)
def test_a_change_that_fits_nothing_is_counted_and_changes_nothing(entry: dict[str, Any]) -> None:
    whole = read(initial(request(1, "One", "1")), entry)
    assert whole.pairs == [("One", "1")]
    assert sum(whole.lines_skipped.values()) == 1
    assert set(whole.lines_skipped) <= {"broken_patch", "unknown_kind"}


def test_deleting_a_field_or_a_request_is_followed() -> None:
    whole = read(
        initial(request(1, "One", "1"), request(2, "Two", "2"), customTitle="T"),
        {"kind": 3, "k": ["customTitle"]},
        {"kind": 3, "k": ["requests", 1]},
    )
    assert whole.pairs == [("One", "1")]
    assert whole.sessions[0].title == ""


def test_broken_lines_are_counted_with_their_place_and_the_rest_is_read() -> None:
    data = lines(initial(request(1, "One", "1"))) + b"{broken\n\n" + lines(push(["requests"], request(2, "Two", "2")))
    parser = LOG.open(PATH, redact)
    parser.feed(data)
    result = parser.finish()
    assert [(one.line, one.reason) for one in result.problems] == [(2, "malformed")]
    assert result.lines_skipped == {"malformed": 1, "empty": 1}
    assert result.lines_read == 4
    assert [one.user_text for one in result.exchanges] == ["One", "Two"]


def test_two_entries_on_one_line_are_both_applied() -> None:
    data = document(initial(request(1, "One", "1"))) + document(push(["requests"], request(2, "Two", "2"))) + b"\n"
    whole = read_bytes(LOG, data, PATH)
    assert whole.pairs == [("One", "1"), ("Two", "2")]


def test_half_a_line_is_held_back_and_the_log_is_not_whole() -> None:
    data = lines(initial(request(1, "One", "1")), push(["requests"], request(2, "Two", "2")))
    parser = LOG.open(PATH, redact)
    parser.feed(data[:-9])
    assert [one.user_text for one in parser.finish().exchanges] == ["One"]
    assert not parser.is_whole
    assert parser.offset == data.index(b"\n") + 1
    whole_line = LOG.open(PATH, redact)
    whole_line.feed(data[:-1])
    whole_line.take_tail()
    assert [one.user_text for one in whole_line.finish().exchanges] == ["One", "Two"]
    assert whole_line.is_whole


def test_a_log_that_was_read_to_its_end_is_read_anew() -> None:
    parser = LOG.open(PATH, redact)
    assert parser.feed(lines(initial())).exchanges == ()
    assert parser.offset == 0
    LOG.open(PATH, redact, parser.snapshot())
    parser.finish()
    with pytest.raises(ValueError, match="read to its end"):
        LOG.open(PATH, redact, parser.snapshot())


def test_the_state_of_a_parser_holds_no_words() -> None:
    parser = LOG.open(PATH, redact)
    parser.feed(SAMPLE.read_bytes())
    assert b"noon" not in parser.snapshot()


def test_a_lone_surrogate_becomes_a_replacement_character() -> None:
    data = json.dumps(initial(request(1, "Half \ud83d of it", "ok"))).encode() + b"\n"
    [one] = read_bytes(LOG, data, PATH).exchanges
    assert one.user_text == "Half \ufffd of it"
    assert "lossy_unicode" in one.flags


def test_the_project_of_a_window_without_folder_may_be_in_the_log() -> None:
    whole = read(initial(request(1, "Q"), workingDirectory="file:///home/sam/agents", repoData={"localBranch": "main"}))
    assert (whole.sessions[0].cwd, whole.sessions[0].branch) == ("/home/sam/agents", "main")


def test_recognised_by_content() -> None:
    assert LOG.sniff(head_of(SAMPLE))
    assert registry.detect(str(SAMPLE), head_of(SAMPLE)) is registry.by_name(LOG.name)
    assert registry.detect("/tmp/moved.jsonl", head_of(SAMPLE)) is registry.by_name(LOG.name)
    long_state = document(initial(request(1, "x" * 90_000)))
    assert LOG.sniff(long_state[: registry.HEAD_BYTES])
    assert [known.name for known in registry.formats() if known.sniff(head_of(SAMPLE))] == [LOG.name]


@pytest.mark.parametrize(
    "entry",
    [
        {"kind": 0, "v": {"requests": []}},
        {"kind": 0, "v": []},
        {"kind": 1, "k": ["cells", 0], "v": 1},
        {"kind": True, "k": ["requests"], "v": 1},
        {"kind": "user", "k": ["requests"]},
        {"type": "user", "sessionId": "x"},
        [1],
    ],
)
def test_other_lines_are_not_taken(entry: object) -> None:
    assert not LOG.sniff(document(entry) + b"\n")


@pytest.mark.parametrize("known", [pytest.param(LOG, marks=needs_samples)])
def test_nobody_elses_transcript_is_taken(known: VsCodeChatLogFormat) -> None:
    assert claims_outside(known) == []


def test_names_and_directories() -> None:
    assert LOG.may_hold(PATH)
    assert LOG.may_hold("/u/globalStorage/emptyWindowChatSessions/x.jsonl")
    assert not LOG.may_hold(PATH.removesuffix("l"))
    assert not LOG.may_hold("/u/workspaceStorage/a/GitHub.copilot-chat/transcripts/x.jsonl")
    assert LOG.default_dirs({}, "/home/sam", "linux") == VsCodeChatFormat().default_dirs({}, "/home/sam", "linux")


def test_damage_does_not_raise() -> None:
    data = SAMPLE.read_bytes()
    assert_no_damage_raises(LOG, data, str(SAMPLE))
    for name, mutate in MUTATORS.items():
        for seed in range(10):
            damaged = mutate(data, random.Random(seed))
            whole = read_bytes(LOG, damaged, PATH, Nearby({}))
            assert all((one.user_text + one.reply_text).encode() for one in whole.exchanges), (name, seed)
