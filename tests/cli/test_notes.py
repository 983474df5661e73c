"""``remember``, ``notes``, ``export`` and ``import``: what they send, print, and how they end."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palace_daemon.cli import main

Cli = Callable[..., Any]


def test_remember_sends_everything_and_says_what_is_kept(
    cli: Cli, running: Any, palace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = cli(
        "remember", "Redis 7,", "never 6.", "--project", ".", "--tag", "redis", "--tag", "db", "--author", "ci"
    )
    assert outcome.code == 0
    (note,) = palace.noted
    assert (note.text, note.project, note.tags, note.author) == (
        "Redis 7, never 6.", str(tmp_path), ("redis", "db"), "ci"
    )  # fmt: skip
    for part in ("remembered", "Redis 7, never 6.", "#redis #db", "ci", "id n1"):
        assert part in outcome.out
    assert cli("remember", "again", "--project", "tidepool").out.startswith("known already")
    assert palace.noted[1].project == "tidepool"
    assert cli("remember", "--json", "x").json["note"]["noteId"] == "n1"


@pytest.mark.parametrize("words", [("remember", "-"), ("remember",)])
def test_remember_reads_standard_input_word_for_word(
    cli: Cli, running: Any, palace: Any, words: tuple[str, ...]
) -> None:
    cli(*words, stdin=b"  two\n\nlines \xff\n\n")
    assert palace.noted[0].text == "  two\n\nlines \ufffd\n"


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_is_neither_read_from_nor_written_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert main.run(["remember"]) == 2
    assert "needs a text" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    assert main.run(["export"]) == 2
    assert screen.getvalue() == ""
    assert "does not write to a terminal" in capsys.readouterr().err


def test_a_blank_text_is_refused(cli: Cli, running: Any) -> None:
    empty = cli("remember", "-", stdin=b"\n")
    assert empty.code == 2
    assert empty.err.startswith("palace-daemon: --text: Expected")


def test_notes_lists_with_filters_and_ends_with_1_where_there_are_none(cli: Cli, running: Any, palace: Any) -> None:
    assert cli("notes").out == "no notes\n"
    assert cli("notes").code == 1
    cli("remember", "\x1b[31mred", "--tag", "a")
    outcome = cli("notes", "--tag", "a", "--project", "p", "--all", "--limit", "3")
    assert outcome.code == 0
    assert "\ufffd[31mred" in outcome.out
    assert palace.note_filters[-1] == {
        "project": "p", "tags": ("a",), "include_superseded": True, "limit": 3, "offset": 0
    }  # fmt: skip
    assert cli("notes", "list", "--json").json["notes"][0]["tags"] == ["a"]


def test_notes_edits_and_supersedes(cli: Cli, running: Any) -> None:
    edited = cli("notes", "edit", "n1", "better", "words")
    assert edited.code == 0
    assert "better words" in edited.out
    assert cli("notes", "supersede", "n1", "-", "--json", stdin=b"new\n").json["note"]["text"] == "new"
    missing = cli("notes", "edit", "n9", "x")
    assert (missing.code, missing.out) == (1, "")


@pytest.mark.parametrize(
    "words", [("notes", "drop"), ("notes", "edit"), ("notes", "list", "n1"), ("import",), ("notes", "--limit", "0")]
)
def test_a_wrong_command_line_ends_with_2(cli: Cli, running: Any, words: tuple[str, ...]) -> None:
    outcome = cli(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err


def test_export_writes_where_it_is_told(
    cli: Cli, running: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = cli("export", "out.jsonl")
    assert (outcome.code, (tmp_path / "out.jsonl").read_text()) == (0, "exported\n")
    assert "2 exchanges" in outcome.out
    assert cli("export", "out.jsonl", "--json").json["path"] == str(tmp_path / "out.jsonl")


def test_export_to_standard_output_is_the_export_and_nothing_else(cli: Cli, running: Any) -> None:
    outcome = cli("export", "-")
    assert (outcome.code, outcome.out, outcome.err) == (0, "exported\n", "")
    assert cli("export").out == "exported\n"
    assert cli("export", "--json").code == 2


def test_import_reports_and_ends_with_1_where_something_is_missing(cli: Cli, running: Any, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("good")
    outcome = cli("import", str(path))
    assert outcome.code == 0
    for part in ("2 exchanges", "2 new", "1 exchange left out or removed"):
        assert part in outcome.out
    path.write_text("bad")
    bad = cli("import", str(path))
    assert bad.code == 1
    assert "line 2" in bad.out
    assert "not json" in bad.out
    path.write_text("cut off")
    assert cli("import", str(path)).code == 1
    assert cli("import", str(path), "--json").json["isComplete"] is False
    path.write_text("unwiped")
    late = cli("import", str(path))
    assert (late.code, "not gone from the database file yet: no room" in late.err) == (1, True)
    missing = cli("import", str(tmp_path / "absent"))
    assert (missing.code, missing.out) == (1, "")
