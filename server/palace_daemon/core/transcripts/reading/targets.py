"""What a tool call is aimed at, for tools of any agent: the path, or the first line of the command."""

from __future__ import annotations

import json
from typing import Any

TARGET_FIELDS = (
    *("file_path", "filePath", "target_file", "targetFile", "relative_workspace_path", "relativeWorkspacePath"),
    *("notebook_path", "path", "target_directory", "command", "cmd", "pattern", "url", "query", "search_term"),
    *("absolute_path", "TargetFile", "AbsolutePath", "CommandLine"),
    *("description",),
)
"""Arguments that name it, the most telling first."""


def target_of(arguments: Any) -> str:
    """Return the target among a call's arguments: an object, its JSON text, or a bare string; empty for any other."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return _first_line(arguments)
    if not isinstance(arguments, dict):
        return ""
    values = (arguments.get(name) for name in TARGET_FIELDS)
    return next((line for value in values if (line := _first_line(value))), "")


def _first_line(value: Any) -> str:
    lines = value.strip().splitlines() if isinstance(value, str) else []
    return lines[0].strip() if lines else ""
