"""What a mirror says, in a form in which two mirrors can be compared."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import patch

import numpy as np

from palace_daemon.store import kept_columns, vectors
from palace_daemon.store.mirror import Mirror, Snapshot

DIM = 8


def view(snapshot: Snapshot) -> dict[int, tuple[Any, ...]]:
    """Return what the snapshot says of each drawer, without row numbers; of vectors what is remembered."""
    rows = np.flatnonzero(snapshot.ids >= 0)
    found = {}
    for row in rows.tolist():
        vector = snapshot.vectors.near(np.array([row]))[0].tolist() if snapshot.has_vector[row] else None
        said, _ = snapshot.statements.rows(snapshot.exchanges[row : row + 1])
        found[int(snapshot.ids[row])] = (
            int(snapshot.sessions[row]),
            snapshot.project_names[snapshot.projects[row]],
            snapshot.agent_names[snapshot.agents[row]],
            int(snapshot.started_at[row]),
            float(snapshot.lengths[row]),
            int(snapshot.exchanges[row]),
            sorted(snapshot.statements.vectors.near(said).tolist()),
            bool(snapshot.is_live[row]),
            vector,
        )
        assert snapshot.rows_of(np.array([snapshot.ids[row]]))[0] == row
    return found


def embed_pending(store: Any, dice: random.Random, limit: int, model: str = "m") -> None:
    """Give up to ``limit`` texts that wait for one a random vector of the answering ``model``."""
    with store.read() as connection:
        queued = vectors.pending(connection, limit)
    if queued:
        matrix = np.array([[dice.random() for _ in range(DIM)] for _ in queued], np.float32)
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
        store.save_vectors(model, [hash_ for hash_, _ in queued], matrix)


def fresh(store: Any) -> dict[int, tuple[Any, ...]]:
    """Return what a mirror says that reads the tables, kept columns or not."""
    return view(_loaded(store))


def said(snapshot: Snapshot) -> list[tuple[int, bool, list[float]]]:
    """Return the living statements: exchange, whether a wish, vector."""
    held = snapshot.statements
    exchanges = np.arange(len(held.newest_runs) + 3)
    rows, owners = held.rows(exchanges)
    vectors = held.vectors.near(rows).tolist()
    return sorted(zip(exchanges[owners].tolist(), held.is_wish[rows].tolist(), vectors, strict=True))


def said_fresh(store: Any) -> list[tuple[int, bool, list[float]]]:
    """Return the living statements of a mirror that reads the tables."""
    return said(_loaded(store))


def _loaded(store: Any) -> Snapshot:
    with store.read() as connection, patch.object(kept_columns, "load", return_value=None):
        snapshot = Mirror().at(connection)
        assert snapshot is not None
        return snapshot
