"""The drawers in memory: one row for each state of a drawer, appended and never moved.

Like that of the statements this mirror is loaded once and then followed. Loading takes what is told of each drawer and
the number of its vector; the vectors come after it, see :mod:`palace_daemon.store.filling`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palace_daemon.core.dates import NO_DATE
from palace_daemon.store import matrix, spaces
from palace_daemon.store.columns import NEVER, Column
from palace_daemon.store.common_terms import CommonTerms
from palace_daemon.store.snapshot import Snapshot
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.statement_mirror import NO_STATEMENTS, Statements
from palace_daemon.store.widths import Widths

_BATCH_ROWS = 4_096

# CROSS JOIN keeps the order of the tables: left to itself SQLite begins with the sessions and so reads everything, each
# time. Rows of one exchange lie together in all orders. The number of a vector stands in the index by texts, so that
# the rows of its table, which lie in an order of their own, are left alone.
_LOAD = (
    "SELECT d.id, d.text_hash, e.id, e.session_id, e.project, s.agent, e.started_at, d.length, e.is_superseded, v.id"
    "{vector} FROM drawers d {how} CROSS JOIN exchanges e ON e.id=d.exchange_id"
    " CROSS JOIN sessions s ON s.id=e.session_id LEFT JOIN vectors v ON v.text_hash=d.text_hash AND v.space=?"
    " WHERE {which} ORDER BY d.id"
)
_VECTOR = ", v.generation, CAST(v.vector AS BLOB)"
_LOAD_ALL = _LOAD.format(vector="", how="NOT INDEXED", which="1")
_LOAD_CHANGED = _LOAD.format(vector=_VECTOR, how="INDEXED BY drawers_generation", which="d.generation>?")
_LOAD_SOME = _LOAD.format(vector=_VECTOR, how="NOT INDEXED", which="d.id IN (SELECT value FROM json_each(?))")
_LOAD_EMBEDDED = (
    "SELECT d.id, v.id, CAST(v.vector AS BLOB) FROM vectors v INDEXED BY vectors_generation"
    " CROSS JOIN drawers d INDEXED BY drawers_text ON d.text_hash=v.text_hash"
    " WHERE v.space=? AND v.generation>? AND d.generation<=?"
)
_REMOVED = "SELECT drawer_id FROM removed_drawers WHERE generation>?"

Rows = NDArray[np.int64]


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
    vector_generation: int | None = None
    vector: bytes | None = None


_Embedded = tuple[int, int, bytes]
"""A drawer, and the vector that it got: row in the table of vectors, bytes."""


class Told(NamedTuple):
    """What is told of drawers: arrays ``[k]``, by increasing drawer id."""

    drawers: Rows
    text_keys: Rows
    """The first eight bytes of the hash of the text."""
    exchanges: Rows
    sessions: Rows
    projects: NDArray[np.int32]
    """Codes, as all that is held uses them."""
    agents: NDArray[np.int32]
    started_at: Rows
    lengths: NDArray[np.float64]
    is_superseded: NDArray[np.bool_]
    vector_keys: Rows
    """Rows in the table of vectors, -1 where there is none."""

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """All but the numbers of the vectors, which the matrix keeps."""
        return (
            self.drawers, self.text_keys, self.exchanges, self.sessions, self.projects, self.agents, self.started_at,
            self.lengths, self.is_superseded,
        )  # fmt: skip


class Edit(NamedTuple):
    """What :meth:`Kept.change` writes down."""

    dying: list[int]
    """Rows."""
    added: list[_Loaded]
    embedded: list[_Embedded]
    """Vectors of rows that stay and had none."""
    gone_exchanges: set[int]
    """Those that lose a drawer and have none any more."""
    exchanges: set[int]
    """Those that may say something else now, be their drawers the same."""


class Kept:
    """The columns behind the newest snapshot and former ones. For one writer; views may be read meanwhile."""

    def __init__(self) -> None:
        """Begin empty."""
        self.dead_count = 0
        """Rows of drawers that are gone, or are another row now."""
        self.change_count = 0
        """Rows that were appended, that died or got a vector, in all this time."""
        self.matrix = matrix.Matrix()
        """By row; a row has a key as soon as its text has a stored vector."""
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
        self._common_terms = CommonTerms()
        self._project_codes: dict[str, int] = {}
        self._agent_codes: dict[str, int] = {}

    @property
    def count(self) -> int:
        """The number of rows, dead ones included."""
        return self._ids.count

    def load(self, connection: Connection, model: str) -> None:
        """Take what is told of all drawers; nothing is held yet. :meth:`filled` is to follow."""
        rows = connection.execute(_LOAD_ALL, (spaces.number(model),))
        while batch := rows.fetchmany(_BATCH_ROWS):
            self.append(self._told([_Loaded(*row) for row in batch]))

    def restore(self, projects: Iterable[str], agents: Iterable[str], told: Told) -> None:
        """Take what :meth:`told` returned; nothing is held yet."""
        self._project_codes = {name: code for code, name in enumerate(projects)}
        self._agent_codes = {name: code for code, name in enumerate(agents)}
        self.append(told)

    def told(self) -> tuple[tuple[str, ...], tuple[str, ...], Told]:
        """Return what is told of the drawers that there are, and the names of their projects and agents by code."""
        rows = np.flatnonzero(self._died_at.view() == NEVER)
        rows = rows[np.argsort(self._ids.buffer[rows], kind="stable")]
        told = Told._make((*(column.buffer[rows] for column in self._columns), self.matrix.view().keys[rows]))
        projects, project_codes = _in_use(tuple(self._project_codes), told.projects)
        agents, agent_codes = _in_use(tuple(self._agent_codes), told.agents)
        return projects, agents, told._replace(projects=project_codes, agents=agent_codes)

    def append(self, told: Told) -> None:
        """Append rows of drawers; the vectors that they have are still to come."""
        if not len(told.drawers):
            return
        first, count = self.count, self.count + len(told.drawers)
        self.change_count += len(told.drawers)
        for column, values in zip(self._columns, told.columns, strict=True):
            column.extend(values)
        self._died_at.reach(count)
        self._embedded_at.reach(count)
        self._counts.reach(int(told.exchanges.max()) + 1)
        np.add.at(self._counts.buffer, told.exchanges, 1)
        self.matrix.append(told.vector_keys)
        self._newest_rows.reach(int(told.drawers.max()) + 1)
        self._former_rows.extend(self._newest_rows.buffer[told.drawers])
        self._newest_rows.put(told.drawers, np.arange(first, count))

    def filled(self, generation: int) -> None:
        """Have the vectors that came show from ``generation`` on; rows whose vector was none have no vector.

        Former snapshots go on as if there were none.
        """
        has_vector = self.matrix.drop_empty_keys()
        shown = Column(np.int64, NEVER)
        shown.extend(np.where(has_vector, np.minimum(self._embedded_at.view(), generation), NEVER))
        self._embedded_at = shown

    def edit(self, connection: Connection, space: int, since: int, widths: Widths) -> Edit:
        """Return what changed since the generation that is held; writes nothing."""
        gone = [row[0] for row in connection.execute(_REMOVED, (since,))]
        changed = _read(connection, _LOAD_CHANGED, space, since, widths)
        embedded: list[_Embedded] = connection.execute(_LOAD_EMBEDDED, (space, since, since)).fetchall()
        if unsound := widths.unsound(connection, space, [row[1:] for row in embedded]):
            embedded = [row for row in embedded if row[1] not in unsound]
        again = sorted({row[0] for row in embedded if self._has_vector(row[0])})
        if again:  # a row's vector never changes: such drawers get a new row
            changed += _read(connection, _LOAD_SOME, space, json.dumps(again), widths)
            embedded = [row for row in embedded if row[0] not in set(again)]
        return self._edit(gone, changed, embedded, since)

    def change(self, edit: Edit, generation: int) -> None:
        """Write down what changed."""
        dying = np.array(edit.dying, np.int64)
        self._died_at.put(dying, np.full(len(dying), generation))
        np.subtract.at(self._counts.buffer, self._exchanges.buffer[dying], 1)
        self.dead_count += len(dying)
        self.change_count += len(dying)
        if edit.added:
            self.append(self._told([one._replace(vector_key=None) for one in edit.added]))
        new = ((one.drawer_id, one.vector_key, one.vector) for one in edit.added)
        own = [(drawer_id, key, vector) for drawer_id, key, vector in new if key is not None and vector is not None]
        self._embed([*own, *edit.embedded], generation)

    def view(self, generation: int, model: str, statements: Statements, *, is_filling: bool) -> Snapshot:
        """Return the state of now; while the vectors are still coming, as if there were none at all."""
        count = self.count
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
            embedded_at=np.broadcast_to(np.int64(NEVER), count) if is_filling else self._embedded_at.view(),
            newest_rows=self._newest_rows.view(),
            former_rows=self._former_rows,
            common_terms=self._common_terms,
            vectors=matrix.NOTHING if is_filling else self.matrix.view(),
            statements=NO_STATEMENTS if is_filling else statements,
            project_names=tuple(self._project_codes),
            agent_names=tuple(self._agent_codes),
            model=model,
            is_filling=is_filling,
        )

    @property
    def _columns(self) -> tuple[Column[Any], ...]:
        """Those of :attr:`Told.columns`."""
        return (
            self._ids, self._text_keys, self._exchanges, self._sessions, self._projects, self._agents, self._started_at,
            self._lengths, self._is_superseded,
        )  # fmt: skip

    def _row(self, drawer_id: int) -> int:
        """Return the drawer's row in the newest state, -1 if it is not held."""
        row = int(self._newest_rows.buffer[drawer_id]) if drawer_id < self._newest_rows.count else -1
        return row if row >= 0 and self._died_at.buffer[row] == NEVER else -1

    def _has_vector(self, drawer_id: int) -> bool:
        row = self._row(drawer_id)
        return row >= 0 and self.matrix.key(row) >= 0

    def _edit(self, gone: Collection[int], changed: Collection[_Loaded], embedded: list[_Embedded], since: int) -> Edit:
        added = [one for one in changed if not self._is_same(one, since)]
        dying = {self._row(drawer_id) for drawer_id in (*gone, *(one.drawer_id for one in added))} - {-1}
        left: dict[int, int] = {}
        for row in dying:
            exchange = int(self._exchanges.buffer[row])
            left[exchange] = left.get(exchange, int(self._counts.buffer[exchange])) - 1
        kept = {one.exchange for one in added}
        lost = {one for one, count in left.items() if not count} - kept
        return Edit(sorted(dying), added, embedded, lost, {one.exchange for one in changed})

    def _is_same(self, one: _Loaded, since: int) -> bool:
        """Return whether the drawer's row says just this, so that it may stay."""
        row = self._row(one.drawer_id)
        if row < 0 or (one.vector_generation or 0) > since:
            return False
        told = self._told([one])
        return self.matrix.key(row) == int(told.vector_keys[0]) and all(
            column.buffer[row] == values[0] for column, values in zip(self._columns, told.columns, strict=True)
        )

    def _told(self, batch: Sequence[_Loaded]) -> Told:
        projects = [self._project_codes.setdefault(one.project, len(self._project_codes)) for one in batch]
        agents = [self._agent_codes.setdefault(one.agent, len(self._agent_codes)) for one in batch]
        return Told(
            np.array([one.drawer_id for one in batch], np.int64),
            np.frombuffer(b"".join(one.text_hash[:8] for one in batch), "<i8"),
            np.array([one.exchange for one in batch], np.int64),
            np.array([one.session for one in batch], np.int64),
            np.array(projects, np.int32),
            np.array(agents, np.int32),
            np.array([NO_DATE if one.started_at is None else one.started_at for one in batch], np.int64),
            np.array([one.length for one in batch], np.float64),
            np.array([one.is_superseded for one in batch], np.bool_),
            np.array([-1 if one.vector_key is None else one.vector_key for one in batch], np.int64),
        )

    def _embed(self, embedded: Sequence[_Embedded], generation: int) -> None:
        """Note vectors of rows that had none."""
        found = [(row, key, vector) for drawer_id, key, vector in embedded if (row := self._row(drawer_id)) >= 0]
        if found:
            rows = np.array([row for row, _, _ in found], np.int64)
            keys = np.array([key for _, key, _ in found], np.int64)
            self.matrix.put(rows, keys, matrix.unpacked([vector for _, _, vector in found]))
            self._embedded_at.put(rows, np.full(len(rows), generation))
            self.change_count += len(rows)


def _in_use(names: Sequence[str], codes: NDArray[np.int32]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Return those of the names that a code stands for, and the codes as they stand for these."""
    used, places = np.unique(codes, return_inverse=True)
    return tuple(names[code] for code in used.tolist()), places.astype(np.int32)


def _read(connection: Connection, load: str, space: int, which: int | str, widths: Widths) -> list[_Loaded]:
    """Return drawers as they are now, without what was stored as a vector and is none."""
    read = [_Loaded(*row) for row in connection.execute(load, (space, which))]
    unsound = widths.unsound(connection, space, [(one.vector_key, one.vector) for one in read])
    if not unsound:
        return read
    return [
        one._replace(vector_key=None, vector_generation=None, vector=None) if one.vector_key in unsound else one
        for one in read
    ]
