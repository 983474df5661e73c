"""VS Code chat sessions as whole documents: the store before 1.109, and what *Export Chat* writes.

Invariant: where a log of the same session lies beside, the document is an old copy and tells nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palace_daemon.core.documents import Places, decode_prefix
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.document_parser import DocumentParser
from palace_daemon.core.transcripts.reading.words import as_text, path_parts
from palace_daemon.core.transcripts.vscode_chat.dirs import storage_dirs
from palace_daemon.core.transcripts.vscode_chat.requests import (
    AGENT,
    Slot,
    is_undone,
    read_session,
    read_slots,
    session_id_of,
)
from palace_daemon.core.transcripts.vscode_chat.workspace import parent_of, workspace_folder
from palace_daemon.core.turns import Reading

CHAT_FOLDERS = ("chatSessions", "emptyWindowChatSessions", "transferredChatSessions")
"""Folders that hold sessions: of a workspace, of windows without a folder, and of those that moved between the two."""


def chat_dirs(environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
    """Return the directories of each editor below which chat sessions are written."""
    return tuple(
        directory
        for parts in (("workspaceStorage",), *(("globalStorage", name) for name in CHAT_FOLDERS[1:]))
        for directory in storage_dirs(environ, home, platform, *parts)
    )


def is_chat_file(path: str, suffixes: tuple[str, ...]) -> bool:
    """Return whether ``path`` lies right in a folder of chat sessions."""
    parts = path_parts(path)
    return parts[-1].endswith(suffixes) and len(parts) > 1 and parts[-2] in CHAT_FOLDERS


def stem_of(path: str) -> str:
    """Return the file's name without its ending: the session's id where the content has none."""
    return path_parts(path)[-1].rpartition(".")[0]


class VsCodeChatFormat:
    """``<session>.json`` of VS Code up to 1.108 and its forks. Stateless and thread-safe."""

    name = "vscode-chat-json"
    agent = AGENT
    version = 1
    shape: Shape = "document"
    suffixes: tuple[str, ...] = (".json",)
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the storage directories of each editor."""
        return chat_dirs(environ, home, platform)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` is a document in a folder of chat sessions."""
        return is_chat_file(path, self.suffixes)

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        value = decode_prefix(head)
        return _is_session(value) and ("version" in value or "sessionId" in value)

    def open(
        self, path: str, redact: Redactor, state: bytes | None = None, beside: Beside = NOTHING_BESIDE
    ) -> DocumentParser:
        """Return a parser for the session at ``path``; ``workspace.json`` two folders up names the project."""
        return DocumentParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            reader=_SessionReader(path, beside),
            redact=redact,
            state=state,
        )


class VsCodeChatExportFormat(VsCodeChatFormat):
    """What *Export Chat* writes: the requests of a session without its id. Stateless and thread-safe."""

    name = "vscode-chat-export"
    is_secondary = True

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:  # noqa: ARG002
        """Return nothing: a person chooses where it goes."""
        return ()

    def may_hold(self, path: str) -> bool:  # noqa: ARG002
        """Return False: no agent's directory holds exports."""
        return False

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        value = decode_prefix(head)
        return _is_session(value) and "version" not in value and "sessionId" not in value


def _is_session(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("requests"), list):
        return False
    if not isinstance(value.get("responderUsername"), str):
        return False
    requests = value["requests"]
    return not requests or (
        isinstance(requests[0], dict) and bool({"requestId", "message"} & requests[0].keys() or not requests[0])
    )


class _SessionReader:
    """A :class:`~palace_daemon.core.transcripts.document_parser.DocumentReader` of one session."""

    def __init__(self, path: str, beside: Beside) -> None:
        self._path, self._beside = path, beside

    def read(self, value: Any, places: Places) -> list[Reading]:
        """Return what the document tells."""
        if not isinstance(value, dict) or not isinstance(value.get("requests"), list):
            return [Reading(skipped=("unknown_shape",))]
        if f"{stem_of(self._path)}.jsonl" in self._beside.names(parent_of(self._path)):
            return [Reading(skipped=("told_by_log",))]
        session = session_id_of(value, stem_of(self._path))
        cwd = workspace_folder(self._path, self._beside)
        slots = [_slot(request, places) for request in value["requests"]]
        return [read_session(value, session, cwd), *read_slots(slots, session, cwd)]


def _slot(request: Any, places: Places) -> Slot:
    held = request if isinstance(request, dict) else {}
    first = places.of(as_text(held.get("requestId")))
    last = places.of(as_text(held.get("responseId")))
    return Slot(request, first, last, is_removed=is_undone(request))
