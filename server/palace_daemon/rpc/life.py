"""When a daemon ends by itself: its data directory went away under it, or nobody has needed it for a while."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from palace_daemon.errors import DataGoneError, PalaceError
from palace_daemon.rpc import wire
from palace_daemon.rpc.endpoint import LOCK_NAME

logger = logging.getLogger(__name__)

LOOK_S = 2.0
"""Seconds between two looks at the data directory; a request looks as well."""
DATABASE_NAME = "palace.db"
"""Equals ``palace_daemon.store.sqlite.DATABASE_NAME``."""
_LOOKS_PER_LIMIT = 4
_LOOK_LEAST_S = 0.02
_Identity = tuple[int, int]


class Ground:
    """What a daemon stands on: its directory, the lock and the database, as they were when the store was opened.

    A file that was removed lives on for those who have it open, so that a daemon would go on reading transcripts into
    what nobody will ever see, and keep from everybody the question that it was given.
    """

    def __init__(self, data_dir: Path) -> None:
        """Remember what is there."""
        self._data_dir = data_dir
        paths = (data_dir, data_dir / LOCK_NAME, data_dir / DATABASE_NAME)
        self._known = {path: found for path in paths if (found := _identity(path)) is not None}

    def check(self) -> None:
        """Return where all is as it was; from any thread.

        Raises:
            DataGoneError: Something was removed, moved away, or put in the place of another.
        """
        for path, known in self._known.items():
            try:
                found = _identity(path)
            except OSError as exc:
                logger.warning("cannot look at %s: %s", path, exc.strerror)
                continue
            if found != known:
                hint = "the daemon ends; the next one begins with what is there then"
                raise DataGoneError(f"{path} was removed or replaced while the daemon was using it", hint=hint)


def _identity(path: Path) -> _Identity | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


class Idleness:
    """For how long nobody has been connected. Used on the event loop's thread."""

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin to count; ``limit_s`` of 0 never ends."""
        self._limit_s = limit_s
        self._clock = clock
        self._since = clock()

    @property
    def look_s(self) -> float:
        """Seconds between two looks."""
        return max(_LOOK_LEAST_S, min(LOOK_S, self._limit_s / _LOOKS_PER_LIMIT)) if self._limit_s else LOOK_S

    def reset(self) -> None:
        """Note that somebody was here, or left, just now."""
        self._since = self._clock()

    def is_over(self, clients: int) -> bool:
        """Return whether nobody has been here for so long."""
        if clients:
            self.reset()
        return bool(self._limit_s) and self._clock() - self._since >= self._limit_s


def is_working(status: wire.StatusResult) -> bool:
    """Return whether the daemon has something to do that it can do, or a pause to keep.

    Texts wait in the store for a vector; those that no model can give one, for now, keep no daemon.
    """
    if status.sources_pending or status.embedding.is_paused:
        return True
    if not status.vectors_pending or status.model_state.startswith("failed"):
        return False
    return not status.last_error or status.embedding.texts_per_s > 0 or status.model_state == "loading"


async def watch(
    ground: Ground,
    idleness: Idleness,
    *,
    clients: Callable[[], int],
    status: Callable[[], Awaitable[wire.StatusResult]],
    leave: Callable[[DataGoneError | None], None],
) -> None:
    """Look again and again, until cancelled or ``leave`` was called with the reason; None is idleness."""
    while True:
        await asyncio.sleep(idleness.look_s)
        try:
            ground.check()
            if not idleness.is_over(clients()) or is_working(await status()):
                continue
        except DataGoneError as exc:
            leave(exc)
            return
        except PalaceError as exc:
            logger.warning("cannot tell whether there is something to do: %s", exc)
            continue
        if not clients():
            leave(None)
            return
