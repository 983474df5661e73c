"""Drawers and vectors in memory, for exact scoring of every drawer.

A :class:`Snapshot` is immutable and belongs to one generation of the store. :class:`Mirror` brings itself up to the
generation of the caller's read transaction by loading only what changed since, so that words (read in that same
transaction) and vectors always describe one state.

Rows are appended, never moved: a drawer whose text changed gets a new row and its old one dies. Small arrays are
copied on change; the matrix grows in chunks, so that snapshots in use stay valid and growth copies nothing.
"""

from __future__ import annotations

import threading
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from palace_daemon.core.dates import NO_DATE
from palace_daemon.core.ports import Float32
from palace_daemon.store import matrix, statement_mirror
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.statement_mirror import NO_STATEMENTS, Statements

Scalar = TypeVar("Scalar", bound=np.generic)

_DEAD_SHARE_MAX = 0.25
"""Share of dead rows above which the mirror is loaded anew."""


class Snapshot(NamedTuple):
    """One state of all drawers: arrays ``[n]`` by row, dead rows included."""

    generation: int
    ids: NDArray[np.int64]
    """Drawer id; -1 in dead rows."""
    exchanges: NDArray[np.int64]
    """Id of the exchange that the drawer is cut from."""
    sessions: NDArray[np.int64]
    projects: NDArray[np.int32]
    """Index into ``project_names``."""
    agents: NDArray[np.int32]
    """Index into ``agent_names``."""
    started_at: NDArray[np.int64]
    """UTC epoch ms; :data:`palace_daemon.core.dates.NO_DATE` where unknown."""
    lengths: NDArray[np.float64]
    """Number of terms."""
    is_live: NDArray[np.bool_]
    """Neither dead nor superseded."""
    is_superseded: NDArray[np.bool_]
    has_vector: NDArray[np.bool_]
    row_of_id: NDArray[np.int64]
    """Row by drawer id; -1 where there is none."""
    chunks: tuple[Float32, ...]
    """The matrix, see :mod:`palace_daemon.store.matrix`."""
    statements: Statements
    project_names: tuple[str, ...]
    agent_names: tuple[str, ...]
    model: str
    """The model of all vectors; empty while none is active."""

    def rows_of(self, drawer_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of each id, -1 for ids that this state does not hold."""
        rows = np.full(len(drawer_ids), -1, np.int64)
        known = drawer_ids < len(self.row_of_id)
        rows[known] = self.row_of_id[drawer_ids[known]]
        return rows

    def cosines(self, query: Float32) -> Float32:
        """Return float32 ``[n]``: the dot product of every row with ``query`` ``[dim]``, both of length 1."""
        return matrix.products(self.chunks, query, len(self.ids))

    def statement_cosines(self, query: Float32) -> tuple[Float32, Float32]:
        """Return float32 ``[n]`` twice: the best cosine of what the row's exchange states, and of the wishes in it.

        -1 where nothing is known.
        """
        if not len(self.ids):
            return np.zeros(0, np.float32), np.zeros(0, np.float32)
        # Statements of an exchange that has no drawer in this state have no row to lift.
        size = int(max(self.exchanges.max(), self.statements.exchanges.max(initial=-1))) + 1
        stated, wished = self.statements.best(query, size)
        return stated[self.exchanges], wished[self.exchanges]

    def vectors(self, rows: NDArray[np.int64]) -> Float32:
        """Return float32 ``[k, dim]``: the vectors of ``rows``; dim is 0 while there is no vector at all."""
        return matrix.rows_of(self.chunks, rows)


_NO_IDS = np.empty(0, np.int64)
_NO_CODES = np.empty(0, np.int32)
_NO_FLAGS = np.empty(0, np.bool_)
_NOTHING = Snapshot(
    generation=-1,
    ids=_NO_IDS,
    exchanges=_NO_IDS,
    sessions=_NO_IDS,
    projects=_NO_CODES,
    agents=_NO_CODES,
    started_at=_NO_IDS,
    lengths=np.empty(0, np.float64),
    is_live=_NO_FLAGS,
    is_superseded=_NO_FLAGS,
    has_vector=_NO_FLAGS,
    row_of_id=_NO_IDS,
    chunks=(),
    statements=NO_STATEMENTS,
    project_names=(),
    agent_names=(),
    model="",
)


class _Loaded(NamedTuple):
    drawer_id: int
    text_key: int
    exchange: int
    session: int
    project: str
    agent: str
    started_at: int | None
    length: int
    is_superseded: int
    vector: bytes | None


# CROSS JOIN keeps the order of the tables: left to itself SQLite begins with the sessions and so reads everything, each
# time. Rows of one exchange lie together in both orders.
_LOAD = (
    "SELECT d.id, d.text_hash, e.id, e.session_id, e.project, s.agent, e.started_at, d.length, e.is_superseded,"
    " v.vector FROM drawers d {how} CROSS JOIN exchanges e ON e.id=d.exchange_id"
    " CROSS JOIN sessions s ON s.id=e.session_id LEFT JOIN vectors v ON v.text_hash=d.text_hash AND v.model=?"
    " WHERE d.generation>? ORDER BY d.id"
)
_LOAD_ALL = _LOAD.format(how="NOT INDEXED")
_LOAD_CHANGED = _LOAD.format(how="INDEXED BY drawers_generation")
_LOAD_EMBEDDED = (
    "SELECT d.id, v.vector FROM vectors v INDEXED BY vectors_generation"
    " CROSS JOIN drawers d INDEXED BY drawers_text ON d.text_hash=v.text_hash"
    " WHERE v.model=? AND v.generation>? AND d.generation<=?"
)


class Mirror:
    """Keeps the newest :class:`Snapshot`. Thread-safe: the caller's transaction must have begun."""

    def __init__(self) -> None:
        """Begin empty; the first :meth:`at` loads everything."""
        self._lock = threading.Lock()
        self._model = ""
        self._text_keys: NDArray[np.int64] = np.empty(0, np.int64)
        self._project_codes: dict[str, int] = {}
        self._agent_codes: dict[str, int] = {}
        self._snapshot = _NOTHING

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
            if generation < self._snapshot.generation:
                return None
            if model != self._model or self._snapshot.generation < pruned or self._is_wasteful():
                self._empty()
                self._model = model
            if generation != self._snapshot.generation:
                self._follow(connection, generation)
            return self._snapshot

    def _empty(self) -> None:
        self._text_keys = np.empty(0, np.int64)
        self._project_codes, self._agent_codes = {}, {}
        self._snapshot = _NOTHING

    def _is_wasteful(self) -> bool:
        ids = self._snapshot.ids
        dead_share = float(np.count_nonzero(ids < 0)) / len(ids) if len(ids) > matrix.CHUNK_ROWS else 0.0
        return max(dead_share, self._snapshot.statements.dead_share) > _DEAD_SHARE_MAX

    def _follow(self, connection: Connection, generation: int) -> None:
        """Load what changed since the snapshot's generation."""
        since = self._snapshot.generation
        gone = [
            row[0] for row in connection.execute("SELECT drawer_id FROM removed_drawers WHERE generation>?", (since,))
        ]
        load = _LOAD_ALL if since < 0 else _LOAD_CHANGED
        changed = connection.execute(load, (self._model, since)).fetchall()
        embedded = connection.execute(_LOAD_EMBEDDED, (self._model, since, since)).fetchall() if since >= 0 else []
        edit = _Edit(self._snapshot, self._text_keys)
        edit.kill(gone)
        for row in changed:
            loaded = _Loaded(row[0], int.from_bytes(row[1][:8], "little", signed=True), *row[2:])
            edit.put(
                loaded, self._code(self._project_codes, loaded.project), self._code(self._agent_codes, loaded.agent)
            )
        for drawer_id, vector in embedded:
            edit.set_vector(drawer_id, vector)
        snapshot, self._text_keys = edit.finish(
            generation, tuple(self._project_codes), tuple(self._agent_codes), self._model
        )
        if since < 0:
            statements = statement_mirror.load(connection, self._model)
        else:
            statements = statement_mirror.follow(
                connection,
                snapshot.statements,
                self._model,
                since,
                changed={loaded[2] for loaded in changed},
                gone=edit.gone_exchanges(snapshot),
            )
        self._snapshot = snapshot._replace(statements=statements)

    @staticmethod
    def _code(codes: dict[str, int], name: str) -> int:
        return codes.setdefault(name, len(codes))


class _Edit:
    """Builds the next snapshot from the former one."""

    def __init__(self, base: Snapshot, text_keys: NDArray[np.int64]) -> None:
        self._base = base
        self._old_keys = text_keys
        self._changed: dict[int, _Loaded] = {}
        self._codes: dict[int, tuple[int, int]] = {}
        self._dead: list[int] = []
        self._appended: list[_Loaded] = []
        self._vectors: list[tuple[int, bytes]] = []

    def kill(self, drawer_ids: list[int]) -> None:
        self._dead.extend(row for drawer_id in drawer_ids if (row := self._row(drawer_id)) >= 0)

    def put(self, loaded: _Loaded, project: int, agent: int) -> None:
        self._codes[loaded.drawer_id] = (project, agent)
        row = self._row(loaded.drawer_id)
        if row >= 0 and self._old_keys[row] == loaded.text_key and self._may_stay(row, loaded.vector):
            self._changed[row] = loaded
            return
        if row >= 0:
            self._dead.append(row)
        self._appended.append(loaded)

    def _may_stay(self, row: int, vector: bytes | None) -> bool:
        """Return whether the row's place in the matrix, which older snapshots read, need not change."""
        if vector is None or not self._base.has_vector[row]:
            return True
        return bool(matrix.rows_of(self._base.chunks, np.array([row]))[0].tobytes() == vector)

    def set_vector(self, drawer_id: int, vector: bytes) -> None:
        if (row := self._row(drawer_id)) >= 0:
            self._vectors.append((row, vector))

    def gone_exchanges(self, after: Snapshot) -> set[int]:
        """Return the exchanges that lost a drawer and have none any more."""
        touched = self._base.exchanges[self._dead]
        return set(np.setdiff1d(touched, after.exchanges[after.ids >= 0]).tolist())

    def _row(self, drawer_id: int) -> int:
        rows = self._base.row_of_id
        return int(rows[drawer_id]) if drawer_id < len(rows) else -1

    def finish(
        self, generation: int, project_names: tuple[str, ...], agent_names: tuple[str, ...], model: str
    ) -> tuple[Snapshot, NDArray[np.int64]]:
        base, added = self._base, len(self._appended)
        first = len(base.ids)
        ids = _grown(base.ids, added)
        exchanges = _grown(base.exchanges, added)
        sessions, started_at = _grown(base.sessions, added), _grown(base.started_at, added)
        projects, agents = _grown(base.projects, added), _grown(base.agents, added)
        lengths, keys = _grown(base.lengths, added), _grown(self._old_keys, added)
        is_superseded, has_vector = _grown(base.is_superseded, added), _grown(base.has_vector, added)
        ids[self._dead] = -1
        vectors = list(self._vectors)
        for row, loaded in [*self._changed.items(), *enumerate(self._appended, first)]:
            ids[row], keys[row] = loaded.drawer_id, loaded.text_key
            exchanges[row], sessions[row], lengths[row] = loaded.exchange, loaded.session, loaded.length
            projects[row], agents[row] = self._codes[loaded.drawer_id]
            started_at[row] = NO_DATE if loaded.started_at is None else loaded.started_at
            is_superseded[row] = bool(loaded.is_superseded)
            if loaded.vector is None:
                has_vector[row] = False
            elif not has_vector[row]:
                vectors.append((row, loaded.vector))
        chunks = matrix.with_vectors(base.chunks, vectors, len(ids))
        has_vector[[row for row, _ in vectors]] = True
        snapshot = Snapshot(
            generation, ids, exchanges, sessions, projects, agents, started_at, lengths, (ids >= 0) & ~is_superseded,
            is_superseded, has_vector, _rows_by_id(ids), chunks, base.statements, project_names, agent_names, model,
        )  # fmt: skip
        return snapshot, keys


def _grown(array: NDArray[Scalar], added: int) -> NDArray[Scalar]:
    """Return a copy with ``added`` further zero entries."""
    return np.concatenate([array, np.zeros(added, array.dtype)])


def _rows_by_id(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    rows = np.full(int(ids.max(initial=-1)) + 1, -1, np.int64)
    alive = np.flatnonzero(ids >= 0)
    rows[ids[alive]] = alive
    return rows
