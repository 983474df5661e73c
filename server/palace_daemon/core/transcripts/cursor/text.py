"""Cursor: the older transcripts of its agents, plain text with ``user:`` and ``assistant:`` on lines of their own."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping

from msgspec import Struct

from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.cursor.lines import default_dirs, turn_of
from palace_daemon.core.transcripts.cursor.place import AGENT, TRANSCRIPTS, CursorPlace
from palace_daemon.core.transcripts.cursor.query import read_query, reply_of
from palace_daemon.core.transcripts.document_parser import TextParser, decode_text
from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.words import path_parts
from palace_daemon.core.turns import Event, Place, Reading, ReplyText, ToolCall

_SPEAKERS = {"user:": "user", "assistant:": "assistant", "A:": "assistant"}
_MARK = re.compile(r"\[(Thinking|Tool call|Tool result)\][ \t]*(.*)")
_ARGUMENT = re.compile(r"[ \t]+(\w+)[ \t]*[:=][ \t]*(.*)")
_EVIDENCE = re.compile(
    r"^(?:<user_query>|<cursor_commands>|<timestamp>|\[(?:Thinking|Tool call|Tool result)\])", re.MULTILINE
)


class TextBlock(Struct, frozen=True):
    """What one speaker says: its lines, the line of its label (from 1) and the offsets of the block."""

    speaker: str
    lines: list[str]
    line: int
    byte_start: int
    byte_end: int

    @property
    def place(self) -> Place:
        """Where the block stands."""
        return Place(self.line, self.byte_start, self.byte_end)


class Call(Struct, frozen=True):
    """A tool call: its name and its arguments."""

    name: str
    arguments: dict[str, str]


class CursorTextReader:
    """A :class:`~palace_daemon.core.transcripts.document_parser.TextReader` of Cursor's older transcripts."""

    def __init__(self, place: CursorPlace, beside: Beside) -> None:
        self._file = place
        self._beside = beside

    def read(self, text: str) -> list[Reading]:
        """Return what the whole text yields."""
        told = [(block, list(_parts_of(block))) for block in blocks_of(text)]
        calls = [part for _, parts in told for part in parts if isinstance(part, Call)]
        cwd = self._file.told_directory(self._beside) or self._file.shown_directory(
            value for call in calls for value in call.arguments.values()
        )
        session = self._file.session
        readings = [Reading(events=(self._file.facts(cwd),), session=session)]
        for block, parts in told:
            if block.speaker == "user":
                readings.append(self._read_user(block, cwd))
            else:
                readings.append(self._read_reply(block, parts, cwd))
        return readings

    def _read_user(self, block: TextBlock, cwd: str) -> Reading:
        query = read_query("\n".join(block.lines))
        if not query.is_turn:
            return Reading(skipped=(query.reason,), session=self._file.session)
        turn = turn_of(query, self._file, block.place, cwd)
        return Reading(events=(turn,), skipped=query.skipped, session=self._file.session)

    def _read_reply(self, block: TextBlock, parts: list[str | Call], cwd: str) -> Reading:
        session, message = self._file.session, f"line {block.line}"
        events: list[Event] = []
        skipped: list[str] = []
        for part in parts:
            if isinstance(part, Call):
                target = target_of(part.arguments)
                events.append(ToolCall(session=session, place=block.place, name=part.name, target=target))
            elif words := reply_of(part).strip("\n"):
                events.append(ReplyText(session=session, place=block.place, text=words, message_id=message, cwd=cwd))
            else:
                skipped.append("thinking")
        return Reading(events=tuple(events), skipped=tuple(skipped), session=session)


def blocks_of(text: str) -> Iterator[TextBlock]:
    """Yield what the speakers say. A label inside a query, or in the middle of a paragraph, is a word like others."""
    lines = text.split("\n")
    opened = [index for index, line in enumerate(lines) if "<user_query>" in line]
    closed = [index for index, line in enumerate(lines) if "</user_query>" in line]
    start, offset, begin, free_from = -1, 0, 0, 0
    for index, line in enumerate(lines):
        is_label = line.rstrip() in _SPEAKERS and index >= free_from and (index == 0 or not lines[index - 1].strip())
        if is_label:
            if start >= 0:
                yield TextBlock(_SPEAKERS[lines[start].rstrip()], lines[start + 1 : index], start + 1, begin, offset)
            start, begin = index, offset
        elif start >= 0 and "<user_query>" in line and index >= free_from and lines[start].rstrip() == "user:":
            end, following = bisect_left(closed, index), bisect_left(opened, index + 1)
            if end < len(closed) and (following == len(opened) or closed[end] <= opened[following]):
                free_from = closed[end] + 1
        offset += len(line.encode("utf-8", "replace")) + 1
    if start >= 0:
        end_of_text = max(offset - 1, begin)
        yield TextBlock(_SPEAKERS[lines[start].rstrip()], lines[start + 1 :], start + 1, begin, end_of_text)


def _parts_of(block: TextBlock) -> Iterator[str | Call]:
    """Yield the texts and the calls of a reply; an empty text stands for reasoning or a tool's output."""
    if block.speaker == "user":
        return
    said: list[str] = []
    index = 0
    while index < len(block.lines):
        mark = _MARK.match(block.lines[index])
        index += 1
        if mark is None:
            said.append(block.lines[index - 1])
            continue
        if any(line.strip() for line in said):
            yield "\n".join(said)
        said = []
        end = _end_of_body(block.lines, index, is_output=mark.group(1) == "Tool result")
        if mark.group(1) == "Tool call":
            found = (_ARGUMENT.match(line) for line in block.lines[index:end])
            arguments = {match.group(1): match.group(2).strip().strip('"') for match in found if match}
            yield Call(mark.group(2).strip() or "tool", arguments)
        elif mark.group(1) == "Thinking":
            yield ""
        index = end
    if any(line.strip() for line in said):
        yield "\n".join(said)


def _end_of_body(lines: list[str], index: int, *, is_output: bool) -> int:
    """Return where the body of a mark ends: its lines are indented, and output goes on to the next empty line."""
    is_after_gap = False
    while index < len(lines):
        line = lines[index]
        if _MARK.match(line) or (line.strip() and not line[0].isspace() and (is_after_gap or not is_output)):
            return index
        is_after_gap = is_after_gap or not line.strip()
        index += 1
    return index


class CursorTextFormat:
    """Plain text of Cursor's agents before 2026. Stateless and thread-safe."""

    name = "cursor-text"
    agent = AGENT
    version = 1
    shape: Shape = "document"
    suffixes: tuple[str, ...] = (".txt",)
    is_secondary = True  # the editor tells the same in its database, whole

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the folder of all projects."""
        return default_dirs(environ, home, platform)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` is a text among an agent's transcripts."""
        *folders, name = path_parts(path)
        return name.endswith(self.suffixes) and TRANSCRIPTS in folders

    def sniff(self, head: bytes) -> bool:
        """Return whether ``head`` begins with a person's label, and has a mark that only Cursor writes."""
        text, _ = decode_text(head)
        first = text.lstrip("\n").partition("\n")[0].rstrip()
        return first == "user:" and _EVIDENCE.search(text) is not None

    def open(
        self, path: str, redact: Redactor, state: bytes | None = None, beside: Beside = NOTHING_BESIDE
    ) -> TextParser:
        """Return a parser for the source at ``path``; the path names the conversation."""
        return TextParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            reader=CursorTextReader(CursorPlace(path), beside),
            redact=redact,
            state=state,
        )
