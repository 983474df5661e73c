"""Work that two threads share: the one that asks, and a helper where a processor is free for one.

First something is made, then come pieces of work that use it. Both are such as hold no interpreter lock: a model runs,
matrices are multiplied. The one who asks begins a scan, does other things meanwhile, and then does what is left of it;
so a scan never waits for others. Helpers stay: starting a thread for each question took one to three milliseconds.
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Made = TypeVar("Made")
Piece = Callable[[], None]


class Helpers:
    """Threads that wait for work, as many as were ever needed at once. Thread-safe."""

    def __init__(self, most: int) -> None:
        """Begin with none; ``most`` may work at once."""
        self._most = most
        self._line: queue.SimpleQueue[tuple[Piece, Piece]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._busy_count = self._thread_count = 0

    def begin(self, work: Piece, then: Piece) -> bool:
        """Have a helper do ``work``, and ``then`` when it is free again; return whether there is one for it.

        Neither may raise anything.
        """
        with self._lock:
            if self._busy_count == self._most:
                return False
            if self._busy_count == self._thread_count:
                try:
                    threading.Thread(target=self._help, name="palace-scan", daemon=True).start()
                except RuntimeError:  # the system has no thread left
                    return False
                self._thread_count += 1
            self._busy_count += 1
        self._line.put((work, then))
        return True

    def _help(self) -> None:
        while True:
            work, then = self._line.get()
            work()
            with self._lock:
                self._busy_count -= 1
            then()


HELPERS = Helpers(max(1, (os.cpu_count() or 1) - 1))
"""One processor is for whoever asks."""


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
        self._is_helper_waited_for: bool | None = None
        """None until either the helper comes or whoever asks has done everything without it."""
        self._is_helped = threading.Event()
        if not HELPERS.begin(self._help, self._is_helped.set):
            self._is_helper_waited_for = False

    def finish(self) -> Made:
        """Do what is left; when this returns all is done. Raises what the making or a piece raised."""
        made = self._work()
        if self._settle(is_helper=False):
            self._is_helped.wait()
        if self._failure is not None:
            raise self._failure
        return made

    def _settle(self, *, is_helper: bool) -> bool:
        """Return whether the helper takes part; who comes first decides."""
        with self._lock:
            if self._is_helper_waited_for is None:
                self._is_helper_waited_for = is_helper
            return self._is_helper_waited_for

    def _help(self) -> None:
        if not self._settle(is_helper=True):
            return
        try:
            self._work()
        except Exception as exc:  # noqa: BLE001 - raised where the scan is finished
            self._failure = exc

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
