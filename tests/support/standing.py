"""What two stores must share whose files have different histories, and what may differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from palace_daemon.store import sqlite
from palace_daemon.store.variants import family_of


def remembered(path: Path) -> tuple[set[str], set[str]]:
    """Return the keys of which a deleted file told, since what it told is kept and may be more, and their sessions.

    These are also the sessions of copies that tell them: there they are turns of the deleted file's session, and in a
    store that never saw it of the copy's, so each is cut as if it had more turns or fewer.
    """
    connection = sqlite.open_reader(path)
    try:
        rows = connection.execute(
            "SELECT DISTINCT e.key, s.native_id FROM provenance p JOIN sources o ON o.id=p.source_id"
            " JOIN exchanges e ON e.id=p.exchange_id JOIN provenance told ON told.exchange_id=e.id"
            " JOIN sessions s ON s.id IN (e.session_id, told.session_id)"
            " WHERE o.state='gone' AND p.is_superseded=0"
        ).fetchall()
    finally:
        connection.close()
    return {family_of(key) for key, _ in rows}, {session for _, session in rows}


def standing(path: Path, families: set[str], sessions: set[str]) -> dict[str, Any]:
    """Return what recall can find, with where it stands in files that are there.

    Left out are keys of ``families``, and how exchanges of ``sessions`` are cut.
    """
    connection = sqlite.open_reader(path)
    try:
        rows = connection.execute(
            "SELECT e.id, e.key, s.native_id, e.user_text, e.reply_text, e.started_at, e.status, e.user_kind,"
            " e.reply_final_start FROM exchanges e JOIN sessions s ON s.id=e.session_id WHERE e.is_superseded=0"
            " AND EXISTS (SELECT 1 FROM provenance p JOIN sources o ON o.id=p.source_id"
            " WHERE p.exchange_id=e.id AND o.state='ok' AND p.is_superseded=0)"
        ).fetchall()
        found = {}
        for exchange_id, key, *rest in rows:
            if family_of(key) in families:
                continue
            places = connection.execute(
                "SELECT o.path, p.line_start, p.line_end, p.byte_start, p.byte_end FROM provenance p"
                " JOIN sources o ON o.id=p.source_id WHERE p.exchange_id=? AND p.is_superseded=0 AND o.state='ok'"
                " ORDER BY o.path",
                (exchange_id,),
            ).fetchall()
            drawers = connection.execute(
                "SELECT user_start, user_end, reply_start, reply_end, text_hash, length FROM drawers"
                " WHERE exchange_id=? ORDER BY ordinal",
                (exchange_id,),
            ).fetchall()
            found[key] = (rest, places, [] if rest[0] in sessions else drawers)
    finally:
        connection.close()
    return found
