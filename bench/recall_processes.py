"""How a run of ``--bench recall`` ends when it is told to: the folders of its stores are cleared, no process stays.

Invariant: a worker lives no longer than its parent. It holds the reading end of a pipe whose writing end the parent
alone holds, so that the parent's end, however it comes, is seen as the end of the pipe.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import NoReturn

EXIT_STATUS = 128 + signal.SIGTERM
"""As a shell reports a process that SIGTERM ended."""
_GRACE_S = 30.0
"""What a worker has to clear up: a batch of long texts on a busy machine takes seconds, and no signal cuts it short."""


@contextlib.contextmanager
def sigterm_exits() -> Iterator[None]:
    """Turn SIGTERM into :class:`SystemExit`, so that what is open is closed; the former handler comes back.

    Does nothing outside the main thread, where handlers cannot be set.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if former is None else former)


def start_worker(lifeline: Connection) -> None:
    """Have this process end, in good order, with SIGTERM and with the other end of ``lifeline``."""
    if wait([lifeline], 0):
        leave()  # the run was ended while this process started
    signal.signal(signal.SIGTERM, _exit)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent ends its workers
    threading.Thread(target=_end_with, args=(lifeline,), name="lifeline", daemon=True).start()


def leave() -> NoReturn:
    """End this process at once: the pool would take a mere SystemExit for the result of a task and go on."""
    os._exit(EXIT_STATUS)


def _exit(_number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one, as `timeout` sends, would stop the clearing up
    raise SystemExit(EXIT_STATUS)


def _end_with(lifeline: Connection) -> None:
    wait([lifeline])
    if hasattr(signal, "pthread_kill"):  # only a signal to the main thread wakes it from a read
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    else:
        signal.raise_signal(signal.SIGTERM)
    time.sleep(_GRACE_S)
    leave()
