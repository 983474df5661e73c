"""``model use``: choosing a model for good, and watching it take over."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

from palace_daemon.cli import connect, options, show
from palace_daemon.cli.bar import Bar
from palace_daemon.client import Client
from palace_daemon.errors import ConfigError, DaemonError, ModelError

_STEP_S = 0.25


def run(arguments: argparse.Namespace) -> int:
    """Have the daemon use a model, starting it if none runs; with ``--wait`` until that model answers."""
    if not arguments.id:
        raise ConfigError("model use needs the id of a model", hint="palace-daemon model list")
    with connect.reach(arguments) as client:
        result = client.request("palace/models", {"use": arguments.id})
        if arguments.wait:
            _await(client)
            result = client.request("palace/models")
    if arguments.json:
        show.print_json(result)
    else:
        _print(arguments.id, result["embedding"])
    return options.EXIT_OK


def _await(client: Client) -> None:
    """Wait until the chosen model answers, with a progress bar on a terminal.

    Raises:
        ModelError: It cannot be loaded.
        DaemonError: Nothing is embedded, since somebody paused it.
    """
    with Bar() as bar:
        while True:
            status = client.request("palace/status")
            embedding = status["embedding"]
            done = _role(embedding, "next") or _role(embedding, "answering")
            if done:
                bar.show("embed", done["vectors"], done["texts"], "texts")
            if not embedding["isSwitching"]:
                return
            if status["modelState"].startswith("failed"):
                raise ModelError(f"{status['model']} {status['modelState']}")
            if embedding["isPaused"]:
                raise DaemonError("Palace is paused: nothing is embedded", hint="palace-daemon resume")
            time.sleep(_STEP_S)


def _role(embedding: Mapping[str, Any], role: str) -> Mapping[str, Any] | None:
    return next((one for one in embedding["coverage"] if one["role"] == role), None)


def _print(model_id: str, embedding: Mapping[str, Any]) -> None:
    answering = _role(embedding, "answering")
    if not embedding["isSwitching"] and answering:
        print(f"{model_id} answers: {answering['vectors']:,} of {answering['texts']:,} texts have its vector")
        return
    print(f"{model_id} is chosen, and gives every text its vector in the background")
    if answering:
        print(f"until then {answering['model']} answers; palace-daemon status shows how far it is")
