"""The order of a session: when its exchanges took place, also those that bear no date, and what it begins with.

A transcript may date some exchanges only. One without a date takes that of the dated one before it in its source, else
of the next, so that it stays where it was said. Without a dated one in its source it comes first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from palace_daemon.store.sqlite import Connection, batches

_PROMPT_CHARS = 200


class Place(NamedTuple):
    """An exchange at its place in the order of a session."""

    exchange_id: int
    public_id: str
    is_superseded: bool


class _Dated(NamedTuple):
    """An exchange with what puts it in order."""

    has_date: bool
    at: int
    ordinal: int
    key: str
    place: Place


def of_sessions(connection: Connection, sessions: Collection[int]) -> list[Place]:
    """Return the exchanges of sessions, by their rows, in the order of the conversation."""
    dated = [one for session in sessions for one in _of_session(connection, session)]
    return [one.place for one in (sorted(dated) if len(sessions) > 1 else dated)]


def titles(connection: Connection, sessions: Collection[int]) -> dict[int, str]:
    """Return by row the titles of sessions; of one without, the beginning of its first prompt, which may be empty."""
    found: dict[int, str] = {}
    for batch in batches(sorted(sessions)):
        marks = ",".join("?" * len(batch))
        rows = connection.execute(
            "SELECT s.id, s.title, f.started_at IS NULL, substr(f.user_text,1,?) FROM sessions s"
            " LEFT JOIN exchanges f ON f.id=(SELECT t.id FROM exchanges t WHERE t.session_id=s.id AND t.user_text<>''"
            f" ORDER BY t.started_at, t.ordinal, t.key LIMIT 1) WHERE s.id IN ({marks})",
            (_PROMPT_CHARS, *batch),
        ).fetchall()
        for session, title, is_undated, prompt in rows:
            # SQLite puts undated ones first: only where one is, another may be the first that was said.
            is_sure = title or not (prompt and is_undated)
            found[session] = title or prompt or "" if is_sure else _first_prompt(connection, session)
    return found


def _first_prompt(connection: Connection, session: int) -> str:
    for place in of_sessions(connection, [session]):
        (prompt,) = connection.execute(
            "SELECT substr(user_text,1,?) FROM exchanges WHERE id=?", (_PROMPT_CHARS, place.exchange_id)
        ).fetchone()
        if prompt:
            return str(prompt)
    return ""


def _of_session(connection: Connection, session: int) -> list[_Dated]:
    """Return a session's exchanges in order; where all have a date, or none has, no row of the table is read."""
    rows = connection.execute(
        "SELECT e.started_at, e.ordinal, e.key, e.id, e.public_id, e.is_superseded FROM exchanges e"
        " WHERE e.session_id=? ORDER BY e.started_at, e.ordinal, e.key",
        (session,),
    ).fetchall()
    is_mixed = bool(rows) and rows[0][0] is None and rows[-1][0] is not None
    dates = _filled_dates(connection, session) if is_mixed else {}
    found = []
    for started_at, ordinal, key, row, public_id, is_superseded in rows:
        at = dates.get(row) if is_mixed else started_at
        found.append(_Dated(at is not None, at or 0, ordinal, key, Place(row, public_id, bool(is_superseded))))
    return sorted(found) if is_mixed else found


def _filled_dates(connection: Connection, session: int) -> dict[int, int | None]:
    """Return by row when the exchanges of a session took place, as far as their sources tell."""
    rows = connection.execute(
        "SELECT owner_source_id, id, started_at FROM exchanges WHERE session_id=?"
        " ORDER BY owner_source_id, ordinal, key",
        (session,),
    ).fetchall()
    found: dict[int, int | None] = {}
    for _, told in groupby(rows, key=lambda row: row[0]):
        ids, dates = zip(*((row, at) for _, row, at in told), strict=True)
        found |= dict(zip(ids, _filled(dates), strict=True))
    return found


def _filled(dates: Sequence[int | None]) -> Iterable[int | None]:
    """Yield each date, or for a missing one the date before it, else the first that comes."""
    last = next((date for date in dates if date is not None), None)
    for date in dates:
        last = last if date is None else date
        yield last
