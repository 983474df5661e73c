from __future__ import annotations

import msgspec
import pytest

from palace_daemon.core.redaction import redact
from palace_daemon.core.transcripts.claude_code.format import ClaudeCodeFormat
from palace_daemon.core.transcripts.codex.format import CodexFormat
from palace_daemon.core.transcripts.reading.leftovers import holds

LONG = "a text that is long enough"


@pytest.mark.parametrize(
    ("state", "texts", "expected"),
    [
        ({"a": [LONG]}, (LONG,), True),
        ({"a": [f"before {LONG} after"]}, (LONG,), True),
        ({"a": ["go on with it"]}, ("go on",), False),
        ({"a": [" go on\n"]}, ("go on",), True),
        ({LONG: 1}, (LONG,), True),
        ([msgspec.msgpack.encode([msgspec.msgpack.encode([LONG])])], (LONG,), True),
        ([b"\xc1" + LONG.encode()], (LONG,), True),
        ([1, 2.5, None, True, {7: "x"}], (LONG, ""), False),
    ],
)
def test_a_text_is_found_at_any_depth(state: object, texts: tuple[str, ...], expected: bool) -> None:
    assert holds(msgspec.msgpack.encode(state), texts) is expected


@pytest.mark.parametrize(
    ("known", "line"),
    [
        (
            ClaudeCodeFormat(),
            {"type": "user", "uuid": "u1", "sessionId": "s1", "timestamp": "2026-02-02T03:00:00.000Z",
             "message": {"role": "user", "content": LONG}},
        ),
        (CodexFormat(), {"timestamp": "2026-02-02T03:00:00.000Z", "type": "event_msg",
                         "payload": {"type": "user_message", "message": LONG}}),
    ],
)  # fmt: skip
def test_a_dropped_exchange_leaves_no_words_in_the_state(known: object, line: dict[str, object]) -> None:
    parser = known.open("/home/sam/sample.jsonl", redact)  # type: ignore[attr-defined]
    (exchange,) = parser.feed(msgspec.json.encode(line) + b"\n").exchanges
    assert holds(parser.snapshot(), (LONG,))
    parser.drop({exchange.key}, ())
    assert not holds(parser.snapshot(), (LONG,))
