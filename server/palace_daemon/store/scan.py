"""Work in pieces that two threads share: the one that asks, and a helper where a processor is free for one.

The pieces are products of matrices, which hold no interpreter lock. The one who asks begins a scan, does other things
meanwhile, and then does what is left of it; so a scan never waits for others.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence

_FREE = threading.BoundedSemaphore(max(1, (os.cpu_count() or 1) - 1))
"""Helpers that may work at once: one processor is for whoever asks."""


class Scan:
    """A number of pieces, each done once."""

    def __init__(self, pieces: Sequence[Callable[[], None]]) -> None:
        """Begin. Pieces must not depend on each other."""
        self._pieces = pieces
        self._coming = itertools.count()
        self._failure: Exception | None = None
        self._helper: threading.Thread | None = None
        if len(pieces) > 1 and _FREE.acquire(blocking=False):
            self._helper = _started(self._help)

    def finish(self) -> None:
        """Do what is left; when this returns all is done. Raises what a piece raised."""
        self._work()
        if self._helper is not None:
            self._helper.join()
        if self._failure is not None:
            raise self._failure

    def _help(self) -> None:
        try:
            self._work()
        except Exception as exc:  # noqa: BLE001 - raised where the scan is finished
            self._failure = exc
        finally:
            _FREE.release()

    def _work(self) -> None:
        for at in self._coming:
            if at >= len(self._pieces):
                return
            self._pieces[at]()


def _started(work: Callable[[], None]) -> threading.Thread | None:
    """Return a thread that works, or None where the system has none left: then whoever asks does it all."""
    thread = threading.Thread(target=work, name="palace-scan", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        _FREE.release()
        return None
    return thread
