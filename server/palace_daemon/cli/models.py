"""``model``: which embedding models there are, installing and removing them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from palace_daemon.cli import model_install, model_use, options, show
from palace_daemon.cli.bar import Bar
from palace_daemon.errors import ConfigError

if TYPE_CHECKING:
    from palace_daemon.config import Config
    from palace_daemon.model import ModelView, Progress


def register(commands: options.Commands) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "model",
        "list, install, choose or remove embedding models",
        run,
        examples="palace-daemon model list\npalace-daemon model install\n"
        "palace-daemon model use all-minilm-l6-v2-fp32 --wait\n"
        "palace-daemon model install --from ~/models/my-model --name my-model\n"
        "palace-daemon model remove all-minilm-l6-v2-fp32",
        detail="Models are shared by all data directories. One that is in use cannot be removed.",
    )
    parser.add_argument("action", choices=("list", "install", "use", "remove"))
    parser.add_argument("id", nargs="?", metavar="ID", help="the model (default: the one that embed.model names)")
    model_install.add_options(parser)
    parser.add_argument("--wait", action="store_true", help="with use: return when the model answers")


def run(arguments: argparse.Namespace) -> int:
    """List, install, choose or remove."""
    from palace_daemon import config  # noqa: PLC0415

    if arguments.wait and arguments.action != "use":
        raise ConfigError("--wait goes with model use")
    if arguments.action == "use":
        model_install.check(arguments)
        return model_use.run(arguments)
    settings, _ = config.load(data_dir=arguments.data_dir)
    model_install.check(arguments)
    if arguments.action == "remove":
        return _remove(arguments, settings)
    if arguments.action == "install" and arguments.source is not None:
        model_install.from_folder(arguments, settings.embed.model)
    elif arguments.action == "install":
        install(arguments.id or settings.embed.model)
    from palace_daemon.service import build  # noqa: PLC0415 - imports numpy

    views = build.list_models(settings)
    if arguments.json:
        from palace_daemon.rpc import convert, wire  # noqa: PLC0415

        result = wire.ModelsResult(models=tuple(convert.model_to_wire(view) for view in views))
        show.print_json(wire.to_builtins(result))
    else:
        _print(views)
    return options.EXIT_OK


def _remove(arguments: argparse.Namespace, settings: Config) -> int:
    if not arguments.id:
        raise ConfigError("model remove needs the id of a model", hint="palace-daemon model list")
    from palace_daemon.service.model_removal import remove_model  # noqa: PLC0415 - imports numpy

    freed = remove_model(settings, arguments.id)
    if arguments.json:
        show.print_json({"modelId": arguments.id, "freedBytes": freed})
    else:
        print(f"{arguments.id} is removed, {show.size(freed)} are free")
    return options.EXIT_OK


def install(model_id: str, source: Path | None = None) -> Path:
    """Install a model, with a progress bar on a terminal, and return where it is.

    Raises:
        ModelError: It is unknown, cannot be fetched, or fails a check.
    """
    from palace_daemon.service import build  # noqa: PLC0415 - imports numpy

    with Bar() as bar:

        def on_progress(step: Progress) -> None:
            bar.show(step.stage, step.done, step.total, step.unit)

        return build.install_model(model_id, source=source, on_progress=on_progress)


def _print(views: Sequence[ModelView]) -> None:
    for view in views:
        state = "installed" if view.is_installed else "not installed"
        used = ", in use" if view.is_active else ""
        print(show.paint(view.model_id, "bold") + f"  {state}{used}, {view.dim} dimensions, {view.max_tokens} tokens")
        if view.is_installed:
            print(f"    {view.path} ({show.size(view.size_bytes)})")
        for line in show.fold(view.note, show.width() - 4) if view.note else ():
            print("    " + line)
