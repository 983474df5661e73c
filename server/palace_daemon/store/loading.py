"""Keeps the mirror near the store beside those who ask, and keeps what shortens the next start.

Who asks brings the mirror up to the transaction of the question. This thread does so after each commit, so that little
is left to do however much is mined while nobody asks. What a large store needs anew (at the start, after a switch of
models, where most of it changed) is loaded here, and its vectors are read batch by batch: questions that come before
all are in memory are answered by their words alone, and say so.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from palace_daemon.errors import ClosedError, PalaceError
from palace_daemon.store import kept_columns
from palace_daemon.store.mirror import Mirror
from palace_daemon.store.reader import Readers

logger = logging.getLogger(__name__)

_LOOK_S = 600.0
"""Between two looks whether enough changed for the columns to be kept anew."""
_PAUSE_S = 1.0
"""From a commit to following it: while an archive is read there are dozens a second."""
_CLOSE_S = 5.0

_KEEP_TRIES = 5
"""A store that is being written to changes between taking its columns and keeping them; mostly it does not."""

Save = Callable[[kept_columns.Packed], bool]


class Loading:
    """A thread that follows the store with a mirror, fills it, and looks after its kept columns. Thread-safe."""

    def __init__(self, mirror: Mirror, readers: Readers, save: Save) -> None:
        """Take the mirror, where it reads, and what writes columns down.

        From here on the mirror leaves the vectors of a large store to this thread.
        """
        self._mirror = mirror
        self._readers = readers
        self._save = save
        self._stop = threading.Event()
        self._is_due = threading.Event()
        self._is_wanted_now = threading.Event()
        self._thread = threading.Thread(target=self._run, name="palace-loading", daemon=True)
        mirror.fill_later(self._wake)

    def start(self) -> None:
        """Begin; idempotent, for one caller."""
        if self._thread.ident is None:
            self._thread.start()

    def follow(self) -> None:
        """Note that something was committed. Returns at once."""
        self._is_due.set()

    def close(self) -> None:
        """Stop; idempotent."""
        self._stop.set()
        self._wake()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_S)

    def _wake(self) -> None:
        self._is_wanted_now.set()
        self._is_due.set()

    def _run(self) -> None:
        kept_at = float("-inf")
        while not self._stop.is_set():
            self._is_due.clear()
            self._is_wanted_now.clear()
            try:
                self._fill()
            except ClosedError:
                return
            except Exception as exc:  # noqa: BLE001 - without this thread questions would be answered by words for ever
                reason = exc if isinstance(exc, PalaceError) else type(exc).__name__
                logger.warning("what memory holds of the store cannot be brought up: %s", reason)
                self._mirror.drop()  # who asks next tries again, and hears what is wrong
                self._stop.wait(_LOOK_S)
                continue
            if time.monotonic() - kept_at >= _LOOK_S:
                self._keep()
                kept_at = time.monotonic()
            if self._is_due.wait(_LOOK_S):
                self._is_wanted_now.wait(_PAUSE_S)

    def _fill(self) -> None:
        is_more = True
        while is_more and not self._stop.is_set():
            with self._readers.snapshot() as connection:
                is_more = self._mirror.fill(connection)
        self._mirror.fill_later(self._wake)  # again, where something had gone wrong

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
