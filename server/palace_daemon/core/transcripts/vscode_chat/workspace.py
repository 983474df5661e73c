"""Which folder a VS Code window had open: URIs to paths, and ``workspace.json`` beside the chats."""

from __future__ import annotations

import posixpath
import re
from typing import Any
from urllib.parse import unquote, urlsplit

from palace_daemon.core.documents import decode_value
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.reading.words import as_text

_DRIVE = re.compile(r"/[A-Za-z]:(?=/|$)")
_LAST_PART = re.compile(r"[^\\/]*$")
_WORKSPACE_SUFFIX = ".code-workspace"
_LOCAL_SCHEMES = ("", "file")


def workspace_folder(path: str, beside: Beside) -> str:
    """Return the project of the chat at ``path``: what ``workspace.json`` two folders up names; else empty.

    Of a workspace file with several folders it is the directory that holds the file.
    """
    folder = parent_of(parent_of(path))
    content = beside.read(join(folder, "workspace.json"))
    value = decode_value(content).value if content else None
    if not isinstance(value, dict):
        return ""
    opened = path_of_uri(value.get("folder"))
    if opened:
        return opened
    file = path_of_uri(value.get("workspace") or value.get("configuration"))
    # A workspace that was never saved lies in the editor's own storage.
    return parent_of(file) if file.endswith(_WORKSPACE_SUFFIX) else ""


def path_of_uri(uri: Any) -> str:
    """Return the path that a URI leads to, on the machine where it lies; empty for what is no path.

    Takes text (``file:///c%3A/x``, ``vscode-remote://ssh-remote%2Bhost/x``, or a bare path), or VS Code's object of
    ``scheme``, ``authority`` and ``path``.
    """
    if isinstance(uri, dict):
        return _path(as_text(uri.get("scheme")), as_text(uri.get("authority")), as_text(uri.get("path")))
    text = as_text(uri)
    if "://" not in text:
        return text
    try:
        parts = urlsplit(text)
    except ValueError:
        return ""
    return _path(parts.scheme, unquote(parts.netloc), unquote(parts.path))


def _path(scheme: str, authority: str, path: str) -> str:
    if scheme not in (*_LOCAL_SCHEMES, "vscode-remote", "vscode-userdata"):
        return ""
    is_local = scheme in _LOCAL_SCHEMES
    if _DRIVE.match(path):
        path = path[1:].replace("/", "\\")
    elif is_local and authority and authority != "localhost":
        path = f"\\\\{authority}{path}".replace("/", "\\")
    return path if len(path) < 2 else path.rstrip("/")


def base_name(path: str) -> str:
    """Return the last part of a path of any platform."""
    match = _LAST_PART.search(path)
    return match.group() if match else ""


def parent_of(path: str) -> str:
    """Return the directory that holds ``path``, spelled as it is; empty at the top."""
    return path[: len(path) - len(base_name(path))].rstrip("/\\")


def join(directory: str, *names: str) -> str:
    """Return the path of ``names`` below ``directory``, with the separator that it uses."""
    separator = "\\" if "\\" in directory and "/" not in directory else "/"
    return posixpath.join(directory, *names) if separator == "/" else separator.join((directory, *names))
