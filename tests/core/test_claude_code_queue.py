"""Claude Code: prompts that were queued, and messages that are written while they stream."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec
import pytest
from support.claude import queue_line, reply, user
from support.formats import Whole, assert_cuts_do_not_matter, read_bytes

from palace_daemon.core.drafts import digest
from palace_daemon.core.transcripts.claude_code.format import ClaudeCodeFormat
from palace_daemon.core.transcripts.claude_code.queue import PromptQueue

FORMAT = ClaudeCodeFormat()


def queued_command(uuid: str, *prompt: Mapping[str, object]) -> str:
    told = {"type": "queued_command", "prompt": prompt, "commandMode": "prompt"}
    return json.dumps({"type": "attachment", "uuid": uuid, "sessionId": "s1", "attachment": told}) + "\n"


PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def told_by(*lines: str) -> Whole:
    """Read line by line, with a restart after each, and make sure that this is the same as one go."""
    body = "".join(lines).encode()
    assert_cuts_do_not_matter(FORMAT, body, "s1.jsonl")
    return read_bytes(FORMAT, body, "s1.jsonl")


BEGUN = user("u1", "Refactor the loader.") + reply("a1", "Reading it.")


def test_a_prompt_that_was_never_delivered_is_an_exchange_without_a_reply() -> None:
    told = told_by(BEGUN, queue_line("enqueue", "also the writer"), reply("a2", "Done."))
    assert told.pairs == [("Refactor the loader.", "Reading it.\n\nDone."), ("also the writer", "")]
    queued = told.exchanges[1]
    assert (queued.user_kind, queued.status, queued.cwd) == ("queued", "open", "/nowhere/tidepool")


def test_a_prompt_that_a_crash_left_in_the_queue_stands_before_the_next_one() -> None:
    told = told_by(BEGUN, queue_line("enqueue", "also the writer"), user("u2", "Are you there?"), reply("a2", "Yes."))
    assert told.pairs[1:] == [("also the writer", ""), ("Are you there?", "Yes.")]
    assert told.exchanges[1].status == "complete"


def test_a_prompt_that_was_pulled_back_or_became_a_user_line_is_not_told_twice() -> None:
    pulled = told_by(BEGUN, queue_line("enqueue", "also the writer"), queue_line("popAll", "also the writer"))
    assert [one.user_text for one in pulled.exchanges] == ["Refactor the loader."]
    for words in ("also the writer", "also the writer\n\nand the tests"):
        taken = told_by(
            BEGUN,
            queue_line("enqueue", "also the writer"),
            queue_line("dequeue"),
            user("u2", words),
            reply("a2", "So."),
        )
        assert taken.pairs[1:] == [(words, "So.")]
    edited = told_by(BEGUN, queue_line("enqueue", "also the writer"), user("u2", "also the writer, please"))
    assert edited.pairs[1:] == [("also the writer, please", "")]


def test_a_prompt_that_an_attachment_delivers_is_told_once() -> None:
    delivered = queued_command("q1", {"type": "text", "text": "also the writer"})
    told = told_by(BEGUN, queue_line("enqueue", "also the writer"), delivered, queue_line("remove"), reply("a2", "So."))
    assert told.pairs[1:] == [("also the writer", "So.")]


def test_waiting_prompts_survive_a_rewind_of_the_turn_before() -> None:
    told = told_by(
        user("u1", "Refactor the loader.", parent="r"),
        queue_line("enqueue", "also the writer"),
        user("u2", "", parent="x"),
        queue_line("dequeue"),
        user("u3", "Refactor the reader.", parent="r"),
        queue_line("enqueue", "and the docs", 9),
    )
    assert told.pairs == [("Refactor the reader.", ""), ("and the docs", "")]


def test_a_pending_prompt_is_withdrawn_by_key_once_it_was_handed_out() -> None:
    parser = FORMAT.open("s1.jsonl", str)
    queued = parser.feed((BEGUN + queue_line("enqueue", "also the writer")).encode()).exchanges[1]
    parser = FORMAT.open("s1.jsonl", str, parser.snapshot())
    result = parser.feed(queue_line("dequeue").encode())
    assert (result.exchanges, result.withdrawn_keys) == ((), (queued.key,))
    at_once = queue_line("enqueue", "and the docs", 9) + queue_line("popAll", "and the docs", 10)
    result = parser.feed(at_once.encode())  # an earlier reading of the file may have told it
    assert (result.exchanges, len(result.withdrawn_keys)) == ((), 1)


def test_a_forgotten_prompt_is_delivered_without_its_words() -> None:
    parser = FORMAT.open("s1.jsonl", str)
    queued = parser.feed((BEGUN + queue_line("enqueue", "the word is aurum")).encode()).exchanges[1]
    parser.drop({queued.key}, ())
    assert b"aurum" not in parser.snapshot()
    parser = FORMAT.open("s1.jsonl", str, parser.snapshot())
    told = queue_line("remove") + reply("a2", "Noted.") + user("u2", "Next.") + reply("a3", "Done.")
    first, second = parser.feed(told.encode()).exchanges[-2:]
    assert (first.key, first.user_text, first.reply_text) == (queued.key, "", "Noted.")
    assert (second.user_text, second.reply_text) == ("Next.", "Done.")


def test_a_queued_prompt_keeps_its_exchange_when_it_is_delivered() -> None:
    parser = FORMAT.open("s1.jsonl", str)
    told = user("u1", "Refactor the loader.") + queue_line("enqueue", "also the writer")
    texts = [one.user_text for one in parser.feed(told.encode()).exchanges]
    assert texts == ["Refactor the loader.", "also the writer"]
    parser = FORMAT.open("s1.jsonl", str, parser.snapshot())
    queued = parser.feed(queue_line("remove").encode()).exchanges[-1]
    assert (queued.user_text, queued.user_kind, queued.cwd) == ("also the writer", "queued", "/nowhere/tidepool")
    late = queued_command("q1", PICTURE, {"type": "text", "text": "also the writer"}) + reply("a1", "Both then.")
    results = [parser.feed(line.encode()) for line in late.splitlines(keepends=True)]
    last = results[-1].exchanges[-1]
    assert {one.key for result in results for one in result.exchanges} == {queued.key}
    assert (last.reply_text, [one.kind for one in last.attachments]) == ("Both then.", ["image"])


def test_the_same_words_queued_twice_are_two_exchanges() -> None:
    body = user("u1", "Go.") + "".join(
        queue_line("enqueue", "continue", at)
        + queue_line("remove", at=at)
        + queued_command(f"q{at}", {"type": "text", "text": "continue"})
        + reply(f"a{at}", f"Step {at}.")
        for at in (5, 9)
    )
    told = FORMAT.open("s1.jsonl", str).feed(body.encode()).exchanges
    assert [(one.user_text, one.reply_text) for one in told] == [
        ("Go.", ""),
        ("continue", "Step 5."),
        ("continue", "Step 9."),
    ]


def test_a_streamed_message_is_united_and_equal_blocks_of_a_record_are_kept() -> None:
    def texts(uuid: str, *blocks: str) -> str:
        record = json.loads(reply(uuid, "", message="m"))
        record["message"]["content"] = [{"type": "text", "text": block} for block in blocks]
        return json.dumps(record) + "\n"

    body = user("u1", "Why?") + texts("a1", "The") + texts("a2", "The", "Look.", "Lo")
    body += texts("a3", "The", "Look.", "Look.", "The end.")
    assert (
        FORMAT.open("s1.jsonl", str).feed(body.encode()).exchanges[0].reply_text == "The\n\nLook.\n\nLook.\n\nThe end."
    )


WAITED = "also the writer"
AS_ATTACHMENT = queued_command("q1", {"type": "text", "text": WAITED})


@pytest.mark.parametrize(
    ("is_known", "lines"),
    [
        (True, [queue_line("dequeue"), user("u2", WAITED)]),
        (True, [queue_line("dequeue"), user("u2", f"Before that.\n\n{WAITED}\nand the tests")]),
        (True, [AS_ATTACHMENT, queue_line("remove")]),
        (True, [user("u2", WAITED)]),  # a crash left it in the queue
        (True, [queue_line("popAll", WAITED), user("u2", WAITED)]),
        (False, [queue_line("popAll", WAITED), user("u2", f"{WAITED}, please")]),
        (False, [queue_line("dequeue"), user("u2", WAITED), reply("a2", "So."), user("u3", WAITED)]),
    ],
)
def test_a_delivered_prompt_knows_under_which_key_it_waited(is_known: bool, lines: list[str]) -> None:
    enqueued = queue_line("enqueue", WAITED)
    told = told_by(BEGUN, enqueued, *lines, reply("a9", "Done."))
    (queued,) = told_by(enqueued).exchanges
    assert told.exchanges[-1].former_keys == ((queued.key,) if is_known else ())
    assert told.exchanges[-1].reply_text == "Done."


@pytest.mark.parametrize(
    "delivery", [queue_line("dequeue") + user("u2", f"Before that.\n\n{WAITED}"), AS_ATTACHMENT, user("u2", WAITED)]
)
def test_its_former_key_outlives_its_words(delivery: str) -> None:
    parser = FORMAT.open("s1.jsonl", str)
    queued = parser.feed((BEGUN + queue_line("enqueue", WAITED)).encode()).exchanges[1]
    parser.drop({queued.key}, ())
    parser = FORMAT.open("s1.jsonl", str, parser.snapshot())
    assert parser.feed(delivery.encode()).exchanges[-1].former_keys == (queued.key,)


def test_a_prompt_that_an_attachment_delivered_leaves_no_words_in_the_queue() -> None:
    parser = FORMAT.open("s1.jsonl", str)
    told = parser.feed((BEGUN + queue_line("enqueue", WAITED) + AS_ATTACHMENT).encode()).exchanges[-1]
    parser.drop({told.key}, ())
    assert WAITED.encode() not in parser.snapshot()


def test_a_queue_that_was_stored_without_sizes_and_taken_prompts_is_read() -> None:
    waiting = [WAITED, digest(WAITED), 1_770_000_000_000, [1, 0, 9, []], [], False]
    queue = msgspec.msgpack.decode(
        msgspec.msgpack.encode([[waiting, ["", *waiting[1:]]], 0, [], "", "", ""]), type=PromptQueue
    )
    assert queue.taken == []
    assert queue.become(WAITED) == queue.waiting
    assert queue.become(f"{WAITED}\nand the tests") == queue.waiting[:1], (
        "without size or words, only the whole is known"
    )
