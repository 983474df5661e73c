"""Exchanges under one key that go different ways: a fork that was answered otherwise, or whose prompt was edited.

The ways of a key share its *family*: the first bears the plain key, each other one ``<key>~<name>``. Which is the
first does not depend on the order of reading: ways that stand come before superseded ones, then the session and the
file of the owner decide. Where a way comes, goes or changes, :func:`settle` unites those that have become one and
names the rest anew. An id that was given out is answered for ever, so former keys stay.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence

from msgspec import Struct

from palace_daemon.model import Exchange
from palace_daemon.store.sqlite import Connection

VARIANT = "~"
"""Stands before the name of a variant in its key."""
_AFTER_ALL = "~"
"""Sorts behind the hexadecimal name of every variant."""
_SAID_THEN = (
    "SELECT o.id FROM exchanges e JOIN sessions s ON s.id=e.session_id"
    " JOIN exchanges o ON o.user_hash=e.user_hash AND o.started_at=e.started_at JOIN sessions t ON t.id=o.session_id"
    " WHERE e.id=? AND e.user_text<>'' AND e.time_quality='exact' AND e.user_kind NOT IN ('automated', 'note')"
    " AND o.time_quality='exact' AND o.user_kind NOT IN ('automated', 'note') AND t.agent=s.agent"
)
"""What :func:`copies` returns, of a stored exchange."""
_PLACEHOLDER = re.compile(r"\[redacted:[a-z0-9-]{2,32}\]")


def public_id(key: str) -> str:
    """Return the id by which callers name an exchange: 16 hex digits, the same in every store."""
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def content_hash(*texts: str) -> bytes:
    """Return 16 bytes over NFC texts with LF newlines, trimmed."""
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        normal = unicodedata.normalize("NFC", text.replace("\r\n", "\n")).strip().encode()
        digest.update(len(normal).to_bytes(8, "little") + normal)
    return digest.digest()


def by_name(sources: str) -> str:
    """Return the SQL that orders files where nothing else does: by their own names, then by their paths.

    A name stays when an agent moves a file to its archive, and often begins with a time: a fork comes after what it
    was forked from.
    """
    path = f"{sources}.path"
    return f"substr({path}, length(rtrim({path}, replace({path}, '/', ''))) + 1), {path}"


def family_of(key: str) -> str:
    """Return the plain key of a key."""
    return key.partition(VARIANT)[0]


def of_key(connection: Connection, key: str) -> list[tuple[int, int]]:
    """Return the exchanges with this key or a variant of it, each with its owner; the bearer of the plain key first."""
    bounds = (key, f"{key}{VARIANT}", f"{key}{VARIANT}{_AFTER_ALL}")
    # Most keys are new: that is told in a fraction of the time that joining and sorting nothing takes.
    told = "SELECT 1 FROM exchange_keys WHERE key=? OR (key>? AND key<?) LIMIT 1"
    if connection.execute(told, bounds).fetchone() is None:
        return []
    rows: list[tuple[int, int]] = connection.execute(
        "SELECT e.id, e.owner_source_id FROM exchange_keys k JOIN exchanges e ON e.id=k.exchange_id"
        " WHERE k.key=? OR (k.key>? AND k.key<?) GROUP BY e.id ORDER BY e.key",
        bounds,
    ).fetchall()
    return rows


def copies(connection: Connection, exchange: Exchange) -> list[tuple[int, int]]:
    """Return what may be the same exchange with another id in another session, each with its owner."""
    if not _may_be_copied(exchange):
        return []
    rows: list[tuple[int, int]] = connection.execute(
        "SELECT e.id, e.owner_source_id FROM exchanges e JOIN sessions s ON s.id=e.session_id"
        " WHERE e.user_hash=? AND e.started_at=? AND e.time_quality='exact' AND e.user_kind<>'automated'"
        " AND s.agent=? AND s.native_id<>? ORDER BY e.id",
        (content_hash(exchange.user_text), exchange.started_at, exchange.agent, exchange.session_id),
    ).fetchall()
    return rows


def with_ways(connection: Connection, exchange_ids: Sequence[int]) -> list[int]:
    """Return the exchanges, and behind them those with the same words of the same turn, whichever way the reply went.

    A tombstone of one keeps all of them out of a store that does not hold them: the other ways of its keys, and what
    another session tells in the same words of the same moment.
    """
    found = set(exchange_ids)
    for exchange_id in exchange_ids:
        keys = connection.execute("SELECT key FROM exchange_keys WHERE exchange_id=?", (exchange_id,)).fetchall()
        for family in {family_of(key) for (key,) in keys}:
            found |= {way for way, _ in of_key(connection, family)}
        found |= {row[0] for row in connection.execute(_SAID_THEN, (exchange_id,))}
    return [*exchange_ids, *sorted(found.difference(exchange_ids))]


def _may_be_copied(exchange: Exchange) -> bool:
    """Return whether text and time together can tell a fork's copy.

    Never text alone, and never inside one session: people do type "continue" twenty times. Agents start several
    sub-agents with one task in the same millisecond, so words that no person typed are left out.
    """
    return (
        bool(exchange.user_text)
        and exchange.started_at is not None
        and exchange.time_quality == "exact"
        and exchange.user_kind not in {"automated", "note"}
    )


def free_key(connection: Connection, key: str, names: Iterable[str]) -> str:
    """Return the key, or the first variant of it by ``names``, numbers after them, that no exchange has or had."""
    coming = itertools.chain(names, map(str, itertools.count()))
    free = key
    while connection.execute("SELECT 1 FROM exchange_keys WHERE key=?", (free,)).fetchone() is not None:
        free = f"{key}{VARIANT}{next(coming)}"
    return free


def add_key(connection: Connection, exchange_id: int, key: str, *, is_first: bool = False) -> None:
    """Remember a fork's key; the smallest key names the exchange, whichever file was read first.

    Args:
        connection: The write connection, in a transaction.
        exchange_id: The exchange.
        key: The key.
        is_first: Whether the exchange is new, bears this key and has no other, so that its name stays.
    """
    connection.execute(
        "INSERT INTO exchange_keys(key, exchange_id, public_id) VALUES (?,?,?) ON CONFLICT DO NOTHING",
        (key, exchange_id, public_id(key)),
    )
    if is_first:
        return
    (name,) = connection.execute("SELECT min(key) FROM exchange_keys WHERE exchange_id=?", (exchange_id,)).fetchone()
    rename(connection, exchange_id, name)


def rename(connection: Connection, exchange_id: int, key: str) -> None:
    """Have the exchange bear ``key``."""
    connection.execute(
        "UPDATE exchanges SET key=?, public_id=? WHERE id=? AND key<>?", (key, public_id(key), exchange_id, key)
    )


Texts = tuple[str, str]
"""The user turn of an exchange, and its reply."""


def is_same_way(one: Texts, other: Texts) -> bool:
    """Return whether one telling is the beginning of the other: a copy, at another moment of its growth.

    So it is for words and reply alike: where each holds what the other lacks, neither may take the other's place.
    """
    return _begins_with(one, other) or _begins_with(other, one)


def _begins_with(one: Texts, beginning: Texts) -> bool:
    """Return whether a telling begins with another; what one of them redacts may be any words in the other."""
    if not one[1].startswith(beginning[1].rstrip()):
        return False
    words, first_words = _words(one[0]), _words(beginning[0])
    return words.startswith(first_words) or _fits(words, first_words) or _fits(first_words, words)


def _words(text: str) -> str:
    """Return a user turn without what copies differ in: white space, and how characters are composed."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _fits(words: str, redacted: str) -> bool:
    """Return whether ``words`` begin with ``redacted``, with something in the place of each placeholder."""
    first, *others = _PLACEHOLDER.split(redacted)
    at = len(first) if others and words.startswith(first) else -1
    for piece in others:
        found = words.find(piece, at) if at >= 0 else -1
        at = found + len(piece) if found >= 0 else -1
    return at >= 0


class _Way(Struct):
    """One of the exchanges of a family."""

    exchange_id: int
    key: str
    user: str
    reply: str
    owner_id: int
    session: str

    @property
    def texts(self) -> Texts:
        """What is compared."""
        return self.user, self.reply

    @property
    def chars(self) -> int:
        """How much it tells, white space aside that copies differ in."""
        return len(_words(self.user)) + len(self.reply.rstrip())

    def told(self, chars: int) -> Texts:
        """Return the beginning of it that a source tells."""
        return self.user[:chars], self.reply[: max(0, chars - len(self.user))]


class Settlement(Struct):
    """What settling a family changed."""

    touched: list[int]
    """Exchanges of which a copy was taken or given."""
    united: list[int]
    """Exchanges that have become another one: nothing tells them any more, and the caller removes them."""


def settle(connection: Connection, family: str) -> Settlement:
    """Unite the ways of a family that are one, name the others, and let each copy stand with the first that it fits."""
    ways = _ways(connection, family)
    if len(ways) < 2:
        return Settlement([], [])
    heirs = _unite(connection, ways)
    ways = [way for way in ways if way.exchange_id not in heirs]
    touched = [*heirs.values(), *_regroup(connection, ways)]
    names = _names(family, ways)
    for way, name in zip(ways, names, strict=True):
        if way.key != name:  # two ways may exchange their names
            rename(connection, way.exchange_id, f"{name}{VARIANT}{VARIANT}{way.exchange_id}")
    for way, name in zip(ways, names, strict=True):
        connection.execute(
            "INSERT INTO exchange_keys(key, exchange_id, public_id) VALUES (?,?,?)"
            " ON CONFLICT(key) DO UPDATE SET exchange_id=excluded.exchange_id",
            (name, way.exchange_id, public_id(name)),
        )
        rename(connection, way.exchange_id, name)
    return Settlement(touched, list(heirs))


def _unite(connection: Connection, ways: Sequence[_Way]) -> dict[int, int]:
    """Give what tells a way to another one that begins with it; returns which exchange became which."""
    heirs: dict[int, int] = {}
    for rank, way in sorted(enumerate(ways), key=lambda pair: (pair[1].chars, -pair[0])):
        for other_rank, other in enumerate(ways):
            is_longer = (other.chars, -other_rank) > (way.chars, -rank)
            if is_longer and other.exchange_id not in heirs and _begins_with(other.texts, way.texts):
                heirs[way.exchange_id] = other.exchange_id
                _hand_over(connection, way.exchange_id, other.exchange_id)
                break
    return heirs


def _hand_over(connection: Connection, exchange_id: int, heir_id: int) -> None:
    """Let the heir have the places and keys of an exchange, and bear its name no longer."""
    connection.execute("UPDATE OR IGNORE provenance SET exchange_id=? WHERE exchange_id=?", (heir_id, exchange_id))
    connection.execute("UPDATE exchange_keys SET exchange_id=? WHERE exchange_id=?", (heir_id, exchange_id))
    key = f"{VARIANT}{VARIANT}{exchange_id}"
    connection.execute("UPDATE exchanges SET key=?, public_id=? WHERE id=?", (key, public_id(key), exchange_id))


def _ways(connection: Connection, family: str) -> list[_Way]:
    rows = connection.execute(
        "SELECT e.id, e.key, e.user_text, e.reply_text, e.owner_source_id, s.native_id"
        " FROM exchange_keys k JOIN exchanges e ON e.id=k.exchange_id JOIN sessions s ON s.id=e.session_id"
        " JOIN sources o ON o.id=e.owner_source_id WHERE k.key=? OR (k.key>? AND k.key<?)"
        f" GROUP BY e.id ORDER BY e.is_superseded, s.native_id, {by_name('o')}, o.origin, e.content_hash, e.reply_text",
        (family, f"{family}{VARIANT}", f"{family}{VARIANT}{_AFTER_ALL}"),
    ).fetchall()
    return [_Way(*row) for row in rows]


def _names(family: str, ways: Sequence[_Way]) -> list[str]:
    names: list[str] = []
    for way in ways:
        session, reply = content_hash(way.session).hex()[:8], content_hash(way.reply).hex()[:8]
        choices = (f"{family}{VARIANT}{session}", f"{family}{VARIANT}{session}{reply}")
        taken = {*names}
        names.append(next((name for name in choices if name not in taken), f"{choices[1]}{len(names)}"))
        if len(names) == 1:
            names[0] = family
    return names


def _regroup(connection: Connection, ways: Sequence[_Way]) -> list[int]:
    """Move the tellings that are the beginning of several ways to the first of them."""
    touched: list[int] = []
    for way in ways:
        tellings = connection.execute(
            "SELECT source_id, chars FROM provenance WHERE exchange_id=? AND source_id<>?",
            (way.exchange_id, way.owner_id),
        ).fetchall()
        for source_id, chars in tellings:
            told = way.told(chars)
            first = next((one for one in ways if _begins_with(one.texts, told)), way)
            if first is way:
                continue
            moved = connection.execute(
                "UPDATE OR IGNORE provenance SET exchange_id=? WHERE exchange_id=? AND source_id=?",
                (first.exchange_id, way.exchange_id, source_id),
            ).rowcount
            touched += [way.exchange_id, first.exchange_id] if moved else []
    return touched
