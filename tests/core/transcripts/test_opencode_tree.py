"""opencode's tree of JSON files: the same session as its database tells."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from support.document_formats import Nearby, claims_outside, document
from support.formats import Files, Whole, assert_cuts_do_not_matter, read_bytes
from support.line_formats import SHARED, assert_no_damage_raises, head_of, needs_samples
from support.mutators import MUTATORS

from palace_daemon.core.ports import Beside
from palace_daemon.core.redaction import redact
from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.base import FolderFormat
from palace_daemon.core.transcripts.opencode.tree import OpencodeTreeFormat
from palace_daemon.model import ToolUse

FORMAT = OpencodeTreeFormat()
DATA = Path(__file__).parents[2] / "data" / "transcripts" / "opencode" / "storage"
LEGACY = SHARED / "opencode" / "jazzyalex" / "storage_legacy"
ROOT = "/home/sam/.local/share/opencode/storage"
PATH = f"{ROOT}/session/p1/ses_1.json"
SESSION = {"id": "ses_1", "version": "1", "title": "Tides", "directory": "/x", "time": {"created": 1, "updated": 2}}


def gathered(path: str, beside: Beside) -> bytes:
    """Return the members as the daemon hands them over."""
    members = FORMAT.members(path, beside)
    values = ((name, beside.read(name)) for name in members)
    return b"".join(document({"path": name, "value": json.loads(data)}) + b"\n" for name, data in values if data)


def read(files: dict[str, Any], path: str = PATH) -> Whole:
    beside = Nearby({f"{ROOT}/{name}": value for name, value in files.items()})
    data = gathered(path, beside)
    assert_cuts_do_not_matter(FORMAT, data, path, beside)
    return read_bytes(FORMAT, data, path, beside)


def message(number: int, role: str, **more: Any) -> dict[str, Any]:
    return {"id": f"msg_{number}", "role": role, "time": {"created": 1_770_400_000_000 + number}, **more}


def text(number: int, message_number: int, words: str, **more: Any) -> dict[str, Any]:
    return {"id": f"prt_{number}", "messageID": f"msg_{message_number}", "type": "text", "text": words, **more}


def test_a_session_is_gathered_from_its_files() -> None:
    path = DATA / "session" / "p1" / "ses_0001.json"
    assert isinstance(FORMAT, FolderFormat)
    assert registry.detect(str(path), head_of(path)) is registry.by_name(FORMAT.name)
    members = [str(Path(name).relative_to(DATA)) for name in FORMAT.members(str(path), Files())]
    assert members == [
        "session/p1/ses_0001.json",
        "message/ses_0001/msg_0001.json",
        "part/msg_0001/prt_0001.json",
        "message/ses_0001/msg_0002.json",
        "part/msg_0002/prt_0002.json",
        "part/msg_0002/prt_0003.json",
    ]
    whole = read_bytes(FORMAT, gathered(str(path), Files()), str(path), Files())
    [one] = whole.exchanges
    assert (one.user_text, one.reply_text) == ("When is the next spring tide?", "On Sunday.")
    assert (one.key, one.session_id) == ("opencode:msg_0001", "ses_0001")
    assert (one.status, one.model, one.started_at) == ("complete", "gpt-5", 1770400001000)
    assert one.tools == (ToolUse(name="bash", target="date"),)
    assert (one.line_start, one.line_end) == (2, 4)
    [told] = whole.sessions
    assert (told.title, told.cwd, told.agent_version) == ("Spring tides", "/home/sam/tides", "1.0.3")
    assert_cuts_do_not_matter(FORMAT, gathered(str(path), Files()), str(path))


@pytest.mark.parametrize("root", [pytest.param(LEGACY, marks=needs_samples)])
def test_the_first_releases_kept_all_parts_in_one_folder(root: Path) -> None:
    path = root / "session" / "proj_test" / "ses_s_stage0_drift.json"
    assert registry.detect(str(path), head_of(path)) is registry.by_name(FORMAT.name)
    whole = read_bytes(FORMAT, gathered(str(path), Files()), str(path), Files())
    assert whole.pairs == [("", "Read README and extracted the title.")]
    [one] = whole.exchanges
    assert (one.key, one.tools) == ("opencode:m_user_drift", (ToolUse(name="bash", target="cat README.md"),))
    assert (whole.sessions[0].title, whole.sessions[0].cwd) == ("OpenCode Drift", "/tmp/drift")
    assert claims_outside(FORMAT, "opencode") == []
    others = [file for file in root.rglob("*.json") if file != path]
    assert not any(FORMAT.sniff(head_of(file)) for file in others)


def test_the_oldest_tree_lies_below_session() -> None:
    path = f"{ROOT}/session/info/ses_1.json"
    whole = read(
        {
            "session/info/ses_1.json": {**SESSION, "directory": None},
            "session/message/ses_1/msg_1.json": message(1, "user"),
            "session/part/ses_1/msg_1/prt_1.json": text(1, 1, "Hello"),
            "session/message/ses_1/msg_2.json": message(2, "assistant", path={"cwd": "/home/sam/tides"}),
            "session/part/ses_1/msg_2/prt_2.json": text(2, 2, "Hi"),
        },
        path,
    )
    assert whole.pairs == [("Hello", "Hi")]
    assert FORMAT.may_hold(path)


def test_messages_that_hold_their_parts_are_read() -> None:
    old = {
        "id": "msg_1",
        "role": "user",
        "parts": [{"type": "text", "text": "Hello"}],
        "metadata": {"time": {"created": 1_770_400_000_000}},
    }
    whole = read({"session/p1/ses_1.json": SESSION, "message/ses_1/msg_1.json": old})
    assert whole.pairs == [("Hello", "")]
    assert whole.exchanges[0].started_at == 1_770_400_000_000


def test_messages_are_ordered_by_their_time_and_parts_by_their_ids() -> None:
    whole = read(
        {
            "session/p1/ses_1.json": SESSION,
            "message/ses_1/msg_2.json": message(2, "user", time={"created": 1_770_400_000_001}),
            "part/msg_2/prt_3.json": text(3, 2, "two"),
            "part/msg_2/prt_1.json": text(1, 2, "one"),
            "message/ses_1/msg_1.json": message(1, "assistant", time={"created": 1_770_400_000_009}),
            "part/msg_1/prt_9.json": text(9, 1, "Answer"),
        }
    )
    assert whole.pairs == [("one\n\ntwo", "Answer")]


def test_what_the_program_put_in_is_skipped() -> None:
    whole = read(
        {
            "session/p1/ses_1.json": SESSION,
            "message/ses_1/msg_1.json": message(1, "user"),
            "part/msg_1/prt_1.json": text(1, 1, "Go"),
            "part/msg_1/prt_2.json": text(2, 1, "Called the Read tool", synthetic=True),
            "message/ses_1/msg_2.json": message(2, "assistant", summary=True),
            "part/msg_2/prt_3.json": text(3, 2, "Summary"),
            "part/msg_1/prt_4.json": text(4, 7, "of another message"),
        }
    )
    assert whole.pairs == [("Go", "")]
    assert whole.lines_skipped == {"synthetic": 1, "compaction_summary": 1, "part_of_another": 1}


def test_a_child_session_belongs_to_its_parent_and_an_undone_message_is_superseded() -> None:
    whole = read(
        {
            "session/p1/ses_1.json": {**SESSION, "parentID": "ses_0", "revert": {"messageID": "msg_3"}},
            "message/ses_1/msg_1.json": message(1, "user"),
            "part/msg_1/prt_1.json": text(1, 1, "Find it"),
            "message/ses_1/msg_3.json": message(3, "user"),
            "part/msg_3/prt_3.json": text(3, 3, "Undone"),
        }
    )
    [told] = whole.sessions
    assert (told.session_id, told.parent_session_id, told.relation) == ("ses_0/ses_1", "ses_0", "subagent")
    assert whole.pairs == [("Find it", "")]
    assert whole.superseded_keys == ("opencode:msg_3",)


def test_the_project_tells_the_directory_where_the_session_does_not() -> None:
    session = {name: value for name, value in SESSION.items() if name != "directory"} | {"projectID": "p1"}
    files = {"session/p1/ses_1.json": session, "project/p1.json": {"id": "p1", "worktree": "/home/sam/tides"}}
    assert read(files).sessions[0].cwd == "/home/sam/tides"
    assert read({**files, "project/p1.json": {"id": "global", "worktree": "/"}}).sessions[0].cwd == ""


def test_files_that_are_no_objects_are_counted() -> None:
    whole = read({"session/p1/ses_1.json": SESSION, "message/ses_1/msg_1.json": [1]})
    assert whole.lines_skipped == {"malformed": 1}


def test_names_and_directories() -> None:
    assert FORMAT.may_hold(PATH)
    assert not FORMAT.may_hold(f"{ROOT}/message/ses_1/msg_1.json")
    assert not FORMAT.may_hold(f"{ROOT}/session/message/ses_1/msg_1.json")
    assert not FORMAT.may_hold(f"{ROOT}/part/msg_1/prt_1.json")
    assert not FORMAT.may_hold(f"{ROOT}/project/p1.json")
    linux = ("/home/sam/.local/share/opencode/storage/session", "/home/sam/.local/share/opencode/project")
    assert FORMAT.default_dirs({}, "/home/sam", "linux") == linux
    assert FORMAT.default_dirs({"XDG_DATA_HOME": "/data"}, "/home/sam", "darwin")[0] == "/data/opencode/storage/session"
    windows = FORMAT.default_dirs({"USERPROFILE": r"C:\Users\sam"}, "x", "win32")
    assert windows[0] == r"C:\Users\sam\.local\share\opencode\storage\session"


@pytest.mark.parametrize("value", [None, [], {"id": "x", "title": "t", "version": "1"}, {**SESSION, "messages": []}])
def test_other_documents_are_not_taken(value: object) -> None:
    assert not FORMAT.sniff(document(value))


def test_damage_does_not_raise() -> None:
    path = str(DATA / "session" / "p1" / "ses_0001.json")
    data = gathered(path, Files())
    assert_no_damage_raises(FORMAT, data, path)
    for name, mutate in MUTATORS.items():
        for seed in range(10):
            whole = read_bytes(FORMAT, mutate(data, random.Random(seed)), path)
            assert all((one.user_text + one.reply_text).encode() for one in whole.exchanges), (name, seed)
    assert FORMAT.open(PATH, redact).finish().exchanges == ()
    assert list(FORMAT.members(PATH, Nearby({PATH: b"{half"}))) == [PATH]
