"""Passes bytes between a pair of descriptors and the daemon's socket, until either side ends.

Frames are not looked at: the daemon does that. When input ends, only the sending side is closed, so that what was
asked is still answered; when the reader of our output is gone, nobody is left to answer, and we end.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading

BLOCK_BYTES = 64 * 1024
_POLL_MS = 500


def run(connection: socket.socket, source: int, target: int) -> None:
    """Pump ``source`` into ``connection`` and ``connection`` into ``target``.

    Returns when the daemon hung up, or nobody reads ``target`` any more.

    Args:
        connection: Connected, blocking.
        source: A readable descriptor.
        target: A writable one.
    """
    feeder = threading.Thread(target=_feed, args=(source, connection), name="palace-pump", daemon=True)
    feeder.start()
    with contextlib.suppress(ConnectionError, BrokenPipeError):
        _drain(connection, target)


def _feed(source: int, connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(source, BLOCK_BYTES):
            connection.sendall(data)
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)


def _drain(connection: socket.socket, target: int) -> None:
    while _wait_readable(connection, target):
        data = connection.recv(BLOCK_BYTES)
        if not data:
            return
        view = memoryview(data)
        while view:
            view = view[os.write(target, view) :]


def _wait_readable(connection: socket.socket, target: int) -> bool:
    """Return True when the daemon sent something or hung up, False when the reader of ``target`` is gone."""
    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    poll.register(target, 0)
    while True:
        ready = dict(poll.poll(_POLL_MS))
        if connection.fileno() in ready:
            return True
        if ready.get(target, 0) & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            return False
