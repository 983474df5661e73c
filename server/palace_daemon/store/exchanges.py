"""Storing exchanges: once each, with every provenance, in drawers, with their words.

Invariant: tellings of one exchange by several sources are one exchange as long as one reply begins with the other, as
copies and resumed sessions have it; the longest is stored, then that of the smaller path. Where a fork goes on
otherwise from the same question, nothing is dropped: the other reply is an exchange of its own (a variant). Which of
the two bears the plain key is the one thing that depends on the order of reading.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable

import msgspec
from msgspec import Struct

from palace_daemon.model import Exchange, ExchangeKey, ParseResult, SessionFacts
from palace_daemon.store.drawers import DrawerStore, StoredDrawers
from palace_daemon.store.sqlite import Connection

_INSERT_KEY = "INSERT INTO exchange_keys(key, exchange_id, public_id) VALUES (?,?,?)"
_VARIANT = "~"
_AFTER_ALL = "~"
"""Sorts behind the hexadecimal name of every variant."""


class SaveReport(Struct, kw_only=True):
    """What one or more saves changed; counts add up."""

    added: int = 0
    replaced: int = 0
    superseded: int = 0
    drawers_added: int = 0
    drawers_removed: int = 0
    sessions: set[tuple[str, str]] = msgspec.field(default_factory=set)
    sources_to_reread: set[int] = msgspec.field(default_factory=set)
    """Sources whose telling of an exchange is now the longest, though another's text is stored."""


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


class _Changes:
    """What one save has changed: exchanges with the drawers they had before, and sessions whose turns may differ."""

    def __init__(self) -> None:
        self.drawers: dict[int, StoredDrawers] = {}
        self.sessions: set[int] = set()


class ExchangeStore:
    """Saves exchanges inside the caller's write transaction. Used by the writer thread only."""

    def __init__(self, drawers: DrawerStore, project_of: Callable[[str], str]) -> None:
        """Take the drawer store and the rule that turns a working directory into a project."""
        self._drawers = drawers
        self._project_of = project_of

    def save(
        self,
        connection: Connection,
        source_id: int,
        reading: int,
        result: ParseResult,
        report: SaveReport,
    ) -> None:
        """Store what one source told, in one go; sessions that gain or lose their third turn are cut anew.

        All texts are stored before any is cut: how an exchange is cut depends on the turns of its session.
        """
        for facts in result.sessions:
            self._save_session(connection, facts)
        changes = _Changes()
        for exchange in result.exchanges:
            report.sessions.add((exchange.agent, exchange.session_id))
            self._save_exchange(connection, source_id, reading, exchange, changes, report)
        for exchange_id, old in changes.drawers.items():
            self._drawers.cut_anew(connection, exchange_id, old, report)
        for session_id in sorted(changes.sessions):
            self._drawers.recut_session(connection, session_id, report)
        for key in result.superseded_keys:
            self._supersede(connection, source_id, key, report)

    def _supersede(self, connection: Connection, source_id: int, key: str, report: SaveReport) -> None:
        """Note that the source rewound past the exchange with ``key``."""
        row = connection.execute(
            "SELECT k.exchange_id FROM exchange_keys k JOIN provenance p ON p.exchange_id=k.exchange_id"
            " WHERE (k.key=? OR (k.key>? AND k.key<?)) AND p.source_id=?",
            (key, f"{key}{_VARIANT}", f"{key}{_VARIANT}{_AFTER_ALL}", source_id),
        ).fetchone()
        if row is not None:
            self._lose_telling(connection, source_id, int(row[0]), report)

    def supersede_vanished(self, connection: Connection, source_id: int, reading: int, report: SaveReport) -> None:
        """Supersede what the source held in an earlier pass and no longer holds."""
        rows = connection.execute(
            "SELECT exchange_id FROM provenance WHERE source_id=? AND reading<? AND is_superseded=0",
            (source_id, reading),
        ).fetchall()
        for (exchange_id,) in rows:
            self._lose_telling(connection, source_id, exchange_id, report)

    def _save_session(self, connection: Connection, facts: SessionFacts) -> int:
        """Insert or complete a session; empty facts never overwrite known ones."""
        values = (
            facts.agent,
            facts.session_id,
            facts.parent_session_id,
            facts.relation,
            facts.title,
            self._project_of(facts.cwd) if facts.cwd else "",
            facts.cwd,
            facts.branch,
            facts.agent_version,
            facts.entrypoint,
            int(facts.is_automated),
        )
        connection.execute(
            "INSERT INTO sessions(agent, native_id, parent_native_id, relation, title, project, cwd, branch,"
            " agent_version, entrypoint, is_automated) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
            " ON CONFLICT(agent, native_id) DO UPDATE SET"
            " parent_native_id=iif(excluded.parent_native_id<>'', excluded.parent_native_id, parent_native_id),"
            " relation=iif(excluded.relation<>'none', excluded.relation, relation),"
            " title=iif(excluded.title<>'', excluded.title, title),"
            " project=iif(cwd='', excluded.project, project), cwd=iif(cwd='', excluded.cwd, cwd),"
            " branch=iif(branch='', excluded.branch, branch),"
            " agent_version=iif(excluded.agent_version<>'', excluded.agent_version, agent_version),"
            " entrypoint=iif(entrypoint='', excluded.entrypoint, entrypoint),"
            " is_automated=max(is_automated, excluded.is_automated)",
            values,
        )
        return self._session_row(connection, facts.agent, facts.session_id)

    @staticmethod
    def _session_row(connection: Connection, agent: str, native_id: str) -> int:
        row = connection.execute("SELECT id FROM sessions WHERE agent=? AND native_id=?", (agent, native_id)).fetchone()
        return int(row[0]) if row else 0

    def _save_exchange(
        self,
        connection: Connection,
        source_id: int,
        reading: int,
        exchange: Exchange,
        changes: _Changes,
        report: SaveReport,
    ) -> None:
        """Store one exchange, noting what must be cut anew."""
        session_id = self._session_row(connection, exchange.agent, exchange.session_id) or self._save_session(
            connection, SessionFacts(agent=exchange.agent, session_id=exchange.session_id, cwd=exchange.cwd)
        )
        exchange_id = self._find(connection, source_id, exchange)
        if exchange_id is None:
            exchange = self._as_variant(connection, exchange)
            exchange_id = self._insert(connection, source_id, session_id, exchange)
            self._save_provenance(connection, exchange_id, source_id, session_id, reading, exchange)
            changes.drawers[exchange_id] = {}
            changes.sessions.add(session_id)
            report.added += 1
            report.superseded += exchange.is_superseded
            return
        self._save_provenance(connection, exchange_id, source_id, session_id, reading, exchange)
        self._add_key(connection, exchange_id, exchange)
        self._take_from_owner(connection, exchange_id, source_id, session_id, exchange, changes, report)
        self._refresh_superseded(connection, exchange_id, report)

    def _find(self, connection: Connection, source_id: int, exchange: Exchange) -> int | None:
        """Find the stored exchange that this source tells of; None for a new one, or a reply that goes another way."""
        stored = self._candidates(connection, exchange)
        for exchange_id, owner in stored:
            if owner == source_id:
                return exchange_id
        for exchange_id, _ in stored:
            (reply,) = connection.execute("SELECT reply_text FROM exchanges WHERE id=?", (exchange_id,)).fetchone()
            if _is_same_way(reply, exchange.reply_text):
                return exchange_id
        for exchange_id, _ in stored:
            self._leave(connection, exchange_id, source_id)
        return None

    @staticmethod
    def _candidates(connection: Connection, exchange: Exchange) -> list[tuple[int, int]]:
        """Return exchanges with this key or a variant of it, else copies with other ids; each with its owner."""
        rows: list[tuple[int, int]] = connection.execute(
            "SELECT DISTINCT e.id, e.owner_source_id FROM exchange_keys k JOIN exchanges e ON e.id=k.exchange_id"
            " WHERE k.key=? OR (k.key>? AND k.key<?) ORDER BY e.id",
            (exchange.key, f"{exchange.key}{_VARIANT}", f"{exchange.key}{_VARIANT}{_AFTER_ALL}"),
        ).fetchall()
        if not rows and _may_be_copied(exchange):
            rows = connection.execute(
                "SELECT e.id, e.owner_source_id FROM exchanges e JOIN sessions s ON s.id=e.session_id"
                " WHERE e.user_hash=? AND e.started_at=? AND e.time_quality='exact' AND e.user_kind<>'automated'"
                " AND s.agent=? AND s.native_id<>? ORDER BY e.id",
                (content_hash(exchange.user_text), exchange.started_at, exchange.agent, exchange.session_id),
            ).fetchall()
        return rows

    @staticmethod
    def _as_variant(connection: Connection, exchange: Exchange) -> Exchange:
        """Give the exchange a key of its own where its key names a reply that went another way."""
        if connection.execute("SELECT 1 FROM exchange_keys WHERE key=?", (exchange.key,)).fetchone() is None:
            return exchange
        name = content_hash(exchange.session_id).hex()[:8]
        return msgspec.structs.replace(exchange, key=ExchangeKey(f"{exchange.key}{_VARIANT}{name}"))

    @staticmethod
    def _leave(connection: Connection, exchange_id: int, source_id: int) -> None:
        """Note that the source, which is not the owner, tells another reply now."""
        connection.execute("DELETE FROM provenance WHERE exchange_id=? AND source_id=?", (exchange_id, source_id))

    def _insert(self, connection: Connection, source_id: int, session_id: int, exchange: Exchange) -> int:
        columns = self._columns(exchange) | {
            "public_id": public_id(exchange.key),
            "key": exchange.key,
            "session_id": session_id,
            "owner_source_id": source_id,
            "is_superseded": int(exchange.is_superseded),
        }
        names = ", ".join(columns)
        marks = ", ".join("?" * len(columns))
        cursor = connection.execute(f"INSERT INTO exchanges({names}) VALUES ({marks})", tuple(columns.values()))
        exchange_id = int(cursor.lastrowid or 0)
        connection.execute(_INSERT_KEY, (exchange.key, exchange_id, public_id(exchange.key)))
        return exchange_id

    def _columns(self, exchange: Exchange) -> dict[str, object]:
        """Return what the owner's telling sets."""
        return {
            "ordinal": exchange.ordinal,
            "user_text": exchange.user_text,
            "user_kind": exchange.user_kind,
            "user_hash": content_hash(exchange.user_text),
            "reply_text": exchange.reply_text,
            "reply_final_start": exchange.reply_final_start,
            "content_hash": content_hash(exchange.user_text, exchange.reply_text),
            "model": exchange.model,
            "started_at": exchange.started_at,
            "ended_at": exchange.ended_at,
            "time_quality": exchange.time_quality,
            "status": exchange.status,
            "project": self._project_of(exchange.cwd) if exchange.cwd else "",
            "cwd": exchange.cwd,
            "branch": exchange.branch,
            "agent_version": exchange.agent_version,
            "tools": msgspec.json.encode(exchange.tools).decode(),
            "attachments": msgspec.json.encode(exchange.attachments).decode(),
            "flags": ",".join(exchange.flags),
        }

    @staticmethod
    def _save_provenance(
        connection: Connection, exchange_id: int, source_id: int, session_id: int, reading: int, exchange: Exchange
    ) -> None:
        connection.execute(
            "INSERT INTO provenance(exchange_id, source_id, session_id, reading, line_start, line_end, byte_start,"
            " byte_end, chars, is_superseded) VALUES (?,?,?,?,?,?,?,?,?,?)"
            " ON CONFLICT(exchange_id, source_id) DO UPDATE SET"
            " session_id=excluded.session_id, reading=excluded.reading,"
            " line_start=excluded.line_start, line_end=excluded.line_end, byte_start=excluded.byte_start,"
            " byte_end=excluded.byte_end, chars=excluded.chars, is_superseded=excluded.is_superseded",
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
                int(exchange.is_superseded),
            ),
        )

    @staticmethod
    def _add_key(connection: Connection, exchange_id: int, exchange: Exchange) -> None:
        """Remember a fork's key; the smallest key names the exchange, whichever file was read first."""
        connection.execute(
            f"{_INSERT_KEY} ON CONFLICT DO NOTHING", (exchange.key, exchange_id, public_id(exchange.key))
        )
        (key,) = connection.execute("SELECT min(key) FROM exchange_keys WHERE exchange_id=?", (exchange_id,)).fetchone()
        connection.execute(
            "UPDATE exchanges SET key=?, public_id=? WHERE id=? AND key<>?", (key, public_id(key), exchange_id, key)
        )

    def _take_from_owner(
        self,
        connection: Connection,
        exchange_id: int,
        source_id: int,
        session_id: int,
        exchange: Exchange,
        changes: _Changes,
        report: SaveReport,
    ) -> None:
        """Store this source's telling if it is the best one, or takes the place of its own stored one.

        An owner whose telling shrinks is stored all the same: the better one, read again, then takes over, or turns
        out to go another way.
        """
        owner, owner_state = connection.execute(
            "SELECT p.source_id, s.state FROM provenance p JOIN sources s ON s.id=p.source_id WHERE p.exchange_id=?"
            " ORDER BY p.is_superseded, p.chars DESC, s.path LIMIT 1",
            (exchange_id,),
        ).fetchone()
        stored_owner, stored_session, stored_hash = connection.execute(
            "SELECT owner_source_id, session_id, content_hash FROM exchanges WHERE id=?", (exchange_id,)
        ).fetchone()
        if owner not in {source_id, stored_owner} and owner_state != "gone":
            report.sources_to_reread.add(owner)
        if source_id not in {owner, stored_owner}:
            return
        columns = self._columns(exchange) | {"session_id": session_id, "owner_source_id": source_id}
        assignments = ", ".join(f"{name}=?" for name in columns)
        if exchange_id not in changes.drawers:
            changes.drawers[exchange_id] = self._drawers.stored(connection, exchange_id)
        connection.execute(f"UPDATE exchanges SET {assignments} WHERE id=?", (*columns.values(), exchange_id))
        if columns["content_hash"] != stored_hash:
            report.replaced += 1
        changes.sessions |= {session_id, int(stored_session)}

    def _refresh_superseded(self, connection: Connection, exchange_id: int, report: SaveReport) -> None:
        """An exchange is out of recall when every source that holds it has rewound past it or lost it."""
        (is_superseded,) = connection.execute(
            "SELECT min(is_superseded) FROM provenance WHERE exchange_id=?", (exchange_id,)
        ).fetchone()
        changed = connection.execute(
            "UPDATE exchanges SET is_superseded=? WHERE id=? AND is_superseded<>?",
            (is_superseded, exchange_id, is_superseded),
        ).rowcount
        if changed:
            report.superseded += 1 if is_superseded else -1
            self._drawers.touch(connection, exchange_id)

    def _lose_telling(self, connection: Connection, source_id: int, exchange_id: int, report: SaveReport) -> None:
        """Note that the source no longer holds the exchange; where it owned it, the next best is read for its text."""
        connection.execute(
            "UPDATE provenance SET is_superseded=1 WHERE exchange_id=? AND source_id=?", (exchange_id, source_id)
        )
        self._refresh_superseded(connection, exchange_id, report)
        row = connection.execute(
            "SELECT p.source_id FROM exchanges e JOIN provenance p ON p.exchange_id=e.id"
            " JOIN sources s ON s.id=p.source_id"
            " WHERE e.id=? AND e.owner_source_id=? AND p.is_superseded=0 AND s.state<>'gone'"
            " ORDER BY p.chars DESC, s.path LIMIT 1",
            (exchange_id, source_id),
        ).fetchone()
        if row is not None:
            report.sources_to_reread.add(int(row[0]))


def _is_same_way(one: str, other: str) -> bool:
    """Return whether one reply is the beginning of the other: a copy, at another moment of its growth."""
    shorter, longer = sorted((one.rstrip(), other.rstrip()), key=len)
    return longer.startswith(shorter)


def _may_be_copied(exchange: Exchange) -> bool:
    """Return whether text and time together can tell a fork's copy.

    Never text alone, and never inside one session: people do type "continue" twenty times. Agents start several
    sub-agents with one task in the same millisecond, so words that no person typed are left out.
    """
    return (
        bool(exchange.user_text)
        and exchange.started_at is not None
        and exchange.time_quality == "exact"
        and exchange.user_kind != "automated"
    )
