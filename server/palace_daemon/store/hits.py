"""What stands around the drawers of an answer: other places, sessions, neighbours. In the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from palace_daemon.model import AlsoIn, Neighbour
from palace_daemon.store import session_order
from palace_daemon.store.sqlite import Connection, batches

NEIGHBOUR_CHARS = 280
"""Of each text of a neighbour: enough to see what it is about; ``get`` has the rest."""


class DrawerKey(NamedTuple):
    """What puts a drawer in order, and tells equal ones."""

    key: str
    """Stable over stores: by exchange, then by place in it."""
    text_hash: bytes


def keys(connection: Connection, drawer_ids: Collection[int]) -> dict[int, DrawerKey]:
    """Return the keys of drawers; reads no text."""
    found: dict[int, DrawerKey] = {}
    for batch in batches(list(drawer_ids)):
        for drawer_id, key, ordinal, text_hash in connection.execute(
            "SELECT d.id, e.key, d.ordinal, d.text_hash FROM drawers d JOIN exchanges e ON e.id=d.exchange_id"
            f" WHERE d.id IN ({_marks(batch)})",
            batch,
        ):
            found[drawer_id] = DrawerKey(f"{key}.{ordinal:06d}", text_hash)
    return found


def places(connection: Connection, exchanges: Collection[int]) -> dict[int, AlsoIn]:
    """Return by row where exchanges stand."""
    found: dict[int, AlsoIn] = {}
    for batch in batches(sorted(exchanges)):
        for row, exchange_id, session_id, started_at, path in connection.execute(
            "SELECT e.id, e.public_id, s.native_id, e.started_at, o.path FROM exchanges e"
            " JOIN sessions s ON s.id=e.session_id JOIN sources o ON o.id=e.owner_source_id"
            f" WHERE e.id IN ({_marks(batch)})",
            batch,
        ):
            found[row] = AlsoIn(exchange_id=exchange_id, session_id=session_id, started_at=started_at, path=path)
    return found


def session_spans(connection: Connection, sessions: Collection[int]) -> dict[int, tuple[int | None, int | None]]:
    """Return by row when sessions began and ended; None where nothing in one has a date."""
    found: dict[int, tuple[int | None, int | None]] = {}
    for batch in batches(sorted(sessions)):
        for row, start, end in connection.execute(
            "SELECT session_id, min(started_at), max(coalesce(ended_at, started_at)) FROM exchanges"
            f" WHERE session_id IN ({_marks(batch)}) GROUP BY session_id",
            batch,
        ):
            found[row] = (start, end)
    return found


def neighbours(connection: Connection, exchanges: Collection[int], count: int) -> dict[int, tuple[Neighbour, ...]]:
    """Return by row the ``count`` exchanges before and after each of ``exchanges`` in its session, in order.

    Superseded ones are passed over.
    """
    if not count:
        return {}
    around: dict[int, dict[int, int]] = {}
    by_session: dict[int, list[int]] = {}
    for batch in batches(sorted(exchanges)):
        for row, session in connection.execute(
            f"SELECT id, session_id FROM exchanges WHERE id IN ({_marks(batch)})", batch
        ):
            by_session.setdefault(session, []).append(row)
    for session, rows in by_session.items():
        line = session_order.of_sessions(connection, [session])
        for row in rows:
            standing = [place.exchange_id for place in line if place.exchange_id == row or not place.is_superseded]
            at = standing.index(row)
            beside = range(max(0, at - count), min(len(standing), at + count + 1))
            around[row] = {there - at: standing[there] for there in beside if there != at}
    texts = _short_texts(connection, {other for beside in around.values() for other in beside.values()})
    return {
        row: tuple(_neighbour(relation, texts[other]) for relation, other in beside.items())
        for row, beside in around.items()
    }


_Short = tuple[str, int | None, str, str]
"""Public id, start, and the beginning of both texts."""


def _short_texts(connection: Connection, exchanges: Collection[int]) -> dict[int, _Short]:
    found: dict[int, _Short] = {}
    for batch in batches(sorted(exchanges)):
        for row, *short in connection.execute(
            "SELECT id, public_id, started_at, substr(user_text,1,?), substr(reply_text,1,?) FROM exchanges"
            f" WHERE id IN ({_marks(batch)})",
            (NEIGHBOUR_CHARS + 1, NEIGHBOUR_CHARS + 1, *batch),
        ):
            public, started_at, user, reply = short
            found[row] = (public, started_at, user, reply)
    return found


def _neighbour(relation: int, short: _Short) -> Neighbour:
    public, started_at, user, reply = short
    return Neighbour(
        exchange_id=public, relation=relation, started_at=started_at, user_text=_clipped(user),
        reply_text=_clipped(reply),
    )  # fmt: skip


def _clipped(text: str) -> str:
    return text if len(text) <= NEIGHBOUR_CHARS else text[: NEIGHBOUR_CHARS - 1].rstrip() + "…"


def _marks(batch: Sequence[object]) -> str:
    return ",".join("?" * len(batch))
