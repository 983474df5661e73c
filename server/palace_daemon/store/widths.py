"""Of what width the vectors of a model are, and which rows of the table hold something else.

A damaged row is no reason to answer nothing: its text counts as one without a vector, the log says so once, and
``doctor --fix`` has it embedded again.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Sequence

from palace_daemon.store import packing
from palace_daemon.store.sqlite import Connection

logger = logging.getLogger(__name__)

_SAMPLE_ROWS = 101
"""So few are looked at for the width: all of a small store, and of a large one enough to outvote damage."""
_SAMPLE = "SELECT CAST(vector AS BLOB) FROM vectors INDEXED BY vectors_generation WHERE space=? LIMIT ?"
_TOLD_ROWS = 5


class Once:
    """What was told of already. Thread-safe."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._lock = threading.Lock()
        self._told: set[int] = set()

    def news(self, found: Iterable[int]) -> list[int]:
        """Return those that were not told of, in order; they are from now on."""
        with self._lock:
            news = sorted(set(found) - self._told)
            self._told.update(news)
        return news


class Widths:
    """Tells stored vectors of one space from damage. Thread-safe, since all threads learn the same width."""

    def __init__(self, once: Once | None = None) -> None:
        """Begin without a width; :meth:`learn` finds it. ``once`` knows what needs no telling any more."""
        self._bytes = 0
        self._once = once or Once()

    def learn(self, connection: Connection, space: int) -> None:
        """Find the width of a space's vectors: that of most which are of length 1, as damaged ones are not."""
        sample = [row[0] for row in connection.execute(_SAMPLE, (space, _SAMPLE_ROWS))]
        votes = Counter(len(one) for one in sample if packing.is_packed(one) and packing.is_unit(one))
        self._bytes = max(votes, key=lambda width: (votes[width], width), default=0)

    def unsound(self, connection: Connection, space: int, rows: Sequence[tuple[int | None, bytes | None]]) -> set[int]:
        """Return the ids of those rows that hold no vector of the space; the log gets each of them once.

        Args:
            connection: In the transaction in which they were read.
            space: Whose vectors they are.
            rows: Row in the table of vectors and what it holds, cast to bytes; None for a text that has no vector.
        """
        stored = [one for _, one in rows if one is not None]
        if not stored:
            return set()
        if not self._bytes:
            self.learn(connection, space)
        if set(map(len, stored)) == {self._bytes}:
            return set()
        found = {row_id for row_id, one in rows if row_id is not None and len(one or b"") != self._bytes}
        self._tell(found)
        return found

    def _tell(self, found: Iterable[int]) -> None:
        if news := self._once.news(found):
            logger.warning(
                "vectors of another width than their model's, in rows %s%s of the table `vectors`: their texts are"
                " found by their words alone until `palace-daemon doctor --fix` has them embedded again",
                ", ".join(map(str, news[:_TOLD_ROWS])),
                f" and {len(news) - _TOLD_ROWS} more" if len(news) > _TOLD_ROWS else "",
            )
