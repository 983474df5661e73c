"""Lines out of bytes, and objects out of lines."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from palace_daemon.core import jsonl
from palace_daemon.core.jsonl import Line, LineDecoder, LineSplitter, drop_payload_runs


class Record(Struct):
    type: Any = None
    text: Any = None


DECODER = LineDecoder(Record, lambda value: "type" in value and "id" in value)


def split(data: bytes, cuts: list[int]) -> tuple[list[Line], LineSplitter]:
    splitter = LineSplitter()
    lines = []
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        lines += splitter.feed(data[start:end])
    return lines, splitter


def decode(payload: bytes | str) -> tuple[list[str], tuple[str, ...], int, str]:
    decoded = DECODER.decode_line(payload.encode() if isinstance(payload, str) else payload)
    return [record.text for record in decoded.records], decoded.flags, decoded.fragments, decoded.problem


def test_lines_carry_their_number_and_their_bytes() -> None:
    lines, splitter = split(b"one\n\nthree\nrest", [])
    assert lines == [Line(1, 0, 3, b"one"), Line(2, 4, 4, b""), Line(3, 5, 10, b"three")]
    assert splitter.offset == 11


def test_only_line_feeds_end_lines() -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\rg"
    lines, _ = split(f"{text}\n".encode(), [])
    assert [line.payload.decode() for line in lines] == [text]


def test_byte_order_mark_and_one_carriage_return_are_no_part_of_a_line() -> None:
    lines, _ = split(b"\xef\xbb\xbfone\r\ntwo\r\r\n\xef\xbb\xbfthree\n", [2, 7])
    assert [line.payload for line in lines] == [b"one", b"two\r", b"\xef\xbb\xbfthree"]


@given(st.lists(st.binary(max_size=12), max_size=8), st.data())
def test_cuts_do_not_matter(parts: list[bytes], data: st.DataObject) -> None:
    body = b"\n".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=5)))
    whole, whole_splitter = split(body, [])
    cut, cut_splitter = split(body, cuts)
    assert cut == whole
    assert cut_splitter.state == whole_splitter.state
    assert cut_splitter.peek_tail() == whole_splitter.peek_tail()


def test_a_restored_splitter_goes_on_at_its_offset() -> None:
    body = b"one\ntwo\nthr"
    _, splitter = split(body, [])
    restored = LineSplitter(splitter.state)
    assert restored.feed(body[splitter.offset :] + b"ee\n") == [Line(3, 8, 13, b"three")]


def test_a_line_end_that_comes_after_a_taken_tail_belongs_to_it() -> None:
    splitter = LineSplitter()
    splitter.feed(b"one\ntwo")
    assert splitter.peek_tail() == Line(2, 4, 7, b"two")
    splitter.take_tail()
    restored = LineSplitter(splitter.state)
    assert restored.peek_tail() is None
    assert restored.feed(b"\nthree\n") == [Line(3, 8, 13, b"three")]
    splitter.feed(b'{"joined"}\n')
    assert splitter.state.number == 3


def payload_line(runs: list[int], seed: int) -> bytes:
    """A line of words and payload runs of the given lengths."""
    rng = random.Random(seed)
    parts = []
    for run in runs:
        parts.append(b'{"text":"some words \xe8\xa8\x98", "data":"')
        parts.append(bytes(rng.choices(b"ABCdef0123+/=_-", k=min(run, 997))) * (run // 997 + 1))
        parts[-1] = parts[-1][:run]
    return b"".join(parts) + b'"}'


@pytest.mark.parametrize("seed", range(6))
def test_payload_is_dropped_alike_however_a_large_line_is_cut(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "LARGE_LINE_BYTES", 20_000)
    rng = random.Random(seed)
    edge = jsonl.PAYLOAD_RUN_BYTES
    line = payload_line([edge - 1, edge, 3 * edge, 7, edge + 1, 20 * edge], seed)
    expected, dropped = drop_payload_runs(line)
    assert dropped == edge + 3 * edge + edge + 1 + 20 * edge
    body = b"before\n" + line + b"\n" + line + b"\nafter\n"
    sizes = [1, 13, edge, edge + 1, 5 * edge, len(body)]
    cuts: list[int] = []
    while not cuts or cuts[-1] < len(body):
        cuts.append(min(len(body), (cuts[-1] if cuts else 0) + rng.choice(sizes)))
    for places in ([], cuts, [len(b"before\n") + 25_000]):
        lines, _ = split(body, places)
        assert [line.payload for line in lines] == [b"before", expected, expected, b"after"]
        assert [line.dropped_bytes for line in lines] == [0, dropped, dropped, 0]
        assert lines[1].byte_end - lines[1].byte_start == len(line)


def test_a_line_of_70_mb_of_image_stays_small_while_it_grows() -> None:
    splitter = LineSplitter()
    splitter.feed(b'{"type":"user","text":"look at this","data":"')
    chunk = b"iVBORw0KGgo/+A" * 74_898
    for _ in range(70):
        assert splitter.feed(chunk) == []
        assert len(splitter._held._kept) <= jsonl.LARGE_LINE_BYTES
    (line,) = splitter.feed(b'","id":1}\n')
    assert len(line.payload) < 200
    assert line.dropped_bytes == 70 * len(chunk)
    assert decode(line.payload)[0] == ["look at this"]


def test_text_is_kept_however_long_its_line_is() -> None:
    text = "words and 漢字 and more words, " * 400_000
    body = json.dumps({"type": "user", "id": 1, "text": text}, ensure_ascii=False).encode()
    assert len(body) > jsonl.LARGE_LINE_BYTES
    lines, _ = split(body + b"\n", [1, 9_000_000, 9_000_001])
    assert decode(lines[0].payload)[0] == [text]
    assert lines[0].dropped_bytes == 0


GOOD = '{"type":"user","id":1,"text":"good"}'


@pytest.mark.parametrize(
    ("payload", "texts", "flags", "fragments", "problem"),
    [
        (GOOD, ["good"], (), 0, ""),
        ("", [], (), 0, "empty"),
        ("\x00\x00 \x00", [], (), 0, "empty"),  # left by crashes
        (f"\x00\x00{GOOD}\x00", ["good"], (), 0, ""),
        (GOOD + GOOD, ["good", "good"], ("joined_line",), 0, ""),
        (f"{GOOD} \x00{GOOD}", ["good", "good"], ("joined_line",), 0, ""),
        (GOOD[:20] + GOOD, ["good"], ("recovered",), 1, ""),
        (f'rest of a text"}}{GOOD}', ["good"], ("recovered",), 1, ""),
        (f'"{GOOD}', ["good"], ("recovered",), 1, ""),
        (GOOD + GOOD[:20], ["good"], (), 1, ""),
        # Inner objects of a torn record are no records.
        ('{"type":"user","content":[{"type":"text","text":"inner"},', [], (), 0, "malformed"),
        ('{"type":"user","content":[{"type":"text","text":"inner"},' + GOOD, ["good"], ("recovered",), 1, ""),
        ("no json", [], (), 0, "malformed"),
        ("42", [], (), 0, "not_an_object"),
        ("[1, 2]", [], (), 0, "not_an_object"),
        ("[" * 100_000, [], (), 0, "malformed"),
        ('{"a":' * 100_000, [], (), 0, "malformed"),
        (r'{"text":"a\ud83d b"}', ["a\ufffd b"], ("lossy_unicode",), 0, ""),
        (r'{"text":"a\ud83d\ude00 b"}', ["a\U0001f600 b"], (), 0, ""),
        (r'{"text":{"k\udc00":["\udc01"]}}', [{"k\ufffd": ["\ufffd"]}], ("lossy_unicode",), 0, ""),
        ('{"text":"replacement \ufffd stays"}', ["replacement \ufffd stays"], (), 0, ""),
        ('{"text":"tab\there"}', ["tab\there"], (), 0, ""),
        ('{"text":NaN}', [pytest.approx(float("nan"), nan_ok=True)], (), 0, ""),
    ],
)
def test_odd_lines(payload: str, texts: list[Any], flags: tuple[str, ...], fragments: int, problem: str) -> None:
    assert decode(payload) == (texts, flags, fragments, problem)


def test_invalid_utf8_is_replaced() -> None:
    assert decode(b'{"text":"a\xff\xfeb"}') == (["a\ufffd\ufffdb"], ("lossy_unicode",), 0, "")


def test_recovery_of_a_hostile_line_ends() -> None:
    assert decode('{"a":' + '{"type":' * 200_000)[3] == "malformed"


@given(st.binary(max_size=200))
def test_no_bytes_make_the_decoder_fail(payload: bytes) -> None:
    decoded = DECODER.decode_line(payload)
    assert bool(decoded.records) != bool(decoded.problem)
