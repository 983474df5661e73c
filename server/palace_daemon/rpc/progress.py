"""Progress of one request, from the thread that works to the client that named a token for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from palace_daemon.model import Progress
from palace_daemon.rpc import convert, wire

INTERVAL_S = 0.1
"""Least time between two progress notifications of one request."""


class ProgressRelay:
    """Turns progress calls from a worker thread into ``$/progress`` notifications, a bounded number a second."""

    def __init__(self, notify: Callable[[str, Any], object], tokens: dict[Any, Any], token: str | int) -> None:
        """Take the way to the client, pygls's table of tokens in use, and the client's token."""
        self._notify = notify
        self._tokens = tokens
        self._token = token
        self._loop = asyncio.get_running_loop()
        self._next_at = 0.0
        self._is_over = False

    def begin(self, task: asyncio.Task[Any] | None, title: str) -> None:
        """Announce the work; ``window/workDoneProgress/cancel`` then cancels ``task``."""
        self._tokens[self._token] = task
        self._send(wire.ProgressValue(kind="begin", title=title, cancellable=True))

    def report(self, progress: Progress) -> None:
        """Pass one step on; called from the worker thread."""
        now = time.monotonic()
        if self._is_over or now < self._next_at:
            return
        self._next_at = now + INTERVAL_S
        try:
            self._loop.call_soon_threadsafe(self._send, convert.progress_to_wire(progress))
        except RuntimeError:
            self._is_over = True  # the loop is closed: the daemon has stopped

    def end(self) -> None:
        """Say that the work is over, and forget the token."""
        self._tokens.pop(self._token, None)
        self._send(wire.ProgressValue(kind="end"))
        self._is_over = True

    def _send(self, value: wire.ProgressValue) -> None:
        if not self._is_over:
            self._notify("$/progress", {"token": self._token, "value": wire.to_builtins(value)})
