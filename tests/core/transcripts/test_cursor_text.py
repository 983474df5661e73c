"""Cursor's older transcripts in plain text, and its exports in markdown."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes, read_file

from palace_daemon.core.drafts import fallback_key
from palace_daemon.core.transcripts.cursor.markdown import CursorMarkdownFormat
from palace_daemon.core.transcripts.cursor.text import CursorTextFormat, blocks_of

DATA = Path(__file__).parents[2] / "data" / "transcripts"
SHARED = Path(__file__).parents[4] / "shared" / "transcripts"

TEXT, MARKDOWN = CursorTextFormat(), CursorMarkdownFormat()
OLD = DATA / "cursor" / "5e551000-0000-4000-8000-000000000202.txt"
EXPORT = DATA / "cursor" / "cursor_reef_map.md"
PATH = "/home/sam/.cursor/projects/home-sam-tide-pool/agent-transcripts/5e551000-0000-4000-8000-000000000202.txt"
HEADER = "# A title\n_Exported on 7/8/2025 at 19:03:40 PDT from Cursor (1.2.1)_\n"


def read_old(text: str) -> Whole:
    assert_cuts_do_not_matter(TEXT, text.encode(), PATH)
    return read_bytes(TEXT, text.encode(), PATH)


def read_export(*turns: tuple[str, str]) -> Whole:
    text = HEADER + "".join(f"\n---\n\n**{speaker}**\n\n{words}\n" for speaker, words in turns)
    assert_cuts_do_not_matter(MARKDOWN, text.encode(), "/home/sam/cursor_a_title.md")
    return read_bytes(MARKDOWN, text.encode(), "/home/sam/cursor_a_title.md")


def every_sample() -> list[Any]:
    files = sorted(path for path in SHARED.rglob("*") if path.is_file()) if SHARED.is_dir() else []
    own = sorted(path for path in DATA.rglob("*") if path.is_file())
    return [
        *(pytest.param(path, id=str(path.relative_to(SHARED)), marks=pytest.mark.shared) for path in files),
        *(pytest.param(path, id=str(path.relative_to(DATA))) for path in own),
    ]


@pytest.mark.parametrize("path", every_sample())
def test_only_cursors_own_files_are_recognised(path: Path) -> None:
    head = path.read_bytes()[: 64 * 1024]
    is_ours = path.parent.name == "cursor" and path.name != "SOURCES.txt"
    assert TEXT.sniff(head) is (is_ours and path.suffix == ".txt")
    assert MARKDOWN.sniff(head) is (is_ours and path.suffix == ".md")


# ------------------------------------------------------------------------------------------------------- plain text


def test_an_old_transcript_gives_its_exchanges() -> None:
    found = read_bytes(TEXT, OLD.read_bytes(), PATH)
    assert found.pairs == [
        (
            "Fix the tide table:\n\nuser:\n  name: sam",
            "The table skips its first row.\n\nI fixed it; it reads:\n\n- row one\n- row two",
        ),
        ("Thanks, and the moon table?", ""),
    ]
    first = found.exchanges[0]
    assert [(tool.name, tool.target) for tool in first.tools] == [
        ("Read", "/home/sam/tide-pool/table.csv"),
        ("Shell", "make test"),
    ]
    assert first.reply_text[first.reply_final_start :].startswith("I fixed it")
    assert first.session_id == "5e551000-0000-4000-8000-000000000202"
    assert first.key == fallback_key("cursor", first.session_id, 0, first.user_text)
    assert (first.cwd, first.started_at, first.time_quality) == ("/home/sam/tide-pool", None, "none")
    assert (first.line_start, first.line_end) == (1, 25)
    assert found.lines_skipped == {"thinking": 2, "injected_context": 1}


def test_cuts_of_an_old_transcript_do_not_matter() -> None:
    assert_cuts_do_not_matter(TEXT, OLD.read_bytes(), PATH)


def test_places_are_offsets_into_the_file() -> None:
    data = OLD.read_bytes()
    blocks = list(blocks_of(data.decode()))
    assert [(block.speaker, block.line) for block in blocks] == [
        ("user", 1),
        ("assistant", 13),
        ("assistant", 25),
        ("user", 37),
        ("assistant", 40),
    ]
    for block in blocks:
        assert data[block.byte_start :].split(b"\n")[0].decode() == f"{block.speaker}:"
    assert blocks[-1].byte_end == len(data)


def test_an_output_is_no_reply() -> None:
    found = read_old(
        "user:\n<user_query>\nRead it\n</user_query>\n\nA:\n[Tool result] Read\nline one\nline two\n\nIt is read.\n"
    )
    assert found.pairs == [("Read it", "It is read.")]


def test_a_query_that_is_never_closed_ends_at_the_next_label() -> None:
    found = read_old("user:\n<user_query>\nOne\n\nassistant:\nTwo\n\nuser:\n<user_query>\nThree\n</user_query>\n")
    assert found.pairs == [("One", "Two"), ("Three", "")]


def test_a_label_in_a_paragraph_is_a_word() -> None:
    found = read_old("user:\n[Thinking]\nThe keys are\nuser:\nassistant:\n\nassistant:\nYes\n")
    assert found.pairs == [("[Thinking]\nThe keys are\nuser:\nassistant:", "Yes")]


def test_line_ends_of_windows_and_a_mark_at_the_start_are_read() -> None:
    data = b"\xef\xbb\xbf" + b"user:\r\n<user_query>\r\nOne\r\n</user_query>\r\n\r\nassistant:\r\nTwo\r\n"
    assert TEXT.sniff(data)
    assert read_bytes(TEXT, data, PATH).pairs == [("One", "Two")]


@pytest.mark.parametrize(
    ("text", "is_ours"),
    [
        ("user:\n<user_query>\nhi\n</user_query>\n", True),
        ("\nuser:\n<timestamp>x</timestamp>\n", True),
        ("user:\nhi\n\nassistant:\n[Tool call] Read\n", True),
        ("user:\nhi\n\nassistant:\nhello\n", False),
        ("User: hi\n\nAssistant: hello\n", False),
        ("notes\nuser:\n<user_query>\n", False),
        ("", False),
    ],
)
def test_which_texts_are_recognised(text: str, is_ours: bool) -> None:
    assert TEXT.sniff(text.encode()) is is_ours


def test_which_paths_may_hold_a_text() -> None:
    assert TEXT.may_hold(PATH)
    assert TEXT.may_hold("C:\\Users\\sam\\.cursor\\projects\\p\\agent-transcripts\\c1.txt")
    assert not TEXT.may_hold("/home/sam/.cursor/projects/p/terminals/1.txt")


# ---------------------------------------------------------------------------------------------------------- markdown


def test_an_export_gives_its_exchanges() -> None:
    found = read_file(MARKDOWN, EXPORT)
    assert found.pairs == [
        (
            "Why is the reef map empty?",
            "The layer is never added.\n\n---\n\nMore below the rule:\n\n**User** stories are not a turn.",
        ),
        ("Add it then", "Added. — Done"),
    ]
    session = found.sessions[0]
    assert (session.session_id, session.title, session.agent_version) == (
        "cursor_reef_map",
        "Reef map is empty",
        "3.13.25",
    )
    first, second = found.exchanges
    assert (first.started_at, first.time_quality) == (None, "none")
    assert (second.started_at, second.time_quality) == (1784628660000, "turn")
    assert (first.line_start, second.line_start) == (4, 22)
    assert EXPORT.read_bytes()[second.byte_start :].startswith(b"---\n\n**User**\n\n<timestamp>")
    assert second.byte_end == len(EXPORT.read_bytes())
    assert_cuts_do_not_matter(MARKDOWN, EXPORT.read_bytes(), str(EXPORT))


def test_an_export_steps_back_behind_the_transcript() -> None:
    assert MARKDOWN.is_secondary
    assert MARKDOWN.default_dirs({}, "/home/sam", "linux") == ()


def test_replies_in_a_row_belong_to_one_turn() -> None:
    found = read_export(("User", "One"), ("Cursor", "1"), ("Cursor", "2"), ("User", "Two"), ("Cursor", ""))
    assert found.pairs == [("One", "1\n\n2"), ("Two", "")]


def test_an_export_without_turns_is_empty() -> None:
    assert read_export().exchanges == ()


@pytest.mark.parametrize(
    ("text", "is_ours"),
    [
        (HEADER, True),
        ("\ufeff" + HEADER.replace("\n", "\r\n"), True),
        ("# T\n\n_Exported on 28/9/2026 at 17:49:33 VET from Cursor (3.13.25)_\n", True),
        ("# T\n_Exported on 01/04/2026 at 23:26:26 GMT+8 from Cursor via another program_\n", False),
        ("Text before\n" + HEADER, False),
        ("# Notes on exports\n\nThey begin with _Exported on 1/1/2026 from Cursor (1.2)_\n", False),
        ("", False),
    ],
)
def test_which_markdown_is_recognised(text: str, is_ours: bool) -> None:
    assert MARKDOWN.sniff(text.encode()) is is_ours


def test_markdown_of_another_kind_is_counted() -> None:
    assert read_bytes(MARKDOWN, b"# Notes\n").lines_skipped == {"unknown_shape": 1}


def test_which_paths_may_hold_an_export() -> None:
    assert MARKDOWN.may_hold("/home/sam/Downloads/cursor_a_title.md")
    assert not MARKDOWN.may_hold("/home/sam/.cursor/plans/a.md")


# ------------------------------------------------------------------------------------------------------------ damage


@pytest.mark.parametrize("seed", range(10))
def test_garbage_never_raises(seed: int) -> None:
    chance = random.Random(seed)
    for known, path in ((TEXT, OLD), (MARKDOWN, EXPORT)):
        data = path.read_bytes()
        for _ in range(6):
            broken = bytearray(data)
            for _ in range(chance.randrange(1, 30)):
                place = chance.randrange(len(broken))
                broken[place : place + chance.randrange(9)] = bytes(chance.choices(b"<>[]-*#:\n \xff\x00", k=3))
            assert read_bytes(known, bytes(broken), str(path)).is_whole
