"""Whose words a text in a Codex rollout is, and what a tool call is aimed at."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from palace_daemon.core.transcripts.reading.closed_blocks import without_blocks
from palace_daemon.core.transcripts.reading.words import as_text
from palace_daemon.model import Attachment

_CONTEXT_TAGS = (
    "environment_context|user_instructions|INSTRUCTIONS|skill|turn_aborted|subagent_notification|goal_context"
    "|codex_internal_context|user_shell_command|permissions instructions|collaboration_mode|multi_agent_mode"
    "|model_switch|personality_spec|token_budget|recommended_plugins"
)
"""Tags of the context that the program sends as if the user had said it."""

_CONTEXT = re.compile(rf"\s*<({_CONTEXT_TAGS})(?:\s[^>]*)?>.*?</\1>\s*", re.DOTALL)
_AGENTS_FILE = re.compile(r"\s*# AGENTS\.md instructions[^\n]*\n\s*<INSTRUCTIONS>.*</INSTRUCTIONS>\s*", re.DOTALL)
_EDITOR_CONTEXT = (
    "# Context from my IDE setup:",
    "# Files mentioned by the user:",
    "<response-annotations>",
)
_REQUEST = re.compile(r"^## My request for Codex:[ \t]*\n?", re.MULTILINE)
_CITATION, _CITATION_END = "<oai-mem-citation>", "</oai-mem-citation>"

NEW_TASK = "Message Type: NEW_TASK"
"""Marks the message by which an agent gives a sub-agent its task."""


def is_context(text: str) -> bool:
    """Return whether ``text`` is nothing but context that the program put in; closed blocks only."""
    if _AGENTS_FILE.fullmatch(text):
        return True
    end = 0
    while match := _CONTEXT.match(text, end):
        end = match.end()
    return end > 0 and (end == len(text) or _AGENTS_FILE.fullmatch(text, end) is not None)


def request_of(text: str) -> str:
    """Return what the person asked, without the context that an editor puts before it."""
    text = text.removeprefix("\ufeff")
    if text.lstrip().startswith(_EDITOR_CONTEXT):
        marks = list(_REQUEST.finditer(text))
        if marks:
            return text[marks[-1].end() :].strip("\n")
    return text


def reply_of(text: str) -> str:
    """Return a reply without memory citations, which one of its two stores carries and the other omits."""
    return without_blocks(text, _CITATION, _CITATION_END, has_blanks_before=True)[0]


def texts_of(content: Any) -> list[str]:
    """Return the texts of an item's content: a string, or a list of blocks."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    texts = [block.get("text") if isinstance(block, dict) else block for block in content]
    return [text for text in texts if isinstance(text, str)]


def images_of(payload: dict[str, Any]) -> tuple[Attachment, ...]:
    """Return the images of a user message: inline ones by their size, local ones by their path."""
    inline = payload.get("images")
    local = payload.get("local_images")
    sizes = [len(image) * 3 // 4 for image in inline if isinstance(image, str)] if isinstance(inline, list) else []
    names = [path for path in local if isinstance(path, str)] if isinstance(local, list) else []
    return (
        *(Attachment(kind="image", size_bytes=size) for size in sizes),
        *(Attachment(kind="image", name=name) for name in names),
    )


_TARGET_FIELDS = ("path", "file_path", "cmd", "command", "query", "url", "pattern")
_PATCHED_FILE = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_SHELL_RUN = 2  # ["bash", "-lc", "<command>"]


def tool_name(payload: dict[str, Any]) -> str:
    """Return the name of the tool that an item calls."""
    function = payload.get("function")
    named = as_text(function.get("name")) if isinstance(function, dict) else ""
    return as_text(payload.get("name")) or named or as_text(payload.get("type")).removesuffix("_call")


def tool_target(payload: dict[str, Any]) -> str:
    """Return the path, or the first line of the command, that an item's call is aimed at."""
    for source in (payload.get("arguments"), payload.get("input"), payload.get("action")):
        target = _target(source)
        if target:
            return target
    return ""


def _target(source: Any) -> str:
    if isinstance(source, str):
        patched = _PATCHED_FILE.search(source)
        if patched:
            return patched.group(1).strip()
        if not source.lstrip().startswith("{"):
            return _first_line(source)
        try:
            source = json.loads(source)
        except (ValueError, RecursionError):
            return ""
    if not isinstance(source, dict):
        return ""
    values = (source.get(name) for name in _TARGET_FIELDS)
    return next((line for value in values if (line := _command_line(value))), "")


def _command_line(value: Any) -> str:
    if isinstance(value, list):
        parts = [part for part in value if isinstance(part, str)]
        is_shell = len(parts) > _SHELL_RUN and parts[1] in ("-c", "-lc")
        value = parts[_SHELL_RUN] if is_shell else " ".join(parts)
    return _first_line(value) if isinstance(value, str) else ""


def _first_line(text: str) -> str:
    lines: Sequence[str] = text.strip().splitlines()
    return lines[0] if lines else ""
