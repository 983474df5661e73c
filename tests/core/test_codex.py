"""Codex rollouts: each prompt and reply once, turns, forks, sub-agents, and the older shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.codex.format import CodexFormat
from palace_daemon.core.transcripts.codex.threads import time_of_uuid7
from palace_daemon.core.transcripts.codex.words import is_context, request_of, tool_target
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.model import Exchange, ParseResult

DATA = Path(__file__).parents[1] / "data" / "transcripts" / "codex"
FORMAT = CodexFormat()
THREAD = "019d07d4-9ab8-7bc3-839c-10dee1297842"
MAIN = DATA / f"rollout-2026-03-19T13-41-07-{THREAD}.jsonl"
FORK = DATA / "rollout-2026-03-20T00-00-00-019d0a00-0000-7bc3-839c-10dee1290001.jsonl"
SUBAGENT = DATA / "rollout-2026-03-20T05-00-00-019d0b00-0000-7bc3-839c-10dee1290002.jsonl"
EXEC = DATA / "rollout-2026-03-20T09-00-00-019d0c00-0000-7bc3-839c-10dee1290003.jsonl"


def turn_key(number: int, suffix: str = "") -> str:
    return f"codex:{THREAD}:019d07d4-b4{number:02x}-7aa9-aa3b-b1306f27e869{suffix}"


def read(path: Path) -> ParseResult:
    return FORMAT.open(str(path), str).feed(path.read_bytes())


def parse(*lines: dict[str, Any], name: str = "r.jsonl") -> list[Exchange]:
    body = "".join(json.dumps(line) + "\n" for line in lines)
    return list(FORMAT.open(name, str).feed(body.encode()).exchanges)


def line(envelope: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-03-19T20:41:00Z", "type": envelope, "payload": payload}


def item(role: str, text: str) -> dict[str, Any]:
    return line("response_item", type="message", role=role, content=[{"type": "input_text", "text": text}])


def event(name: str, **fields: Any) -> dict[str, Any]:
    return line("event_msg", type=name, **fields)


def ask(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return item("user", text), event("user_message", message=text)


META = line("session_meta", id=THREAD, cwd="/w", source="cli")


def test_the_main_path() -> None:
    result = read(MAIN)
    first, reset, remark, wrong, right = result.exchanges
    assert (first.key, first.session_id, first.user_text) == (turn_key(1), THREAD, "Why is station 12 skipped?")
    assert first.reply_text == "I'll look at the job table.\n\nOk\n\nOk\n\nIts row says attempts = 4."
    assert first.reply_text[first.reply_final_start :] == "Its row says attempts = 4."
    assert [(tool.name, tool.target) for tool in first.tools] == [
        ("exec_command", "sqlite3 jobs.db 'select 1'"),
        ("apply_patch", "src/jobs.py"),
        ("local_shell", "make test"),
    ]
    assert [(one.kind, one.name) for one in first.attachments] == [("image", "/tmp/shot.png")]
    assert (first.cwd, first.branch, first.agent_version, first.model) == (
        "/home/kim/atlas",
        "main",
        "0.142.0",
        "gpt-5.2-codex",
    )
    assert (first.status, first.started_at) == ("complete", to_epoch_ms("2026-03-19T20:41:07Z"))
    # The prompt that an abort made the program write again is one exchange, under its first turn.
    assert (reset.key, reset.user_text, reset.reply_text, reset.status) == (
        turn_key(2),
        "Reset it.",
        "Reset.",
        "complete",
    )
    assert len(reset.user_record_ids) == 2
    assert (remark.key, remark.user_text, remark.reply_text) == (turn_key(3, ":2"), "and log it", "Logged.")
    assert (wrong.is_superseded, right.is_superseded, right.status) == (True, False, "error")
    assert result.superseded_keys == (turn_key(4),)
    (facts,) = result.sessions
    assert (facts.relation, facts.is_automated, facts.entrypoint) == ("none", False, "codex_cli_rs")
    assert result.lines_skipped == {
        "turn_start": 5,
        "injected_context": 2,
        "repeated_prompt": 5,
        "thinking": 1,
        "tool_result": 1,
        "token_count": 1,
        "compacted": 1,
    }


def test_a_fork_gives_the_turns_of_its_parent_the_parents_keys() -> None:
    result = read(FORK)
    original = read(MAIN).exchanges[0]
    inherited, own = result.exchanges
    assert (inherited.key, inherited.session_id) == (original.key, THREAD)
    assert inherited.reply_text == original.reply_text
    assert own.user_text == "A question of the fork"
    assert own.session_id == "019d0a00-0000-7bc3-839c-10dee1290001"
    facts = {one.session_id: one for one in result.sessions}[own.session_id]
    assert (facts.relation, facts.parent_session_id) == ("fork", THREAD)


def test_a_sub_agent_holds_no_words_of_a_person() -> None:
    result = read(SUBAGENT)
    (told,) = result.exchanges
    assert told.user_kind == "automated"
    assert told.user_text.endswith("Count the stations.")
    assert told.reply_text == "There are 41."
    assert told.session_id == f"{THREAD}/019d0b00-0000-7bc3-839c-10dee1290002"
    (facts,) = result.sessions
    assert (facts.relation, facts.parent_session_id, facts.is_automated) == ("subagent", THREAD, True)


def test_history_below_the_start_ordinal_of_a_sub_agent_is_its_parents() -> None:
    meta = line(
        "session_meta",
        id="child",
        source={"subagent": {"thread_spawn": {"parent_thread_id": "parent"}}},
        subagent_history_start_ordinal=3,
    )
    old = [dict(one, ordinal=number) for number, one in enumerate(ask("asked by a person"), 1)]
    inherited, task = parse(meta, *old, dict(item("user", "task"), ordinal=3), name="c.jsonl")
    assert (inherited.session_id, inherited.user_kind) == ("parent", "prompt")
    assert (task.session_id, task.user_kind) == ("parent/child", "automated")
    assert parse(line("session_meta", id="parent"), *ask("asked by a person"))[0].key == inherited.key


def test_items_stand_in_where_there_are_no_events() -> None:
    result = read(EXEC)
    assert [(one.user_text, one.reply_text) for one in result.exchanges] == [
        ("print the version", "1.4.2"),
        ("<environment_context> is what?", "Context."),
        ("no answer yet", ""),
    ]
    assert result.sessions[0].is_automated is True


def test_a_prompt_that_only_an_item_holds_is_not_lost_beside_events() -> None:
    told = parse(
        META,
        event("user_message", message="with event"),
        item("user", "with event"),
        item("assistant", "one"),
        item("user", "without event"),
        item("assistant", "two"),
        item("user", "odd context"),
        *ask("with both"),
        event("agent_message", message="three"),
    )
    assert [(one.user_text, one.reply_text) for one in told] == [
        ("with event", "one"),
        ("without event", "two"),
        ("with both", "three"),
    ]


def test_after_a_prompt_that_lost_its_event_the_next_ones_are_told_once() -> None:
    told = parse(
        META, item("user", "first"), item("assistant", "a"), *ask("second"), item("assistant", "b"), *ask("third")
    )
    assert [one.user_text for one in told] == ["first", "second", "third"]


def test_the_same_words_said_again_after_the_agent_spoke_are_a_prompt_of_their_own() -> None:
    told = parse(META, item("user", "go on"), item("assistant", "a"), item("user", "go on"), item("assistant", "b"),
                 event("user_message", message="go on"))  # fmt: skip
    assert [one.user_text for one in told] == ["go on", "go on", "go on"]


def test_a_prompt_typed_while_the_agent_works_is_queued() -> None:
    def begin(turn_id: str) -> dict[str, Any]:
        return line("turn_context", turn_id=turn_id, cwd="/w")

    told = parse(
        *(META, begin("t1"), *ask("Build it."), event("agent_message", message="I do."), *ask("with debug symbols")),
        *(event("agent_message", message="Built."), event("task_complete"), *ask("Thanks."), event("turn_aborted")),
        *(begin("t2"), *ask("Test it."), event("agent_message", message="I test."), *ask("only the parser")),
    )
    assert [(one.user_kind, one.user_text) for one in told] == [
        ("prompt", "Build it."),
        ("queued", "with debug symbols"),
        ("prompt", "Thanks."),
        ("prompt", "Test it."),
        ("queued", "only the parser"),
    ]


def test_the_final_text_of_a_turn_is_taken_where_nothing_else_holds_it() -> None:
    (told,) = parse(META, *ask("q"), event("task_complete", last_agent_message="the answer"))
    assert (told.reply_text, told.status) == ("the answer", "complete")


def test_only_the_first_session_meta_counts() -> None:
    (told,) = parse(META, line("session_meta", id="copy", cwd="/elsewhere"), *ask("q"))
    assert (told.session_id, told.cwd) == (THREAD, "/w")


def test_the_directory_of_a_turn_is_its_own() -> None:
    first, second = parse(
        META,
        *ask("a"),
        line("turn_context", cwd="/one", model="m1"),
        event("agent_message", message="x"),
        line("turn_context", cwd="/two", model="m2"),
        *ask("b"),
    )
    assert (first.cwd, first.model, second.cwd, second.model) == ("/one", "m1", "/two", "m2")


def test_a_name_that_a_person_gave_is_the_title() -> None:
    body = "".join(json.dumps(one) + "\n" for one in (META, event("thread_name_updated", thread_name="Stations")))
    assert FORMAT.open("r.jsonl", str).feed(body.encode()).sessions[0].title == "Stations"


def test_lines_without_an_envelope() -> None:
    result = read(DATA / "rollout-2025-06-01-old.jsonl")
    (told,) = result.exchanges
    assert (told.user_text, told.reply_text, told.branch) == ("list the jobs", "Two jobs: a and b.", "trunk")
    assert (told.session_id, told.tools[0].target) == ("0ld00000-aaaa", "ls jobs")


def test_bare_logs() -> None:
    first, second = read(DATA / "bare.jsonl").exchanges
    assert (first.user_text, first.reply_text, first.session_id) == ("capital of Peru?", "Lima.", "bare")
    assert (first.started_at, first.ended_at) == (1757498400000, 1757498405000)
    assert (second.user_text, second.reply_text) == ("and of Chile?", "Santiago.")
    assert second.started_at == to_epoch_ms("2025-09-10T08:01:00Z")


def test_user_events_of_another_kind_are_context() -> None:
    told = parse(META, event("user_message", message="rules", kind="user_instructions"), *ask("q"))
    assert [one.user_text for one in told] == ["q"]


def test_torn_and_joined_lines_cost_only_themselves() -> None:
    result = read(DATA / "odd.jsonl")
    assert [(one.user_text, one.reply_text) for one in result.exchanges] == [("first", "one"), ("second", "two")]
    assert result.exchanges[0].flags == ("recovered",)
    assert result.lines_skipped["recovered_fragment"] == 1
    assert result.lines_skipped["malformed"] == 1


def test_a_waiting_item_is_redacted_in_the_state() -> None:
    parser = FORMAT.open("r.jsonl", lambda text: text.replace("hunter2", "[secret]"))
    parser.feed("".join(json.dumps(one) + "\n" for one in (META, item("user", "my hunter2"))).encode())
    assert b"hunter2" not in parser.snapshot()
    result = parser.feed(json.dumps(item("assistant", "x")).encode() + b"\n")
    assert (result.exchanges[0].user_text, result.exchanges[0].flags) == ("my [secret]", ("redacted",))


@pytest.mark.parametrize(
    ("text", "is_plumbing"),
    [
        ("<environment_context>\n</environment_context>", True),
        ("# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\na\n</INSTRUCTIONS>", True),
        ("<skill>a</skill>\n<recommended_plugins>b</recommended_plugins>", True),
        ("<permissions instructions>\na\n</permissions instructions>", True),
        ("<environment_context> is what?", False),
        ("# AGENTS.md instructions are wrong, fix them", False),
        ("<skill>a</skill> does not work", False),
        ("plain", False),
    ],
)
def test_context_is_recognised_only_when_it_is_all_there_is(text: str, is_plumbing: bool) -> None:
    assert is_context(text) is is_plumbing


def test_many_context_blocks_take_linear_time() -> None:
    assert is_context("<skill></skill>" * 20_000 + "x") is False


@pytest.mark.parametrize(
    ("text", "request_text"),
    [
        ("# Context from my IDE setup:\n\nx\n\n## My request for Codex:\nwhy?\n\nand how?\n", "why?\n\nand how?"),
        ("# Files mentioned by the user:\n\n## a.py\n\n## My request for Codex:\ngo\n", "go"),
        ("# Context from my IDE setup: what is it?", "# Context from my IDE setup: what is it?"),
        ("what does\n## My request for Codex:\nmean?", "what does\n## My request for Codex:\nmean?"),
        ("\ufeffplain ", "plain "),
    ],
)
def test_the_request_below_an_editors_context(text: str, request_text: str) -> None:
    assert request_of(text) == request_text


@pytest.mark.parametrize(
    ("payload", "target"),
    [
        ({"arguments": '{"command":["bash","-lc","ls -la\\npwd"]}'}, "ls -la"),
        ({"arguments": '{"command":["git","status"]}'}, "git status"),
        ({"arguments": {"path": "/a/b"}}, "/a/b"),
        ({"arguments": "{broken"}, ""),
        ({"arguments": "status"}, "status"),
        ({"action": {"query": "sea level"}}, "sea level"),
        ({}, ""),
    ],
)
def test_tool_targets(payload: dict[str, Any], target: str) -> None:
    assert tool_target(payload) == target


def test_the_time_inside_a_turn_id() -> None:
    assert time_of_uuid7(THREAD) == to_epoch_ms("2026-03-19T20:41:07.000Z")
    assert time_of_uuid7("5e551000-0000-4000-8000-000000000001") is None
    assert time_of_uuid7("turn-1") is None


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        ({}, "linux", ("/home/kim/.codex/sessions", "/home/kim/.codex/archived_sessions")),
        (
            {"CODEX_HOME": "/a,/b"},
            "linux",
            ("/a/sessions", "/a/archived_sessions", "/b/sessions", "/b/archived_sessions"),
        ),
        (
            {"USERPROFILE": "C:\\Users\\kim"},
            "win32",
            ("C:\\Users\\kim\\.codex\\sessions", "C:\\Users\\kim\\.codex\\archived_sessions"),
        ),
    ],
)
def test_default_directories(environ: dict[str, str], platform: str, expected: tuple[str, ...]) -> None:
    assert FORMAT.default_dirs(environ, "/home/kim", platform) == expected


@pytest.mark.parametrize(
    ("name", "may_hold"),
    [
        ("rollout-x.jsonl", True),
        ("history.jsonl", False),
        ("session_index.jsonl", False),
        ("rollout-x.jsonl.zst", False),
    ],
)
def test_names(name: str, may_hold: bool) -> None:
    assert FORMAT.may_hold(f"/home/kim/.codex/sessions/2026/03/19/{name}") is may_hold


@pytest.mark.parametrize("path", sorted(DATA.glob("*.jsonl")), ids=lambda path: path.name)
def test_samples_are_recognised_by_content(path: Path) -> None:
    found = registry.detect("somewhere/else.txt", path.read_bytes()[: registry.HEAD_BYTES])
    assert found is not None
    assert found.agent == "codex"


@pytest.mark.parametrize(
    ("head", "is_ours"),
    [
        (b'{"record_type":"state"}\n', True),
        (b'{"id":"x","timestamp":"2025-06-01T00:00:00Z","instructions":null,"git":{}}\n', True),
        (b'{"timestamp":"t","type":"session_meta","payload":{"id":"x","base_instructions":"' + b"y" * 70_000, True),
        (b'{"session_id":"s","ts":1,"text":"x"}\n', False),  # prompt history
        (b'{"role":"user","message":{"content":[]}}\n', False),  # Cursor
        (b'{"type":"user","sessionId":"s","timestamp":"t","message":{"content":"x"}}\n', False),
        (b'{"type":"thread.started","thread_id":"x"}\n', False),  # another grammar
        (b"", False),
    ],
)
def test_sniffing(head: bytes, is_ours: bool) -> None:
    assert FORMAT.sniff(head[: registry.HEAD_BYTES]) is is_ours
