"""What the parts of a VS Code chat response say: markdown, references inside a sentence, tool calls, questions."""

from __future__ import annotations

import re
from typing import Any

from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.words import as_text
from palace_daemon.core.transcripts.vscode_chat.workspace import base_name, path_of_uri
from palace_daemon.model import Attachment

TRUNCATED = re.compile(r"\[[^\[\]]{0,60}value truncated for persistence[^\]]*\]")
"""Stands in place of a text that was too long for the program to write."""

_TEXT_KINDS = frozenset({"", "markdownContent", "markdownVuln"})
_TOOL_KINDS = frozenset({"toolInvocation", "toolInvocationSerialized"})
_IMPLICIT = "vscode.implicit"
_LINKED_FILE = re.compile(r"\[[^\[\]]*\]\(([a-z-]+://[^)\s\[]+)\)")
_ATTACHED_KINDS = frozenset({"file", "image", "directory", "paste", "symbol", "element", "notebookOutput"})


def kind_of(part: Any) -> str:
    """Return a part's kind; empty for markdown, which has none."""
    return as_text(part.get("kind")) if isinstance(part, dict) else ""


def is_text(part: Any) -> bool:
    """Return whether a part is markdown."""
    return isinstance(part, str | dict) and kind_of(part) in _TEXT_KINDS


def is_tool(part: Any) -> bool:
    """Return whether a part is a tool call."""
    return kind_of(part) in _TOOL_KINDS


def markdown_of(value: Any) -> str:
    """Return the text of a markdown value: text, an object with ``value``, or one that holds such under ``content``."""
    for _ in range(3):
        if not isinstance(value, dict):
            break
        value = value.get("content") if "content" in value else value.get("value")
    return as_text(value)


def reference_name(part: dict[str, Any]) -> str:
    """Return the words that stand for a reference inside a sentence: a symbol's name, or a file's."""
    named = as_text(part.get("name"))
    reference = part.get("inlineReference")
    if named or not isinstance(reference, dict):
        return named
    uri = reference.get("uri") if "uri" in reference else reference
    return as_text(reference.get("name")) or base_name(path_of_uri(uri))


def tool_target(part: dict[str, Any]) -> str:
    """Return the command that a tool call runs, or the file that its announcement links to, or the announcement."""
    specific = part.get("toolSpecificData")
    if isinstance(specific, dict):
        command = specific.get("commandLine")
        if isinstance(command, dict):
            command = command.get("userEdited") or command.get("toolEdited") or command.get("original")
        if target := target_of({"command": command or specific.get("command")}):
            return target
    message = markdown_of(part.get("invocationMessage"))
    linked = _LINKED_FILE.search(message)
    return (path_of_uri(linked.group(1)) if linked else "") or target_of(message)


def attachments_of(request: dict[str, Any]) -> tuple[Attachment, ...]:
    """Return what the person attached to a request; what the editor put in by itself is left out."""
    data = request.get("variableData")
    variables = data.get("variables") if isinstance(data, dict) else None
    attached = []
    for variable in variables if isinstance(variables, list) else []:
        if not isinstance(variable, dict) or as_text(variable.get("id")).startswith(_IMPLICIT):
            continue
        kind = kind_of(variable)
        if kind in _ATTACHED_KINDS:
            name = path_of_uri(variable.get("value")) or as_text(variable.get("name"))
            attached.append(Attachment(kind="image" if kind == "image" else _file_kind(kind), name=name))
    return tuple(attached)


def _file_kind(kind: str) -> Any:
    return "file" if kind in ("file", "directory") else "selection"


def question_and_answer(part: dict[str, Any]) -> tuple[str, str]:
    """Return the questions that a carousel put to the person, and the answers; empty where there are none."""
    questions = [item for item in part.get("questions") or () if isinstance(item, dict)]
    answers = part.get("data")
    asked = [markdown_of(item.get("message")) or as_text(item.get("title")) for item in questions]
    told = []
    for item, text in zip(questions, asked, strict=True):
        answer = _answer(answers.get(as_text(item.get("id")))) if isinstance(answers, dict) else ""
        if answer:
            told.append(answer if len(questions) == 1 else f"{as_text(item.get('title')) or text}: {answer}")
    return "\n\n".join(text for text in asked if text.strip()), "\n".join(told)


def _answer(value: Any) -> str:
    if not isinstance(value, dict):
        return as_text(value)
    chosen = value.get("selectedValues")
    words = [item for item in chosen if isinstance(item, str)] if isinstance(chosen, list) else []
    words += [as_text(value.get("selectedValue")), as_text(value.get("freeformValue"))]
    return ", ".join(word for word in words if word.strip())


def plan_and_feedback(part: dict[str, Any]) -> tuple[str, str, bool]:
    """Return a plan put to review, the person's feedback to it, and whether they rejected it."""
    data = part.get("data")
    feedback = as_text(data.get("feedback")) if isinstance(data, dict) else ""
    plan = markdown_of(part.get("content")) or as_text(part.get("title"))
    return plan, feedback, isinstance(data, dict) and data.get("rejected") is True
