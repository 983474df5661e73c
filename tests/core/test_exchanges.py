"""The assembler: events in, exchanges out."""

from __future__ import annotations

import pytest

from palace_daemon.core import exchanges
from palace_daemon.core.exchanges import Assembler
from palace_daemon.core.turns import (
    Event,
    Facts,
    Place,
    Reading,
    ReplyText,
    Rollback,
    Title,
    ToolCall,
    TurnEnd,
    UserTurn,
)
from palace_daemon.model import Attachment, Exchange, SessionFacts


def keep(text: str) -> str:
    return text


def hide(text: str) -> str:
    return text.replace("hunter2", "[secret]")


def at(line: int) -> Place:
    return Place(line, line * 100, line * 100 + 99)


def turn(text: str, line: int = 1, *, session: str = "s", **more: object) -> UserTurn:
    return UserTurn(session=session, place=at(line), text=text, **more)  # type: ignore[arg-type]


def reply(text: str, line: int = 2, *, session: str = "s", **more: object) -> ReplyText:
    return ReplyText(session=session, place=at(line), text=text, **more)  # type: ignore[arg-type]


def feed(assembler: Assembler, *events: Event) -> dict[str, Exchange]:
    for event in events:
        assembler.take(Reading(events=(event,), session=event.session))
    return {exchange.user_text: exchange for exchange in assembler.flush().exchanges}


def test_a_reply_is_its_blocks_in_order_and_knows_where_the_last_message_begins() -> None:
    told = feed(
        Assembler("a", keep),
        turn("q"),
        reply("one", 2, message_id="m1"),
        reply("two", 3, message_id="m2"),
        reply("three", 4, message_id="m2"),
    )["q"]
    assert told.reply_text == "one\n\ntwo\n\nthree"
    assert told.reply_text[told.reply_final_start :] == "two\n\nthree"
    assert (told.line_start, told.line_end, told.byte_start, told.byte_end) == (1, 4, 100, 499)


def test_blocks_of_a_message_that_is_written_again_while_it_grows_are_united() -> None:
    told = feed(
        Assembler("a", keep),
        turn("q"),
        reply("Loo", message_id="m1", may_be_retold=True),
        reply("Looking.", message_id="m1", may_be_retold=True),
        reply("Looking.", message_id="m1", may_be_retold=True),
        reply("Found.", message_id="m1", may_be_retold=True),
        reply("Found.", message_id="m2", may_be_retold=True),
    )["q"]
    assert told.reply_text == "Looking.\n\nFound.\n\nFound."


@pytest.mark.parametrize(
    "blocks",
    [
        ("The", "Middle.", "The end."),
        ("Let me check.", "Let me check.", "Let me check. Now the log.", "Done."),
        ("a", "ab", "abc", "ab", "a"),
    ],
)
@pytest.mark.parametrize("is_one_reading", [True, False])
def test_a_message_that_is_told_once_keeps_all_its_blocks_in_order(
    blocks: tuple[str, ...], is_one_reading: bool
) -> None:
    assembler = Assembler("a", keep)
    events = [turn("q"), *(reply(text, line, message_id="m") for line, text in enumerate(blocks, 2))]
    if is_one_reading:
        assembler.take(Reading(events=tuple(events), session="s"))
    told = feed(assembler, *([] if is_one_reading else events))["q"]
    assert told.reply_text == "\n\n".join(blocks)
    assert told.reply_final_start == 0


@pytest.mark.parametrize(
    ("records", "told"),
    [
        ([("The", "Middle.", "The end.")], "The|Middle.|The end."),
        ([("a", "a", "ab")], "a|a|ab"),
        ([("a",), ("a", "a"), ("a", "a", "a")], "a|a|a"),
        ([("a",), ("ab",), ("ab", "c"), ("ab", "cd", "e")], "ab|cd|e"),
        ([("a",), ("b",), ("c",)], "a|b|c"),
        ([("a",), ("b",), ("a", "bc")], "a|bc"),
        ([("a",), ("b",), ("ab",)], "a|b|ab"),
    ],
)
@pytest.mark.parametrize("is_restarted", [True, False])
def test_blocks_at_different_places_of_one_record_are_different_blocks(
    records: list[tuple[str, ...]], told: str, is_restarted: bool
) -> None:
    assembler = Assembler("a", keep)
    last = feed(assembler, turn("q"))["q"]
    for record in records:
        events = tuple(reply(text, message_id="m", may_be_retold=True) for text in record)
        assembler.take(Reading(events=events, session="s"))
        last = next(iter(assembler.flush().exchanges), last)
        if is_restarted:
            assembler = Assembler("a", keep, assembler.snapshot())
    assert last.reply_text == told.replace("|", "\n\n")


def test_messages_that_take_turns_stand_together_each() -> None:
    told = feed(
        Assembler("a", keep),
        turn("q"),
        *(reply(f"{name}{number}", message_id=name) for number in range(3) for name in "ab"),
    )["q"]
    assert told.reply_text.split("\n\n") == ["a0", "a1", "a2", "b0", "b1", "b2"]


def test_a_restart_forgets_neither_what_a_channel_told_nor_a_tool_call() -> None:
    call = ToolCall(session="s", place=at(3), name="Bash", call_id="c1")
    assembler = Assembler("a", keep)
    feed(assembler, turn("q"), reply("ok", 2, channel=1), call, reply("ok", 4, channel=2))
    assembler = Assembler("a", keep, assembler.snapshot())
    told = feed(assembler, call, reply("ok", 5, channel=2), reply("ok", 6, channel=1))["q"]
    assert (told.reply_text, len(told.tools)) == ("ok\n\nok", 1)


def test_a_growing_block_with_a_secret_leaves_no_trace_of_its_torn_form() -> None:
    told = feed(
        Assembler("a", lambda text: text.replace("hunter2", "[secret]")),
        turn("q"),
        reply("it is hunt", message_id="m1", may_be_retold=True),
        reply("it is hunter2 now", message_id="m1", may_be_retold=True),
    )["q"]
    assert told.reply_text == "it is [secret] now"
    assert told.flags == ("redacted",)


def test_two_stores_of_one_text_give_it_once_and_a_repetition_twice() -> None:
    told = feed(
        Assembler("a", keep),
        turn("q"),
        *(reply("ok", line, channel=channel) for line, channel in enumerate((1, 2, 1, 2))),
        reply("done", 5, channel=2),
        reply("done", 6, channel=1),
        reply("done", 7, channel=4),
        reply("only at the end", 8, channel=4),
    )["q"]
    assert told.reply_text == "ok\n\nok\n\ndone\n\nonly at the end"


def test_an_open_exchange_comes_out_in_every_feed_in_which_it_changed() -> None:
    assembler = Assembler("a", keep)
    assert feed(assembler, turn("q"))["q"].status == "open"
    assert feed(assembler) == {}
    assert feed(assembler, reply("r"))["q"].reply_text == "r"
    assert feed(assembler, TurnEnd(session="s", status="complete"))["q"].status == "complete"
    assert feed(assembler, TurnEnd(session="s", status="complete")) == {}
    assert feed(assembler, reply("late", 9))["q"].status == "open"
    both = feed(assembler, turn("next", 10))
    assert (both["q"].status, both["next"].status) == ("complete", "open")


@pytest.mark.parametrize("status", ["interrupted", "error"])
def test_the_next_prompt_does_not_complete_what_was_cut_short(status: str) -> None:
    assembler = Assembler("a", keep)
    told = feed(assembler, turn("q"), TurnEnd(session="s", status=status), turn("next"))  # type: ignore[arg-type]
    assert told["q"].status == status


def test_keys_come_from_ids_or_from_place_and_words() -> None:
    events = [turn("same"), turn("same"), turn("same", key="a:id-1"), turn("same", session="t")]
    first = [one.key for one in _all(Assembler("a", keep), events)]
    assert first[2] == "a:id-1"
    assert len(set(first)) == 4
    assert [one.key for one in _all(Assembler("a", keep), events)] == first


def _all(assembler: Assembler, events: list[UserTurn]) -> tuple[Exchange, ...]:
    for event in events:
        assembler.take(Reading(events=(event,), session=event.session))
    return assembler.flush().exchanges


def test_one_key_with_the_same_words_is_a_repetition_and_with_others_a_second_exchange() -> None:
    assembler = Assembler("a", keep)
    told = _all(assembler, [turn("x", key="a:1"), turn("x", key="a:1"), turn("y", key="a:1")])
    assert [(one.user_text, one.key == "a:1") for one in told] == [("x", True), ("y", False)]


def test_a_record_seen_before_is_passed_over_and_counted() -> None:
    assembler = Assembler("a", keep)
    reading = Reading(events=(turn("once"),), session="s", record_id="r1")
    assembler.take(reading)
    assembler.take(reading)
    result = assembler.flush()
    assert len(result.exchanges) == 1
    assert result.lines_skipped == {"duplicate": 1}


def test_a_repeated_record_may_still_bring_text_of_a_message_at_hand() -> None:
    assembler = Assembler("a", keep)
    assembler.take(Reading(events=(turn("q"),), session="s"))
    for text in ("gro", "grown"):
        block = reply(text, message_id="m", may_be_retold=True)
        assembler.take(Reading(events=(block,), session="s", record_id="r", message_id="m"))
    assert assembler.flush().exchanges[0].reply_text == "grown"


def test_a_late_block_goes_to_the_exchange_of_its_message() -> None:
    told = feed(
        Assembler("a", keep),
        turn("q"),
        reply("begun", 2, message_id="m1"),
        turn("queued", 3, kind="queued"),
        reply("ended", 4, message_id="m1"),
        reply("answer", 5, message_id="m2"),
    )
    assert told["q"].reply_text == "begun\n\nended"
    assert told["q"].status == "complete"
    assert told["queued"].reply_text == "answer"


def test_sessions_in_one_source_are_kept_apart() -> None:
    told = feed(
        Assembler("a", keep),
        turn("q1", 1),
        turn("q2", 2, session="t"),
        reply("r1", 3),
        reply("r2", 4, session="t"),
        reply("r1b", 5),
    )
    assert (told["q1"].reply_text, told["q2"].reply_text) == ("r1\n\nr1b", "r2")
    assert [one.ordinal for one in told.values()] == [0, 1]


def test_a_session_that_begins_with_the_agent_has_an_exchange_without_user_words() -> None:
    told = feed(
        Assembler("a", keep),
        ToolCall(session="s", place=at(1), name="Read", target="x.py"),
        reply("Hello", 2, key="a:r1", at=5),
    )[""]
    assert (told.key, told.reply_text, told.started_at, told.time_quality) == ("a:r1", "Hello", 5, "turn")
    assert [tool.target for tool in told.tools] == ["x.py"]


def test_a_turn_without_words_appears_only_with_its_reply() -> None:
    assembler = Assembler("a", keep)
    assert list(feed(assembler, turn("q"), reply("r"), turn("", 3, kind="slash_args", key="a:c"))) == ["q"]
    told = feed(assembler, reply("done", 4))
    assert (told[""].reply_text, told[""].key, told[""].ordinal) == ("done", "a:c", 1)


def test_tools_are_counted_once_by_id_and_their_targets_are_short() -> None:
    call = ToolCall(session="s", place=at(2), name="Bash", target="x" * 300 + "hunter2", call_id="c1")
    told = feed(Assembler("a", hide), turn("q"), call, call)["q"]
    assert [(tool.name, len(tool.target)) for tool in told.tools] == [("Bash", exchanges.MAX_TARGET_CHARS)]


def test_every_text_passes_the_redactor_before_it_is_kept() -> None:
    assembler = Assembler("a", hide)
    picture = Attachment(kind="file", name="hunter2.png")
    feed(
        assembler,
        turn("my hunter2", attachments=(picture,)),
        reply("your hunter2", message_id="m1"),
        ToolCall(session="s", place=at(2), name="Bash", target="login hunter2"),
        Title(session="s", text="the hunter2 talk", rank=3),
        Title(session="s", text="waiting hunter2", rank=1, leaf_id="later"),
        turn("clean", 3),
    )
    assert b"hunter2" not in assembler.snapshot()
    assert b"[secret] talk" in assembler.snapshot()


def test_own_recall_blocks_are_dropped_on_sight_if_closed() -> None:
    block = '<palace-recall v="1">\n> old\n</palace-recall>\n'
    assembler = Assembler("a", keep)
    told = feed(assembler, turn(block + "real question"), reply("see " + block + "above"), turn(block), reply("x", 3))
    assert list(told) == ["real question"]
    assert told["real question"].reply_text == "see above\n\nx"
    assert list(feed(assembler, turn('why <palace-recall v="1">?', 4))) == [
        "real question",
        'why <palace-recall v="1">?',
    ]


def test_a_second_turn_after_one_record_supersedes_what_came_between() -> None:
    assembler = Assembler("a", keep)
    told = feed(
        assembler,
        turn("first", 1, parent_id="root", key="a:1"),
        turn("other session", 2, session="t", parent_id="root", key="a:2"),
        turn("wrong", 3, parent_id="p", key="a:3"),
        turn("more wrong", 4, parent_id="q", key="a:4"),
        turn("right", 5, parent_id="p", key="a:5"),
    )
    assert [text for text, one in told.items() if one.is_superseded] == ["wrong", "more wrong"]


def test_exchanges_without_text_at_hand_are_superseded_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "HISTORY_CHARS", 30)
    assembler = Assembler("a", keep)
    feed(assembler, *(turn(f"turn number {number}", parent_id=f"p{number}", key=f"a:{number}") for number in range(6)))
    for event in (turn("rewound", parent_id="p2", key="a:x"),):
        assembler.take(Reading(events=(event,), session="s"))
    result = assembler.flush()
    assert result.superseded_keys == ("a:2", "a:3", "a:4", "a:5")
    whole = {one.key for one in result.exchanges if one.is_superseded}
    assert "a:5" in whole
    assert "a:2" not in whole


def test_a_rollback_counts_turns_not_exchanges() -> None:
    told = feed(
        Assembler("a", keep),
        turn("one", 1, turn_id="t1"),
        turn("two", 2, turn_id="t2"),
        turn("two, remark", 3, turn_id="t2"),
        turn("no id", 4),
        Rollback(session="s", turns=2),
        turn("new", 5, turn_id="t3"),
    )
    assert [text for text, one in told.items() if one.is_superseded] == ["two", "two, remark", "no id"]


def test_a_prompt_written_again_after_an_abort_is_the_same_exchange() -> None:
    assembler = Assembler("a", keep)
    abort = TurnEnd(session="s", status="interrupted")
    told = feed(
        assembler,
        turn("go", 1, record_ids=("t1",), repeats_aborted=True),
        abort,
        turn("go", 3, record_ids=("t2",), repeats_aborted=True),
        reply("went", 4),
        abort,
        turn("go", 6, repeats_aborted=True),
    )
    assert len(assembler._state.entries) == 2
    assert told["go"].line_start == 6
    assert assembler._state.drafts[0].record_ids == ["t1", "t2"]


def test_titles_by_rank_and_by_the_record_they_name() -> None:
    assembler = Assembler("a", keep)

    def title() -> list[tuple[str, str]]:
        return [(one.session_id, one.title) for one in assembler.flush().sessions if one.title]

    assembler.take(Reading(events=(Title(session="s", text="elsewhere", rank=1, leaf_id="not here"),)))
    assembler.take(Reading(events=(Title(session="s", text="from a summary", rank=1, leaf_id="leaf"),)))
    assert title() == []
    assembler.take(Reading(events=(turn("q", session="t"),), session="t", record_id="leaf", leaf_id="leaf"))
    assert title() == [("t", "from a summary")]
    assembler.take(Reading(events=(Title(session="t", text="by\n hand", rank=3),)))
    assert title() == [("t", "by hand")]
    assembler.take(Reading(events=(Title(session="t", text="by a machine", rank=2),)))
    assert title() == []


def test_facts_are_told_when_they_change_and_never_forgotten() -> None:
    assembler = Assembler("a", keep)

    def tell(**facts: object) -> tuple[SessionFacts, ...]:
        told = SessionFacts(agent="a", session_id="s", **facts)  # type: ignore[arg-type]
        assembler.take(Reading(events=(Facts(session="s", facts=told),)))
        return assembler.flush().sessions

    assert tell(cwd="/one", agent_version="1")[0].cwd == "/one"
    assert tell(cwd="/one") == ()
    (later,) = tell(cwd="/two", agent_version="2", is_automated=True)
    assert (later.cwd, later.agent_version, later.is_automated) == ("/one", "2", True)


def test_state_stays_small_beside_a_long_conversation() -> None:
    assembler = Assembler("a", keep)
    for number in range(400):
        feed(assembler, turn("question " * 50, number, key=f"a:{number}"), reply("answer " * 300, number))
    assert len(assembler.snapshot()) < exchanges.HISTORY_CHARS + 400 * 150


def test_a_state_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="Expected"):
        Assembler("a", keep, b"\x81\xa1x\x01")
