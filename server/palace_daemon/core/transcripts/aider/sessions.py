"""One session of an Aider history: prompts, tool lines and replies, told apart by how Aider writes them.

Aider ends the lines of prompts and tool lines with two spaces and leaves those of replies alone; that tells a prompt
from a heading and a tool line from a quotation in a reply, and ends a reply that was cut inside code. Where an editor
took the spaces away, a prompt is told by the empty lines above it, a tool line by its words and its neighbours.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from msgspec import Struct, field

from palace_daemon.core.transcripts.aider.marks import (
    begins_thinking,
    ends_reply,
    ends_thinking,
    is_own,
    without_thinking,
)
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.text_lines import Fence, TextLines
from palace_daemon.core.turns import Event, Facts, Place, Reading, ReplyText, ToolCall, TurnEnd, UserTurn
from palace_daemon.model import ExchangeStatus, SessionFacts, UserKind

HEADER = re.compile(r"# aider chat started at (\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2})[ \t]*$", re.MULTILINE)

AGENT = "aider"
_HARD_BREAK = "  "
_PROMPT = re.compile(r"####(?: (.*))?$", re.DOTALL)
_TOOL = re.compile(r">(?: (.*))?$", re.DOTALL)
_MODEL = re.compile(r"(?:Main model|Models?): ([^\s,]+)")
_VERSION = re.compile(r"Aider v(\S+)")
_EDITED = re.compile(r"Applied edit to (.+)")
_INTERRUPTED = re.compile(r"\^C\b")
_REPLY_DONE = re.compile(r"Tokens: .* sent\b")

_COMMAND = re.compile(r"/([a-z][a-z-]*)(?:\s+(.*))?$", re.DOTALL)
_PROSE_COMMANDS = frozenset({"ask", "code", "architect", "context"})
_COMMANDS = _PROSE_COMMANDS | {
    *("add", "chat-mode", "clear", "commit", "copy", "copy-context", "diff", "drop", "edit", "editor", "editor-model"),
    *("exit", "git", "help", "lint", "load", "ls", "map", "map-refresh", "model", "models", "multiline-mode", "ok"),
    *("paste", "quit", "read-only", "reasoning-effort", "report", "reset", "run", "save", "settings", "test"),
    *("think-tokens", "tokens", "undo", "voice", "weak-model", "web"),
}
"""What begins with another word behind a slash is prose, such as a path."""


class _Reply(Struct, frozen=True):
    place: Place
    text: str


class _Edit(Struct, frozen=True):
    place: Place
    target: str


class _Turn(Struct, kw_only=True):
    """A prompt and all that came after it."""

    place: Place
    text: str
    kind: UserKind = "prompt"
    model: str = ""
    version: str = ""
    items: list[_Reply | _Edit] = field(default_factory=list)
    status: ExchangeStatus = "open"


def read_session(lines: TextLines, first: int, end: int, *, session: str, start: str, cwd: str) -> Reading:
    """Return what the lines of one session yield; ``start`` is the local time of its header, or empty."""
    scan = _Scan(lines, first, end)
    scan.run()
    turns = _without_repeats(scan.turns, scan.skipped)
    if not any(turn.text or turn.items for turn in turns):
        return Reading(skipped=(*scan.skipped, "no_turns") if first < end else tuple(scan.skipped))
    facts = SessionFacts(agent=AGENT, session_id=session, cwd=cwd, agent_version=turns[-1].version)
    at = to_epoch_ms(start)
    events: list[Event] = [Facts(session=session, facts=facts)]
    for turn in turns:
        events += _turn_events(turn, session, at, cwd)
    return Reading(events=tuple(events), skipped=tuple(scan.skipped), session=session)


def _turn_events(turn: _Turn, session: str, at: int | None, cwd: str) -> list[Event]:
    events: list[Event] = [
        UserTurn(
            session=session,
            place=turn.place,
            text=turn.text,
            kind=turn.kind,
            at=at,
            time_quality="session",
            cwd=cwd,
            agent_version=turn.version,
            model=turn.model,
        )
    ]
    for item in turn.items:
        if isinstance(item, _Reply):
            message_id = f"{session}:{item.place.byte_start}"
            events.append(ReplyText(session=session, place=item.place, text=item.text, message_id=message_id))
        else:
            events.append(ToolCall(session=session, place=item.place, name="edit", target=item.target))
    if turn.status != "open":
        events.append(TurnEnd(session=session, status=turn.status))
    return events


def _without_repeats(turns: list[_Turn], skipped: list[str]) -> list[_Turn]:
    """Return the turns without those that were aborted and then sent again unchanged."""
    kept: list[_Turn] = []
    for turn in turns:
        if kept and turn.text and kept[-1].text == turn.text and not kept[-1].items:
            kept.pop()
            skipped.append("repeated_prompt")
        kept.append(turn)
    return kept


class _Scan:
    """Goes through the lines of one session."""

    def __init__(self, lines: TextLines, first: int, end: int) -> None:
        self.turns: list[_Turn] = []
        self.skipped: list[str] = []
        self._lines = lines
        self._first = first
        self._end = end
        self._has_breaks = any(
            line.endswith(_HARD_BREAK) and line.startswith((">", "####")) for line in lines.lines[first:end]
        )
        self._fence = Fence()
        self._reply_first = -1
        self._is_thinking = self._is_after_reply = False
        self._is_after_tool = self._is_after_command = False
        marks = ((index, line) for index, line in enumerate(lines.lines[first:end], first))
        known = [(index, ends_thinking(line)) for index, line in marks if ends_thinking(line) or begins_thinking(line)]
        self._thinking_marks = [index for index, _ in known]
        self._thinking_ends = [is_end for _, is_end in known]
        self._model = self._version = ""

    def run(self) -> None:
        """Fill :attr:`turns` and :attr:`skipped`."""
        index = self._first
        while index < self._end:
            line = self._lines.lines[index]
            if self._is_tool(index, line):
                self._end_reply(index)
                self._take_tool(index, line)
                self._is_after_tool = True
                index += 1
                continue
            self._is_after_tool = False
            if self._is_prompt(index, line):
                self._end_reply(index)
                index = self._take_prompt(index)
            else:
                self._follow(line)
                if line.strip():
                    self._reply_first = index if self._reply_first < 0 else self._reply_first
                    self._is_after_reply = True
                index += 1
        self._end_reply(self._end)

    def _follow(self, line: str) -> None:
        """Keep track of what stands open in a reply."""
        if self._is_thinking:
            self._is_thinking = not ends_thinking(line)
        elif begins_thinking(line) and not self._fence.is_open:
            self._is_thinking = True
        else:
            self._fence.feed(line)

    @property
    def _is_inside(self) -> bool:
        """Whether the line stands in reasoning or code, where marks mean nothing."""
        return self._is_thinking or self._fence.is_open

    def _is_tool(self, index: int, line: str) -> bool:
        match = _TOOL.match(line)
        if match is None or (self._has_breaks and not line.endswith(_HARD_BREAK)):
            return False
        words = match[1] or ""
        if self._is_inside:
            return ends_reply(words)
        is_next = self._is_after_tool or (self._is_after_command and not self._is_blank(index - 1))
        return self._has_breaks or not self.turns or is_next or is_own(words)

    def _is_prompt(self, index: int, line: str) -> bool:
        if not _PROMPT.match(line) or not (index == self._first or self._is_blank(index - 1)):
            return False
        if self._has_breaks:  # code and reasoning that stand open here were cut, and are no code and no reasoning
            return line.endswith(_HARD_BREAK) and not (self._is_thinking and self._ends_thinking_below(index))
        if self._is_inside:
            return False
        # Aider leaves two empty lines between a reply and the next prompt, a heading in a reply has one above it.
        return not self._is_after_reply or self._is_blank(index - 2)

    def _ends_thinking_below(self, index: int) -> bool:
        """Return whether the next mark of reasoning is an end: then it goes on here."""
        found = bisect_left(self._thinking_marks, index)
        return found < len(self._thinking_ends) and self._thinking_ends[found]

    def _is_blank(self, index: int) -> bool:
        return index < self._first or self._lines.is_blank(index)

    def _take_tool(self, index: int, line: str) -> None:
        self._is_after_reply = False
        self.skipped.append("tool_line")
        text = line[1:].strip()
        if match := _MODEL.match(text):
            self._model = match[1]
        elif match := _VERSION.match(text):
            self._version = match[1]
        if not self.turns:
            return
        turn = self.turns[-1]
        if match := _EDITED.fullmatch(text):
            turn.items.append(_Edit(self._lines.place(index, index + 1), match[1]))
        elif _INTERRUPTED.match(text):
            turn.status = "interrupted"
        elif _REPLY_DONE.match(text) and turn.status == "open":
            turn.status = "complete"

    def _take_prompt(self, first: int) -> int:
        """Take the lines of one prompt; return the index after them."""
        index, parts = first, []
        while index < self._end and (match := _PROMPT.match(self._lines.lines[index])):
            parts.append((match[1] or "").removesuffix(_HARD_BREAK))
            index += 1
        self._is_after_reply = False
        place = self._lines.place(first, index)
        text, kind, reason = _words("\n".join(parts).strip())
        self._is_after_command = reason in ("slash_command", "shell_command")
        if reason:
            self.skipped.append(reason)
        self.turns.append(_Turn(place=place, text=text, kind=kind, model=self._model, version=self._version))
        return index

    def _end_reply(self, end: int) -> None:
        first, self._reply_first = self._reply_first, -1
        self._fence, self._is_thinking = Fence(), False
        if first < 0:
            return
        if not self.turns:  # a long command line goes on below its tool line
            self.skipped.append("before_first_prompt")
            return
        text, count = without_thinking(self._lines.text(first, end))
        self.skipped += ["thinking"] * count
        if text.strip():
            self.turns[-1].items.append(_Reply(self._lines.place(first, end), text.strip("\n").rstrip()))


def _words(text: str) -> tuple[str, UserKind, str]:
    """Return a prompt's words, their kind, and why it holds none."""
    if text in ("", "<blank>"):
        return "", "prompt", "empty"
    if text.startswith("!"):
        return "", "shell", "shell_command"
    match = _COMMAND.match(text)
    if match is None or match[1] not in _COMMANDS:
        return text, "prompt", ""
    words = (match[2] or "").strip()
    if match[1] in _PROSE_COMMANDS and words:
        return words, "slash_args", ""
    return "", "slash_args", "slash_command"
