"""Zed's threads: both shapes of documents, packed and plain."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import zstandard
from support.databases import build, copy, mutations, read_database, rows, stamps, tables
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes

from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.zed.format import ZedDatabase, first_folder
from palace_daemon.model import Attachment

ZED = ZedDatabase()
UUID = "8f14e45f-ceea-4e7a-9c3b-0a1b2c3d4e5f"
SAVED = "2026-02-02T10:00:00+00:00"
SAVED_MS = 1770026400000
SCHEMA = "CREATE TABLE threads (id TEXT PRIMARY KEY, summary TEXT, updated_at TEXT, data_type TEXT, data BLOB, {});"
NEWEST = "parent_id TEXT, folder_paths TEXT, folder_paths_order TEXT, created_at TEXT"


def user(*content: Any, name: str = UUID) -> dict[str, Any]:
    return {"User": {"id": name, "content": [{"Text": one} if isinstance(one, str) else one for one in content]}}


def agent(*content: Any) -> dict[str, Any]:
    blocks = [{"Text": one} if isinstance(one, str) else one for one in content]
    return {"Agent": {"content": blocks, "tool_results": {"c1": {"content": [{"Text": "hidden output"}]}}}}


def store(path: Path, *messages: Any, data: bytes | str | None = None, **columns: Any) -> Path:
    if not path.exists():
        build(path, SCHEMA.format(NEWEST))
    if data is None:
        document = {"version": "0.3.0", "title": "A thread", "messages": messages, "model": {"model": "sonnet"}}
        data = zstandard.compress(json.dumps(document).encode())
    values = {
        "id": "thread-1",
        "summary": "A thread",
        "updated_at": SAVED,
        "data_type": "zstd",
        "data": data,
        "folder_paths": "/work/demo",
        "folder_paths_order": "0",
        **columns,
    }
    connection = sqlite3.connect(path)
    marks = ", ".join("?" * len(values))
    connection.execute(f"REPLACE INTO threads ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))
    connection.commit()
    connection.close()
    return path


def read(path: Path, name: str = "thread-1") -> Whole:
    return read_database(ZED, path)[name]


# --------------------------------------------------------------------------------------------------------- samples


def test_the_sample_with_a_child_thread(tmp_path: Path, shared_transcripts: Path) -> None:
    path = copy(shared_transcripts / "zed" / "ctx-v1-threads.db", tmp_path / "threads.db")
    assert registry.detect_database(tables(path)).name == "zed-db"  # type: ignore[union-attr]
    whole = read_database(ZED, path)
    assert set(whole) == {"zed-root", "zed-child"}
    (root,), (child,) = whole["zed-root"].exchanges, whole["zed-child"].exchanges
    assert (root.user_text, root.reply_text) == ("zed sqlite oracle prompt", "zed sqlite oracle answer")
    assert (root.key, root.model) == ("zed:zed-root:user-root-1", "claude-sonnet-4")
    assert [(use.name, use.target) for use in root.tools] == [("write_file", "src/zed_oracle.txt")]
    assert (root.started_at, root.time_quality, root.cwd) == (1783166402000, "session", "/workspace/zed")
    assert whole["zed-root"].lines_skipped == {"message:compaction": 1}
    assert (child.user_text, child.user_kind) == ("zed child oracle prompt", "automated")
    (facts,) = whole["zed-child"].sessions
    assert (facts.session_id, facts.parent_session_id) == ("zed-root/zed-child", "zed-root")
    assert (facts.relation, facts.is_automated, facts.title) == ("subagent", True, "Zed fixture child")


def test_the_sample_with_both_shapes(tmp_path: Path, shared_transcripts: Path) -> None:
    path = copy(shared_transcripts / "zed" / "dejavu-zed.sql", tmp_path / "threads.db")
    whole = read_database(ZED, path)
    assert whole["registry-zed-legacy"].pairs == [
        ("does the pre-compression thread shape still load?", "agent-1 threads still parse")
    ]
    assert whole["registry-zed-modern"].pairs == [
        ("where does zed keep its agent threads?", "in threads.db under the data dir")
    ]
    assert whole["registry-zed-modern"].exchanges[0].started_at == 1784451602000
    assert whole["registry-zed-legacy"].exchanges[0].started_at == 1784448002000
    assert [one.lines_skipped for one in whole.values()] == [{"thinking": 1}, {"thinking": 1, "resume": 1}]


def test_the_sample_of_the_first_schema_is_known_and_empty(tmp_path: Path, shared_transcripts: Path) -> None:
    path = copy(shared_transcripts / "zed" / "agentsview-legacy-threads.sql", tmp_path / "threads.db")
    assert registry.detect_database(tables(path)).name == "zed-db"  # type: ignore[union-attr]
    assert stamps(ZED, path) == {}


# ------------------------------------------------------------------------------------------------------- the words


def test_a_thread_of_today(tmp_path: Path) -> None:
    use = {"ToolUse": {"id": "c1", "name": "edit_file", "input": {"path": "demo/a.py", "content": "x"}}}
    raw = {"ToolUse": {"id": "c2", "name": "terminal", "input": None, "raw_input": '{"command": "ls -l\\nls"}'}}
    whole = read(
        store(
            tmp_path / "threads.db",
            user("fix it"),
            agent("I look.", {"Thinking": {"text": "hm"}}, use, raw, {"RedactedThinking": "x"}, {"New": {}}),
            "Resume",
            agent("Fixed."),
            user("thanks", name="not-unique"),
        )
    )
    assert whole.pairs == [("fix it", "I look.\n\nFixed."), ("thanks", "")]
    first, last = whole.exchanges
    assert (first.key, last.key) == (f"zed:{UUID}", "zed:thread-1:not-unique")
    assert [(one.name, one.target) for one in first.tools] == [("edit_file", "demo/a.py"), ("terminal", "ls -l")]
    assert first.reply_text[first.reply_final_start :] == "Fixed."
    assert {one.started_at for one in whole.exchanges} == {SAVED_MS}
    assert {one.time_quality for one in whole.exchanges} == {"session"}
    assert (first.status, last.status, first.model) == ("complete", "open", "sonnet")
    assert whole.lines_skipped == {"content:new": 1, "resume": 1, "thinking": 2}


def test_a_mention_is_its_name_and_not_its_text(tmp_path: Path) -> None:
    file = {"Mention": {"uri": {"File": {"abs_path": "/work/demo/a.py"}}, "content": "the whole file"}}
    lines = {"Mention": {"uri": {"Selection": {"path": "/work/demo/b.py", "line_range": {}}}, "content": "lines"}}
    plain = {"Mention": {"uri": "file:///work/c.py", "content": "x"}}
    image = {"Image": {"source": "QUJD", "size": None}}
    whole = read(store(tmp_path / "threads.db", user("look at ", file, " and ", lines, ".", plain, image)))
    (one,) = whole.exchanges
    assert one.user_text == "look at @a.py and @b.py.@c.py"
    assert one.attachments == (
        Attachment(kind="file", name="/work/demo/a.py"),
        Attachment(kind="selection", name="/work/demo/b.py"),
        Attachment(kind="file", name="file:///work/c.py"),
        Attachment(kind="image"),
    )


def test_an_old_document_has_roles_and_segments(tmp_path: Path) -> None:
    messages = [
        {"id": 0, "role": "system", "segments": [{"type": "text", "text": "rules"}]},
        {"id": 1, "role": "user", "segments": [{"type": "text", "text": "one"}], "context": "<injected>"},
        {
            "id": 2,
            "role": "assistant",
            "segments": [{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "first"}, 7],
            "tool_uses": [{"id": "c1", "name": "read", "input": {"path": "a.py"}}, "odd"],
            "tool_results": [{"content": "hidden"}],
        },
        {"id": 3, "role": "user", "text": "a text of 0.1"},
    ]
    document = json.dumps({"version": "0.2.0", "summary": "Old", "messages": messages})
    whole = read(store(tmp_path / "threads.db", data=document, data_type="json", summary="Old"))
    assert whole.pairs == [("one", "first"), ("a text of 0.1", "")]
    assert [(one.name, one.target) for one in whole.exchanges[0].tools] == [("read", "a.py")]
    assert whole.lines_skipped == {"content:none": 1, "role:system": 1, "thinking": 1}
    assert whole.sessions[0].title == "Old"


def test_a_saved_thread_keeps_its_keys_and_changes_its_stamp(tmp_path: Path) -> None:
    path = store(tmp_path / "threads.db", user("one"))
    before, stamp = read(path), stamps(ZED, path)
    store(path, user("one"), agent("first"), updated_at="2026-02-02T11:00:00+00:00")
    assert [one.key for one in read(path).exchanges] == [one.key for one in before.exchanges]
    assert stamps(ZED, path) != stamp
    assert stamp["thread-1"].split("|")[0] == SAVED


def test_a_prompt_that_is_only_our_own_block_is_dropped(tmp_path: Path) -> None:
    block = '<palace-recall v="1">old words</palace-recall>'
    whole = read(store(tmp_path / "threads.db", user(block), user(block + " new words", name="n2")))
    assert whole.pairs == [("new words", "")]


@pytest.mark.parametrize(
    ("data", "skipped"),
    [
        (b"\xff\xfe\x00\x01", {"unknown_encoding": 1}),
        ('{"version": "0.3.0", "mess', {"malformed": 1}),
        ("[]", {"malformed": 1}),
        ('{"version": "9", "turns": []}', {"unknown_shape": 1}),
        ('{"messages": [1, null, {}, {"User": 7}, {"Fork": {}}, ["x"], "Later"]}', None),
    ],
)
def test_a_document_of_another_shape_is_counted(
    tmp_path: Path, data: bytes | str, skipped: dict[str, int] | None
) -> None:
    whole = read(store(tmp_path / "threads.db", data=data))
    assert whole.exchanges == ()
    expected = {"unknown_shape": 4, "message:none": 1, "message:user": 1, "message:fork": 1}
    assert whole.lines_skipped == (skipped or expected)


@pytest.mark.parametrize(
    ("paths", "order", "first"),
    [
        ("/a\n/b", "1,0", "/b"),
        ("/a\n/b", "0,1", "/a"),
        ("/a\n/b", "", "/a"),
        ("/a\n/b", "x,y", "/a"),
        ("", "0", ""),
    ],
)
def test_the_project_is_the_folder_that_was_opened_first(paths: str, order: str, first: str) -> None:
    assert first_folder(paths, order) == first


def test_cuts_and_restarts_do_not_matter(tmp_path: Path) -> None:
    path = store(tmp_path / "threads.db", user("one 茶"), agent("first"))
    assert_cuts_do_not_matter(ZED, rows(ZED, path, "thread-1"), f"{path}!/thread-1")


def test_mutations_never_raise(tmp_path: Path) -> None:
    old = {"role": "assistant", "segments": [{"type": "text", "text": "x"}], "tool_uses": [{"name": "a", "input": {}}]}
    mention = {"Mention": {"uri": {"File": {"abs_path": "/a"}}}}
    path = store(tmp_path / "threads.db", user("one", mention), agent("first", {"ToolUse": {"input": {}}}), old)
    for data in mutations(rows(ZED, path, "thread-1")):
        read_bytes(ZED, data, f"{path}!/thread-1")


def test_where_it_lies() -> None:
    assert ZED.default_dirs({}, "/home/sam", "linux") == (
        "/home/sam/.local/share/zed/threads",
        "/home/sam/.var/app/dev.zed.Zed/data/zed/threads",
    )
    assert ZED.default_dirs({"XDG_DATA_HOME": "/data"}, "/home/sam", "linux")[0] == "/data/zed/threads"
    assert ZED.default_dirs({}, "/Users/sam", "darwin") == ("/Users/sam/Library/Application Support/Zed/threads",)
    assert ZED.default_dirs({"LOCALAPPDATA": "C:\\L"}, "C:\\x", "win32") == ("C:\\L\\Zed\\threads",)
    assert ZED.may_hold("/home/sam/.local/share/zed/threads/threads.db")
    assert not ZED.may_hold("/home/sam/.local/share/zed/threads/threads.db-wal")
    assert not ZED.sniff(b"SQLite format 3\x00")
