"""What people said, sentence by sentence: which texts of an exchange get a vector of their own.

Invariant: the rows of an exchange follow from its stored texts alone, so that none holds any text itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from palace_daemon.core import statements
from palace_daemon.store.spans import text_hash
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.vectors import Wanted


def of_exchange(connection: Connection, exchange_id: int) -> tuple[statements.Statement, ...]:
    """Return the statements of a stored exchange, by ordinal."""
    user_text, reply_text, kind = connection.execute(
        "SELECT user_text, CASE user_kind WHEN 'speaker' THEN reply_text ELSE '' END, user_kind FROM exchanges"
        " WHERE id=?",
        (exchange_id,),
    ).fetchone()
    return statements.statements(user_text, reply_text, kind)


def refresh(
    connection: Connection,
    exchange_id: int,
    found: Iterable[statements.Statement],
    started_at: int | None,
    wanted: Wanted,
    *,
    is_new: bool,
) -> set[bytes] | None:
    """Bring the rows of an exchange up to the statements of its texts, and have queued what lacks a vector.

    Args:
        connection: The write connection, in a transaction.
        exchange_id: The exchange.
        found: Its statements, by ordinal.
        started_at: When it began.
        wanted: What is to be queued.
        is_new: Whether it surely has no rows yet, so that there is no need to look.

    Returns:
        None if nothing changed; else the hashes of what is no longer said, whose vectors may have become orphans.
    """
    said = [(text_hash(text), int(is_wish)) for text, is_wish in found]
    stored = [] if is_new else _stored(connection, exchange_id)
    if stored == said:
        return None
    if stored:
        connection.execute("DELETE FROM statements WHERE exchange_id=?", (exchange_id,))
    connection.executemany(
        "INSERT INTO statements VALUES (?,?,?,?)",
        [(exchange_id, ordinal, hash_, is_wish) for ordinal, (hash_, is_wish) in enumerate(said)],
    )
    for hash_, _ in said:
        wanted.add(hash_, started_at, is_statement=True)
    return {hash_ for hash_, _ in stored} - {hash_ for hash_, _ in said}


def remove(connection: Connection, exchange_id: int) -> set[bytes]:
    """Remove the rows of an exchange that is about to go; returns the hashes of their texts."""
    stored = _stored(connection, exchange_id)
    connection.execute("DELETE FROM statements WHERE exchange_id=?", (exchange_id,))
    return {hash_ for hash_, _ in stored}


def _stored(connection: Connection, exchange_id: int) -> list[tuple[bytes, int]]:
    return connection.execute(
        "SELECT text_hash, is_wish FROM statements WHERE exchange_id=? ORDER BY ordinal", (exchange_id,)
    ).fetchall()
