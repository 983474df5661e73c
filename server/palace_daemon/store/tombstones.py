"""What was forgotten, so that no file brings it back: digests only, never a text, a title or a name.

A forgotten exchange leaves: each of its keys, so that it stays forgotten in every file that tells it, forks included,
and however it grows; its words with its own time, for copies under other ids; and, where its texts are long enough to
be unmistakable, its words with as much of the reply as there was, for copies without ids and times, such as exports.
What is not recognised is a copy under other ids and without times that was made in the middle of the reply.

There are no tombstones for sessions, projects, files or times. To forget is to forget what is there now: what is said
there later is new, and is kept.

A digest is one way, but not a secret: who has the file can test whether a text that he guesses was forgotten.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from palace_daemon.model import Exchange
from palace_daemon.store.sqlite import Connection, batches

Kind = Literal["key", "time", "text", "session", "title"]
UNMISTAKABLE_CHARS = 80
"""Of both texts together: shorter ones ("yes", "Done.") are said again by chance, and then are new."""
_DIGEST_BYTES = 16


class Tombstone(Struct, frozen=True, kw_only=True):
    """One row, in the form in which it is exported."""

    kind: Kind
    digest: str
    """Hexadecimal, as ``reply_digest``."""
    reply_chars: int = 0
    """Of kind ``text``: how much of the reply ``reply_digest`` covers."""
    reply_digest: str = ""
    forgotten_at: int = 0


def add(connection: Connection, exchange_ids: Sequence[int], forgotten_at: int) -> None:
    """Bury exchanges that are still stored; call before they are removed, in the same transaction."""
    rows: list[tuple[Kind, bytes, int, bytes, int]] = []
    for batch in batches(list(exchange_ids)):
        marks = ",".join("?" * len(batch))
        keys = connection.execute(f"SELECT key FROM exchange_keys WHERE exchange_id IN ({marks})", batch)
        rows += [("key", _digest("key", key), 0, b"", forgotten_at) for (key,) in keys]
        sessions = connection.execute(
            f"SELECT DISTINCT s.agent, s.native_id FROM sessions s JOIN provenance p ON p.session_id=s.id"
            f" WHERE p.exchange_id IN ({marks})",
            batch,
        )
        rows += [("session", _digest("session", *session), 0, b"", forgotten_at) for session in sessions]
        texts = connection.execute(
            "SELECT s.agent, e.user_text, e.reply_text, e.started_at, e.time_quality, e.user_kind FROM exchanges e"
            f" JOIN sessions s ON s.id=e.session_id WHERE e.id IN ({marks})",
            batch,
        )
        for agent, user, reply, started_at, quality, kind in texts:
            rows += [(*row, forgotten_at) for row in _of_texts(agent, user, reply, started_at, quality, kind)]
    _insert(connection, rows)


def add_title(connection: Connection, agent: str, native_id: str, title: str, forgotten_at: int) -> None:
    """Bury a session's title, which tells of what was forgotten."""
    _insert(connection, [("title", _digest("title", agent, native_id, title), 0, b"", forgotten_at)])


def cover(connection: Connection, exchange: Exchange) -> bool:
    """Return whether ``exchange``, which is not stored, was forgotten."""
    if has_key(connection, exchange.key):
        return True
    if _is_timed(exchange.user_text, exchange.started_at, exchange.time_quality, exchange.user_kind):
        timed = _digest("time", exchange.agent, _normal(exchange.user_text), str(exchange.started_at))
        if _has(connection, timed):
            return True
    reply = _normal(exchange.reply_text)
    rows = connection.execute(
        "SELECT reply_chars, reply_digest FROM tombstones WHERE digest=? AND reply_chars<=?",
        (_digest("text", _normal(exchange.user_text)), len(reply)),
    )
    return any(_digest("reply", reply[:chars]) == told for chars, told in rows)


def has_key(connection: Connection, key: str) -> bool:
    """Return whether the exchange with this key was forgotten."""
    return _has(connection, _digest("key", key))


def hide_title(connection: Connection, agent: str, native_id: str, title: str) -> bool:
    """Return whether a session must not bear ``title``: it was forgotten, or nothing is left of the session."""
    if _has(connection, _digest("title", agent, native_id, title)):
        return True
    if not _has(connection, _digest("session", agent, native_id)):
        return False
    row = connection.execute(
        "SELECT 1 FROM sessions s JOIN exchanges e ON e.session_id=s.id WHERE s.agent=? AND s.native_id=? LIMIT 1",
        (agent, native_id),
    ).fetchone()
    return row is None


def is_empty(connection: Connection) -> bool:
    """Return whether nothing was ever forgotten."""
    return connection.execute("SELECT 1 FROM tombstones LIMIT 1").fetchone() is None


def dump(connection: Connection) -> list[Tombstone]:
    """Return all tombstones, in a stable order."""
    rows = connection.execute(
        "SELECT kind, digest, reply_chars, reply_digest, forgotten_at FROM tombstones ORDER BY digest, reply_digest"
    )
    return [
        Tombstone(
            kind=kind, digest=digest.hex(), reply_chars=chars, reply_digest=reply.hex(), forgotten_at=forgotten_at
        )
        for kind, digest, chars, reply, forgotten_at in rows
    ]


def load(connection: Connection, rows: Iterable[Tombstone]) -> int:
    """Add the tombstones of another store; returns how many were new.

    What is stored already stays: load them before what they are to keep out, or remove what :func:`buried` names.

    Raises:
        ValueError: A digest is no hexadecimal.
    """
    (before,) = connection.execute("SELECT count(*) FROM tombstones").fetchone()
    _insert(
        connection,
        [
            (row.kind, bytes.fromhex(row.digest), row.reply_chars, bytes.fromhex(row.reply_digest), row.forgotten_at)
            for row in rows
        ],
    )
    (after,) = connection.execute("SELECT count(*) FROM tombstones").fetchone()
    return int(after) - int(before)


def buried(connection: Connection) -> list[int]:
    """Return the stored exchanges that a tombstone names by key, as there can be after :func:`load`."""
    found = {
        exchange_id
        for key, exchange_id in connection.execute("SELECT key, exchange_id FROM exchange_keys").fetchall()
        if has_key(connection, key)
    }
    return sorted(found)


def _of_texts(
    agent: str, user: str, reply: str, started_at: int | None, quality: str, kind: str
) -> list[tuple[Kind, bytes, int, bytes]]:
    rows: list[tuple[Kind, bytes, int, bytes]] = []
    words, answer = _normal(user), _normal(reply)
    if _is_timed(user, started_at, quality, kind):
        rows.append(("time", _digest("time", agent, words, str(started_at)), 0, b""))
    if answer and len(words) + len(answer) >= UNMISTAKABLE_CHARS:
        rows.append(("text", _digest("text", words), len(answer), _digest("reply", answer)))
    return rows


def _is_timed(user_text: str, started_at: int | None, quality: str, kind: str) -> bool:
    """Return whether text and time together can tell a copy; sub-agents get one task in the same millisecond."""
    return bool(user_text) and started_at is not None and quality == "exact" and kind != "automated"


def _has(connection: Connection, digest: bytes) -> bool:
    return connection.execute("SELECT 1 FROM tombstones WHERE digest=? LIMIT 1", (digest,)).fetchone() is not None


def _insert(connection: Connection, rows: Iterable[tuple[Kind, bytes, int, bytes, int]]) -> None:
    connection.executemany(
        "INSERT INTO tombstones(kind, digest, reply_chars, reply_digest, forgotten_at) VALUES (?,?,?,?,?)"
        " ON CONFLICT DO NOTHING",
        rows,
    )


def _digest(kind: str, *parts: str) -> bytes:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES, person=kind.encode())
    for part in parts:
        data = part.encode("utf-8", "replace")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n")).strip()
