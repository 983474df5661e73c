"""Tells clients that subscribed what changed: each kind at most once a second, and to nobody else.

Runs on the event loop. What is mined within a second is added up. The state is looked at when something may have
changed it, and otherwise now and then, ever more rarely while it stays the same; not at all while nobody listens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

import msgspec

from palace_daemon.errors import PalaceError
from palace_daemon.rpc import errors, wire, wire_session

logger = logging.getLogger(__name__)

INTERVAL_S = 1.0
"""Least time between two notifications of one kind."""
QUIET_S = 15.0
"""Longest time between two looks at the state: a file that waits to be mined is told of by nothing else."""
_RESTLESS = {"uptime_s": 0.0, "rss_bytes": 0, "database_bytes": 0}
"""What differs each time one looks, and is no change worth telling."""


class Listener(Protocol):
    """A connection."""

    has_status: bool
    """Whether it was told the newest state that there was to tell."""

    def wants(self, event: wire_session.EventName) -> bool:
        """Return whether the client subscribed to ``event``."""
        ...

    def notify(self, method: str, params: Any) -> bool:
        """Send a notification, or drop it; returns which."""
        ...


class Teller:
    """See the module."""

    def __init__(
        self, listeners: Callable[[], Iterable[Listener]], status: Callable[[], Awaitable[wire.StatusResult]]
    ) -> None:
        """Take who may listen, and the way to the state."""
        self._listeners = listeners
        self._status = status
        self._touched = asyncio.Event()
        self._mined: wire.MineResult | None = None
        self._next_mined_at = 0.0
        self._last: wire.StatusResult | None = None

    def touch(self) -> None:
        """Note that the state may have changed, or that somebody new wants to know it."""
        self._touched.set()

    # ----------------------------------------------------------------------------------------------------- mining

    def mined(self, report: wire.MineResult) -> None:
        """Tell of a change, now or together with those that follow within a second."""
        self.touch()
        if not any(listener.wants("didMine") for listener in self._listeners()):
            self._mined = None
            return
        is_waiting = self._mined is not None
        self._mined = merged(self._mined, report) if self._mined else report
        if is_waiting:
            return
        loop = asyncio.get_running_loop()
        wait_s = self._next_mined_at - loop.time()
        if wait_s > 0:
            loop.call_later(wait_s, self._tell_mined)
        else:
            self._tell_mined()

    def _tell_mined(self) -> None:
        report, self._mined = self._mined, None
        if report is None:
            return
        self._next_mined_at = asyncio.get_running_loop().time() + INTERVAL_S
        for listener in self._listeners():
            if listener.wants("didMine"):
                listener.notify(wire_session.DID_MINE, report)

    # ------------------------------------------------------------------------------------------------------ state

    async def watch_status(self) -> None:
        """Tell of changes of the state, until cancelled."""
        quiet_s = INTERVAL_S
        while True:
            wait_s = quiet_s if self._wanting() else None
            try:
                await asyncio.wait_for(self._touched.wait(), wait_s)
                quiet_s = INTERVAL_S
            except TimeoutError:
                quiet_s = min(2 * quiet_s, QUIET_S)
            self._touched.clear()
            if not self._wanting():
                continue
            try:
                if self._tell_status(await self._status()):
                    quiet_s = INTERVAL_S
            except PalaceError as exc:
                logger.warning("cannot tell the state: %s", exc)
            except Exception as exc:  # noqa: BLE001 - a fault of one look must not end all further ones
                errors.log_frames(exc, logger)
            await asyncio.sleep(INTERVAL_S)

    def _wanting(self) -> list[Listener]:
        return [listener for listener in self._listeners() if listener.wants("didChangeStatus")]

    def _tell_status(self, status: wire.StatusResult) -> bool:
        """Tell all if the state changed, else those who have not heard it yet; returns whether it changed."""
        is_changed = self._last is None or _lasting(status) != _lasting(self._last)
        self._last = status
        for listener in self._wanting():
            if is_changed or not listener.has_status:
                listener.has_status = listener.notify(wire_session.DID_CHANGE_STATUS, status)
        return is_changed


def _lasting(status: wire.StatusResult) -> wire.StatusResult:
    pace = msgspec.structs.replace(status.embedding, texts_per_s=0.0, eta_s=None)
    return msgspec.structs.replace(status, **_RESTLESS, embedding=pace)


def merged(first: wire.MineResult, second: wire.MineResult) -> wire.MineResult:
    """Return the sum of two reports: numbers add up, also by key; of words the later ones stand."""
    return wire.MineResult(
        **{name: _sum(getattr(first, name), getattr(second, name)) for name in wire.MineResult.__struct_fields__}
    )


def _sum(first: Any, second: Any) -> Any:
    if isinstance(first, dict):
        return {
            key: _sum(first[key], second[key]) if key in first and key in second else first.get(key, second.get(key))
            for key in {**first, **second}
        }
    return (second or first) if isinstance(first, str) else first + second
