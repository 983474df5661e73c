"""Files that a person put somewhere, such as exports: where they can lie, and the identity of their records."""

from __future__ import annotations

import re

from palace_daemon.core.transcripts.reading.words import path_parts

_PROGRAM_FOLDERS = frozenset(
    {"AppData", "Application Support", "workspaceStorage", "globalStorage", "node_modules", "site-packages"}
)
"""Folders in which programs keep their own files."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def is_loose(path: str, suffixes: tuple[str, ...]) -> bool:
    """Return whether the file at ``path`` may be one that a person put there, by its ending and its folders.

    No such file lies in a hidden folder or among a program's own files: all directories that are watched by default
    are of these kinds, so that none of their files is opened in search of an export.
    """
    *folders, name = path_parts(path)
    if not name.endswith(suffixes) or name.startswith("."):
        return False
    return not any(part in _PROGRAM_FOLDERS or (part.startswith(".") and part.strip(".")) for part in folders)


def record_key(agent: str, session: str, record_id: str) -> str:
    """Return an exchange's identity from its record: a UUID is unique everywhere, another id inside its session."""
    if not record_id:
        return ""
    return f"{agent}:{record_id}" if _UUID.fullmatch(record_id) else f"{agent}:{session}:{record_id}"
