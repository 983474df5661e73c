"""Which conversation and which directory a Cursor transcript belongs to, told by where it lies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from palace_daemon.core.documents import decode_value
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.reading.words import as_text, path_parts
from palace_daemon.core.turns import Facts
from palace_daemon.model import SessionFacts

AGENT = "cursor"
TRANSCRIPTS = "agent-transcripts"
_SUBAGENTS = "subagents"
_TRUST_FILE = ".workspace-trusted"
_NO_WORD = re.compile(r"[^A-Za-z0-9]+")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]")
_MAX_PATH = 4096


class CursorPlace(Struct, frozen=True):
    """A transcript's file: ``<project>/agent-transcripts/<id>/<id>.jsonl``, ``…/<id>.txt``, or below ``subagents``."""

    path: str

    @property
    def is_subagent(self) -> bool:
        """Whether an agent began this conversation."""
        return _SUBAGENTS in path_parts(self.path)[-3:-1]

    @property
    def parent(self) -> str:
        """The conversation whose agent began this one, or empty."""
        folders = path_parts(self.path)[:-1]
        if not self.is_subagent:
            return ""
        above = folders[: len(folders) - 1 - folders[::-1].index(_SUBAGENTS)]
        return above[-1] if above and above[-1] != TRANSCRIPTS else ""

    @property
    def session(self) -> str:
        """The full id of the conversation."""
        own = re.sub(r"\.(?:jsonl|txt|md)$", "", path_parts(self.path)[-1])
        return f"{self.parent}/{own}" if self.parent else own

    def told_directory(self, beside: Beside) -> str:
        """Return the directory that the editor noted when it was trusted, or empty."""
        end = self.path.rfind(TRANSCRIPTS)
        if not self._project_name or end < 0:
            return ""
        value = decode_value(beside.read(self.path[:end] + _TRUST_FILE) or b"null").value
        return as_text(value.get("workspacePath")) if isinstance(value, dict) else ""

    def shown_directory(self, paths: Iterable[Any]) -> str:
        """Return the directory that the project's folder is named after, if one of ``paths`` lies in it; or empty.

        The name has dashes for all separators, so that it cannot be turned back into a path; but a path that the
        agent worked on shows where the separators are.
        """
        wanted = _encoded(self._project_name)
        for path in paths:
            if not wanted or not isinstance(path, str) or len(path) > _MAX_PATH or not _ABSOLUTE.match(path):
                continue
            for end in (*(match.start() for match in re.finditer(r"[\\/]", path)), len(path)):
                if _encoded(path[:end]) == wanted:
                    return path[:end]
        return ""

    def facts(self, cwd: str, agent_version: str = "") -> Facts:
        """Return what the place says of the conversation."""
        told = SessionFacts(
            agent=AGENT,
            session_id=self.session,
            parent_session_id=self.parent,
            relation="subagent" if self.is_subagent else "none",
            cwd=cwd,
            agent_version=agent_version,
            is_automated=self.is_subagent,
        )
        return Facts(session=self.session, facts=told)

    @property
    def _project_name(self) -> str:
        """The name of the project's folder."""
        folders = path_parts(self.path)[:-1]
        if TRANSCRIPTS not in folders:
            return ""
        last = len(folders) - 1 - folders[::-1].index(TRANSCRIPTS)
        return folders[last - 1] if last else ""


def _encoded(path: str) -> str:
    return _NO_WORD.sub("-", path).strip("-").lower()
