"""A line parser for writers that let raw line ends into their strings, so that a record stands on several lines.

Invariant: what may be the first part of a record is not consumed before it is clear what follows. The offset stays
before it, so that a snapshot holds no text that was not read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import structs

from palace_daemon.core.jsonl import Line, LineDecoder, SplitterState
from palace_daemon.core.transcripts.base import Redactor
from palace_daemon.core.transcripts.line_parser import LineParser, RecordReader
from palace_daemon.model import ParseResult

MAX_LINES = 256
MAX_BYTES = 1024 * 1024
MAX_TRIES = 64
"""A record that spans more, or has more lines that could be its last one, is given up: three lines are what was
reported, and each try decodes all of them."""

_Record = TypeVar("_Record")


class JoiningLineParser(LineParser[_Record]):
    """A :class:`~palace_daemon.core.transcripts.line_parser.LineParser` that joins the lines of a broken record.

    Args:
        format_name: As for the base.
        version: As for the base.
        agent: As for the base.
        decoder: As for the base.
        reader: As for the base.
        redact: As for the base.
        begins_record: Whether a line begins like a record of the format; anything else may go on with one.
        state: As for the base.
    """

    def __init__(
        self,
        *,
        format_name: str,
        version: int,
        agent: str,
        decoder: LineDecoder[_Record],
        reader: RecordReader[_Record],
        redact: Redactor,
        begins_record: Callable[[bytes], bool],
        state: bytes | None = None,
    ) -> None:
        super().__init__(
            format_name=format_name,
            version=version,
            agent=agent,
            decoder=decoder,
            reader=reader,
            redact=redact,
            state=state,
        )
        self._begins_record = begins_record
        self._torn: list[Line] = []
        self._joined: set[int] = set()

    @property
    def _resume_at(self) -> SplitterState:
        if not self._torn:
            return super()._resume_at
        return SplitterState(self._torn[0].byte_start, self._torn[0].number)

    def take_tail(self) -> ParseResult:
        """Consume what is held back if it makes whole records, or if nothing can come to make it one."""
        if not self._torn:
            return super().take_tail()
        tail = self._splitter.peek_tail()
        if tail is None:
            return self._give_up()
        joined = self._join(tail)
        if joined is not None:
            self._splitter.take_tail()
            self._torn = []
            return self._read_settled([joined], 0)
        if self._begins_record(tail.payload) and self._is_whole(tail.payload):
            self._splitter.take_tail()
            return self._give_up(tail)
        return ParseResult()

    def _read_lines(self, lines: list[Line]) -> ParseResult:
        before = len(self._torn) + len(lines)
        settled = self._settle(lines)
        return self._read_settled(settled, before - len(self._torn) - len(settled))

    def _read_line(self, line: Line, flags: tuple[str, ...] = ()) -> str:
        return super()._read_line(line, (*flags, "recovered") if line.byte_start in self._joined else flags)

    def _give_up(self, *more: Line) -> ParseResult:
        lines, self._torn = [*self._torn, *more], []
        return self._read_settled(lines, 0)

    def _read_settled(self, lines: list[Line], joined_away: int) -> ParseResult:
        result = super()._read_lines(lines)
        self._joined.clear()
        return structs.replace(result, lines_read=result.lines_read + joined_away)

    def _settle(self, lines: list[Line]) -> list[Line]:
        """Return the lines that are clear now, broken ones joined; the others stay in ``_torn``."""
        settled: list[Line] = []
        for line in lines:
            joined = self._join(line) if self._torn else None
            if joined is not None:
                settled.append(joined)
                self._torn = []
                continue
            is_beginning = self._begins_record(line.payload)
            if self._torn and not is_beginning and self._has_room(line):
                self._torn.append(line)
                continue
            settled += self._torn
            self._torn = []
            if is_beginning and self._decoder.decode_line(line.payload).problem == "malformed":
                self._torn.append(line)
            else:
                settled.append(line)
        return settled

    def _has_room(self, line: Line) -> bool:
        size = sum(len(part.payload) for part in self._torn) + len(line.payload)
        tries = sum(_may_end_record(part.payload) for part in self._torn)
        return len(self._torn) < MAX_LINES and tries < MAX_TRIES and size <= MAX_BYTES

    def _join(self, last: Line) -> Line | None:
        """Return the record that ends with ``last``, or ``None`` if that makes no whole one."""
        if not _may_end_record(last.payload) or not self._has_room(last):
            return None
        parts = [part.payload for part in (*self._torn, last)]
        # Line ends inside a string have to be escaped; between tokens they must not be.
        for payload in (b"\\n".join(parts), b"\n".join(parts)):
            if self._is_whole(payload):
                first = self._torn[0]
                dropped = sum(part.dropped_bytes for part in (*self._torn, last))
                self._joined.add(first.byte_start)
                return Line(first.number, first.byte_start, last.byte_end, payload, dropped)
        return None

    def _is_whole(self, payload: bytes) -> bool:
        decoded = self._decoder.decode_line(payload)
        return not decoded.problem and not decoded.fragments


def _may_end_record(line: bytes) -> bool:
    return line.rstrip(b"\x00 \t\r").endswith(b"}")
