"""How a command reaches a Palace: a running daemon, one that it starts, or the store itself, read-only."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Mapping
from typing import Any

from palace_daemon import __version__, places
from palace_daemon.client import Client, NotificationListener, NotRunningError
from palace_daemon.errors import DaemonError

WAIT_FOREVER: None = None
_MODEL_STEP_S = 0.05


def note(text: str) -> None:
    """Print a line to standard error, or nothing where that takes none: no answer may be lost for a note."""
    with contextlib.suppress(OSError, ValueError):
        print(f"palace-daemon: {text}", file=sys.stderr)


def ask(arguments: argparse.Namespace, method: str, params: Mapping[str, Any], *, model_wait_s: float = 0.0) -> Any:
    """Return the result of a request that only reads, from the daemon if possible; says what else it did.

    Args:
        arguments: ``data_dir``, and ``no_daemon`` where the command has it.
        method: A method of the wire that needs no daemon.
        params: Its parameters.
        model_wait_s: How long a daemon that this starts may take to load its model before it is asked.

    Raises:
        PalaceError: As the daemon, or the store, answers.
    """
    if arguments.no_daemon:
        note("no daemon: reading the store directly")
        return _ask_store(arguments, method, params)
    try:
        client = reach(arguments, model_wait_s=model_wait_s)
    except DaemonError as exc:
        from palace_daemon.store.sqlite import database_path  # noqa: PLC0415

        if not database_path(places.data_dir(arguments.data_dir)).exists():
            raise
        note(f"{exc}; reading the store directly")
        return _ask_store(arguments, method, params)
    with client:
        return client.request(method, params)


def reach(arguments: argparse.Namespace, timeout_s: float | None = 60.0, *, model_wait_s: float = 0.0) -> Client:
    """Return a connected client; starts the daemon if there is none, or an older one, and says so.

    One that was started here may take ``model_wait_s`` to load its model; if it takes longer, its answers say so.

    Raises:
        DaemonError: The daemon cannot be reached or started.
    """
    client = Client(arguments.data_dir, timeout_s=timeout_s)
    try:
        client.connect()
    except NotRunningError:
        client.connect_or_start()
        note("started the daemon in the background (palace-daemon stop ends it)")
        deadline = time.monotonic() + model_wait_s
        while time.monotonic() < deadline and client.request("palace/status")["modelState"] == "loading":
            time.sleep(_MODEL_STEP_S)
    else:
        client.connect_or_start()
        if client.replaced:
            note(f"the daemon was palace-daemon {client.replaced}: one of {__version__} has taken its place")
    return client


def request(
    arguments: argparse.Namespace,
    method: str,
    params: Mapping[str, Any],
    on_notification: NotificationListener | None = None,
) -> Any:
    """Return the result of a request that may take as long as it takes, starting the daemon if there is none.

    Raises:
        PalaceError: As the daemon answers, or because there is none.
    """
    with reach(arguments, timeout_s=WAIT_FOREVER) as client:
        return client.request(method, params, on_notification)


def _ask_store(arguments: argparse.Namespace, method: str, params: Mapping[str, Any]) -> Any:
    from palace_daemon.cli import offline  # noqa: PLC0415 - imports numpy and the runtime

    return offline.ask(arguments.data_dir, method, params)
