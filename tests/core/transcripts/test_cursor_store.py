"""Cursor's command line store: what is known of its blobs is read, the rest is counted."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support.databases import build, copy, mutations, rows, stamps, tables
from support.formats import Files, Whole, assert_cuts_do_not_matter, read_bytes

from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.cursor.store import CHAT, CursorStore

STORE = CursorStore()
ID = "0f9a7a52-3b1c-4f0e-8f4e-6f1f6a3e9c11"
START = 1_770_000_000_000
SCHEMA = "CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB); CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);"


def make(folder: Path, *messages: Any, tail: bytes = b"\x4a\x05/work", root: bytes | None = None, **meta: Any) -> Path:
    """Make a store whose newest state names ``messages``; bytes are a blob of their own, None a blob that is lost."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "store.db"
    if not path.exists():
        build(path, SCHEMA)
    connection = sqlite3.connect(path)
    names = b""
    for message in messages:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        name = hashlib.sha256(data).digest()
        names += b"\x0a\x20" + name
        if message is not None:
            connection.execute("REPLACE INTO blobs VALUES (?, ?)", (name.hex(), data))
    state = names + tail if root is None else root
    root_id = hashlib.sha256(state).hexdigest()
    connection.execute("REPLACE INTO blobs VALUES (?, ?)", (root_id, state))
    told = {"agentId": ID, "latestRootBlobId": root_id, "name": "A chat", "createdAt": START, **meta}
    connection.execute("REPLACE INTO meta VALUES ('0', ?)", (json.dumps(told).encode().hex(),))
    connection.commit()
    connection.close()
    return path


def said(role: str, *pieces: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": one} if isinstance(one, str) else one for one in pieces]}


def read(path: Path) -> Whole:
    return read_bytes(STORE, rows(STORE, path, CHAT), f"{path}!/{CHAT}", Files())


def test_the_sample_names_a_state_that_is_not_there(tmp_path: Path, shared_transcripts: Path) -> None:
    folder = tmp_path / "chats" / "hash" / "chat-id"
    folder.mkdir(parents=True)
    path = copy(shared_transcripts / "cursor" / "jazzyalex-test-store.db", folder / "store.db")
    assert registry.detect_database(tables(path), str(path)).name == "cursor-store-db"  # type: ignore[union-attr]
    assert set(stamps(STORE, path)) == {CHAT}
    whole = read(path)
    assert whole.exchanges == ()
    assert whole.lines_skipped == {"unreadable_root": 1}
    (facts,) = whole.sessions
    assert (facts.session_id, facts.title) == ("a1b2c3d4-e5f6-7890-abcd-ef1234567890", "Test Session")


def test_a_chat(tmp_path: Path) -> None:
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "Shell", "args": {"command": "ls -l\nls", "env": "x"}}
    result = {"type": "tool-result", "toolCallId": "c1", "toolName": "Shell", "result": "hidden output"}
    path = make(
        tmp_path / "chats" / "hash" / ID,
        {"role": "system", "content": "You are hidden"},
        {"role": "user", "content": "<user_info>\nWorkspace Path: /work/demo \nShell: zsh\n</user_info>"},
        said("user", "<user_query>\nfix it\n</user_query>"),
        said("assistant", {"type": "reasoning", "text": "hm"}, "I look.", call),
        said("tool", result),
        {"role": "assistant", "content": "Fixed."},
        said("user", "<user_query>thanks</user_query>"),
        lastUsedModel="sonnet",
    )
    whole = read(path)
    assert whole.pairs == [("fix it", "I look.\n\nFixed."), ("thanks", "")]
    first = whole.exchanges[0]
    assert (first.agent, first.session_id, first.cwd, first.model) == ("cursor", ID, "/work/demo", "sonnet")
    assert (first.started_at, first.time_quality) == (START, "session")
    assert [(one.name, one.target) for one in first.tools] == [("Shell", "ls -l")]
    assert whole.lines_skipped == {"role:system": 1, "injected_context": 1, "thinking": 1, "tool_output": 1}
    assert whole.sessions[0].title == "A chat"
    assert b"hidden" not in rows(STORE, path, CHAT)


def test_words_that_come_twice_are_two_turns_though_they_are_one_blob(tmp_path: Path) -> None:
    again = said("user", "continue")
    path = make(tmp_path / "c", again, said("assistant", "ok"), again, said("assistant", "ok"), again)
    assert read(path).pairs == [("continue", "ok"), ("continue", "ok"), ("continue", "")]


def test_the_newest_state_alone_is_read(tmp_path: Path) -> None:
    path = make(tmp_path / "c", said("user", "one"), said("assistant", "first"))
    before, first = stamps(STORE, path), read(path)
    make(tmp_path / "c", said("user", "one"), said("assistant", "first"), said("user", "two"))
    assert stamps(STORE, path) != before
    assert read(path).pairs == [("one", "first"), ("two", "")]
    assert read(path).exchanges[0].key == first.exchanges[0].key


def test_what_lies_beside_the_store_tells_the_project(tmp_path: Path) -> None:
    folder = tmp_path / "chats" / "hash" / ID
    path = make(folder, said("user", "one"), name="New Agent")
    told = {"cwd": "/work/beside", "title": "From beside", "isSubagent": True}
    (folder / "meta.json").write_text(json.dumps(told))
    whole = read(path)
    (facts,) = whole.sessions
    assert (facts.cwd, facts.title, facts.relation, facts.is_automated) == (
        "/work/beside",
        "From beside",
        "subagent",
        True,
    )
    assert (whole.exchanges[0].cwd, whole.exchanges[0].user_kind) == ("/work/beside", "automated")


def test_blobs_of_other_kinds_are_counted(tmp_path: Path) -> None:
    path = make(tmp_path / "c", said("user", "one"), b"\x0a\x03abc", None, [1], said("assistant", {"type": "new"}, "x"))
    whole = read(path)
    assert whole.pairs == [("one", "x")]
    assert whole.lines_skipped == {"unknown_blob": 1, "missing_blob": 1, "role:none": 1, "content:new": 1}


@pytest.mark.parametrize("root", [b"", b"\x12\x03abc", b"{}", b"\x0a\x10" + b"x" * 16])
def test_a_state_of_another_shape_is_counted(tmp_path: Path, root: bytes) -> None:
    whole = read(make(tmp_path / "c", said("user", "one"), root=root))
    assert whole.exchanges == ()
    assert whole.lines_skipped == {"unreadable_root": 1}


def test_a_record_that_is_no_json_is_counted(tmp_path: Path) -> None:
    path = make(tmp_path / "chats" / "hash" / "named-by-folder", said("user", "one"))
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = '7b7'")
    connection.commit()
    connection.close()
    whole = read(path)
    assert whole.sessions[0].session_id == "named-by-folder"
    assert whole.lines_skipped == {"malformed": 1, "unreadable_root": 1}


def test_cuts_and_restarts_do_not_matter(tmp_path: Path) -> None:
    path = make(
        tmp_path / "c", said("user", "one 茶"), said("assistant", "first", {"type": "tool-call"}), said("user", "x")
    )
    assert_cuts_do_not_matter(STORE, rows(STORE, path, CHAT), f"{path}!/{CHAT}")


def test_mutations_never_raise(tmp_path: Path) -> None:
    call = {"type": "tool-call", "toolName": "Shell", "args": {"command": "ls"}}
    path = make(tmp_path / "c", said("user", "one"), said("assistant", "first", call), lastUsedModel="m")
    for data in mutations(rows(STORE, path, CHAT)):
        read_bytes(STORE, data, f"{path}!/{CHAT}")


def test_where_it_lies() -> None:
    assert STORE.default_dirs({}, "/home/sam", "linux") == ("/home/sam/.cursor/chats",)
    assert STORE.default_dirs({"CURSOR_DATA_DIR": "/c"}, "/Users/sam", "darwin") == ("/c/chats",)
    assert STORE.default_dirs({"USERPROFILE": "C:\\U"}, "C:\\x", "win32") == ("C:\\U\\.cursor\\chats",)
    assert STORE.may_hold(f"/home/sam/.cursor/chats/hash/{ID}/store.db")
    assert STORE.may_hold(f"C:\\U\\.cursor\\chats\\hash\\{ID}\\store.db")
    assert not STORE.may_hold(f"/home/sam/.cursor/chats/hash/{ID}/store.db-wal")
    assert not STORE.may_hold("/home/sam/.cursor/other/store.db")
    assert not STORE.sniff(b"SQLite format 3\x00")
