"""Loads the mirror beside those who ask, and keeps what shortens the next start.

Questions that come before the vectors of a large store are in memory are answered by their words alone, and say so.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from palace_daemon.errors import ClosedError, PalaceError
from palace_daemon.store import kept_columns
from palace_daemon.store.mirror import Mirror
from palace_daemon.store.reader import Readers

logger = logging.getLogger(__name__)

_LOOK_S = 600.0
"""Between two looks whether enough changed for the columns to be kept anew."""
_CLOSE_S = 5.0

_KEEP_TRIES = 5
"""A store that is being written to changes between taking its columns and keeping them; mostly it does not."""

Save = Callable[[kept_columns.Packed], bool]


class Loading:
    """A thread that fills a mirror, and then looks after its kept columns. Thread-safe."""

    def __init__(self, mirror: Mirror, readers: Readers, save: Save) -> None:
        """Take the mirror, where it reads, and what writes columns down."""
        self._mirror = mirror
        self._readers = readers
        self._save = save
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="palace-loading", daemon=True)

    def start(self) -> None:
        """Begin; from here on the mirror leaves the vectors of a large store to this thread."""
        self._mirror.fill_later()
        self._thread.start()

    def close(self) -> None:
        """Stop; idempotent."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        try:
            self._fill()
        except ClosedError:
            return
        except Exception as exc:  # noqa: BLE001 - without this thread questions would be answered by words for ever
            logger.warning(
                "the vectors could not be read: %s", exc if isinstance(exc, PalaceError) else type(exc).__name__
            )
            self._mirror.drop()  # who asks next tries again, and hears what is wrong
        while not self._stop.is_set():
            self._keep()
            self._stop.wait(_LOOK_S)

    def _fill(self) -> None:
        is_more = True
        while is_more and not self._stop.is_set():
            with self._readers.snapshot() as connection:
                is_more = self._mirror.fill(connection)

    def _keep(self) -> None:
        try:
            for _ in range(_KEEP_TRIES):
                with self._readers.snapshot() as connection:
                    is_kept = kept_columns.generation(connection) is not None
                    self._mirror.at(connection)
                columns = self._mirror.worth_keeping(is_kept=is_kept)
                if columns is None:
                    return
                if self._save(kept_columns.pack(columns)):
                    self._mirror.was_kept()
                    return
        except PalaceError as exc:  # a copy: the next start reads everything
            logger.info("what the mirror holds was not kept: %s", exc)
