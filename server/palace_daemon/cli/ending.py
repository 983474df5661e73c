"""Asking the daemon to end, and waiting until it is gone. It is asked over its socket; no process is ever signalled."""

from __future__ import annotations

import time
from pathlib import Path

from palace_daemon.client import Client, NotRunningError, unreachable
from palace_daemon.errors import DaemonError

STOP_S = 10.0
"""How long to wait; the daemon ends itself by force after two seconds."""
_POLL_S = 0.02
_ENDING_S = 2.0
"""For one that has closed its socket and is about to let go of the directory."""


def end(data_dir: str | None) -> bool:
    """Stop the daemon and wait until it is gone; returns whether one was running.

    Raises:
        DaemonError: It is still there after :data:`STOP_S`, or there is one that cannot be reached.
    """
    client = Client(data_dir, timeout_s=STOP_S)
    try:
        with client:
            client.request("palace/stop")
    except NotRunningError:
        _await_free(client.data_dir, _ENDING_S)
        return False
    deadline = time.monotonic() + STOP_S
    while is_running(data_dir):
        if time.monotonic() > deadline:
            raise DaemonError(f"the daemon still runs {STOP_S:.0f} s after it was asked to stop")
        time.sleep(_POLL_S)
    # It lets go of the lock when the database is closed: only then may somebody copy or remove the directory.
    _await_free(client.data_dir, STOP_S)
    return True


def _await_free(data_dir: Path, timeout_s: float) -> None:
    """Wait until nobody holds the data directory; raises DaemonError where somebody goes on to."""
    from palace_daemon.rpc import endpoint  # noqa: PLC0415

    lock = endpoint.DataLock(data_dir)
    if not lock.path.exists():
        return
    try:
        lock.acquire(timeout_s)
    except endpoint.LockedError as exc:
        raise unreachable(data_dir, is_locked=True) from exc
    lock.release()


def is_running(data_dir: str | None) -> bool:
    """Return whether a daemon takes connections.

    Raises:
        DaemonError: Something else is in its place.
    """
    client = Client(data_dir, timeout_s=STOP_S)
    try:
        client.connect()
    except NotRunningError:
        return False
    client.close()
    return True
