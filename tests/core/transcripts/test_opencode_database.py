"""opencode's and Kilo's database: whose words its messages and parts are, in both of the tables that it had."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support.databases import build, copy, mutations, read_database, rows, stamps, tables
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes

from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.opencode.database import KILO, OpencodeDatabase
from palace_daemon.model import Attachment, Exchange

OPENCODE = OpencodeDatabase()
WITH_ENTRIES = OpencodeDatabase(has_entries=True)
KILO_ENTRIES = OpencodeDatabase(KILO, has_entries=True)

SCHEMA = """
CREATE TABLE project (id text PRIMARY KEY, worktree text NOT NULL);
CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, parent_id text, slug text NOT NULL,
    directory text NOT NULL, title text NOT NULL, version text NOT NULL, share_url text, revert text, permission text,
    time_created integer NOT NULL, time_updated integer NOT NULL, time_compacting integer, time_archived integer);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
    time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
    time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
"""
ENTRIES = """
CREATE TABLE session_message (id text PRIMARY KEY, session_id text NOT NULL, type text NOT NULL, seq integer,
    time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
"""
START = 1_770_000_000_000


class Session:
    """A session in a database that is made row by row; each message is a second later than the one before."""

    def __init__(self, path: Path, schema: str = SCHEMA, **columns: Any) -> None:
        self.path = path if path.exists() else build(path, schema)
        self.id = columns.pop("id", "ses_1")
        self.at = START
        values = {
            "id": self.id,
            "project_id": "p",
            "slug": "s",
            "directory": "/work/demo",
            "title": "A talk",
            "version": "1.2.3",
            "time_created": START,
            "time_updated": START,
            **columns,
        }
        self._insert("session", values)

    def _insert(self, table: str, values: dict[str, Any]) -> None:
        connection = sqlite3.connect(self.path)
        marks = ", ".join("?" * len(values))
        connection.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))
        connection.commit()
        connection.close()

    def change(self, sql: str) -> None:
        connection = sqlite3.connect(self.path)
        connection.execute(sql)
        connection.commit()
        connection.close()

    def message(self, name: str, role: str, *parts: dict[str, Any] | str, **data: Any) -> None:
        self.at += 1000
        time = {"created": self.at, **data.pop("time", {})}
        columns = {"id": name, "session_id": self.id, "time_created": self.at, "time_updated": self.at}
        self._insert("message", {**columns, "data": json.dumps({"role": role, "time": time, **data})})
        for number, part in enumerate(parts):
            text = part if isinstance(part, str) else json.dumps(part)
            columns = {"id": f"{name}-prt{number}", "message_id": name, "session_id": self.id}
            self._insert("part", {**columns, "time_created": self.at, "time_updated": self.at, "data": text})

    def entry(self, name: str, kind: str, **data: Any) -> None:
        self.at += 1000
        values = {"id": name, "session_id": self.id, "type": kind, "time_created": self.at, "time_updated": self.at}
        self._insert("session_message", {**values, "data": json.dumps({"time": {"created": self.at}, **data})})

    def read(self, known: OpencodeDatabase = OPENCODE) -> Whole:
        return read_database(known, self.path)[self.id]


@pytest.fixture
def talk(tmp_path: Path) -> Session:
    return Session(tmp_path / "opencode.db")


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def tool(name: str, **state: Any) -> dict[str, Any]:
    return {"type": "tool", "callID": f"call-{name}", "tool": name, "state": state}


def words(whole: Whole) -> list[tuple[str, str, str]]:
    return [(one.user_kind, one.user_text, one.reply_text) for one in whole.exchanges if not one.is_superseded]


# --------------------------------------------------------------------------------------------------------- samples


def test_the_dump_of_a_small_session(tmp_path: Path, shared_transcripts: Path) -> None:
    path = copy(shared_transcripts / "opencode" / "dejavu-opencode.sql", tmp_path / "opencode.db")
    assert registry.detect_database(tables(path), str(path)).name == "opencode-db"  # type: ignore[union-attr]
    assert stamps(OPENCODE, path).keys() == {"registry-opencode"}
    whole = read_database(OPENCODE, path)["registry-opencode"]
    (one,) = whole.exchanges
    assert (one.key, one.session_id) == ("opencode:message-user", "registry-opencode")
    assert (one.user_text, one.reply_text) == ("inspect the sqlite fixture", "the sqlite rows are readable")
    assert (one.started_at, one.ended_at, one.time_quality) == (1784278801000, 1784278802000, "exact")
    assert (one.cwd, one.user_record_ids, whole.lines_skipped) == ("/workspace/registry-demo", ("message-user",), {})


def test_the_sample_of_kilo_has_its_messages_in_the_later_table(tmp_path: Path, shared_transcripts: Path) -> None:
    path = copy(shared_transcripts / "other" / "kilo" / "ctx-kilo.db", tmp_path / "kilo.db")
    assert registry.detect_database(tables(path), str(path)).name == "kilo-entries-db"  # type: ignore[union-attr]
    whole = read_database(KILO_ENTRIES, path)["kilo-root"]
    (one,) = whole.exchanges
    assert (one.agent, one.key) == ("kilo", "kilo:kilo-msg-user")
    assert (one.user_text, one.reply_text) == ("kilo fixture import oracle", "native kilo import ok")
    (facts,) = whole.sessions
    assert (facts.title, facts.cwd, facts.agent_version) == ("Kilo root", "/workspace/kilo", "0.8.0")
    assert whole.lines_skipped == {}


# ---------------------------------------------------------------------------------------------------- whose words


def test_a_turn_has_all_text_parts_of_all_its_messages(talk: Session) -> None:
    talk.message("msg_1", "user", text("first line"), text("second line"), model={"modelID": "sonnet"})
    talk.message(
        "msg_2",
        "assistant",
        {"type": "step-start"},
        {"type": "reasoning", "text": "secret thoughts"},
        text("I look."),
        tool("read", status="completed", input={"filePath": "/work/demo/a.py"}, output="hidden output"),
        modelID="sonnet",
        time={"completed": START + 2500},
        finish="tool-calls",
    )
    talk.message("msg_3", "assistant", text("Done."), time={"completed": START + 3500}, finish="stop")
    talk.message("msg_4", "user", text("and now?"))
    whole = talk.read()
    assert words(whole) == [("prompt", "first line\n\nsecond line", "I look.\n\nDone."), ("prompt", "and now?", "")]
    first, last = whole.exchanges
    assert (first.key, last.key) == ("opencode:msg_1", "opencode:msg_4")
    assert (first.status, first.model, first.agent_version) == ("complete", "sonnet", "1.2.3")
    assert first.reply_text[first.reply_final_start :] == "Done."
    assert [(use.name, use.target) for use in first.tools] == [("read", "/work/demo/a.py")]
    assert (first.started_at, first.ended_at) == (START + 1000, START + 3500)
    assert last.status == "open"
    assert whole.lines_skipped == {"part:step_start": 1, "thinking": 1}


def test_text_that_the_program_put_in_is_no_prompt(talk: Session) -> None:
    talk.message(
        "msg_1",
        "user",
        text("Called the Read tool", synthetic=True),
        text("read @a.png"),
        text("left out", ignored=True),
        {"type": "file", "mime": "image/png", "filename": "a.png", "url": "data:image/png;base64,AAAA"},
        {"type": "agent", "name": "build"},
        {"type": "subtask", "prompt": "nobody typed this"},
    )
    whole = talk.read()
    (one,) = whole.exchanges
    assert one.user_text == "read @a.png"
    assert one.attachments == (Attachment(kind="image", name="a.png"),)
    assert whole.lines_skipped == {"part:agent": 1, "part:subtask": 1, "synthetic": 2}
    assert b"AAAA" not in rows(OPENCODE, talk.path, "ses_1")


def test_a_compaction_is_passed_over_whole(talk: Session) -> None:
    talk.message("msg_1", "user", text("begin"))
    talk.message("msg_2", "assistant", text("half"))
    talk.message("msg_3", "user", {"type": "compaction", "auto": True})
    talk.message("msg_4", "assistant", text("a summary of all"), summary=True)
    talk.message("msg_5", "assistant", text("an older summary"), mode="compaction")
    talk.message("msg_6", "user", text("Continue if you have next steps", synthetic=True))
    talk.message("msg_7", "assistant", text("other half"))
    whole = talk.read()
    assert words(whole) == [("prompt", "begin", "half\n\nother half")]
    assert whole.lines_skipped == {"compaction": 1, "compaction_summary": 2, "synthetic": 1}


def test_a_title_in_the_summary_of_a_prompt_makes_it_no_compaction(talk: Session) -> None:
    talk.message("msg_1", "user", text("hello"), summary={"title": "Greeting", "diffs": []})
    talk.message("msg_2", "assistant", text("hi"), summary={"title": None, "body": ""})
    assert words(talk.read()) == [("prompt", "hello", "hi")]


def test_a_message_whose_parts_are_lost_still_divides_the_turns(talk: Session) -> None:
    talk.message("msg_1", "user", text("one"))
    talk.message("msg_2", "assistant", text("first"))
    talk.message("msg_3", "user")
    talk.message("msg_4", "assistant", text("second"))
    assert words(talk.read()) == [("prompt", "one", "first"), ("prompt", "", "second")]
    assert talk.read().exchanges[1].key == "opencode:msg_3"


def test_answers_rejections_and_shell_commands_are_a_persons_words(talk: Session) -> None:
    rejected = "The user rejected permission to use this specific tool call with the following feedback: use uv instead"
    talk.message("msg_1", "user", text("install it"))
    talk.message("msg_2", "assistant", text("Installing."), tool("bash", status="error", input={}, error=rejected))
    questions = [{"question": "Which one?", "options": []}, {"question": "Sure?"}, {"question": "Why?"}]
    state = {
        "input": {"questions": questions},
        "metadata": {"answers": [["a", "b"], ["yes"], []]},
        "status": "completed",
    }
    talk.message("msg_3", "assistant", text("Asking."), tool("question", **state), text("Thanks."))
    talk.message("msg_4", "user", text("The following tool was executed by the user", synthetic=True))
    talk.message("msg_5", "assistant", tool("bash", status="completed", input={"command": "git status\ngit log"}))
    talk.message("msg_6", "user", text("go on"))
    assert words(talk.read()) == [
        ("prompt", "install it", "Installing."),
        ("rejection", "use uv instead", "Asking."),
        ("answer", "Which one?\na, b\n\nSure?\nyes", "Thanks."),
        ("shell", "git status\ngit log", ""),
        ("prompt", "go on", ""),
    ]
    keys = [one.key for one in talk.read().exchanges]
    assert keys == [f"opencode:{name}" for name in ("msg_1", "msg_2-prt1", "msg_3-prt1", "msg_4", "msg_6")]


def test_a_canned_rejection_has_no_words(talk: Session) -> None:
    error = "The user rejected permission to use this specific tool call."
    talk.message("msg_1", "user", text("go"))
    talk.message("msg_2", "assistant", tool("bash", status="error", input={"command": "rm x"}, error=error))
    assert words(talk.read()) == [("prompt", "go", "")]


def test_aborts_and_errors_end_a_turn(talk: Session) -> None:
    talk.message("msg_1", "user", text("one"))
    talk.message("msg_2", "assistant", text("half"), error={"name": "MessageAbortedError", "data": {}})
    talk.message("msg_3", "user", text("two"))
    talk.message("msg_4", "assistant", error={"name": "APIError", "data": {"message": "no"}})
    assert [one.status for one in talk.read().exchanges] == ["interrupted", "error"]


# ------------------------------------------------------------------------------------------------ order and change


def test_messages_come_in_the_order_of_their_making(talk: Session) -> None:
    talk.message("msg_9", "user", text("first"))
    talk.message("msg_5", "assistant", text("reply"))
    talk.message("msg_7", "user", text("second"))
    assert words(talk.read()) == [("prompt", "first", "reply"), ("prompt", "second", "")]


def test_an_undone_tail_is_superseded(tmp_path: Path) -> None:
    talk = Session(tmp_path / "opencode.db", revert=json.dumps({"messageID": "msg_3", "snapshot": "x"}))
    talk.message("msg_1", "user", text("keep"))
    talk.message("msg_2", "assistant", text("kept"))
    talk.message("msg_3", "user", text("undo this"))
    talk.message("msg_4", "assistant", text("undone"))
    talk.message("msg_5", "user", text("and this"))
    whole = talk.read()
    assert words(whole) == [("prompt", "keep", "kept")]
    assert [(one.user_text, one.reply_text, one.is_superseded) for one in whole.exchanges[1:]] == [
        ("undo this", "undone", True),
        ("and this", "", True),
    ]


def test_a_growing_reply_changes_the_stamp_and_keeps_the_key(talk: Session) -> None:
    talk.message("msg_1", "user", text("go"))
    talk.message("msg_2", "assistant", text("half"))
    before, first = stamps(OPENCODE, talk.path)["ses_1"], talk.read()
    talk.change("UPDATE part SET data = json_set(data, '$.text', 'half and more'), time_updated = time_updated + 7")
    talk.change("UPDATE part SET data = json_set(data, '$.text', 'go') WHERE message_id = 'msg_1'")
    after = stamps(OPENCODE, talk.path)["ses_1"]
    assert after != before
    assert after.split("|")[0] == str(START)
    assert [one.key for one in talk.read().exchanges] == [one.key for one in first.exchanges]
    assert words(talk.read()) == [("prompt", "go", "half and more")]


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE session SET time_updated = time_updated + 1",
        "UPDATE message SET time_updated = time_updated + 90000 WHERE id = 'msg_1'",
        "DELETE FROM message WHERE id = 'msg_1'",
        "INSERT INTO part SELECT id || 'x', message_id, session_id, 1, 1, data FROM part WHERE message_id = 'msg_2'",
    ],
)
def test_every_change_changes_the_stamp(talk: Session, sql: str) -> None:
    talk.message("msg_1", "user", text("go"))
    talk.message("msg_2", "assistant", text("half"))
    before = stamps(OPENCODE, talk.path)
    assert stamps(OPENCODE, talk.path) == before
    talk.change(sql)
    assert stamps(OPENCODE, talk.path) != before


# -------------------------------------------------------------------------------------------------------- sessions


def test_a_child_session_is_a_subagents(tmp_path: Path) -> None:
    Session(tmp_path / "opencode.db").message("msg_1", "user", text("delegate"))
    child = Session(
        tmp_path / "opencode.db", id="ses_2", parent_id="ses_1", title="Child session - 2026-02-01T10:00:00Z"
    )
    child.message("msg_2", "user", text("the task"))
    whole = child.read()
    assert words(whole) == [("automated", "the task", "")]
    (facts,) = whole.sessions
    assert (facts.session_id, facts.parent_session_id, facts.relation) == ("ses_1/ses_2", "ses_1", "subagent")
    assert facts.is_automated
    assert facts.title == "", "what stands before a title was found is none"


def test_a_message_that_is_no_json_is_counted_and_the_rest_is_read(talk: Session) -> None:
    talk.message("msg_1", "user", text("one"), "{no json", '"a bare text"', "[]")
    talk.message("msg_2", "assistant", text("reply"))
    talk.message("msg_3", "user", text("lost"))
    talk.message("msg_4", "system", text("not a speaker"))
    talk.change("UPDATE message SET data = '{half' WHERE id = 'msg_3'")
    whole = talk.read()
    assert words(whole) == [("prompt", "one", "reply")]
    assert whole.lines_skipped == {"malformed": 2, "part:none": 1, "role:system": 1}


def test_a_secret_is_neither_read_nor_kept(talk: Session) -> None:
    talk.change("UPDATE session SET share_url = 'https://share/token', permission = 'permission-secret'")
    talk.message("msg_1", "user", text("key sk-ant-api03-" + "a1B2" * 12), system="system-prompt")
    talk.message(
        "msg_2", "assistant", tool("bash", input={"command": "ls", "env": "env-secret"}, output="output-secret")
    )
    data = rows(OPENCODE, talk.path, "ses_1")
    for unwanted in (b"token", b"permission-secret", b"system-prompt", b"env-secret", b"output-secret"):
        assert unwanted not in data
    (one,) = talk.read().exchanges
    assert "sk-ant" not in one.user_text
    assert "redacted" in one.flags


# ------------------------------------------------------------------------------------------------- the later table


@pytest.fixture
def late(tmp_path: Path) -> Session:
    return Session(tmp_path / "opencode.db", SCHEMA + ENTRIES)


def test_entries_of_every_kind(late: Session) -> None:
    late.entry("msg_1", "model-switched", model={"id": "m"})
    late.entry("msg_2", "user", text="hello", files=[{"mime": "image/png", "name": "a.png", "uri": "x"}, 7])
    content = [
        {"type": "reasoning", "text": "thoughts"},
        {"type": "text", "text": "I look."},
        {"type": "tool", "id": "c1", "name": "read", "state": {"status": "completed", "input": {"filePath": "/a.py"}}},
        "odd",
    ]
    model = {"id": "sonnet", "providerID": "p"}
    late.entry("msg_3", "assistant", content=content, model=model, time={"created": 1, "completed": START + 9000})
    late.entry("msg_4", "synthetic", text="not typed", sessionID="x")
    late.entry("msg_5", "shell", command="make test", output="hidden", callID="c")
    late.entry("msg_6", "compaction", summary="all before", reason="auto")
    late.entry("msg_7", "system", text="rules")
    late.entry("msg_8", "user", text="next")
    late.entry("msg_9", "assistant", content=[], error={"type": "aborted", "message": "x"})
    whole = late.read(WITH_ENTRIES)
    assert words(whole) == [("prompt", "hello", "I look."), ("shell", "make test", ""), ("prompt", "next", "")]
    first, _, last = whole.exchanges
    assert first.attachments == (Attachment(kind="image", name="a.png"),)
    assert [(use.name, use.target) for use in first.tools] == [("read", "/a.py")]
    assert (first.model, first.status, last.status) == ("sonnet", "complete", "interrupted")
    assert whole.lines_skipped == {
        "entry:compaction": 1,
        "entry:model_switched": 1,
        "entry:synthetic": 1,
        "entry:system": 1,
        "malformed": 2,
        "synthetic": 1,
        "thinking": 1,
    }


def test_an_entry_that_repeats_a_message_is_passed_over(late: Session) -> None:
    late.message("msg_1", "user", text("one"))
    late.entry("msg_1", "user", text="one")
    late.entry("evt_9", "user", text="one")
    late.message("msg_2", "assistant", text("first"))
    late.entry("msg_3", "user", text="two")
    assert words(late.read(WITH_ENTRIES)) == [("prompt", "one", "first"), ("prompt", "two", "")]


def test_entries_change_the_stamp(late: Session) -> None:
    late.entry("msg_1", "user", text="one")
    before = stamps(WITH_ENTRIES, late.path)
    late.change("UPDATE session_message SET time_updated = time_updated + 1")
    assert stamps(WITH_ENTRIES, late.path) != before


# ---------------------------------------------------------------------------------------------------- the contract


def test_cuts_and_restarts_do_not_matter(late: Session) -> None:
    late.message("msg_1", "user", text("one 茶"))
    late.message("msg_2", "assistant", text("first"), tool("read", input={"filePath": "/a"}))
    late.message("msg_3", "user", text("The following tool was executed by the user", synthetic=True))
    late.message("msg_4", "assistant", tool("bash", input={"command": "ls"}))
    late.entry("msg_5", "user", text="two")
    assert_cuts_do_not_matter(WITH_ENTRIES, rows(WITH_ENTRIES, late.path, "ses_1"), f"{late.path}!/ses_1")


def test_mutations_never_raise(late: Session) -> None:
    late.message("msg_1", "user", text("one"), {"type": "file", "mime": "x"})
    late.message("msg_2", "assistant", text("first"), tool("read", input={"filePath": "/a"}), error={"name": "x"})
    late.entry("msg_3", "assistant", content=[{"type": "text", "text": "x"}])
    for data in mutations(rows(WITH_ENTRIES, late.path, "ses_1")):
        read_bytes(WITH_ENTRIES, data, "/d/opencode.db!/ses_1")


def test_two_databases_of_one_schema_are_told_apart_by_name(tmp_path: Path) -> None:
    known = tables(build(tmp_path / "x.db", SCHEMA))
    late = tables(build(tmp_path / "y.db", SCHEMA + ENTRIES))

    def name(found: dict[str, frozenset[str]], path: str) -> str:
        format_ = registry.detect_database(found, path)
        return format_.name if format_ else ""

    assert name(known, "/home/sam/.local/share/kilo/kilo.db") == "kilo-db"
    assert name(late, "/home/sam/.local/share/kilo/kilo.db") == "kilo-entries-db"
    assert name(known, "/home/sam/.local/share/opencode/opencode-dev.db") == "opencode-db"
    assert name(late, "/mnt/backup/old.db") == "opencode-entries-db"
    assert name({**known, "part": frozenset({"id", "data"})}, "/x/opencode.db") == "", "a column is missing"


@pytest.mark.parametrize("agent", ["opencode", "kilo"])
def test_where_it_lies(agent: str) -> None:
    known = OpencodeDatabase(agent)
    assert known.default_dirs({}, "/home/sam", "linux") == (f"/home/sam/.local/share/{agent}",)
    assert known.default_dirs({}, "/Users/sam", "darwin") == (f"/Users/sam/.local/share/{agent}",)
    assert known.default_dirs({"XDG_DATA_HOME": "/data"}, "/home/sam", "linux") == (f"/data/{agent}",)
    windows = known.default_dirs({"USERPROFILE": "C:\\Users\\sam"}, "C:\\x", "win32")
    assert windows == (f"C:\\Users\\sam\\.local\\share\\{agent}",)
    assert known.may_hold(f"/home/sam/.local/share/{agent}/{agent}.db")
    assert known.may_hold(f"C:\\Users\\sam\\.local\\share\\{agent}\\{agent}-preview.db")
    assert not known.may_hold(f"/home/sam/.local/share/{agent}/{agent}.db-wal")
    assert not known.may_hold(f"/home/sam/.local/share/{agent}/log.db")
    assert not known.sniff(b"SQLite format 3\x00")


def test_the_exchange_of_a_forked_copy_is_one_of_its_own(tmp_path: Path) -> None:
    """Its ids are new; the store unites copies by words and time."""
    Session(tmp_path / "opencode.db").message("msg_1", "user", text("same words"))
    fork = Session(tmp_path / "opencode.db", id="ses_2")
    fork.message("msg_7", "user", text("same words"))
    told: list[Exchange] = [
        one for whole in read_database(OPENCODE, tmp_path / "opencode.db").values() for one in whole.exchanges
    ]
    assert [(one.session_id, one.key, one.started_at) for one in told] == [
        ("ses_1", "opencode:msg_1", START + 1000),
        ("ses_2", "opencode:msg_7", START + 1000),
    ]
