"""Notes, exports and imports on the wire: agreed keys, checked parameters, progress."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palace_daemon.rpc import wire

NOTE_KEYS = {"noteId", "text", "project", "tags", "author", "createdAt", "editedAt", "supersededBy"}


def test_remember_answers_with_the_agreed_keys(wire: Any, palace: Any) -> None:
    params = {"text": "x \ud800", "project": "p", "tags": ["a"], "author": "ci", "now": "2026-03-04T10:00:00+02:00"}
    result = wire.call("palace/remember", params)["result"]
    assert set(result) == {"note", "isNew"}
    assert set(result["note"]) == NOTE_KEYS
    assert result["isNew"] is True
    assert result["note"]["createdAt"] == "2026-03-04T08:00:00.000Z"
    assert (result["note"]["text"], result["note"]["editedAt"]) == ("x \ufffd", None)
    assert palace.noted[0].tags == ("a",)


def test_a_note_is_dated_by_the_daemon_where_the_caller_has_no_clock(wire: Any, palace: Any) -> None:
    wire.call("palace/remember", {"text": "x"})
    assert palace.noted[0].created_at > 1_700_000_000_000


def test_notes_lists_edits_and_supersedes(wire: Any, palace: Any) -> None:
    wire.call("palace/remember", {"text": "x"})
    assert [note["text"] for note in wire.call("palace/notes")["result"]["notes"]] == ["x"]
    wire.call("palace/notes", {"project": "p", "tags": ["a"], "all": True, "limit": 3, "offset": 1})
    assert palace.note_filters[1] == {
        "project": "p", "tags": ("a",), "include_superseded": True, "limit": 3, "offset": 1
    }  # fmt: skip
    edited = wire.call("palace/notes", {"action": "edit", "id": "n1", "text": "y", "now": 5})["result"]
    assert (edited["note"]["text"], edited["note"]["editedAt"]) == ("y", "1970-01-01T00:00:00.005Z")
    new = wire.call("palace/notes", {"action": "supersede", "id": "n1", "text": "z"})["result"]
    assert (new["note"]["noteId"], new["isNew"]) == ("n2", True)
    assert wire.call("palace/notes", {"action": "edit", "id": "n9", "text": "y"})["error"]["data"]["kind"] == "notFound"


@pytest.mark.parametrize(
    ("method", "params", "path"),
    [
        ("palace/remember", {}, "$.text"),
        ("palace/remember", {"text": ""}, "$.text"),
        ("palace/remember", {"text": "x", "tags": [""]}, "$.tags[0]"),
        ("palace/remember", {"text": "x", "tag": "y"}, "$.tag"),
        ("palace/remember", {"text": "x", "now": "today"}, "$.now"),
        ("palace/notes", {"action": "drop"}, "$.action"),
        ("palace/notes", {"action": "edit", "text": "x"}, "$.id"),
        ("palace/notes", {"action": "supersede", "id": "n1", "text": " "}, "$.text"),
        ("palace/notes", {"limit": 0}, "$.limit"),
        ("palace/export", {}, "$.path"),
        ("palace/export", {"path": "relative.jsonl"}, "$.path"),
        ("palace/import", {"path": "/a\0b"}, "$.path"),
        ("palace/import", {"path": "~/x"}, "$.path"),
    ],
)
def test_bad_parameters_are_answered_with_the_path_of_the_field(wire: Any, method: str, params: Any, path: str) -> None:
    error = wire.call(method, params)["error"]
    assert (error["code"], error["data"]) == (-32602, {"kind": "params", "path": path})


def test_export_and_import_answer_with_the_agreed_keys(wire: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "x.jsonl")
    written = wire.call("palace/export", {"path": path})["result"]
    assert written == {
        "path": path, "sizeBytes": 9, "seconds": 0.5,
        "records": {"source": 1, "exchange": 2, "note": 0, "session": 1, "tombstone": 0},
    }  # fmt: skip
    (tmp_path / "x.jsonl").write_text("bad")
    read = wire.call("palace/import", {"path": path})["result"]
    assert set(read) == {"records", "changes", "malformed", "problems", "isComplete", "seconds", "wipeDue"}
    assert (read["problems"], read["isComplete"]) == ([{"line": 2, "reason": "not_json"}], True)
    assert wire.call("palace/import", {"path": str(tmp_path / "absent")})["error"]["data"]["kind"] == "source"


def test_a_token_brings_progress(wire: Any, tmp_path: Path) -> None:
    wire.request(1, "palace/export", {"path": str(tmp_path / "x"), "workDoneToken": "t"})
    heard = []
    while "method" in (message := wire.read()):
        heard.append(message["params"]["value"])
    assert [value["kind"] for value in heard] == ["begin", "report", "end"]
    assert (heard[1]["stage"], heard[1]["done"], heard[1]["total"]) == ("export", 1, 2)
    assert message["result"]["sizeBytes"] == 9


def test_long_work_keeps_no_quick_thread_busy() -> None:
    assert all(wire.METHODS[name].is_long for name in ("palace/export", "palace/import"))
    assert json.dumps(sorted(wire.METHODS))
