"""``config``: the effective settings, and changing them."""

from __future__ import annotations

import argparse
import json

from palace_daemon import places
from palace_daemon.cli import options, show
from palace_daemon.errors import ConfigError


def register(commands: options.Commands) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "config",
        "show or change settings",
        run,
        examples="palace-daemon config show\n"
        "palace-daemon config set watch.agents_off codex\n"
        "palace-daemon config path",
        detail="A running daemon takes up a change when it is started anew.",
    )
    parser.add_argument("action", choices=("show", "set", "path"))
    parser.add_argument("name", nargs="?", help="section.key, such as watch.paths")
    parser.add_argument("value", nargs="?", help='its value; a list as a,b or as \'["a", "b"]\'')


def run(arguments: argparse.Namespace) -> int:
    """Show, set, or name the file."""
    needed = 2 if arguments.action == "set" else 0
    given = sum(value is not None for value in (arguments.name, arguments.value))
    if given != needed:
        raise ConfigError(f"config {arguments.action} takes {'a name and a value' if needed else 'nothing more'}")
    if arguments.action == "path":
        _print_path(arguments)
    elif arguments.action == "set":
        _set(arguments)
    else:
        _show(arguments)
    return options.EXIT_OK


def _print_path(arguments: argparse.Namespace) -> None:
    path = str(places.config_file())
    if arguments.json:
        show.print_json({"path": path})
    else:
        print(path)


def _set(arguments: argparse.Namespace) -> None:
    from palace_daemon import config  # noqa: PLC0415

    path, value = config.write_setting(arguments.name, arguments.value)
    if arguments.json:
        show.print_json({"path": str(path), "name": arguments.name, "value": value})
    else:
        said = json.dumps(value, ensure_ascii=False)
        print(f"wrote {arguments.name} = {said} to {path}; palace-daemon restart lets a running daemon take it up")


def _show(arguments: argparse.Namespace) -> None:
    from palace_daemon import config  # noqa: PLC0415

    _, settings = config.load(data_dir=arguments.data_dir)
    if arguments.json:
        rows = [{"name": item.name, "value": item.value, "origin": item.origin} for item in settings]
        show.print_json({"settings": rows, "path": str(places.config_file())})
        return
    for item in settings:
        value = ", ".join(item.value) if isinstance(item.value, tuple) else item.value
        print(f"{item.name:<24} {value!s:<28} {item.origin}".rstrip())
