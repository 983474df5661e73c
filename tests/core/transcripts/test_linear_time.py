"""The time that a text takes grows as its size does, whatever stands in it: hostile texts for every format.

Measured in CPU time as a ratio of two sizes, so that neither the machine's speed nor its load decides.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.base import NOTHING_BESIDE
from palace_daemon.core.transcripts.claude_code.words import read_tool_result
from palace_daemon.core.transcripts.cline.facts import read_task

FACTOR = 4
RATIO_MAX = 10  # in proportion it is 4, with the square of the size 16
CHARS = 10_000
ENOUGH_SECONDS = 0.004
"""What takes less than this even at the larger size shows no growth, and does no harm."""

AT = "2026-02-02T10:00:00.000Z"
STAMP = 1_770_000_000_000
CLINE_FOLDER = "/h/.config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/7"
Build = Callable[[str, str], bytes]


def lines_of(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def blocks(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def claude(user: str, reply: str, **more: Any) -> bytes:
    head = {"sessionId": "s", "timestamp": AT, "cwd": "/w", "version": "1", "isSidechain": False, **more}
    return lines_of(
        {**head, "type": "user", "uuid": "u1", "message": {"role": "user", "content": user}},
        {**head, "type": "assistant", "uuid": "u2", "parentUuid": "u1",
         "message": {"id": "m", "role": "assistant", "content": blocks(reply)}},
    )  # fmt: skip


def codex(user: str, reply: str) -> bytes:
    def item(role: str, kind: str, text: str) -> dict[str, Any]:
        payload = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
        return {"timestamp": AT, "type": "response_item", "payload": payload}

    meta = {"timestamp": AT, "type": "session_meta", "payload": {"id": "s", "cwd": "/w", "timestamp": AT}}
    return lines_of(meta, item("user", "input_text", user), item("assistant", "output_text", reply))


def cursor_lines(user: str, reply: str) -> bytes:
    return lines_of(*({"role": role, "message": {"content": blocks(text)}} for role, text in pairs(user, reply)))


def pairs(user: str, reply: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("user", user), ("assistant", reply)


def cursor_rows(user: str, reply: str) -> bytes:
    return lines_of(
        {"record": "composer", "id": "c", "created": STAMP},
        {"record": "bubble", "id": "a", "type": 1, "text": user},
        {"record": "bubble", "id": "b", "type": 2, "text": reply},
    )


def cursor_store(user: str, reply: str) -> bytes:
    rows = ({"record": "message", "id": role, "role": role, "data": json.dumps(blocks(f"<user_info>{text}"))}
            for role, text in pairs(user, reply))  # fmt: skip
    return lines_of(*rows)


def document_of(value: Any) -> bytes:
    return json.dumps(value).encode()


def cline_ui(user: str, reply: str) -> bytes:
    texts = (("task", user), ("text", reply), ("completion_result", reply), ("api_req_started", user))
    return document_of([{"ts": STAMP + n, "type": "say", "say": k, "text": t} for n, (k, t) in enumerate(texts)])


def cline_history(user: str, reply: str) -> bytes:
    made = [{"role": role, "content": blocks(text)} for role, text in pairs(user, reply)]
    answered = {"role": "user", "content": blocks(f"[ask_followup_question for 'x'] Result:\n\n{user}")}
    approved = f"The user approved this operation\n<feedback>{user}"
    return document_of([*made, answered, {"role": "user", "content": blocks(approved)}])


def cline_messages(user: str, reply: str) -> bytes:
    made = [{"id": r, "role": r, "content": blocks(t), "ts": STAMP} for r, t in pairs(user, reply)]
    return document_of({"version": 1, "updated_at": AT, "agent": "lead", "sessionId": "s", "messages": made})


def chatgpt(user: str, reply: str) -> bytes:
    def node(name: str, parent: str | None, role: str, text: str) -> dict[str, Any]:
        content = {"content_type": "text", "parts": [text]}
        message = {"author": {"role": role}, "content": content, "create_time": 1_770_000_000}
        return {"id": name, "parent": parent, "children": [], "message": message}

    nodes = {"a": node("a", None, "user", user), "b": node("b", "a", "assistant", reply)}
    return document_of([{"title": "T", "mapping": nodes, "conversation_id": "c", "current_node": "b"}])


def claude_ai(user: str, reply: str) -> bytes:
    told = [{"uuid": s, "sender": s, "text": t, "created_at": AT} for s, t in (("human", user), ("assistant", reply))]
    return document_of([{"uuid": "c", "name": "T", "chat_messages": told}])


def slack(user: str, reply: str) -> bytes:
    told = [{"type": "message", "user": u, "text": t, "ts": f"177000000{n}.000100"}
            for n, (u, t) in enumerate((("U1", user), ("U2", reply)))]  # fmt: skip
    return document_of(told)


def gemini(user: str, reply: str) -> bytes:
    told = [{"id": r, "timestamp": AT, "type": r, "content": t} for r, t in (("user", user), ("gemini", reply))]
    return document_of({"sessionId": "s", "projectHash": "p", "startTime": AT, "lastUpdated": AT, "messages": told})


def qwen(user: str, reply: str) -> bytes:
    head = {"sessionId": "s", "timestamp": AT, "cwd": "/w"}
    return lines_of(
        {**head, "type": "user", "uuid": "u1", "message": {"role": "user", "parts": [{"text": user}]}},
        {**head, "type": "assistant", "uuid": "u2", "message": {"role": "model", "parts": [{"text": reply}]}},
    )


def copilot(user: str, reply: str) -> bytes:
    return lines_of(
        {"type": "session.start", "id": "e1", "timestamp": AT, "data": {"sessionId": "s"}},
        {"type": "user.message", "id": "e2", "timestamp": AT, "data": {"content": user}},
        {"type": "assistant.message", "id": "e3", "timestamp": AT, "data": {"messageId": "m", "content": reply}},
    )


def vscode(user: str, reply: str) -> bytes:
    tool = {"kind": "toolInvocationSerialized", "toolId": "t", "invocationMessage": {"value": reply}}
    request = {"requestId": "r", "message": {"text": user}, "response": [{"value": reply}, tool], "timestamp": STAMP}
    return document_of({"version": 3, "sessionId": "s", "creationDate": STAMP, "requests": [request]})


def kimi(user: str, reply: str) -> bytes:
    content = [{"type": "text", "text": user}]
    event = {"type": "content.part", "stepUuid": "s", "part": {"type": "text", "text": reply}}
    return lines_of(
        {"type": "turn.prompt", "input": content, "origin": {"kind": "user"}, "time": STAMP},
        {"type": "context.append_loop_event", "event": event, "time": STAMP},
    )


def antigravity(user: str, reply: str) -> bytes:
    return lines_of(
        {"step_index": 0, "type": "USER_INPUT", "source": "USER", "status": "DONE", "created_at": AT, "content": user},
        {"step_index": 1, "type": "PLANNER_RESPONSE", "status": "DONE", "created_at": AT, "content": reply},
    )


def iflow(user: str, reply: str) -> bytes:
    return claude(user, reply)


def aider(user: str, reply: str) -> bytes:
    header = "# aider chat started at 2026-03-02 09:00:00\n\n> Aider v0.86.2  \n\n"
    prompt = "\n".join(f"#### {line}  " for line in user.split("\n"))
    return f"{header}{prompt}\n\n{reply}\n\n> Tokens: 1 sent, 1 received.  \n".encode()


def specstory(user: str, reply: str) -> bytes:
    head = "<!-- Generated by SpecStory -->\n\n"
    title = user.replace("\n", " ")
    return f"{head}# {title}\n\n_**User**_\n\n{user}\n\n---\n\n_**Assistant**_\n\n{reply}\n\n---\n".encode()


def plain(user: str, reply: str) -> bytes:
    return f"User: {user}\n\nAssistant: {reply}\n\nUser: q\n\nAssistant: a\n".encode()


def cursor_text(user: str, reply: str) -> bytes:
    return f"user:\n<user_query>\n{user}\n</user_query>\n\nassistant:\n[Thinking] x\n{reply}\n".encode()


def cursor_markdown(user: str, reply: str) -> bytes:
    head = "# T\n_Exported on 7/8/2025 from Cursor (1.2.3)_\n\n"
    return f"{head}---\n\n**User**\n\n{user}\n\n---\n\n**Cursor**\n\n{reply}\n".encode()


FORMATS: dict[str, tuple[Build, str]] = {
    "claude-code-jsonl": (claude, "/h/.claude/projects/p/s.jsonl"),
    "iflow-jsonl": (iflow, "/h/.iflow/projects/p/session-s.jsonl"),
    "codex-jsonl": (codex, "/h/.codex/sessions/rollout-s.jsonl"),
    "cursor-jsonl": (cursor_lines, "/h/.cursor/projects/p/agent-transcripts/s/s.jsonl"),
    "cursor-db": (cursor_rows, "/h/globalStorage/state.vscdb!/c"),
    "cursor-store-db": (cursor_store, "/h/.cursor/chats/w/c/store.db!/chat"),
    "cursor-text": (cursor_text, "/h/.cursor/projects/p/agent-transcripts/s.txt"),
    "cursor-markdown": (cursor_markdown, "/h/cursor_talk.md"),
    "cline-task": (cline_ui, f"{CLINE_FOLDER}/ui_messages.json"),
    "cline-task history": (cline_history, f"{CLINE_FOLDER}/api_conversation_history.json"),
    "cline-messages": (cline_messages, "/h/.cline/data/sessions/s/s.messages.json"),
    "chatgpt-export": (chatgpt, "/h/conversations.json"),
    "claude-ai-export": (claude_ai, "/h/conversations.json"),
    "slack-export": (slack, "/h/export/general/2026-02-02.json"),
    "gemini-json": (gemini, "/h/.gemini/tmp/p/chats/session-s.json"),
    "qwen-code-jsonl": (qwen, "/h/.qwen/projects/p/chats/s.jsonl"),
    "copilot-cli-jsonl": (copilot, "/h/.copilot/session-state/s/events.jsonl"),
    "vscode-chat-json": (vscode, "/h/workspaceStorage/w/chatSessions/s.json"),
    "kimi-wire-jsonl": (kimi, "/h/.kimi-code/sessions/w/s/agents/main/wire.jsonl"),
    "antigravity-jsonl": (antigravity, "/h/brain/s/.system_generated/logs/transcript_full.jsonl"),
    "aider-history": (aider, "/h/.aider.chat.history.md"),
    "specstory-markdown": (specstory, "/h/.specstory/history/2026-02-02_10-00-00Z-x.md"),
    "plain-text": (plain, "/h/talk.txt"),
}

HOSTILE = {
    "blanks": ("x", " ", "y"),
    "empty lines": ("x", "\n", "y"),
    "blank lines": ("x", " \n", "y"),
    "query and blanks": ("<USER_REQUEST>", " ", "x"),
    "image list": ("<image_files>", "\n", "</image_files>\n<user_query>x</user_query>"),
    "image lists": ("<rules>", "<image_files>", "</rules>\n<user_query>x</user_query>"),
    "workspace path": ("Workspace Path: a", " ", "b"),
    "directories": ("", "# Current Working Directory (", ""),
    "thinking": ("", "<thinking>\n", ""),
    "thinking inside a line": ("x", "<thinking>", ""),
    "think": ("", "<think>", ""),
    "task": ("", "<task>\n", ""),
    "task in a line": ("", "<task>", "x"),
    "feedback closed": ("<feedback>", "</feedback>", "x"),
    "resumption": ("[TASK RESUMPTION] ", "<answer>", ""),
    "environment": ("x", "<environment_details>", ""),
    "notices": ("x", "<SYSTEM_NOTICE>", ""),
    "interrupted": ("x", "[Response interrupted by ", ""),
    "call results": ("", "[read_file for 'x", "] Result:"),
    "calls": ("", "<write_to_file>\n<path>\n", ""),
    "calls in a fence": ("```\n", "<read_file>\n<path>x</path>\n", "</read_file>"),
    "reasoning of aider": ("", "\u25ba **THINKING**\n", ""),
    "reasoning with a hash": ("", "<thinking-content-0a>\n", ""),
    "errors of aider": ("", "> APIAPI", "x  \n"),
    "fences": ("", "```\n", ""),
    "long fence": ("", "`", "x"),
    "citations": ("x", "<oai-mem-citation>", ""),
    "sources": ("x", "\u30104\u2020", ""),
    "spans": ("x", " \ue200cite\ue202", ""),
    "links": ("x", "[", ""),
    "linked files": ("x", "[a](file://", ""),
    "marks of people": ("x", "<@", ""),
    "summaries": ("<details>", "<summary>Tool use: **a** \u2022 ", ""),
    "tool blocks": ("", '<tool-use data-tool-type="x">\n', ""),
    "rules": ("", "---\n", ""),
    "commands of cursor": ("", "--- Cursor Command: x\n", ""),
    "queries": ("<user_query>", "</user_query>\n<user_query>", ""),
    "context": ("", "<rules>", ""),
    "reminders": ("", "<system-reminder>", ""),
    "command tags": ("<command-name>", "<command-args>", "</command-name>"),
    "environment context": ("", "<environment_context>", ""),
    "quotes": ("", "> a\n", ""),
    "headings": ("", "#### a  \n", ""),
}


def cpu_seconds(run: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(2):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
        if best < ENOUGH_SECONDS:
            break
    return best


def text_of(hostile: tuple[str, str, str], chars: int) -> str:
    begin, repeated, end = hostile
    return begin + repeated * (chars // len(repeated)) + end


def read(name: str, text: str, as_user: bool) -> int:
    build, path = FORMATS[name]
    data = build(text, "reply") if as_user else build("prompt", text)
    known = registry.by_name(name.partition(" ")[0])
    assert known is not None
    parser = known.open(path, lambda words: words)
    results = [parser.feed(data), parser.take_tail(), parser.finish()]
    known.sniff(data[: registry.HEAD_BYTES])
    return sum(len(result.exchanges) for result in results)


@pytest.mark.parametrize("name", FORMATS)
def test_a_sample_of_the_format_is_read(name: str) -> None:
    assert read(name, "words", as_user=True) >= 1


@pytest.mark.parametrize("as_user", [True, False], ids=["prompt", "reply"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_hostile_text_takes_time_in_proportion_to_its_size(name: str, as_user: bool) -> None:
    slow = {}
    for kind, hostile in HOSTILE.items():
        small, large = text_of(hostile, CHARS), text_of(hostile, CHARS * FACTOR)
        above = cpu_seconds(partial(read, name, large, as_user))
        if above < ENOUGH_SECONDS:
            continue
        ratio = above / max(cpu_seconds(partial(read, name, small, as_user)), 1e-6)
        if ratio >= RATIO_MAX:
            slow[kind] = round(ratio, 1)
    assert slow == {}


def test_blanks_in_an_answer_take_time_in_proportion() -> None:
    def look(count: int) -> object:
        return read_tool_result(f"User has answered your questions: x{' ' * count}y", lambda: None)

    above = cpu_seconds(lambda: look(40_000))
    assert above < ENOUGH_SECONDS or above < RATIO_MAX * cpu_seconds(lambda: look(10_000))


def test_many_mentions_of_a_directory_take_time_in_proportion() -> None:
    def look(count: int) -> object:
        text = "# Current Working Directory (" * count
        return read_task(f"{CLINE_FOLDER}/ui_messages.json", NOTHING_BESIDE, [{"text": text}])

    above = cpu_seconds(lambda: look(8000))
    assert above < ENOUGH_SECONDS or above < RATIO_MAX * cpu_seconds(lambda: look(2000))
