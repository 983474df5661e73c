"""``browse``: search as you type in the terminal, and the way from a hit to its place in the transcript."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping

from palace_daemon import filters
from palace_daemon.cli import connect, options
from palace_daemon.errors import ConfigError, RequestError

LIMIT = 30
_PLUS_LINE = frozenset({"vi", "vim", "nvim", "view", "nano", "pico", "emacs", "emacsclient", "kak", "micro", "less"})
_GOTO = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})
_COLON = frozenset({"hx", "helix", "subl", "zed", "gedit"})


def register(commands: options.Commands) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "browse",
        "search as you type, with a preview",
        browse,
        examples="palace-daemon browse\npalace-daemon browse --project tidepool rate limits",
        detail="Enter opens the transcript, in VISUAL, EDITOR or less: at the hit's line, where it is known how that\n"
        "editor is told one. Starts the daemon if none runs. Needs the extra `browse`.",
    )
    parser.add_argument("query", nargs="*", metavar="QUERY", help="what to begin with")
    parser.add_argument("--project", default="", help="only this project: a directory, or its last name")
    parser.add_argument("--agent", default="", help="only this agent, such as claude-code or codex")
    parser.add_argument("--limit", type=options.limit, default=LIMIT, metavar="N", help=f"hits (default {LIMIT})")


def browse(arguments: argparse.Namespace) -> int:
    """Run until the user leaves.

    Raises:
        RequestError: There is no terminal.
        ConfigError: The library is not installed.
    """
    if arguments.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise RequestError("browse is for a terminal", hint="palace-daemon recall --json is for programs")
    try:
        from palace_daemon.cli import browse_screen  # noqa: PLC0415 - takes half a second to import
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in {"textual", "rich"}:
            raise
        raise ConfigError(
            "palace-daemon browse needs a library that is not installed", hint="pip install 'palace-daemon[browse]'"
        ) from exc
    connect.reach(arguments, model_wait_s=2.0).close()
    asked = {
        "project": filters.project(arguments.project),
        "agent": arguments.agent,
        "limit": arguments.limit,
    }
    browse_screen.Browser(arguments.data_dir, asked, " ".join(arguments.query)).run()
    return options.EXIT_OK


def command_for(
    path: str,
    line: int,
    environ: Mapping[str, str] = os.environ,
    which: Callable[[str], str | None] = shutil.which,
) -> list[str]:
    """Return the command line that shows a file at a line: ``VISUAL``, else ``EDITOR``, else ``less``.

    Args:
        path: Absolute.
        line: Counted from 1.
        environ: Holds the two variables.
        which: Finds a program.

    Raises:
        ConfigError: The variable cannot be read as a command line, or nothing is there to show it with.
    """
    chosen = environ.get("VISUAL") or environ.get("EDITOR") or ""
    try:
        words = shlex.split(chosen)
    except ValueError as exc:
        raise ConfigError(f"VISUAL or EDITOR is no command line: {chosen!r}") from exc
    if not words:
        if which("less") is None:
            raise ConfigError("there is no less here", hint="set EDITOR")
        words = ["less"]
    name = os.path.basename(words[0]).removesuffix(".exe")
    if name in _GOTO:
        return [*words, "--goto", f"{path}:{line}"]
    if name in _COLON:
        return [*words, f"{path}:{line}"]
    return [*words, f"+{line}", path] if name in _PLUS_LINE else [*words, path]
