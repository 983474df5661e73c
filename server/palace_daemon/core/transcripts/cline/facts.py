"""What the files around a Cline, Roo Code or Kilo Code task tell of it: its project, and the task that began it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from palace_daemon.core.documents import decode_prefix, decode_value
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.cline.history_words import without_environment, words_of
from palace_daemon.core.transcripts.reading.words import as_text
from palace_daemon.core.transcripts.vscode_chat.workspace import base_name, join, parent_of
from palace_daemon.core.turns import Facts, Reading
from palace_daemon.model import SessionFacts

_CWD_OPENING = re.compile(r"# Current Work(?:space|ing) Directory \(")
_CWD_OPENING_BYTES = re.compile(_CWD_OPENING.pattern.encode())
_CWD_CLOSING = ") Files"
_MAX_CWD = 4096
_MENTION = re.compile(r"(?:^|\s)(?:@\S|/\w)")
"""A file or a command that the program replaced by its content before the words went to the model."""

_HEAD_BYTES = 1 << 20
"""How much of the model's history is looked at for its first message."""

_HISTORY_NAME = "api_conversation_history.json"
_FIRST_MESSAGES = 8
"""Among how many messages the environment is looked for: the first request to the model carries it."""


class Task(Struct, frozen=True):
    """One task folder."""

    id: str
    cwd: str = ""
    parent_id: str = ""

    def reading(self, agent: str) -> Reading:
        """Return what is known of the session."""
        facts = SessionFacts(
            agent=agent,
            session_id=self.id,
            parent_session_id=self.parent_id,
            relation="subagent" if self.parent_id else "none",
            cwd=self.cwd,
            entrypoint="vscode",
            is_automated=bool(self.parent_id),
        )
        return Reading(events=(Facts(session=self.id, facts=facts),), session=self.id)


def read_task(path: str, beside: Beside, messages: list[dict[str, Any]]) -> Task:
    """Return the task of the file at ``path``; where nothing beside names its project, its own messages may."""
    folder = parent_of(path)
    task_id = base_name(folder)
    cwd = parent_id = ""
    for item in _history_items(folder, task_id, beside):
        paths = (item.get("workspace"), item.get("cwdOnTaskInitialization"), item.get("cwd"))
        cwd = cwd or next((text for value in paths if (text := as_text(value))), "")
        parent_id = parent_id or as_text(item.get("parentTaskId"))
    return Task(task_id, cwd or _told_cwd(messages) or _history_cwd(folder, beside), parent_id)


def _history_items(folder: str, task_id: str, beside: Beside) -> Iterator[dict[str, Any]]:
    """Yield what the lists of tasks say of this one, the nearest first."""
    near = _decoded(beside, join(folder, "history_item.json"))
    if isinstance(near, dict):
        yield near
        return
    tasks = parent_of(folder)
    for path in (join(tasks, "_index.json"), join(parent_of(tasks), "state", "taskHistory.json")):
        listed = _decoded(beside, path)
        entries = listed.get("entries") if isinstance(listed, dict) else listed
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, dict) and entry.get("id") == task_id:
                yield entry
                return


def _decoded(beside: Beside, path: str) -> Any:
    content = beside.read(path)
    return decode_value(content).value if content else None


def _told_cwd(messages: list[dict[str, Any]]) -> str:
    """Return the project from the environment that the program sends along with the first request."""
    for message in messages[:_FIRST_MESSAGES]:
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        texts = [message.get("text"), content, *(block.get("text") for block in blocks if isinstance(block, dict))]
        for text in texts:
            if isinstance(text, str) and (match := _CWD_OPENING.search(text)):
                return _directory(text[match.end() : match.end() + _MAX_CWD])
    return ""


def _history_cwd(folder: str, beside: Beside) -> str:
    history = beside.read(join(folder, _HISTORY_NAME)) or b""
    match = _CWD_OPENING_BYTES.search(history)
    return _directory(history[match.end() : match.end() + _MAX_CWD].decode("utf-8", "replace")) if match else ""


def _directory(text: str) -> str:
    """Return the path at the start of ``text``, which may itself hold parentheses; empty where none is closed."""
    line = text.partition("\n")[0]
    path, closing, _ = line.partition(_CWD_CLOSING)
    return _unescaped(path) if closing else ""


def is_task(path: str, text: str, beside: Beside) -> bool:
    """Return whether ``text`` is what a person gave the task at ``path``; where no file beside tells, it is."""
    said = " ".join(text.split())
    folder = parent_of(path)
    told = [" ".join(as_text(item.get("task")).split()) for item in _history_items(folder, base_name(folder), beside)]
    told = [task for task in told if task]
    if not told or not any(said in task or task in said for task in told):
        told += [" ".join(task.split()) for task in _history_task(folder, beside)]
    fits = any(said in task or task in said for task in told if task)
    return fits or not told or _MENTION.search(text) is not None


def _history_task(folder: str, beside: Beside) -> list[str]:
    """Return what the person said in the first message of the model's history."""
    messages = decode_prefix((beside.read(join(folder, _HISTORY_NAME)) or b"")[:_HEAD_BYTES])
    first = messages[0] if isinstance(messages, list) and messages else None
    if not isinstance(first, dict) or first.get("role") != "user":
        return []
    content = first.get("content")
    blocks = content if isinstance(content, list) else [{"text": content}]
    texts = [without_environment(as_text(block.get("text"))) for block in blocks if isinstance(block, dict)]
    return [words.text for text in texts for words in words_of(text) if words.text.strip()]


def _unescaped(path: str) -> str:
    """Return a path that may stand inside a JSON text inside a JSON text."""
    return path.replace("\\\\", "\\")
