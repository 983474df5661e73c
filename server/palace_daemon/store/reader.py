"""Read-only connections, borrowed and given back.

A borrowed connection is inside one read transaction: all its queries see one state of the store.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from palace_daemon.errors import ClosedError
from palace_daemon.store import migrations, sqlite


class Readers:
    """A pool of read-only connections. Thread-safe; grows with the number of readers at once."""

    def __init__(self, path: Path) -> None:
        """Remember ``path``; connections are opened when first needed."""
        self.path = path
        self._idle: list[sqlite.Connection] = []
        self._lock = threading.Lock()
        self._is_closed = False

    @contextmanager
    def snapshot(self) -> Iterator[sqlite.Connection]:
        """Yield a connection inside a read transaction that began before this returns.

        Raises:
            ClosedError: After :meth:`close`.
            StoreError: The store cannot be opened or read.
        """
        with self.begun() as connection:
            connection.execute("SELECT generation FROM state").fetchone()  # takes the snapshot now
            yield connection

    @contextmanager
    def begun(self) -> Iterator[sqlite.Connection]:
        """Like :meth:`snapshot`, but the state is taken by the first query.

        A connection whose borrower failed is closed: a cursor that was read half, and that the exception keeps alive,
        would hold it in the state that it began with, whatever is begun on it next.
        """
        connection = self._take()
        is_sound = False
        try:
            with sqlite.mapped_errors(self.path):
                connection.execute("BEGIN")
                try:
                    yield connection
                    is_sound = True
                except BaseException as exc:
                    traceback.clear_frames(exc.__traceback__)
                    raise
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
        finally:
            self._give_back(connection, is_sound=is_sound)

    def close(self) -> None:
        """Close idle connections; borrowed ones close when given back. Idempotent."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> sqlite.Connection:
        with self._lock:
            if self._is_closed:
                raise ClosedError("the store is closed")
            if self._idle:
                return self._idle.pop()
        connection = sqlite.open_reader(self.path)
        try:
            with sqlite.mapped_errors(self.path):
                migrations.check_version(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, connection: sqlite.Connection, *, is_sound: bool) -> None:
        with self._lock:
            if is_sound and not self._is_closed:
                self._idle.append(connection)
                return
        connection.close()
