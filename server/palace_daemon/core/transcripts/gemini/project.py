"""Which directory and which session a Gemini CLI file belongs to, told by where it lies and what lies beside it."""

from __future__ import annotations

import hashlib
from typing import Any

from msgspec import Struct

from palace_daemon.core.documents import decode_value
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.reading.words import as_text, path_parts

CHATS = "chats"
_MAX_PATH = 4096
_SUBAGENT_DEPTH = 2


class Location(Struct, frozen=True):
    """A session's file: ``<tmp>/<project>/chats/<name>``, or one level deeper, below its parent's id."""

    path: str

    @property
    def stem(self) -> str:
        """The name of the file, the session's where its records do not name it."""
        return path_parts(self.path)[-1].split(".", 1)[0]

    @property
    def parent(self) -> str:
        """The folder between chats and the file: the session that this one is a sub-agent of; or empty."""
        return path_parts(self.path)[-2] if self._depth == _SUBAGENT_DEPTH else ""

    @property
    def _depth(self) -> int:
        """How many levels below the chats folder the file lies; 0 outside one."""
        folders = path_parts(self.path)[:-1]
        return next((depth for depth in (1, 2) if folders[-depth:][:1] == [CHATS]), 0)

    def directory(self, beside: Beside, project_hash: Any, directories: Any) -> str:
        """Return the directory that the session is about, or empty; nothing is guessed.

        It stands beside the chats, or in the list of all projects under the name of the folder. Older folders are
        named by the directory's hash: a directory of the list or of the session that has it is the one.
        """
        known: dict[str, str] = {}
        folder = ""
        if self._depth and len(path_parts(self.path)) > self._depth + 2:
            folder = path_parts(self.path)[-self._depth - 2]
            if told := _read_text(beside, self._above(self._depth + 1, ".project_root")):
                return told
            known = _projects(beside, self._above(self._depth + 3, "projects.json"))
        if named := next((path for path, name in known.items() if name == folder), ""):
            return named
        listed = [one for one in directories if isinstance(one, str)] if isinstance(directories, list) else []
        hashes = {as_text(project_hash), folder}
        return next((path for path in (*known, *listed) if _hash(path) in hashes), "")

    def _above(self, levels: int, name: str) -> str:
        """Return the path of ``name`` beside what lies ``levels`` levels above the file."""
        folder = self.path
        for _ in range(levels):
            folder = folder[: max(folder.rfind("/"), folder.rfind("\\"), 0)]
        return f"{folder}{self.path[len(folder)]}{name}"


def _read_text(beside: Beside, path: str) -> str:
    """Return the directory that the file at ``path`` consists of."""
    told = (beside.read(path) or b"").decode("utf-8", "replace").strip().removeprefix("\ufeff")
    return told if len(told) <= _MAX_PATH and "\n" not in told else ""


def _projects(beside: Beside, path: str) -> dict[str, str]:
    """Return directory to folder name."""
    value = decode_value(beside.read(path) or b"null").value
    projects = value.get("projects") if isinstance(value, dict) else None
    if not isinstance(projects, dict):
        return {}
    return {path: name for path, name in projects.items() if isinstance(name, str)}


def _hash(path: str) -> str:
    return hashlib.sha256(path.encode("utf-8", "replace")).hexdigest()
