"""The options of ``model install``, and installing a model from a folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from palace_daemon.cli import options
from palace_daemon.cli.bar import Bar
from palace_daemon.errors import ConfigError

if TYPE_CHECKING:
    from palace_daemon.embed.folder import Wishes
    from palace_daemon.model import Progress

_OF_A_FOLDER = {
    "name": "--name",
    "precision": "--precision",
    "pooling": "--pooling",
    "query_prefix": "--query-prefix",
    "passage_prefix": "--passage-prefix",
    "max_tokens": "--max-tokens",
}
"""Options that say something of a model in a folder."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    group = parser.add_argument_group("install")
    group.add_argument(
        "--from",
        dest="source",
        metavar="DIR",
        help="a folder with a model of the BERT family: config.json, tokenizer.json, model.safetensors or model.onnx",
    )
    group.add_argument("--name", metavar="NAME", help="what to call it (default: after the folder)")
    group.add_argument(
        "--precision",
        choices=("int8", "fp32", "onnx"),
        help="build from the weights (default int8), or run a ready model.onnx as it is",
    )
    group.add_argument("--pooling", choices=("mean", "cls"), help="default: as 1_Pooling/config.json says")
    group.add_argument("--query-prefix", metavar="TEXT", help="put before questions (default: as its prompts say)")
    group.add_argument("--passage-prefix", metavar="TEXT", help="put before stored texts (default: as its prompts say)")
    group.add_argument(
        "--max-tokens", type=options.positive, metavar="N", help="longest text; longer ones are read in windows"
    )


def check(arguments: argparse.Namespace) -> None:
    """Refuse options that would do nothing.

    Raises:
        ConfigError: One was given without a folder, or for another action.
    """
    given = [flag for name, flag in _OF_A_FOLDER.items() if getattr(arguments, name) is not None]
    if arguments.action != "install":
        given += ["--from"] * (arguments.source is not None)
        if given:
            raise ConfigError(f"model {arguments.action} takes no {given[0]}", hint="it belongs to model install")
    elif given and arguments.source is None:
        raise ConfigError(f"{given[0]} needs --from DIR", hint="it says something of a model in a folder")


def from_folder(arguments: argparse.Namespace, default_id: str) -> tuple[str, Path]:
    """Install what ``--from`` names, with a progress bar on a terminal, and return its id and where it is.

    Raises:
        ModelError: It cannot be taken; the message says what is wrong, where, and what to do.
    """
    from palace_daemon.service import build  # noqa: PLC0415 - imports numpy

    with Bar() as bar:

        def on_progress(step: Progress) -> None:
            bar.show(step.stage, step.done, step.total, step.unit)

        return build.install_from(
            Path(arguments.source),
            model_id=arguments.id or "",
            wishes=_wishes(arguments),
            default_id=default_id,
            on_progress=on_progress,
        )


def _wishes(arguments: argparse.Namespace) -> Wishes:
    from palace_daemon.embed.folder import Wishes  # noqa: PLC0415 - not needed by other commands

    return Wishes(
        name=arguments.name or "",
        precision=arguments.precision,
        pooling=arguments.pooling,
        query_prefix=arguments.query_prefix,
        passage_prefix=arguments.passage_prefix,
        max_tokens=arguments.max_tokens or 0,
    )
