"""Drawers and vectors in memory, for exact scoring of every drawer.

A :class:`Snapshot` is immutable and belongs to one generation of the store. :class:`Mirror` brings itself up to the
generation of the caller's read transaction by loading only what changed since, so that words (read in that same
transaction) and vectors always describe one state.

Rows are appended, never moved and never changed: a drawer of which anything changed gets a new row and its old one
dies. So a change costs what it changes, however large the store is, and snapshots in use stay valid.

Loading everything takes what is told of drawers and statements first, from a copy if there is one (see
:mod:`palace_daemon.store.kept_columns`), then the vectors, which are most of it. Where somebody calls
:meth:`Mirror.fill` beside those who ask, questions need not wait for the vectors, nor for much of what changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from palace_daemon.store import drawer_mirror, kept_columns, spaces, statement_mirror
from palace_daemon.store.filling import Filling
from palace_daemon.store.snapshot import NO_DRAWERS, Snapshot
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.widths import Once, Widths

__all__ = ["Mirror", "Snapshot"]

_WASTE_MAX = 0.25
"""Share of dead rows above which the mirror is loaded anew, and of changed ones above which it is not followed."""
_FEW_ROWS = 4_096
"""So few may all be dead, or be changed: what they cost is not worth loading everything anew. Nor are so few worth an
answer without their vectors, or a copy of their columns."""
_KEEP_SHARE = 0.02
"""Share of rows that changed since they were kept above which they are worth keeping anew."""
_COUNT_CHANGED = "SELECT count(*) FROM drawers INDEXED BY drawers_generation WHERE generation>?"
_COUNT_EMBEDDED = "SELECT count(*) FROM vectors INDEXED BY vectors_generation WHERE space=? AND generation>?"


class Mirror:
    """Keeps the newest :class:`Snapshot`. Thread-safe: the caller's transaction must have begun."""

    def __init__(self) -> None:
        """Begin empty; the first :meth:`at` loads everything."""
        self._lock = threading.Lock()
        self._drawers = drawer_mirror.Kept()
        self._statements = statement_mirror.Kept()
        self._told_once = Once()
        self._widths = Widths(self._told_once)
        self._snapshot = NO_DRAWERS
        self._wake_filler: Callable[[], None] | None = None
        self._filling: Filling | None = None
        """What is still to come of what was loaded."""
        self._kept_at: int | None = None
        """What had changed when the columns were kept; None where they are not."""
        self._offered, self._offered_at = self._drawers, 0

    def fill_later(self, wake: Callable[[], None]) -> None:
        """Leave the vectors of a large store to somebody who calls :meth:`fill`, until there is no more.

        ``wake`` is called each time that there are some, by whoever asked; it must neither block nor raise.
        """
        with self._lock:
            self._wake_filler = wake

    @property
    def is_filled_later(self) -> bool:
        """Whether vectors are left to :meth:`fill`, as they are until :meth:`drop`."""
        return self._wake_filler is not None

    def at(self, connection: Connection) -> Snapshot | None:
        """Return the state of the caller's transaction, or None if the mirror is already past it.

        None asks the caller to begin a newer transaction: it can only happen when another thread began one between.

        Raises:
            sqlite errors, mapped by the reader that lent ``connection``.
        """
        with self._lock:
            return self._at(connection)

    def fill(self, connection: Connection) -> bool:
        """Bring the mirror up and read some vectors that are still to come; return whether there may be more.

        Call it from one thread. Each call may be in a transaction of its own. With the last of them the snapshot has
        all vectors.
        """
        with self._lock:
            filling = self._filling if self._at(connection) is not None else None
            if self._filling is None:
                return False
        if filling is None:  # another thread is past this transaction
            return True
        batch = filling.read(connection)
        with self._lock:
            if self._filling is filling and batch is not None:
                filling.put(batch)
            elif self._filling is filling and self._at(connection) is not None and self._filling is filling:
                # What was read may be of this transaction: the state that shows it must not be an older one.
                self._finish_filling()
                return False
            return True

    def worth_keeping(self, *, is_kept: bool) -> kept_columns.Columns | None:
        """Return what to keep, where that would shorten the next start; :meth:`was_kept` is to follow.

        Args:
            is_kept: Whether columns are kept; they may have been dropped.
        """
        with self._lock:
            held, changed = self._drawers.count + self._statements.count, self._change_count
            since = self._kept_at if is_kept and self._kept_at is not None else 0
            if self._filling or held <= _FEW_ROWS or changed - since <= _KEEP_SHARE * held:
                return None
            self._offered, self._offered_at = self._drawers, changed
            state = self._snapshot
            return kept_columns.Columns(state.generation, state.model, *self._drawers.told(), self._statements.told())

    def was_kept(self) -> None:
        """Note that what :meth:`worth_keeping` returned is kept."""
        with self._lock:
            if self._offered is self._drawers:
                self._kept_at = self._offered_at

    def drop(self) -> None:
        """Hold nothing any more: from now on :meth:`at` itself loads everything, vectors included."""
        with self._lock:
            self._wake_filler = None
            self._let_go()

    def _at(self, connection: Connection) -> Snapshot | None:
        generation, pruned, model = connection.execute(
            "SELECT generation, pruned_generation, model FROM state"
        ).fetchone()
        since = self._snapshot.generation
        if generation < since:
            return None
        if self._is_wasteful():  # what is kept would bring the waste back
            self._load(connection, generation, model, is_from_tables=True)
        elif since < 0 or model != self._snapshot.model or since < pruned:
            self._load(connection, generation, model)
        elif generation != since:
            held = self._drawers.count, self._statements.count
            if _has_much_changed(connection, model, since, *held):
                self._load(connection, generation, model)
            else:
                self._follow(connection, generation, model, since)
        return self._snapshot

    @property
    def _change_count(self) -> int:
        return self._drawers.change_count + self._statements.change_count

    def _is_wasteful(self) -> bool:
        return any(
            kept.count > _FEW_ROWS and kept.dead_count > _WASTE_MAX * kept.count
            for kept in (self._drawers, self._statements)
        )

    def _let_go(self) -> None:
        self._snapshot, self._filling, self._kept_at = NO_DRAWERS, None, None
        self._drawers, self._statements = drawer_mirror.Kept(), statement_mirror.Kept()

    def _load(self, connection: Connection, generation: int, model: str, *, is_from_tables: bool = False) -> None:
        """Load everything. What was held is let go first: two of a large store at once are too many."""
        self._let_go()
        self._widths = Widths(self._told_once)
        self._widths.learn(connection, spaces.number(model))
        try:
            kept = None if is_from_tables else _kept(connection, generation, model)
            since = self._load_columns(connection, generation, model, kept)
            matrices = (self._drawers.matrix, self._statements.matrix)
            filling = self._filling = Filling(matrices, spaces.number(model), since, self._widths)
            self._show(since, model)
            if since != generation:
                self._follow(connection, generation, model, since)
            if self._wake_filler and self._drawers.count + self._statements.count > _FEW_ROWS:
                self._wake_filler()
                return
            while (batch := filling.read(connection)) is not None:
                filling.put(batch)
            self._finish_filling()
        except BaseException:
            self._let_go()
            raise

    def _load_columns(
        self, connection: Connection, generation: int, model: str, kept: kept_columns.Columns | None
    ) -> int:
        """Load what is told of drawers and statements, kept or not; return of which generation it is."""
        if kept is None:
            self._drawers.load(connection, model)
            self._statements.load(connection, model)
            return generation
        self._drawers.restore(kept.projects, kept.agents, kept.drawers)
        self._statements.append(kept.statements)
        self._kept_at = self._change_count
        return kept.generation

    def _finish_filling(self) -> None:
        generation, model = self._snapshot.generation, self._snapshot.model
        self._drawers.filled(generation)
        self._statements.filled(generation)
        self._filling = None
        self._show(generation, model)

    def _show(self, generation: int, model: str) -> None:
        is_filling = self._filling is not None
        statements = self._statements.view(generation)
        self._snapshot = self._drawers.view(generation, model, statements, is_filling=is_filling)

    def _follow(self, connection: Connection, generation: int, model: str, since: int) -> None:
        """Load what changed. All is read before anything is written down: an error leaves things as they were.

        Where writing it down fails, as a stored vector that is none makes it, nothing is held any more: half a change
        is no state, and the next one would go on from it.
        """
        edit = self._drawers.edit(connection, spaces.number(model), since, self._widths)
        said = statement_mirror.changes(
            connection, model, since, self._widths, changed=edit.exchanges, gone=edit.gone_exchanges
        )
        try:
            self._drawers.change(edit, generation)
            self._statements.change(said, since, generation)
            self._show(generation, model)
        except BaseException:
            self._let_go()
            raise


def _has_much_changed(connection: Connection, model: str, since: int, drawers: int, statements: int) -> bool:
    """Return whether to load anew, which goes in batches: following holds all that it reads at once."""
    (changed,) = connection.execute(_COUNT_CHANGED, (since,)).fetchone()
    (embedded,) = connection.execute(_COUNT_EMBEDDED, (spaces.number(model), since)).fetchone()
    return bool(
        changed > _WASTE_MAX * max(drawers, _FEW_ROWS) or embedded > max(_WASTE_MAX * (drawers + statements), _FEW_ROWS)
    )


def _kept(connection: Connection, generation: int, model: str) -> kept_columns.Columns | None:
    """Return the kept columns if the state of now is reached from them, and soon."""
    (pruned,) = connection.execute("SELECT pruned_generation FROM state").fetchone()
    since = kept_columns.generation(connection)
    kept = kept_columns.load(connection) if since is not None and since >= pruned else None
    if kept is None or kept.model != model or kept.generation > generation:
        return None
    held = len(kept.drawers.drawers), len(kept.statements.exchanges)
    return None if _has_much_changed(connection, model, kept.generation, *held) else kept
