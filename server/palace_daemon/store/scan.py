"""Work that two threads share: the one that asks, and a helper where a processor is free for one.

First something is made, then come pieces of work that use it. Both are such as hold no interpreter lock: a model runs,
matrices are multiplied. The one who asks begins a scan, does other things meanwhile, and then does what is left of it;
so a scan never waits for others.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Made = TypeVar("Made")
Piece = Callable[[], None]

_FREE = threading.BoundedSemaphore(max(1, (os.cpu_count() or 1) - 1))
"""Helpers that may work at once: one processor is for whoever asks."""


class Scan(Generic[Made]):
    """Something to make, and a number of pieces, each done once."""

    def __init__(self, make: Callable[[], Made], pieces_of: Callable[[Made], Sequence[Piece]]) -> None:
        """Begin. ``pieces_of`` tells what is to be done with what was made; pieces must not depend on each other."""
        self._make = make
        self._pieces_of = pieces_of
        self._lock = threading.Lock()
        self._begun: tuple[Made, Sequence[Piece]] | None = None
        self._coming = itertools.count()
        self._failure: Exception | None = None
        self._helper: threading.Thread | None = None
        if _FREE.acquire(blocking=False):
            self._helper = _started(self._help)

    def finish(self) -> Made:
        """Do what is left; when this returns all is done. Raises what the making or a piece raised."""
        made = self._work()
        if self._helper is not None:
            self._helper.join()
        if self._failure is not None:
            raise self._failure
        return made

    def _help(self) -> None:
        try:
            self._work()
        except Exception as exc:  # noqa: BLE001 - raised where the scan is finished
            self._failure = exc
        finally:
            _FREE.release()

    def _work(self) -> Made:
        with self._lock:  # whoever comes second needs what is being made, and has nothing better to do
            if self._failure is not None:
                raise self._failure
            if self._begun is None:
                self._begun = self._beginning()
            made, pieces = self._begun
        while (at := next(self._coming)) < len(pieces):
            pieces[at]()
        return made

    def _beginning(self) -> tuple[Made, Sequence[Piece]]:
        try:
            made = self._make()
            return made, self._pieces_of(made)
        except Exception as exc:
            self._failure = exc
            raise


def _started(work: Callable[[], None]) -> threading.Thread | None:
    """Return a thread that works, or None where the system has none left: then whoever asks does it all."""
    thread = threading.Thread(target=work, name="palace-scan", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        _FREE.release()
        return None
    return thread
