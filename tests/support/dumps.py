"""The content of a store without row ids, so that two stores can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from palace_daemon.store import postings, sqlite
from palace_daemon.store.spans import columns_of

_EXCHANGE = (
    "e.public_id, e.key, s.agent, s.native_id, o.path, e.ordinal, e.user_text, e.user_kind, e.reply_text,"
    " e.reply_final_start, e.model, e.started_at, e.ended_at, e.time_quality, e.status, e.project, e.branch, e.tools,"
    " e.flags, e.is_superseded, e.cut"
)


def logical_dump(path: Path, *, with_vectors: bool = True) -> dict[str, Any]:
    """Return everything that two equal stores must share, in a stable order."""
    connection = sqlite.open_reader(path)
    try:
        connection.execute("BEGIN")
        dump: dict[str, Any] = {
            "exchanges": connection.execute(
                f"SELECT {_EXCHANGE} FROM exchanges e JOIN sessions s ON s.id=e.session_id"
                " JOIN sources o ON o.id=e.owner_source_id ORDER BY e.key"
            ).fetchall(),
            "keys": connection.execute(
                "SELECT k.key, e.key FROM exchange_keys k JOIN exchanges e ON e.id=k.exchange_id ORDER BY 1"
            ).fetchall(),
            "sessions": connection.execute(
                "SELECT agent, native_id, parent_native_id, relation, title, project, is_automated FROM sessions"
                " ORDER BY agent, native_id"
            ).fetchall(),
            "provenance": connection.execute(
                "SELECT e.key, o.path, p.line_start, p.line_end, p.byte_start, p.byte_end, p.chars, p.is_superseded"
                " FROM provenance p JOIN exchanges e ON e.id=p.exchange_id JOIN sources o ON o.id=p.source_id"
                " ORDER BY 1, 2"
            ).fetchall(),
            "drawers": connection.execute(
                f"SELECT e.key, {columns_of('d')}, d.text_hash, d.length FROM drawers d"
                " JOIN exchanges e ON e.id=d.exchange_id ORDER BY e.key, d.ordinal"
            ).fetchall(),
            "sources": connection.execute(
                "SELECT path, agent, format, state, read_bytes, lines_read, lines_skipped FROM sources ORDER BY path"
            ).fetchall(),
        }
        names = dict(
            connection.execute(
                "SELECT d.id, e.key||'.'||d.ordinal FROM drawers d JOIN exchanges e ON e.id=d.exchange_id"
            ).fetchall()
        )
        dump["postings"] = {
            term: sorted(
                zip((names[i] for i in held.ids.tolist()), held.frequencies.tolist(), held.masks.tolist(), strict=True)
            )
            for term in postings.all_terms(connection)
            for held in [postings.read(connection, term)]
        }
        dump["statements"] = connection.execute(
            "SELECT e.key, s.ordinal, s.text_hash, s.is_wish FROM statements s JOIN exchanges e ON e.id=s.exchange_id"
            " ORDER BY 1, 2"
        ).fetchall()
        if with_vectors:
            dump["vectors"] = connection.execute("SELECT text_hash, space FROM vectors ORDER BY 1, 2").fetchall()
    finally:
        connection.close()
    return dump
