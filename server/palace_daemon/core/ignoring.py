"""Which paths and projects a person wants left alone: the globs of ``watch.ignore_paths`` and ``ignore_projects``.

``*`` and ``?`` stay inside one name, ``**`` crosses directories, ``[ab]`` is one of these characters. A rule that
names a directory covers all below it. One that begins neither with a root nor with ``~`` holds at any depth. A project
rule without a separator is the project's last name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_ROOTED = re.compile(r"/|[A-Za-z]:/")
_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)
_BELOW = "(?:!?/.*)?"
"""All below a directory; ``!/`` divides a database or an archive from what it holds."""


class IgnoreRules:
    """Compiled rules. Immutable and thread-safe.

    Args:
        paths: Globs for sources.
        projects: Globs for projects.
        home: What ``~`` stands for.
    """

    def __init__(self, paths: Sequence[str] = (), projects: Sequence[str] = (), *, home: str = "") -> None:
        self.paths = tuple(rule.strip() for rule in paths if rule.strip())
        self.projects = tuple(rule.strip() for rule in projects if rule.strip())
        self._paths = [_compiled(_from_home(rule, home), _BELOW) for rule in self.paths]
        self._projects = [
            _compiled(_from_home(rule, home), _BELOW if "/" in _plain(rule) or rule == "~" else "")
            for rule in self.projects
        ]

    def __bool__(self) -> bool:
        return bool(self._paths or self._projects)

    def ignores_path(self, path: str) -> bool:
        """Return whether the source at ``path``, or a directory above it, is ruled out."""
        return any(rule.fullmatch(_plain(path)) for rule in self._paths) if self._paths else False

    def ignores_project(self, project: str) -> bool:
        """Return whether ``project`` (its root, or whatever names it) is ruled out; an unknown one is not."""
        if not project or not self._projects:
            return False
        return any(rule.fullmatch(_plain(project)) for rule in self._projects)


def _plain(text: str) -> str:
    return text.replace("\\", "/") if _WINDOWS.match(text) else text


def _from_home(rule: str, home: str) -> str:
    return home + rule[1:] if home and (rule == "~" or rule.startswith(("~/", "~\\"))) else rule


def _compiled(rule: str, below: str) -> re.Pattern[str]:
    is_windows = _WINDOWS.match(rule) is not None
    text = _plain(rule).rstrip("/")
    anywhere = "" if _ROOTED.match(text) or not text else "(?:.*/)?"
    body = "".join(map(_translated, _TOKEN.findall(text)))
    flags = re.DOTALL | (re.IGNORECASE if is_windows else 0)
    try:
        return re.compile(anywhere + body + below, flags)
    except re.error:  # such as [z-a], which then means itself
        return re.compile(anywhere + re.escape(text) + below, flags)


def _translated(token: str) -> str:
    match token:
        case "**/":
            return "(?:.*/)?"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
    if len(token) > 2 and token.startswith("["):
        inside = token[1:-1].replace("\\", r"\\").replace("[", r"\[")
        return f"[{'^' + inside[1:] if inside.startswith('!') else inside}]"
    return re.escape(token)
