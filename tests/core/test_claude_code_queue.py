"""Claude Code: prompts that were queued, and messages that are written while they stream."""

from __future__ import annotations

import json
from collections.abc import Mapping

from support.claude import reply, stamp, user

from palace_daemon.core.transcripts.claude_code.format import ClaudeCodeFormat

FORMAT = ClaudeCodeFormat()


def queue_line(operation: str, content: str = "", at: int = 2) -> str:
    record = {"type": "queue-operation", "operation": operation, "timestamp": stamp(at), "sessionId": "s1"}
    return json.dumps(record | ({"content": content} if content else {})) + "\n"


def queued_command(uuid: str, *prompt: Mapping[str, object]) -> str:
    told = {"type": "queued_command", "prompt": prompt, "commandMode": "prompt"}
    return json.dumps({"type": "attachment", "uuid": uuid, "sessionId": "s1", "attachment": told}) + "\n"


PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def test_a_queued_prompt_is_an_exchange_as_soon_as_it_was_delivered() -> None:
    parser = FORMAT.open("s1.jsonl", str)
    told = user("u1", "Refactor the loader.") + queue_line("enqueue", "also the writer")
    assert [one.user_text for one in parser.feed(told.encode()).exchanges] == ["Refactor the loader."]
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
