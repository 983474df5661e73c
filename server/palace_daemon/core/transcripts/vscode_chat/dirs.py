"""Where VS Code and the editors built from it keep what their chats and extensions write."""

from __future__ import annotations

from collections.abc import Mapping

from palace_daemon.core.transcripts.reading.homes import below, below_home

EDITORS = ("Code", "Code - Insiders", "Code - OSS", "VSCodium", "Cursor", "Windsurf")
"""Names of the editors' own directories, equal on all platforms."""

_SERVERS = (".vscode-server", ".vscode-server-insiders", ".cursor-server", ".windsurf-server")
"""Directories below the home of a remote machine, a container or WSL that a window is connected to."""

_FLATPAKS = {"com.visualstudio.code": "Code", "com.vscodium.codium": "VSCodium"}


def user_dirs(environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
    """Return the ``User`` directory of each editor, existing or not; ``platform`` is a value of ``sys.platform``."""
    if platform == "win32":
        base = environ.get("APPDATA") or below_home(environ, home, platform, "AppData", "Roaming")
    elif platform == "darwin":
        base = below_home(environ, home, platform, "Library", "Application Support")
    else:
        base = environ.get("XDG_CONFIG_HOME") or below_home(environ, home, platform, ".config")
    found = [below(base, platform, name, "User") for name in EDITORS]
    if platform not in ("win32", "darwin"):
        apps = below_home(environ, home, platform, ".var", "app")
        found += [below(apps, platform, app, "config", name, "User") for app, name in _FLATPAKS.items()]
    found += [below_home(environ, home, platform, server, "data", "User") for server in _SERVERS]
    return tuple(found)


def storage_dirs(environ: Mapping[str, str], home: str, platform: str, *parts: str) -> tuple[str, ...]:
    """Return the directory at ``parts`` below each ``User`` directory."""
    return tuple(below(user, platform, *parts) for user in user_dirs(environ, home, platform))
