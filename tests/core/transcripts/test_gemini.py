"""Gemini CLI: both forms, the same words and keys in both, rewinds, compression, and what is nobody's words."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest
from support.formats import assert_cuts_do_not_matter, read_bytes, read_file
from support.gemini import HEADER, lines, message, read

from palace_daemon.core.transcripts.base import TranscriptFormat
from palace_daemon.core.transcripts.gemini.format import GeminiDocumentFormat, GeminiLinesFormat
from palace_daemon.core.transcripts.gemini.records import GeminiRecord
from palace_daemon.core.transcripts.gemini.words import prompt_of, text_in

DATA = Path(__file__).parents[2] / "data" / "transcripts"
SHARED = Path(__file__).parents[4] / "shared" / "transcripts"
shared = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real transcripts are not at {SHARED}"),
]

LINES, DOCUMENT = GeminiLinesFormat(), GeminiDocumentFormat()
MAIN = DATA / "gemini" / "session-2026-05-02T09-30-5e551000.jsonl"


def words(**fields: Any) -> str:
    return prompt_of(GeminiRecord(type="user", **fields)).text


class Beside:
    """Files that are only named."""

    def __init__(self, files: dict[str, str]) -> None:
        self._files = files

    def read(self, path: str) -> bytes | None:
        return self._files[path].encode() if path in self._files else None

    def names(self, directory: str) -> tuple[str, ...]:
        return ()


# ------------------------------------------------------------------------------------------------------- real samples


REAL: dict[str, tuple[TranscriptFormat, list[tuple[str, int]], dict[str, int]]] = {
    # name -> format, (user text, length of the reply) of each exchange, what was skipped
    "agenthistory-golden.json": (
        DOCUMENT,
        [("Read the package.json file", 40), ("What's the project name?", 61)],
        {"thinking": 2, "tool_result": 1},
    ),
    "agenthistory-tool_error.jsonl": (
        LINES,
        [
            ("Edit the config file to change the port to 9000", 40),
            ("Now change the host to localhost", 36),
            ("What host value is actually in the file?", 148),
            ("Perfect, thanks!", 76),
        ],
        {"thinking": 5, "tool_result": 4},
    ),
    "agentsview-standard_session.json": (DOCUMENT, [("Fix the login bug", 29), ("That looks right", 16)], {}),
    "agentsview-system_messages.json": (DOCUMENT, [], {"info": 1, "error": 1, "warning": 1}),
    "agentsview-thinking_only.json": (DOCUMENT, [("Explain how this works", 66)], {"thinking": 1}),
    "agentsview-tool_calls.json": (DOCUMENT, [("Read this file", 15)], {"thinking": 1}),
    "agentsview-tool_calls_with_results.json": (
        DOCUMENT,
        [("Read the planning doc", 22)],
        {"thinking": 1, "tool_result": 1},
    ),
    "dejavu-session.jsonl": (LINES, [("inspect the gemini session", 23)], {}),
    "entire-513fab7a.json": (
        DOCUMENT,
        [('write to test-gemini.txt "hello, gemini" only', 0), ("System: Please continue.", 68)],
        {"thinking": 2, "tool_result": 1},
    ),
    "entire-ab2b9748.json": (
        DOCUMENT,
        [("run an agent that creates a color file inside docs, choose your color", 1286)],
        {"thinking": 10, "tool_result": 9, "info": 1},
    ),
    "entire-ec38b74f.json": (DOCUMENT, [], {"warning": 1}),
    "jazzyalex-jsonl_v040.jsonl": (LINES, [("Say hello and list files.", 26)], {"metadata": 1, "tool_result": 1}),
    "jazzyalex-large.json": (
        DOCUMENT,
        [("Run a command", 26), ("Step 1", 2)],
        {"thinking": 1, "tool_result": 2, "info": 1},
    ),
    "jazzyalex-small.json": (DOCUMENT, [("Hello", 3)], {"thinking": 1}),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=shared) for name in REAL])
def test_a_real_sample_gives_its_exchanges(name: str) -> None:
    known, exchanges, skipped = REAL[name]
    path = SHARED / "gemini" / name
    found = read_file(known, path)
    assert [(one.user_text, len(one.reply_text)) for one in found.exchanges] == exchanges
    assert found.lines_skipped == skipped
    assert all(one.time_quality == "exact" for one in found.exchanges)
    assert_cuts_do_not_matter(known, path.read_bytes(), str(path))


@pytest.mark.parametrize("name", [pytest.param("entire-ab2b9748.json", marks=shared)])
def test_the_longest_real_session_is_told_with_its_tools(name: str) -> None:
    one = read_file(DOCUMENT, SHARED / "gemini" / name).exchanges[0]
    assert one.key == "gemini-cli:f93c83d7-408c-47e2-91b7-4442339ee5af"
    assert one.session_id == "f7633853-6663-4dbb-bbf4-6159afa29df8"
    assert one.reply_text.startswith("I will create a markdown file `docs/blue.md`")
    assert one.reply_text[one.reply_final_start :] == "Staged `docs/color.md`. Verifying git status."
    assert [tool.name for tool in one.tools].count("run_shell_command") == 6
    assert (one.tools[0].name, one.tools[0].target) == ("write_file", "docs/blue.md")
    assert one.model == "gemini-2.5-flash"
    assert (one.started_at, one.ended_at) == (1768510308582, 1768510376381)


@pytest.mark.parametrize("name", [pytest.param("entire-513fab7a.json", marks=shared)])
def test_what_the_program_says_to_go_on_is_automated(name: str) -> None:
    found = read_file(DOCUMENT, SHARED / "gemini" / name)
    assert [one.user_kind for one in found.exchanges] == ["prompt", "automated"]


def every_sample() -> list[Any]:
    files = sorted(path for path in SHARED.rglob("*") if path.is_file()) if SHARED.is_dir() else []
    own = sorted(path for path in DATA.rglob("*") if path.is_file())
    return [
        *(pytest.param(path, id=str(path.relative_to(SHARED)), marks=pytest.mark.shared) for path in files),
        *(pytest.param(path, id=str(path.relative_to(DATA))) for path in own),
    ]


@pytest.mark.parametrize("path", every_sample())
def test_each_file_is_recognised_in_its_form_and_no_other(path: Path) -> None:
    head = path.read_bytes()[: 64 * 1024]
    # Invented by its author: no version writes a root with `history`.
    is_ours = path.parent.name == "gemini" and path.name not in ("SOURCES.txt", "jazzyalex-schema_drift.json")
    assert LINES.sniff(head) == (is_ours and path.suffix == ".jsonl")
    assert DOCUMENT.sniff(head) == (is_ours and path.suffix == ".json")


# ---------------------------------------------------------------------------------------------------- the main session


def test_a_session_with_a_rewind_and_a_compression() -> None:
    found = read_file(LINES, MAIN)
    assert [(one.user_text, one.reply_text, one.is_superseded) for one in found.exchanges] == [
        ("Which port does @config.toml use?", "I look into the file.\n\nIt uses port 7071.", False),
        ("Move it to 7072.", "Moved to 7072.", True),
        ("And restart the pump.", "The pump restarted.", True),
        ("Leave the port as it is, only restart the pump.", "Restarted, the port stays.", False),
        ("Thank you.", "You are welcome.", False),
    ]
    first = found.exchanges[0]
    assert [(tool.name, tool.target) for tool in first.tools] == [("read_file", "/home/sam/tidepool/config.toml")]
    assert first.key == "gemini-cli:a0000000-0000-4000-8000-000000000002"
    assert [session.title for session in found.sessions] == ["Port and pump"]
    assert found.lines_skipped == {
        "info": 1,
        "metadata": 1,
        "thinking": 1,
        "rewind": 1,
        "compression": 2,
        "tool_result": 1,
    }


def test_cuts_of_the_main_session_do_not_matter() -> None:
    assert_cuts_do_not_matter(LINES, MAIN.read_bytes(), str(MAIN))


def test_a_resumed_session_has_the_same_keys_in_both_forms() -> None:
    old = read_file(DOCUMENT, DATA / "gemini" / "resumed.json")
    new = read_file(LINES, DATA / "gemini" / "resumed.jsonl")
    assert [one.key for one in old.exchanges] == [one.key for one in new.exchanges][:1]
    assert old.pairs == new.pairs[:1] == [("Count the buoys.", "There are nine.")]
    assert {one.session_id for one in (*old.exchanges, *new.exchanges)} == {"5e551000-0000-4000-8000-000000000102"}
    assert len(new.exchanges) == 2


# --------------------------------------------------------------------------------------------------------- whose words


def test_the_text_that_was_shown_is_preferred_to_the_one_that_was_sent() -> None:
    assert words(content=[{"text": "Read @a.md"}, {"text": "long"}], display_content="Read @a.md") == "Read @a.md"


def test_files_that_were_put_in_are_left_out_where_nothing_else_tells() -> None:
    sent = "Read @a.md\n--- Content from referenced files ---\nContent from @a.md:\nx\n--- End of content ---"
    assert words(content=sent) == "Read @a.md"
    assert words(content="Why do I see --- Content from referenced files --- there?").endswith("there?")


@pytest.mark.parametrize(
    ("content", "expected", "reason"),
    [
        ("/help", "", "slash_command"),
        ("/memory add a fact", "", "slash_command"),
        ("?", "", "slash_command"),
        ("?help ", "", "slash_command"),
        ("/home/sam/a.py is broken", "/home/sam/a.py is broken", ""),
        ("?- is Prolog's prompt, why?", "?- is Prolog's prompt, why?", ""),
        ("<session_context>\nToday\n</session_context>", "", "injected_context"),
        ("<session_context>Today</session_context>\nHello", "Hello", ""),
        ("Hello\n\n<hook_context>from a hook</hook_context>", "Hello", ""),
        ("<session_context> is a tag, what is in it?", "<session_context> is a tag, what is in it?", ""),
        ([{"functionResponse": {"name": "x"}}], "", "tool_result"),
        ("", "", "empty"),
        ([], "", "empty"),
        (None, "", "empty"),
        (7, "", "empty"),
        ("<state_snapshot>s</state_snapshot>", "", "compression"),
        (
            "I ran the following shell command:\n```sh\nls -l\n```\n\nThis produced the following result:\n```\nx\n```",
            "ls -l",
            "",
        ),
        (["a", {"text": "b"}, {"text": "hidden", "thought": True}, 5], "ab", ""),
    ],
)
def test_the_words_of_a_prompt(content: Any, expected: str, reason: str) -> None:
    prompt = prompt_of(GeminiRecord(type="user", content=content))
    assert (prompt.text, prompt.reason) == (expected, reason)


def test_a_command_does_not_give_its_reply_to_the_turn_before() -> None:
    found = read(
        message(1, "user", "One."),
        message(2, "gemini", "1"),
        message(3, "user", "/review"),
        message(4, "gemini", "Reviewed."),
    )
    assert found.pairs == [("One.", "1"), ("", "Reviewed.")]


def test_an_image_alone_is_a_turn() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA", "displayName": "reef.png"}}
    found = read(message(1, "user", [image]), message(2, "gemini", "A reef."))
    attachment = found.exchanges[0].attachments[0]
    assert (attachment.kind, attachment.name, attachment.size_bytes) == ("image", "reef.png", 3)


def test_thoughts_are_no_reply() -> None:
    assert text_in([{"text": "hm", "thought": True}, {"text": "Yes."}]) == "Yes."


def test_a_cancelled_request_is_interrupted() -> None:
    found = read(message(1, "user", "One."), message(2, "gemini", "Wait"), message(3, "info", "Request cancelled."))
    assert found.exchanges[0].status == "interrupted"


# ------------------------------------------------------------------------------------------------ session and project

TMP = "/home/sam/.gemini/tmp"


def test_a_sub_agent_is_a_session_of_its_own_with_a_parent() -> None:
    path = f"{TMP}/tidepool/chats/5e551000-0000-4000-8000-000000000109/sub7.jsonl"
    data = lines(message(1, "user", "Look at the reef."), message(2, "gemini", "Done."))
    data = data.replace(
        b'"5e551000-0000-4000-8000-000000000109", "projectHash"', b'"sub7", "kind": "subagent", "projectHash"'
    )
    found = read_bytes(LINES, data, path)
    session = found.sessions[0]
    assert session.session_id == "5e551000-0000-4000-8000-000000000109/sub7"
    assert (session.parent_session_id, session.relation) == ("5e551000-0000-4000-8000-000000000109", "subagent")
    assert session.is_automated
    assert found.exchanges[0].user_kind == "automated"


def test_the_project_stands_beside_the_chats() -> None:
    beside = Beside({f"{TMP}/tidepool/.project_root": "/home/sam/tidepool\n"})
    for path in ("chats/session-x.jsonl", "chats/5e551000-0000-4000-8000-000000000109/sub7.jsonl"):
        found = read_bytes(LINES, lines(message(1, "user", "One.")), f"{TMP}/tidepool/{path}", beside)
        assert found.sessions[0].cwd == found.exchanges[0].cwd == "/home/sam/tidepool"


@pytest.mark.parametrize("folder", ["tidepool", hashlib.sha256(b"/home/sam/tidepool").hexdigest()])
def test_the_project_is_found_in_the_list_by_name_or_hash(folder: str) -> None:
    listed = json.dumps({"projects": {"/home/sam/other": "other", "/home/sam/tidepool": "tidepool"}})
    beside = Beside({"/home/sam/.gemini/projects.json": listed})
    data = json.dumps({**HEADER, "messages": [message(1, "user", "One.")]}).encode()
    found = read_bytes(DOCUMENT, data, f"{TMP}/{folder}/chats/session-x.json", beside)
    assert found.exchanges[0].cwd == "/home/sam/tidepool"


def test_a_project_on_windows_is_found_beside_too() -> None:
    home = "C:\\Users\\sam\\.gemini\\tmp\\tidepool"
    beside = Beside({f"{home}\\.project_root": "C:\\Users\\sam\\tidepool"})
    found = read_bytes(LINES, lines(message(1, "user", "One.")), f"{home}\\chats\\session-x.jsonl", beside)
    assert found.exchanges[0].cwd == "C:\\Users\\sam\\tidepool"


def test_a_directory_of_the_session_is_the_project_if_its_hash_says_so() -> None:
    told = hashlib.sha256(b"/home/sam/tidepool").hexdigest()
    header = {**HEADER, "projectHash": told, "directories": ["/home/sam/other", "/home/sam/tidepool", 3]}
    data = json.dumps({**header, "messages": [message(1, "user", "One.")]}).encode()
    assert read_bytes(DOCUMENT, data, "/mnt/copy.json").exchanges[0].cwd == "/home/sam/tidepool"


@pytest.mark.parametrize("text", ["not json", '["x"]', '{"projects": 3}', '{"projects": {"/a": 1}}'])
def test_a_damaged_list_of_projects_is_no_project(text: str) -> None:
    beside = Beside({"/home/sam/.gemini/projects.json": text, f"{TMP}/p/.project_root": "a\nb"})
    found = read_bytes(LINES, lines(message(1, "user", "One.")), f"{TMP}/p/chats/session-x.jsonl", beside)
    assert found.exchanges[0].cwd == ""


def test_without_a_first_line_the_file_names_the_session() -> None:
    data = b"\n".join(lines(message(1, "user", "One."), message(2, "gemini", "1")).split(b"\n")[1:])
    found = read_bytes(LINES, data, f"{TMP}/p/chats/session-2026-05-02T09-30-5e551000.jsonl")
    assert found.sessions[0].session_id == "session-2026-05-02T09-30-5e551000"
    assert LINES.sniff(data)


def test_messages_without_ids_are_taken_too() -> None:
    found = read(
        {"type": "user", "content": "One.", "timestamp": "2026-05-02T09:00:00Z"}, {"type": "gemini", "content": "1"}
    )
    assert found.pairs == [("One.", "1")]


# ---------------------------------------------------------------------------------------------------- recognition


def test_a_document_whose_messages_come_first_and_are_cut_is_recognised() -> None:
    root: dict[str, Any] = {
        "messages": [message(1, "user", "x" * 100), message(2, "gemini", "y" * 70_000)],
        **HEADER,
    }
    head = json.dumps(root).encode()[: 64 * 1024]
    assert not DOCUMENT.sniff(head)  # nothing but a person's words: it could be anybody's
    root["messages"][1]["content"] = "short"
    root["messages"].append(message(3, "user", "z" * 70_000))
    assert DOCUMENT.sniff(json.dumps(root).encode()[: 64 * 1024])


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"[]",
        b'[{"sessionId":"s","messageId":0,"type":"user","message":"a prompt log"}]',
        b'{"history":[{"role":"user","parts":[{"text":"a checkpoint"}]}]}',
        b'{"messages":[{"role":"user","content":"x"}]}',
        b'{"type":"user","sessionId":"s","message":{"content":"x"}}\n',
    ],
)
def test_what_lies_beside_is_not_recognised(head: bytes) -> None:
    assert not LINES.sniff(head)
    assert not DOCUMENT.sniff(head)


def test_a_document_with_a_message_on_each_line_is_no_line_file() -> None:
    data = (DATA / "gemini" / "resumed.json").read_bytes()
    assert b'"type": "gemini"' in data.splitlines()[7]
    assert not LINES.sniff(data)


@pytest.mark.parametrize(
    ("path", "is_held"),
    [
        (f"{TMP}/p/chats/session-2026-01-16T18-34-3739ef95.json", True),
        (f"{TMP}/p/chats/5e551000/sub.json", True),
        ("C:\\Users\\sam\\.gemini\\tmp\\p\\chats\\session-1.json", True),
        (f"{TMP}/p/logs.json", False),
        (f"{TMP}/p/checkpoint-a.json", False),
        (f"{TMP}/p/chats/notes.json", False),
        (f"{TMP}/p/chats/session-1.json.unreadable-7", False),
        (f"{TMP}/p/chats/session-1.jsonl", False),
    ],
)
def test_which_paths_may_hold_a_document(path: str, is_held: bool) -> None:
    assert DOCUMENT.may_hold(path) is is_held


def test_which_paths_may_hold_lines() -> None:
    assert LINES.may_hold(f"{TMP}/p/chats/session-1.jsonl")
    assert not LINES.may_hold(f"{TMP}/p/chats/session-1.jsonl.unreadable-7")


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        ({}, "linux", "/home/sam/.gemini/tmp"),
        ({}, "darwin", "/home/sam/.gemini/tmp"),
        ({"GEMINI_CLI_HOME": "/data/g"}, "linux", "/data/g/.gemini/tmp"),
        ({"USERPROFILE": "C:\\Users\\sam"}, "win32", "C:\\Users\\sam\\.gemini\\tmp"),
    ],
)
def test_default_directories(environ: dict[str, str], platform: str, expected: str) -> None:
    for known in (LINES, DOCUMENT):
        assert known.default_dirs(environ, "/home/sam", platform) == (expected,)


# ---------------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("value", [3, "x", [], {}, {"messages": 3}, {"messages": [3, None, {}, {"type": 4}]}])
def test_a_document_of_another_shape_is_counted(value: Any) -> None:
    found = read_bytes(DOCUMENT, json.dumps(value).encode() + b" ")
    assert found.exchanges == ()
    assert set(found.lines_skipped) <= {"unknown_shape"}
    assert found.lines_skipped or value in (3, {"messages": []})


def test_half_a_document_is_not_whole_and_gives_nothing() -> None:
    data = (DATA / "gemini" / "resumed.json").read_bytes()
    found = read_bytes(DOCUMENT, data[:-10])
    assert (found.exchanges, found.is_whole) == ((), False)


def test_lone_surrogates_and_secrets_do_not_get_out() -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    found = read(message(1, "user", f"\ud83d token {secret}"), message(2, "gemini", "Yes."))
    assert "\ufffd" in found.exchanges[0].user_text
    assert secret not in found.exchanges[0].user_text


@pytest.mark.parametrize("seed", range(12))
def test_garbage_never_raises(seed: int) -> None:
    chance = random.Random(seed)
    for known, path in ((LINES, MAIN), (DOCUMENT, DATA / "gemini" / "resumed.json")):
        data = path.read_bytes()
        for _ in range(8):
            broken = bytearray(data)
            for _ in range(chance.randrange(1, 30)):
                place = chance.randrange(len(broken))
                broken[place : place + chance.randrange(4)] = bytes(chance.choices(b'{}[]",:0\\n\xff\x00', k=2))
            found = read_bytes(known, bytes(broken), str(path))
            assert found.is_whole or known is DOCUMENT


ODD: list[Any] = [None, 3, "x", [], {}, [3], {"id": 3}, [{"text": 4}], [{"inlineData": 3}], {"functionCall": 3}, True]


@pytest.mark.parametrize(
    "name", ["content", "displayContent", "toolCalls", "timestamp", "model", "id", "parts", "type"]
)
def test_fields_of_any_type_never_raise(name: str) -> None:
    for odd in ODD:
        changed = [{**message(1, "user", "One."), name: odd}, {**message(2, "gemini", "1"), name: odd}]
        assert read_bytes(
            LINES, lines(*changed, {"$set": odd}, {"$rewindTo": odd}, {"$set": {"messages": odd}})
        ).is_whole
        assert read_bytes(DOCUMENT, json.dumps({**HEADER, "messages": changed}).encode()).is_whole


def test_a_snapshot_of_another_version_is_refused() -> None:
    state = LINES.open("/x.jsonl", str).snapshot()
    newer = GeminiLinesFormat()
    newer.version = 2
    with pytest.raises(ValueError, match="gemini-jsonl 1"):
        newer.open("/x.jsonl", str, state)


@pytest.mark.parametrize(
    "text",
    [
        "a" + "<hook_context>x</hook_context>" * 20_000,
        "<session_context><hook_context>" * 20_000 + "</session_context>",
        "--- Content from referenced files ---\n" * 20_000,
        "I ran the following shell command:\n```sh\n" + "\n```\n\n" * 20_000,
    ],
    ids=["closed", "open", "files", "shell"],
)
def test_hostile_texts_take_linear_time(text: str) -> None:
    assert len(words(content=text)) <= len(text)  # seconds if it were quadratic, and minutes for all
