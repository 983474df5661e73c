"""``status --watch``: the daemon's state as it changes, until Ctrl-C.

On a terminal a few lines are drawn anew in place; elsewhere each change is a line, with ``--json`` an object.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from palace_daemon.cli import control, options, show
from palace_daemon.client import Client

_TICK_S = 1.0
"""How often the terminal's clock goes on while nothing changes."""
_STATUS = "palace/didChangeStatus"
_RESTLESS = {"uptimeS": None, "rssBytes": None, "databaseBytes": None}
"""What differs each time one looks, and is no change: what the daemon leaves out as well."""


def watch(arguments: argparse.Namespace) -> int:
    """Show the state until Ctrl-C; exit code 3 where no daemon runs, or it went away."""
    is_terminal = sys.stdout.isatty() and not arguments.json
    shown = _Screen() if is_terminal else _Objects() if arguments.json else _Lines()
    try:
        with Client(arguments.data_dir, timeout_s=60.0) as client:
            status = client.request("palace/status")
            client.subscribe(["didChangeStatus"])
            shown.draw(status)
            seen_at = time.monotonic()
            while True:
                told = client.next_notification(_TICK_S if is_terminal else None)
                if told is not None and told[0] == _STATUS:
                    status, seen_at = told[1], time.monotonic()
                elif told is not None:
                    continue
                shown.draw(status, time.monotonic() - seen_at)
    except KeyboardInterrupt:
        return options.EXIT_OK


def lines(status: Mapping[str, Any], age_s: float = 0.0) -> list[str]:
    """Return what changes of the state, one line each.

    Args:
        status: The state.
        age_s: How long ago it was told.
    """
    texts, embedding = status["vectors"] + status["vectorsPending"], status["embedding"]
    pace = f", {embedding['textsPerS']:,.1f} a second" if embedding["textsPerS"] and status["vectorsPending"] else ""
    left = f", done in {control.duration(embedding['etaS'])}" if embedding["etaS"] and status["vectorsPending"] else ""
    failed = len(status["failures"])
    rows = [
        ("daemon", f"{status['version']}, process {status['pid']}, up {control.duration(status['uptimeS'] + age_s)}"),
        ("memory", f"{show.size(status['rssBytes'])}, database {show.size(status['databaseBytes'])}"),
        ("files", f"{status['sourcesPending']:,} to be mined, {failed:,} failed"),
        ("exchanges", f"{status['exchanges']:,} in {show.count(status['sessions'], 'session')}"),
        ("vectors", f"{status['vectors']:,} of {texts:,}{pace}{left}"),
        ("model", f"{status['model']}: {status['modelState']}"),
        ("doing", _doing(status)),
    ]
    if status["lastError"]:
        rows.append(("last error", status["lastError"]))
    columns = show.width()
    return [show.cut(f"{name:<11} {value}", columns - 1) for name, value in rows]


def _doing(status: Mapping[str, Any]) -> str:
    if status["embedding"]["isPaused"]:
        return "paused (palace-daemon resume)"
    what = [word for word, count in (("mining", "sourcesPending"), ("embedding", "vectorsPending")) if status[count]]
    return " and ".join(what) or "nothing waits"


def one_line(status: Mapping[str, Any]) -> str:
    """Return the state as one line, for a file or a pipe."""
    return f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {_without_time(status)}"


def _without_time(status: Mapping[str, Any]) -> str:
    texts = status["vectors"] + status["vectorsPending"]
    parts = [
        f"{status['sourcesPending']:,} files to be mined",
        show.count(status["exchanges"], "exchange"),
        f"{status['vectors']:,} of {texts:,} vectors",
        f"{len(status['failures']):,} failed",
        _doing(status),
    ]
    if status["lastError"]:
        parts.append(f"last error: {show.one_line(status['lastError'], 200)}")
    return "  ".join(parts)


class _Screen:
    """A few lines of the terminal that are drawn anew in place."""

    def __init__(self) -> None:
        self._height = 0

    def draw(self, status: Mapping[str, Any], age_s: float = 0.0) -> None:
        """Put the lines where the last ones stood."""
        shown = lines(status, age_s)
        up = f"\x1b[{self._height}A" if self._height else ""
        body = "".join(f"\x1b[2K{line}\n" for line in shown)
        sys.stdout.write(f"{up}\r{body}\x1b[J")
        sys.stdout.flush()
        self._height = len(shown)


class _Lines:
    """A line for each change that a line shows. What the daemon tells first is often what was shown already."""

    def __init__(self) -> None:
        self._last = ""

    def draw(self, status: Mapping[str, Any], _age_s: float = 0.0) -> None:
        """Print the state, unless the last line says the same."""
        line = _without_time(status)
        if line != self._last:
            print(one_line(status), flush=True)
        self._last = line


class _Objects:
    """A JSON object for each change of anything but :data:`_RESTLESS`."""

    def __init__(self) -> None:
        self._last: Mapping[str, Any] = {}

    def draw(self, status: Mapping[str, Any], _age_s: float = 0.0) -> None:
        """Print the state, unless the last object says the same."""
        pace = {**status["embedding"], "textsPerS": None, "etaS": None}
        lasting = {**status, **_RESTLESS, "embedding": pace}
        if lasting != self._last:
            print(json.dumps(status), flush=True)
        self._last = lasting
