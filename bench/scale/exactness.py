"""Whether the first ten are those of scoring every drawer from its stored vectors.

Recall leaves most drawers alone: what they can come to at most is below what others have. Here nothing is left alone,
and no bound takes part; what words, dates and weights are is the product's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palace_daemon.bench.scale.clients import LIMIT, NOW
from palace_daemon.bench.scale.questions import Question
from palace_daemon.core import rank
from palace_daemon.core.ports import Embedder, Float32
from palace_daemon.model import RecallQuery
from palace_daemon.service.cosines import Found
from palace_daemon.service.ranking import Ranking
from palace_daemon.service.recall import ModelState, Recall
from palace_daemon.store import matrix
from palace_daemon.store.mirror import Snapshot
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.store import Store

_NOW_MS = int(datetime.fromisoformat(NOW).timestamp() * 1_000)
_READ_ROWS = 8_192

Float64 = NDArray[np.float64]
OnAnswer = Callable[[], None]


def measure(store: Store, embedder: Embedder, questions: Sequence[Question], on_answer: OnAnswer) -> dict[str, Any]:
    """Return to how many of ``questions`` the first ten are the same drawers with the same scores, to the bit."""
    recall = Recall(store, lambda _space: ModelState(embedder, embedder.model_id, ""), lambda: 0, tuple)
    equal = 0
    with store.read_with_drawers() as (connection, drawers):
        everything = Everything(connection, drawers)
        for question in questions:
            ranked = recall.ranked(connection, drawers, RecallQuery(text=question.text, now=_NOW_MS, limit=LIMIT))
            equal += everything.has_the_same_first(ranked.ranking, embedder.embed_query(ranked.question.text))
            on_answer()
    return {"n": len(questions), "equal": equal}


class Everything:
    """All vectors of a store, as they are stored: 1.5 kB for each drawer and each statement."""

    def __init__(self, connection: Connection, drawers: Snapshot) -> None:
        """Read them; ``connection`` is in the transaction of ``drawers``."""
        self._drawers = drawers
        self._own = _read(connection, drawers.vectors)
        self._said = _read(connection, drawers.statements.vectors)

    def has_the_same_first(self, ranking: Ranking, query: Float32) -> bool:
        """Return whether the best drawers of a ranking without filters are those of the totals of all."""
        totals = self.totals(ranking, query)
        wanted = np.sort(rank.candidates(totals, LIMIT, self._drawers.started_at))
        best = ranking.best(LIMIT)
        order = np.argsort(best.rows)
        return np.array_equal(best.rows[order], wanted) and np.array_equal(best.totals[order], totals[wanted])

    def totals(self, ranking: Ranking, query: Float32) -> Float64:
        """Return float64 ``[n]``: the score of every drawer, ``-inf`` of those out of scope."""
        said = self._drawers.statements
        cosines = _cosines(self._said, query)
        wishes = np.where(said.is_wish, cosines, -1.0)
        runs = self._drawers.runs
        found = Found(
            _cosines(self._own, query), *(_best(one, said.runs, len(said.starts))[runs] for one in (cosines, wishes))
        )
        rows = np.arange(len(runs))
        totals = ranking.scored(rows, ranking.words.read(rows), found).totals
        return np.where(ranking.drawers.in_scope, totals, -np.inf)


def _read(connection: Connection, vectors: matrix.View) -> Float32:
    rows = np.arange(len(vectors.keys))
    parts = [vectors.read(connection, rows[at : at + _READ_ROWS]) for at in range(0, len(rows), _READ_ROWS)]
    return np.concatenate(parts) if parts else np.empty((0, 0), np.float32)


def _cosines(vectors: Float32, query: Float32) -> Float64:
    parts = (vectors[at : at + _READ_ROWS] for at in range(0, len(vectors), _READ_ROWS))
    found = [rank.exact_cosines(part, query) for part in parts]
    return np.concatenate(found) if found else np.empty(0)


def _best(values: Float64, runs: NDArray[np.int64], count: int) -> Float64:
    """Return the largest value of each run, and -1 for none."""
    best = np.full(count + 1, -1.0)
    np.maximum.at(best, runs, values)
    return best
