"""Cline, Roo Code and Kilo Code: the task folders of the three VS Code extensions that share one code base.

A task folder holds what the person saw (``ui_messages.json``, earlier ``claude_messages.json``) and what the model got
(``api_conversation_history.json``). Invariant: the latter is read only where the former is missing, or holds no words
of a person: it loses its beginning when it is condensed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from palace_daemon.core.documents import Places, decode_prefix, decode_value
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.cline.facts import is_task, read_task
from palace_daemon.core.transcripts.cline.history import HistoryReader
from palace_daemon.core.transcripts.cline.ui import UiReader, first_text, has_words
from palace_daemon.core.transcripts.document_parser import DocumentParser
from palace_daemon.core.transcripts.reading.homes import below_home
from palace_daemon.core.transcripts.reading.words import as_text, path_parts
from palace_daemon.core.transcripts.vscode_chat.dirs import storage_dirs
from palace_daemon.core.transcripts.vscode_chat.workspace import join, parent_of
from palace_daemon.core.turns import Reading

CLINE, ROO, KILO = "cline", "roo-code", "kilo-code"

_UI_NAME, _OLD_UI_NAME, _HISTORY_NAME = "ui_messages.json", "claude_messages.json", "api_conversation_history.json"
_NAMES = (_UI_NAME, _OLD_UI_NAME, _HISTORY_NAME)

_EXTENSIONS = {CLINE: "saoudrizwan.claude-dev", ROO: "rooveterinaryinc.roo-cline", KILO: "kilocode.kilo-code"}

_OWNERS = ((KILO, re.compile(r"kilo-?code")), (ROO, re.compile(r"(?:^|[^a-z])roo(?:$|[^a-z]|code|cline)")))
"""What in a folder's name tells whose task it holds; all others are Cline's."""

_ROO_MARKS = re.compile(
    rb'"say": ?"(?:codebase_search_result|condense_context|checkpoint_saved|subtask_result|user_edit_todos)"'
    rb'|"(?:contextCondense|isProtected)":|\\"tool\\": ?\\"(?:newTask|switchMode|updateTodoList|codebaseSearch)\\"'
    rb'|"type": ?"reasoning"|\\"apiProtocol\\":'
)
"""What only Roo Code writes, for tasks that were moved to a place that does not tell."""

_ROLES = ("user", "assistant")
_HISTORY_MARKS = ("<task>", "<environment_details>", "<user_message>", "<feedback>")


def owner_of(path: str) -> str:
    """Return whose task the folders of ``path`` say it is; empty where they do not tell."""
    folders = [folder.lower() for folder in path_parts(path)[:-1]]
    if _EXTENSIONS[CLINE] in folders or ".cline" in folders:
        return CLINE
    return next((agent for agent, mark in _OWNERS if any(mark.search(folder) for folder in folders)), "")


class TaskFormat:
    """Task folders of one of the extensions. Stateless and thread-safe.

    Args:
        agent: Whose.
        is_moved: Whether it takes the tasks in places that do not tell, by what their content shows.
    """

    version = 1
    shape: Shape = "document"
    suffixes: tuple[str, ...] = (".json",)
    is_secondary = False

    def __init__(self, agent: str, *, is_moved: bool = False) -> None:
        self.name = f"{agent}-task-moved" if is_moved else f"{agent}-task"
        self.agent = agent
        self._is_moved = is_moved

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the extension's task directory in each editor; of Cline that of its command line, too."""
        if self._is_moved:
            return ()
        dirs = storage_dirs(environ, home, platform, "globalStorage", _EXTENSIONS[self.agent], "tasks")
        if self.agent != CLINE:
            return dirs
        return (*dirs, below_home(environ, home, platform, ".cline", "data", "tasks"))

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` is a conversation in a task folder of this extension."""
        if path_parts(path)[-1] not in _NAMES:
            return False
        owner = owner_of(path)
        return owner == "" if self._is_moved else (owner or CLINE) == self.agent

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one; the three extensions write alike."""
        value = decode_prefix(head)
        if not isinstance(value, list) or not value or not isinstance(value[0], dict):
            return False
        if self._is_moved and not _ROO_MARKS.search(head):
            return False
        return _is_ui(value) or _is_history(value)

    def sniff_in_place(self, path: str, head: bytes) -> bool:
        """Return whether a file in the extension's own folder is one by its name and its first message."""
        value = decode_prefix(head)
        if path_parts(path)[-1] != _HISTORY_NAME or owner_of(path) != self.agent or self._is_moved:
            return False
        first = value[0] if isinstance(value, list) and value else None
        return isinstance(first, dict) and first.get("role") in _ROLES and isinstance(first.get("content"), str | list)

    def open(
        self, path: str, redact: Redactor, state: bytes | None = None, beside: Beside = NOTHING_BESIDE
    ) -> DocumentParser:
        """Return a parser for the conversation at ``path``; files around it name the project and the parent task."""
        return DocumentParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            reader=_TaskReader(self.agent, path, beside),
            redact=redact,
            state=state,
        )


def _is_ui(messages: list[Any]) -> bool:
    first = messages[0]
    kind = first.get("type")
    return kind in ("say", "ask") and isinstance(first.get(kind, ""), str) and "ts" in first


def _is_history(messages: list[Any]) -> bool:
    first = messages[0]
    if first.get("role") not in _ROLES or not {"content"} <= first.keys():
        return False
    texts = [first["content"]] if isinstance(first["content"], str) else _block_texts(first["content"])
    is_marked = any(mark in text for text in texts for mark in _HISTORY_MARKS)
    return is_marked or (isinstance(first.get("ts"), int) and isinstance(first["content"], list))


def _block_texts(content: Any) -> list[str]:
    blocks = content if isinstance(content, list) else []
    return [as_text(block.get("text")) for block in blocks if isinstance(block, dict)]


class _TaskReader:
    """A :class:`~palace_daemon.core.transcripts.document_parser.DocumentReader` of one file of a task folder."""

    def __init__(self, agent: str, path: str, beside: Beside) -> None:
        self._agent, self._path, self._beside = agent, path, beside

    def read(self, value: Any, places: Places) -> list[Reading]:
        """Return what the file tells."""
        messages = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
        if not messages:
            return [Reading(skipped=("unknown_shape",))]
        odd = [Reading(skipped=("unknown_shape",)) for _ in range(len(value) - len(messages))]
        better = self._better()
        if better:
            return [Reading(skipped=(f"told_by:{better.removesuffix('.json')}",))]
        task = read_task(self._path, self._beside, messages)
        is_ui = any(message.get("type") in ("say", "ask") for message in messages)
        if not is_ui:
            return [task.reading(self._agent), *HistoryReader(self._agent, task).read(messages, places), *odd]
        first = first_text(messages)
        reader = UiReader(self._agent, task, begins_with_task=first is None or is_task(self._path, first, self._beside))
        return [task.reading(self._agent), *reader.read(messages, places), *odd]

    def _better(self) -> str:
        """Return the file beside that tells the task better."""
        name = path_parts(self._path)[-1]
        names = self._beside.names(parent_of(self._path)) if name in _NAMES else ()
        others = [other for other in _NAMES[: _NAMES.index(name)] if other in names] if names else []
        return next((other for other in others if name != _HISTORY_NAME or self._tells_words(other)), "")

    def _tells_words(self, name: str) -> bool:
        """Return whether the file beside can be read and holds words of a person; one too large to look into does."""
        path = join(parent_of(self._path), name)
        content = self._beside.read(path)
        if content is None:
            return True
        value = decode_value(content).value
        messages = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
        first = first_text(messages)
        return has_words(messages) or (first is not None and is_task(path, first, self._beside))


TASK_FORMATS = (TaskFormat(ROO, is_moved=True), TaskFormat(CLINE), TaskFormat(ROO), TaskFormat(KILO))
"""In the order in which a file is tried."""
