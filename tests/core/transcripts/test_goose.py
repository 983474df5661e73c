"""Goose: its database through compactions and schema versions, and the line files before it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support.databases import build, copy, mutations, read_database, rows, stamps, tables
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes, read_file

from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.goose.format import GooseDatabase, GooseFormat
from palace_daemon.model import Attachment

DATABASE, LINES = GooseDatabase(), GooseFormat()
UUID = "8f14e45f-ceea-4e7a-9c3b-0a1b2c3d4e5f"
START = 1_770_000_000

SCHEMA_15 = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT DEFAULT '', description TEXT DEFAULT '', user_set_name BOOLEAN
    DEFAULT FALSE, session_type TEXT DEFAULT 'user', working_dir TEXT NOT NULL, created_at TIMESTAMP, updated_at
    TIMESTAMP DEFAULT '2026-02-02 10:00:00', schedule_id TEXT, model_config_json TEXT, archived_at TIMESTAMP,
    extension_data TEXT, parent_session_id TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL, role TEXT NOT
    NULL, content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL, timestamp TIMESTAMP, tokens INTEGER,
    metadata_json TEXT);
"""
SCHEMA_1 = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, description TEXT, working_dir TEXT NOT NULL, created_at TIMESTAMP,
    updated_at TIMESTAMP DEFAULT '2025-11-02 10:00:00', schedule_id TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL, content_json
    TEXT NOT NULL, created_timestamp INTEGER NOT NULL);
"""


class Session:
    """A session in a database that is made row by row."""

    def __init__(self, path: Path, schema: str = SCHEMA_15, **columns: Any) -> None:
        self.path = path if path.exists() else build(path, schema)
        self.id = columns.pop("id", "20260202_1")
        self._at = START
        self.insert("sessions", id=self.id, working_dir="/work/demo", **columns)

    def insert(self, table: str, **values: Any) -> None:
        connection = sqlite3.connect(self.path)
        marks = ", ".join("?" * len(values))
        connection.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))
        connection.commit()
        connection.close()

    def change(self, *statements: str) -> None:
        connection = sqlite3.connect(self.path)
        for sql in statements:
            connection.execute(sql)
        connection.commit()
        connection.close()

    def message(self, role: str, *content: Any, **columns: Any) -> None:
        self._at += 10
        self.insert(
            "messages",
            session_id=self.id,
            role=role,
            content_json=json.dumps(content),
            created_timestamp=self._at,
            **columns,
        )

    def read(self) -> Whole:
        return read_database(DATABASE, self.path)[self.id]


@pytest.fixture
def talk(tmp_path: Path) -> Session:
    return Session(tmp_path / "sessions.db", name="A talk", model_config_json='{"model_name": "sonnet"}')


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def words(whole: Whole) -> list[tuple[str, str, str]]:
    return [(one.user_kind, one.user_text, one.reply_text) for one in whole.exchanges if not one.is_superseded]


# --------------------------------------------------------------------------------------------------------- samples


@pytest.mark.parametrize("name", ["ctx-v14-sessions.db", "ctx-v15-sessions.db"])
def test_the_sample_databases(tmp_path: Path, shared_transcripts: Path, name: str) -> None:
    path = copy(shared_transcripts / "goose" / name, tmp_path / "sessions.db")
    assert registry.detect_database(tables(path)).name == "goose-db"  # type: ignore[union-attr]
    assert list(stamps(DATABASE, path)) == ["goose-root"]
    whole = read_database(DATABASE, path)["goose-root"]
    (one,) = whole.exchanges
    assert (one.user_text, one.reply_text) == ("goose sqlite search oracle request", "")
    assert (one.key, one.model, one.cwd) == ("goose:goose-root:goose-user", "gpt-5", "/workspace/goose")
    assert (one.started_at, one.time_quality) == (1782259200000, "exact")
    assert [(use.name, use.target) for use in one.tools] == [("developer__shell", "rg goose")]
    (facts,) = whole.sessions
    assert (facts.title, facts.is_automated) == ("Goose Fixture", False)
    assert whole.lines_skipped == {"thinking": 1, "tool_output": 1}


def test_the_sample_of_the_line_files(shared_transcripts: Path) -> None:
    path = shared_transcripts / "goose" / "dejavu-20250724_1.jsonl"
    assert registry.detect(str(path), path.read_bytes()).name == "goose-jsonl"  # type: ignore[union-attr]
    whole = read_file(LINES, path)
    (one,) = whole.exchanges
    assert (one.session_id, one.key) == ("20250724_1", "goose:20250724_1:msg1")
    assert (one.user_text, one.reply_text) == ("Say hello", "Hello from Goose!")
    assert (one.started_at, one.cwd) == (1784278801000, "/workspace/demo")
    assert whole.sessions[0].title == "Synthetic Goose session"
    assert whole.lines_skipped == {}
    assert_cuts_do_not_matter(LINES, path.read_bytes(), str(path))


# ------------------------------------------------------------------------------------------------------- the words


def test_only_text_is_words(talk: Session) -> None:
    request = {"type": "toolRequest", "id": "c1", "toolCall": {"status": "success", "value": {"name": "dev__edit"}}}
    request["toolCall"]["value"]["arguments"] = {"path": "/work/demo/a.py", "content": "hidden"}  # type: ignore[index]
    response = {"type": "toolResponse", "id": "c1", "toolResult": {"value": [text("hidden output")]}}
    talk.message("user", text("fix it"), {"type": "image", "data": "QUJD", "mimeType": "image/png"}, message_id="m1")
    talk.message("assistant", {"type": "thinking", "thinking": "hm"}, text("I look."), request, message_id="m2")
    talk.message("user", response, message_id="m3")
    talk.message("assistant", text("Fixed."), {"type": "contextLengthExceeded", "msg": "x"}, message_id="m4")
    talk.message("user", text("thanks"), message_id="m5")
    whole = talk.read()
    assert words(whole) == [("prompt", "fix it", "I look.\n\nFixed."), ("prompt", "thanks", "")]
    first = whole.exchanges[0]
    assert first.attachments == (Attachment(kind="image"),)
    assert [(use.name, use.target) for use in first.tools] == [("dev__edit", "/work/demo/a.py")]
    assert (first.started_at, first.ended_at, first.status) == ((START + 10) * 1000, (START + 40) * 1000, "complete")
    assert whole.lines_skipped == {"content:contextlengthexceeded": 1, "thinking": 1, "tool_output": 1}
    assert b"hidden" not in rows(DATABASE, talk.path, talk.id)
    assert b"QUJD" not in rows(DATABASE, talk.path, talk.id)


def test_what_a_person_does_not_see_is_injected(talk: Session) -> None:
    talk.message("user", text("begin"), metadata_json='{"userVisible": true, "agentVisible": false}')
    talk.message("assistant", text("half"))
    talk.message("user", text("summary of all"), metadata_json='{"userVisible": false, "agentVisible": true}')
    talk.message("assistant", text("I go on"), metadata_json='{"userVisible":false}')
    talk.message("assistant", text("other half"), metadata_json="no json")
    whole = talk.read()
    assert words(whole) == [("prompt", "begin", "half\n\nother half")]
    assert whole.lines_skipped == {"injected_context": 2}


def test_a_compaction_that_writes_all_rows_anew_keeps_the_keys(talk: Session) -> None:
    talk.message("user", text("one"), message_id=f"msg_{UUID}")
    talk.message("assistant", text("first"), message_id="m2")
    talk.message("user", text("two"), message_id="m3")
    before, stamp = talk.read(), stamps(DATABASE, talk.path)
    talk.change(
        "CREATE TABLE kept AS SELECT * FROM messages",
        "DELETE FROM messages",
        "INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json)"
        " SELECT message_id, session_id, role, content_json, created_timestamp, metadata_json FROM kept ORDER BY id",
    )
    assert stamps(DATABASE, talk.path) != stamp
    assert [one.key for one in talk.read().exchanges] == [one.key for one in before.exchanges]
    assert [one.key for one in before.exchanges] == [f"goose:msg_{UUID}", "goose:20260202_1:m3"]
    assert words(talk.read()) == words(before)


def test_the_first_schema_has_no_message_ids(tmp_path: Path) -> None:
    talk = Session(tmp_path / "sessions.db", SCHEMA_1, description="Old talk")
    talk.message("user", text("one"))
    talk.message("assistant", text("first"))
    talk.message("user", text("one"))
    whole = talk.read()
    assert words(whole) == [("prompt", "one", "first"), ("prompt", "one", "")]
    assert len({one.key for one in whole.exchanges}) == 2
    assert whole.sessions[0].title == "Old talk"
    assert stamps(DATABASE, talk.path)[talk.id].startswith("2025-11-02 10:00:00|3|")


# -------------------------------------------------------------------------------------------------------- sessions


@pytest.mark.parametrize(
    ("columns", "session", "relation", "is_automated"),
    [
        ({}, "20260202_1", "none", False),
        ({"session_type": "scheduled"}, "20260202_1", "none", True),
        ({"session_type": "hidden"}, "20260202_1", "none", True),
        ({"schedule_id": "nightly"}, "20260202_1", "none", True),
        ({"session_type": "sub_agent"}, "20260202_1", "subagent", True),
        ({"session_type": "sub_agent", "parent_session_id": "p"}, "p/20260202_1", "subagent", True),
        ({"archived_at": "2026-02-03 10:00:00"}, "20260202_1", "none", False),
    ],
)
def test_whose_session_it_is(
    tmp_path: Path, columns: dict[str, str], session: str, relation: str, is_automated: bool
) -> None:
    talk = Session(tmp_path / "sessions.db", **columns)
    talk.message("user", text("go"))
    whole = talk.read()
    (facts,) = whole.sessions
    assert (facts.session_id, facts.relation, facts.is_automated) == (session, relation, is_automated)
    assert whole.exchanges[0].user_kind == ("automated" if is_automated else "prompt")


@pytest.mark.parametrize(
    ("columns", "title"),
    [
        ({"name": "CLI Session"}, ""),
        ({"name": "New session 7"}, ""),
        ({"name": "New Chat", "user_set_name": 1}, "New Chat"),
        ({"name": "Fix the queue", "description": "other"}, "Fix the queue"),
        ({"description": "only this"}, "only this"),
    ],
)
def test_the_title(tmp_path: Path, columns: dict[str, Any], title: str) -> None:
    assert Session(tmp_path / "sessions.db", **columns).read().sessions[0].title == title


def test_every_change_changes_the_stamp(talk: Session) -> None:
    talk.message("user", text("one"))
    seen = [stamps(DATABASE, talk.path)]
    for sql in (
        "UPDATE sessions SET updated_at = '2026-02-02 10:00:01'",
        'UPDATE messages SET content_json = \'[{"type": "text", "text": "one and more"}]\'',
        "INSERT INTO messages SELECT 9, 'x', session_id, role, content_json, 5, 5, 5, NULL FROM messages",
        "DELETE FROM messages WHERE id = 1",
    ):
        talk.change(sql)
        seen.append(stamps(DATABASE, talk.path))
    assert len({str(one) for one in seen}) == 5


# ------------------------------------------------------------------------------------------------------ odd values


def test_content_that_is_no_list_is_counted(talk: Session) -> None:
    talk.message("user", text("one"), 7, "bare", None, {"type": "text"}, {"no": "type"})
    talk.message("assistant", text("first"))
    talk.message("assistant", text("lost"))
    talk.change("UPDATE messages SET content_json = '{half' WHERE id = 3")
    whole = talk.read()
    assert words(whole) == [("prompt", "one", "first")]
    assert whole.lines_skipped == {"malformed": 2, "empty": 1, "content:none": 1}


def test_cuts_and_restarts_do_not_matter(talk: Session) -> None:
    talk.message("user", text("one 茶"))
    talk.message("assistant", text("first"), {"type": "toolRequest", "id": "c", "toolCall": {"name": "x"}})
    talk.message("user", text("two"))
    assert_cuts_do_not_matter(DATABASE, rows(DATABASE, talk.path, talk.id), f"{talk.path}!/{talk.id}")


def test_mutations_never_raise(talk: Session) -> None:
    talk.message("user", text("one"), {"type": "image"}, metadata_json='{"userVisible": true}')
    talk.message("assistant", text("first"), {"type": "toolRequest", "id": "c", "toolCall": {"name": "x"}})
    for data in mutations(rows(DATABASE, talk.path, talk.id)):
        read_bytes(DATABASE, data, "/d/sessions.db!/20260202_1")
    lines = (
        b'{"working_dir": "/w", "description": "d", "message_count": 2}\n'
        b'{"role": "user", "created": 1784278801, "content": [{"type": "text", "text": "hi"}]}\n'
        b'{"role": "assistant", "created": 1784278802, "content": [{"type": "text", "text": "ho"}]}\n'
    )
    for data in mutations(lines):
        read_bytes(LINES, data, "/d/goose/sessions/20250101_1.jsonl")


# ------------------------------------------------------------------------------------------------------ line files


def test_a_line_file_without_ids_and_its_session_name(tmp_path: Path) -> None:
    lines = (
        b'{"working_dir": "/w", "description": "Old", "message_count": 3, "schedule_id": null}\n'
        b'{"role": "user", "created": 1750000000, "content": [{"type": "text", "text": "hi"}]}\n'
        b'{"role": "assistant", "created": 1750000001, "content": [{"type": "text", "text": "ho"}]}\n'
        b'{"role": "user", "created": 1750000002, "content": [{"type": "toolResponse", "id": "c"}]}\n'
    )
    whole = read_bytes(LINES, lines, "/home/sam/.local/share/goose/sessions/fix-login.jsonl")
    (one,) = whole.exchanges
    assert (one.session_id, one.user_text, one.reply_text, one.cwd) == ("fix-login", "hi", "ho", "/w")
    assert one.started_at == 1750000000000
    assert whole.lines_skipped == {"tool_output": 1}
    assert LINES.is_secondary, "the database takes these sessions over"


def test_where_it_lies() -> None:
    for known in (DATABASE, LINES):
        assert known.default_dirs({}, "/home/sam", "linux") == (
            "/home/sam/.local/share/goose/sessions",
            "/home/sam/.goose/sessions",
        )
        assert known.default_dirs({"XDG_DATA_HOME": "/data"}, "/Users/sam", "darwin") == (
            "/data/goose/sessions",
            "/Users/sam/.goose/sessions",
        )
        assert known.default_dirs({"GOOSE_PATH_ROOT": "/g"}, "/home/sam", "linux") == ("/g/data/sessions",)
        assert known.default_dirs({"APPDATA": "C:\\A", "USERPROFILE": "C:\\U"}, "C:\\x", "win32") == (
            "C:\\A\\Block\\goose",
            "C:\\U\\.goose\\sessions",
        )


def test_what_it_may_be() -> None:
    assert DATABASE.may_hold("/home/sam/.local/share/goose/sessions/sessions.db")
    assert not DATABASE.may_hold("/home/sam/.local/share/goose/sessions/sessions.db-wal")
    assert not DATABASE.sniff(b"SQLite format 3\x00")
    assert LINES.may_hold("/home/sam/.local/share/goose/sessions/20250101_1.jsonl")
    assert not LINES.may_hold("/home/sam/.local/share/goose/sessions/x.json")
    assert LINES.sniff(b'{"description":"d","working_dir":"/w","message_count":2}\n{"role"')
    assert LINES.sniff(b'{"working_dir":"/w","message_count":2,"description":"a text that goes on')
    assert not LINES.sniff(b'{"role":"user","created":1,"content":[]}\n')
    assert not LINES.sniff(b'{"working_dir":"/w"}\n')


def test_no_other_sample_is_taken_for_a_session(shared_transcripts: Path) -> None:
    others = [path for path in shared_transcripts.rglob("*") if path.is_file() and path.parent.name != "goose"]
    assert len(others) > 50
    taken = [path.name for path in others if LINES.sniff(path.read_bytes()[: registry.HEAD_BYTES])]
    assert taken == []
    ours = (shared_transcripts / "goose" / "dejavu-20250724_1.jsonl").read_bytes()
    assert [known.name for known in registry.formats() if known.sniff(ours)] == ["goose-jsonl"]
