"""Drawers and vectors in memory, for exact scoring of every drawer.

A :class:`Snapshot` is immutable and belongs to one generation of the store. :class:`Mirror` brings itself up to the
generation of the caller's read transaction by loading only what changed since, so that words (read in that same
transaction) and vectors always describe one state.

Rows are appended, never moved and never changed: a drawer of which anything changed gets a new row and its old one
dies. So a change costs what it changes, however large the store is, and snapshots in use stay valid.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palace_daemon.core.dates import NO_DATE
from palace_daemon.store import matrix, spaces, statement_mirror
from palace_daemon.store.columns import NEVER, Column
from palace_daemon.store.snapshot import NO_DRAWERS, Snapshot
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.widths import Widths

__all__ = ["Mirror", "Snapshot"]

_WASTE_MAX = 0.25
"""Share of dead rows above which the mirror is loaded anew, and of changed ones above which it is not followed."""
_FEW_ROWS = 4_096
"""So few may all be dead, or be changed: what they cost is not worth loading everything anew."""
_BATCH_ROWS = 4_096


class _Loaded(NamedTuple):
    drawer_id: int
    text_hash: bytes
    exchange: int
    session: int
    project: str
    agent: str
    started_at: int | None
    length: int
    is_superseded: int
    vector_key: int | None
    vector_generation: int | None
    vector: bytes | None


# CROSS JOIN keeps the order of the tables: left to itself SQLite begins with the sessions and so reads everything, each
# time. Rows of one exchange lie together in all orders.
_LOAD = (
    "SELECT d.id, d.text_hash, e.id, e.session_id, e.project, s.agent, e.started_at, d.length, e.is_superseded,"
    " v.id, v.generation, CAST(v.vector AS BLOB) FROM drawers d {how} CROSS JOIN exchanges e ON e.id=d.exchange_id"
    " CROSS JOIN sessions s ON s.id=e.session_id LEFT JOIN vectors v ON v.text_hash=d.text_hash AND v.space=?"
    " WHERE {which} ORDER BY d.id"
)
_LOAD_ALL = _LOAD.format(how="NOT INDEXED", which="1")
_LOAD_CHANGED = _LOAD.format(how="INDEXED BY drawers_generation", which="d.generation>?")
_LOAD_SOME = _LOAD.format(how="NOT INDEXED", which="d.id IN (SELECT value FROM json_each(?))")
_COUNT_CHANGED = "SELECT count(*) FROM drawers INDEXED BY drawers_generation WHERE generation>?"
_COUNT_EMBEDDED = "SELECT count(*) FROM vectors INDEXED BY vectors_generation WHERE space=? AND generation>?"
_LOAD_EMBEDDED = (
    "SELECT d.id, v.id, CAST(v.vector AS BLOB) FROM vectors v INDEXED BY vectors_generation"
    " CROSS JOIN drawers d INDEXED BY drawers_text ON d.text_hash=v.text_hash"
    " WHERE v.space=? AND v.generation>? AND d.generation<=?"
)


class Mirror:
    """Keeps the newest :class:`Snapshot`. Thread-safe: the caller's transaction must have begun."""

    def __init__(self) -> None:
        """Begin empty; the first :meth:`at` loads everything."""
        self._lock = threading.Lock()
        self._drawers = _Drawers()
        self._statements = statement_mirror.Kept()
        self._widths = Widths()
        self._snapshot = NO_DRAWERS

    def at(self, connection: Connection) -> Snapshot | None:
        """Return the state of the caller's transaction, or None if the mirror is already past it.

        None asks the caller to begin a newer transaction: it can only happen when another thread began one between.

        Raises:
            sqlite errors, mapped by the reader that lent ``connection``.
        """
        with self._lock:
            generation, pruned, model = connection.execute(
                "SELECT generation, pruned_generation, model FROM state"
            ).fetchone()
            since = self._snapshot.generation
            if generation < since:
                return None
            if since < 0 or model != self._snapshot.model or since < pruned or self._is_wasteful():
                self._load(connection, generation, model)
            elif generation != since:
                if self._has_much_changed(connection, model, since):
                    self._load(connection, generation, model)
                else:
                    self._follow(connection, generation, model, since)
            return self._snapshot

    def _is_wasteful(self) -> bool:
        return any(
            kept.count > _FEW_ROWS and kept.dead_count > _WASTE_MAX * kept.count
            for kept in (self._drawers, self._statements)
        )

    def _has_much_changed(self, connection: Connection, model: str, since: int) -> bool:
        """Return whether to load anew, which goes in batches: following holds all that it reads at once."""
        (changed,) = connection.execute(_COUNT_CHANGED, (since,)).fetchone()
        (embedded,) = connection.execute(_COUNT_EMBEDDED, (spaces.number(model), since)).fetchone()
        held = self._drawers.count + self._statements.count
        return bool(
            changed > _WASTE_MAX * max(self._drawers.count, _FEW_ROWS) or embedded > max(_WASTE_MAX * held, _FEW_ROWS)
        )

    def _load(self, connection: Connection, generation: int, model: str) -> None:
        """Load everything. What was held is let go first: two of a large store at once are too many."""
        self._snapshot, self._drawers, self._statements = NO_DRAWERS, _Drawers(), statement_mirror.Kept()
        drawers, statements = _Drawers(), statement_mirror.Kept()
        self._widths.learn(connection, spaces.number(model))
        drawers.load(connection, model, generation, self._widths)
        statements.load(connection, model, self._widths)
        self._drawers, self._statements = drawers, statements
        self._snapshot = drawers.view(generation, model, statements.view(generation))

    def _follow(self, connection: Connection, generation: int, model: str, since: int) -> None:
        """Load what changed. All is read before anything is written down: an error leaves things as they were.

        Where writing it down fails, as a stored vector that is none makes it, nothing is held any more: half a change
        is no state, and the next one would go on from it.
        """
        gone = [
            row[0] for row in connection.execute("SELECT drawer_id FROM removed_drawers WHERE generation>?", (since,))
        ]
        space = spaces.number(model)
        read = [_Loaded(*row) for row in connection.execute(_LOAD_CHANGED, (space, since))]
        changed = _sound(connection, space, read, self._widths)
        embedded = connection.execute(_LOAD_EMBEDDED, (space, since, since)).fetchall()
        if unsound := self._widths.unsound(connection, space, [row[1:] for row in embedded]):
            embedded = [row for row in embedded if row[1] not in unsound]
        again = {row[0] for row in embedded if self._drawers.has_vector(row[0])}
        if again:
            read = [_Loaded(*row) for row in connection.execute(_LOAD_SOME, (space, json.dumps(sorted(again))))]
            changed += _sound(connection, space, read, self._widths)
        edit = self._drawers.edit(gone, changed, since)
        said = statement_mirror.changes(
            connection, model, since, self._widths,
            changed={one.exchange for one in changed}, gone=edit.gone_exchanges,
        )  # fmt: skip
        try:
            self._drawers.apply(edit, generation)
            self._drawers.embed([row for row in embedded if row[0] not in again], generation)
            self._statements.change(said, since, generation)
            self._snapshot = self._drawers.view(generation, model, self._statements.view(generation))
        except BaseException:
            self._snapshot = NO_DRAWERS
            raise


def _sound(connection: Connection, space: int, batch: list[_Loaded], widths: Widths) -> list[_Loaded]:
    """Return ``batch``, without what was stored as a vector and is none."""
    unsound = widths.unsound(connection, space, [(one.vector_key, one.vector) for one in batch])
    if not unsound:
        return batch
    return [
        one._replace(vector_key=None, vector_generation=None, vector=None) if one.vector_key in unsound else one
        for one in batch
    ]


class _Edit(NamedTuple):
    dying: list[int]
    """Rows."""
    added: list[_Loaded]
    gone_exchanges: set[int]
    """Those that lose a drawer and have none any more."""


class _Drawers:
    """The columns behind the newest snapshot and former ones."""

    def __init__(self) -> None:
        self.dead_count = 0
        self._ids = Column(np.int64)
        self._text_keys = Column(np.int64)
        self._exchanges = Column(np.int64)
        self._sessions = Column(np.int64)
        self._projects = Column(np.int32)
        self._agents = Column(np.int32)
        self._started_at = Column(np.int64)
        self._lengths = Column(np.float64)
        self._is_superseded = Column(np.bool_)
        self._died_at = Column(np.int64, NEVER)
        self._embedded_at = Column(np.int64, NEVER)
        self._newest_rows = Column(np.int64, -1)
        self._former_rows = Column(np.int64, -1)
        self._counts = Column(np.int64)
        """Drawers by exchange id, dead ones left out."""
        self._matrix = matrix.Matrix()
        self._project_codes: dict[str, int] = {}
        self._agent_codes: dict[str, int] = {}

    @property
    def count(self) -> int:
        return self._ids.count

    def load(self, connection: Connection, model: str, generation: int, widths: Widths) -> None:
        space = spaces.number(model)
        rows = connection.execute(_LOAD_ALL, (space,))
        while batch := rows.fetchmany(_BATCH_ROWS):
            self._append(_sound(connection, space, [_Loaded(*row) for row in batch], widths), generation)

    def has_vector(self, drawer_id: int) -> bool:
        row = self._row(drawer_id)
        return row >= 0 and int(self._embedded_at.buffer[row]) != NEVER

    def edit(self, gone: Sequence[int], changed: Sequence[_Loaded], since: int) -> _Edit:
        """Return what is to be written down; writes nothing."""
        added = [one for one in changed if not self._is_same(one, since)]
        dying = {self._row(drawer_id) for drawer_id in (*gone, *(one.drawer_id for one in added))} - {-1}
        left: dict[int, int] = {}
        for row in dying:
            exchange = int(self._exchanges.buffer[row])
            left[exchange] = left.get(exchange, int(self._counts.buffer[exchange])) - 1
        kept = {one.exchange for one in added}
        return _Edit(sorted(dying), added, {one for one, count in left.items() if not count} - kept)

    def apply(self, edit: _Edit, generation: int) -> None:
        dying = np.array(edit.dying, np.int64)
        self._died_at.put(dying, np.full(len(dying), generation))
        np.subtract.at(self._counts.buffer, self._exchanges.buffer[dying], 1)
        self.dead_count += len(dying)
        if edit.added:
            self._append(edit.added, generation)

    def embed(self, embedded: Sequence[tuple[int, int, bytes]], generation: int) -> None:
        """Note vectors of drawers that had none: id, row in the table of vectors, bytes."""
        found = [(row, key, vector) for drawer_id, key, vector in embedded if (row := self._row(drawer_id)) >= 0]
        if found:
            rows = np.array([row for row, _, _ in found], np.int64)
            keys = np.array([key for _, key, _ in found], np.int64)
            self._matrix.put(rows, keys, matrix.unpacked([vector for _, _, vector in found]))
            self._embedded_at.put(rows, np.full(len(rows), generation))

    def view(self, generation: int, model: str, statements: statement_mirror.Statements) -> Snapshot:
        return Snapshot(
            generation=generation,
            drawers=self._ids.view(),
            exchanges=self._exchanges.view(),
            sessions=self._sessions.view(),
            projects=self._projects.view(),
            agents=self._agents.view(),
            started_at=self._started_at.view(),
            lengths=self._lengths.view(),
            is_superseded=self._is_superseded.view(),
            died_at=self._died_at.view(),
            embedded_at=self._embedded_at.view(),
            newest_rows=self._newest_rows.view(),
            former_rows=self._former_rows,
            exchange_limit=max(self._counts.count, statements.newest_runs.shape[0]),
            vectors=self._matrix.view(),
            statements=statements,
            project_names=tuple(self._project_codes),
            agent_names=tuple(self._agent_codes),
            model=model,
        )

    def _row(self, drawer_id: int) -> int:
        """Return the drawer's row in the newest state, -1 if it is not held."""
        row = int(self._newest_rows.buffer[drawer_id]) if drawer_id < self._newest_rows.count else -1
        return row if row >= 0 and self._died_at.buffer[row] == NEVER else -1

    def _is_same(self, one: _Loaded, since: int) -> bool:
        """Return whether the drawer's row says just this, so that it may stay."""
        row = self._row(one.drawer_id)
        if row < 0 or (one.vector_generation or 0) > since:
            return False
        held: tuple[Column[Any], ...] = (
            self._text_keys, self._exchanges, self._sessions, self._projects, self._agents, self._started_at,
            self._lengths, self._is_superseded,
        )  # fmt: skip
        has_vector = int(self._embedded_at.buffer[row]) != NEVER
        key = int(self._matrix.view().keys[row]) if has_vector else None
        return key == one.vector_key and all(
            column.buffer[row] == values[0] for column, values in zip(held, self._columns([one]), strict=True)
        )

    def _columns(self, batch: Sequence[_Loaded]) -> tuple[NDArray[Any], ...]:
        projects = [self._project_codes.setdefault(one.project, len(self._project_codes)) for one in batch]
        agents = [self._agent_codes.setdefault(one.agent, len(self._agent_codes)) for one in batch]
        return (
            np.frombuffer(b"".join(one.text_hash[:8] for one in batch), "<i8"),
            np.array([one.exchange for one in batch], np.int64),
            np.array([one.session for one in batch], np.int64),
            np.array(projects, np.int32),
            np.array(agents, np.int32),
            np.array([NO_DATE if one.started_at is None else one.started_at for one in batch], np.int64),
            np.array([one.length for one in batch], np.float64),
            np.array([one.is_superseded for one in batch], np.bool_),
        )

    def _append(self, batch: Sequence[_Loaded], generation: int) -> None:
        ids = np.array([one.drawer_id for one in batch], np.int64)
        rows = self.count + np.arange(len(batch))
        keys, exchanges, *others = self._columns(batch)
        self._text_keys.extend(keys)
        self._exchanges.extend(exchanges)
        columns: tuple[Column[Any], ...] = (
            self._sessions, self._projects, self._agents, self._started_at, self._lengths, self._is_superseded
        )  # fmt: skip
        for column, values in zip(columns, others, strict=True):
            column.extend(values)
        self._died_at.reach(int(rows[-1]) + 1)
        self._embedded_at.reach(int(rows[-1]) + 1)
        self._counts.reach(int(exchanges.max()) + 1)
        np.add.at(self._counts.buffer, exchanges, 1)
        self._matrix.reach(int(rows[-1]) + 1)
        has_vector = np.array([one.vector is not None for one in batch])
        if has_vector.any():
            vectors = matrix.unpacked([one.vector for one in batch if one.vector is not None])
            vector_keys = np.array([one.vector_key for one in batch if one.vector is not None], np.int64)
            self._matrix.put(rows[has_vector], vector_keys, vectors)
            self._embedded_at.put(rows[has_vector], np.full(len(vectors), generation))
        self._newest_rows.reach(int(ids.max()) + 1)
        self._former_rows.extend(self._newest_rows.buffer[ids])
        self._ids.extend(ids)
        self._newest_rows.put(ids, rows)
