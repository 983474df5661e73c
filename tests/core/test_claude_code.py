"""Claude Code transcripts: whose words are kept, how they are attributed, and what is passed over."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.claude_code.format import ClaudeCodeFormat
from palace_daemon.core.transcripts.claude_code.words import read_text, read_tool_result
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.model import Exchange, ParseResult, SessionFacts

DATA = Path(__file__).parents[1] / "data" / "transcripts" / "claude-code"
SESSION = "5e551000-0000-4000-8000-000000000001"
FORMAT = ClaudeCodeFormat()


def read(path: Path, redact: Callable[[str], str] = str) -> tuple[list[Exchange], ParseResult, dict[str, SessionFacts]]:
    """Parse a file whole, the tail included."""
    parser = FORMAT.open(str(path), redact)
    results = [parser.feed(path.read_bytes()), parser.take_tail()]
    exchanges = {one.ordinal: one for result in results for one in result.exchanges}
    sessions = {one.session_id: one for result in results for one in result.sessions}
    return [exchanges[ordinal] for ordinal in sorted(exchanges)], results[0], sessions


def words(name: str) -> list[tuple[str, str]]:
    return [(one.user_kind, one.user_text) for one in read(DATA / name)[0]]


def parse(*records: dict[str, Any], path: str = "s.jsonl") -> list[Exchange]:
    body = "".join(json.dumps(record) + "\n" for record in records)
    return list(FORMAT.open(path, str).feed(body.encode()).exchanges)


def test_a_plain_session() -> None:
    exchanges, result, sessions = read(DATA / "plain.jsonl")
    first, second, third, fourth = exchanges
    assert first.key == "claude-code:00000001-0000-4000-8000-000000000001"
    assert first.user_text == "Which port does the tile server listen on?"
    assert first.reply_text == "I'll look at the configuration.\n\nIt listens on **8093**.\n\n- set in `tiles.toml`"
    assert first.reply_text[first.reply_final_start :].startswith("It listens")
    assert [(tool.name, tool.target) for tool in first.tools] == [
        ("Read", "/home/kim/atlas/tiles.toml"),
        ("Bash", "ss -ltnp"),
    ]
    assert (first.status, first.model, first.branch, first.cwd) == (
        "complete",
        "claude-opus-4-6",
        "main",
        "/home/kim/atlas",
    )
    assert (first.started_at, first.time_quality) == (to_epoch_ms("2026-03-04T10:00:01.250Z"), "exact")
    assert (first.line_start, first.line_end) == (3, 11)
    assert (second.reply_text, second.status, second.branch) == ("Moving it to 8094.", "interrupted", "feature/port")
    assert (third.status, third.reply_text) == ("error", "")
    assert fourth.reply_text == "Done."
    assert list(sessions) == [SESSION]
    assert (sessions[SESSION].title, sessions[SESSION].agent_version) == ("Tile server port", "2.1.120")
    assert result.lines_skipped == {
        "snapshot": 1,
        "thinking": 1,
        "tool_result": 3,
        "progress": 1,
        "api_error": 1,
        "last_prompt": 1,
    }


def test_byte_ranges_point_at_the_records() -> None:
    body = (DATA / "plain.jsonl").read_bytes()
    for one in read(DATA / "plain.jsonl")[0]:
        piece = body[one.byte_start : one.byte_end]
        assert json.dumps(one.user_text).encode() in piece
        assert piece.count(b"\n") == one.line_end - one.line_start


def test_a_resumed_copy_has_the_keys_of_the_original() -> None:
    original, copy = read(DATA / "plain.jsonl")[0], read(DATA / "resumed-copy.jsonl")[0]
    assert [one.key for one in copy[:4]] == [one.key for one in original]
    assert [one.reply_text for one in copy[:4]] == [one.reply_text for one in original]
    assert copy[4].user_text == "Which port was it again?"


def test_words_typed_while_the_agent_works_are_kept_once() -> None:
    exchanges, _, _ = read(DATA / "queue.jsonl")
    assert [(one.user_kind, one.user_text) for one in exchanges] == [
        ("prompt", "Refactor the loader."),
        ("queued", "also keep the old flag working"),
        ("prompt", "this becomes a line"),
        ("prompt", "Now the writer."),
        ("queued", "newer form, words first"),
        ("queued", "newer form, attachment first"),
        ("queued", "with a picture"),
        ("queued", "typed just before the crash"),
        ("prompt", "Back again after the crash."),
    ]
    assert exchanges[1].reply_text == "I keep the old flag."
    assert exchanges[1].cwd == "/home/kim/atlas"
    assert exchanges[4].key.startswith("claude-code:queued-"), "opened before the attachment came"
    assert exchanges[5].key.startswith("claude-code:00000003-")
    assert [one.kind for one in exchanges[6].attachments] == ["image"]


def test_words_in_tool_results_are_kept_with_their_kind() -> None:
    exchanges, result, _ = read(DATA / "answers.jsonl")
    assert [(one.user_kind, one.user_text) for one in exchanges] == [
        ("prompt", "Set up the release job."),
        ("rejection", "use the existing job instead\n\nit is in .ci/run"),
        ("rejection", "don't push yet"),
        ("answer", "Which channel?\nstable\nbeta comes later\n\nSign it?\nyes, with the old key"),
        ("plan_handoff", "# Plan\n1. tag\n2. announce"),
    ]
    assert exchanges[1].reply_text == "I'll use the existing job."
    assert exchanges[-1].status == "interrupted"
    assert result.lines_skipped == {"canned_rejection": 1, "tool_result": 2}


def test_answers_on_a_line_with_two_records_are_read_from_their_text() -> None:
    text = 'User has answered your questions: "A?"="b". You can now continue with the user\'s answers in mind.'
    result = {
        "type": "user",
        "sessionId": "s",
        "message": {"content": [{"type": "tool_result", "content": [{"type": "text", "text": text}]}]},
    }
    body = json.dumps({"type": "user", "sessionId": "s", "message": "q"}) + json.dumps(result) + "\n"
    _, told = FORMAT.open("s.jsonl", str).feed(body.encode()).exchanges
    assert (told.user_kind, told.user_text) == ("answer", '"A?"="b"')


def test_only_plumbing_is_dropped_from_user_text() -> None:
    exchanges, result, _ = read(DATA / "blocks.jsonl")
    assert [(one.user_kind, one.user_text) for one in exchanges] == [
        ("prompt", "prompt in the same string"),
        ("prompt", "prompt in its own block"),
        ("prompt", "<system-reminder> shows up in my transcript, why?"),
        ("prompt", "Explain `<command-name>/x</command-name>` and </system-reminder> to me"),
        ("prompt", "<bash-stdout>a</bash-stdout> what does this output mean?"),
        ("prompt", "Caveat: The messages below are mine, all of them."),
        ("slash_args", "only  the\nloader"),
        ("slash_args", ""),
        ("shell", "git status"),
        ("plan_handoff", "Implement the following plan:\n\n# Plan"),
        ("prompt", "look at this"),
        ("prompt", 'what is <palace-recall v="1"> for?'),
        ("slash_args", "port work"),
        ("prompt", "a message that is a bare string"),
        ("prompt", "a bare string in a list"),
    ]
    assert [one.reply_text for one in exchanges if one.reply_text] == [
        "Reviewed.",
        "Committed.",
        "Implemented.",
        "Your notes say:\nso 8094.",
    ]
    assert [(one.kind, one.size_bytes) for one in exchanges[10].attachments] == [("image", 18)]
    assert [(one.kind, one.name) for one in exchanges[11].attachments] == [("file", "/home/kim/atlas/notes.md")]
    assert result.lines_skipped == {
        "command_caveat": 1,
        "meta": 1,
        "slash_without_args": 2,
        "command_output": 2,
        "compact_summary": 2,
        "recall_block": 1,
        "empty": 2,
        "injected_context": 1,
        "unknown_type:wonder_type": 1,
    }


CAVEAT = (
    "Caveat: The messages below were generated by the user while running local commands. DO NOT respond to these"
    " messages or otherwise consider them in your response unless the user explicitly asks you to."
)
SUMMARY = (
    "This session is being continued from a previous conversation that ran out of context. The summary below covers the"
    " earlier portion of the conversation.\n\nAnalysis:\nWe chose Redis.\nPlease continue the conversation from where"
    " we left it off without asking the user any further questions."
)
FROM_ELSEWHERE = (
    "This session is being continued from a previous conversation that I had with Gemini: we chose Redis. Now migrate."
)
SKILL_QUESTION = "Base directory for this skill: /home/kim/skills/x\n\nis this the right place?"
SELECTION = (
    "<ide_selection>The user selected the lines 1 to 2 from x.py:\n{}\n\nThis may or may not be related to the current"
    " task.</ide_selection>"
)


@pytest.mark.parametrize(
    ("text", "kept", "reason"),
    [
        ("<system-reminder>a\n\nb</system-reminder>", "", "injected_context"),
        ("<system-reminder>a</system-reminder>\n<ide_selection>b</ide_selection>c\n", "c\n", ""),
        ("c\n<system-reminder>a</system-reminder>", "c\n<system-reminder>a</system-reminder>", ""),
        ("<ide_selection>never closed", "<ide_selection>never closed", ""),
        ("[Request interrupted by user]", "", "interrupted"),
        ("[Request interrupted by user", "", "interrupted"),
        ("[Request interrupted by user] why?", "[Request interrupted by user] why?", ""),
        ('<teammate-message teammate_id="a">hi</teammate-message>', "", "command_output"),
        (
            "<command-message>x</command-message> is what I see",
            "<command-message>x</command-message> is what I see",
            "",
        ),
        ("Stop hook feedback:\n- [lint]: fix it", "", "hook_feedback"),
        ("Stop hook feedback: can it be shorter?", "Stop hook feedback: can it be shorter?", ""),
        ("Stop hook feedback:\n[lint]: 3 errors\n\nWhy?", "Stop hook feedback:\n[lint]: 3 errors\n\nWhy?", ""),
        ("Base directory for this skill: /x", "", "skill_body"),
        (SKILL_QUESTION, SKILL_QUESTION, ""),
        (CAVEAT, "", "command_caveat"),
        (CAVEAT + " Why do I see this?", CAVEAT + " Why do I see this?", ""),
        (CAVEAT + "\n\nWhy?", CAVEAT + "\n\nWhy?", ""),
        (SUMMARY, "", "compact_summary"),
        (SUMMARY + "\n\nBut first fix the build.", SUMMARY + "\n\nBut first fix the build.", ""),
        (FROM_ELSEWHERE, FROM_ELSEWHERE, ""),
        ("[Request interrupted by user for tool use]", "", "interrupted"),
        ("[Request interrupted by user, why?", "[Request interrupted by user, why?", ""),
        (SELECTION.format("a</ide_selection>b") + "c", "c", ""),
        (SELECTION.format(SELECTION.format("a")) + "\nc", "c", ""),
        (SELECTION.format("a</ide_selection>"), "", "injected_context"),
        (SELECTION.format("a") + "why does </ide_selection> leak?", "why does </ide_selection> leak?", ""),
        (SELECTION.format("a") + SELECTION.format("<ide_selection>b") + "c", "c", ""),
        ("Base directory for this skill?", "Base directory for this skill?", ""),
        (" indented \n", " indented \n", ""),
        (" \n ", "", "empty"),
    ],
)
def test_texts(text: str, kept: str, reason: str) -> None:
    told = read_text(text)
    assert (told.text, told.reason) == (kept, reason)


def test_a_text_of_many_tag_pairs_takes_linear_time() -> None:
    for tag in ("bash-stdout", "command-message", "system-reminder"):
        text = f"<{tag}></{tag}>" * 20_000 + "x"
        assert read_text(text).text in (text, "x")


def test_a_tool_result_that_quotes_a_rejection_holds_no_words() -> None:
    quoted = "1: The user doesn't want to proceed with this tool use. ... the user said:\nno"
    assert read_tool_result(quoted, lambda: None) is None
    assert read_tool_result("User has been created", lambda: None) is None


def test_a_rewind_supersedes_the_turns_that_it_left_behind() -> None:
    exchanges, result, _ = read(DATA / "rewind.jsonl")
    assert [one.user_text for one in exchanges if one.is_superseded] == ["second, wrong", "third, also gone"]
    assert result.superseded_keys == (exchanges[1].key, exchanges[2].key)


def test_two_sessions_and_two_side_chains_in_one_file_are_kept_apart() -> None:
    exchanges, _, sessions = read(DATA / "interleaved.jsonl")
    told = {one.user_text: one for one in exchanges}
    assert told["main one"].reply_text == "main reply"
    assert told["other one"].reply_text == "other reply, part 1\n\nother reply, part 2"
    assert told["other one"].cwd == "/home/kim/other"
    assert told["task X"].reply_text == "X works\n\nX done"
    assert told["task Y"].reply_text == "Y works\n\nY done"
    side = sessions[told["task X"].session_id]
    assert told["task X"].user_kind == "automated"
    assert (side.relation, side.parent_session_id, side.is_automated) == ("subagent", SESSION, True)
    assert told["task X"].session_id != told["task Y"].session_id
    assert told["main one"].session_id == SESSION


def test_a_sub_agent_file_is_a_session_below_its_parent() -> None:
    path = DATA / SESSION / "subagents" / "agent-a7f3c2.jsonl"
    (told,), _, sessions = read(path)
    assert told.session_id == f"{SESSION}/a7f3c2"
    assert (told.user_kind, told.user_text) == ("automated", "Find all callers of load_tiles")
    assert told.reply_text == "Searching.\n\nOnly a.py calls it."
    assert sessions[told.session_id].parent_session_id == SESSION


def test_the_folder_names_the_parent_where_the_agent_names_itself() -> None:
    record = {
        "type": "user",
        "isSidechain": True,
        "agentId": "a1",
        "sessionId": "agent-a1",
        "uuid": "u",
        "message": {"content": "task"},
    }
    for path in ("p/parent-1/subagents/agent-a1.jsonl", r"C:\p\parent-1\subagents\workflows\w\agent-a1.jsonl"):
        assert parse(record, path=path)[0].session_id == "parent-1/a1"


def test_old_lines_that_a_compaction_writes_again_are_taken_once() -> None:
    exchanges, result, _ = read(DATA / "compaction.jsonl")
    assert [one.user_text for one in exchanges] == ["keep me once", "second prompt", "third prompt"]
    assert exchanges[0].reply_text == "kept once"
    assert len(exchanges[0].tools) == 1
    assert exchanges[1].reply_text == "second reply\n\n late block of the second message"
    assert result.lines_skipped["duplicate"] == 5


def test_a_clock_that_goes_backwards_changes_neither_order_nor_span() -> None:
    third = read(DATA / "compaction.jsonl")[0][2]
    assert third.reply_text == "third reply, clock behind"
    assert third.started_at is not None
    assert third.ended_at == third.started_at


def test_odd_bytes_cost_no_more_than_their_line() -> None:
    exchanges, result, _ = read(DATA / "odd.jsonl")
    assert [(one.user_text, one.flags) for one in exchanges] == [
        ("separator \u2028 inside \x85 and \x0c", ()),
        ("joined A", ("joined_line",)),
        ("whole after torn", ("lossy_unicode", "recovered")),
        ("pair \U0001f600 stays", ()),
        ("bad byte \ufffd\ufffd", ("lossy_unicode",)),
    ]
    assert exchanges[1].reply_text == "joined B"
    assert exchanges[2].reply_text == "lone surrogate \ufffd"
    assert exchanges[-1].reply_text == "after all that"  # the unterminated tail
    assert [(one.line, one.reason) for one in result.problems] == [
        (5, "recovered_fragment"),
        (9, "malformed"),
        (11, "not_an_object"),
    ]
    json.dumps([one.reply_text for one in exchanges], ensure_ascii=False).encode("utf-8")


def test_records_without_ids_get_keys_from_session_place_and_words() -> None:
    records = [{"type": "user", "timestamp": "2026-01-01T00:00:00Z", "message": {"content": "go on"}}] * 2
    first, second = parse(*records, path="dir/one.jsonl")
    assert (first.session_id, first.user_record_ids) == ("one", ())
    assert first.key != second.key
    assert parse(*records, path="dir/one.jsonl")[0].key == first.key
    assert parse(*records, path="dir/two.jsonl")[0].key != first.key


def test_short_ids_of_two_sessions_do_not_collide_and_copies_still_meet() -> None:
    def user(session: str, text: str) -> dict[str, Any]:
        return {"type": "user", "uuid": "u1", "sessionId": session, "message": {"content": text}}

    one, other = parse(user("s", "a"))[0].key, parse(user("t", "b"))[0].key
    assert one != other
    assert parse(user("copy", "a"))[0].key == one


def test_a_program_run_is_automated_and_the_editor_is_not() -> None:
    for entrypoint, is_automated in (("sdk-cli", True), ("sdk-py", True), ("cli", False), ("claude-vscode", False)):
        record = {
            "type": "user",
            "sessionId": "s",
            "entrypoint": entrypoint,
            "promptSource": "sdk",
            "message": {"content": "x"},
        }
        (facts,) = FORMAT.open("s.jsonl", str).feed(json.dumps(record).encode() + b"\n").sessions
        assert facts.is_automated is is_automated


def test_no_secret_reaches_exchanges_titles_or_state() -> None:
    def redact(text: str) -> str:
        return text.replace("8094", "[port]")

    path = DATA / "plain.jsonl"
    parser = FORMAT.open(str(path), redact)
    result = parser.feed(path.read_bytes())
    assert b"8094" not in parser.snapshot()
    told = {one.user_text: one.flags for one in result.exchanges}
    assert told["Move it to [port], and never use 8093 again."] == ("redacted",)
    assert told["Again, please."] == ()
    queue = FORMAT.open("q.jsonl", lambda text: text.replace("crash", "[x]"))
    body = (DATA / "queue.jsonl").read_bytes()
    queue.feed(body[: body.rindex(b'{"parentUuid"', 0, body.rindex(b"Back again"))])
    assert b"crash" not in queue.snapshot()
    assert b"[x]" in queue.snapshot()


def test_a_thousand_summaries_give_no_exchange() -> None:
    summaries = [{"type": "summary", "summary": f"s {number}", "leafUuid": f"l{number}"} for number in range(2000)]
    assert parse(*summaries) == []


def test_a_snapshot_of_another_version_is_refused() -> None:
    state = FORMAT.open("s.jsonl", str).snapshot()
    other = ClaudeCodeFormat()
    other.version = 99
    with pytest.raises(ValueError, match="claude-code-jsonl 1, not claude-code-jsonl 99"):
        other.open("s.jsonl", str, state)
    with pytest.raises(ValueError, match=r"Expected|malformed|truncated"):
        FORMAT.open("s.jsonl", str, b"nonsense")


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("2026-03-04T10:00:01.250Z", 1772618401250),
        ("2026-03-04T10:00:01.250999999Z", 1772618401250),
        ("2026-03-04T12:00:01+02:00", 1772618401000),
        ("2026-03-04T10:00:01", 1772618401000),
        ("2026-03-04 10:00:01Z", 1772618401000),
        (1772618401, 1772618401000),
        (1772618401.25, 1772618401250),
        (1772618401250, 1772618401250),
        ("1772618401", 1772618401000),
        ("1772618401250", 1772618401250),
        ("1772618401.25", 1772618401250),
        (0, None),
        ("0001-01-01T00:00:00Z", None),
        ("1970-01-01T00:00:00Z", None),
        ("", None),
        ("yesterday", None),
        ("[trimmed]", None),
        (None, None),
        (True, None),
        (float("nan"), None),
        ({}, None),
        (10**30, None),
    ],
)
def test_timestamps_are_right_or_absent(stamp: object, expected: int | None) -> None:
    assert to_epoch_ms(stamp) == expected


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        ({}, "linux", ("/home/kim/.claude/projects", "/home/kim/.config/claude/projects")),
        ({"XDG_CONFIG_HOME": "/x"}, "darwin", ("/home/kim/.claude/projects", "/x/claude/projects")),
        ({"CLAUDE_CONFIG_DIR": "/a, /b ,/a"}, "linux", ("/a/projects", "/b/projects")),
        (
            {"USERPROFILE": "C:\\Users\\kim"},
            "win32",
            ("C:\\Users\\kim\\.claude\\projects", "C:\\Users\\kim\\.config\\claude\\projects"),
        ),
    ],
)
def test_default_directories(environ: dict[str, str], platform: str, expected: tuple[str, ...]) -> None:
    assert FORMAT.default_dirs(environ, "/home/kim", platform) == expected


@pytest.mark.parametrize(
    ("path", "may_hold"),
    [
        ("/p/-home-kim/5e551000.jsonl", True),
        ("/p/-home-kim/s/subagents/agent-a1.jsonl", True),
        ("/p/-home-kim/s/subagents/agent-a1.meta.json", False),
        ("/p/-home-kim/s/subagents/agent-acompact-1.jsonl", False),
        ("/p/-home-kim/s/tool-results/big.jsonl", False),
        ("C:\\p\\s\\tool-results\\big.jsonl", False),
        ("/p/history.jsonl", False),
        ("/p/s/subagents/workflows/w/journal.jsonl", False),
        ("/p/-home-kim/s.jsonl.zst", False),
        ("/p/notes.md", False),
    ],
)
def test_names(path: str, may_hold: bool) -> None:
    assert FORMAT.may_hold(path) is may_hold


@pytest.mark.parametrize("path", sorted(DATA.rglob("*.jsonl")), ids=lambda path: path.name)
def test_samples_are_recognised_by_content(path: Path) -> None:
    head = path.read_bytes()[: registry.HEAD_BYTES]
    found = registry.detect("somewhere/else.txt", head)
    assert found is not None
    assert found.agent == "claude-code"


@pytest.mark.parametrize(
    ("head", "is_ours"),
    [
        (b'{"type":"user","sessionId":"s","message":{"role":"user","parts":[]}}\n', False),  # Qwen
        (b'{"type":"session.start","data":{"sessionId":"s"}}\n', False),  # Copilot CLI
        (b'{"role":"user","message":{"content":[]}}\n', False),  # Cursor
        (b'{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"x"}}\n', False),
        (b'{"type":"user"}\n', False),
        (b'{"type":"mode","mode":"normal","sessionId":"s"}\n', True),
        (b"\xef\xbb\xbf" + b'{"type":"summary","summary":"x","leafUuid":"y"}\r\n', True),
        (b'broken\n{"type":"brand-new","sessionId":"s"}\n{"type":"user","sessionId":"s","message":"x"}\n', True),
        (b'{"parentUuid":null,"sessionId":"s","type":"user","message":{"content":"' + b"x" * 70_000, True),
        (b"", False),
    ],
)
def test_sniffing(head: bytes, is_ours: bool) -> None:
    assert FORMAT.sniff(head[: registry.HEAD_BYTES]) is is_ours


def test_the_registry() -> None:
    assert {"claude-code", "codex"} <= set(registry.agents())
    assert registry.by_name("claude-code-jsonl") is registry.formats()[0]
    assert registry.by_name("unknown") is None
    head = (DATA / "plain.jsonl").read_bytes()
    assert registry.detect("p/agent-acompact-1.jsonl", head) is None
    assert registry.detect("p/x.jsonl", b'{"some":"json"}\n') is None
