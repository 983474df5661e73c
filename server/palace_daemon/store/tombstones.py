"""What was forgotten, so that no file brings it back: digests only, never a text, a title or a name.

A forgotten exchange leaves: each of its keys, so that it stays forgotten in every file that tells it, forks included,
and however it grows, whichever reply it got (so other replies to the same turn are forgotten with it); its words with
its own time, for copies under other ids; where its texts are long enough to be unmistakable, its words with as much of
the reply as there was, for copies without ids and times, such as exports; and its words with its session. Where that's
own source told it, they keep out copies of the session alone (secondary sources), of that second where both are dated:
the own source tells what else was said in these words. Where only copies told it, they keep out what the own source
tells, with as much of the reply as there was. What is not recognised is a copy in another session, under other ids and
without times, that was made in the middle of the reply, and a short one without times that a copy tells anew under
another id.

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
from palace_daemon.store import variants
from palace_daemon.store.sqlite import Connection, batches

Kind = Literal["key", "time", "text", "words", "copy", "session", "title"]
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
        # The plain key as well: where no other way is stored, a file tells this one under it.
        names = {name for (key,) in keys for name in (key, variants.family_of(key))}
        rows += [("key", _digest("key", name), 0, b"", forgotten_at) for name in sorted(names)]
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
        told = connection.execute(
            "SELECT n.agent, n.native_id, e.user_text, e.reply_text, min(s.is_secondary),"
            " iif(e.time_quality='exact', e.started_at, NULL) FROM exchanges e"
            " JOIN provenance p ON p.exchange_id=e.id JOIN sources s ON s.id=p.source_id"
            f" JOIN sessions n ON n.id=p.session_id WHERE e.id IN ({marks}) AND e.user_text<>'' GROUP BY e.id, n.id",
            batch,
        )
        rows += [(*row, forgotten_at) for one in told for row in _of_session(*one)]
    _insert(connection, rows)


def add_title(connection: Connection, agent: str, native_id: str, title: str, forgotten_at: int) -> None:
    """Bury a session's title, which tells of what was forgotten."""
    _insert(connection, [("title", _digest("title", agent, native_id, title), 0, b"", forgotten_at)])


def keep_out(connection: Connection, exchange: Exchange, source_ids: Iterable[int], keys: Iterable[str] = ()) -> bool:
    """Return whether ``exchange``, which is not stored, was forgotten.

    One that bore another key while it waited is buried under the one that it bears now, for files that tell that alone.

    Args:
        connection: The write connection, in a transaction.
        exchange: As it was told.
        source_ids: What tells it.
        keys: Further keys of it.
    """
    is_copied = all(_is_copying(connection, source_id) for source_id in source_ids)
    is_known = any(has_key(connection, key) for key in keys)
    if not is_known and not cover(connection, exchange, is_copied=is_copied):
        return False
    former = next((key for key in exchange.former_keys if has_key(connection, key)), None)
    if former is not None and not has_key(connection, exchange.key):
        (forgotten_at,) = connection.execute(
            "SELECT forgotten_at FROM tombstones WHERE digest=?", (_digest("key", former),)
        ).fetchone()
        _insert(connection, [("key", _digest("key", exchange.key), 0, b"", forgotten_at)])
    return True


def cover(connection: Connection, exchange: Exchange, *, is_copied: bool = False) -> bool:
    """Return whether ``exchange``, which is not stored, was forgotten; ``is_copied``: secondary sources tell it."""
    if any(has_key(connection, key) for key in (exchange.key, *exchange.former_keys)):
        return True
    if _is_timed(exchange.user_text, exchange.started_at, exchange.time_quality, exchange.user_kind):
        timed = _digest("time", exchange.agent, _normal(exchange.user_text), str(exchange.started_at))
        if _has(connection, timed):
            return True
    if exchange.user_text and _is_buried_in_session(connection, exchange, is_copied=is_copied):
        return True
    words = _digest("text", _normal(exchange.user_text))
    return _forgotten_with_reply(connection, words, exchange.reply_text) is not None


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


def _of_session(
    agent: str, native_id: str, user: str, reply: str, is_copied: int, at: int | None
) -> list[tuple[Kind, bytes, int, bytes]]:
    told, answer = (agent, native_id, _normal(user)), _normal(reply)
    if is_copied:
        return [("copy", _digest("copy", *told), len(answer), _digest("reply", answer))] if answer else []
    second = "" if at is None else str(at // 1_000)
    return [("words", digest, 0, b"") for digest in (_digest("words", *told), _digest("words", *told, second))]


def _is_buried_in_session(connection: Connection, exchange: Exchange, *, is_copied: bool) -> bool:
    """Return whether the session told these words from the other side, and they were forgotten; later, they are new.

    Copies may bear a time that is cut to its second. Where either bears none, the words alone tell.
    """
    told, at = (exchange.agent, exchange.session_id, _normal(exchange.user_text)), exchange.started_at
    if not is_copied:
        forgotten_at = _forgotten_with_reply(connection, _digest("copy", *told), exchange.reply_text)
        return forgotten_at is not None and at is not None and at <= forgotten_at
    if at is None or exchange.time_quality != "exact":
        digests = [_digest("words", *told)]
    else:
        near = (at // 1_000 + step for step in (-1, 0, 1))
        digests = [_digest("words", *told, second) for second in ("", *map(str, near))]
    marks = ",".join("?" * len(digests))
    row = connection.execute(f"SELECT max(forgotten_at) FROM tombstones WHERE digest IN ({marks})", digests)
    (forgotten_at,) = row.fetchone()
    return forgotten_at is not None and (at is None or at <= forgotten_at)


def _forgotten_with_reply(connection: Connection, words: bytes, reply: str) -> int | None:
    """Return when words were forgotten with a reply that ``reply`` begins with."""
    answer = _normal(reply)
    rows = connection.execute(
        "SELECT reply_chars, reply_digest, forgotten_at FROM tombstones WHERE digest=? AND reply_chars<=?",
        (words, len(answer)),
    )
    found = [forgotten_at for chars, told, forgotten_at in rows if _digest("reply", answer[:chars]) == told]
    return max(found, default=None)


def _is_copying(connection: Connection, source_id: int) -> bool:
    row = connection.execute("SELECT is_secondary FROM sources WHERE id=?", (source_id,)).fetchone()
    return bool(row[0])


def _is_timed(user_text: str, started_at: int | None, quality: str, kind: str) -> bool:
    """Return whether text and time together can tell a copy; sub-agents get one task in the same millisecond."""
    return bool(user_text) and started_at is not None and quality == "exact" and kind != "automated"


def _has(connection: Connection, digest: bytes) -> bool:
    return connection.execute("SELECT 1 FROM tombstones WHERE digest=? LIMIT 1", (digest,)).fetchone() is not None


def _insert(connection: Connection, rows: Iterable[tuple[Kind, bytes, int, bytes, int]]) -> None:
    connection.executemany(
        "INSERT INTO tombstones(kind, digest, reply_chars, reply_digest, forgotten_at) VALUES (?,?,?,?,?)"
        # Words that were said and forgotten anew: what was said in between is forgotten, too.
        " ON CONFLICT DO UPDATE SET forgotten_at=max(forgotten_at, excluded.forgotten_at)"
        " WHERE kind IN ('words', 'copy')",
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
