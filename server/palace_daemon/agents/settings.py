"""Which settings each agent reads, where they lie, and what Palace writes there.

An entry of ours is known by its command, not by a note of ours: agents write these files anew and would drop that.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

SERVER = "palace"
"""Our name among the MCP servers of an agent."""
AGENTS = ("claude", "codex", "cursor", "vscode", "gemini", "opencode")
_PROGRAMS = {
    "claude": "claude",
    "codex": "codex",
    "cursor": "cursor",
    "vscode": "code",
    "gemini": "gemini",
    "opencode": "opencode",
}
HOOK_TIMEOUT_S = 5
"""When the agent gives up on a hook, which itself gives up after 0.3 s."""
_SOURCES = "startup|clear|compact"
"""A resumed session still holds what it was given."""
_PROGRAM = re.compile(r"palace[-_]daemon")
_OUR_HOOK = re.compile(r"palace[-_]daemon.*\bhook (?:session-start|prompt-submit)\b", re.DOTALL)


class Command(NamedTuple):
    """How an agent runs Palace."""

    words: Sequence[str]
    data_dir: str | None = None

    def server(self) -> list[str]:
        """Return the command line of the MCP bridge."""
        return [*self._beginning(), "mcp"]

    def hook(self, event: str, agent: str) -> str:
        """Return the command line of a hook, for a shell."""
        return shlex.join([*self._beginning(), "hook", event, "--agent", agent])

    def _beginning(self) -> list[str]:
        return [*self.words, *(["--data-dir", self.data_dir] if self.data_dir else [])]


class Entry(NamedTuple):
    """One thing that Palace writes into a settings file."""

    path: tuple[str, ...]
    value: Any
    is_item: bool = False
    """Whether it is one of the items of the array at ``path``, and not the value there."""
    is_shared: bool = False
    """Whether the file needs it whoever writes there, so that it is added where absent and never taken out."""

    def is_ours(self, value: Any) -> bool:
        """Return whether what stands there was written by us, now or by an earlier version."""
        return not self.is_shared and (is_our_hook(value) if self.is_item else is_our_server(value))


class SettingsFile(NamedTuple):
    """A file and what belongs into it."""

    path: str
    entries: tuple[Entry, ...]
    is_toml: bool = False


def is_our_server(value: Any) -> bool:
    """Return whether an MCP server's settings run Palace."""
    return isinstance(value, Mapping) and bool(_PROGRAM.search(json.dumps(value, default=str)))


def is_our_hook(value: Any) -> bool:
    """Return whether an item among hooks runs Palace and nothing else."""
    if not isinstance(value, Mapping):
        return False
    inner = value.get("hooks")
    commands = [one.get("command") for one in inner if isinstance(one, Mapping)] if isinstance(inner, list) else []
    commands = commands or [value.get("command")]
    return all(_is_our_command(command) for command in commands)


def is_our_part(value: Any) -> bool:
    """Return whether one of the hooks in a group runs Palace and nothing else."""
    return isinstance(value, Mapping) and "hooks" not in value and _is_our_command(value.get("command"))


def _is_our_command(command: Any) -> bool:
    if not isinstance(command, str) or "\n" in command or not _OUR_HOOK.search(command):
        return False
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    try:
        return not any(set(word) <= set("();<>|&") for word in words)
    except ValueError:  # a quotation without its end
        return False


def own_command(called_as: str) -> list[str]:
    """Return an absolute command line that runs this very installation.

    Args:
        called_as: ``sys.argv[0]``.
    """
    found = shutil.which(called_as) if os.path.basename(called_as).startswith("palace-daemon") else None
    for candidate in (found, os.path.join(os.path.dirname(sys.executable), "palace-daemon")):
        if candidate and os.access(candidate, os.X_OK):
            return [os.path.abspath(candidate)]
    # -P: the agent's working directory is somebody's project, and must not be on the import path.
    return [sys.executable, "-P", "-m", "palace_daemon"]


def files_of(agent: str, *, scope: str, cwd: str, command: Command, with_hooks: bool = True) -> list[SettingsFile]:
    """Return the files that an agent reads, with what belongs into each.

    Args:
        agent: One of :data:`AGENTS`.
        scope: ``user`` or ``project``.
        cwd: Where the user stands, for the project's root.
        command: What the agent is to run.
        with_hooks: Whether hooks are written, where the agent has any.
    """
    root = _root_of(cwd) if scope == "project" else None
    files = _FILES[agent](root, command)
    if with_hooks:
        return files
    servers = [file._replace(entries=tuple(one for one in file.entries if not one.is_item)) for file in files]
    return [file for file in servers if any(not one.is_shared for one in file.entries)]


def is_here(agent: str, files: Sequence[SettingsFile]) -> bool:
    """Return whether an agent is on this machine: its program on the path, or a place of its own for settings.

    Args:
        agent: One of :data:`AGENTS`.
        files: Its settings files, as of :func:`files_of`.
    """
    if shutil.which(_PROGRAMS[agent]):
        return True
    own = (os.path.dirname(file.path) for file in files)
    home = os.path.expanduser("~")
    return any(os.path.exists(file.path) for file in files) or any(
        directory != home and os.path.isdir(directory) for directory in own
    )


def install_extra() -> str:
    """Return the command line that adds the MCP SDK to this very installation."""
    return f"{shlex.quote(sys.executable)} -m pip install 'palace-daemon[mcp]'"


def advice(agent: str, scope: str) -> list[str]:
    """Return what a user should know after connecting."""
    lines = [_ADVICE[agent]]
    if scope == "project":
        lines.append("these settings name a path of this machine: think before you commit them")
    if importlib.util.find_spec("mcp") is None:
        lines.append(f"the MCP server needs an extra that is not installed: {install_extra()}")
    return lines


# ---------------------------------------------------------------------------------------------------------- agents


def _claude(root: Path | None, command: Command) -> list[SettingsFile]:
    program, *arguments = command.server()
    server = {"type": "stdio", "command": program, "args": arguments, "env": {}}
    chosen = os.environ.get("CLAUDE_CONFIG_DIR")
    home = Path(chosen) if chosen else Path.home()
    if root is None:
        servers, hooks = home / ".claude.json", (home if chosen else home / ".claude") / "settings.json"
    else:
        servers, hooks = root / ".mcp.json", root / ".claude" / "settings.local.json"
    return [
        SettingsFile(str(servers), (Entry(("mcpServers", SERVER), server),)),
        SettingsFile(str(hooks), _hooks_in_groups("claude", command)),
    ]


def _codex(root: Path | None, command: Command) -> list[SettingsFile]:
    program, *arguments = command.server()
    home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") if root is None else root / ".codex"
    server = {"command": program, "args": arguments}
    return [
        SettingsFile(str(home / "config.toml"), (Entry(("mcp_servers", SERVER), server),), is_toml=True),
        SettingsFile(str(home / "hooks.json"), _hooks_in_groups("codex", command)),
    ]


def _cursor(root: Path | None, command: Command) -> list[SettingsFile]:
    program, *arguments = command.server()
    home = (root or Path.home()) / ".cursor"
    moments = (("sessionStart", "session-start"), ("beforeSubmitPrompt", "prompt-submit"))
    hooks = tuple(
        Entry(("hooks", name), {"command": command.hook(event, "cursor")}, is_item=True) for name, event in moments
    )
    return [
        SettingsFile(str(home / "mcp.json"), (Entry(("mcpServers", SERVER), {"command": program, "args": arguments}),)),
        SettingsFile(str(home / "hooks.json"), (Entry(("version",), 1, is_shared=True), *hooks)),
    ]


def _vscode(root: Path | None, command: Command) -> list[SettingsFile]:
    program, *arguments = command.server()
    server = {"type": "stdio", "command": program, "args": arguments}
    if root is not None:
        path = root / ".vscode" / "mcp.json"
    elif sys.platform == "darwin":
        path = Path.home() / "Library" / "Application Support" / "Code" / "User" / "mcp.json"
    else:
        path = _config_home() / "Code" / "User" / "mcp.json"
    return [SettingsFile(str(path), (Entry(("servers", SERVER), server),))]


def _gemini(root: Path | None, command: Command) -> list[SettingsFile]:
    program, *arguments = command.server()
    home = root or Path(os.environ.get("GEMINI_CLI_HOME") or Path.home())
    server = {"command": program, "args": arguments}
    return [SettingsFile(str(home / ".gemini" / "settings.json"), (Entry(("mcpServers", SERVER), server),))]


def _opencode(root: Path | None, command: Command) -> list[SettingsFile]:
    home = root or _config_home() / "opencode"
    names = ("opencode.jsonc", "opencode.json")
    path = next((home / name for name in names if (home / name).exists()), home / names[-1])
    server = {"type": "local", "command": command.server(), "enabled": True}
    return [SettingsFile(str(path), (Entry(("mcp", SERVER), server),))]


def _hooks_in_groups(agent: str, command: Command) -> tuple[Entry, ...]:
    """Return the hooks of an agent that holds them in groups, each with a matcher of its own."""

    def group(event: str) -> dict[str, Any]:
        run = {"type": "command", "command": command.hook(event, agent), "timeout": HOOK_TIMEOUT_S}
        return {"matcher": _SOURCES, "hooks": [run]} if event == "session-start" else {"hooks": [run]}

    return (
        Entry(("hooks", "SessionStart"), group("session-start"), is_item=True),
        Entry(("hooks", "UserPromptSubmit"), group("prompt-submit"), is_item=True),
    )


_FILES: dict[str, Callable[[Path | None, Command], list[SettingsFile]]] = {
    "claude": _claude,
    "codex": _codex,
    "cursor": _cursor,
    "vscode": _vscode,
    "gemini": _gemini,
    "opencode": _opencode,
}

_ASKS = "Palace writes no hooks there: the agent asks when it sees a reason to"
_ADVICE = {
    "claude": "start a new session of Claude Code; /mcp and /hooks there show it",
    "codex": "start a new session of Codex, and trust the hooks when it asks (/hooks); /mcp shows the server",
    "cursor": "restart Cursor; Settings > MCP and Settings > Hooks show it",
    "vscode": f"run `MCP: List Servers` in VS Code and start `{SERVER}`; {_ASKS}",
    "gemini": f"restart Gemini CLI; /mcp shows it; {_ASKS}",
    "opencode": f"restart opencode; {_ASKS}",
}


def _config_home() -> Path:
    chosen = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(chosen) if chosen.startswith("/") else Path.home() / ".config"


def _root_of(cwd: str) -> Path:
    """Return the working tree that ``cwd`` lies in, a worktree being its own; else ``cwd`` itself."""
    here = Path(cwd).absolute()
    return next((at for at in (here, *here.parents) if (at / ".git").exists()), here)
