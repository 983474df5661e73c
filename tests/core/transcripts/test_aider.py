"""Aider histories: sessions, prompts and headings, tool lines and quotations, commands, reasoning."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes, read_file

from palace_daemon.core.transcripts.aider.format import AiderFormat
from palace_daemon.model import ToolUse

FORMAT = AiderFormat()
DATA = Path(__file__).parents[2] / "data" / "transcripts" / "aider" / "observatory.md"
HEADER = "\n# aider chat started at 2026-03-02 09:00:00\n\n> Aider v0.86.2  \n"


def read(text: str, path: str = "/home/kim/dome/.aider.chat.history.md") -> Whole:
    return read_bytes(FORMAT, (HEADER + text).encode(), path)


def test_prompts_and_replies_of_the_sample() -> None:
    whole = read_file(FORMAT, DATA)
    assert [one.user_text for one in whole.exchanges] == [
        "make the dome turn with the telescope\n\n  - slowly\n- never backwards",
        "why is the motor loud?",
        "/opt/grease is where the notes are, read them",
        "say hello",
    ]
    first, asked, path, hello = whole.exchanges
    assert first.reply_text.startswith(
        "I will edit `dome.py`.\n\n# Plan\n\n#### Step 1\n\n> A quotation from the manual"
    )
    assert "#### not a prompt\n\n# aider is no header" in first.reply_text
    assert first.reply_text.endswith("The limits need a change, too:\n\n````\nnever closed")
    assert first.reply_text[first.reply_final_start :].startswith("The limits")
    assert first.tools == (ToolUse(name="edit", target="dome.py"),)
    assert (first.model, first.agent_version, first.status) == ("gpt-4o", "0.86.2", "complete")
    assert (asked.user_kind, asked.reply_text) == ("slash_args", "The motor lacks grease.")
    assert (path.user_kind, path.status) == ("prompt", "interrupted")
    assert hello.reply_text == "Hello."
    assert whole.lines_skipped == {
        "tool_line": 12,
        "before_first_prompt": 1,
        "slash_command": 1,
        "thinking": 1,
        "empty": 1,
        "shell_command": 1,
        "repeated_prompt": 1,
        "no_turns": 1,
    }


def test_sessions_are_named_by_folder_and_start_and_dated_without_being_exact() -> None:
    whole = read_file(FORMAT, DATA)
    assert [one.session_id for one in whole.sessions] == ["aider@2026-03-02T09:00:00", "aider@2026-03-02T09:00:00#2"]
    assert {(one.started_at, one.time_quality) for one in whole.exchanges} == {(1_772_442_000_000, "session")}


def test_cuts_and_restarts_do_not_matter() -> None:
    assert_cuts_do_not_matter(FORMAT, DATA.read_bytes(), str(DATA))


def test_a_history_that_grows_keeps_its_exchanges() -> None:
    lines = DATA.read_text(encoding="utf-8").splitlines(keepends=True)
    keys = {one.key for one in read_file(FORMAT, DATA).exchanges}
    for end in range(1, len(lines)):
        if lines[end] == "\n":
            whole = read_bytes(FORMAT, "".join(lines[:end]).encode(), str(DATA))
            assert {one.key for one in whole.exchanges} <= keys, end


@pytest.mark.shared
def test_the_real_samples(shared_transcripts: Path) -> None:
    whole = read_file(FORMAT, shared_transcripts / "aider" / "mcpmemory-574B.md")
    assert whole.exchanges == ()
    assert whole.lines_skipped == {"no_turns": 3, "tool_line": 9}
    whole = read_file(FORMAT, shared_transcripts / "aider" / "agentsview.md")
    below = "#### Step 1\nWrap the call in a loop."
    assert whole.pairs == [
        (
            "add a retry to the webhook",
            f"I'll add exponential backoff to the webhook handler.\n\nHere is the plan:\n\n{below}",
        ),
        ("make the timeout configurable", "Done. The timeout now reads from the environment."),
    ]
    assert [one.target for one in whole.exchanges[0].tools] == ["src/webhook.py", "src/webhook.py"]
    assert whole.exchanges[1].tools == (ToolUse(name="edit", target="src/config.py"),)
    assert whole.lines_skipped == {"no_turns": 1, "tool_line": 6}


def test_the_project_is_where_the_history_lies() -> None:
    text = "\n#### hello  \n"
    assert read(text).exchanges[0].cwd == "/home/kim/dome"
    assert read(text).sessions[0].cwd == "/home/kim/dome"
    assert read(text, "C:\\kim\\dome\\.aider.chat.history.md").sessions[0].cwd == "C:\\kim\\dome"
    assert read(text, "/home/kim/notes.md").sessions[0].cwd == ""
    assert read(text, "/x.zip!/dome/.aider.chat.history.md").sessions[0].cwd == ""


@pytest.mark.parametrize(
    ("prompt", "text", "kind"),
    [
        ("/ask why?", "why?", "slash_args"),
        ("/code write it", "write it", "slash_args"),
        ("/architect plan it", "plan it", "slash_args"),
        ("/tmp is full, why?", "/tmp is full, why?", "prompt"),
        ("/home/kim/x.py fails", "/home/kim/x.py fails", "prompt"),
        ("what does /add do?", "what does /add do?", "prompt"),
        ("# heading of mine", "# heading of mine", "prompt"),
    ],
)
def test_words_of_prompts(prompt: str, text: str, kind: str) -> None:
    one = read(f"\n#### {prompt}  \n\nreply\n\n> Tokens: 1 sent, 1 received.  \n").exchanges[0]
    assert (one.user_text, one.user_kind, one.reply_text) == (text, kind, "reply")


@pytest.mark.parametrize("prompt", ["/add x.py", "/drop", "/run make", "/exit", "!ls -l", "<blank>"])
def test_commands_are_no_words_and_what_follows_belongs_to_none_before(prompt: str) -> None:
    whole = read(f"\n#### first  \n\nreply\n\n#### {prompt}  \n\noutput of it\n")
    assert whole.pairs == [("first", "reply"), ("", "output of it")]


def test_a_prompt_that_is_sent_again_after_a_reply_stays() -> None:
    whole = read("\n#### continue  \n\none\n\n#### continue  \n\n#### continue  \n\ntwo\n")
    assert whole.pairs == [("continue", "one"), ("continue", "two")]
    assert whole.lines_skipped["repeated_prompt"] == 1


def test_reasoning_in_the_other_form_is_left_out() -> None:
    whole = read(
        "\n#### q  \n\n--------------\n\u25ba **THINKING**\n\nhm\n\n------------\n\u25ba **ANSWER**\n\nyes\n\n"
        "> Tokens: 1 sent, 1 received.  \n"
    )
    assert whole.pairs == [("q", "yes")]
    assert whole.lines_skipped["thinking"] == 1


def test_reasoning_that_never_ends_stops_at_the_next_sign_of_the_program() -> None:
    whole = read("\n#### q  \n<thinking-content-0a>\nhm\n\n> Tokens: 1 sent, 1 received.  \n\n#### next  \n\nyes\n")
    assert whole.pairs == [("q", ""), ("next", "yes")]


def test_without_hard_breaks_a_heading_below_one_empty_line_is_no_prompt() -> None:
    text = (
        "# aider chat started at 2026-03-02 09:00:00\n\n#### one\n#### more\n\nreply\n\n#### Heading\n\ntext\n\n\n"
        "#### two\n\nreply\n\n> Tokens: 1 sent, 1 received.\n\n#### three\n"
    )
    whole = read_bytes(FORMAT, text.encode())
    assert whole.pairs == [("one\nmore", "reply\n\n#### Heading\n\ntext"), ("two", "reply"), ("three", "")]


def test_line_ends_of_windows_a_bom_and_utf_16() -> None:
    data = DATA.read_bytes()
    plain = read_bytes(FORMAT, data).pairs
    assert read_bytes(FORMAT, b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")).pairs == plain
    assert read_bytes(FORMAT, b"\xff\xfe" + data.decode().encode("utf-16-le")).pairs == plain


@pytest.mark.parametrize(
    ("head", "is_ours"),
    [
        (b"\n# aider chat started at 2026-03-02 09:00:00\n", True),
        (b"# aider chat started at 2026-03-02 09:00:00  \r\n", True),
        (b"\xff\xfe" + "\n# aider chat started at 2026-03-02 09:00:00\n".encode("utf-16-le"), True),
        (b"# Notes\n\n# aider chat started at 2026-03-02 09:00:00\n", False),
        (b"```\n# aider chat started at 2026-03-02 09:00:00\n```\n", False),
        (b"# aider chat started at noon\n", False),
        (b"", False),
    ],
)
def test_sniffing(head: bytes, is_ours: bool) -> None:
    assert FORMAT.sniff(head) is is_ours


@pytest.mark.parametrize(
    ("path", "may_hold"),
    [
        ("/home/kim/dome/.aider.chat.history.md", True),
        ("C:\\kim\\.aider.chat.history.md", True),
        ("/home/kim/dome/.aider.input.history", False),
        ("/home/kim/dome/README.md", False),
    ],
)
def test_names(path: str, may_hold: bool) -> None:
    assert FORMAT.may_hold(path) is may_hold


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_no_directory_is_watched(platform: str) -> None:
    assert FORMAT.default_dirs({}, "/home/kim", platform) == ()


CUT = "\n#### one  \n\nLook:\n\n```python\nspeed = 1\n\n"


@pytest.mark.parametrize(
    "between",
    [
        "",
        "> litellm.APIConnectionError: the server went away  \n> Retrying in 0.2 seconds...  \n\n",
        "> Retrying in 0.2 seconds...  \n\n",
        "> The API provider's servers are down or overloaded.  \n\n",
    ],
)
def test_a_reply_that_was_cut_inside_code_ends_before_the_next_prompt(between: str) -> None:
    whole = read(f"{CUT}{between}#### two  \n\n```\nreply\n```\n\n> Tokens: 1 sent, 1 received.  \n")
    assert whole.pairs == [("one", "Look:\n\n```python\nspeed = 1"), ("two", "```\nreply\n```")]


def test_a_reply_that_was_cut_while_it_reasoned_ends_before_the_next_prompt() -> None:
    thought = "<thinking-content-0a>\nhm\n\n#### no prompt  \n</thinking-content-0a>\n\nyes\n\n"
    whole = read(f"\n#### one  \n<thinking-content-0a>\nhm\n\n#### two  \n{thought}#### three  \n")
    assert whole.pairs == [("one", ""), ("two", "yes"), ("three", "")]
    assert whole.lines_skipped["thinking"] == 2


def test_reasoning_marks_in_a_code_fence_are_words() -> None:
    shown = "```\n\u25ba **THINKING**\nhm\n\u25ba **ANSWER**\n```\nSo it looks."
    assert read(f"\n#### q  \n\n{shown}\n").pairs == [("q", shown)]


def test_reasoning_that_is_shown_and_never_ends_is_kept() -> None:
    assert read("\n#### q  \n\n\u25ba **THINKING**\nhm\n").pairs == [("q", "\u25ba **THINKING**\nhm")]


def test_without_hard_breaks_a_quotation_in_a_reply_is_told_from_a_tool_line_by_its_words() -> None:
    text = (
        "# aider chat started at 2026-03-02 09:00:00\n\n> some banner\n\n#### one\n\n"
        "> important quote\n\nAs it says.\n\n> Error handling matters\n\n"
        "> Applied edit to a.py\n> whatever else\n\n\n#### /add b.py\n> whatever it says\n"
    )
    whole = read_bytes(FORMAT, text.encode())
    assert whole.pairs == [("one", "> important quote\n\nAs it says.\n\n> Error handling matters")]
    assert [tool.target for tool in whole.exchanges[0].tools] == ["a.py"]
    assert whole.lines_skipped == {"tool_line": 4, "slash_command": 1}
