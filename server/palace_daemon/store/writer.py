"""The one thread that writes.

Work is a function of the connection; it runs inside ``BEGIN IMMEDIATE`` and is committed, or rolled back whole when it
raises. The queue is bounded, so that producers slow down instead of filling memory. The thread does not die of a task.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from palace_daemon.errors import ClosedError
from palace_daemon.store import migrations, salvage, sqlite

logger = logging.getLogger(__name__)
T = TypeVar("T")
_QUEUE_TASKS = 64
_CLOSE_TIMEOUT_S = 10.0
_Task = tuple[Callable[[sqlite.Connection], Any], "Future[Any]", bool]
"""The work, who waits for it, and whether it has a transaction of its own."""


class Writer:
    """Owns the read-write connection. Thread-safe."""

    def __init__(self, path: Path, on_commit: Callable[[], None] = lambda: None) -> None:
        """Open ``path``, migrate it and start the thread; a repair that was broken off is finished first.

        ``on_commit`` is called after each commit by the thread that writes; it must neither block nor raise.

        Raises:
            StoreError: The file cannot be opened or is of a newer version.
        """
        self.path = path
        self._on_commit = on_commit
        salvage.finish(path)
        self._connection = sqlite.open_writer(path)
        try:
            with sqlite.mapped_errors(path):
                migrations.migrate(self._connection)
        except BaseException:
            self._connection.close()
            raise
        self._tasks: queue.Queue[_Task | None] = queue.Queue(_QUEUE_TASKS)
        self._closed = threading.Event()
        self._close_lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="palace-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[sqlite.Connection], T], *, in_transaction: bool = True) -> Future[T]:
        """Queue ``work`` for a transaction of its own, or for none; blocks while the queue is full.

        Raises:
            ClosedError: After :meth:`close`.
        """
        future: Future[T] = Future()
        with self._close_lock:
            if self._closed.is_set():
                raise ClosedError("the store is closed")
            self._tasks.put((work, future, in_transaction))
        return future

    def run(self, work: Callable[[sqlite.Connection], T]) -> T:
        """Run ``work`` in a transaction and return its result; blocks. Raises what ``work`` raises."""
        return self.submit(work).result()

    def run_bare(self, work: Callable[[sqlite.Connection], T]) -> T:
        """Run ``work`` outside any transaction and return its result; blocks. Raises what ``work`` raises."""
        return self.submit(work, in_transaction=False).result()

    def close(self) -> None:
        """Finish what is queued, then close; idempotent."""
        with self._close_lock:
            if self._closed.is_set():
                return
            self._closed.set()
            self._tasks.put(None)
        self._thread.join(_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            work, future, in_transaction = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = self._transact(work) if in_transaction else self._bare(work)
            except BaseException as exc:  # noqa: BLE001 - the waiting thread gets it; this thread lives on
                future.set_exception(exc)
            else:
                future.set_result(result)
        self._shut()

    def _transact(self, work: Callable[[sqlite.Connection], T]) -> T:
        with sqlite.mapped_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(self._connection)
                self._connection.execute("COMMIT")
            except BaseException:
                # A full disk can have rolled back already; a second ROLLBACK would hide the cause.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        self._on_commit()
        return result

    def _bare(self, work: Callable[[sqlite.Connection], T]) -> T:
        with sqlite.mapped_errors(self.path):
            return work(self._connection)

    def _shut(self) -> None:
        try:
            with sqlite.mapped_errors(self.path):
                self._connection.execute("PRAGMA optimize")
        except Exception:
            logger.exception("could not tidy the store on close")
        finally:
            self._connection.close()
