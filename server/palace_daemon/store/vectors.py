"""Vectors by text and model, and the queue of texts that still lack one.

A vector is float32, little-endian, L2 = 1. Rows are keyed by the hash of the text, a drawer's or a statement's, so
equal texts are embedded once and a drawer that moves keeps its vector. Two models never meet in one query.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palace_daemon.core import chunking, statements
from palace_daemon.core.ports import Float32
from palace_daemon.store.spans import columns_of, span_of
from palace_daemon.store.sqlite import Connection

_NO_DATE = -(1 << 62)
"""Sorts undated texts after all dated ones."""
_TABLES = ("drawers", "statements")
"""What has texts, by `pending_texts.is_statement`."""


def want(connection: Connection, text_hash: bytes, started_at: int | None, *, is_statement: bool = False) -> None:
    """Queue a text for the active model unless it has its vector; what is also a drawer is queued as one."""
    connection.execute(
        "INSERT INTO pending_texts(text_hash, is_statement, started_at) SELECT ?1,?2,?3 WHERE NOT EXISTS"
        " (SELECT 1 FROM vectors WHERE text_hash=?1 AND model=(SELECT model FROM state))"
        " ON CONFLICT DO UPDATE SET is_statement=min(is_statement, excluded.is_statement),"
        " started_at=max(started_at, excluded.started_at)",
        (text_hash, int(is_statement), _NO_DATE if started_at is None else started_at),
    )


def use_model(connection: Connection, model_id: str) -> bool:
    """Make ``model_id`` the active model, queueing the texts that lack its vector; returns whether it changed."""
    (active,) = connection.execute("SELECT model FROM state").fetchone()
    if active == model_id:
        return False
    connection.execute("UPDATE state SET model=?, generation=generation+1", (model_id,))
    connection.execute("DELETE FROM pending_texts")
    for is_statement, table in enumerate(_TABLES):
        connection.execute(
            f"INSERT OR IGNORE INTO pending_texts SELECT t.text_hash, ?, max(coalesce(e.started_at, ?)) FROM {table} t"
            " JOIN exchanges e ON e.id=t.exchange_id WHERE NOT EXISTS"
            " (SELECT 1 FROM vectors v WHERE v.text_hash=t.text_hash AND v.model=?) GROUP BY t.text_hash",
            (is_statement, _NO_DATE, model_id),
        )
    return True


def pending(connection: Connection, limit: int) -> list[tuple[bytes, str]]:
    """Return up to ``limit`` queued texts, drawers before statements and the newest first, as (hash, text)."""
    rows = connection.execute(
        "SELECT text_hash FROM pending_texts ORDER BY is_statement, started_at DESC, text_hash LIMIT ?",
        (limit,),
    ).fetchall()
    return [(hash_, _text(connection, hash_)) for (hash_,) in rows]


def _text(connection: Connection, text_hash: bytes) -> str:
    drawer = connection.execute(
        f"SELECT e.user_text, e.reply_text, {columns_of('d')} FROM drawers d JOIN exchanges e ON e.id=d.exchange_id"
        " WHERE d.id=(SELECT min(id) FROM drawers WHERE text_hash=?)",
        (text_hash,),
    ).fetchone()
    if drawer is not None:
        user, reply, *span = drawer
        return chunking.render(user, reply, span_of(tuple(span)))
    user, reply, kind, ordinal = connection.execute(
        "SELECT e.user_text, e.reply_text, e.user_kind, s.ordinal FROM statements s INDEXED BY statements_text"
        " JOIN exchanges e ON e.id=s.exchange_id WHERE s.text_hash=? LIMIT 1",
        (text_hash,),
    ).fetchone()
    said: str = statements.statements(user, reply, kind)[ordinal].text
    return said


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
            "INSERT INTO vectors(text_hash, model, vector, generation) SELECT ?1,?2,?3,?4 WHERE"
            " EXISTS (SELECT 1 FROM drawers WHERE text_hash=?1) OR EXISTS (SELECT 1 FROM statements WHERE text_hash=?1)"
            " ON CONFLICT(text_hash, model) DO NOTHING",
            (hash_, model_id, np.ascontiguousarray(row, dtype="<f4").tobytes(), generation),
        ).rowcount
        connection.execute(
            "DELETE FROM pending_texts WHERE text_hash=? AND (SELECT model FROM state)=?", (hash_, model_id)
        )
    return stored


def drop_if_orphan(connection: Connection, text_hash: bytes) -> None:
    """Delete vectors and queue entry of a text that no drawer and no statement has any more."""
    if not any(
        connection.execute(f"SELECT 1 FROM {t} WHERE text_hash=? LIMIT 1", (text_hash,)).fetchone() for t in _TABLES
    ):
        connection.execute("DELETE FROM vectors WHERE text_hash=?", (text_hash,))
        connection.execute("DELETE FROM pending_texts WHERE text_hash=?", (text_hash,))


def drop_orphans(connection: Connection) -> None:
    """Delete vectors and queue entries of all texts that no drawer and no statement has any more."""
    for table in ("vectors", "pending_texts"):
        connection.execute(
            f"DELETE FROM {table} WHERE text_hash NOT IN (SELECT text_hash FROM drawers)"
            " AND text_hash NOT IN (SELECT text_hash FROM statements)"
        )
