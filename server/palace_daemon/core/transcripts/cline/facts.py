"""What the files around a Cline, Roo Code or Kilo Code task tell of it: its project, and the task that began it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from palace_daemon.core.documents import decode_value
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.reading.words import as_text
from palace_daemon.core.transcripts.vscode_chat.workspace import base_name, join, parent_of
from palace_daemon.core.turns import Facts, Reading
from palace_daemon.model import SessionFacts

_CWD = re.compile(r"# Current Work(?:space|ing) Directory \(([^\n]+?)\) Files")
_CWD_BYTES = re.compile(_CWD.pattern.encode())
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
            if isinstance(text, str) and (match := _CWD.search(text)):
                return _unescaped(match.group(1))
    return ""


def _history_cwd(folder: str, beside: Beside) -> str:
    match = _CWD_BYTES.search(beside.read(join(folder, "api_conversation_history.json")) or b"")
    return _unescaped(match.group(1).decode("utf-8", "replace")) if match else ""


def _unescaped(path: str) -> str:
    """Return a path that may stand inside a JSON text inside a JSON text."""
    return path.replace("\\\\", "\\")
