"""What a person asked in a Cursor message, without the context that the editor puts around it, and what Cursor replied.

Shared by all forms of Cursor's transcripts: the same words make the same identity, whatever file tells of them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from palace_daemon.core.transcripts.reading.closed_blocks import closed_blocks, skip_blanks
from palace_daemon.core.transcripts.reading.context_blocks import end_of_text, end_of_words
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms, zone_minutes
from palace_daemon.model import Attachment

_CONTEXT_TAGS = (
    "timestamp|user_info|system_reminder|system_notification|mcp_meta_tools|mcp_instructions|mcp_file_system"
    "|image_files|attached_files|open_and_recently_viewed_files|git_status|project_layout|linter_errors|external_links"
    "|rules|user_rules|cursor_rules_context|always_applied_workspace_rules|agent_requestable_workspace_rules"
    "|agent_skills|available_skills|manually_attached_skills|additional_data|current_file|terminal_files_information"
    "|agent_transcripts|cursor_commands"
)
"""Tags of the context that stands before or after the words."""

_TAGS = frozenset(_CONTEXT_TAGS.split("|"))

_BLOCK = rf"<({_CONTEXT_TAGS})(?:\s[^>]*)?>"
_COMMANDS = r"(?:<cursor_commands>\s*)?(?:--- Cursor Command:.*?\n--- End Command ---\s*)+(?:</cursor_commands>)?"
_CONTEXT = re.compile(rf"\s*(?:{_COMMANDS}|{_BLOCK}.*?</\1>|\[Image\](?=\s|\Z))\s*", re.DOTALL)
_OPEN, _CLOSE = "<user_query>", "</user_query>"
_OPEN_AT_LINE = re.compile(r"^[ \t]*<user_query>", re.MULTILINE)
_NEXT_QUERY = re.compile(r"</user_query>\s*<user_query>")

_MARKS = re.compile(rf"\s*(?:{_COMMANDS}|\[Image\](?=\s|\Z))\s*", re.DOTALL)
"""What only the program writes, in whatever text it stands."""

_TAG = re.compile(rf"<({_CONTEXT_TAGS})[\s>]")
_COMMON_TAGS = frozenset({"rules"})
"""Tags that a person may well write, so that nothing else need stand in a prompt."""

_IMAGES, _IMAGES_END = "<image_files>", "</image_files>"
_LISTED = re.compile(r"\s*\d+\.\s+(\S.*)")
_STAMP = re.compile(r"<timestamp>([^<]{1,80})</timestamp>")
_WRITTEN_STAMP = re.compile(
    r"(?:[A-Za-z]+,\s+)?([A-Za-z]{3})[a-z]*\s+(\d{1,2}),\s+(\d{4}),\s+(\d{1,2}):(\d{2})\s*([AP]M)?\s*"
    r"\(UTC(?:([+-])(\d{1,2})(?::(\d{2}))?)?\)"
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NOON = 12

_HIDDEN = "[REDACTED]"
"""Stands in a reply for reasoning that is not shown."""
_THINK, _THINK_END = "<think>", "</think>"


class Query(NamedTuple):
    """The words of a user message. Without ``is_turn`` there are none, for the ``reason``."""

    text: str = ""
    at: int | None = None
    zone: int | None = None
    """Minutes east of UTC where the person is, if the time says it."""
    attachments: tuple[Attachment, ...] = ()
    reason: str = ""
    is_turn: bool = True
    has_context: bool = False
    """Whether something was cut from around the words."""

    @property
    def skipped(self) -> tuple[str, ...]:
        """Why something of the message is no words, for the counts."""
        reasons = (self.reason, "injected_context" if self.has_context else "")
        return tuple(reason for reason in reasons if reason)


def read_query(text: str) -> Query:
    """Return what a person asked: what stands in the query tag, or where there is none all of it.

    Context is told from words only beside such a tag, and where the message is nothing else.
    """
    if not text.strip():
        return Query(reason="empty", is_turn=False)
    text = text.removeprefix("\ufeff")
    rest, context = _without_context(text)
    opening = _OPEN_AT_LINE.search(rest) if _CLOSE in rest or rest.lstrip().startswith(_OPEN) else None
    if opening:
        context += rest[: opening.start()]
        inside = rest[opening.end() :]
        queries = _NEXT_QUERY.split(inside[: inside.rindex(_CLOSE)] if _CLOSE in inside else inside)
        asked = "\n\n".join(query.strip() for query in queries if query.strip())
        context += inside.rpartition(_CLOSE)[2] if _CLOSE in inside else ""
        has_context = bool(context.strip())
    elif rest.strip() or _COMMON_TAGS.issuperset(_TAG.findall(context)):
        start = _end_of_run(_MARKS, text)
        asked, context = text[start:].strip(), text[:start]
        has_context = bool(context.strip())
    else:
        asked, has_context = "", True
    attachments = _images_in(context)
    if asked or attachments:
        stamp = _stamp_in(context)
        return Query(asked, to_epoch_ms(stamp), zone_minutes(stamp), attachments, has_context=has_context)
    is_notice = "<system_notification" in text
    return Query(reason="empty" if opening else "notification" if is_notice else "injected_context", is_turn=False)


def reply_of(text: str) -> str:
    """Return a reply without the reasoning at its very start and without the mark that stands for it at its end."""
    start = 0
    while text.startswith(_THINK, begin := skip_blanks(text, start)) and (end := text.find(_THINK_END, begin)) >= 0:
        start = skip_blanks(text, end + len(_THINK_END))
    text = text[start:]
    end = end_of_text(text, 0, len(text))
    is_hidden = False
    while text.endswith(_HIDDEN, 0, end):
        line = text.rfind("\n", 0, end) + 1
        if text[line : end - len(_HIDDEN)].strip():
            break
        end = end_of_text(text, 0, line)
        is_hidden = True
    return text[:end] if is_hidden else text


def _without_context(text: str) -> tuple[str, str]:
    """Return ``text`` without closed blocks of context at its ends, and what was taken away."""
    start = _end_of_run(_CONTEXT, text)
    end = end_of_words(text, _TAGS, start)
    return text[start:end], text[:start] + text[end:]


def _end_of_run(pattern: re.Pattern[str], text: str) -> int:
    """Return where a run of matches from the start of ``text`` ends."""
    end = 0
    while match := pattern.match(text, end):
        end = match.end()
    return end


def _images_in(context: str) -> tuple[Attachment, ...]:
    """Return the images that are listed in the context."""
    blocks = closed_blocks(context, _IMAGES, _IMAGES_END)
    lines = (
        line for begin, end in blocks for line in context[begin + len(_IMAGES) : end - len(_IMAGES_END)].split("\n")
    )
    return tuple(Attachment(kind="image", name=match[1].rstrip()) for line in lines if (match := _LISTED.match(line)))


def _stamp_in(context: str) -> str | None:
    """Return the ISO time at which the words were sent, to the minute; without an offset it cannot be known."""
    told = _STAMP.search(context)
    if told is None:
        return None
    written = _WRITTEN_STAMP.fullmatch(told.group(1).strip())
    if written is None:
        return told.group(1).strip()
    month, day, year, hour, minute, half, sign, offset, offset_minutes = written.groups()
    if month.lower() not in _MONTHS:
        return None
    hours = int(hour) % _NOON + (_NOON if half == "PM" else 0) if half else int(hour)
    date = f"{year}-{_MONTHS.index(month.lower()) + 1:02}-{int(day):02}"
    zone = f"{sign or '+'}{int(offset or 0):02}:{offset_minutes or '00'}"
    return f"{date}T{hours:02}:{minute}:00{zone}"
