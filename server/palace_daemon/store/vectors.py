"""Vectors by text and model, and the queue of texts that still lack one.

A vector is of length 1, and is stored in the form of :mod:`palace_daemon.store.packing`. Rows are keyed by the hash of
the text, a drawer's or a statement's, so equal texts are embedded once and a drawer that moves keeps its vector. Which
model's vectors answer is told by :mod:`palace_daemon.store.spaces`; here and there ``model`` is a model's fingerprint.
"""

from __future__ import annotations

from collections.abc import Sequence

from palace_daemon.core import chunking, statements
from palace_daemon.core.ports import Float32
from palace_daemon.store import packing, spaces
from palace_daemon.store.spans import columns_of, span_of
from palace_daemon.store.sqlite import Connection

_WANT = (
    "INSERT INTO pending_texts(text_hash, model, is_statement, started_at) SELECT ?1, m.model, ?2, ?3"
    " FROM (SELECT model FROM state UNION ALL SELECT next_model FROM state WHERE next_model<>'') m"
    " WHERE NOT EXISTS (SELECT 1 FROM vectors v WHERE v.text_hash=?1"
    " AND v.space=(SELECT number FROM spaces s WHERE s.model=m.model))"
    " ON CONFLICT DO UPDATE SET is_statement=min(is_statement, excluded.is_statement),"
    " started_at=max(started_at, excluded.started_at)"
)


def want(connection: Connection, text_hash: bytes, started_at: int | None, *, is_statement: bool = False) -> None:
    """Queue a text for the models that answer and are to, unless it has their vector; a drawer comes as a drawer."""
    connection.execute(_WANT, (text_hash, int(is_statement), spaces.UNDATED if started_at is None else started_at))


class Wanted:
    """Texts to queue, collected in one transaction and written in one go at its end. Single-threaded."""

    def __init__(self) -> None:
        """Begin with no texts."""
        # By hash: whether it is a statement's alone, and the latest time at which it was said.
        self._texts: dict[bytes, tuple[int, int]] = {}

    def add(self, text_hash: bytes, started_at: int | None, *, is_statement: bool = False) -> None:
        """Note that a text is to be queued, see :func:`want`."""
        kind, at = int(is_statement), spaces.UNDATED if started_at is None else started_at
        if text_hash in self._texts:
            other_kind, other_at = self._texts[text_hash]
            kind, at = min(kind, other_kind), max(at, other_at)
        self._texts[text_hash] = (kind, at)

    def drop_if_orphan(self, connection: Connection, text_hash: bytes) -> None:
        """Forget a text that no drawer and no statement has any more, see :func:`drop_if_orphan`."""
        if drop_if_orphan(connection, text_hash):
            self._texts.pop(text_hash, None)

    def write(self, connection: Connection) -> None:
        """Queue them; call before the transaction ends."""
        # In the order of the table: neighbours stand on one page.
        connection.executemany(_WANT, ((hash_, kind, at) for hash_, (kind, at) in sorted(self._texts.items())))
        self._texts.clear()


def pending(connection: Connection, limit: int) -> list[tuple[bytes, str]]:
    """Return up to ``limit`` texts queued for the answering model, drawers first and the newest first: (hash, text)."""
    (model,) = connection.execute("SELECT model FROM state").fetchone()
    return with_texts(connection, queued(connection, model, limit))


def queued(connection: Connection, model: str, limit: int) -> list[bytes]:
    """Return the hashes of up to ``limit`` texts for ``model`` to embed, drawers before statements, the newest first.

    What it leaves to the next model is not among them.
    """
    return [
        hash_
        for (hash_,) in connection.execute(
            "SELECT text_hash FROM pending_texts INDEXED BY pending_newest WHERE model=? AND is_left=0"
            " ORDER BY is_statement, started_at DESC, text_hash LIMIT ?",
            (model, limit),
        )
    ]


def with_texts(connection: Connection, hashes: Sequence[bytes]) -> list[tuple[bytes, str]]:
    """Return stored texts by their hashes, as (hash, text)."""
    return [(hash_, _text(connection, hash_)) for hash_ in hashes]


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
    """Return how many texts lack a vector of the answering model."""
    return spaces.read(connection).answering.pending


def waiting_count(connection: Connection) -> int:
    """Return how many texts the answering model is still to embed: what it leaves to the next one is not among them."""
    found = spaces.read(connection)
    if found.next is None:
        return found.answering.pending
    count = connection.execute(
        "SELECT count(*) FROM pending_texts WHERE model=? AND is_left=0", (found.answering.model,)
    ).fetchone()
    return int(count[0])


def save(connection: Connection, model: str, hashes: Sequence[bytes], matrix: Float32) -> int:
    """Store ``matrix`` float32 ``[n, dim]`` for ``hashes``; texts that left the store meanwhile are dropped.

    So are vectors of a model that lost its role meanwhile. With the last text that it needs the next model takes over;
    only its own vectors do that, since whoever saves them can embed questions, too.

    Returns:
        How many were stored.
    """
    held = spaces.read(connection)
    if model not in held.names:
        return 0
    if model == held.answering.model:  # mirrors hold no other
        connection.execute("UPDATE state SET generation=generation+1")
    (generation,) = connection.execute("SELECT generation FROM state").fetchone()
    space = spaces.number(model)
    stored = connection.executemany(
        "INSERT INTO vectors(text_hash, space, vector, generation) SELECT ?1,?2,?3,?4 WHERE"
        " EXISTS (SELECT 1 FROM drawers WHERE text_hash=?1) OR EXISTS (SELECT 1 FROM statements WHERE text_hash=?1)"
        " ON CONFLICT(text_hash, space) DO NOTHING",
        ((hash_, space, row, generation) for hash_, row in zip(hashes, packing.pack(matrix), strict=True)),
    ).rowcount
    connection.executemany(
        "DELETE FROM pending_texts WHERE text_hash=? AND model=?", ((hash_, model) for hash_ in hashes)
    )
    if held.next is not None and model == held.next.model:
        spaces.advance(connection)
    return stored


def drop_if_orphan(connection: Connection, text_hash: bytes) -> bool:
    """Delete vectors and queue entry of a text that no drawer and no statement has any more; return whether it is."""
    if any(
        connection.execute(f"SELECT 1 FROM {t} WHERE text_hash=? LIMIT 1", (text_hash,)).fetchone()
        for t in spaces.TEXT_TABLES
    ):
        return False
    connection.execute("DELETE FROM vectors WHERE text_hash=?", (text_hash,))
    connection.execute("DELETE FROM pending_texts WHERE text_hash=?", (text_hash,))
    return True


def drop_orphans(connection: Connection) -> None:
    """Delete vectors and queue entries of all texts that no drawer and no statement has any more."""
    for table in ("vectors", "pending_texts"):
        connection.execute(
            f"DELETE FROM {table} WHERE text_hash NOT IN (SELECT text_hash FROM drawers)"
            " AND text_hash NOT IN (SELECT text_hash FROM statements)"
        )
