"""Merging the lines of an export into a store.

Invariant: what comes out does not depend on the order of exports, nor on how often one is merged. Of several tellings
of one exchange the longest is stored; of equal ones that of this machine, then that of the smaller path. What is known
of a session or a file from elsewhere is compared field by field. There is one exception: a tombstone removes what is
stored already by key alone, while it keeps out copies under other keys, too.

Invariant: a file of another machine is never taken for one of this machine. Where this machine has read a file at the
same path and tells as much of an exchange, its own telling stands for both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, structs

from palace_daemon.model import Attachment
from palace_daemon.store import forgetting, notes, redactions, scrubbing, tellings, tombstones, variants
from palace_daemon.store.drawers import DrawerStore, StoredDrawers
from palace_daemon.store.exchanges import ExchangeStore, SaveReport
from palace_daemon.store.forgetting import Removal
from palace_daemon.store.notes import Note
from palace_daemon.store.portable import (
    ExchangeLine,
    Line,
    NoteLine,
    Place,
    SessionLine,
    SourceLine,
    TombstoneLine,
)
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.tombstones import Tombstone
from palace_daemon.store.variants import (
    VARIANT,
    add_key,
    content_hash,
    family_of,
    free_key,
    is_same_way,
    of_key,
    public_id,
)

_SHOWN = (
    "ordinal", "user_text", "user_kind", "reply_text", "reply_final_start", "model", "started_at", "ended_at",
    "time_quality", "utc_offset_minutes", "status",
    "project", "cwd", "branch", "agent_version", "tools", "attachments", "flags",
)  # fmt: skip
"""Columns that one telling sets."""


class Merged(NamedTuple):
    """What merging changed."""

    changes: Counter[str]
    """See :class:`palace_daemon.model.ImportReport`."""
    report: SaveReport
    removal: Removal | None
    """What was forgotten elsewhere and therefore removed here."""


class LeftOut(Struct):
    """What ignore rules have kept out of one import so far, over all its transactions."""

    sessions: set[tuple[str, str]] = msgspec.field(default_factory=set)
    """Agent and id of sessions of which an exchange was left out: their titles tell of it."""
    unplaced: set[int] = msgspec.field(default_factory=set)
    """Exchanges that were added and name no project: that of their session may turn out to be ignored."""


class Importer:
    """Merges lines inside the caller's write transaction. Made for one transaction."""

    def __init__(
        self,
        connection: Connection,
        drawers: DrawerStore,
        ignores_project: Callable[[str], bool],
        ignores_path: Callable[[str], bool] = lambda _path: False,
        left_out: LeftOut | None = None,
    ) -> None:
        """Take the transaction, the drawers, the rules for projects and for files of this machine, and what they did.

        A rule on paths is about this machine: files of others are not looked for here.
        """
        self._connection = connection
        self._drawers = drawers
        self._ignores_project = ignores_project
        self._ignores_path = ignores_path
        self._left_out = LeftOut() if left_out is None else left_out
        self._ignored_sessions: set[int] = set()
        self._exchanges = ExchangeStore(drawers, project_of=lambda cwd: cwd)
        (self._machine,) = connection.execute("SELECT machine FROM state").fetchone()
        self._source_ids: dict[tuple[str, str], int] = {}
        self._session_ids: dict[tuple[str, str], int] = {}
        self._former: dict[int, StoredDrawers] = {}
        """Exchanges that are to be cut anew, with the drawers they had before."""
        self._recut: set[int] = set()
        self._changes: Counter[str] = Counter()
        self._report = SaveReport()

    def merge(self, lines: Iterable[Line]) -> Merged:
        """Merge lines in order; all texts are stored before any is cut, as their sessions' turns decide how."""
        buried: list[TombstoneLine] = []
        has_notes = False
        from palace_daemon.store.cleaning import without_secrets  # noqa: PLC0415 - its patterns take long

        for line in map(without_secrets, lines):
            match line:
                case SourceLine():
                    self._source(line)
                case ExchangeLine():
                    self._exchange(line)
                case NoteLine():
                    self._note(line)
                    has_notes = True
                case SessionLine():
                    self._session(line)
                case TombstoneLine():
                    buried.append(line)
        for exchange_id, old in self._former.items():
            self._drawers.cut_anew(self._connection, exchange_id, old, self._report)
        self._report.sessions_to_recut |= self._recut
        self._exchanges.recut(self._connection, self._report)
        if has_notes:
            notes.settle(self._connection, self._drawers, self._report)
        removals = [self._drop_ignored(), self._bury(buried) if buried else None]
        return Merged(self._changes, self._report, forgetting.joined(removal for removal in removals if removal))

    # ---------------------------------------------------------------------------------------------------- sources

    def _source(self, line: SourceLine) -> None:
        """Store what another machine's file is; of two states the one that was read further."""
        if self._local_source(line.path) is not None:
            return
        source_id = self._source_id(line.machine, line.path, state="")
        names = (
            "reading", "lines_read", "read_bytes", "size_bytes", "state", "error", "agent", "format", "format_version",
            "is_secondary", "lines_skipped",
        )  # fmt: skip
        stored = self._connection.execute(f"SELECT {', '.join(names)} FROM sources WHERE id=?", (source_id,)).fetchone()
        told = (
            line.reading, line.lines_read, line.read_bytes, line.size_bytes, line.state, line.error, line.agent,
            line.format, line.format_version, int(line.secondary),
            msgspec.json.encode(dict(sorted(line.lines_skipped.items()))).decode(),
        )  # fmt: skip
        if told > stored:
            assignments = ", ".join(f"{name}=?" for name in names)
            self._connection.execute(f"UPDATE sources SET {assignments} WHERE id=?", (*told, source_id))

    def _local_source(self, path: str) -> int | None:
        row = self._connection.execute("SELECT id FROM sources WHERE path=? AND origin=''", (path,)).fetchone()
        return None if row is None else int(row[0])

    def _source_id(self, machine: str, path: str, *, agent: str = "", state: str = "ok") -> int:
        """Return the row of a file; our own come back as such only where we know them still."""
        name = (machine, path)
        if name not in self._source_ids:
            local = self._local_source(path) if machine == self._machine else None
            self._source_ids[name] = self._foreign_source(machine, path, agent, state) if local is None else local
        return self._source_ids[name]

    def _foreign_source(self, machine: str, path: str, agent: str, state: str) -> int:
        self._connection.execute(
            "INSERT INTO sources(path, origin, agent, state) VALUES (?,?,?,?) ON CONFLICT DO NOTHING",
            (path, machine, agent, state),
        )
        row = self._connection.execute("SELECT id FROM sources WHERE path=? AND origin=?", (path, machine)).fetchone()
        return int(row[0])

    # --------------------------------------------------------------------------------------------------- sessions

    def _session(self, line: SessionLine) -> None:
        """Complete a session; where two sources contradict each other, the files of this machine are right.

        What is forgotten or ignored leaves no title.
        """
        if line.agent == notes.AGENT:
            notes.source(self._connection)
        session_id = self._session_id(line.agent, line.id)
        parent, relation, title, project, cwd, branch, version, entrypoint, automated = self._connection.execute(
            "SELECT parent_native_id, relation, title, project, cwd, branch, agent_version, entrypoint, is_automated"
            " FROM sessions WHERE id=?",
            (session_id,),
        ).fetchone()

        def chosen(stored: Any, told: Any, empty: Any = "") -> Any:
            if empty in {stored, told}:
                return told if stored == empty else stored
            return stored if stored == told or self._is_told_here(session_id) else max(stored, told)

        place = chosen((project, cwd), (line.project, line.cwd), ("", ""))
        is_ignored = line.agent != notes.AGENT and any(map(self._ignores_project, {line.project, project, place[0]}))
        if is_ignored and self._ignores_project(place[0]):
            self._ignored_sessions.add(session_id)
        shown = "" if is_ignored else title if self._is_hidden(line, session_id) else chosen(title, line.title)
        if title and not shown:
            scrubbing.mark_due(self._connection)
        values = (
            chosen(parent, line.parent),
            chosen(relation, line.relation, "none"),
            shown,
            *place,
            chosen(branch, line.branch),
            chosen(version, line.agent_version),
            chosen(entrypoint, line.entrypoint),
            max(automated, int(line.automated)),
        )
        self._connection.execute(
            "UPDATE sessions SET parent_native_id=?, relation=?, title=?, project=?, cwd=?, branch=?, agent_version=?,"
            " entrypoint=?, is_automated=? WHERE id=?",
            (*values, session_id),
        )

    def _is_hidden(self, line: SessionLine, session_id: int) -> bool:
        """Return whether the session must not bear the title that the line gives it."""
        if line.title and tombstones.hide_title(self._connection, line.agent, line.id, line.title):
            return True
        if (line.agent, line.id) not in self._left_out.sessions:
            return False
        row = self._connection.execute(
            "SELECT 1 FROM exchanges WHERE session_id=?1"
            " UNION ALL SELECT 1 FROM provenance WHERE session_id=?1 LIMIT 1",
            (session_id,),
        ).fetchone()
        return row is None

    def _drop_ignored(self) -> Removal | None:
        """Take out exchanges that name no project, where that of their session turned out to be ignored."""
        found: list[int] = []
        for session_id in sorted(self._ignored_sessions):
            rows = self._connection.execute(
                "SELECT id FROM exchanges WHERE session_id=? AND project='' ORDER BY id", (session_id,)
            )
            found += [row[0] for row in rows]
        if not found:
            return None
        self._changes["ignored"] += len(found)
        self._changes["exchanges_added"] -= len(self._left_out.unplaced & set(found))
        return forgetting.leave_out(self._connection, self._drawers, found)

    def _is_told_here(self, session_id: int) -> bool:
        row = self._connection.execute(
            "SELECT 1 FROM exchanges e JOIN provenance p ON p.exchange_id=e.id JOIN sources s ON s.id=p.source_id"
            " WHERE e.session_id=? AND s.origin='' LIMIT 1",
            (session_id,),
        ).fetchone()
        return row is not None

    def _session_id(self, agent: str, native_id: str) -> int:
        name = (agent, native_id)
        if name not in self._session_ids:
            self._connection.execute("INSERT INTO sessions(agent, native_id) VALUES (?,?) ON CONFLICT DO NOTHING", name)
            row = self._connection.execute("SELECT id FROM sessions WHERE agent=? AND native_id=?", name).fetchone()
            self._session_ids[name] = int(row[0])
        return self._session_ids[name]

    # -------------------------------------------------------------------------------------------------- exchanges

    def _exchange(self, line: ExchangeLine) -> None:
        if self._is_ignored(line):
            self._changes["ignored"] += 1
            names = {line.session, *(place.session for place in line.places)}
            self._left_out.sessions |= {(line.agent, name) for name in names}
            return
        found = self._find(line)
        if found is None:
            self._add(line)
            return
        self._save_places(found, line)
        for key in line.all_keys:
            add_key(self._connection, found, key)
        self._take_telling(found, line)
        self._exchanges.refresh_superseded(self._connection, found, self._report)

    def _is_ignored(self, line: ExchangeLine) -> bool:
        """Return whether a rule leaves the exchange out; where it names no project, its session's counts."""
        project = line.project
        if not project:
            row = self._connection.execute(
                "SELECT project FROM sessions WHERE agent=? AND native_id=?", (line.agent, line.session)
            ).fetchone()
            project = "" if row is None else row[0]
        return self._ignores_project(project) or all(
            place.machine == self._machine and self._ignores_path(place.path) for place in line.places
        )

    def _find(self, line: ExchangeLine) -> int | None:
        """Return the stored exchange that this one is; first by its keys, then variants of them, then copies."""
        stored: dict[int, None] = {}
        for key in line.all_keys:
            row = self._connection.execute("SELECT exchange_id FROM exchange_keys WHERE key=?", (key,)).fetchone()
            stored |= {} if row is None else {int(row[0]): None}
        for key in line.all_keys:
            stored |= {exchange_id: None for exchange_id, _ in of_key(self._connection, key)}
        if stored:
            self._report.families |= {family_of(key) for key in line.all_keys}
        if not stored and VARIANT not in line.key:  # a store that has variants knew them from copies
            stored = {exchange_id: None for exchange_id, _ in variants.copies(self._connection, line.told())}
        for exchange_id in stored:
            texts = self._connection.execute(
                "SELECT user_text, reply_text FROM exchanges WHERE id=?", (exchange_id,)
            ).fetchone()
            if is_same_way(texts, (line.user_text, line.reply_text)):
                return exchange_id
        return None

    def _add(self, line: ExchangeLine) -> None:
        told = line.told()
        sources = [self._source_id(place.machine, place.path, agent=line.agent) for place in line.places]
        if tombstones.keep_out(self._connection, told, sources, line.all_keys):
            self._changes["forgotten"] += 1
            return
        key = self._free_key(line)
        session_id = self._session_id(line.agent, line.session)
        columns = _columns(line) | {
            "redactions": _redactions(line),
            "key": key,
            "public_id": public_id(key),
            "user_hash": content_hash(line.user_text),
            "content_hash": content_hash(line.user_text, line.reply_text),
            "session_id": session_id,
            "owner_source_id": self._owner_of_new(line),
            "is_superseded": int(all(map(self._is_superseded, line.places))),
        }
        marks = ", ".join("?" * len(columns))
        cursor = self._connection.execute(
            f"INSERT INTO exchanges({', '.join(columns)}) VALUES ({marks})", tuple(columns.values())
        )
        exchange_id = int(cursor.lastrowid or 0)
        for known in (key, *line.all_keys):
            add_key(self._connection, exchange_id, known)
        self._save_places(exchange_id, line)
        self._former[exchange_id] = {}
        self._recut.add(session_id)
        if not line.project:
            self._left_out.unplaced.add(exchange_id)
        self._changes["exchanges_added"] += 1
        self._report.added += 1
        self._report.sessions.add((line.agent, line.session))

    def _owner_of_new(self, line: ExchangeLine) -> int:
        """Return the file that a new exchange's text is from; ours, where it stands for that of another machine."""
        owner, local = line.owner, self._local_source(line.owner.path)
        for place in line.places:
            is_twin = (place.machine, place.path) == (self._machine, owner.path) and place.chars >= owner.chars
            if local is not None and is_twin:
                return local
        return self._source_id(owner.machine, owner.path, agent=line.agent)

    def _free_key(self, line: ExchangeLine) -> str:
        """Return the exchange's key, or a variant of it where that names a reply that went another way."""
        content = content_hash(line.user_text, line.reply_text).hex()
        return free_key(self._connection, line.key, (content_hash(line.session).hex()[:8], content[:8], content))

    def _save_places(self, exchange_id: int, line: ExchangeLine) -> None:
        """Store where the exchange stands; of two states of one place the one that was read later."""
        for place in sorted(line.places, key=lambda place: place.machine != self._machine):
            local = self._local_source(place.path)
            least = 0 if place.machine == self._machine else place.chars
            if local is not None and tellings.is_told_by(self._connection, exchange_id, local, least):
                continue
            source_id = self._source_id(place.machine, place.path, agent=line.agent)
            session_id = self._session_id(line.agent, place.session)
            names = (
                "reading", "chars", "is_closed", "is_superseded", "line_end", "byte_end", "line_start", "byte_start",
                "session_id",
            )  # fmt: skip
            told = (
                place.reading, place.chars, int(place.closed), int(self._is_superseded(place)), place.line_end,
                place.byte_end, place.line_start, place.byte_start, session_id,
            )  # fmt: skip
            columns = ", ".join(names)
            stored = self._connection.execute(
                f"SELECT {columns} FROM provenance WHERE exchange_id=? AND source_id=?", (exchange_id, source_id)
            ).fetchone()
            if stored is None or told[:-1] > stored[:-1]:
                self._connection.execute(
                    f"INSERT OR REPLACE INTO provenance(exchange_id, source_id, {columns})"
                    " VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                    (exchange_id, source_id, *told),
                )

    def _is_superseded(self, place: Place) -> bool:
        """Return whether the exchange stands there no longer: as the line says, or as our own file was read since."""
        is_ours = place.machine == self._machine
        return place.superseded or (is_ours and tellings.is_outdated(self._connection, place.path, place.reading))

    def _take_telling(self, exchange_id: int, line: ExchangeLine) -> None:
        """Store the line's text where it is the better telling."""
        stored = self._connection.execute(
            f"SELECT {', '.join(_SHOWN)}, session_id, owner_source_id FROM exchanges WHERE id=?", (exchange_id,)
        ).fetchone()
        before = dict(zip(_SHOWN, stored, strict=False))
        stored_session, stored_owner = stored[-2:]
        columns = _columns(line)
        owner = self._teller(exchange_id, line)
        if owner is None or self._rank(columns, owner) >= self._rank(before, stored_owner):
            return
        session_id = self._session_id(line.agent, line.session)
        is_new_text = (columns["user_text"], columns["reply_text"]) != (before["user_text"], before["reply_text"])
        if exchange_id not in self._former:
            self._former[exchange_id] = self._drawers.stored(self._connection, exchange_id)
        columns |= {
            "redactions": _redactions(line),
            "user_hash": content_hash(line.user_text),
            "content_hash": content_hash(line.user_text, line.reply_text),
            "session_id": session_id,
            "owner_source_id": owner,
        }
        assignments = ", ".join(f"{name}=?" for name in columns)
        self._connection.execute(f"UPDATE exchanges SET {assignments} WHERE id=?", (*columns.values(), exchange_id))
        self._recut |= {session_id, int(stored_session)}
        self._report.replaced += is_new_text
        self._changes["exchanges_replaced"] += is_new_text

    def _teller(self, exchange_id: int, line: ExchangeLine) -> int | None:
        """Return the file that the line's text is from; None where one of ours stands for it, and tells as much."""
        origin = line.owner.machine
        if origin == self._machine and tellings.is_outdated(self._connection, line.owner.path, line.owner.reading):
            return None
        if origin == self._machine and self._local_source(line.owner.path) is not None:
            origin = ""
        row = self._connection.execute(
            "SELECT s.id FROM provenance p JOIN sources s ON s.id=p.source_id"
            " WHERE p.exchange_id=? AND s.path=? AND s.origin=?",
            (exchange_id, line.owner.path, origin),
        ).fetchone()
        return None if row is None else int(row[0])

    def _rank(self, columns: dict[str, Any], source_id: int) -> tuple[Any, ...]:
        """Return what orders tellings of one exchange, the best first."""
        origin, path = self._connection.execute("SELECT origin, path FROM sources WHERE id=?", (source_id,)).fetchone()
        chars = len(columns["user_text"]) + len(columns["reply_text"])
        ended_at = -1 if columns["ended_at"] is None else columns["ended_at"]
        rest = msgspec.json.encode([columns[name] for name in _SHOWN])
        is_open = columns["status"] == "open"
        return (-chars, is_open, origin != "", path, origin, -ended_at, -len(columns["tools"]), rest)

    # ---------------------------------------------------------------------------------------- notes and tombstones

    def _note(self, line: NoteLine) -> None:
        told = Note(
            key=line.key,
            project=line.project,
            text=line.text,
            created_at=line.created_at,
            edited_at=line.edited_at,
            superseded_by=line.superseded_by,
            author=line.author,
            tags=tuple(sorted(set(line.tags))),
            is_redacted=line.redacted,
        )
        row = self._connection.execute("SELECT exchange_id FROM exchange_keys WHERE key=?", (line.key,)).fetchone()
        if row is None:
            is_stored = notes.save(self._connection, self._drawers, told, self._report) is not None
            self._changes["notes_added" if is_stored else "forgotten"] += 1
            return
        stored = notes.load(self._connection, row[0])
        if (both := notes.merged(stored, told)) != stored:
            notes.save(self._connection, self._drawers, both, self._report)
            self._changes["notes_changed"] += 1

    def _bury(self, lines: Sequence[TombstoneLine]) -> Removal | None:
        """Take over what was forgotten elsewhere, and forget it here."""
        rows = [Tombstone(**structs.asdict(line)) for line in lines]
        if not tombstones.load(self._connection, rows):
            return None
        removal = forgetting.forget_named(self._connection, self._drawers, max(row.forgotten_at for row in rows))
        self._changes["forgotten"] += removal.exchanges
        titled = self._connection.execute("SELECT id, agent, native_id, title FROM sessions WHERE title<>''").fetchall()
        for session_id, agent, native_id, title in titled:
            if tombstones.hide_title(self._connection, agent, native_id, title):
                self._connection.execute("UPDATE sessions SET title='' WHERE id=?", (session_id,))
                scrubbing.mark_due(self._connection)
        return removal


def _redactions(line: ExchangeLine) -> str:
    attachments = [Attachment(kind=one.kind, name=one.name) for one in line.attachments]
    return redactions.column(line.flags, (line.user_text, line.reply_text), line.tools, attachments)


def _columns(line: ExchangeLine) -> dict[str, Any]:
    """Return the columns that one telling sets, as they are stored."""
    attached = tuple(
        Attachment(kind=item.kind, name=item.name, size_bytes=item.size_bytes) for item in line.attachments
    )
    columns = {name: getattr(line, name) for name in _SHOWN}
    return columns | {
        "tools": msgspec.json.encode(line.tools).decode(),
        "attachments": msgspec.json.encode(attached).decode(),
        "flags": ",".join(line.flags),
    }
