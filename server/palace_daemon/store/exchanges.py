"""Storing exchanges: once each, with every provenance, in drawers, with their words.

Invariant: tellings of one exchange by several sources are one exchange as long as one begins with the other, as copies
and resumed sessions have it; the longest is stored, then that of the smaller session id, then path. Where a fork goes
on otherwise from the same question, or another source tells an edited question, nothing is dropped: that is an exchange
of its own, see :mod:`.variants`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
from msgspec import Struct

from palace_daemon.model import CutMode, Exchange, ExchangeKey, ParseResult, SessionFacts
from palace_daemon.store import redactions, scrubbing, sources, tellings, tombstones, variants
from palace_daemon.store.drawers import DrawerStore, StoredDrawers, Telling
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.variants import content_hash


class Unwanted(Struct):
    """What a source told and must not be kept: it was forgotten, or is of an ignored project."""

    exchanges: list[Exchange] = msgspec.field(default_factory=list)
    titles: dict[str, str] = msgspec.field(default_factory=dict)
    """By the session's own id."""

    def __bool__(self) -> bool:
        return bool(self.exchanges or self.titles)


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
    sessions_to_settle: set[int] = msgspec.field(default_factory=set)
    """Sessions of which a source told: what copies tell of them is to be judged again."""
    sessions_to_recut: set[int] = msgspec.field(default_factory=set)
    """Sessions whose number of turns that stand changed."""
    families: set[str] = msgspec.field(default_factory=set)
    """Keys whose ways may have to be named anew."""
    left_out: Counter[str] = msgspec.field(default_factory=Counter)
    """Tellings of exchanges that were not stored, by reason."""
    unwanted: Unwanted = msgspec.field(default_factory=Unwanted)

    def leave_out(self, exchange: Exchange, reason: str) -> None:
        """Note that ``exchange`` was not stored."""
        self.left_out[reason] += 1
        self.unwanted.exchanges.append(exchange)


class _Changes:
    """What one save knows, and has changed."""

    def __init__(self, connection: Connection, result: ParseResult) -> None:
        self.drawers: dict[int, StoredDrawers | None] = {}
        """Of exchanges that are to be cut what they had before; None for new ones."""
        self.sessions: set[int] = set()
        """Those whose turns may differ."""
        self.new: dict[int, Telling] = {}
        """What is stored of new exchanges."""
        self.session_rows: dict[tuple[str, str], int] = {}
        """By agent and the session's own id."""
        self.turns = Counter(one.session_id for one in result.exchanges if one.user_text and not one.is_superseded)
        """How many of a session are told here."""
        self.is_anything_forgotten = not tombstones.is_empty(connection)


class ExchangeStore:
    """Saves exchanges inside the caller's write transaction. Used by the writer thread only."""

    def __init__(
        self,
        drawers: DrawerStore,
        project_of: Callable[[str], str],
        ignores_project: Callable[[str], bool] = lambda _project: False,
    ) -> None:
        """Take the drawer store, the rule that turns a working directory into a project, and which are left out."""
        self._drawers = drawers
        self._project_of = project_of
        self._ignores_project = ignores_project

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
        for key in result.withdrawn_keys:
            self._withdraw(connection, source_id, key, report)
        changes = _Changes(connection, result)
        for exchange in result.exchanges:
            report.sessions.add((exchange.agent, exchange.session_id))
            self._save_exchange(connection, source_id, reading, exchange, changes, report)
        self._cut(connection, changes, report)
        for session_id in sorted(changes.sessions):
            self._drawers.recut_session(connection, session_id, report)
        for key in result.superseded_keys:
            self._supersede(connection, source_id, key, report)
        for facts in result.sessions:
            self._save_title(connection, facts, report)

    def _cut(self, connection: Connection, changes: _Changes, report: SaveReport) -> None:
        """Cut what changed; how a session is cut is the same for all its exchanges."""
        modes: dict[int, CutMode] = {}
        for exchange_id, old in changes.drawers.items():
            now = changes.new.get(exchange_id)
            if now is None:
                self._drawers.cut_anew(connection, exchange_id, old or {}, report)
                continue
            session_id = now.shown[0]
            if session_id not in modes:
                modes[session_id] = self._drawers.mode(connection, session_id)
            self._drawers.cut_as(connection, exchange_id, now, modes[session_id], old, report)

    def _save_title(self, connection: Connection, facts: SessionFacts, report: SaveReport) -> None:
        """Store a session's title, unless it tells of what is not kept: then no byte of it reaches the file.

        Call when the exchanges are stored: whether a forgotten session may have a title depends on them.
        """
        session_id, stored, project = connection.execute(
            "SELECT id, title, project FROM sessions WHERE agent=? AND native_id=?", (facts.agent, facts.session_id)
        ).fetchone()
        is_ignored = self._ignores_project(project) or self._ignores_project(
            self._project_of(facts.cwd) if facts.cwd else ""
        )
        title = facts.title or stored
        if is_ignored or tombstones.hide_title(connection, facts.agent, facts.session_id, title):
            if facts.title:
                report.unwanted.titles[facts.session_id] = facts.title
            title = "" if is_ignored or title == stored else stored
        if title != stored:
            connection.execute("UPDATE sessions SET title=? WHERE id=?", (title, session_id))
            if not title:
                scrubbing.mark_due(connection)

    def _is_ignored(self, connection: Connection, exchange: Exchange) -> bool:
        """Return whether a rule leaves the exchange's project out; where it names none, its session's counts."""
        if exchange.cwd:
            return self._ignores_project(self._project_of(exchange.cwd))
        row = connection.execute(
            "SELECT project FROM sessions WHERE agent=? AND native_id=?", (exchange.agent, exchange.session_id)
        ).fetchone()
        return row is not None and self._ignores_project(row[0])

    def _supersede(self, connection: Connection, source_id: int, key: str, report: SaveReport) -> None:
        """Note that the source rewound past the exchange with ``key``."""
        for exchange_id, _ in variants.of_key(connection, key):
            if tellings.is_told_by(connection, exchange_id, source_id):
                self._lose_telling(connection, source_id, exchange_id, report)
                return

    def _withdraw(self, connection: Connection, source_id: int, key: str, report: SaveReport) -> None:
        """Take back what the source told; where no other source tells it, no trace of it stays."""
        for exchange_id, _ in variants.of_key(connection, key):
            if not tellings.is_told_by(connection, exchange_id, source_id):
                continue
            superseded = report.superseded
            self._lose_telling(connection, source_id, exchange_id, report)
            self._leave(connection, exchange_id, source_id)
            heir = connection.execute(
                "SELECT p.source_id FROM provenance p JOIN sources s ON s.id=p.source_id WHERE p.exchange_id=?"
                " ORDER BY p.is_superseded, p.chars DESC, p.is_closed DESC, s.origin<>'',"
                f" {variants.by_name('s')}, s.origin LIMIT 1",
                (exchange_id,),
            ).fetchone()
            if heir is not None:
                connection.execute(
                    "UPDATE exchanges SET owner_source_id=? WHERE id=? AND owner_source_id=?",
                    (heir[0], exchange_id, source_id),
                )
            else:
                self._drawers.remove(connection, exchange_id, report)
                connection.execute("DELETE FROM exchanges WHERE id=?", (exchange_id,))
                report.added -= 1
                report.superseded = superseded
            return

    def recut(self, connection: Connection, report: SaveReport) -> None:
        """Name parted ways, and cut the sessions anew whose turns came to stand or to stand no longer; call it last."""
        for family in sorted(report.families):
            settled = variants.settle(connection, family)
            for exchange_id in settled.united:
                report.sessions_to_recut.add(self._session_of(connection, exchange_id))
                self._drawers.remove(connection, exchange_id, report)
                connection.execute("DELETE FROM exchanges WHERE id=?", (exchange_id,))
            for exchange_id in settled.touched:
                self.refresh_superseded(connection, exchange_id, report)
        report.families.clear()
        for session_id in sorted(report.sessions_to_settle | report.sessions_to_recut):
            for exchange_id in sources.told_by_copies(connection, session_id):
                self.refresh_superseded(connection, exchange_id, report)
        report.sessions_to_settle.clear()
        for session_id in sorted(report.sessions_to_recut):
            self._drawers.recut_session(connection, session_id, report)
        report.sessions_to_recut.clear()

    def supersede_vanished(
        self, connection: Connection, source_id: int, reading: int, report: SaveReport, *, since: int = 0
    ) -> None:
        """Supersede what the source held in an earlier pass, from the pass ``since`` on, and no longer holds."""
        rows = connection.execute(
            "SELECT exchange_id FROM provenance WHERE source_id=? AND reading<? AND reading>=? AND is_superseded=0",
            (source_id, reading, since),
        ).fetchall()
        for (exchange_id,) in rows:
            self._lose_telling(connection, source_id, exchange_id, report)

    def _save_session(self, connection: Connection, facts: SessionFacts) -> int:
        """Insert or complete a session, all but its title; empty facts never overwrite known ones."""
        values = (
            facts.agent,
            facts.session_id,
            facts.parent_session_id,
            facts.relation,
            self._project_of(facts.cwd) if facts.cwd else "",
            facts.cwd,
            facts.branch,
            facts.agent_version,
            facts.entrypoint,
            int(facts.is_automated),
        )
        connection.execute(
            "INSERT INTO sessions(agent, native_id, parent_native_id, relation, project, cwd, branch,"
            " agent_version, entrypoint, is_automated) VALUES (?,?,?,?,?,?,?,?,?,?)"
            " ON CONFLICT(agent, native_id) DO UPDATE SET"
            " parent_native_id=iif(excluded.parent_native_id<>'', excluded.parent_native_id, parent_native_id),"
            " relation=iif(excluded.relation<>'none', excluded.relation, relation),"
            " project=iif(cwd='', excluded.project, project), cwd=iif(cwd='', excluded.cwd, cwd),"
            " branch=iif(branch='', excluded.branch, branch),"
            " agent_version=iif(excluded.agent_version<>'', excluded.agent_version, agent_version),"
            " entrypoint=iif(entrypoint='', excluded.entrypoint, entrypoint),"
            " is_automated=max(is_automated, excluded.is_automated)",
            values,
        )
        return self._session_row(connection, facts.agent, facts.session_id)

    @staticmethod
    def _session_of(connection: Connection, exchange_id: int) -> int:
        return int(connection.execute("SELECT session_id FROM exchanges WHERE id=?", (exchange_id,)).fetchone()[0])

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
        """Store one exchange, noting what must be cut anew; or leave it out, saying why."""
        if self._is_ignored(connection, exchange):
            report.leave_out(exchange, "ignored_project")
            return
        session_id = self._session_to_save(connection, exchange, changes)
        report.sessions_to_settle.add(session_id)
        known = variants.of_key(connection, exchange.key)
        exchange_id = self._find(connection, source_id, exchange, known, report)
        if exchange_id is None:
            told, exchange = exchange, self._as_variant(connection, exchange) if known else exchange
            if changes.is_anything_forgotten and tombstones.keep_out(connection, exchange, [source_id]):
                report.leave_out(told, "forgotten")
                return
            exchange_id = self._insert(connection, source_id, session_id, exchange, changes)
            variants.add_key(connection, exchange_id, exchange.key, is_first=not known)
            tellings.save(connection, exchange_id, source_id, session_id, reading, exchange)
            report.added += 1
            report.superseded += exchange.is_superseded
            return
        tellings.save(connection, exchange_id, source_id, session_id, reading, exchange)
        tellings.take_over_twin(connection, exchange_id, source_id)
        variants.add_key(connection, exchange_id, exchange.key)
        self._take_from_owner(connection, exchange_id, source_id, session_id, exchange, changes, report)
        self.refresh_superseded(connection, exchange_id, report)

    def _session_to_save(self, connection: Connection, exchange: Exchange, changes: _Changes) -> int:
        """Return the row of the exchange's session, inserted where nothing was told of it."""
        name = (exchange.agent, exchange.session_id)
        if name not in changes.session_rows:
            facts = SessionFacts(agent=exchange.agent, session_id=exchange.session_id, cwd=exchange.cwd)
            changes.session_rows[name] = self._session_row(connection, *name) or self._save_session(connection, facts)
        return changes.session_rows[name]

    def _find(
        self,
        connection: Connection,
        source_id: int,
        exchange: Exchange,
        known: list[tuple[int, int]],
        report: SaveReport,
    ) -> int | None:
        """Find the stored exchange that this source tells of; None for a new one, or a reply that goes another way."""
        stored = known or variants.copies(connection, exchange)
        if len(stored) > 1:
            report.families.add(variants.family_of(exchange.key))
        for exchange_id, owner in stored:
            if owner == source_id:
                return exchange_id
        for exchange_id, _ in stored:
            texts = connection.execute(
                "SELECT user_text, reply_text FROM exchanges WHERE id=?", (exchange_id,)
            ).fetchone()
            if variants.is_same_way(texts, (exchange.user_text, exchange.reply_text)):
                return exchange_id
        for exchange_id, _ in stored:
            self._leave(connection, exchange_id, source_id)
            report.families.add(variants.family_of(exchange.key))
        return None

    @staticmethod
    def _as_variant(connection: Connection, exchange: Exchange) -> Exchange:
        """Give the exchange a key of its own where its key names a reply that went another way."""
        session, reply = (content_hash(text).hex()[:8] for text in (exchange.session_id, exchange.reply_text))
        key = variants.free_key(connection, exchange.key, (session, f"{session}{reply}"))
        return msgspec.structs.replace(exchange, key=ExchangeKey(key))

    @staticmethod
    def _leave(connection: Connection, exchange_id: int, source_id: int) -> None:
        """Note that the source, which is not the owner, tells another reply now."""
        connection.execute("DELETE FROM provenance WHERE exchange_id=? AND source_id=?", (exchange_id, source_id))

    def _insert(
        self, connection: Connection, source_id: int, session_id: int, exchange: Exchange, changes: _Changes
    ) -> int:
        # Mostly right, and put right when the exchange is cut: it depends on the other turns of the session.
        cut = self._drawers.mode_of(changes.turns[exchange.session_id])
        columns = self._columns(exchange) | {
            "cut": cut,
            "public_id": variants.public_id(exchange.key),
            "key": exchange.key,
            "session_id": session_id,
            "owner_source_id": source_id,
            "is_superseded": int(exchange.is_superseded),
        }
        names = ", ".join(columns)
        marks = ", ".join("?" * len(columns))
        cursor = connection.execute(f"INSERT INTO exchanges({names}) VALUES ({marks})", tuple(columns.values()))
        exchange_id = int(cursor.lastrowid or 0)
        shown = (session_id, str(columns["project"]), exchange.started_at)
        changes.new[exchange_id] = Telling(exchange.user_text, exchange.reply_text, exchange.user_kind, cut, shown)
        changes.drawers[exchange_id] = None
        changes.sessions.add(session_id)
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
            "utc_offset_minutes": exchange.utc_offset_minutes,
            "status": exchange.status,
            "project": self._project_of(exchange.cwd) if exchange.cwd else "",
            "cwd": exchange.cwd,
            "branch": exchange.branch,
            "agent_version": exchange.agent_version,
            "tools": msgspec.json.encode(exchange.tools).decode(),
            "attachments": msgspec.json.encode(exchange.attachments).decode(),
            "flags": ",".join(exchange.flags),
            "redactions": redactions.column(
                exchange.flags, (exchange.user_text, exchange.reply_text), exchange.tools, exchange.attachments
            ),
        }

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
        owner, can_be_read = connection.execute(
            "SELECT p.source_id, s.state<>'gone' AND s.origin='' FROM provenance p"
            " JOIN sources s ON s.id=p.source_id JOIN sessions n ON n.id=p.session_id WHERE p.exchange_id=?"
            " ORDER BY p.is_superseded, p.chars DESC, p.is_closed DESC, s.origin<>'', n.native_id,"
            f" {variants.by_name('s')}, s.origin LIMIT 1",
            (exchange_id,),
        ).fetchone()
        stored_owner, stored_session, stored_hash = connection.execute(
            "SELECT owner_source_id, session_id, content_hash FROM exchanges WHERE id=?", (exchange_id,)
        ).fetchone()
        if owner not in {source_id, stored_owner} and can_be_read:
            report.sources_to_reread.add(owner)
        if source_id not in {owner, stored_owner}:
            return
        columns = self._columns(exchange) | {"session_id": session_id, "owner_source_id": source_id}
        changes.new.pop(exchange_id, None)
        assignments = ", ".join(f"{name}=?" for name in columns)
        if exchange_id not in changes.drawers:
            changes.drawers[exchange_id] = self._drawers.stored(connection, exchange_id)
        connection.execute(f"UPDATE exchanges SET {assignments} WHERE id=?", (*columns.values(), exchange_id))
        if columns["content_hash"] != stored_hash:
            report.replaced += 1
        changes.sessions |= {session_id, int(stored_session)}

    def refresh_superseded(self, connection: Connection, exchange_id: int, report: SaveReport) -> None:
        """An exchange is out of recall when every source that holds it has rewound past it or lost it."""
        is_superseded = int(sources.is_superseded(connection, exchange_id))
        changed = connection.execute(
            "UPDATE exchanges SET is_superseded=? WHERE id=? AND is_superseded<>?",
            (is_superseded, exchange_id, is_superseded),
        ).rowcount
        if changed:
            report.superseded += 1 if is_superseded else -1
            self._drawers.touch(connection, exchange_id)
            session_id, key = connection.execute(
                "SELECT session_id, key FROM exchanges WHERE id=?", (exchange_id,)
            ).fetchone()
            report.sessions_to_recut.add(session_id)
            report.families.add(variants.family_of(key))

    def _lose_telling(self, connection: Connection, source_id: int, exchange_id: int, report: SaveReport) -> None:
        """Note that the source no longer holds the exchange; where it owned it, the next best is read for its text."""
        connection.execute(
            "UPDATE provenance SET is_superseded=1 WHERE exchange_id=? AND source_id=?", (exchange_id, source_id)
        )
        self.refresh_superseded(connection, exchange_id, report)
        row = connection.execute(
            "SELECT p.source_id FROM exchanges e JOIN provenance p ON p.exchange_id=e.id"
            " JOIN sources s ON s.id=p.source_id JOIN sessions n ON n.id=p.session_id"
            " WHERE e.id=? AND e.owner_source_id=? AND p.is_superseded=0 AND s.state<>'gone' AND s.origin=''"
            f" ORDER BY p.chars DESC, p.is_closed DESC, n.native_id, {variants.by_name('s')} LIMIT 1",
            (exchange_id, source_id),
        ).fetchone()
        if row is not None:
            report.sources_to_reread.add(int(row[0]))
