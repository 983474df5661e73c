"""Cursor's agent transcripts in lines: whose words, which turn, which conversation and which project."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes, read_file

from palace_daemon.core.drafts import fallback_key
from palace_daemon.core.transcripts.cursor.lines import CursorLinesFormat
from palace_daemon.core.transcripts.cursor.query import read_query, reply_of

DATA = Path(__file__).parents[2] / "data" / "transcripts"
SHARED = Path(__file__).parents[4] / "shared" / "transcripts"
shared = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real transcripts are not at {SHARED}"),
]

LINES = CursorLinesFormat()
MAIN = DATA / "cursor" / "5e551000-0000-4000-8000-000000000201.jsonl"
SESSION = "5e551000-0000-4000-8000-000000000201"
PROJECT = "/home/sam/.cursor/projects/home-sam-tide-pool"
AT_13_11 = 1784628660000
"""21 July 2026, 10:11 UTC."""


def line(role: str, *blocks: Any) -> dict[str, Any]:
    told = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    return {"role": role, "message": {"content": told}}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "name": name, "input": arguments}


def read(*records: Any, path: str = f"{PROJECT}/agent-transcripts/c1/c1.jsonl", beside: Any = None) -> Whole:
    data = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    near = beside or Beside({})
    assert_cuts_do_not_matter(LINES, data, path, near)
    return read_bytes(LINES, data, path, near)


class Beside:
    """Files that are only named."""

    def __init__(self, files: dict[str, str]) -> None:
        self._files = files

    def read(self, path: str) -> bytes | None:
        return self._files[path].encode() if path in self._files else None

    def names(self, directory: str) -> tuple[str, ...]:
        return ()


# ------------------------------------------------------------------------------------------------------- real samples

REAL: dict[str, tuple[list[tuple[str, int, int]], dict[str, int]]] = {
    # name -> (user text, length of the reply, number of tools) of each exchange, what was skipped
    "agent-transcripts/cursor-malformed-session/cursor-malformed-session.jsonl": (
        [("This valid line should import.", 0, 0)],
        {"malformed": 1},
    ),
    "agent-transcripts/cursor-native-session-1/cursor-native-session-1.jsonl": (
        [("Create cursor-native-cli-oracle.txt with a short proof.", 27, 1)],
        {"tool_result": 1},
    ),
    "claude-mem-cursor-session.jsonl": (
        [("please list the files in src/", 24, 0), ("thanks, also tell me what you found", 46, 1)],
        {},
    ),
    "jazzyalex-subagent-session.jsonl": (
        [("Run ls -la in the workspace directory and return the output.", 35, 1)],
        {},
    ),
    "jazzyalex-test-session.jsonl": (
        [("run ls command", 177, 1), ("now show me the git status", 49, 1)],
        {"thinking": 1},
    ),
    "vibereplay-cursor-session.jsonl": (
        [
            ("Fix the login bug in auth.ts", 284, 0),
            ("Can you also add input validation?", 95, 0),
            ("Now add rate limiting", 60, 0),
        ],
        {},
    ),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=shared) for name in REAL])
def test_a_real_sample_gives_its_exchanges(name: str) -> None:
    exchanges, skipped = REAL[name]
    path = SHARED / "cursor" / name
    found = read_file(LINES, path)
    assert [(one.user_text, len(one.reply_text), len(one.tools)) for one in found.exchanges] == exchanges
    assert found.lines_skipped == skipped
    assert {one.session_id for one in found.exchanges} == {path.stem}
    assert_cuts_do_not_matter(LINES, path.read_bytes(), str(path))


@pytest.mark.parametrize(
    "name", [pytest.param("agent-transcripts/cursor-native-session-1/cursor-native-session-1.jsonl", marks=shared)]
)
def test_a_sample_with_times_has_them(name: str) -> None:
    one = read_file(LINES, SHARED / "cursor" / name).exchanges[0]
    assert (one.started_at, one.ended_at, one.time_quality) == (1782302400000, 1782302403000, "exact")
    assert one.status == "complete"
    assert (one.tools[0].name, one.tools[0].target) == ("write_file", "cursor-native-cli-oracle.txt")


def every_sample() -> list[Any]:
    files = sorted(path for path in SHARED.rglob("*") if path.is_file()) if SHARED.is_dir() else []
    own = sorted(path for path in DATA.rglob("*") if path.is_file())
    return [
        *(pytest.param(path, id=str(path.relative_to(SHARED)), marks=pytest.mark.shared) for path in files),
        *(pytest.param(path, id=str(path.relative_to(DATA))) for path in own),
    ]


@pytest.mark.parametrize("path", every_sample())
def test_only_cursors_own_lines_are_recognised(path: Path) -> None:
    is_ours = "cursor" in path.parts and path.suffix == ".jsonl"
    assert LINES.sniff(path.read_bytes()[: 64 * 1024]) is is_ours


# ---------------------------------------------------------------------------------------------------- the main session


def test_a_session_with_context_a_notice_and_an_abort() -> None:
    found = read_file(LINES, MAIN)
    assert [(one.user_text, one.reply_text, one.status) for one in found.exchanges] == [
        (
            "Why is the reef map empty?",
            "I look at the loader.\n\nThe layer is never added.\n\nThe check passed, too.",
            "complete",
        ),
        ("Add it then", "Adding it.", "interrupted"),
        ("What does the <user_query> tag mean in a transcript?", "It holds what you asked.", "open"),
    ]
    assert found.lines_skipped == {"thinking": 2, "notification": 1, "empty": 1, "injected_context": 1}
    first = found.exchanges[0]
    assert [(one.kind, one.name) for one in first.attachments] == [("image", "/home/sam/shots/reef.png")]
    assert (first.started_at, first.time_quality) == (AT_13_11, "turn")
    assert (found.exchanges[1].started_at, found.exchanges[1].time_quality) == (None, "none")
    assert [one.key for one in found.exchanges] == [
        fallback_key("cursor", SESSION, index, one.user_text) for index, one in enumerate(found.exchanges)
    ]


def test_cuts_of_the_main_session_do_not_matter() -> None:
    assert_cuts_do_not_matter(LINES, MAIN.read_bytes(), str(MAIN))


# --------------------------------------------------------------------------------------------------------- whose words


@pytest.mark.parametrize(
    ("text", "expected", "reason"),
    [
        ("<user_query>\nDo it\n</user_query>", "Do it", ""),
        ("<rules>\n<user_query>no</user_query>\n</rules>\n<user_query>yes</user_query>", "yes", ""),
        ("<some_new_tag>x</some_new_tag>\n<user_query>\nyes\n</user_query>", "yes", ""),
        ("<user_query>\nyes\n</user_query>\n<system_reminder>no</system_reminder>", "yes", ""),
        ("<user_query>\none\n</user_query>\n<user_query>\ntwo\n</user_query>", "one\n\ntwo", ""),
        (
            "<user_query>\nwhat closes with </user_query> here?\n</user_query>",
            "what closes with </user_query> here?",
            "",
        ),
        ("<user_query>\nnever closed", "never closed", ""),
        ("plain words", "plain words", ""),
        ("a <user_query> inside a line", "a <user_query> inside a line", ""),
        ("<div>\nis this valid?\n</div>", "<div>\nis this valid?\n</div>", ""),
        ("<system_reminder> is a tag", "<system_reminder> is a tag", ""),
        ("<user_info>\nOS\n</user_info>", "", "injected_context"),
        ("<timestamp>now</timestamp>\n<system_notification>\ndone\n</system_notification>", "", "notification"),
        ("<user_query>\n \n</user_query>", "", "empty"),
        ("  ", "", "empty"),
        ("<cursor_commands>\n--- Cursor Command: go ---\ntext\n--- End Command ---\ndo it", "do it", ""),
        (
            "<cursor_commands>\n--- Cursor Command: go ---\nt\n--- End Command ---\n</cursor_commands>\ndo it",
            "do it",
            "",
        ),
        ("\ufeff<user_query>yes</user_query>", "yes", ""),
        ("[Image]\nWhat is it?", "What is it?", ""),
        (
            "<rules>\nNever use var.\n</rules>\nApply these to src/",
            "<rules>\nNever use var.\n</rules>\nApply these to src/",
            "",
        ),
        ("Apply these:\n<rules>\nx\n</rules>", "Apply these:\n<rules>\nx\n</rules>", ""),
        ("<rules>\nNever use var.\n</rules>", "<rules>\nNever use var.\n</rules>", ""),
    ],
)
def test_the_words_of_a_prompt(text: str, expected: str, reason: str) -> None:
    query = read_query(text)
    assert (query.text, query.reason) == (expected, reason)


def test_what_is_cut_around_a_query_and_from_a_reply_is_counted() -> None:
    found = read(
        line("user", "<rules>\nx\n</rules>\n<user_query>\nDo it\n</user_query>"),
        line("assistant", "<think>hm</think>Done."),
        line("user", "<user_query>\nAgain\n</user_query>"),
    )
    assert found.pairs == [("Do it", "Done."), ("Again", "")]
    assert found.lines_skipped == {"injected_context": 1, "thinking": 1}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Tuesday, Jul 21, 2026, 1:11 PM (UTC+3)", AT_13_11),
        ("Tuesday, Jul 21, 2026, 1:11\u202fPM (UTC+3)", AT_13_11),
        ("Tuesday, Jul 21, 2026, 3:41 PM (UTC+5:30)", AT_13_11),
        ("Tuesday, July 21, 2026, 10:11 AM (UTC)", AT_13_11),
        ("Jul 21, 2026, 10:11 (UTC+0)", AT_13_11),
        ("Tuesday, Jul 21, 2026, 12:11 AM (UTC-10)", AT_13_11),
        ("2026-07-21T10:11:00Z", AT_13_11),
        ("Tuesday, Jul 21, 2026, 1:11 PM", None),
        ("Tuesday, Jux 21, 2026, 1:11 PM (UTC+3)", None),
        ("Tuesday, Jul 99, 2026, 1:11 PM (UTC+3)", None),
        ("today", None),
    ],
)
def test_the_time_of_a_prompt(written: str, expected: int | None) -> None:
    query = read_query(f"<timestamp>{written}</timestamp>\n<user_query>\nDo it\n</user_query>")
    assert (query.text, query.at) == ("Do it", expected)
    zones = {"UTC+3": 180, "UTC+5:30": 330, "UTC-10": -600, "UTC": 0, "UTC+0": 0}
    assert expected is None or query.zone == zones.get(written.partition("(")[2][:-1])


def test_a_time_inside_the_words_is_not_that_of_the_words() -> None:
    assert read_query("<user_query>\n<timestamp>2026-07-21T10:11:00Z</timestamp> is what?\n</user_query>").at is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[REDACTED]", ""),
        ("Done.\n\n[REDACTED]", "Done."),
        ("Done.\n[REDACTED]\n\n[REDACTED]\n", "Done."),
        ("The key is [REDACTED]", "The key is [REDACTED]"),
        ("[REDACTED]\nDone.", "[REDACTED]\nDone."),
        ("<think>hidden</think>Done.", "Done."),
        ("<think> is a tag", "<think> is a tag"),
        ("<think>a</think>\n<think>b</think>\nDone.", "Done."),
        ("It opens with `<think>` and ends with `</think>`.", "It opens with `<think>` and ends with `</think>`."),
    ],
)
def test_the_words_of_a_reply(text: str, expected: str) -> None:
    assert reply_of(text).strip() == expected


def test_an_empty_query_opens_no_turn_as_in_the_databases() -> None:
    found = read(
        line("user", "One."),
        line("assistant", "1"),
        line("user", "<user_query>\n\n</user_query>"),
        line("assistant", "2"),
    )
    assert found.pairs == [("One.", "1\n\n2")]


def test_images_and_results_in_a_user_line() -> None:
    image = {"type": "image", "source": {"data": "AAAA"}}
    result = {"type": "tool_result", "content": "output that nobody typed"}
    found = read(line("user", image), line("assistant", "A reef."), line("user", result), line("assistant", "Done."))
    assert found.pairs == [("", "A reef.\n\nDone.")]
    assert found.exchanges[0].attachments[0].size_bytes == 3
    assert found.lines_skipped == {"tool_result": 1}


def test_blocks_that_are_no_words_are_counted() -> None:
    found = read(
        line("user", "One."),
        line("assistant", {"type": "redacted"}, {"type": "thinking", "thinking": "x"}, {"type": "Odd Thing"}, "1"),
        {"type": "something_new"},
        {"role": "system", "message": {"content": "x"}},
    )
    assert found.pairs == [("One.", "1")]
    assert found.lines_skipped == {
        "thinking": 2,
        "block_odd_thing": 1,
        "unknown_type:something_new": 1,
        "unknown_type:system": 1,
    }


@pytest.mark.parametrize(
    ("mark", "status"),
    [
        ({"type": "turn_ended", "status": "success"}, "complete"),
        ({"type": "turn_ended", "status": "aborted"}, "interrupted"),
        ({"type": "turn_ended", "status": "error"}, "error"),
        ({"event": "turn_ended", "message": {"content": []}}, "complete"),
    ],
)
def test_the_mark_at_a_turns_end_tells_its_status(mark: dict[str, Any], status: str) -> None:
    assert read(line("user", "One."), line("assistant", "1"), mark).exchanges[0].status == status


def test_the_same_words_twice_are_two_turns() -> None:
    found = read(*[line("user", "continue"), line("assistant", "ok")] * 3)
    assert found.pairs == [("continue", "ok")] * 3
    assert len({one.key for one in found.exchanges}) == 3


# ------------------------------------------------------------------------------------------------ session and project


@pytest.mark.parametrize(
    ("path", "session", "parent"),
    [
        (f"{PROJECT}/agent-transcripts/c1/c1.jsonl", "c1", ""),
        (f"{PROJECT}/agent-transcripts/c1.jsonl", "c1", ""),
        (f"{PROJECT}/agent-transcripts/c1/subagents/s1.jsonl", "c1/s1", "c1"),
        (f"{PROJECT}/agent-transcripts/c1/subagents/s1/s1.jsonl", "c1/s1", "c1"),
        ("C:\\Users\\sam\\.cursor\\projects\\p\\agent-transcripts\\c1\\subagents\\s1.jsonl", "c1/s1", "c1"),
    ],
)
def test_the_place_names_the_conversation_and_its_parent(path: str, session: str, parent: str) -> None:
    found = read(line("user", "One."), path=path)
    told = found.sessions[0]
    assert (told.session_id, told.parent_session_id) == (session, parent)
    assert (told.relation, found.exchanges[0].user_kind) == (
        ("subagent", "automated") if parent else ("none", "prompt")
    )


def test_a_sub_agent_without_a_parent_is_a_sub_agent() -> None:
    told = read(line("user", "One."), path=f"{PROJECT}/agent-transcripts/subagents/s1.jsonl").sessions[0]
    assert (told.session_id, told.parent_session_id, told.relation) == ("s1", "", "subagent")


def test_the_trusted_directory_is_the_project() -> None:
    beside = Beside({f"{PROJECT}/.workspace-trusted": '{"trustedAt":"x","workspacePath":"/home/sam/tide-pool"}'})
    found = read(line("user", "One."), beside=beside)
    assert found.sessions[0].cwd == found.exchanges[0].cwd == "/home/sam/tide-pool"


@pytest.mark.parametrize("told", ["", "no json", "[]", '{"workspacePath": 3}'])
def test_a_folders_name_alone_is_no_directory(told: str) -> None:
    found = read(line("user", "One."), beside=Beside({f"{PROJECT}/.workspace-trusted": told}))
    assert found.sessions[0].cwd == found.exchanges[0].cwd == ""


def test_a_path_that_the_agent_worked_on_shows_the_directory() -> None:
    found = read(
        line("user", "One."),
        line("assistant", "1", call("Read", path="/home/sam/other/x.ts"), call("Read", path="src/y.ts")),
        line("user", "Two."),
        line("assistant", call("Read", path="/home/sam/tide-pool/src/map.ts"), "2"),
        line("user", "Three."),
    )
    assert [one.cwd for one in found.exchanges] == ["", "/home/sam/tide-pool", "/home/sam/tide-pool"]
    assert found.sessions[0].cwd == "/home/sam/tide-pool"


def test_a_directory_on_windows_is_shown_too() -> None:
    path = "C:\\Users\\sam\\.cursor\\projects\\c-Users-sam-tide-pool\\agent-transcripts\\c1\\c1.jsonl"
    used = call("Read", path="c:\\Users\\sam\\tide-pool\\src\\map.ts")
    assert read(line("user", "One."), line("assistant", used), path=path).sessions[0].cwd == "c:\\Users\\sam\\tide-pool"


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        ({}, "linux", "/home/sam/.cursor/projects"),
        ({}, "darwin", "/home/sam/.cursor/projects"),
        ({"CURSOR_DATA_DIR": "/data/c"}, "linux", "/data/c/projects"),
        ({"USERPROFILE": "C:\\Users\\sam"}, "win32", "C:\\Users\\sam\\.cursor\\projects"),
    ],
)
def test_default_directories(environ: dict[str, str], platform: str, expected: str) -> None:
    assert LINES.default_dirs(environ, "/home/sam", platform) == (expected,)


def test_which_paths_may_hold_lines() -> None:
    assert LINES.may_hold(f"{PROJECT}/agent-transcripts/c1/c1.jsonl")
    assert not LINES.may_hold(f"{PROJECT}/mcp-cache.json")


# ---------------------------------------------------------------------------------------------------------- damage


def test_a_first_line_that_is_longer_than_the_head_is_recognised() -> None:
    head = json.dumps(line("user", "x" * 100_000)).encode()[: 64 * 1024]
    assert LINES.sniff(head)
    assert not LINES.sniff(b'{"role":"user","content":"' + b"x" * 100)


@pytest.mark.parametrize(
    "record",
    [
        {"role": "user", "content": "x"},
        {"type": "message", "role": "user", "message": {"content": "x"}},
        {"role": ["user"], "message": {"content": "x"}},
        {"role": "user", "message": "x"},
        {"type": "user", "message": {"role": "user", "content": "x"}, "sessionId": "s"},
    ],
)
def test_other_grammars_are_not_recognised(record: dict[str, Any]) -> None:
    assert not LINES.sniff(json.dumps(record).encode() + b"\n")


ODD: list[Any] = [None, 3, "x", [], {}, [3, None], [{"type": 3}], [{"type": "text", "text": 3}], [{"type": "image"}]]


@pytest.mark.parametrize("role", ["user", "assistant", 3, None, ["user"]])
def test_fields_of_any_type_never_raise(role: Any) -> None:
    for odd in ODD:
        assert read({"role": role, "message": odd}, {"role": role, "message": {"content": odd}}, {"type": odd}).is_whole


@pytest.mark.parametrize("seed", range(12))
def test_garbage_never_raises(seed: int) -> None:
    chance = random.Random(seed)
    data = MAIN.read_bytes()
    for _ in range(9):
        broken = bytearray(data)
        for _ in range(chance.randrange(1, 30)):
            place = chance.randrange(len(broken))
            broken[place : place + chance.randrange(4)] = bytes(chance.choices(b'{}[]",:0\\n<>\xff\x00', k=2))
        assert read_bytes(LINES, bytes(broken), str(MAIN)).is_whole


@pytest.mark.parametrize(
    "text",
    [
        "a" + "<rules>x</rules>" * 20_000,
        "<rules><user_info>" * 20_000 + "</rules>",
        "</user_query>\n<user_query>" * 20_000,
        "--- Cursor Command: x\n" * 20_000,
        "[REDACTED]\n" * 20_000,
        "<think>" * 20_000,
        "\n" * 200_000 + "x",
    ],
    ids=["closed", "open", "queries", "commands", "hidden", "thoughts", "blank"],
)
def test_hostile_texts_take_linear_time(text: str) -> None:
    assert len(read_query(text).text) <= len(text)  # seconds if it were quadratic, and minutes for all
    assert len(reply_of(text)) <= len(text)
