"""The daemon's claim to a data directory: a lock, and a private socket that nobody else can stand in for.

Standard library only, so that the socket listens before anything heavy is imported. The kernel drops the lock when
the process dies, however it dies. What the lock file holds is for people to read, and for clients that look for the
socket elsewhere than the daemon made it; no pid in it is ever signalled.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import signal
import socket
import stat
import struct
import sys
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Self

from palace_daemon import __version__, places
from palace_daemon.errors import DaemonError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

logger = logging.getLogger(__name__)

LOCK_NAME = "daemon.lock"
_BACKLOG = 64
_PROBE_S = 1.0
"""How long the owner of a socket path may take to accept before it counts as alive but stuck."""
_made: weakref.WeakKeyDictionary[socket.socket, tuple[int, int, int]] = weakref.WeakKeyDictionary()
"""Which file each listener made."""
_LOCK_BYTE = 1 << 20
"""Windows locks are mandatory, so a byte far behind the text is locked and the text stays readable."""


class LockedError(DaemonError):
    """Another daemon serves the data directory."""


class DataLock:
    """Holds a data directory for one daemon. Use as a context manager."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / LOCK_NAME
        self._fd = -1

    def acquire(self, timeout_s: float = 0.0) -> None:
        """Take the lock, and write who holds it.

        Raises:
            LockedError: Another process holds it for longer than ``timeout_s``.
            DaemonError: The directory or the file cannot be made, or something other than a file is in the way.
        """
        make_private_dir(self.path.parent)
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as exc:
            raise DaemonError(f"cannot open {self.path}: {exc.strerror}") from exc
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            self.release()
            raise DaemonError(f"{self.path} is in the way: it is no file", hint="move it")
        deadline = time.monotonic() + timeout_s
        while not _try_lock(self._fd):
            if time.monotonic() >= deadline:
                self.release()
                raise LockedError(f"another daemon serves {self.path.parent}", hint="palace-daemon status shows it")
            time.sleep(0.02)
        self._write_holder()

    def _write_holder(self) -> None:
        """Write who holds the lock, and where it listens; a full disk is no reason to give it up."""
        listens_at = os.fspath(places.socket_path(self.path.parent))
        told = {"pid": os.getpid(), "version": __version__, "socket": listens_at}
        try:
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
            os.write(self._fd, json.dumps(told).encode() + b"\n")
        except OSError as exc:
            logger.warning("cannot write who holds %s: %s", self.path, exc.strerror)

    def release(self) -> None:
        """Let go of the lock; idempotent. The file stays: removing it would let two processes lock two files."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        if self._fd < 0:
            self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.release()


def _try_lock(fd: int) -> bool:
    try:
        if sys.platform == "win32":
            os.lseek(fd, _LOCK_BYTE, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        if exc.errno in {errno.EACCES, errno.EAGAIN, errno.EDEADLK}:
            return False
        raise DaemonError(
            f"cannot lock the data directory: {exc.strerror}", hint="the file system must support locks"
        ) from exc
    return True


def ending_signals() -> list[signal.Signals]:
    """Return the signals that end the daemon; one that the starter had ignored (``nohup``) stays ignored."""
    names = ("SIGTERM", "SIGINT", "SIGHUP")
    known = [signal.Signals[name] for name in names if name in signal.Signals.__members__]
    return [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]


def make_private_dir(path: Path) -> None:
    """Make ``path`` a directory that only this user can enter.

    Raises:
        DaemonError: It belongs to somebody else, is a link or no directory, or cannot be made.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
        if sys.platform == "win32":
            return
        if found.st_uid != os.getuid():
            raise DaemonError(f"{path} belongs to user id {found.st_uid}, not to you", hint="choose another --data-dir")
        if stat.S_IMODE(found.st_mode) & 0o077:
            path.chmod(0o700)
    except OSError as exc:
        raise DaemonError(f"cannot use {path}: {exc.strerror}") from exc


def make_socket_dir(path: Path) -> None:
    """Make the socket's directory; stricter than :func:`make_private_dir`, since it can lie in ``/tmp``.

    Raises:
        DaemonError: As there, and where the directory is a link: its target could be exchanged later.
    """
    if path.is_symlink():
        raise DaemonError(f"{path} is a link, not a directory", hint="remove it")
    make_private_dir(path)


def listen(path: Path) -> socket.socket:
    """Return a listening Unix socket at ``path``, mode 0600; call it with the data directory's lock held.

    A socket that nobody answers at is a dead daemon's, and is replaced.

    Raises:
        DaemonError: Somebody answers there, something other than a socket is in the way, or binding fails.
    """
    if sys.platform == "win32":
        raise DaemonError("there are no Unix sockets on Windows: the daemon listens on a port of 127.0.0.1 there")
    make_socket_dir(path.parent)
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # bind() makes the file with the umask's mode; the directory keeps others out in the moment before chmod.
    try:
        listener.bind(os.fspath(path))
        path.chmod(0o600)
        listener.listen(_BACKLOG)
    except OSError as exc:
        listener.close()
        raise DaemonError(f"cannot listen on {path}: {exc.strerror}") from exc
    listener.setblocking(False)
    _made[listener] = _identity(path)
    return listener


def _remove_stale(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise DaemonError(f"{path} is in the way: it is no socket", hint="move it")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            return
        except OSError as exc:
            raise DaemonError(f"cannot tell whether {path} is in use: {exc.strerror or exc}") from exc
    raise DaemonError(
        f"a daemon whose data directory was moved or removed still answers on {path}", hint="end that process"
    )


def remove_socket(path: Path, listener: socket.socket) -> None:
    """Close ``listener`` and remove its file; call it with the lock still held.

    Where the data directory was replaced, the lock keeps nobody out: then the file may be another daemon's by now, and
    stays.
    """
    known = _made.pop(listener, None)
    listener.close()
    with contextlib.suppress(OSError):
        if known is None or known == _identity(path):
            path.unlink()


class Door:
    """The daemon's socket, made anew where its file was taken away: by a cleaner of ``/tmp``, by a logout, by hand.

    A daemon without it would hold the lock and be out of reach. Not thread-safe.
    """

    def __init__(self, path: Path) -> None:
        """Listen at ``path``; see :func:`listen`."""
        self._path = path
        self._is_told = False
        self.listener = listen(path)

    def renewed(self) -> socket.socket | None:
        """Return a new listener where the file is gone; the former one is then the caller's to close.

        None where all is well, and where no socket can be made now: that is logged once, and tried again next time.
        """
        if os.path.lexists(self._path):
            return None
        try:
            self.listener = listen(self._path)
        except DaemonError as exc:
            if not self._is_told:
                logger.warning("the socket was removed, and cannot be made anew: %s", exc)
            self._is_told = True
            return None
        logger.warning("the socket was removed: made it anew")
        self._is_told = False
        return self.listener

    def close(self) -> None:
        """Stop listening; see :func:`remove_socket`."""
        remove_socket(self._path, self.listener)


def _identity(path: Path) -> tuple[int, int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino, found.st_mtime_ns  # inode numbers are used again soon


def is_peer_allowed(connection: socket.socket) -> bool:
    """Return whether the process at the other end runs as this user; True where the platform cannot tell.

    The socket's mode and its directory keep others out already; this holds where a file system ignores modes.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    size = struct.calcsize("3i")
    _pid, uid, _gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, size))
    return bool(uid == os.getuid())
