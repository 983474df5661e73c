"""Sessions drawn in a process of their own, ahead of the one that stores them: the same ones in the same order."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from palace_daemon.bench.scale.sessions import Session, draw_sessions

_SESSIONS = 64
"""Sent at once; the pipe holds hardly more, so the process is ahead by that many."""


@contextmanager
def drawing_ahead(seed: int) -> Generator[Iterator[Session]]:
    """Yield the sessions of :func:`~palace_daemon.bench.scale.sessions.draw_sessions`; the process ends with this."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(there, seed), daemon=True)
    process.start()
    there.close()
    try:
        yield itertools.chain.from_iterable(_received(here))
    finally:
        here.close()  # the other side notices when it sends next
        process.join()


def _received(here: Connection) -> Iterator[list[Session]]:
    while True:
        yield here.recv()


def _send(there: Connection, seed: int) -> None:
    sessions = draw_sessions(seed)
    with contextlib.suppress(BrokenPipeError), there:
        while True:
            there.send(list(itertools.islice(sessions, _SESSIONS)))
