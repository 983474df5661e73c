"""The frame parser, without a socket: the same bytes give the same events, however they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palace_daemon.rpc.frames import Body, Broken, Event, Foreign, FrameParser, Oversized, encode

BODIES = st.lists(st.binary(max_size=40), max_size=5)


def feed(data: bytes, step: int, limit: int = 64) -> list[Event]:
    parser = FrameParser(limit)
    return [event for at in range(0, len(data), step) for event in parser.feed(data[at : at + step])]


@given(BODIES, st.integers(1, 70))
def test_frames_come_back_however_they_are_cut(bodies: list[bytes], step: int) -> None:
    stream = b"".join(encode(body) for body in bodies)
    assert feed(stream, step) == [Body(body) for body in bodies]


@given(st.integers(1, 300))
def test_an_oversized_body_is_skipped_and_what_follows_is_kept(step: int) -> None:
    stream = encode(b"before") + encode(b"x" * 200) + encode(b"after")
    assert feed(stream, step) == [Body(b"before"), Oversized(200), Body(b"after")]


def test_a_body_that_is_being_skipped_takes_no_memory() -> None:
    parser = FrameParser(limit=10)
    parser.feed(b"Content-Length: 1000000\r\n\r\n")
    for _ in range(1000):
        assert parser.feed(b"x" * 999) == []
        assert len(parser._buffer) == 0
    assert parser.feed(b"x" * 1000 + encode(b"after")) == [Body(b"after")]


@given(st.binary(min_size=1, max_size=60), st.integers(1, 70))
def test_no_bytes_make_it_raise_and_nothing_follows_the_end(data: bytes, step: int) -> None:
    events = feed(data, step)
    assert all(isinstance(event, Body | Oversized) for event in events[:-1])


@pytest.mark.parametrize(
    "line", [b"GET / HTTP/1.1\r\n", b"P", b"content-lengthy: 3\r\n", b"\x00", b" Content-Length: 2"]
)
@pytest.mark.parametrize("step", [1, 1000])
def test_any_other_first_line_is_foreign_and_what_follows_is_dead(line: bytes, step: int) -> None:
    assert feed(encode(b"{}") + line + encode(b"{}"), step) == [Body(b"{}"), Foreign()]


@pytest.mark.parametrize(
    "header",
    [b"content-length: 2\r\n\r\n", b"Content-Length:2\n\n", b"Content-Length:  2 \r\nX-Other: 1\r\n\r\n"],
)
def test_harmless_variants_of_the_header_are_taken(header: bytes) -> None:
    assert feed(header + b"{}", 1000) == [Body(b"{}")]


def test_the_reason_of_a_broken_header_does_not_quote_it() -> None:
    (event,) = feed(b"Content-Length: private\r\n\r\n", 1000)
    assert isinstance(event, Broken)
    assert "private" not in event.reason
