"""Plain texts: what is a conversation, and the many pages that are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.formats import assert_cuts_do_not_matter, read_bytes, read_file

from palace_daemon.core.transcripts.plain_text.format import PlainTextFormat

FORMAT = PlainTextFormat()
DATA = Path(__file__).parents[2] / "data" / "transcripts" / "text"
REPOSITORY = Path(__file__).parents[3]


def pairs(text: str) -> list[tuple[str, str]]:
    return read_bytes(FORMAT, text.encode()).pairs


def test_labels_before_their_words() -> None:
    whole = read_file(FORMAT, DATA / "labelled.txt")
    assert whole.pairs == [
        ("How high is the tower?", "It is 40 m high.\n\nIt was measured in May.\n\n```\nUser: this line is code\n```"),
        ("And how old?\nBuilt before the war?", "Yes, in 1931."),
    ]
    assert {(one.agent, one.time_quality, one.status) for one in whole.exchanges} == {("text", "none", "complete")}
    assert [(one.line_start, one.line_end) for one in whole.exchanges] == [(3, 4), (12, 16)]


def test_labels_as_headings() -> None:
    assert read_file(FORMAT, DATA / "headings.md").pairs == [
        (
            "How high is it?\n\nUser: not a label of this form",
            "It is 40 m high.\n\n### User\n\nthat is a heading of mine",
        ),
        ("Thanks.", ""),
    ]


def test_quoted_prompts() -> None:
    assert read_file(FORMAT, DATA / "quoted.md").pairs == [
        (
            "How do I oil a hinge?\n\nIt squeaks.",
            "Use two drops of oil.\n\n- one above\n- one below\n\nThe manual says:\n> never use butter",
        ),
        ("And a lock?", "Graphite powder, no oil."),
    ]


@pytest.mark.parametrize("path", sorted(DATA.iterdir()), ids=lambda path: path.name)
def test_cuts_and_restarts_do_not_matter(path: Path) -> None:
    assert_cuts_do_not_matter(FORMAT, path.read_bytes(), str(path))


@pytest.mark.parametrize("path", sorted(DATA.iterdir()), ids=lambda path: path.name)
def test_line_ends_of_windows_a_bom_and_utf_16(path: Path) -> None:
    data = path.read_bytes()
    plain = read_bytes(FORMAT, data).pairs
    for other in (
        b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"),
        b"\xff\xfe" + data.decode().encode("utf-16-le"),
        b"\xfe\xff" + data.decode().encode("utf-16-be"),
    ):
        assert FORMAT.sniff(other)
        assert read_bytes(FORMAT, other).pairs == plain


@pytest.mark.parametrize(
    "labels",
    [
        ("User: ", "Assistant: "),
        ("Human: ", "AI: "),
        ("Me: ", "Bot: "),
        ("USER: ", "CLAUDE: "),
        ("You said:\n", "ChatGPT said:\n"),
        ("**User:** ", "**Assistant:** "),
        ("**You**: ", "**ChatGPT**: "),
        ("# Human\n\n", "# Claude\n\n"),
    ],
)
def test_labels_of_either_side(labels: tuple[str, str]) -> None:
    user, reply = labels
    assert pairs(f"{user}a\n\n{reply}b\n\n{user}c\n\n{reply}d\n") == [("a", "b"), ("c", "d")]


def test_several_turns_of_one_side_and_a_reply_before_any_prompt() -> None:
    text = "Bot: hello\nUser: a\nUser: b\nBot: c\nUser: d\nBot: e\n"
    assert pairs(text) == [("", "hello"), ("a", ""), ("b", "c"), ("d", "e")]


def test_the_session_is_known_by_name_and_first_words() -> None:
    data = (DATA / "labelled.txt").read_bytes()
    names = {
        read_bytes(FORMAT, data + more, path).sessions[0].session_id
        for path, more in [("/a/x.txt", b""), ("/b/x.txt", b""), ("/a/x.txt", b"User: More?\n")]
    }
    assert len(names) == 1
    assert names.pop().startswith("x-")
    assert read_bytes(FORMAT, data.replace(b"tower", b"hill"), "/a/x.txt").sessions[0].session_id not in names


def test_what_a_late_reply_holds_undoes_nothing() -> None:
    text = "> one\n\nanswer\n\n> two\n\nanswer\n" + "more words\n" * 8_000 + "> three\n\n>> nested\n> [!NOTE]\n"
    assert len(pairs(text)) == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "just a note\n",
        "User: hello\nAssistant: hi\n",  # as much a glossary
        "User: a person\nUser: b\nUser: c\nUser: d\n",
        "User: a\nUser: b\nUser: c\nUser: d\nAssistant: e\n",
        "user: kim\nassistant: none\nuser: sam\nassistant: none\n",
        "```\nUser: a\nAssistant: b\nUser: c\nAssistant: d\n```\n",
        "line\n" * 40 + "User: a\nAssistant: b\nUser: c\n",
        '{"text": "\nUser: a\nAssistant: b\nUser: c\n"}',
        "Users: 4\nAssistants: 5\nUsers: 6\n",
        "> a\n\nb\n",
        "> a\n> b\n> c\n> d\n",
        "text\n\n> a\n\nb\n\n> c\n\nd\n",
        "> A tagline\n\n# Project\n\ntext\n\n> a note\n\ntext\n",
        "> A tagline\n\n[![badge](x)](y)\n\n> a note\n\ntext\n",
        "> a\n>> b\n\nc\n\n> d\n\ne\n",
        "> a\n> > b\n\nc\n\n> d\n\ne\n",
        "> a\n\nc\n\n> d\n\nOn Monday, 2 March 2026 at 10:00, Kim Vance wrote:\n> e\n\nf\n",
        "> a\n\nc\n\nAm 02.03.26 um 10:00 schrieb Kim Vance:\n\n> d\n\ne\n",
        "> [!NOTE]\n> a\n\nb\n\n> [!TIP]\n> c\n\nd\n",
        "/// > a\n///\n/// b\n///\n/// > c\n///\n/// d\n",
        "> Tokens: 1  \n> Applied edit to x  \n",
        "\x00\x01\x02" * 40,
    ],
)
def test_texts_that_are_no_conversation(text: str) -> None:
    assert not FORMAT.sniff(text.encode())
    assert read_bytes(FORMAT, text.encode()).exchanges == ()


def test_the_pages_of_this_repository_are_no_conversations() -> None:
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "bench").rglob("*.md"), *(REPOSITORY / "models").rglob("*.md")]
    assert len(pages) > 1
    for page in pages:
        assert not FORMAT.sniff(page.read_bytes()[: 64 * 1024]), page


@pytest.mark.parametrize("path", ["/home/kim/chat.txt", "/home/kim/.codex/sessions/notes.md", "C:\\x.md"])
def test_no_watched_directory_is_searched(path: str) -> None:
    assert not FORMAT.may_hold(path)


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_no_directory_is_watched(platform: str) -> None:
    assert FORMAT.default_dirs({}, "/home/kim", platform) == ()
