"""Twins: one turn of a session that is stored twice, as its agent's own source tells it and as a copy does.

Copies (exports, stores that were left behind) have other ids or none. What is paired has the same session and the same
words of the person; each copying source is paired by itself: first what has the same reply, too, then the rest in the
order of the session.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from palace_daemon.store import session_order
from palace_daemon.store.sqlite import Connection, batches


class _Telling(NamedTuple):
    """An exchange as one source tells it."""

    exchange_id: int
    content_hash: bytes
    source_id: int
    is_copied: int
    is_superseded: int
    is_held: int
    """Whether the source still holds it, be it as a turn that was rewound past."""


_TELLINGS = (
    "SELECT e.id, e.content_hash, p.source_id, s.is_secondary, p.is_superseded, p.reading=s.reading FROM exchanges e"
    " JOIN provenance p ON p.exchange_id=e.id JOIN sources s ON s.id=p.source_id"
)


def is_told_by_own_source(connection: Connection, exchange_id: int) -> bool:
    """Return whether the session's own source holds the turn that this exchange of copies tells."""
    session, user_hash = connection.execute(
        "SELECT session_id, user_hash FROM exchanges WHERE id=?", (exchange_id,)
    ).fetchone()
    tellings = _tellings(connection, session, user_hash)
    held = {one.exchange_id for one in tellings if one.is_held and not one.is_copied}
    for (_, is_superseded), told in _copies(tellings).items():
        if is_superseded or exchange_id in held or exchange_id not in told:
            continue
        natives, copies = held - told, told - held
        if len(copies) <= len(natives):
            return True
        if natives and exchange_id in _match(connection, session, tellings, natives, copies).values():
            return True
    return False


def with_twins(connection: Connection, exchange_ids: Sequence[int]) -> list[int]:
    """Return the exchanges, and behind them their twins in any session that tells them."""
    rows = connection.execute(
        "SELECT DISTINCT p.session_id FROM sources s JOIN provenance p ON p.source_id=s.id WHERE s.is_secondary=1"
    )
    copied = {row[0] for row in rows}
    found = set(exchange_ids)
    if copied:
        for (session, user_hash), named in sorted(_by_words(connection, exchange_ids).items()):
            if session in copied:
                found |= _twins(connection, session, user_hash, named)
    return [*exchange_ids, *sorted(found.difference(exchange_ids))]


def _by_words(connection: Connection, exchange_ids: Sequence[int]) -> dict[tuple[int, bytes], set[int]]:
    """Return the exchanges by the sessions that tell them and the digest of the person's words."""
    found: dict[tuple[int, bytes], set[int]] = {}
    for batch in batches(list(exchange_ids)):
        marks = ",".join("?" * len(batch))
        rows = connection.execute(
            f"SELECT session_id, user_hash, id FROM exchanges WHERE id IN ({marks}) UNION"
            " SELECT p.session_id, e.user_hash, e.id FROM exchanges e JOIN provenance p ON p.exchange_id=e.id"
            f" WHERE e.id IN ({marks})",
            [*batch, *batch],
        )
        for session, user_hash, exchange_id in rows:
            found.setdefault((session, user_hash), set()).add(exchange_id)
    return found


def _twins(connection: Connection, session: int, user_hash: bytes, named: Collection[int]) -> set[int]:
    """Return ``named`` with all that is paired with one of them, directly or by another one."""
    tellings = _tellings(connection, session, user_hash, named)
    natives = {one.exchange_id for one in tellings if not one.is_copied}
    held = {one.exchange_id for one in tellings if one.is_held and not one.is_copied}
    pairs: list[tuple[int, int]] = []
    for told in _copies(tellings).values():
        copies = told - natives
        # Those that are held first, as they are judged: else a copy that stepped back would stand from now on.
        for some in (held - told, natives - held - told):
            matched = _match(connection, session, tellings, some, copies)
            pairs += matched.items()
            copies = copies.difference(matched.values())
    found, size = set(named), 0
    while len(found) > size:
        size = len(found)
        found.update(one for pair in pairs if not found.isdisjoint(pair) for one in pair)
    return found


def _tellings(connection: Connection, session: int, user_hash: bytes, named: Iterable[int] = ()) -> Sequence[_Telling]:
    """Return what tells these words in a session; ``named`` are told there, too, and may be stored with another."""
    rows = set(connection.execute(f"{_TELLINGS} WHERE e.session_id=? AND e.user_hash=?", (session, user_hash)))
    for batch in batches(sorted(named)):
        rows.update(connection.execute(f"{_TELLINGS} WHERE e.id IN ({','.join('?' * len(batch))})", batch))
    return [_Telling(*row) for row in rows]


def _copies(tellings: Iterable[_Telling]) -> dict[tuple[int, int], set[int]]:
    """Return what each copying source tells: what stands there, and what it has rewound past or lost."""
    found: dict[tuple[int, int], set[int]] = {}
    for one in tellings:
        if one.is_copied:
            found.setdefault((one.source_id, one.is_superseded), set()).add(one.exchange_id)
    return found


def _match(
    connection: Connection, session: int, tellings: Iterable[_Telling], natives: Collection[int], copies: set[int]
) -> dict[int, int]:
    """Return which of the copies is which of the session's own exchanges."""
    content = {one.exchange_id: one.content_hash for one in tellings}
    ordered = _in_order(connection, session, {*natives, *copies})
    waiting: dict[bytes, deque[int]] = defaultdict(deque)
    for one in ordered:
        if one in copies:
            waiting[content[one]].append(one)
    matched = {
        native: waiting[content[native]].popleft()
        for native in ordered
        if native in natives and waiting[content[native]]
    }
    taken = set(matched.values())
    rest = [one for one in ordered if one in natives and one not in matched]
    left = [one for one in ordered if one in copies and one not in taken]
    return matched | dict(zip(rest, left, strict=False))


def _in_order(connection: Connection, session: int, exchange_ids: set[int]) -> list[int]:
    if len(exchange_ids) < 3:  # one pair at most: no order is needed
        return sorted(exchange_ids)
    order = [place.exchange_id for place in session_order.of_sessions(connection, [session])]
    return [one for one in order if one in exchange_ids] + sorted(exchange_ids.difference(order))
