"""Whose words a message of a Gemini CLI session holds, without what the program put around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from palace_daemon.core.transcripts.gemini.records import GeminiRecord
from palace_daemon.core.transcripts.reading.context_blocks import end_of_words
from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.words import as_text
from palace_daemon.model import Attachment, UserKind

_CONTEXT = re.compile(r"\s*<(session_context|hook_context)>.*?</\1>\s*", re.DOTALL)
_TAGS = frozenset({"session_context", "hook_context"})
_FILES, _FILES_END = "--- Content from referenced files ---\n", "\n--- End of content ---"
"""The files that a prompt names with ``@``, put in where the program kept no display text."""
_COMMAND = re.compile(r"/[A-Za-z][\w:.-]*(?:\s|\Z)|\?\w*\s*\Z")
"""A slash command or a call for help; a path or a question that begins with such a sign is a prompt."""
_SHELL = re.compile(
    r"I ran the following shell command:\n```sh\n(.*?)\n```\n\nThis produced the following result:\n.*", re.DOTALL
)
_SUMMARY = re.compile(r"\s*<state_snapshot>.*</state_snapshot>\s*", re.DOTALL)
_NUDGE = "System: Please continue."
"""What the program sends when the model stopped in the middle."""
_EARLY_TARGETS = ("absolute_path", "dir_path")


class Prompt(NamedTuple):
    """The words of a user message. With a ``reason`` and no ``is_turn`` nobody typed them."""

    text: str = ""
    kind: UserKind = "prompt"
    attachments: tuple[Attachment, ...] = ()
    reason: str = ""
    is_turn: bool = True

    @property
    def is_summary(self) -> bool:
        """Whether the program sums up here what it took out of the history; the reply to it is made up, too."""
        return self.reason == "compression"


def prompt_of(record: GeminiRecord) -> Prompt:
    """Return what a person said in a user message."""
    content = list(_parts(record.content if record.content is not None else record.parts))
    raw = text_of(record)
    if _SUMMARY.fullmatch(raw):
        return Prompt(reason="compression", is_turn=False)
    attachments = tuple(one for part in content if (one := _attachment(part)))
    text = _without_context(text_in(record.display_content)) or _without_context(raw)
    if not text and not attachments:
        return Prompt(reason=_why_empty(raw, content), is_turn=False)
    if _COMMAND.match(text):
        return Prompt(kind="slash_args", reason="slash_command")
    if shell := _SHELL.fullmatch(text):
        return Prompt(shell.group(1), "shell")
    return Prompt(text, "automated" if text == _NUDGE else "prompt", attachments)


def text_of(record: GeminiRecord) -> str:
    """Return all the text of a message, without thoughts."""
    return text_in(record.content if record.content is not None else record.parts)


def text_in(content: Any) -> str:
    """Return the text of a content: a string, a part, or a list of both. Parts are pieces of one text."""
    return "".join(
        part if isinstance(part, str) else as_text(part.get("text"))
        for part in _parts(content)
        if isinstance(part, str) or not part.get("thought")
    )


def calls_of(record: GeminiRecord) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the target and the id of each tool call; two stores in one message tell of the same calls."""
    calls = [call for call in record.tool_calls if isinstance(call, dict)] if _is_list(record.tool_calls) else []
    if not calls:
        parts = [part for part in _parts(record.content) if isinstance(part, dict)]
        calls = [call for part in parts if isinstance(call := part.get("functionCall"), dict)]
    for index, call in enumerate(calls):
        call_id = as_text(call.get("id")) or f"{as_text(record.id)}#{index}"
        yield as_text(call.get("name")) or "tool", _target(call.get("args")), call_id


def _target(arguments: Any) -> str:
    if isinstance(arguments, dict):
        for name in _EARLY_TARGETS:
            if path := as_text(arguments.get(name)):
                return path
    return target_of(arguments) or (as_text(arguments.get("prompt")) if isinstance(arguments, dict) else "")


def _parts(content: Any) -> Iterator[str | dict[str, Any]]:
    for part in content if _is_list(content) else [content]:
        if isinstance(part, str | dict):
            yield part


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _without_context(text: str) -> str:
    """Return ``text`` without closed blocks of context at its ends, and without files that were put in."""
    text = text.removeprefix("\ufeff")
    start = 0
    while match := _CONTEXT.match(text, start):
        start = match.end()
    text = text[start : end_of_words(text, _TAGS, start)]
    begin, end = text.find(_FILES), text.rfind(_FILES_END)
    if 0 <= begin < end:
        text = text[:begin] + text[end + len(_FILES_END) :]
    return text.strip()


def _why_empty(raw: str, content: list[str | dict[str, Any]]) -> str:
    if raw.strip():
        return "injected_context"
    is_answer = any(isinstance(part, dict) and "functionResponse" in part for part in content)
    return "tool_result" if is_answer else "empty"


def _attachment(part: str | dict[str, Any]) -> Attachment | None:
    """Return the file in a part: inline by its size, or by its address."""
    if isinstance(part, str):
        return None
    held = next((part[name] for name in ("inlineData", "fileData") if isinstance(part.get(name), dict)), None)
    if held is None:
        return None
    return Attachment(
        kind="image" if as_text(held.get("mimeType")).startswith("image/") else "file",
        name=as_text(held.get("displayName")) or as_text(held.get("fileUri")),
        size_bytes=len(as_text(held.get("data"))) * 3 // 4,
    )
