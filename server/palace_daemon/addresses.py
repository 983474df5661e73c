"""Where the daemon of a data directory is reached, and whether what is there is this user's. Standard library only."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from palace_daemon import places, starting
from palace_daemon.errors import DaemonError

_POLL_S = 0.02
_QUEUE_S = 5.0


class NotRunningError(DaemonError):
    """No daemon serves the data directory."""


def not_running(data_dir: os.PathLike[str]) -> NotRunningError:
    """Return what to raise where none does."""
    return NotRunningError(f"no daemon serves {os.fspath(data_dir)}", hint="palace-daemon serve starts one")


def at_either(data_dir: Path, usual: Path, connect: Callable[[Path], None]) -> None:
    """Connect at the usual place, or at the one that the daemon wrote down, where files have the same names.

    What is wrong with the latter is of no matter: it may have been written down on another machine, or long ago.

    Raises:
        NotRunningError: None can be reached at either.
        Exception: What ``connect`` raises at the usual place besides.
    """
    try:
        connect(usual)
    except NotRunningError as exc:
        elsewhere = _elsewhere(data_dir, usual)
        if elsewhere is None:
            raise
        try:
            connect(elsewhere)
        except DaemonError:
            raise exc from None


def _elsewhere(data_dir: Path, usual: Path) -> Path | None:
    told = starting.socket_in_lock(data_dir)
    return None if told is None or told.parent == usual.parent else told.with_name(usual.name)


def check_owner(path: Path, *, is_file: bool = False) -> None:
    """Check that nobody else can have put the socket at ``path`` there: a question is told to whoever listens.

    With ``is_file`` it is the file that tells of a port, and nobody else may read it either.

    Raises:
        NotRunningError: There is none.
        DaemonError: It, or its directory, belongs to another user or can be changed by one.
    """
    if sys.platform == "win32":
        return  # what lies in a person's profile there is that person's
    try:
        directory, found = path.parent.lstat(), path.lstat()
    except FileNotFoundError as exc:
        raise NotRunningError("no daemon is running", hint="palace-daemon serve starts one") from exc
    except OSError as exc:
        raise DaemonError(f"cannot look at {path}: {exc.strerror}") from exc
    if {directory.st_uid, found.st_uid} != {os.getuid()}:
        raise DaemonError(f"{path} belongs to another user", hint="set XDG_RUNTIME_DIR to a directory of your own")
    if not stat.S_ISDIR(directory.st_mode) or stat.S_IMODE(directory.st_mode) & 0o022:
        raise DaemonError(f"others may change {path.parent}", hint="chmod it to 0700")
    if not (stat.S_ISREG if is_file else stat.S_ISSOCK)(found.st_mode):
        raise DaemonError(f"{path} is no {'file' if is_file else 'socket'}", hint="move it away")
    if is_file and stat.S_IMODE(found.st_mode) & 0o077:
        raise DaemonError(f"others may read {path}", hint="palace-daemon stop, then start it anew")


def loopback_port(data_dir: str | os.PathLike[str] | None) -> int | None:
    """Return the port of this machine that a daemon answers on as well; None where it does not."""
    data = places.data_dir(data_dir)
    usual = places.tcp_file(data)
    for file in filter(None, (usual, _elsewhere(data, usual))):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return int(_told_in(file)["port"])
    return None


def _told_in(tcp_file: Path) -> dict[str, Any]:
    told = json.loads(tcp_file.read_text(encoding="ascii"))
    return {"port": int(told["port"]), "token": str(told["token"]), "proof": str(told["proof"])}


def read_tcp_file(path: Path, data_dir: os.PathLike[str]) -> dict[str, Any]:
    """Return port, token and proof of the daemon of ``data_dir``.

    Raises:
        NotRunningError: There is no such file.
        DaemonError: It is not this user's alone, or is no such file.
    """
    check_owner(path, is_file=True)
    try:
        return _told_in(path)
    except FileNotFoundError as exc:
        raise not_running(data_dir) from exc
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise DaemonError(f"cannot use {path}", hint="palace-daemon stop, then start it anew") from exc


def connect(connection: socket.socket, address: str | tuple[str, int]) -> None:
    """Connect; waits a while if the daemon's queue is full, which a socket with a timeout would report at once."""
    deadline = time.monotonic() + _QUEUE_S
    while True:
        try:
            connection.connect(address)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)
        else:
            return


def check_peer(connection: socket.socket) -> None:
    """Check that the process at the other end of a Unix socket is this user's, where the system tells.

    Raises:
        DaemonError: It is another user's.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return
    credentials = connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
    if struct.unpack("3i", credentials)[1] != os.getuid():
        raise DaemonError("another user answers on the daemon's socket")
