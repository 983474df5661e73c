"""From a SpecStory text to events."""

from __future__ import annotations

import re

from palace_daemon.core.transcripts.claude_code.words import read_text
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.text_lines import TextLines
from palace_daemon.core.transcripts.reading.words import path_parts, reason_word
from palace_daemon.core.transcripts.specstory.blocks import Block, blocks_of
from palace_daemon.core.turns import Event, Facts, Reading, ReplyText, Title, ToolCall, TurnEnd, UserTurn
from palace_daemon.model import SessionFacts

SESSION = re.compile(r"<!-- ([A-Za-z][\w .+-]*?) Session ([\w-]+)(?: \(([^()]*)\))? -->[ \t]*")

_TITLE = "# "
_TITLE_DATE = re.compile(r"\((\d{4}-\d{2}-\d{2}[^()]*)\)")
_STAMP = re.compile(r"\d{4}-\d{2}-\d{2}[ T][\d:.]+(?:Z|[+-]\d{2}:?\d{2})?")

_CLAUDE = "claude-code"
_AGENTS = {
    "claude code": _CLAUDE,
    "codex": "codex",
    "codex cli": "codex",
    "cursor": "cursor",
    "cursor cli": "cursor",
    "cursor ide": "cursor",
    "antigravity cli": "antigravity",
    "copilot cli": "copilot-cli",
    "github copilot cli": "copilot-cli",
    "github copilot": "copilot-chat",
    "vscode copilot": "copilot-chat",
    "vs code copilot": "copilot-chat",
    "copilot ide": "copilot-chat",
    "gemini": "gemini-cli",
    "gemini cli": "gemini-cli",
}
"""What SpecStory calls an agent to what its own transcripts go by."""


def agent_of(provider: str) -> str:
    """Return the agent whose session a text copies."""
    name = " ".join(provider.lower().split())
    return _AGENTS.get(name) or reason_word(name).replace("_", "-")


class SpecStoryReader:
    """Knows the session by the text's header, else by the file's name."""

    def __init__(self, path: str, agent: str) -> None:
        """Take the source's path and the agent whose session it copies."""
        *folders, name = path_parts(path)
        self._agent = agent
        self._session = name.removesuffix(".md")
        is_in_project = folders[-2:] == [".specstory", "history"] and "!/" not in path
        tail = sum(map(len, (*folders[-2:], name))) + 3
        self._cwd = path[:-tail] if is_in_project else ""

    def read(self, text: str) -> list[Reading]:
        """Return what the whole text yields."""
        lines = TextLines(text)
        first, blocks = blocks_of(lines)
        session, at, title = self._header(lines, first)
        events: list[Event] = []
        skipped: list[str] = []
        for block in blocks:
            at = block.at or at
            skipped += block.skipped
            if block.is_side:
                skipped.append("side_chain")
            elif block.is_user:
                events += self._user(lines, block, session, at, skipped)
            else:
                events += _reply(lines, block, session)
        if not events:
            return [Reading(skipped=(*skipped, "no_turns"))]
        facts = SessionFacts(agent=self._agent, session_id=session, cwd=self._cwd)
        head = (Facts(session=session, facts=facts), Title(session=session, text=title, rank=1))
        return [Reading(events=(*head, *events), skipped=tuple(skipped), session=session)]

    def _header(self, lines: TextLines, end: int) -> tuple[str, int | None, str]:
        """Return what stands before the first turn: the session's id, its time and its title."""
        session, at, title = self._session, None, ""
        for line in lines.lines[:end]:
            if match := SESSION.fullmatch(line):
                session, at = match[2], to_epoch_ms(match[3])
            elif line.startswith(_TITLE) and not title:
                title, date = _title_of(line)
                at = at or to_epoch_ms(date or title)
                title = "" if _STAMP.fullmatch(title) else title
        return session, at, title

    def _user(self, lines: TextLines, block: Block, session: str, at: int | None, skipped: list[str]) -> list[Event]:
        text = block.text(lines)
        words = read_text(text)
        if words.reason == "interrupted":
            skipped.append(words.reason)
            return [TurnEnd(session=session, status="interrupted")]
        is_silent = words.reason in ("empty", "slash_without_args")
        if words.reason:
            skipped.append(words.reason)
            if not is_silent:
                return []
        turn = UserTurn(
            session=session,
            place=block.place,
            text=words.text,
            kind=words.kind,
            at=at,
            time_quality=None if block.at else "session",
            # SpecStory repeats the ids of Claude Code's records, which are that agent's keys.
            key=f"{_CLAUDE}:{block.record_id}" if block.record_id and self._agent == _CLAUDE else "",
            record_ids=(block.record_id,) if block.record_id else (),
            cwd=self._cwd,
        )
        return [turn]


def _title_of(line: str) -> tuple[str, str]:
    """Return the title in a heading, and the date in parentheses behind it."""
    title = line.removeprefix(_TITLE).rstrip(" \t")
    dated = _TITLE_DATE.fullmatch(title, max(title.rfind("("), 0))
    return (title[: dated.start()].rstrip(" \t"), dated[1]) if dated else (title, "")


def _reply(lines: TextLines, block: Block, session: str) -> list[Event]:
    message_id = block.record_id or f"{session}:{block.place.byte_start}"
    events: list[Event] = []
    for piece in block.pieces:
        text = piece.text(lines)
        if piece.tool:
            events.append(ToolCall(session=session, place=piece.place, name=piece.tool, target=text, at=block.at))
        elif text:
            events.append(
                ReplyText(
                    session=session,
                    place=piece.place,
                    text=text,
                    message_id=message_id,
                    at=block.at,
                    model=block.model,
                )
            )
    return events
