"""How near drawers and what their exchanges state are to a question: first bounds for all, then closer for few.

1. All rows in scope at one byte a number: what each cosine is at most.
2. Of some drawers the rounded rows with the question as it is: about half as far off.
3. Of few the vectors as they are stored.

Of the statements of an exchange only those go on to the next step that can still be its best.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from palace_daemon.core import rank
from palace_daemon.core.ports import Float32
from palace_daemon.service.scope import Scope
from palace_daemon.store import matrix
from palace_daemon.store.scan import Piece, Scan
from palace_daemon.store.sqlite import Connection

Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]
Float64 = NDArray[np.float64]
FloatsT = TypeVar("FloatsT", NDArray[np.float64], NDArray[np.float32])

ROUNDING = 1e-5
"""More than float32 products can be off by."""


class Found(NamedTuple):
    """Cosines of drawers, arrays ``[k]``."""

    drawers: Float64
    stated: Float64
    """The best of what the drawer's exchange states, -1 where it states nothing."""
    wished: Float64
    """The same of the standing wishes in it."""


class _Said(NamedTuple):
    """Statements of some exchanges."""

    rows: Rows
    owners: Rows
    """Place of the exchange among those asked for."""
    exchange_count: int
    """Exchanges asked for."""
    which: Rows
    """Of each drawer asked for the place of its exchange."""

    def best(self, cosines: Float64, is_wish: Flags) -> tuple[Float64, Float64]:
        """Return float64 ``[k]`` twice: for each drawer the best cosine of all, and of the wishes."""
        stated = best_of(self.owners, cosines, self.exchange_count)
        return stated[self.which], best_of(self.owners[is_wish], cosines[is_wish], self.exchange_count)[self.which]


class Cosines:
    """The cosines of the drawers in scope to a question."""

    def __init__(self, scope: Scope, embed: Callable[[], Float32], *, wishes: bool) -> None:
        """Begin to embed the question, then to scan; ``wishes`` are asked for as well or not.

        Any method raises what ``embed`` raised.
        """
        self._scope = scope
        self._wishes = wishes
        self._vectors, self._statements = scope.state.vectors, scope.state.statements
        self._drawers_most = np.zeros(len(self._vectors.scales) if scope.is_whole else 0, np.float32)
        self._said_most = np.zeros(len(self._statements.runs) if scope.is_whole else 0, np.float32)
        self._scan = Scan(lambda: matrix.question(embed()), self._pieces)

    def _pieces(self, asked: matrix.Question) -> Sequence[Piece]:
        return [
            *self._vectors.pieces(asked, self._drawers_most),
            *self._statements.vectors.pieces(asked, self._said_most),
        ]

    @functools.cached_property
    def _asked(self) -> matrix.Question:
        """The question, when all is scanned."""
        return self._scan.finish()

    def drawers(self) -> Float32:
        """Return float32 ``[k]``: what the cosine of each drawer in scope is at most."""
        asked, rows = self._asked, self._scope.rows
        if rows is None:
            return self._drawers_most
        return self._vectors.products(asked, rows) + self._vectors.errors_of(asked, rows)

    def rounded(self, most: Float32, places: Rows) -> Float32:
        """Return float32 ``[k]``: the cosines of some drawers' rounded vectors, ``most`` being of all in scope."""
        return most[places] - self._vectors.errors_of(self._asked, self._scope.rows_at(places))

    def stated(self) -> tuple[Float32, Float32 | None]:
        """Return float32 ``[k]``: what the best cosine of what is stated in the exchange of each is at most.

        And the same of the wishes in it, if these are asked for. -1 where nothing is known.
        """
        scope, said, asked = self._scope, self._statements, self._asked
        if scope.is_whole:
            runs = scope.state.runs
            stated = said.best(self._said_most)[runs]
            if not self._wishes:
                return stated, None
            return stated, said.best(np.where(said.is_wish, self._said_most, np.float32(-1.0)))[runs]
        wanted, which = np.unique(scope.exchanges, return_inverse=True)
        rows, owners = said.rows(wanted)
        most = said.vectors.products(asked, rows) + said.vectors.errors_of(asked, rows)
        stated = best_of(owners, most, len(wanted))[which]
        is_wish = said.is_wish[rows]
        return stated, best_of(owners[is_wish], most[is_wish], len(wanted))[which] if self._wishes else None

    def near(self, places: Rows) -> tuple[Found, Found]:
        """Return the most and the least that :meth:`exact` can be."""
        rows = self._scope.rows_at(places)
        cosines, off = self._nearly(self._vectors, rows)
        said = self._said(places)
        said_cosines, said_off = self._nearly(self._statements.vectors, said.rows)
        is_wish = self._statements.is_wish[said.rows]
        return (
            Found(cosines + off, *said.best(said_cosines + said_off, is_wish)),
            Found(cosines - off, *said.best(said_cosines - said_off, is_wish)),
        )

    def exact(self, connection: Connection, places: Rows) -> Found:
        """Return the cosines of drawers at ``places``; ``connection`` is in the transaction of their state."""
        said = self._said(places)
        near, off = self._nearly(self._statements.vectors, said.rows)
        said = self._leading(said, near + off, near - off)
        said_cosines = self.stored(connection, self._statements.vectors, said.rows)
        cosines = self.stored(connection, self._vectors, self._scope.rows_at(places))
        return Found(cosines, *said.best(said_cosines, self._statements.is_wish[said.rows]))

    def drawers_exactly(self, connection: Connection, places: Rows) -> Float64:
        """Return float64 ``[k]``: the cosines of the drawers themselves as :meth:`exact` has them."""
        return self.stored(connection, self._vectors, self._scope.rows_at(places))

    def stored(self, connection: Connection, vectors: matrix.View, rows: Rows) -> Float64:
        """Return float64 ``[k]``: the cosines of vectors as they are stored."""
        return rank.exact_cosines(vectors.read(connection, rows), self._asked.vector) if len(rows) else np.empty(0)

    def _nearly(self, vectors: matrix.View, rows: Rows) -> tuple[Float64, Float64]:
        """Return float64 ``[k]`` twice: the cosines of rounded vectors, and the most that they can be off by."""
        if not len(rows):
            return np.empty(0), np.empty(0)
        off = vectors.errors[rows].astype(np.float64) * self._asked.length
        return (vectors.near(rows) @ self._asked.vector).astype(np.float64), off

    def _said(self, places: Rows) -> _Said:
        """Return the statements that can be the best of the exchanges of the drawers at ``places``."""
        wanted, which = np.unique(self._scope.exchanges[places], return_inverse=True)
        said = _Said(*self._statements.rows(wanted), len(wanted), which)
        if not self._scope.is_whole:
            return said
        most = self._said_most[said.rows]
        off = self._statements.vectors.errors_of(self._asked, said.rows)
        return self._leading(said, most, most - off - off)

    def _leading(self, said: _Said, most: FloatsT, least: FloatsT) -> _Said:
        """Return those that may be the best of their exchange, or the best wish in it."""
        leads = most >= (best_of(said.owners, least, said.exchange_count) - ROUNDING)[said.owners]
        if self._wishes:
            is_wish = self._statements.is_wish[said.rows]
            best = best_of(said.owners[is_wish], least[is_wish], said.exchange_count) - ROUNDING
            leads |= is_wish & (most >= best[said.owners])
        return said._replace(rows=said.rows[leads], owners=said.owners[leads])


def best_of(owners: Rows, values: FloatsT, count: int) -> FloatsT:
    """Return the largest of the values of each owner, ``[count]``; -1 where it has none."""
    best = np.full(count, -1.0, values.dtype)
    np.maximum.at(best, owners, values)
    return best
