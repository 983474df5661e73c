"""A lock between processes that the operating system drops when its holder dies."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from palace_daemon.errors import CancelledError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palace_daemon.core.ports import StopSignal

POLL_S = 0.1
"""Between two tries: a waiting install is slow work anyway, and must notice a stop."""

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def exclusive(path: Path, stop: StopSignal | None = None) -> Iterator[None]:
    """Hold the lock file at ``path``, waiting for another holder; threads of one process exclude each other too.

    The file stays: removing it would let two holders lock two files of one name.

    Raises:
        CancelledError: ``stop`` was set while waiting.
        OSError: The file cannot be made.
    """
    with path.open("ab") as file:
        while not _try_lock(file):
            if stop is not None and stop.is_set():
                raise CancelledError("stopped while waiting for another install")
            time.sleep(POLL_S)
        yield
