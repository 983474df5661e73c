"""Starting a daemon in the background, and which version of one runs. Standard library only, as the client is."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from palace_daemon import places
from palace_daemon.errors import DaemonError

if TYPE_CHECKING:
    import subprocess

EXIT_LOCKED = 4
"""Exit code of a daemon that found another one in its place; equals ``palace_daemon.rpc.serve.EXIT_LOCKED``."""
LOCK_NAME = "daemon.lock"
"""Equals ``palace_daemon.rpc.endpoint.LOCK_NAME``."""
_ERROR_CHARS_MAX = 2_000
_LOCK_BYTES_MAX = 4_096


def start_in_background(data_dir: str | os.PathLike[str] | None = None) -> None:
    """Start a daemon and wait for nothing: a later call finds it. What ended it at once, its log says.

    Raises:
        OSError: No process can be started.
    """
    with Starting(places.data_dir(data_dir)):
        pass


class Starting:
    """A daemon that is being started in the background. Use as a context manager."""

    def __init__(self, data_dir: os.PathLike[str]) -> None:
        import subprocess  # noqa: PLC0415 - 10 ms that most calls need not pay
        import tempfile  # noqa: PLC0415

        # The daemon's complaints go to a file without a name: a pipe would break under it once we are gone.
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        self._process: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-m", "palace_daemon", "--data-dir", os.fspath(data_dir), "serve", "--detached"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._complaints,
            # `-m` puts the working directory on the import path, and we may be called from any project.
            cwd=Path(data_dir).anchor,
            start_new_session=True,
        )
        # Collects the exit code even if that is long after we connected, so that no zombie stays behind.
        self._waiter = threading.Thread(target=self._process.wait, name="palace-daemon-waiter", daemon=True)
        self._waiter.start()

    def has_ended(self) -> bool:
        """Return whether the process ended because another daemon has the place; False while it lives.

        Raises:
            DaemonError: It ended for another reason.
        """
        code = self._process.returncode
        if code is None:
            return False
        if code == EXIT_LOCKED:
            return True
        self._complaints.seek(0)
        text = self._complaints.read(1 << 16).decode("utf-8", "replace").strip()
        words = text.rpartition("palace-daemon: ")[2][:_ERROR_CHARS_MAX] or f"exit code {code}"
        raise DaemonError(f"the daemon did not start: {words}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, frames: TracebackType | None
    ) -> None:
        self._complaints.close()


def version_in_lock(data_dir: Path) -> str:
    """Return the version of the daemon that took the lock last, as it wrote it; empty where that cannot be read."""
    return _told_in_lock(data_dir, "version")


def socket_in_lock(data_dir: Path) -> Path | None:
    """Return the socket of the daemon that took the lock last, as it wrote it; None where that cannot be read.

    It is elsewhere than :func:`palace_daemon.places.socket_path` says where the daemon was started with another
    runtime or temporary directory: by a session of cron or ssh, or from a desktop.
    """
    told = _told_in_lock(data_dir, "socket")
    return Path(told) if os.path.isabs(told) and "\0" not in told else None


def _told_in_lock(data_dir: Path, name: str) -> str:
    """Return what the lock file says. Not of the pid: that may be another process's by now."""
    try:
        with (data_dir / LOCK_NAME).open("rb") as file:
            return str(json.loads(file.read(_LOCK_BYTES_MAX))[name])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def is_newer(version: str, other: str) -> bool:
    """Return whether ``version`` is a later release than ``other``; what follows the numbers does not count."""
    return _numbers(version) > _numbers(other)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
