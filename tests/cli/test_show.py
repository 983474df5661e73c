"""Text for people: nothing is lost, nothing is too wide, nothing commands the terminal."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palace_daemon.cli import show


@given(st.text(max_size=300), st.integers(4, 40))
def test_folded_lines_fit_and_keep_every_visible_character(text: str, columns: int) -> None:
    lines = show.fold(text, columns)
    assert all(show.columns_of(line) <= columns for line in lines)
    assert "".join("".join(lines).split()) == "".join(show.clean(text).split())


def test_wide_characters_take_two_columns() -> None:
    assert show.columns_of("記憶a") == 5
    assert show.fold("記憶" * 10, 8) == ["記憶記憶"] * 5
    assert show.one_line("記憶" * 10, 9) == "記憶記憶…"


def test_lines_break_at_spaces_where_there_are_any() -> None:
    assert show.fold("the quick brown fox", 10) == ["the quick", "brown fox"]
    assert show.fold("a" * 25, 10) == ["a" * 10, "a" * 10, "a" * 5]
    assert show.fold("one\n\ntwo", 10) == ["one", "", "two"]


@given(st.text(max_size=200), st.integers(3, 60))
def test_one_line_is_one_line(text: str, columns: int) -> None:
    line = show.one_line(text, columns)
    assert "\n" not in line
    assert show.columns_of(line) <= columns


def test_a_snippet_shows_where_the_words_are() -> None:
    text = "\n".join(f"line {number}" for number in range(50)) + "\nthe Redis queue lost jobs\nend"
    lines = show.snippet(text, ["redi", "queue"], 60)
    assert len(lines) == show.SNIPPET_LINES
    assert any("Redis queue" in line for line in lines)
    assert lines[0].startswith("… ")
    first = show.snippet(text, ["absent"], 60)
    assert first[0] == "line 0"
    assert first[-1].endswith(" …")
    assert show.snippet("short", ["x"], 60) == ["short"]


@given(st.text(max_size=400), st.lists(st.text(min_size=1, max_size=5), max_size=3), st.integers(10, 40))
def test_a_snippet_never_exceeds_its_lines_and_columns(text: str, terms: list[str], columns: int) -> None:
    lines = show.snippet(text, terms, columns)
    assert len(lines) <= show.SNIPPET_LINES
    assert all(show.columns_of(line) <= columns for line in lines)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (12_345_678, "12.3 MB"), (5 * 10**12, "5000.0 GB")],
)
def test_sizes(count: int, text: str) -> None:
    assert show.size(count) == text


def test_colours_only_on_a_terminal_and_not_against_the_users_will(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert show.paint("x", "bold") == "\x1b[1mx\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert show.paint("x", "bold") == "x"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert show.paint("x", "bold") == "x"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert show.paint("x", "bold") == "x"


def test_the_home_directory_is_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/sam")
    assert show.place("/home/sam/t/a.jsonl", 3, 9) == "~/t/a.jsonl:3-9"
    assert show.place("/home/samuel/a.jsonl", 3, 3) == "/home/samuel/a.jsonl:3"
