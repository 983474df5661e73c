"""The parser that all line formats share: splitter, decoder, a reader of the format's records, assembler."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, Protocol, TypeVar, runtime_checkable

import msgspec
from msgspec import Struct, structs

from palace_daemon.core.exchanges import Assembler
from palace_daemon.core.jsonl import Line, LineDecoder, LineSplitter, SplitterState
from palace_daemon.core.transcripts.base import Redactor
from palace_daemon.core.turns import Place, Reading
from palace_daemon.model import ParseResult, Problem

MAX_PROBLEMS = 100
"""Places of malformed lines that one result names; all are counted."""

_Record_contra = TypeVar("_Record_contra", contravariant=True)
_Record = TypeVar("_Record")


class RecordReader(Protocol[_Record_contra]):
    """Knows the records of one format. Holds what a record needs of those before it."""

    def read(self, record: _Record_contra, place: Place, payload: bytes) -> list[Reading]:
        """Return what ``record`` yields, usually one reading; ``payload`` is the line that it stands on."""
        ...

    def snapshot(self) -> bytes:
        """Return the reader's state; redacted text only."""
        ...

    def restore(self, state: bytes) -> None:
        """Continue from :meth:`snapshot`.

        Raises:
            ValueError: The state does not fit this version.
        """
        ...


@runtime_checkable
class Forgetful(Protocol):
    """A reader whose state holds words of exchanges that it has told."""

    def drop(self, keys: Collection[str]) -> None:
        """Let go of the words of exchanges by key, and keep what recognises them."""
        ...


class _Snapshot(Struct, array_like=True):
    format_name: str
    version: int
    splitter: SplitterState
    reader: bytes
    assembler: bytes


class LineParser(Generic[_Record]):
    """A :class:`~palace_daemon.core.transcripts.base.SourceParser` over JSON lines.

    Args:
        format_name: Stored in snapshots, with ``version``: a snapshot of another one is refused.
        version: See ``format_name``.
        agent: Agent of every exchange.
        decoder: Bytes to records.
        reader: Records to events.
        redact: Applied to every text before it is kept.
        state: A snapshot to continue from.

    Raises:
        ValueError: ``state`` is of another format or version.
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
        state: bytes | None = None,
    ) -> None:
        self._format_name = format_name
        self._version = version
        self._decoder = decoder
        self._reader = reader
        saved = _decode_snapshot(state, format_name, version)
        if saved is not None:
            reader.restore(saved.reader)
        self._splitter = LineSplitter(saved.splitter if saved else None)
        self._assembler = Assembler(agent, redact, saved.assembler if saved else None)

    @property
    def offset(self) -> int:
        """Bytes consumed: up to and including the last complete line."""
        return self._resume_at.offset

    @property
    def _resume_at(self) -> SplitterState:
        """Where reading goes on after a restart."""
        return self._splitter.state

    @property
    def is_whole(self) -> bool:
        """Always: a line file can end after any line."""
        return True

    def feed(self, data: bytes) -> ParseResult:
        """Consume the next bytes. An incomplete last line is held back."""
        return self._read_lines(self._splitter.feed(data))

    def take_tail(self) -> ParseResult:
        """Consume the held-back last line if it is one whole record; otherwise leave it."""
        tail = self._splitter.peek_tail()
        if tail is None:
            return ParseResult()
        decoded = self._decoder.decode_line(tail.payload)
        if decoded.problem or decoded.fragments:
            return ParseResult()
        self._splitter.take_tail()
        return self._read_lines([tail])

    def finish(self) -> ParseResult:
        """Do nothing: every line was read when it was complete."""
        return ParseResult()

    def snapshot(self) -> bytes:
        """Return the state at :attr:`offset`; the held-back bytes are not part of it. Redacted text only."""
        return msgspec.msgpack.encode(
            _Snapshot(
                self._format_name,
                self._version,
                self._resume_at,
                self._reader.snapshot(),
                self._assembler.snapshot(),
            )
        )

    def drop(self, keys: Collection[str], untitled: Collection[str]) -> None:
        """Let go of the texts of exchanges by key, and of the titles of sessions by id."""
        self._assembler.drop(keys, untitled)
        if isinstance(self._reader, Forgetful):
            self._reader.drop(keys)

    def _read_lines(self, lines: list[Line]) -> ParseResult:
        if not lines:
            return ParseResult()
        problems: list[Problem] = []
        for line in lines:
            problem = self._read_line(line)
            if problem and len(problems) < MAX_PROBLEMS:
                problems.append(Problem(line=line.number, byte_start=line.byte_start, reason=problem))
        return structs.replace(self._assembler.flush(), lines_read=len(lines), problems=tuple(problems))

    def _read_line(self, line: Line, flags: tuple[str, ...] = ()) -> str:
        """Read one line; return what is wrong with it, or an empty string. ``flags`` tell what was done to it."""
        decoded = self._decoder.decode_line(line.payload)
        if decoded.problem:
            self._assembler.skip(decoded.problem)
            return "" if decoded.problem == "empty" else decoded.problem
        flags += (*decoded.flags, "payload_dropped") if line.dropped_bytes else decoded.flags
        place = Place(line.number, line.byte_start, line.byte_end, flags)
        for record in decoded.records:
            for reading in self._reader.read(record, place, line.payload):
                self._assembler.take(reading)
        if decoded.fragments:
            self._assembler.skip("recovered_fragment", decoded.fragments)
        return "recovered_fragment" if decoded.fragments else ""


def _decode_snapshot(state: bytes | None, format_name: str, version: int) -> _Snapshot | None:
    if state is None:
        return None
    saved = msgspec.msgpack.decode(state, type=_Snapshot)
    if (saved.format_name, saved.version) != (format_name, version):
        raise ValueError(f"the saved state is of {saved.format_name} {saved.version}, not {format_name} {version}")
    return saved
