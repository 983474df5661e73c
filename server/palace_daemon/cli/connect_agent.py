"""``connect``: write and remove the settings by which an agent finds Palace."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from palace_daemon.cli import connect as connection
from palace_daemon.cli import options, show
from palace_daemon.errors import ConfigError

if TYPE_CHECKING:
    from palace_daemon.agents import settings

AGENTS = ("claude", "codex", "cursor", "vscode", "gemini", "opencode")
"""Equal the agents of :mod:`palace_daemon.agents.settings`; a test compares them."""

_STATE_WORDS = {
    "connected": "connected",
    "differs": "connected otherwise than this installation would do it",
    "absent": "not connected",
    "unclear": "unclear",
}


def register(commands: options.Commands) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "connect",
        "set up an agent to use Palace, or undo it",
        connect,
        examples="palace-daemon connect claude --dry-run\npalace-daemon connect codex\n"
        "palace-daemon connect cursor --scope project\npalace-daemon connect claude --remove\n"
        "palace-daemon connect --list",
        detail="Writes the MCP server (the agent can ask), and for\n"
        "claude, codex and cursor the hooks (the agent is told). Comments and other entries stay as they are;\n"
        "a copy of each file as it was is kept beside it. --remove takes out what connect wrote.",
    )
    parser.add_argument("agent", nargs="?", choices=AGENTS, metavar="AGENT", help=", ".join(AGENTS))
    parser.add_argument("--list", action="store_true", help="say which agents are here, and which are connected")
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    parser.add_argument("--remove", action="store_true", help="take the settings out again")
    parser.add_argument(
        "--scope", choices=("user", "project"), default="user", help="for all projects, or for the one you are in"
    )
    parser.add_argument("--no-hooks", action="store_true", help="the MCP server only")


def connect(arguments: argparse.Namespace) -> int:
    """Change the settings of one agent; exit code 0 also where nothing was to be changed."""
    from palace_daemon.agents import settings, settings_files  # noqa: PLC0415

    # An agent runs it from directories of its own.
    data_dir = os.path.abspath(os.path.expanduser(arguments.data_dir)) if arguments.data_dir else None
    command = settings.Command(settings.own_command(sys.argv[0]), data_dir)
    if arguments.list:
        return _list(arguments, command)
    if arguments.agent is None:
        raise ConfigError("connect needs an agent", hint=f"one of {', '.join(AGENTS)}; or --list")
    files = settings.files_of(
        arguments.agent, scope=arguments.scope, cwd=os.getcwd(), command=command, with_hooks=not arguments.no_hooks
    )
    # All are worked out before the first is written: a file that cannot be read or written leaves the others alone.
    changes = [settings_files.planned(file, is_removal=arguments.remove) for file in files]
    for change in changes:
        change.check()
    for change in changes:
        if not arguments.dry_run:
            change.write()
    if arguments.json:
        advice = [] if arguments.remove else settings.advice(arguments.agent, arguments.scope)
        show.print_json({"files": [change.as_json() for change in changes], "advice": advice})
        return options.EXIT_OK
    for change in changes:
        print(f"{change.verb(is_dry_run=arguments.dry_run)} {show.tilde(change.path)}")
        if arguments.dry_run:
            print(change.diff(), end="")
    if not (arguments.remove or arguments.dry_run):
        for line in settings.advice(arguments.agent, arguments.scope):
            connection.note(line)
    return options.EXIT_OK


def _list(arguments: argparse.Namespace, command: settings.Command) -> int:
    """Print each agent, whether it is here, and how far it is connected."""
    from palace_daemon.agents import settings_files  # noqa: PLC0415

    listed = [
        settings_files.connection_of(agent, scope=arguments.scope, cwd=os.getcwd(), command=command) for agent in AGENTS
    ]
    if arguments.json:
        show.print_json({"agents": [one.as_json() for one in listed]})
        return options.EXIT_OK
    for one in listed:
        here = "" if one.is_found else ", not found on this machine"
        reason = f": {one.reason}" if one.reason else ""
        print(f"{one.agent:<9} {_STATE_WORDS[one.state]}{here}{reason}")
    return options.EXIT_OK
