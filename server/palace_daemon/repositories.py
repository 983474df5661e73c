"""The repository that a directory lies in, which is what a session was about.

Worktrees of one repository count as one, a submodule stays its own. :func:`find_project` is the logic, on paths alone;
:class:`DiskFiles` gives it the file system. Standard library only: hooks of agents must start at once.
"""

from __future__ import annotations

import ntpath
import os
import posixpath
import re
from pathlib import Path
from typing import Protocol

_GIT_FILE_BYTES = 64 * 1024
"""Most bytes read of a file of git's; a ``gitdir`` line has a few hundred, a configuration a few thousand."""

_WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_AGENT_WORKTREES = re.compile(r"[\\/]\.claude[\\/]worktrees(?:[\\/].*)?$")
"""Where Claude Code puts its worktrees: ``<repository>/.claude/worktrees/<name>``. Recognised by its name, since such
worktrees are deleted after use while their transcripts stay."""


class Files(Protocol):
    """What :func:`find_project` asks of the file system. Nothing here raises."""

    def real(self, path: str) -> str | None:
        """Return ``path`` without symbolic links if it is a directory, else None."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether something stands at ``path``."""
        ...

    def read(self, path: str) -> str | None:
        """Return the text of the regular file at ``path``, or None."""
        ...


def find_project(cwd: str, files: Files) -> str:
    """Return the project of a working directory.

    In this order: the main repository, if ``cwd`` lies in one of its worktrees; the nearest directory at or above
    ``cwd`` that holds a repository; ``cwd`` itself. A ``cwd`` that does not exist here (another machine's, or deleted)
    is itself, as :func:`normalise_cwd` writes it, unless its name alone tells that it was an agent's worktree.

    Args:
        cwd: As the transcript gives it; may be of another operating system. Empty gives empty.
        files: The file system.
    """
    written = normalise_cwd(cwd)
    if not written:
        return ""
    outside = _AGENT_WORKTREES.sub("", written)
    if outside != written:
        written = outside or written[:1]
    real = files.real(written)
    if real is None:
        return written
    return next((root for root in (repository_at(at, files) for at in _upwards(real)) if root), real)


def normalise_cwd(cwd: str) -> str:
    r"""Return ``cwd`` so that equal directories compare equal: no trailing or doubled separators, no ``.`` parts.

    Windows paths get backslashes and an upper-case drive (``c:/work/`` becomes ``C:\work``). Nothing is looked up.
    """
    cwd = cwd.strip()
    if _WINDOWS_PATH.match(cwd):
        path = ntpath.normpath(cwd)
        return path[:1].upper() + path[1:] if path[1:2] == ":" else path
    if not cwd:
        return ""
    path = posixpath.normpath(cwd)
    return "/" + path.lstrip("/") if path.startswith("//") else path  # POSIX keeps two leading slashes apart


def repository_at(directory: str, files: Files) -> str | None:
    """Return the main root of the repository whose working tree begins at ``directory``; None if none does.

    A ``.git`` directory counts if it has a ``HEAD``, as git itself demands, so that a stray one makes no project.
    """
    dot_git = os.path.join(directory, ".git")
    pointer = files.read(dot_git)
    if pointer is None:
        return directory if files.exists(os.path.join(dot_git, "HEAD")) else None
    git_dir = parse_pointer(pointer)
    if git_dir is None:
        return None
    git_dir = _joined(directory, git_dir)
    common = files.read(os.path.join(git_dir, "commondir"))
    if common is None:  # a submodule, or a repository whose data lies elsewhere: its own project
        return directory
    return _root_of(_joined(git_dir, common.strip()), files)


def parse_pointer(text: str) -> str | None:
    """Return the path in a ``.git`` file (``gitdir: PATH``), or None if it is no such file."""
    head, colon, path = text.partition(":")
    path = path.strip("\r\n").strip()
    return path if colon and head == "gitdir" and path else None


def _root_of(common_dir: str, files: Files) -> str:
    """Return the main working tree of the repository whose data lies in ``common_dir``.

    ``repo/.git`` belongs to ``repo``, and so does a bare ``repo/.bare``; ``repo.git`` stands for itself. Where git
    wrote down another working tree (submodules have one), that counts.
    """
    configured = _configured_worktree(files.read(os.path.join(common_dir, "config")) or "")
    if configured:
        return _joined(common_dir, configured)
    parent, name = os.path.split(common_dir)
    return parent if name.startswith(".") else common_dir


def _configured_worktree(config: str) -> str:
    """Return ``core.worktree`` of a git configuration; empty if it is not set."""
    section = ""
    for line in config.splitlines():
        text = line.strip()
        if text.startswith("["):
            section = text.strip("[]").strip().lower()
        elif section == "core" and (found := re.match(r"worktree\s*=\s*(.+)", text, re.IGNORECASE)):
            return found[1].strip().strip('"')
    return ""


def _joined(base: str, path: str) -> str:
    return os.path.normpath(os.path.join(base, path))


def _upwards(directory: str) -> list[str]:
    levels = [directory]
    while (parent := os.path.dirname(levels[-1])) != levels[-1]:
        levels.append(parent)
    return levels


class DiskFiles:
    """The real file system; nothing here raises."""

    def real(self, path: str) -> str | None:
        """Return ``path`` without symbolic links if it is a directory, else None."""
        try:
            resolved = os.path.realpath(path)
            return resolved if os.path.isabs(path) and os.path.isdir(resolved) else None
        except (OSError, ValueError):
            return None

    def exists(self, path: str) -> bool:
        """Return whether something stands at ``path``."""
        return os.path.lexists(path)

    def read(self, path: str) -> str | None:
        """Return the text of the regular file at ``path``, or None."""
        try:
            if not os.path.isfile(path):  # never opens a FIFO
                return None
            with Path(path).open("rb") as file:
                return file.read(_GIT_FILE_BYTES).decode("utf-8", errors="surrogateescape")
        except (OSError, ValueError):
            return None
