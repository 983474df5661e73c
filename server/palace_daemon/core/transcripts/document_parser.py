"""The parsers that whole-file formats share: JSON documents by element, and texts at their end."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

import msgspec
from msgspec import Struct, structs

from palace_daemon.core.documents import DocumentState, Element, ElementSplitter, Places, decode_value
from palace_daemon.core.exchanges import Assembler
from palace_daemon.core.transcripts.base import Redactor
from palace_daemon.core.turns import Reading
from palace_daemon.model import ParseResult, Problem


class DocumentReader(Protocol):
    """Knows the documents of one format. Keeps nothing between elements."""

    def read(self, value: Any, places: Places) -> list[Reading]:
        """Return what one element (or the whole root value) yields, in the order of the conversation.

        ``value`` is decoded JSON of any type: a shape that the format does not know yields a reading that says so
        (``Reading(skipped=("unknown_shape",))``), never an exception. Events carry a place of ``places``, and every
        :class:`~palace_daemon.core.turns.ReplyText` a ``message_id``.
        """
        ...


class TextReader(Protocol):
    """Knows the texts of one format."""

    def read(self, text: str) -> list[Reading]:
        """Return what the whole text yields. Offsets in places are of its UTF-8 form."""
        ...


class _Snapshot(Struct, array_like=True):
    format_name: str
    version: int
    document: DocumentState
    assembler: bytes


class DocumentParser:
    """A :class:`~palace_daemon.core.transcripts.base.SourceParser` over a JSON document.

    Args:
        format_name: Stored in snapshots, with ``version``: a snapshot of another one is refused.
        version: See ``format_name``.
        agent: Agent of every exchange.
        reader: Values to events.
        redact: Applied to every text before it is kept.
        state: A snapshot to continue from.
        by_element: Whether each element of a root array is a conversation of its own; else the root value is one.

    Raises:
        ValueError: ``state`` is of another format or version.
    """

    def __init__(
        self,
        *,
        format_name: str,
        version: int,
        agent: str,
        reader: DocumentReader,
        redact: Redactor,
        state: bytes | None = None,
        by_element: bool = False,
    ) -> None:
        self._format_name = format_name
        self._version = version
        self._reader = reader
        self._by_element = by_element
        saved = _decode_snapshot(state, format_name, version)
        self._splitter = ElementSplitter(saved.document if saved else None, by_element=by_element)
        self._assembler = Assembler(agent, redact, saved.assembler if saved else None)

    @property
    def offset(self) -> int:
        """Bytes consumed: up to and including the last complete element."""
        return self._splitter.state.offset

    @property
    def is_whole(self) -> bool:
        """Whether the root value is closed."""
        return self._splitter.state.is_whole

    def feed(self, data: bytes) -> ParseResult:
        """Consume the next bytes; an element that is not complete is held."""
        elements = self._splitter.feed(data)
        if not elements:
            return ParseResult()
        problems = [problem for element in elements if (problem := self._read(element))]
        return structs.replace(self._assembler.flush(), lines_read=len(elements), problems=tuple(problems))

    def take_tail(self) -> ParseResult:
        """Do nothing: a document that is not closed has no tail that could be whole."""
        return ParseResult()

    def finish(self) -> ParseResult:
        """Do nothing: every element was read when it was complete."""
        return ParseResult()

    def snapshot(self) -> bytes:
        """Return the state at :attr:`offset`; the held bytes are not part of it. Redacted text only."""
        return msgspec.msgpack.encode(
            _Snapshot(self._format_name, self._version, self._splitter.state, self._assembler.snapshot())
        )

    def drop(self, keys: Collection[str], untitled: Collection[str]) -> None:
        """Let go of the texts of exchanges by key, and of the titles of sessions by id."""
        self._assembler.drop(keys, untitled)

    def _read(self, element: Element) -> Problem | None:
        decoded = decode_value(element.payload)
        if decoded.problem:
            self._assembler.skip(decoded.problem)
            return Problem(line=element.line, byte_start=element.byte_start, reason=decoded.problem)
        for reading in self._reader.read(decoded.value, Places(element, decoded.flags)):
            self._assembler.take(reading)
        if self._by_element:
            self._assembler.let_go()
        return None


class _TextSnapshot(Struct, array_like=True):
    format_name: str
    version: int
    offset: int
    assembler: bytes


class TextParser:
    """A :class:`~palace_daemon.core.transcripts.base.SourceParser` over a text that is read as a whole at its end.

    Holds the whole text in memory: for formats whose files are written by one person's sessions (megabytes).

    Args:
        format_name: Stored in snapshots, with ``version``: a snapshot of another one is refused.
        version: See ``format_name``.
        agent: Agent of every exchange.
        reader: The text to events.
        redact: Applied to every text before it is kept.
        state: A snapshot to continue from.

    Raises:
        ValueError: ``state`` is of another format or version, or of an ended text.
    """

    def __init__(
        self,
        *,
        format_name: str,
        version: int,
        agent: str,
        reader: TextReader,
        redact: Redactor,
        state: bytes | None = None,
    ) -> None:
        self._format_name = format_name
        self._version = version
        self._reader = reader
        self._held = bytearray()
        self._offset = 0
        if state is not None:
            saved = msgspec.msgpack.decode(state, type=_TextSnapshot)
            if (saved.format_name, saved.version, saved.offset) != (format_name, version, 0):
                raise ValueError(f"the saved state is not of {format_name} {version}, or its text has ended")
        self._assembler = Assembler(agent, redact)

    @property
    def offset(self) -> int:
        """Bytes consumed: none, or all once the text has ended."""
        return self._offset

    @property
    def is_whole(self) -> bool:
        """Always: a text can end anywhere."""
        return True

    def feed(self, data: bytes) -> ParseResult:
        """Hold the next bytes."""
        self._held += data
        return ParseResult()

    def take_tail(self) -> ParseResult:
        """Do nothing: :meth:`finish` takes all."""
        return ParseResult()

    def finish(self) -> ParseResult:
        """Read the whole text."""
        size = len(self._held)
        self._offset += size
        text, flags = decode_text(bytes(self._held))
        self._held = bytearray()
        if flags:
            self._assembler.skip(flags[0])
        for reading in self._reader.read(text):
            self._assembler.take(reading)
        result = self._assembler.flush()
        if len(text.encode("utf-8", "replace")) != size:
            # The text is not the file byte by byte (line ends, BOM, another encoding): lines tell the place, bytes not.
            whole = (structs.replace(one, byte_start=0, byte_end=size) for one in result.exchanges)
            result = structs.replace(result, exchanges=tuple(whole))
        return structs.replace(result, lines_read=text.count("\n") + (not text.endswith("\n")))

    def drop(self, keys: Collection[str], untitled: Collection[str]) -> None:
        """Let go of the texts of exchanges by key, and of the titles of sessions by id."""
        self._assembler.drop(keys, untitled)

    def snapshot(self) -> bytes:
        """Return the state at :attr:`offset`."""
        return msgspec.msgpack.encode(
            _TextSnapshot(self._format_name, self._version, self._offset, self._assembler.snapshot())
        )


_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


def decode_text(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Return a file's text, without BOM and with LF line ends, and what had to be done to read it.

    UTF-8, or UTF-16 behind its BOM (what PowerShell writes); other bytes become U+FFFD (``lossy_unicode``).
    """
    encoding = _UTF16.get(data[:2], "utf-8")
    text = data.decode(encoding, errors="replace").removeprefix("\ufeff").replace("\x00", "")
    is_lossy = "\ufffd" in text and "\ufffd".encode(encoding) not in data
    return text.replace("\r\n", "\n").replace("\r", "\n"), ("lossy_unicode",) if is_lossy else ()


def _decode_snapshot(state: bytes | None, format_name: str, version: int) -> _Snapshot | None:
    if state is None:
        return None
    saved = msgspec.msgpack.decode(state, type=_Snapshot)
    if (saved.format_name, saved.version) != (format_name, version):
        raise ValueError(f"the saved state is of {saved.format_name} {saved.version}, not {format_name} {version}")
    return saved
