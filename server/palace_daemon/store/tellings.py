"""Which source tells which exchange, where in it, and how much of it."""

from __future__ import annotations

from palace_daemon.model import Exchange
from palace_daemon.store.sqlite import Connection


def save(
    connection: Connection, exchange_id: int, source_id: int, session_id: int, reading: int, exchange: Exchange
) -> None:
    """Note where in a source an exchange was told, and how much of it."""
    connection.execute(
        "INSERT INTO provenance(exchange_id, source_id, session_id, reading, line_start, line_end, byte_start,"
        " byte_end, chars, is_closed, is_superseded) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
        " ON CONFLICT(exchange_id, source_id) DO UPDATE SET"
        " session_id=excluded.session_id, reading=excluded.reading,"
        " line_start=excluded.line_start, line_end=excluded.line_end, byte_start=excluded.byte_start,"
        " byte_end=excluded.byte_end, chars=excluded.chars, is_closed=excluded.is_closed,"
        " is_superseded=excluded.is_superseded",
        (
            exchange_id,
            source_id,
            session_id,
            reading,
            exchange.line_start,
            exchange.line_end,
            exchange.byte_start,
            exchange.byte_end,
            len(exchange.user_text) + len(exchange.reply_text),
            int(exchange.status != "open"),
            int(exchange.is_superseded),
        ),
    )


def is_told_by(connection: Connection, exchange_id: int, source_id: int, least_chars: int = 0) -> bool:
    """Return whether a source tells, or told, so many characters of an exchange or more."""
    told = "SELECT 1 FROM provenance WHERE exchange_id=? AND source_id=? AND chars>=?"
    return connection.execute(told, (exchange_id, source_id, least_chars)).fetchone() is not None


def is_outdated(connection: Connection, path: str, reading: int) -> bool:
    """Return whether a file of this machine was read anew since the pass ``reading``, so that it tells for itself."""
    read_since = "SELECT 1 FROM sources WHERE path=? AND origin='' AND cursor IS NOT NULL AND reading>?"
    return connection.execute(read_since, (path, reading)).fetchone() is not None


def take_over_twin(connection: Connection, exchange_id: int, source_id: int) -> None:
    """Let a file of this machine stand for what was imported of it, unless that told more."""
    twins = connection.execute(
        "SELECT p.source_id FROM sources here JOIN sources twin ON twin.path=here.path AND twin.origin<>''"
        " JOIN provenance p ON p.source_id=twin.id AND p.exchange_id=?1 WHERE here.id=?2 AND here.origin=''"
        " AND p.chars<=(SELECT chars FROM provenance WHERE exchange_id=?1 AND source_id=?2)",
        (exchange_id, source_id),
    ).fetchall()
    for (twin,) in twins:
        connection.execute("DELETE FROM provenance WHERE exchange_id=? AND source_id=?", (exchange_id, twin))
        connection.execute(
            "UPDATE exchanges SET owner_source_id=? WHERE id=? AND owner_source_id=?",
            (source_id, exchange_id, twin),
        )
