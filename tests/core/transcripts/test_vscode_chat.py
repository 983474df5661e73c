"""VS Code Copilot Chat as documents: the store before 1.109, and exports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.document_formats import Nearby, assert_damage_does_not_raise, claims_outside, document
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes, read_file
from support.line_formats import SHARED, head_of, needs_samples

from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.vscode_chat.format import VsCodeChatExportFormat, VsCodeChatFormat
from palace_daemon.model import Attachment, ToolUse

DATA = Path(__file__).parents[2] / "data" / "transcripts" / "vscode-copilot-chat"
SESSION, EXPORT = VsCodeChatFormat(), VsCodeChatExportFormat()
SAMPLE = SHARED / "vscode-copilot-chat" / "splitrail-copilot-2MB.json"
ID = "request_00000000-0000-4000-8000-00000000000{}"
ROOT = "/home/sam/.config/Code/User/workspaceStorage/0a1b"
PATH = f"{ROOT}/chatSessions/s1.json"


def request(number: int, text: Any, *parts: Any, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "requestId": ID.format(number),
        "message": {"text": text, "parts": []},
        "variableData": {"variables": []},
        "response": list(parts),
        "responseId": f"response_{number}",
        "timestamp": 1_762_883_660_000 + number,
    }
    return fields | more


def session(*requests: Any, **more: Any) -> bytes:
    fields = {"version": 3, "responderUsername": "GitHub Copilot", "requests": list(requests), "sessionId": "s1"}
    return document(fields | more)


def read(*requests: Any, **more: Any) -> Whole:
    data = session(*requests, **more)
    assert_cuts_do_not_matter(SESSION, data, PATH)
    return read_bytes(SESSION, data, PATH)


# ----------------------------------------------------------------------------------------------------- real sample


@pytest.mark.shared
@pytest.mark.skipif(not SAMPLE.is_file(), reason="the real transcript is absent")
def test_the_real_session_has_three_exchanges_with_their_references() -> None:
    whole = read_file(SESSION, SAMPLE)
    assert [one.user_text for one in whole.exchanges] == [
        "Does this application have a debug option",
        "No.  Please check if the application only uploads once per day?  Can I force an upload?",
        (
            "OK.  For some reason I can see new data locally, but not on the upload site.   "
            "Can you determine why that might be?"
        ),
    ]
    first, second, third = whole.exchanges
    assert "Let me check the config.rs to see if there's a debug configuration option:" in first.reply_text
    assert (
        "In your ~/.splitrail.toml config file, you can control upload behavior with:\n\n- **auto_upload** - Enable"
        in (second.reply_text)
    )
    assert "In utils.rs, the get_messages_later_than function uses `>=` comparison:" in third.reply_text
    assert first.reply_text[first.reply_final_start :].startswith("Based on my investigation of the codebase")
    assert [len(one.tools) for one in whole.exchanges] == [5, 5, 3]
    assert first.tools[1] == ToolUse(name="copilot_readFile", target="/home/sample/workspace/splitrail/src/main.rs")
    assert {one.status for one in whole.exchanges} == {"complete"}
    assert {one.time_quality for one in whole.exchanges} == {"exact"}
    assert (first.started_at, first.ended_at) == (1762883660019, 1762883660019 + 21618)
    assert first.key == "copilot-chat:request_8f2c86ea-362c-429a-b4f2-20e98a9f6095"
    assert whole.lines_skipped == {"part:mcpserversstarting": 3, "part:progresstaskserialized": 1}
    [told] = whole.sessions
    assert (told.session_id, told.title) == (
        "f56f201a-672e-4cc5-ada9-4736258cc586",
        "Adding a debug option to the application",
    )
    assert [one.line_start for one in whole.exchanges] == [18, 13682, 31766]
    head = head_of(SAMPLE)
    assert SESSION.sniff(head)
    assert not EXPORT.sniff(head)
    assert registry.detect(str(SAMPLE), head) is registry.by_name("vscode-chat-json")


@pytest.mark.shared
@pytest.mark.skipif(not SAMPLE.is_file(), reason="the real transcript is absent")
def test_the_real_session_may_arrive_in_any_cuts() -> None:
    assert_cuts_do_not_matter(SESSION, SAMPLE.read_bytes(), str(SAMPLE))


@pytest.mark.parametrize(
    "known", [pytest.param(SESSION, marks=needs_samples), pytest.param(EXPORT, marks=needs_samples)]
)
def test_nobody_elses_transcript_is_taken(known: VsCodeChatFormat) -> None:
    assert claims_outside(known, "vscode-copilot-chat") == []


# --------------------------------------------------------------------------------------------------- what is taken


def test_fragments_are_one_stream_of_markdown_and_a_tool_call_ends_a_message() -> None:
    whole = read(
        request(
            1,
            "Where?",
            {"value": "It is "},
            {"kind": "codeblockUri", "uri": {}},
            "in ",
            {"kind": "markdownContent", "content": {"value": "the "}},
            {"kind": "inlineReference", "name": "main()", "inlineReference": {"path": "/x"}},
            {"kind": "markdownVuln", "content": {"value": ".\n"}, "vulnerabilities": []},
            {"kind": "toolInvocationSerialized", "toolId": "t", "toolCallId": "1"},
            {"value": {"value": "Done."}},
            {"kind": "thinking", "value": "hm"},
            {"value": "Bye."},
        )
    )
    [one] = whole.exchanges
    assert one.reply_text == "It is in the main().\n\nDone.\n\nBye."
    assert one.reply_text[one.reply_final_start :] == "Bye."
    assert whole.lines_skipped == {"part:codeblockuri": 1, "thinking": 1}


def test_a_reference_stands_for_a_symbol_or_a_file() -> None:
    symbol = {"name": "rows", "location": {"uri": {"scheme": "file", "path": "/a/b.py"}}}
    location = {"uri": {"scheme": "vscode-remote", "path": "/a/c.py"}, "range": {}}
    parts = [
        {"kind": "inlineReference", "inlineReference": value} for value in (symbol, location, {"path": "/a/d.py"}, 3)
    ]
    [one] = read(request(1, "Q", *parts, {"value": "!"})).exchanges
    assert one.reply_text == "rowsc.pyd.py!"


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"modelState": {"value": 1, "completedAt": 1_762_883_670_000}}, "complete"),
        ({"result": {"timings": {}}}, "complete"),
        ({"modelState": {"value": 0}}, "open"),
        ({"modelState": {"value": 4}}, "open"),
        ({"modelState": {"value": 2}}, "interrupted"),
        ({"isCanceled": True, "result": {"x": 1}}, "interrupted"),
        ({"result": {"errorDetails": {"message": "off", "code": "canceled"}}}, "interrupted"),
        ({"result": {"errorDetails": {"message": "quota"}}}, "error"),
        ({"modelState": {"value": 3}}, "error"),
        ({"modelState": {"value": []}, "result": [], "response": "text"}, "open"),
    ],
)
def test_the_end_of_a_response_sets_the_status(more: dict[str, Any], status: str) -> None:
    [one] = read(request(1, "Q", {"value": "A"}, **more)).exchanges
    assert one.status == status


def test_a_host_notice_is_no_prompt_and_its_reply_stays_apart() -> None:
    whole = read(
        request(1, "Run it", {"value": "Running."}),
        request(2, "Terminal 3 exited with 0", {"value": "It passed."}, isSystemInitiated=True),
        request(3, "Hidden notice", isSystemInitiated=True),
    )
    assert whole.pairs == [("Run it", "Running."), ("", "It passed.")]
    assert whole.exchanges[1].user_kind == "automated"
    assert whole.lines_skipped["system_initiated"] == 2


def test_answers_to_questions_are_the_persons_words() -> None:
    carousel = {
        "kind": "questionCarousel",
        "questions": [
            {"id": "q1", "title": "Size", "message": {"value": "Which size?"}, "options": []},
            {"id": "q2", "title": "Colour"},
        ],
        "data": {
            "q1": {"selectedValue": "small", "freeformValue": "or tiny"},
            "q2": {"selectedValues": ["red", "blue"]},
        },
    }
    review = {
        "kind": "planReview",
        "title": "Plan",
        "content": "1. Do it",
        "data": {"rejected": True, "feedback": "No"},
    }
    whole = read(request(1, "Build", {"value": "Asking."}, carousel, {"value": "Thanks."}, review, {"value": "Sorry."}))
    assert whole.pairs == [
        ("Build", "Asking.\n\nWhich size?\n\nColour"),
        ("Size: small, or tiny\nColour: red, blue", "Thanks.\n\n1. Do it"),
        ("No", "Sorry."),
    ]
    assert [one.user_kind for one in whole.exchanges] == ["prompt", "answer", "rejection"]
    assert [one.key for one in whole.exchanges] == [f"copilot-chat:{ID.format(1)}{end}" for end in ("", ":1", ":2")]


def test_a_carousel_without_answer_is_part_of_the_reply() -> None:
    carousel = {"kind": "questionCarousel", "questions": [{"id": "a", "title": "Which?"}, 3], "data": []}
    assert read(request(1, "Q", carousel)).pairs == [("Q", "Which?")]


def test_what_was_attached_is_named_and_what_the_editor_added_is_not() -> None:
    variables = [
        {"kind": "file", "id": "vscode.implicit.file", "name": "file:open.py", "value": {"path": "/a/open.py"}},
        {"kind": "file", "id": "f", "name": "b.py", "value": {"scheme": "file", "path": "/a/b.py"}},
        {"kind": "image", "id": "i", "name": "shot.png", "value": {"0": 137}},
        {"kind": "paste", "id": "p", "name": "Pasted code", "code": "x = 1"},
        {"kind": "string", "id": "s", "name": "context"},
        "odd",
    ]
    [one] = read(request(1, "Look", {"value": "Yes"}, variableData={"variables": variables})).exchanges
    assert one.attachments == (
        Attachment(kind="file", name="/a/b.py"),
        Attachment(kind="image", name="shot.png"),
        Attachment(kind="selection", name="Pasted code"),
    )


def test_a_tool_call_is_known_by_its_command_or_file() -> None:
    terminal = {"commandLine": {"original": "make\nall", "userEdited": "make test\nnow"}}
    parts = [
        {"kind": "toolInvocationSerialized", "toolId": "run_in_terminal", "toolSpecificData": terminal},
        {
            "kind": "toolInvocationSerialized",
            "toolId": "read",
            "invocationMessage": "Reading [x](file:///a%20b/x.py), now",
        },
        {"kind": "toolInvocationSerialized", "toolId": "find", "invocationMessage": {"value": "Searching for `x`"}},
        {"kind": "toolInvocationSerialized", "resultDetails": {"output": "SECRET"}, "toolSpecificData": 4},
    ]
    [one] = read(request(1, "Q", *parts)).exchanges
    assert [(tool.name, tool.target) for tool in one.tools] == [
        ("run_in_terminal", "make test"),
        ("read", "/a b/x.py"),
        ("find", "Searching for `x`"),
        ("tool", ""),
    ]


def test_a_value_that_was_cut_leaves_a_flag_and_no_words() -> None:
    cut = {"value": "[Editor: value truncated for persistence; original 2097152 chars]"}
    whole = read(request(1, "Q", {"value": "Before. "}, cut, {"value": "After."}))
    assert whole.pairs == [("Q", "Before. After.")]
    assert whole.exchanges[0].flags == ("truncated",)
    assert whole.lines_skipped == {"value_truncated": 1}


def test_words_about_the_mark_stay() -> None:
    text = "Why does it say [Editor: value truncated for persistence; original 9 chars] there?"
    assert read(request(1, text)).pairs == [(text, "")]


def test_requests_undone_by_a_checkpoint_are_superseded() -> None:
    whole = read(
        request(1, "Keep", {"value": "Kept."}),
        request(2, "Undo", {"value": "Undone."}, shouldBeRemovedOnSend={"requestId": ID.format(2)}),
        request(3, "", {"value": ""}, isHidden=True),
        request(4, "Undo too", {"value": "Gone."}, isHidden=True),
        request(5, "Partly", {"value": "Partly."}, shouldBeRemovedOnSend={"requestId": "x", "afterUndoStop": "u1"}),
    )
    assert whole.pairs == [("Keep", "Kept."), ("Partly", "Partly.")]
    assert whole.superseded_keys == tuple(f"copilot-chat:{ID.format(number)}" for number in (4, 2))


def test_undone_requests_without_words_take_nobody_with_them() -> None:
    whole = read(request(1, "Keep", {"value": "Kept."}), request(2, " ", isHidden=True))
    assert whole.pairs == [("Keep", "Kept.")]
    assert whole.superseded_keys == ()


def test_old_ids_are_unique_in_their_session_only() -> None:
    [one] = read(request(1, "Q", requestId="request_5")).exchanges
    assert one.key == "copilot-chat:s1:request_5"


def test_old_messages_are_plain_text() -> None:
    old = {"message": "Hello", "response": [{"value": "Hi"}], "requestId": "request_0"}
    [one] = read(old, version=2, computedTitle="Greeting").exchanges
    assert (one.user_text, one.reply_text, one.started_at, one.time_quality) == ("Hello", "Hi", None, "none")


def test_a_confirmation_is_an_answer() -> None:
    [one] = read(request(1, "@agent Continue", confirmation="Continue")).exchanges
    assert one.user_kind == "answer"


def test_a_copy_in_another_workspace_has_the_same_keys() -> None:
    data = session(request(1, "Q", {"value": "A"}))
    other = PATH.replace("0a1b", "ffff")
    beside = Nearby({f"{ROOT}/workspace.json": {"folder": "file:///home/sam/one"}})
    here, there = read_bytes(SESSION, data, PATH, beside), read_bytes(SESSION, data, other, beside)
    assert [one.key for one in here.exchanges] == [one.key for one in there.exchanges]
    assert (here.sessions[0].cwd, there.sessions[0].cwd) == ("/home/sam/one", "")
    assert here.exchanges[0].cwd == "/home/sam/one"


def test_a_log_beside_tells_it_better() -> None:
    beside = Nearby({PATH: b"", f"{PATH}l": b""})
    whole = read_bytes(SESSION, session(request(1, "Q")), PATH, beside)
    assert (whole.exchanges, whole.lines_skipped) == ((), {"told_by_log": 1})


# --------------------------------------------------------------------------------------------------------- exports


def test_an_export_has_the_keys_of_the_session_that_it_was_made_from() -> None:
    path = DATA / "chat.json"
    head = head_of(path)
    assert EXPORT.sniff(head)
    assert not SESSION.sniff(head)
    assert registry.detect(str(path), head) is registry.by_name("vscode-chat-export")
    whole = read_file(EXPORT, path)
    assert whole.pairs == [("Why does the tide table start at noon?", "Because `START` is 12.")]
    assert whole.exchanges[0].key == f"copilot-chat:{ID.format(1)}"
    assert whole.sessions[0].session_id == f"export-{ID.format(1)}"
    assert EXPORT.is_secondary
    assert not SESSION.is_secondary
    assert_cuts_do_not_matter(EXPORT, path.read_bytes(), str(path))


# ------------------------------------------------------------------------------------------------- places and names


def test_default_directories_are_those_of_the_chats() -> None:
    linux = SESSION.default_dirs({}, "/home/sam", "linux")
    assert "/home/sam/.config/Code/User/workspaceStorage" in linux
    assert "/home/sam/.vscode-server/data/User/globalStorage/emptyWindowChatSessions" in linux
    mac = SESSION.default_dirs({}, "/Users/sam", "darwin")
    assert "/Users/sam/Library/Application Support/VSCodium/User/workspaceStorage" in mac
    windows = SESSION.default_dirs({"APPDATA": r"C:\R"}, r"C:\Users\sam", "win32")
    assert r"C:\R\Code - Insiders\User\globalStorage\transferredChatSessions" in windows
    assert EXPORT.default_dirs({}, "/home/sam", "linux") == ()


@pytest.mark.parametrize(
    ("path", "may_hold"),
    [
        (PATH, True),
        ("/u/globalStorage/emptyWindowChatSessions/x.json", True),
        (r"C:\u\workspaceStorage\a\chatSessions\x.json", True),
        (f"{ROOT}/workspace.json", False),
        (f"{ROOT}/chatEditingSessions/x/state.json", False),
        (f"{ROOT}/GitHub.copilot-chat/transcripts/x.json", False),
        (f"{PATH}l", False),
        ("x.json", False),
    ],
)
def test_only_files_right_in_a_chat_folder_are_looked_into(path: str, may_hold: bool) -> None:
    assert SESSION.may_hold(path) is may_hold
    assert not EXPORT.may_hold(path)


@pytest.mark.parametrize(
    "value",
    [
        {"requests": [], "sessionId": "x", "version": 3},
        {"responderUsername": "x", "version": 3},
        {"responderUsername": "x", "requests": [1], "version": 3},
        {"responderUsername": "x", "requests": [{"id": 1}], "version": 3},
        [{"responderUsername": "x", "requests": [], "version": 3}],
    ],
)
def test_other_documents_are_not_taken(value: object) -> None:
    assert not SESSION.sniff(document(value))
    assert not EXPORT.sniff(document(value))


@pytest.mark.parametrize("value", [None, [], {}, "x", {"requests": 3}, {"requests": [None, 1, [], "x"]}])
def test_an_unknown_shape_is_counted(value: object) -> None:
    whole = read_bytes(SESSION, document(value), PATH)
    assert whole.exchanges == ()
    assert set(whole.lines_skipped) <= {"unknown_shape"}


def test_damage_does_not_raise() -> None:
    parts = [{"value": "A"}, {"kind": "inlineReference", "inlineReference": {"path": "/x"}}, {"kind": "thinking"}]
    tool = {"kind": "toolInvocationSerialized", "toolId": "t", "toolSpecificData": {"commandLine": {"original": "x"}}}
    carousel = {
        "kind": "questionCarousel",
        "questions": [{"id": "q", "title": "Q"}],
        "data": {"q": {"selectedValue": "x"}},
    }
    data = session(
        request(
            1, "Q", *parts, tool, carousel, result={"timings": {"totalElapsed": 5}}, agent={"extensionVersion": "1"}
        ),
        request(2, "Q2", modelState={"value": 1, "completedAt": 1_762_883_670_000}, isHidden=True),
        repoData={"localBranch": "main"},
        customTitle="T",
    )
    assert_damage_does_not_raise(SESSION, data, PATH, Nearby({f"{ROOT}/workspace.json": {"folder": "file:///x"}}))
