"""``mcp``: the bridge between an agent and the daemon."""

from __future__ import annotations

import argparse

from palace_daemon.cli import options
from palace_daemon.errors import ConfigError


def register(commands: options.Commands) -> None:
    """Declare the command."""
    options.add_command(
        commands,
        "mcp",
        "serve the tools of Palace to an agent, over MCP on standard input and output",
        mcp,
        examples="palace-daemon mcp\npalace-daemon --data-dir /srv/palace mcp",
        detail="An agent\n"
        "starts it; `palace-daemon connect AGENT` sets it up. Starts the daemon when a tool is called and none runs.\n"
        "Needs the extra `mcp`.",
    )


def mcp(arguments: argparse.Namespace) -> int:
    """Serve until the agent closes standard input.

    Raises:
        ConfigError: The MCP SDK is not installed.
    """
    try:
        from palace_daemon.agents import mcp_server  # noqa: PLC0415 - the SDK takes a second to import
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in {"mcp", "mcp_types", "anyio"}:
            raise
        from palace_daemon.agents import settings  # noqa: PLC0415 - only for this

        raise ConfigError(
            "palace-daemon mcp needs the MCP SDK, which is not installed", hint=settings.install_extra()
        ) from exc
    mcp_server.run(arguments.data_dir)
    return options.EXIT_OK
