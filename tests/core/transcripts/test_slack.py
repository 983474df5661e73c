"""Slack exports: threads, runs of a channel, names, marks, and notices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes, read_file

from palace_daemon.core.transcripts.slack.format import SlackFormat
from palace_daemon.model import Attachment

FORMAT = SlackFormat()
DATA = Path(__file__).parents[2] / "data" / "transcripts" / "slack-export"
THREAD = "1772445700.000200"


def said(ts: str, text: str = "words", user: str = "U1", **more: Any) -> dict[str, Any]:
    return {"type": "message", "user": user, "text": text, "ts": f"17724{ts}", **more}


def read(*records: Any, path: str = "/export/general/2026-03-02.json") -> Whole:
    return read_bytes(FORMAT, json.dumps(list(records)).encode(), path)


def test_a_day_of_a_channel() -> None:
    whole = read_file(FORMAT, DATA / "general" / "2026-03-02.json")
    asked = "Kim Vance: @Sam is the brake on? It was <off> & free in #general yesterday"
    assert whole.pairs == [
        (
            "Sam: The telescope stops at 40 degrees, see the page of the mount (https://wiki.example/mount)",
            f"{asked}\n\nSam: The brake it was. Solved.",
        ),
        ("Sam: Lunch at noon?", "Kim Vance: Noon is fine."),
        ("Zoe N: Who has the dome key? @here", ""),
    ]
    thread, run, last = whole.exchanges
    assert {one.user_kind for one in whole.exchanges} == {"speaker"}
    assert thread.key == f"slack:general:{THREAD}"
    assert [one.session_id for one in whole.exchanges] == [f"general:{THREAD}", "general", "general"]
    assert (thread.started_at, thread.ended_at, thread.time_quality) == (1_772_445_700_000, 1_772_445_900_000, "exact")
    assert run.attachments == (Attachment(kind="image", name="menu.png", size_bytes=77),)
    assert last.started_at == 1_772_449_700_001
    assert {(one.session_id, one.title) for one in whole.sessions} == {
        (f"general:{THREAD}", "#general"),
        ("general", "#general"),
    }
    assert whole.lines_skipped == {"channel_join": 1, "bot_message": 1}


def test_replies_of_a_later_day_stand_in_the_session_of_their_thread() -> None:
    whole = read_file(FORMAT, DATA / "general" / "2026-03-03.json")
    assert whole.pairs == [("Kim Vance: And the brake is fixed for good now.", "Sam: Thank you!")]
    assert [one.session_id for one in whole.sessions] == [f"general:{THREAD}"]
    assert whole.exchanges[0].key == "slack:general:1772532000.000100"
    assert whole.lines_skipped == {"empty": 1}


def test_a_direct_conversation_is_named_by_its_members() -> None:
    whole = read_file(FORMAT, DATA / "D0SAMKIM1" / "2026-03-02.json")
    assert [one.title for one in whole.sessions] == ["Sam, Kim Vance"]


@pytest.mark.parametrize("name", ["general/2026-03-02.json", "general/2026-03-03.json"])
def test_cuts_and_restarts_do_not_matter(name: str) -> None:
    assert_cuts_do_not_matter(FORMAT, (DATA / name).read_bytes(), str(DATA / name))


@pytest.mark.shared
def test_the_real_fixtures(shared_transcripts: Path) -> None:
    directory = shared_transcripts / "slack-export"
    whole = read_file(FORMAT, directory / "cognee" / "v1" / "general" / "2024-06-01.json")
    assert whole.pairs == [
        ("Alice: Morning standup at 10am", "Bob: I'll demo the new connector today"),
        ("Alice: Great, looking forward to it", ""),
    ]
    whole = read_file(FORMAT, directory / "cognee" / "v2" / "general" / "2024-06-01.json")
    assert whole.pairs == [("U001: Morning standup at 10am", "U002: I'll demo the new connector today")]
    assert whole.exchanges[0].key == "slack:general:1717200000.000100"
    whole = read_file(FORMAT, directory / "mempalace-slack_dm.json")
    assert len(whole.pairs) == 1
    assert whole.pairs[0][0].startswith("U1: Can you review the migration notes")
    assert [text.split(":")[0] for text in whole.pairs[0][1].split("\n\n")] == ["U2", "U1", "U2"]
    assert whole.lines_skipped == {"channel_join": 1}
    assert [one.session_id for one in whole.sessions] == ["mempalace-slack_dm"]


def test_names_come_from_an_archive_too() -> None:
    class Archive:
        def read(self, path: str) -> bytes | None:
            files = {"/x.zip!/top/users.json": b'[{"id": "U1", "name": "kim"}, 7]', "/x.zip!/top/channels.json": b"{"}
            return files.get(path)

        def names(self, directory: str) -> tuple[str, ...]:
            return ()

    data = json.dumps([said("45700.1"), said("45701.1", user="U2")]).encode()
    whole = read_bytes(FORMAT, data, "/x.zip!/top/general/2026-03-02.json", Archive())
    assert whole.pairs == [("kim: words", "U2: words")]


def test_a_long_pause_ends_a_run() -> None:
    whole = read(said("45700.1", "a"), said("47500.1", "b"), said("49300.2", "c"))
    assert whole.pairs == [("U1: a", "U1: b"), ("U1: c", "")]


def test_a_message_that_was_answered_is_a_thread_although_the_answers_lie_elsewhere() -> None:
    whole = read(said("45700.1", "a", thread_ts="1772445700.1", reply_count=2), said("45701.1", "b"))
    assert [(one.session_id, one.user_text) for one in whole.exchanges] == [
        ("general:1772445700.1", "U1: a"),
        ("general", "U1: b"),
    ]


def test_messages_are_put_into_the_order_of_their_times_and_told_once() -> None:
    whole = read(said("45702.1", "b"), said("45701.1", "a"), said("45702.1", "b", subtype="thread_broadcast"))
    assert whole.pairs == [("U1: a", "U1: b")]
    assert whole.lines_skipped == {"duplicate": 1}


@pytest.mark.parametrize(
    "subtype",
    [
        *("channel_join", "channel_leave", "channel_topic", "channel_purpose", "channel_name", "bot_message"),
        *("bot_add", "tombstone", "reminder_add", "huddle_thread"),
    ],
)
def test_notices_are_nobodys_words(subtype: str) -> None:
    whole = read(said("45700.1", subtype=subtype), said("45701.1", "a"))
    assert whole.pairs == [("U1: a", "")]
    assert whole.lines_skipped == {subtype: 1}


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("<@U1|sam> and <@U9>", "@sam and @U9"),
        ("<#C1|general> and <#C2>", "#general and #C2"),
        ("<https://example.org>", "https://example.org"),
        ("<https://example.org|example.org>", "https://example.org"),
        ("<https://example.org/x|the page>", "the page (https://example.org/x)"),
        ("<mailto:a@example.org|a@example.org>", "a@example.org"),
        ("<!channel> <!subteam^S1|@keepers> <!date^1^{date}|yesterday>", "@channel @keepers yesterday"),
        ("a &lt;b&gt; &amp;lt; c", "a <b> &lt; c"),
        ("1 < 2 > 0 <> <|> <|x> <b>", "1 < 2 > 0 <> <|> <|x> <b>"),
    ],
)
def test_marks_are_resolved(text: str, plain: str) -> None:
    assert read(said("45700.1", f"x {text} x")).exchanges[0].user_text == f"U1: x {plain} x"


def test_speakers_without_an_account() -> None:
    bot = {"type": "message", "bot_id": "B1", "bot_profile": {"name": "Deploys"}, "text": "done", "ts": "1772445700.1"}
    other = {"type": "message", "text": "who?", "ts": "1772445701.1"}
    assert read(bot, other).pairs == [("Deploys: done", "unknown: who?")]


@pytest.mark.parametrize("value", [b"{}", b'"x"', b"[[], 7, null, {}]", b"[]"])
def test_other_shapes_are_counted(value: bytes) -> None:
    assert read_bytes(FORMAT, value).exchanges == ()


@pytest.mark.parametrize(
    ("head", "is_ours"),
    [
        (b'[{"type": "message", "user": "U1", "text": "x", "ts": "1717200000.000100"}, {"ty', True),
        (b'[{"subtype": "channel_join", "type": "message", "text": "x", "ts": "1717200000.000100"}]', True),
        (b'[{"type": "message", "user": "U1", "text": "x"}]', True),
        (b'[{"type": "message", "text": "x"}]', False),
        (b'[{"type": "message", "text": "x", "ts": 1717200000}]', False),
        (b'[{"type": "message", "role": "user", "text": "x", "ts": "1717200000.000100"}]', False),
        (b'[{"type": "message", "text": "x", "ts": "2026-01-01"}]', False),
        (b'[{"type": "say", "text": "x", "ts": 1}]', False),
        (b'{"type": "message", "user": "U1", "text": "x", "ts": "1717200000.000100"}', False),
        (b'[{"id": "U1", "name": "sam"}]', False),
        (b"[]", False),
    ],
)
def test_sniffing(head: bytes, is_ours: bool) -> None:
    assert FORMAT.sniff(head) is is_ours


@pytest.mark.parametrize(
    ("path", "may_hold"),
    [
        ("/x.zip!/general/2026-03-02.json", True),
        ("C:\\export\\general\\2026-03-02.json", True),
        ("/x.zip!/users.json", False),
        ("/x.zip!/channels.json", False),
        ("/home/kim/.logs/2026-03-02.json", False),
        ("2026-03-02.json", False),
    ],
)
def test_names(path: str, may_hold: bool) -> None:
    assert FORMAT.may_hold(path) is may_hold


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_no_directory_is_watched(platform: str) -> None:
    assert FORMAT.default_dirs({}, "/home/kim", platform) == ()
