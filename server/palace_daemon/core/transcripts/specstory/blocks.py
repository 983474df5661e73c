"""The blocks of a SpecStory text: turns, and what in them is reasoning, tools and prose.

Transcripts of work on transcripts quote such blocks, so that a mark counts only where SpecStory can have written it:
a turn's header stands between empty lines and outside fenced code, a tool block ends where its own end is.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Callable

from msgspec import Struct, field

from palace_daemon.core.transcripts.reading.closed_blocks import closed_blocks
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.text_lines import Fence, TextLines
from palace_daemon.core.turns import Place

_TURN = re.compile(r"_\*\*(User|Agent|Assistant)( - sidechain)?(?: \((.*)\))?\*\*_[ \t]*")
_MESSAGE_ID = re.compile(r"<!-- message-id: ([^ ]+) -->[ \t]*")
_STAMP = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?")
_MODEL = re.compile(r"model ([^,]+)(?:, mode .*)?")
_RULE = "---"

_THINK_OPEN, _THINK_CLOSE = "<think>", "</think>"
_TOOL_OPEN = re.compile(r'<tool-use(?: data-tool-type="[^"]*")?(?: data-tool-name="([^"]*)")?[^>]*>')
_TOOL_CLOSE = re.compile(r"(?:</details>)?</tool-use>")
_DETAILS_OPEN = re.compile(r"<details>(?=.*<summary>(?:Tool use:|Edit file:|Thought Process)|$)")
_DETAILS_CLOSE = "</details>"
_OLD_TOOL = re.compile(r"Tool use: \*\*([^*]+)\*\*[ \t]*")
_SUMMARY, _SUMMARY_END = "<summary>Tool use: **", "</summary>"
_SUMMARY_TOOL = re.compile(r"<summary>Tool use: \*\*([^*]+)\*\*(?: \u2022 (.*))?</summary>")
_CODE_SPAN = re.compile(r"`([^`\n]+)`")
_TAG = re.compile(r"</?(?:details|summary)>")
_FILE_LABEL = re.compile(r"(?:Edit file|Read file|Run command): (.+)")


_Test = Callable[[str], object]


class Piece(Struct, frozen=True):
    """A part of a reply: prose, or a tool call with its target."""

    place: Place
    first: int
    end: int
    tool: str = ""
    target: str = ""

    def text(self, lines: TextLines) -> str:
        """Return the prose without the rules around it, or the tool's target."""
        return self.target if self.tool else _without_rules(lines, self.first, self.end)


class Block(Struct, kw_only=True):
    """One turn of either side."""

    is_user: bool
    is_side: bool
    model: str
    at: int | None
    record_id: str
    place: Place
    first: int
    end: int
    pieces: list[Piece] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def text(self, lines: TextLines) -> str:
        """Return all of the block; one rule at its end is SpecStory's own."""
        end = self.end
        while end > self.first and lines.is_blank(end - 1):
            end -= 1
        if end > self.first and lines.lines[end - 1].strip() == _RULE:
            end -= 1
        return lines.text(self.first, end)


def blocks_of(lines: TextLines) -> tuple[int, list[Block]]:
    """Return where the first turn begins, and all turns in their order."""
    marks = _Marks(lines)
    headers = _headers(lines, marks)
    blocks = []
    for number, (index, match) in enumerate(headers):
        end = headers[number + 1][0] if number + 1 < len(headers) else len(lines.lines)
        blocks.append(_block(lines, marks, index, end, match))
    return (headers[0][0] if headers else len(lines.lines)), blocks


def _headers(lines: TextLines, marks: _Marks) -> list[tuple[int, re.Match[str]]]:
    found: list[tuple[int, re.Match[str]]] = []
    fence = Fence()
    is_user = is_stamped = False
    index = 0
    while index < len(lines.lines):
        line = lines.lines[index]
        match = _TURN.fullmatch(line)
        if (
            match
            and _stands_alone(lines, index)
            and (not fence.is_open or _breaks_fence(lines, index, is_stamped=is_stamped and bool(match[3])))
        ):
            is_stamped = is_stamped or (not found and bool(match[3]))
            is_user, fence = match[1] == "User", Fence()
            found.append((index, match))
        elif found and not is_user and not fence.is_open and (end := marks.end_of(index)):
            index = end
            continue
        else:
            fence.feed(line)
        index += 1
    return found


def _stands_alone(lines: TextLines, index: int) -> bool:
    after = index + 1
    is_followed = lines.is_blank(after) or bool(_MESSAGE_ID.fullmatch(lines.lines[after]))
    return lines.is_blank(index - 1) and is_followed


def _breaks_fence(lines: TextLines, index: int, *, is_stamped: bool) -> bool:
    """Return whether a header counts although code was not closed before it: replies with uneven fences are common."""
    if is_stamped:
        return True
    before = index - 1
    while before >= 0 and lines.is_blank(before):
        before -= 1
    return before >= 0 and lines.lines[before].strip() == _RULE


def _block(lines: TextLines, marks: _Marks, index: int, end: int, match: re.Match[str]) -> Block:
    first = index + 1
    record = _MESSAGE_ID.fullmatch(lines.lines[first]) if first < end else None
    first += bool(record)
    told = match[3] or ""
    stamp = _STAMP.search(told)
    model = "" if match[1] == "User" else told.replace(stamp[0], "").strip() if stamp else told
    named = _MODEL.fullmatch(model)
    block = Block(
        is_user=match[1] == "User",
        is_side=bool(match[2]),
        model=named[1] if named else model,
        at=to_epoch_ms(stamp[0]) if stamp else None,
        record_id=record[1] if record else "",
        place=lines.place(index, end),
        first=first,
        end=end,
    )
    if not block.is_user:
        _cut(lines, marks, block)
    return block


def _cut(lines: TextLines, marks: _Marks, block: Block) -> None:
    """Divide a reply into prose and tools; reasoning is left out."""
    fence = Fence()
    index = start = block.first
    while index < block.end:
        end = 0 if fence.is_open else min(marks.end_of(index) or _old_tool_end(lines, index, block), block.end)
        if not end:
            fence.feed(lines.lines[index])
            index += 1
            continue
        _add_prose(lines, block, start, index)
        tool = _tool_in(lines, index, end)
        if tool is None:
            block.skipped.append("thinking")
        else:
            block.pieces.append(Piece(lines.place(index, end), index, end, *tool))
        index = start = end
    _add_prose(lines, block, start, block.end)


def _add_prose(lines: TextLines, block: Block, first: int, end: int) -> None:
    if _without_rules(lines, first, end):
        while lines.is_blank(first):
            first += 1
        block.pieces.append(Piece(lines.place(first, end), first, end))


def _without_rules(lines: TextLines, first: int, end: int) -> str:
    while first < end and (lines.is_blank(first) or lines.lines[first].strip() == _RULE):
        first += 1
    while end > first and (lines.is_blank(end - 1) or lines.lines[end - 1].strip() == _RULE):
        end -= 1
    return lines.text(first, end)


def _old_tool_end(lines: TextLines, index: int, block: Block) -> int:
    """Return where a tool in the old form ends, which goes on to the next rule; 0 where none begins."""
    if not _OLD_TOOL.fullmatch(lines.lines[index]):
        return 0
    before = index - 1
    while before >= block.first and lines.is_blank(before):
        before -= 1
    if before >= block.first and lines.lines[before].strip() not in (_RULE, "</details>", "</think>"):
        return 0
    fence = Fence()
    for end in range(index + 1, block.end):
        if lines.lines[end].strip() == _RULE and not fence.is_open:
            return end
        fence.feed(lines.lines[end])
    return block.end


def _tool_in(lines: TextLines, first: int, end: int) -> tuple[str, str] | None:
    """Return the name and the target of the tool block in these lines; None where they are reasoning."""
    line = lines.lines[first]
    opened, old = _TOOL_OPEN.match(line), _OLD_TOOL.fullmatch(line)
    head = lines.lines[first : min(end, first + 8)]
    summary = next((match for part in head if (match := _summary_in(part))), None)
    name = (opened[1] or "" if opened else "") or (old[1] if old else "") or (summary[1] if summary else "")
    if not name and not opened:
        return None
    shown = html.unescape(summary[2] or "") if summary else ""
    if label := _FILE_LABEL.fullmatch(shown):
        return name or "tool", label[1]
    for part in head[1:]:
        if label := _FILE_LABEL.fullmatch(_TAG.sub("", part).strip()):
            return name or "tool", label[1]
        if part.lstrip().startswith("```"):
            break
        if "<summary>" not in part and (span := _CODE_SPAN.search(part)):
            return name or "tool", span[1]
    return name or "tool", ""


def _summary_in(line: str) -> re.Match[str] | None:
    """Return the summary of a tool in a line."""
    blocks = closed_blocks(line, _SUMMARY, _SUMMARY_END)
    return next((match for begin, end in blocks if (match := _SUMMARY_TOOL.fullmatch(line, begin, end))), None)


class _Marks:
    """Where the tool and reasoning blocks of a text end. Every line is looked at once."""

    def __init__(self, lines: TextLines) -> None:
        self._lines = lines.lines
        self._tools, self._tool_ends = self._pairs(_TOOL_OPEN.match, _TOOL_CLOSE.search)
        self._details, self._details_ends = self._pairs(
            lambda line: line.startswith("<details>"), lambda line: _DETAILS_CLOSE in line
        )
        self._thought_ends = [index for index, line in enumerate(self._lines) if _THINK_CLOSE in line]

    def end_of(self, index: int) -> int:
        """Return the index after the block that begins on this line, 0 where none begins."""
        line = self._lines[index]
        if line.startswith(_THINK_OPEN):
            return _next(self._thought_ends, index)
        if _TOOL_OPEN.match(line):
            return self._tools.get(index) or _next(self._tool_ends, index)
        if _DETAILS_OPEN.match(line) and self._is_tool_details(index):
            return self._details.get(index) or _next(self._details_ends, index)
        return 0

    def _is_tool_details(self, index: int) -> bool:
        shown = self._lines[index] + (self._lines[index + 1] if index + 1 < len(self._lines) else "")
        return any(mark in shown for mark in ("<summary>Tool use:", "<summary>Edit file:", "<summary>Thought Process"))

    def _pairs(self, opens: _Test, closes: _Test) -> tuple[dict[int, int], list[int]]:
        """Return the ends of blocks by their beginnings, nested ones inside, and all ends."""
        stack: list[int] = []
        ends: list[int] = []
        pairs: dict[int, int] = {}
        for index, line in enumerate(self._lines):
            if opens(line):
                stack.append(index)
            if closes(line):
                ends.append(index)
                if stack:
                    pairs[stack.pop()] = index + 1
        return pairs, ends


def _next(ends: list[int], index: int) -> int:
    """Return the line after the first of ``ends`` at or after ``index``; 0 where there is none."""
    found = bisect_left(ends, index)
    return ends[found] + 1 if found < len(ends) else 0
