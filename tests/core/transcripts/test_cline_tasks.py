"""Cline, Roo Code and Kilo Code: whose task a folder is, what the person saw, and what its model got."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.document_formats import Nearby, assert_damage_does_not_raise, claims_outside, document
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes, read_file
from support.line_formats import SHARED, head_of, needs_samples

from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.base import NOTHING_BESIDE
from palace_daemon.core.transcripts.cline.tasks import TASK_FORMATS, TaskFormat, owner_of
from palace_daemon.model import Attachment, ToolUse

MOVED_ROO, CLINE, ROO, KILO = TASK_FORMATS
DATA = Path(__file__).parents[2] / "data" / "transcripts" / "cline"
TASK = DATA / "tasks" / "1770100000000"
ROO_SAMPLES = SHARED / "roo-code"
USER = "/home/sam/.config/Code/User/globalStorage"
PATH = f"{USER}/saoudrizwan.claude-dev/tasks/77/ui_messages.json"
HISTORY = PATH.replace("ui_messages", "api_conversation_history")


def say(stamp: int, kind: str, text: str = "", **more: Any) -> dict[str, Any]:
    return {"ts": 1_770_100_000_000 + stamp, "type": "say", "say": kind, "text": text, **more}


def ask(stamp: int, kind: str, text: str = "", **more: Any) -> dict[str, Any]:
    return {"ts": 1_770_100_000_000 + stamp, "type": "ask", "ask": kind, "text": text, **more}


def read(*messages: Any, path: str = PATH, beside: Beside = NOTHING_BESIDE) -> Whole:
    data = document(list(messages))
    assert_cuts_do_not_matter(CLINE, data, path, beside)
    return read_bytes(CLINE, data, path, beside)


def model(role: str, *blocks: Any, **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    return {"role": role, "content": content, **more}


# ---------------------------------------------------------------------------------------------------- real samples


@pytest.mark.shared
@pytest.mark.skipif(not ROO_SAMPLES.is_dir(), reason="the real transcripts are absent")
def test_a_real_condensed_task_keeps_its_task_and_all_eight_remarks() -> None:
    path = ROO_SAMPLES / "natural-already-condensed" / "ui_messages.json"
    assert registry.detect(str(path), head_of(path)) is ROO
    whole = read_file(ROO, path)
    starts = [
        "Bonjour. Ta mission est de r\u00e9aliser",
        "Je viens de reconnecter Qdrant",
        "Utilise quickfiles pour explorer",
        "Je pense qu'\u00e0 un moment",
        "Ah non c'est indigne d'un Ask",
        "Je t'ai donn\u00e9 un r\u00e9pertoire",
        "> Je pense qu'\u00e0 un moment",
        "J'aimerais que tu utiliser roo-state-manager",
        "Inclue tous les d\u00e9tails dans ton r\u00e9sum\u00e9",
    ]
    texts = [one.user_text for one in whole.exchanges]
    assert len(texts) == len(starts)
    assert all(text.startswith(start) for text, start in zip(texts, starts, strict=True))
    assert [one.status for one in whole.exchanges] == [
        *("interrupted", "complete", "complete", "complete", "interrupted", "interrupted", "complete", "complete"),
        "complete",
    ]
    # Marked as streaming for ever: it is the end of its turn all the same.
    assert whole.exchanges[6].reply_text.endswith("La solution est architecturalement solide,")
    assert whole.exchanges[0].tools == (
        ToolUse(name="updateTodoList"),
        ToolUse(name="search_in_files", target="quickfiles"),
        ToolUse(name="codebaseSearch", target="ChatTextArea.tsx component implementation state props hooks react"),
    )
    assert whole.sessions[0].cwd == "c:/dev/roo-code"
    assert whole.lines_skipped["say:api_req_started"] == 32
    assert whole.lines_skipped["thinking"] == 19
    assert whole.lines_skipped["say:condense_context"] == 1
    assert whole.exchanges[0].key == "roo-code:natural-already-condensed:1758817513677"
    assert not any("environment_details" in one.reply_text + one.user_text for one in whole.exchanges)


@pytest.mark.shared
@pytest.mark.skipif(not ROO_SAMPLES.is_dir(), reason="the real transcripts are absent")
@pytest.mark.parametrize(
    ("task", "prompt", "status", "texts", "tools"),
    [
        ("187700e7-7712-4d52-a24b-f4882ca71ef9", "test2", "interrupted", 4, 4),
        ("6a716972-c33f-444f-a8f2-613f03410ace", "test", "complete", 2, 0),
        ("eaece8cc-d874-4e46-9330-52d772f31492", "@problems", "interrupted", 1, 1),
    ],
)
def test_real_short_tasks(task: str, prompt: str, status: str, texts: int, tools: int) -> None:
    path = ROO_SAMPLES / task / "ui_messages.json"
    whole = read_file(ROO, path)
    [one] = whole.exchanges
    messages = json.loads(path.read_bytes())
    said = [message["text"] for message in messages if message.get("say") in ("text", "completion_result")]
    assert one.reply_text == "\n\n".join(said[1:])
    assert (one.user_text, one.status, len(said) - 1, len(one.tools)) == (prompt, status, texts, tools)
    assert one.cwd == "f:/Develop/project/tools/Roo-Code"
    assert_cuts_do_not_matter(ROO, path.read_bytes(), str(path))


@pytest.mark.shared
@pytest.mark.skipif(not ROO_SAMPLES.is_dir(), reason="the real transcripts are absent")
def test_a_real_model_history_gives_the_task_the_remark_and_no_output() -> None:
    path = ROO_SAMPLES / "natural-mini-uncondensed" / "api_conversation_history.json"
    whole = read_file(ROO, path)
    first, second = whole.exchanges
    assert first.user_text.startswith("# R\u00e9daction des r\u00e9ponses aux commentaires de review - PR #8438")
    assert first.user_text.endswith("(c'est une PR sur un projet international).")
    assert first.reply_text == (
        "Je vais d'abord v\u00e9rifier l'historique des commits r\u00e9cents pour obtenir les hash corrects, "
        "puis r\u00e9diger toutes les r\u00e9ponses.\n\n"
        "Je vais lire les fichiers pour voir les modifications r\u00e9centes et r\u00e9diger les r\u00e9ponses "
        "appropri\u00e9es."
    )
    assert [tool.name for tool in first.tools] == ["execute_command", *["read_file"] * 6]
    assert first.tools[1].target == "webview-ui/src/hooks/useAutosaveDraft.ts"
    assert second.user_text == "Lis les fichiers en entier stp"
    assert second.status == "complete"
    assert second.reply_text.endswith("Descriptions techniques pr\u00e9cises de ce qui a \u00e9t\u00e9 corrig\u00e9")
    assert "<result>" not in second.reply_text
    assert (first.started_at, first.cwd) == (1759331561984, "c:/dev/roo-code")
    assert whole.lines_skipped == {"environment": 10, "tool_output": 7, "injected_context": 1}
    assert_cuts_do_not_matter(ROO, path.read_bytes(), str(path))


@pytest.mark.shared
@pytest.mark.skipif(not ROO_SAMPLES.is_dir(), reason="the real transcripts are absent")
def test_a_real_long_model_history_is_one_exchange() -> None:
    path = ROO_SAMPLES / "heavy-uncondensed" / "api_conversation_history.json"
    whole = read_file(ROO, path)
    [one] = whole.exchanges
    assert one.user_text.startswith("Bonjour. Ta mission est de finaliser l'optimisation")
    assert one.user_text.endswith("toute autre instruction g\u00e9n\u00e9rale.")
    assert one.status == "complete"
    assert len(one.tools) == 26
    assert one.tools[3] == ToolUse(name="list_directory_contents", target="quickfiles")
    assert not re.search(r"^</?(?:write_to_file|use_mcp_tool|todos|result)>", one.reply_text, re.MULTILINE)
    assert whole.lines_skipped == {"environment": 27, "tool_output": 26}


@pytest.mark.shared
@pytest.mark.skipif(not ROO_SAMPLES.is_dir(), reason="the real transcripts are absent")
def test_each_real_file_is_recognised_and_nobody_elses() -> None:
    for known in TASK_FORMATS:
        assert claims_outside(known, "cline", "roo-code") == []
    for folder, expected in (("cline", CLINE), ("roo-code", ROO)):
        for path in sorted((SHARED / folder).rglob("*.json")):
            found = registry.detect(str(path), head_of(path))
            if path.name == "ui_messages.json":
                assert found is expected, path
            elif path.name != "api_conversation_history.json" and not path.match("sdk/*/*"):
                assert found is None, path


@pytest.mark.parametrize("path", [pytest.param("cline/ctx/tasks/cline-task-1", marks=needs_samples)])
def test_the_projects_of_cline_tasks_are_in_its_list(path: str) -> None:
    whole = read_file(CLINE, SHARED / path / "ui_messages.json")
    assert (whole.sessions[0].session_id, whole.sessions[0].cwd) == ("cline-task-1", "/workspace/cline-fixture")


# --------------------------------------------------------------------------------------------- what the person saw


def test_a_hand_made_task_is_read_as_it_was_seen() -> None:
    path = TASK / "ui_messages.json"
    whole = read_file(CLINE, path)
    assert whole.pairs == [
        ("Add a moon phase column", "I will read the table first.\n\nWhich phase names?"),
        ("English", "Short or long?"),
        ("Short ones", "The column is in."),
        ("Now sort by phase", "I would sort in `rows()`."),
    ]
    first, chosen, answered, last = whole.exchanges
    assert [one.user_kind for one in whole.exchanges] == ["prompt", "answer", "answer", "prompt"]
    assert [one.status for one in whole.exchanges] == ["complete", "complete", "complete", "interrupted"]
    assert first.tools == (ToolUse(name="readFile", target="table.py"),)
    assert answered.tools == (ToolUse(name="execute_command", target="pytest -q"),)
    assert first.attachments == (Attachment(kind="image", size_bytes=22),)
    assert (first.key, chosen.key) == (
        "cline:1770100000000:1770100000000",
        "cline:1770100000000:1770100004000:selected",
    )
    assert (first.started_at, first.time_quality, last.started_at) == (1770100000000, "exact", 1770100010000)
    assert whole.sessions[0].cwd == "/home/sam/tides and moons"
    assert whole.lines_skipped == {
        "say:api_req_started": 1,
        "thinking": 1,
        "partial": 1,
        "say:command_output": 1,
    }
    assert [one.line_start for one in whole.exchanges] == sorted(one.line_start for one in whole.exchanges)
    assert_cuts_do_not_matter(CLINE, path.read_bytes(), str(path))


def test_an_entry_that_streams_for_ever_counts_and_one_whose_whole_follows_does_not() -> None:
    whole = read(
        say(0, "text", "Go"),
        say(1, "text", "Half of", partial=True),
        say(1, "text", "Half of it"),
        say(2, "completion_result", "Never ended", partial=True),
    )
    assert whole.pairs == [("Go", "Half of it\n\nNever ended")]
    assert whole.lines_skipped == {"partial": 1}


def test_entries_of_one_millisecond_are_all_kept() -> None:
    whole = read(
        say(0, "task", "Go"),
        say(1, "text", "A"),
        say(1, "text", "B"),
        say(2, "user_feedback", "x"),
        say(2, "user_feedback", "y"),
    )
    assert whole.pairs == [("Go", "A\n\nB"), ("x", ""), ("y", "")]
    assert len({one.key for one in whole.exchanges}) == 3


def test_a_question_cut_while_it_streamed_is_counted() -> None:
    whole = read(say(0, "text", "Go"), ask(1, "followup", '{"question": "Wh', partial=True))
    assert whole.pairs == [("Go", "")]
    assert whole.lines_skipped == {"malformed": 1}


def test_old_questions_are_plain_text() -> None:
    whole = read(say(0, "text", "Go"), ask(1, "followup", "Which one?"), say(2, "user_feedback", "This"))
    assert whole.pairs == [("Go", "Which one?"), ("This", "")]
    assert whole.exchanges[1].user_kind == "answer"


def test_a_remark_after_a_tool_is_no_answer_to_an_older_question() -> None:
    whole = read(
        say(0, "text", "Go"),
        ask(1, "followup", "Which one?"),
        ask(2, "tool", '{"tool": "editedExistingFile", "path": "a.py", "diff": "SECRET"}'),
        say(3, "user_feedback", "Not there"),
    )
    assert [one.user_kind for one in whole.exchanges] == ["prompt", "prompt"]
    assert whole.exchanges[0].tools == (ToolUse(name="editedExistingFile", target="a.py"),)


def test_the_first_text_is_the_task_only_where_nothing_stands_before() -> None:
    assert read(say(0, "text", "Task"), say(1, "text", "Reply")).pairs == [("Task", "Reply")]
    assert read(say(0, "task", "Task"), say(1, "text", "Reply")).pairs == [("Task", "Reply")]
    assert read(ask(0, "tool", '{"tool": "readFile"}'), say(1, "text", "Reply")).pairs == [("", "Reply")]


def test_a_task_that_another_task_began_is_automated() -> None:
    folder = PATH.rpartition("/")[0]
    item = {"id": "77", "workspace": "/home/sam/tides", "parentTaskId": "76"}
    whole = read(
        say(0, "text", "Do part"), say(1, "user_feedback", "Stop"), beside=Nearby({f"{folder}/history_item.json": item})
    )
    assert [one.user_kind for one in whole.exchanges] == ["automated", "prompt"]
    [told] = whole.sessions
    assert (told.parent_session_id, told.relation, told.cwd, told.is_automated) == (
        "76",
        "subagent",
        "/home/sam/tides",
        True,
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("77/history_item.json", {"workspace": "/home/sam/tides"}),
        ("_index.json", {"entries": [{"id": "1", "workspace": "/no"}, {"id": "77", "workspace": "/home/sam/tides"}]}),
        ("../state/taskHistory.json", [{"id": "77", "cwdOnTaskInitialization": "/home/sam/tides"}]),
        (
            "77/api_conversation_history.json",
            b'[{"text": "# Current Working Directory (/home/sam/tides) Files\\n.env"}]',
        ),
    ],
)
def test_the_project_is_told_by_files_around(name: str, content: object) -> None:
    tasks = f"{USER}/saoudrizwan.claude-dev/tasks"
    path = f"{tasks}/{name}" if not name.startswith("../") else f"{tasks.rpartition('/')[0]}/{name[3:]}"
    whole = read(say(0, "text", "Go"), beside=Nearby({path: content}))
    assert whole.sessions[0].cwd == "/home/sam/tides"


def test_the_environment_of_the_first_request_tells_the_project_and_is_no_text() -> None:
    request = json.dumps(
        {"request": "<environment_details>\n# Current Workspace Directory (C:\\dev\\a (b)) Files\n.env"}
    )
    whole = read(say(0, "text", "Go"), say(1, "api_req_started", request))
    assert whole.sessions[0].cwd == "C:\\dev\\a (b)"
    assert whole.pairs == [("Go", "")]


# ---------------------------------------------------------------------------------------------- what the model got


def test_the_history_is_passed_over_where_the_other_file_is() -> None:
    whole = read_file(CLINE, TASK / "api_conversation_history.json")
    assert (whole.exchanges, whole.lines_skipped) == ((), {"told_by:ui_messages": 1})
    old = Nearby({HISTORY: b"", HISTORY.replace("api_conversation_history", "claude_messages"): [say(0, "text", "x")]})
    told = read_bytes(CLINE, document([model("user", "<task>x</task>")]), HISTORY, old)
    assert told.lines_skipped == {"told_by:claude_messages": 1}


def test_words_in_tags_are_taken_and_what_goes_with_them_is_not() -> None:
    environment = "<environment_details>\n# VSCode Open Tabs\n.env\n</environment_details>"
    denied = (
        "The user denied this operation and provided the following feedback:\n<feedback>\nNot that file\n</feedback>"
    )
    whole = read(
        model("user", "<task>\nFix it\n</task>", environment, {"type": "image", "source": {}}, ts=1_770_100_000_000),
        model("assistant", "<thinking>hm</thinking>\nI look.\n\n<read_file>\n<path>a.py</path>\n</read_file>"),
        model("user", "[read_file for 'a.py'] Result:", "<feedback>\nquoted in a file\n</feedback> x", environment),
        model(
            "assistant",
            "<write_to_file>\n<path>b.py</path>\n<content>\n<feedback>no</feedback>\n</content>\n</write_to_file>",
        ),
        model("user", f"[write_to_file for 'b.py'] Result:\n\n{denied}"),
        model(
            "assistant",
            "<ask_followup_question>\n<question>Which?</question>\n<suggest>a</suggest>\n</ask_followup_question>",
        ),
        model("user", "[ask_followup_question for 'Which?'] Result:", "<answer>\na.py\n</answer>"),
        model(
            "assistant",
            {"type": "reasoning", "text": "x"},
            "<attempt_completion>\n<result>\nDone.\n</result>\n</attempt_completion>",
        ),
        model(
            "user",
            "[TASK RESUMPTION] This task was interrupted.\n\n"
            "New instructions for task continuation:\n<user_message>\nGo on\n</user_message>",
        ),
        model("user", "[ERROR] You did not use a tool in your previous response!"),
        path=HISTORY,
    )
    assert whole.pairs == [
        ("Fix it", "I look."),
        ("Not that file", "Which?"),
        ("a.py", "Done."),
        ("Go on", ""),
    ]
    assert [one.user_kind for one in whole.exchanges] == ["prompt", "rejection", "answer", "prompt"]
    assert [one.status for one in whole.exchanges] == ["complete", "complete", "complete", "open"]
    assert [tool.target for tool in whole.exchanges[0].tools] == ["a.py", "b.py"]
    assert whole.exchanges[0].key == "cline:77:1770100000000"
    assert whole.exchanges[0].attachments == (Attachment(kind="image"),)
    assert whole.exchanges[1].started_at is None
    assert whole.lines_skipped == {"environment": 2, "tool_output": 1, "thinking": 2, "injected_context": 1}


def test_summaries_and_marks_of_a_condensation_are_skipped_and_hidden_originals_kept() -> None:
    whole = read(
        model("user", "<task>Fix it</task>", condenseParent="c1"),
        model("assistant", "Looking.", condenseParent="c1"),
        model("assistant", "Summary of all", isSummary=True, condenseId="c1"),
        model("user", "cut here", isTruncationMarker=True),
        model("assistant", "Fixed."),
        path=HISTORY,
    )
    assert whole.pairs == [("Fix it", "Looking.\n\nFixed.")]
    assert whole.lines_skipped == {"compaction_summary": 2}


def test_native_calls_and_their_results() -> None:
    said = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [
            {
                "type": "text",
                "text": "The user approved this operation and provided the following context:\n"
                "<feedback>\nAll of it\n</feedback>\nOUTPUT",
            }
        ],
    }
    whole = read(
        model("user", "Plain words"),
        model("assistant", {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a.py"}}),
        model("user", said, {"type": "tool_result", "tool_use_id": "t1", "content": "<feedback>x"}),
        model(
            "assistant", {"type": "tool_use", "id": "t2", "name": "attempt_completion", "input": {"result": "Done."}}
        ),
        path=HISTORY,
    )
    assert whole.pairs == [("Plain words", ""), ("All of it", "Done.")]
    assert whole.exchanges[0].tools == (ToolUse(name="read_file", target="a.py"),)
    assert whole.exchanges[1].tools == ()
    assert whole.exchanges[1].status == "complete"


# ------------------------------------------------------------------------------------------------- places and names


@pytest.mark.parametrize(
    ("path", "owner", "known"),
    [
        (f"{USER}/saoudrizwan.claude-dev/tasks/1/ui_messages.json", "cline", CLINE),
        ("/home/sam/.cline/data/tasks/1/ui_messages.json", "cline", CLINE),
        (f"{USER}/rooveterinaryinc.roo-cline/tasks/1/ui_messages.json", "roo-code", ROO),
        (f"{USER}/kilocode.kilo-code/tasks/1/claude_messages.json", "kilo-code", KILO),
        (r"C:\x\rooveterinaryinc.roo-cline\tasks\1\ui_messages.json", "roo-code", ROO),
        ("/srv/app/.roocode/tasks/1/ui_messages.json", "roo-code", ROO),
        ("/root/tasks/1/ui_messages.json", "", CLINE),
        ("/home/sam/classroom/1/ui_messages.json", "", CLINE),
    ],
)
def test_the_folder_tells_whose_task_it_is(path: str, owner: str, known: TaskFormat) -> None:
    head = document([say(0, "text", "Go")])
    assert owner_of(path) == owner
    assert registry.detect(path, head) is known
    holders = [one for one in (CLINE, ROO, KILO) if one.may_hold(path)]
    assert holders == [known]
    assert known.open(path, lambda text: text).feed(head).exchanges[0].agent == known.agent


def test_a_task_in_a_foreign_place_is_known_by_what_only_roo_code_writes() -> None:
    messages = [say(0, "text", "Go"), say(1, "condense_context", "")]
    found = registry.detect("/srv/tasks/1/ui_messages.json", document(messages))
    assert found is MOVED_ROO
    assert (found.agent, found.default_dirs({}, "/home/sam", "linux")) == ("roo-code", ())


@pytest.mark.parametrize(
    "name", ["task_metadata.json", "history_item.json", "context_history.json", "_index.json", "settings.json"]
)
def test_what_lies_beside_is_not_looked_into(name: str) -> None:
    assert not any(known.may_hold(f"{USER}/kilocode.kilo-code/tasks/1/{name}") for known in TASK_FORMATS)


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"type": "say"},
        [1],
        [{"role": "user", "content": "hello"}],
        [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
        [{"role": "system", "content": "<task>"}],
        [{"type": "say", "say": "text"}],
        [{"type": "say", "say": 3, "ts": 1}],
        [{"type": "message", "ts": "1", "text": "slack"}],
    ],
)
def test_other_documents_are_not_taken(value: object) -> None:
    assert not any(known.sniff(document(value)) for known in TASK_FORMATS)


def test_default_directories_are_the_extensions_own() -> None:
    assert f"{USER}/saoudrizwan.claude-dev/tasks" in CLINE.default_dirs({}, "/home/sam", "linux")
    assert "/home/sam/.cline/data/tasks" in CLINE.default_dirs({}, "/home/sam", "linux")
    assert "/home/sam/.vscode-server/data/User/globalStorage/rooveterinaryinc.roo-cline/tasks" in (
        ROO.default_dirs({}, "/home/sam", "linux")
    )
    mac = KILO.default_dirs({}, "/Users/sam", "darwin")
    assert "/Users/sam/Library/Application Support/VSCodium/User/globalStorage/kilocode.kilo-code/tasks" in mac
    windows = CLINE.default_dirs({"USERPROFILE": r"C:\Users\sam"}, "x", "win32")
    assert r"C:\Users\sam\AppData\Roaming\Cursor\User\globalStorage\saoudrizwan.claude-dev\tasks" in windows
    assert r"C:\Users\sam\.cline\data\tasks" in windows


def test_damage_does_not_raise() -> None:
    beside = Nearby({HISTORY.replace("api_conversation", "x"): b"", f"{PATH.rpartition('/')[0]}/history_item.json": []})
    messages = json.loads((TASK / "ui_messages.json").read_bytes())
    assert_damage_does_not_raise(CLINE, document(messages), PATH, beside)
    history = [
        model(
            "user",
            "<task>Fix</task>",
            {"type": "tool_result", "content": [{"type": "text", "text": "x"}]},
            ts=1_770_100_000_000,
        ),
        model(
            "assistant",
            "Hi\n<read_file>\n<path>a</path>\n</read_file>",
            {"type": "tool_use", "name": "x", "input": {"path": "a"}},
        ),
    ]
    assert_damage_does_not_raise(CLINE, document(history), HISTORY, beside)
