"""Cuts a byte stream into JSON-RPC bodies: ``Content-Length: N``, an empty line, N bytes.

Pure: bytes in, events out. The first line of every frame must be one of LSP's two headers. Anything else (an HTTP
request that a web page sent to a local port, say) is foreign, and the connection must be closed without an answer,
before any of its body can be taken for a request.
"""

from __future__ import annotations

from dataclasses import dataclass

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""Largest body that is kept. Parameters are small; the largest answers of the daemon are a few MB."""
HEADER_BYTES_MAX = 4 * 1024
"""Largest header block. LSP's own headers take under 100 bytes; web servers allow 8 KiB."""
_LENGTH_DIGITS_MAX = 15
_FIRST_HEADERS = (b"content-length", b"content-type")


@dataclass(frozen=True, slots=True)
class Body:
    """One complete body."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Oversized:
    """A frame over the limit; its body is being skipped, and the stream goes on behind it."""

    length: int


@dataclass(frozen=True, slots=True)
class Broken:
    """The stream cannot be followed any further: answer with ``reason``, then close."""

    reason: str


@dataclass(frozen=True, slots=True)
class Foreign:
    """The peer does not speak this protocol: close at once, answer nothing."""


Event = Body | Oversized | Broken | Foreign


class FrameParser:
    """Follows one stream. Not thread-safe. Holds at most one body and one header block."""

    def __init__(self, limit: int = FRAME_BYTES_MAX) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._scanned = 0
        self._header_bytes = 0
        self._length: int | None = None
        self._is_first_line = True
        self._body_left: int | None = None
        self._skip_left = 0
        self._is_dead = False

    def feed(self, data: bytes) -> list[Event]:
        """Take the next bytes and return what they complete; after ``Broken`` or ``Foreign`` nothing more comes."""
        events: list[Event] = []
        if self._skip_left:
            skipped = min(self._skip_left, len(data))
            self._skip_left -= skipped
            data = data[skipped:]
        self._buffer += data
        while not self._is_dead:
            event = self._take_body() if self._body_left is not None else self._take_line()
            if event is None:
                break
            if not isinstance(event, _More):
                events.append(event)
            self._is_dead = isinstance(event, Broken | Foreign)
        return events

    def _take_body(self) -> Event | None:
        length = self._body_left or 0
        if len(self._buffer) < length:
            return None
        data = bytes(self._buffer[:length])
        del self._buffer[:length]
        self._begin_frame()
        return Body(data)

    def _begin_frame(self) -> None:
        self._scanned = self._header_bytes = 0
        self._length = self._body_left = None
        self._is_first_line = True

    def _take_line(self) -> Event | _More | None:
        end = self._buffer.find(b"\n", self._scanned)
        if self._is_first_line and not _may_begin_frame(bytes(self._buffer[: end if end >= 0 else 32])):
            return Foreign()
        if self._header_bytes + (end if end >= 0 else len(self._buffer)) > HEADER_BYTES_MAX:
            return Broken("the header is too long")
        if end < 0:
            self._scanned = len(self._buffer)
            return None
        line = bytes(self._buffer[:end]).rstrip(b"\r")
        del self._buffer[: end + 1]
        self._scanned = 0
        self._header_bytes += end + 1
        self._is_first_line = False
        return self._take_header(line) if line else self._end_header()

    def _take_header(self, line: bytes) -> Broken | _More:
        name, colon, value = line.partition(b":")
        if not colon:
            return Broken("a header line has no colon")
        if name.lower() != b"content-length":
            return _MORE
        digits = value.strip(b" \t")
        if not digits.isdigit() or len(digits) > _LENGTH_DIGITS_MAX:
            return Broken("Content-Length is not a number of bytes")
        if self._length not in (None, int(digits)):
            return Broken("Content-Length stands twice with different values")
        self._length = int(digits)
        return _MORE

    def _end_header(self) -> Event | _More:
        if self._length is None:
            return Broken("Content-Length is missing")
        if self._length <= self._limit:
            self._body_left = self._length
            return _MORE
        length = self._length
        skipped = min(length, len(self._buffer))
        del self._buffer[:skipped]
        self._skip_left = length - skipped
        self._begin_frame()
        return Oversized(length)


class _More:
    """A step that completed no event; parsing goes on."""


_MORE = _More()


def _may_begin_frame(head: bytes) -> bool:
    """Return whether ``head``, the beginning of a first line or all of it, can be one of the two known headers."""
    lowered = head.lower()
    return any(lowered.startswith(name + b":") or (name + b":").startswith(lowered) for name in _FIRST_HEADERS)


def encode(body: bytes) -> bytes:
    """Return ``body`` with its header."""
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
