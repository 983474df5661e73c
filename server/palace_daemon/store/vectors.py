"""Vectors by text and model, and the queue of texts that still lack one.

A vector is float32, little-endian, L2 = 1. Rows are keyed by the hash of the drawer's text, so equal texts are
embedded once and a drawer that moves keeps its vector. Two models never meet in one query.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palace_daemon.core import chunking
from palace_daemon.core.ports import Float32
from palace_daemon.store.spans import columns_of, span_of
from palace_daemon.store.sqlite import Connection

_NO_DATE = -(1 << 62)
"""Sorts undated texts after all dated ones."""


def want(connection: Connection, text_hash: bytes, started_at: int | None) -> None:
    """Queue a text for the active model unless it has its vector."""
    connection.execute(
        "INSERT INTO pending_texts(text_hash, started_at) SELECT ?,? WHERE NOT EXISTS"
        " (SELECT 1 FROM vectors WHERE text_hash=? AND model=(SELECT model FROM state)) ON CONFLICT DO NOTHING",
        (text_hash, _NO_DATE if started_at is None else started_at, text_hash),
    )


def use_model(connection: Connection, model_id: str) -> bool:
    """Make ``model_id`` the active model, queueing the texts that lack its vector; returns whether it changed."""
    (active,) = connection.execute("SELECT model FROM state").fetchone()
    if active == model_id:
        return False
    connection.execute("UPDATE state SET model=?, generation=generation+1", (model_id,))
    connection.execute("DELETE FROM pending_texts")
    connection.execute(
        "INSERT INTO pending_texts SELECT d.text_hash, max(coalesce(e.started_at, ?)) FROM drawers d"
        " JOIN exchanges e ON e.id=d.exchange_id"
        " WHERE NOT EXISTS (SELECT 1 FROM vectors v WHERE v.text_hash=d.text_hash AND v.model=?) GROUP BY d.text_hash",
        (_NO_DATE, model_id),
    )
    return True


def pending(connection: Connection, limit: int) -> list[tuple[bytes, str]]:
    """Return up to ``limit`` queued texts, newest first, as (hash, text)."""
    rows = connection.execute(
        f"SELECT p.text_hash, e.user_text, e.reply_text, {columns_of('d')}"
        " FROM (SELECT text_hash, started_at FROM pending_texts ORDER BY started_at DESC, text_hash LIMIT ?) p"
        " JOIN drawers d ON d.id=(SELECT min(id) FROM drawers WHERE text_hash=p.text_hash)"
        " JOIN exchanges e ON e.id=d.exchange_id ORDER BY p.started_at DESC, p.text_hash",
        (limit,),
    )
    return [(hash_, chunking.render(user, reply, span_of(tuple(span)))) for hash_, user, reply, *span in rows]


def pending_count(connection: Connection) -> int:
    """Return how many texts wait for a vector."""
    return int(connection.execute("SELECT count(*) FROM pending_texts").fetchone()[0])


def save(connection: Connection, model_id: str, hashes: Sequence[bytes], matrix: Float32) -> int:
    """Store ``matrix`` float32 ``[n, dim]`` for ``hashes``; texts that left the store meanwhile are dropped.

    Returns:
        How many were stored.
    """
    connection.execute("UPDATE state SET generation=generation+1")
    (generation,) = connection.execute("SELECT generation FROM state").fetchone()
    stored = 0
    for hash_, row in zip(hashes, matrix, strict=True):
        stored += connection.execute(
            "INSERT INTO vectors(text_hash, model, vector, generation) SELECT ?,?,?,? WHERE EXISTS"
            " (SELECT 1 FROM drawers WHERE text_hash=?) ON CONFLICT(text_hash, model) DO NOTHING",
            (hash_, model_id, np.ascontiguousarray(row, dtype="<f4").tobytes(), generation, hash_),
        ).rowcount
        connection.execute(
            "DELETE FROM pending_texts WHERE text_hash=? AND (SELECT model FROM state)=?", (hash_, model_id)
        )
    return stored


def drop_if_orphan(connection: Connection, text_hash: bytes) -> None:
    """Delete vectors and queue entry of a text that no drawer has any more."""
    if connection.execute("SELECT 1 FROM drawers WHERE text_hash=? LIMIT 1", (text_hash,)).fetchone() is None:
        connection.execute("DELETE FROM vectors WHERE text_hash=?", (text_hash,))
        connection.execute("DELETE FROM pending_texts WHERE text_hash=?", (text_hash,))


def drop_orphans(connection: Connection) -> None:
    """Delete vectors and queue entries of all texts that no drawer has any more."""
    for table in ("vectors", "pending_texts"):
        connection.execute(f"DELETE FROM {table} WHERE text_hash NOT IN (SELECT text_hash FROM drawers)")
