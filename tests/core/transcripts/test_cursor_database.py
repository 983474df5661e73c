"""Cursor's key-value store: the headers tell what belongs to a conversation, and nothing but words is read."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support.databases import build, mutations, read_database, rows, stamps, tables
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes

from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.cursor.database import CursorDatabase, rich_text
from palace_daemon.core.transcripts.cursor.lines import CursorLinesFormat
from palace_daemon.model import Attachment

CURSOR = CursorDatabase()
ID = "0f9a7a52-3b1c-4f0e-8f4e-6f1f6a3e9c11"
START = 1_770_000_000_000
COMPOSER = "key LIKE 'composerData:%'"
SCHEMA = """
CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
INSERT INTO ItemTable VALUES ('cursorAuth/accessToken', 'token-secret');
INSERT INTO cursorDiskKV VALUES ('secret://key', 'disk-secret'), ('agentKv:blob:x', x'ff00');
"""


class Store:
    """A store that is made key by key."""

    def __init__(self, path: Path) -> None:
        self.path = build(path, SCHEMA)

    def put(self, key: str, value: Any) -> None:
        raw = value if isinstance(value, str | bytes) else json.dumps(value)
        self.change("INSERT INTO cursorDiskKV VALUES (?, ?)", key, raw)

    def change(self, sql: str, *values: Any) -> None:
        connection = sqlite3.connect(self.path)
        connection.execute(sql, values)
        connection.commit()
        connection.close()

    def composer(self, *headers: str, name: str = ID, **fields: Any) -> None:
        """Write the conversation's record; a header is ``<bubble>`` or ``<bubble>:<type>``."""
        told = [dict(zip(("bubbleId", "type"), (one.split(":")[0], int(one[-1])), strict=True)) for one in headers]
        record = {
            "_v": 10,
            "name": "A talk",
            "createdAt": START,
            "lastUpdatedAt": START + 9000,
            "status": "none",
            "fullConversationHeadersOnly": told,
            "blobEncryptionKey": "composer-secret",
            **fields,
        }
        self.put(f"composerData:{name}", record)

    def bubble(self, name: str, kind: int, text: str = "", composer: str = ID, **fields: Any) -> None:
        self.put(f"bubbleId:{composer}:{name}", {"bubbleId": name, "type": kind, "text": text, **fields})

    def read(self, name: str = ID) -> Whole:
        return read_database(CURSOR, self.path)[name]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "globalStorage").mkdir()
    return Store(tmp_path / "globalStorage" / "state.vscdb")


# ------------------------------------------------------------------------------------------------------- the words


def test_a_conversation_of_today(store: Store) -> None:
    store.bubble(
        "u1", 1, "fix it", createdAt="2026-02-02T10:00:00.000Z", images=[{"x": 1}], workspaceUris=["file:///o"]
    )
    tool = {"name": "edit_file", "toolCallId": "c1", "rawArgs": '{"target_file": "a.py", "code_edit": "hidden"}'}
    store.bubble("a1", 2, "I look.", createdAt="2026-02-02T10:00:05.000Z", modelInfo={"modelName": "sonnet"})
    store.bubble("a2", 2, "", toolFormerData={**tool, "result": "hidden output"})
    store.bubble("a3", 2, "", thinking={"text": "hidden thoughts"}, capabilityType=30)
    store.bubble("a4", 2, "")
    shell = {"name": "run_terminal_cmd", "params": '{"command": "ls -l\\nls"}', "rawArgs": "{half"}
    store.bubble("a5", 2, "Fixed.", createdAt="2026-02-02T10:00:09.000Z", toolFormerData=shell)
    store.bubble("u2", 1, "thanks", createdAt=START + 60000)
    store.composer(
        *("u1:1", "a1:2", "a2:2", "a3:2", "a4:2", "a5:2", "u2:1"),
        status="completed",
        workspaceIdentifier={"id": "w", "uri": {"fsPath": "/work/demo", "path": "/other"}},
    )
    whole = store.read()
    assert whole.pairs == [("fix it", "I look.\n\nFixed."), ("thanks", "")]
    first, last = whole.exchanges
    assert (first.agent, first.session_id, first.cwd) == ("cursor", ID, "/work/demo")
    assert (first.started_at, first.ended_at, first.time_quality) == (1770026400000, 1770026409000, "exact")
    assert (first.model, first.attachments) == ("sonnet", (Attachment(kind="image"),))
    assert [(one.name, one.target) for one in first.tools] == [("edit_file", "a.py"), ("run_terminal_cmd", "ls -l")]
    assert (first.status, last.status, last.started_at) == ("complete", "complete", START + 60000)
    assert whole.lines_skipped == {"empty": 1, "thinking": 1}
    (facts,) = whole.sessions
    assert (facts.title, facts.cwd, facts.relation, facts.is_automated) == ("A talk", "/work/demo", "none", False)


def test_nothing_but_named_fields_of_two_kinds_of_keys_is_read(store: Store) -> None:
    store.bubble("u1", 1, "hello", context={"env": "bubble-secret"}, toolFormerData={"result": "output-secret"})
    store.composer("u1:1")
    data = rows(CURSOR, store.path, ID)
    assert b"hello" in data
    assert b"secret" not in data
    assert set(stamps(CURSOR, store.path)) == {ID}


def test_the_headers_tell_the_order_and_what_belongs(store: Store) -> None:
    store.bubble("a1", 2, "first")
    store.bubble("side", 2, "a side check")
    store.bubble("u1", 1, "one")
    store.bubble("x", 1, "of another conversation", composer="another")
    store.composer("u1:1", "a1:2", "gone:2", conversation=[{"type": 1, "text": "an old copy"}])
    whole = store.read()
    assert whole.pairs == [("one", "first")]
    assert whole.lines_skipped == {"missing_bubble": 1}


def test_an_old_conversation_stands_in_its_record(store: Store) -> None:
    inline = [
        {"type": 1, "bubbleId": "u1", "text": "one"},
        {"type": 2, "bubbleId": "a1", "text": "first"},
        {"type": 2, "bubbleId": "a2", "text": "", "toolFormerData": {"name": "read", "params": '{"path": "a.py"}'}},
        7,
    ]
    store.composer(conversation=inline, fullConversationHeadersOnly=None)
    store.change(
        "UPDATE cursorDiskKV SET value = json_remove(value, '$.fullConversationHeadersOnly') WHERE key LIKE 'c%'"
    )
    whole = store.read()
    assert whole.pairs == [("one", "first")]
    assert [(one.name, one.target) for one in whole.exchanges[0].tools] == [("read", "a.py")]
    assert whole.lines_skipped == {"malformed": 1}


def test_an_empty_list_of_headers_wins_over_what_stands_in_the_record(store: Store) -> None:
    store.composer(conversation=[{"type": 1, "text": "an old copy"}])
    assert stamps(CURSOR, store.path) == {}
    assert b"old copy" not in rows(CURSOR, store.path, ID)


def test_a_prompt_without_a_time_has_that_of_its_conversation(store: Store) -> None:
    store.bubble("u1", 1, "one")
    store.bubble("a1", 2, "first")
    store.composer("u1:1", "a1:2")
    (one,) = store.read().exchanges
    assert (one.started_at, one.time_quality) == (START, "session")
    assert one.user_record_ids == ("u1",)


def test_the_words_can_stand_in_the_editors_document_only(store: Store) -> None:
    def line(*pieces: dict[str, Any]) -> dict[str, Any]:
        return {"type": "paragraph", "children": list(pieces)}

    document = {"root": {"children": [line({"text": "look at "}, {"type": "mention", "text": "@a.py"}), line()]}}
    document["root"]["children"] += [line({"text": "then"}, {"type": "linebreak"}, {"text": "stop"})]
    store.bubble("u1", 1, "", richText=json.dumps(document))
    store.bubble("u2", 1, "", rawText="raw words", richText=json.dumps(document))
    store.bubble("u3", 1, "", richText="{no json")
    store.composer("u1:1", "u2:1", "u3:1")
    whole = store.read()
    assert whole.pairs == [("look at @a.py\n\nthen\nstop", ""), ("raw words", "")]
    assert whole.lines_skipped == {"empty": 1}


def test_a_documents_depth_is_no_limit() -> None:
    node: dict[str, Any] = {"text": "deep"}
    for _ in range(200):
        node = {"children": [node]}
    assert rich_text(json.dumps({"root": {"children": [node, 7]}})) == "deep"
    assert rich_text(None) == rich_text("[]") == rich_text('{"root": {"children": "x"}}') == ""


def test_tags_in_a_prompt_are_a_persons_own(store: Store) -> None:
    typed = ["<rules>\nNever use var.\n</rules>\nApply these to src/", "fix it\n<user_info>y</user_info>", "[Image]"]
    for number, text in enumerate(typed):
        store.bubble(f"u{number}", 1, f"{text}\n")
    store.composer("u0:1", "u1:1", "u2:1")
    whole = store.read()
    assert [one.user_text for one in whole.exchanges] == typed
    assert whole.lines_skipped == {}


def test_only_reasoning_at_the_very_start_of_a_reply_is_no_words(store: Store) -> None:
    store.bubble("u1", 1, "what does R1 send?")
    store.bubble("a1", 2, "R1 opens with `<think>`, reasons, and ends with `</think>` before it answers.")
    store.bubble("a2", 2, "\n<think>hm</think>\n\nMore `<think>`x`</think>`.")
    store.bubble("a3", 2, "<think>only this</think>")
    store.composer("u1:1", "a1:2", "a2:2", "a3:2")
    whole = store.read()
    assert whole.exchanges[0].reply_text == (
        "R1 opens with `<think>`, reasons, and ends with `</think>` before it answers.\n\nMore `<think>`x`</think>`."
    )
    assert whole.lines_skipped == {"thinking": 2}


def test_the_transcript_of_the_same_conversation_has_the_same_keys(store: Store) -> None:
    store.bubble("u1", 1, "one")
    store.bubble("a1", 2, "first")
    store.bubble("u2", 1, "one")
    store.composer("u1:1", "a1:2", "u2:1")
    talk = [
        ("user", "<user_query>\none\n</user_query>"),
        ("assistant", "first"),
        ("user", "<user_query>one</user_query>"),
    ]
    lines = [{"role": role, "message": {"content": [{"type": "text", "text": text}]}} for role, text in talk]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    transcript = read_bytes(
        CursorLinesFormat(), data, f"/home/sam/.cursor/projects/work-demo/agent-transcripts/{ID}/{ID}.jsonl"
    )
    ours = store.read()
    assert [one.key for one in ours.exchanges] == [one.key for one in transcript.exchanges]
    assert ours.pairs == transcript.pairs


# -------------------------------------------------------------------------------------------------------- sessions


def test_a_conversation_that_an_agent_began(store: Store) -> None:
    store.bubble("u1", 1, "the task", composer="child")
    store.composer("u1:1", name="child", subagentInfo={"parentComposerId": ID, "subagentTypeName": "explore"})
    whole = store.read("child")
    (facts,) = whole.sessions
    assert (facts.session_id, facts.parent_session_id, facts.relation) == (f"{ID}/child", ID, "subagent")
    assert facts.is_automated
    assert whole.exchanges[0].user_kind == "automated"


@pytest.mark.parametrize(
    ("status", "told"), [("completed", "complete"), ("aborted", "interrupted"), ("generating", "open"), (None, "open")]
)
def test_the_status_ends_the_last_turn(store: Store, status: str | None, told: str) -> None:
    store.bubble("u1", 1, "one")
    store.composer("u1:1", status=status)
    assert store.read().exchanges[0].status == told


@pytest.mark.parametrize(
    ("workspace", "cwd"),
    [
        ({"uri": "file:///c%3A/work/demo"}, "c:\\work\\demo"),
        ({"uri": {"path": "/work/demo"}}, "/work/demo"),
        ({"id": "x"}, "/from/bubble"),
        (None, "/from/bubble"),
    ],
)
def test_the_project(store: Store, workspace: Any, cwd: str) -> None:
    store.bubble("u1", 1, "one", workspaceUris=["file:///from/bubble"])
    store.composer("u1:1", workspaceIdentifier=workspace)
    assert store.read().exchanges[0].cwd == cwd


# ------------------------------------------------------------------------------------------------------ the changes


def test_every_write_changes_the_stamp_of_its_conversation_alone(store: Store) -> None:
    for name in (ID, "other"):
        store.bubble("u1", 1, "one", composer=name)
        store.bubble("a1", 2, "half", composer=name)
        store.composer("u1:1", "a1:2", name=name)
    before = stamps(CURSOR, store.path)
    assert before[ID].split("|")[0] == str(START + 9000)
    store.bubble("a1", 2, "more", composer="other")
    first = stamps(CURSOR, store.path)
    assert first["other"] != before["other"]
    assert first[ID] == before[ID]
    store.composer("u1:1", name="other")
    second = stamps(CURSOR, store.path)
    assert second["other"] != first["other"]
    store.change(f"DELETE FROM cursorDiskKV WHERE key = 'bubbleId:{ID}:a1'")
    assert stamps(CURSOR, store.path)[ID] != second[ID]


def test_a_list_needs_no_bubble(store: Store) -> None:
    """The list is made at every change of a store of gigabytes."""
    connection = sqlite3.connect(store.path)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {CURSOR.conversations}")]
    connection.close()
    assert any("SEARCH b USING COVERING INDEX" in step for step in plan), plan
    assert not any(step.startswith("SCAN") for step in plan), plan


# ------------------------------------------------------------------------------------------------------ odd values


def test_values_that_are_no_json_are_counted(store: Store) -> None:
    store.put("composerData:broken", "{half")
    store.put("composerData:nothing", "null")
    store.bubble("u1", 1, "one")
    store.put(f"bubbleId:{ID}:a1", "{half")
    store.put(f"bubbleId:{ID}:a2", b"\xff\xfe")
    store.bubble("a3", 3, "of no speaker")
    store.composer("u1:1", "a1:2", "a2:2", "a3:3")
    whole = read_database(CURSOR, store.path)
    assert set(whole) == {ID, "broken"}
    assert whole["broken"].lines_skipped == {"malformed": 1}
    assert whole[ID].pairs == [("one", "")]
    assert whole[ID].lines_skipped == {"malformed": 2, "unknown_bubble": 1}


def test_headers_of_another_type_are_counted(store: Store) -> None:
    store.bubble("u1", 1, "one")
    store.composer("u1:1")
    store.change(
        "UPDATE cursorDiskKV SET value = json_insert(value, '$.fullConversationHeadersOnly[#]', 'bare',"
        " '$.fullConversationHeadersOnly[#]', json('[]')) WHERE " + COMPOSER
    )
    whole = store.read()
    assert whole.pairs == [("one", "")]
    assert whole.lines_skipped == {"missing_bubble": 2}


def test_values_stored_as_bytes_are_read(store: Store) -> None:
    store.bubble("u1", 1, "one 茶")
    store.composer("u1:1")
    store.change("UPDATE cursorDiskKV SET value = CAST(value AS BLOB)")
    assert store.read().pairs == [("one 茶", "")]


def test_cuts_and_restarts_do_not_matter(store: Store) -> None:
    store.bubble("u1", 1, "one 茶")
    store.bubble("a1", 2, "first", toolFormerData={"name": "read"})
    store.bubble("u2", 1, "two")
    store.composer("u1:1", "a1:2", "u2:1", status="completed")
    assert_cuts_do_not_matter(CURSOR, rows(CURSOR, store.path, ID), f"{store.path}!/{ID}")


def test_mutations_never_raise(store: Store) -> None:
    store.bubble("u1", 1, "", richText='{"root": {"children": [{"children": [{"text": "x"}]}]}}', images=[1])
    store.bubble("a1", 2, "first", toolFormerData={"name": "read", "params": '{"path": "a"}'})
    store.composer("u1:1", "a1:2", status="completed", workspaceIdentifier={"uri": "file:///x"})
    for data in mutations(rows(CURSOR, store.path, ID)):
        read_bytes(CURSOR, data, f"{store.path}!/{ID}")


def test_it_is_known_by_its_table(store: Store, tmp_path: Path) -> None:
    assert registry.detect_database(tables(store.path), str(store.path)) is not None
    assert registry.detect_database(tables(store.path), str(store.path)).name == "cursor-db"  # type: ignore[union-attr]
    other = build(tmp_path / "code.vscdb", "CREATE TABLE ItemTable (key TEXT, value BLOB);")
    assert registry.detect_database(tables(other), "/home/sam/.config/Code/User/globalStorage/state.vscdb") is None


def test_where_it_lies() -> None:
    linux = "/home/sam/.config/Cursor/User/globalStorage"
    assert CURSOR.default_dirs({}, "/home/sam", "linux") == (linux,)
    assert CURSOR.default_dirs({"XDG_CONFIG_HOME": "/c"}, "/home/sam", "linux") == ("/c/Cursor/User/globalStorage",)
    mac = "/Users/sam/Library/Application Support/Cursor/User/globalStorage"
    assert CURSOR.default_dirs({}, "/Users/sam", "darwin") == (mac,)
    windows = CURSOR.default_dirs({"APPDATA": "C:\\U\\AppData\\Roaming"}, "C:\\U", "win32")
    assert windows == ("C:\\U\\AppData\\Roaming\\Cursor\\User\\globalStorage",)
    assert CURSOR.may_hold(f"{linux}/state.vscdb")
    assert CURSOR.may_hold("C:\\U\\Cursor\\User\\globalStorage\\state.vscdb")
    assert not CURSOR.may_hold(f"{linux}/state.vscdb.backup")
    assert not CURSOR.may_hold("/home/sam/.config/Cursor/User/workspaceStorage/abc/state.vscdb")
    assert not CURSOR.sniff(b"SQLite format 3\x00")
