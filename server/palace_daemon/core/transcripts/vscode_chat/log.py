"""VS Code chat sessions as mutation logs (``.jsonl``), as VS Code 1.109 and later write them.

Invariant: the log is replayed as a whole. An entry changes what earlier ones said, and after some hundred entries the
file is written anew as one line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import msgspec
from msgspec import Struct, structs

from palace_daemon.core.exchanges import Assembler
from palace_daemon.core.jsonl import Line, LineDecoder, LineSplitter, sniff_lines
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.line_parser import MAX_PROBLEMS
from palace_daemon.core.transcripts.reading.words import as_text
from palace_daemon.core.transcripts.vscode_chat.format import chat_dirs, is_chat_file, stem_of
from palace_daemon.core.transcripts.vscode_chat.replay import INITIAL, Entry, Replay, is_entry
from palace_daemon.core.transcripts.vscode_chat.requests import (
    AGENT,
    Slot,
    read_request,
    read_session,
    read_slots,
)
from palace_daemon.core.transcripts.vscode_chat.workspace import workspace_folder
from palace_daemon.core.turns import Place
from palace_daemon.model import ParseResult, Problem

_ENTRIES = LineDecoder(Entry, is_entry)

_STATE_FIELDS = (
    *("version", "creationDate", "customTitle", "initialLocation", "inputState", "responderUsername", "sessionId"),
    *("requests", "hasPendingEdits", "repoData", "pendingRequests", "workingDirectory"),
)
"""What paths begin with; damaged logs begin with such an entry."""

_TORN_HEAD = re.compile(rb'^\{"kind": ?0, ?"v": ?\{"')
"""How logs begin; for a first line longer than the head that sniffing gets."""


class VsCodeChatLogFormat:
    """Mutation logs of VS Code and its forks. Stateless and thread-safe."""

    name = "vscode-chat-log"
    agent = AGENT
    version = 1
    shape: Shape = "document"
    suffixes: tuple[str, ...] = (".jsonl",)
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the storage directories of each editor."""
        return chat_dirs(environ, home, platform)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` is a log in a folder of chat sessions."""
        return is_chat_file(path, self.suffixes)

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        return sniff_lines(head, _ENTRIES, _is_ours, _is_ours_torn)

    def open(
        self, path: str, redact: Redactor, state: bytes | None = None, beside: Beside = NOTHING_BESIDE
    ) -> ChatLogParser:
        """Return a parser for the log at ``path``; ``workspace.json`` two folders up names the project."""
        return ChatLogParser(self.name, self.version, path, redact, beside, state)


def _is_ours(entry: Entry) -> bool:
    if not is_entry({"kind": entry.kind, "k": entry.k, "v": entry.v}):
        return False
    if entry.kind != INITIAL:
        return bool(entry.k) and entry.k[0] in _STATE_FIELDS
    return isinstance(entry.v.get("requests"), list) and bool({"sessionId", "responderUsername"} & entry.v.keys())


def _is_ours_torn(first: bytes) -> bool:
    return _TORN_HEAD.match(first) is not None and any(field in first for field in (b'"sessionId":', b'"requests":'))


class _Snapshot(Struct, array_like=True):
    format_name: str
    version: int
    offset: int


class ChatLogParser:
    """A :class:`~palace_daemon.core.transcripts.base.SourceParser` over a mutation log, read at its end.

    Holds the state of the session, not the log.

    Raises:
        ValueError: ``state`` is of another format or version, or of a log that was read to its end.
    """

    def __init__(
        self, format_name: str, version: int, path: str, redact: Redactor, beside: Beside, state: bytes | None
    ) -> None:
        self._format_name, self._version = format_name, version
        self._path, self._beside, self._redact = path, beside, redact
        if state is not None:
            saved = msgspec.msgpack.decode(state, type=_Snapshot)
            if (saved.format_name, saved.version, saved.offset) != (format_name, version, 0):
                raise ValueError(f"the saved state is not of {format_name} {version}, or its log was read to its end")
        self._splitter = LineSplitter()
        self._assembler = Assembler(AGENT, redact)
        self._replay = Replay()
        self._lines = 0
        self._problems: list[Problem] = []
        self._offset = 0

    @property
    def offset(self) -> int:
        """Bytes consumed: none, or all complete lines once the log has ended."""
        return self._offset

    @property
    def is_whole(self) -> bool:
        """Whether the log began with a whole state and does not end in half a line."""
        return self._replay.has_initial and self._splitter.peek_tail() is None

    def feed(self, data: bytes) -> ParseResult:
        """Apply the next entries; they are told at the end."""
        for line in self._splitter.feed(data):
            self._apply(line)
        return ParseResult()

    def take_tail(self) -> ParseResult:
        """Apply the held-back last line if it is one whole entry; otherwise leave it."""
        tail = self._splitter.peek_tail()
        if tail is not None:
            decoded = _ENTRIES.decode_line(tail.payload)
            if not decoded.problem and not decoded.fragments:
                self._splitter.take_tail()
                self._apply(tail)
        return ParseResult()

    def finish(self) -> ParseResult:
        """Tell the session as the whole log has it."""
        self._offset = self._splitter.offset
        state = self._replay.state
        session = as_text(state.get("sessionId")) or stem_of(self._path)
        cwd = workspace_folder(self._path, self._beside)
        slots = self._replay.settle()
        if slots or state:
            self._assembler.take(read_session(state, session, cwd))
        for reading in read_slots(slots, session, cwd):
            self._assembler.take(reading)
        pending = state.get("pendingRequests")
        place = slots[-1].last if slots else Place(1, 0, 0)
        for waiting in pending if isinstance(pending, list) else []:
            request = waiting.get("request") if isinstance(waiting, dict) else None
            self._assembler.take(read_request(Slot(request, place, place), session, cwd, kind="queued"))
        result = structs.replace(self._assembler.flush(), lines_read=self._lines, problems=tuple(self._problems))
        self._lines, self._problems = 0, []
        return result

    def snapshot(self) -> bytes:
        """Return the state at :attr:`offset`."""
        return msgspec.msgpack.encode(_Snapshot(self._format_name, self._version, self._offset))

    def drop(self, keys: Collection[str], untitled: Collection[str]) -> None:
        """Do nothing: a snapshot holds no text."""

    def _apply(self, line: Line) -> None:
        self._lines += 1
        decoded = _ENTRIES.decode_line(line.payload)
        flags = (*decoded.flags, "payload_dropped") if line.dropped_bytes else decoded.flags
        place = Place(line.number, line.byte_start, line.byte_end, flags)
        reasons = [self._replay.apply(entry, place) for entry in decoded.records]
        if decoded.fragments:
            self._assembler.skip("recovered_fragment", decoded.fragments)
            reasons.append("recovered_fragment")
        if decoded.problem:
            self._assembler.skip(decoded.problem)
            reasons.append("" if decoded.problem == "empty" else decoded.problem)
        for reason in filter(None, reasons):
            if reason not in (decoded.problem, "recovered_fragment"):
                self._assembler.skip(reason)
            if len(self._problems) < MAX_PROBLEMS:
                self._problems.append(Problem(line=line.number, byte_start=line.byte_start, reason=reason))
