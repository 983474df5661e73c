"""Whole JSON documents: cutting a stream into its root values, decoding them, and places inside them.

A document is one JSON value, or an array of them (an export with a conversation in each element). Elements come out as
soon as they are complete, so that memory is bounded by the largest one, not by the file.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from palace_daemon.core.jsonl import scrub
from palace_daemon.core.turns import Place

_BOM = b"\xef\xbb\xbf"
_SCAN_BYTES = 64 * 1024
"""Bytes that are looked at in one go: short elements must not cost a look at all that was fed."""
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_QUOTE, _COMMA = b'"'[0], b","[0]
_IS_OPEN = np.zeros(256, bool)
_IS_OPEN[list(b"[{")] = True
_IS_CLOSE = np.zeros(256, bool)
_IS_CLOSE[list(b"]}")] = True
_NOT_BLANK = re.compile(rb"[^\x00 \t\r\n]")


class Element(Struct, frozen=True, gc=False):
    """One root value, or one element of the root array: its bytes, the line that it begins on, its offsets."""

    payload: bytes
    line: int
    byte_start: int
    byte_end: int


class DocumentState(Struct, frozen=True, array_like=True):
    """Where a splitter stands after its last complete element."""

    offset: int = 0
    line: int = 1
    """Line of the byte at ``offset``, from 1."""
    is_array: bool = False
    """Whether the root array is open."""
    is_whole: bool = False
    """Whether the root value was closed."""


class ElementSplitter:
    """Cuts a document into elements. Single-threaded; memory is bounded by the largest element.

    Brackets are paired outside strings only, over whole blocks with numpy: about 100 MB/s.
    """

    def __init__(self, state: DocumentState | None = None, *, by_element: bool = True) -> None:
        """Begin, or go on from ``state`` with the bytes from its offset on.

        Without ``by_element`` a root array comes out as one value, too: for files in which it is one conversation.
        """
        self._state = state or DocumentState()
        self._by_element = by_element
        self._held = bytearray()
        self._scanned = 0
        self._depth = 0
        self._is_in_string = False

    @property
    def state(self) -> DocumentState:
        """The place after the last complete element; held bytes are not part of it."""
        return self._state

    def feed(self, data: bytes) -> list[Element]:
        """Return the elements that ``data`` completes; the rest is held."""
        self._held += data
        elements: list[Element] = []
        while not self._state.is_whole and self._begin():
            end = self._find_end()
            if end is None:
                break
            elements.append(self._take(end))
        if self._state.is_whole and not _NOT_BLANK.search(self._held):
            self._skip(len(self._held), is_whole=True)  # a line end behind the document belongs to it
        return elements

    def _begin(self) -> bool:
        """Step over what stands between elements; return whether an element begins (or goes on) at the front."""
        if self._scanned:
            return True
        position = 0
        while match := _NOT_BLANK.search(self._held, position):
            byte = self._held[match.start()]
            is_root = self._state.offset + match.start() == 0 or not self._state.is_array
            if is_root and self._held.startswith(_BOM, match.start()):
                position = match.start() + len(_BOM)
                continue
            if byte == _COMMA and self._state.is_array:
                position = match.end()
                continue
            if byte == b"["[0] and self._by_element and not self._state.is_array:
                self._skip(match.end(), is_array=True)
                position = 0
                continue
            if byte == b"]"[0] and self._state.is_array:
                self._skip(match.end(), is_whole=True)
                return False
            self._skip(match.start())
            return True
        return False

    def _skip(self, size: int, *, is_array: bool = False, is_whole: bool = False) -> None:
        skipped = bytes(self._held[:size])
        del self._held[:size]
        self._state = DocumentState(
            offset=self._state.offset + size,
            line=self._state.line + skipped.count(b"\n"),
            is_array=self._state.is_array or is_array,
            is_whole=is_whole,
        )

    def _find_end(self) -> int | None:
        """Return the length of the element at the front, or None when it is not complete."""
        if self._held[0] not in b'{["':  # a bare number or word: no conversation; it ends at the next separator
            match = re.compile(rb"[,\]}\s]").search(self._held, 1)
            return match.start() if match else None
        while True:
            scanned = self._scanned
            end = self._find_end_in(bytes(self._held[scanned : scanned + _SCAN_BYTES]))
            if end is not None or self._scanned == scanned:
                return end

    def _find_end_in(self, block: bytes) -> int | None:
        """Look for the end in the next bytes, which begin at :attr:`_scanned`; go past them if it is not there."""
        if block.endswith(b"\\") and (len(block) - len(block.rstrip(b"\\"))) % 2:
            block = block[:-1]  # half an escape: wait for its other byte
        if not block:
            return None
        plain = np.frombuffer(_ESCAPED.sub(b"__", block), np.uint8)
        quotes = np.cumsum(plain == _QUOTE) + self._is_in_string
        outside = quotes % 2 == 0
        steps = np.where(outside, _IS_OPEN[plain].astype(np.int8) - _IS_CLOSE[plain], 0)
        depth = np.cumsum(steps, dtype=np.int64) + self._depth
        is_end = outside & (depth == 0) & (_IS_CLOSE[plain] | (plain == _QUOTE))
        found = np.flatnonzero(is_end)
        if len(found):
            return self._scanned + int(found[0]) + 1
        self._scanned += len(block)
        self._depth, self._is_in_string = int(depth[-1]), bool(quotes[-1] % 2)
        return None

    def _take(self, size: int) -> Element:
        payload = bytes(self._held[:size])
        start, line = self._state.offset, self._state.line
        self._skip(size, is_whole=not self._state.is_array)
        self._scanned, self._depth, self._is_in_string = 0, 0, False
        return Element(payload, line, start, start + size)


def is_open_document(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` can be a JSON document that is still being written."""
    text = head.removeprefix(_BOM).lstrip(b"\x00 \t\r\n")
    if not text:
        return True
    splitter = ElementSplitter(by_element=False)
    return text[:1] in b"[{" and not splitter.feed(text)


class Places:
    """Finds where in an element its records stand, by their ids, in the order in which they are asked for."""

    def __init__(self, element: Element, flags: tuple[str, ...] = ()) -> None:
        """Begin at the element's start; ``flags`` say what had to be done to read it."""
        self._element = element
        self._flags = flags
        self._position = 0
        self._line = element.line

    @property
    def whole(self) -> Place:
        """The place of the whole element."""
        element = self._element
        return Place(element.line, element.byte_start, element.byte_end, self._flags)

    def of(self, value: str) -> Place:
        """Return the place of the next occurrence of ``value`` as a JSON string; without one, the last position.

        Linear over all calls as long as the values are asked for in their order.
        """
        wanted = msgspec.json.encode(value)
        found = self._element.payload.find(wanted, self._position) if value else -1
        size = len(wanted)
        if found < 0:
            found, size = self._position, 0
        self._line += self._element.payload.count(b"\n", self._position, found)
        self._position = found
        start = self._element.byte_start + found
        return Place(self._line, start, start + size, self._flags)


class DecodedValue(Struct, frozen=True):
    """A decoded element; ``problem`` is ``malformed`` where it is none."""

    value: Any = None
    flags: tuple[str, ...] = ()
    problem: str = ""


def decode_value(payload: bytes) -> DecodedValue:
    """Decode one JSON value: as it should be, or with control characters, lone surrogates, or bytes that are no UTF-8.

    Never raises for what the bytes hold.
    """
    try:
        return DecodedValue(msgspec.json.decode(payload))
    except (msgspec.DecodeError, RecursionError):
        pass
    text = payload.decode("utf-8", errors="replace")
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return DecodedValue(problem="malformed")
    scrubbed = scrub(value)
    is_lossy = scrubbed != value or ("\ufffd" in text and "\ufffd".encode() not in payload)
    return DecodedValue(scrubbed, ("lossy_unicode",) if is_lossy else ())


def decode_prefix(head: bytes) -> Any:
    """Decode the beginning of a JSON document as far as it goes, for recognising it; None where it is no JSON.

    The cut value and what it stands under are closed: ``[{"a": 1, "b": {"c": "x`` gives ``[{"a": 1, "b": {}}]``.
    The value is shared between callers, who must not change it: every document format looks at the same head.
    """
    return _decode_short_prefix(head) if len(head) <= _SHORT_HEAD else _decode_prefix(head)


_SHORT_HEAD = 1 << 20
"""Longer heads, of files with a huge first line, are not kept."""


def _decode_prefix(head: bytes) -> Any:
    text = head.decode("utf-8", errors="ignore").removeprefix("\ufeff").strip()
    if not text.startswith(("{", "[")):
        return None
    closed = _closed(text)
    try:
        return json.loads(closed, strict=False)
    except (ValueError, RecursionError):
        return None


_decode_short_prefix = lru_cache(maxsize=2)(_decode_prefix)

_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


def _closed(text: str) -> str:
    """Return ``text`` up to its last complete member, with what is open closed."""
    stack: list[str] = []
    good, good_stack = 0, ""
    is_value_due = True
    for match in _TOKEN.finditer(text):
        piece = match.group()
        if piece == '"':  # the string that the cut goes through: the brackets in it are text
            break
        if piece in "{[":
            stack.append("}" if piece == "{" else "]")
            good, good_stack, is_value_due = match.end(), "".join(reversed(stack)), piece == "["
        elif piece in "}]":
            if not stack:
                break
            stack.pop()
            good, good_stack, is_value_due = match.end(), "".join(reversed(stack)), False
            if not stack:
                break
        elif piece in ":,":
            is_value_due = piece == ":" or (bool(stack) and stack[-1] == "]")
        elif is_value_due and match.end() < len(text):
            good, good_stack, is_value_due = match.end(), "".join(reversed(stack)), False
    return text[:good] + good_stack
