"""Which models' vectors the store holds, and which of them answer.

A space is named by a model's fingerprint, so vectors of another version of its graph are another space. Two spaces
never meet in one score. One *answers*. A *next* one may be filled while the answering one goes on, or a *previous* one
be kept, so that going back is cheap: two at most. What has none of these roles is deleted in the background.

The rule of a switch: the next space answers as soon as a vector of its own leaves it lacking no more texts than the
answering one. A space that covered everything is therefore replaced only by one that covers everything, and one that
had hardly begun makes way soon. Texts that come meanwhile are queued for both; what the answering one lacked when the
switch began is left to the next, unless that one cannot be loaded. Roles, queues and vectors change in one
transaction, so a switch survives a kill at any point.

Rows of vectors name their space by a number, see :func:`number`: a fingerprint in each of them, and again in both of
their indexes, would take a tenth of a vector's room.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from palace_daemon.store.sqlite import Connection

UNDATED = -(1 << 62)
"""Sorts undated texts after all dated ones."""
TEXT_TABLES = ("drawers", "statements")
"""What has texts, by `pending_texts.is_statement`."""


class Space(NamedTuple):
    """How far one space is."""

    model: str
    """The fingerprint; empty for the queue of a store that no model has embedded yet."""
    vectors: int
    pending: int
    """Stored texts that it lacks, those included that it leaves to the next one."""

    @property
    def texts(self) -> int:
        """Return how many distinct texts the store holds, as far as this space knows of them."""
        return self.vectors + self.pending


class Spaces(NamedTuple):
    """The spaces by role."""

    answering: Space
    next: Space | None
    previous: Space | None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the fingerprints that have a role."""
        return tuple(space.model for space in self if space is not None)


def number(model: str) -> int:
    """Return the number by which rows of vectors name the space of ``model``.

    It follows from the fingerprint, so that vectors taken out of a damaged database are never taken for another
    model's, whatever else is lost. 31 bits: two fingerprints of a store share one with a chance of one in a billion.
    """
    return int.from_bytes(hashlib.blake2b(model.encode(), digest_size=4).digest(), "big") >> 1


def add(connection: Connection, model: str) -> None:
    """Have ``model`` counted, if it is not yet."""
    connection.execute("INSERT OR IGNORE INTO spaces(model, number) VALUES (?,?)", (model, number(model)))


def read(connection: Connection) -> Spaces:
    """Return the roles and the counts, without counting anything."""
    roles = _roles(connection)
    counts = {row[0]: Space(*row) for row in connection.execute("SELECT model, vectors, pending FROM spaces")}
    answering, next_, previous = (counts.get(model, Space(model, 0, 0)) for model in roles)
    return Spaces(answering, next_ if next_.model else None, previous if previous.model else None)


def _roles(connection: Connection) -> tuple[str, str, str]:
    answering, next_, previous = connection.execute("SELECT model, next_model, previous_model FROM state").fetchone()
    return answering, next_, previous


def begin(connection: Connection, model: str) -> bool:
    """Have ``model`` take over once it lacks no more texts than the answering one; returns whether that is news.

    The first model of a store answers at once. Naming the answering model gives up a switch that is under way.
    """
    answering, next_, _ = _roles(connection)
    if model == (next_ or answering):
        return False
    if next_:
        _drop_queue(connection, next_)
    if model == answering:
        _set_roles(connection, answering, "", next_)
        take_up_left(connection)
        return True
    add(connection, model)
    connection.execute("UPDATE pending_texts SET is_left=1 WHERE model=?", (answering,))
    _fill_queue(connection, model)
    _set_roles(connection, answering, model, "")  # what was kept for going back makes way: no more than two are held
    if not answering:
        finish(connection, keep=False)
    return True


def use(connection: Connection, model: str) -> bool:
    """Have ``model`` answer at once, whatever it covers; returns whether that changed anything."""
    changed = begin(connection, model)
    finish(connection)
    return changed


def advance(connection: Connection) -> bool:
    """Let the next model take over if it lacks no more than the answering one; returns whether it did."""
    spaces = read(connection)
    if spaces.next is None or spaces.next.pending > spaces.answering.pending:
        return False
    finish(connection)
    return True


def finish(connection: Connection, *, keep: bool = True) -> None:
    """Let the next model, if there is one, take over now; ``keep`` the former one's vectors."""
    answering, next_, _ = _roles(connection)
    if not next_:
        return
    _drop_queue(connection, answering)
    _set_roles(connection, next_, "", answering if keep else "")
    connection.execute("UPDATE state SET generation=generation+1")


def has_left(connection: Connection) -> bool:
    """Return whether the answering model leaves texts to a next one."""
    answering, _, _ = _roles(connection)
    found = connection.execute("SELECT 1 FROM pending_texts WHERE model=? AND is_left=1 LIMIT 1", (answering,))
    return found.fetchone() is not None


def take_up_left(connection: Connection) -> int:
    """Leave nothing to a next model any more; returns how many texts the answering one takes up."""
    return connection.execute(
        "UPDATE pending_texts SET is_left=0 WHERE is_left=1 AND model=(SELECT model FROM state)"
    ).rowcount


def has_unused(connection: Connection) -> bool:
    """Return whether there are vectors without a role, or traces of such a space."""
    return _unused(connection) is not None


def drop_unused(connection: Connection, limit: int) -> int:
    """Delete up to ``limit`` vectors of spaces without a role; returns how many, at least 1 while there is something.

    In pieces, since a large store would keep the one writer busy for long.
    """
    model = _unused(connection)
    if model is None:
        return 0
    deleted = connection.execute(
        "DELETE FROM vectors WHERE id IN (SELECT id FROM vectors INDEXED BY vectors_generation WHERE space=? LIMIT ?)",
        (number(model), limit),
    ).rowcount
    if deleted < limit:
        connection.execute("DELETE FROM spaces WHERE model=?", (model,))
    return max(deleted, 1)


def _unused(connection: Connection) -> str | None:
    roles = _roles(connection)
    row = connection.execute("SELECT model FROM spaces WHERE model NOT IN ('',?,?,?) LIMIT 1", roles).fetchone()
    return None if row is None else str(row[0])


def _set_roles(connection: Connection, answering: str, next_: str, previous: str) -> None:
    connection.execute("UPDATE state SET model=?, next_model=?, previous_model=?", (answering, next_, previous))


def _drop_queue(connection: Connection, model: str) -> None:
    connection.execute("DELETE FROM pending_texts WHERE model=?", (model,))


def _fill_queue(connection: Connection, model: str) -> None:
    """Queue every stored text that lacks a vector of ``model``."""
    for is_statement, table in enumerate(TEXT_TABLES):
        connection.execute(
            "INSERT OR IGNORE INTO pending_texts(text_hash, model, is_statement, started_at)"
            f" SELECT t.text_hash, ?1, ?2, max(coalesce(e.started_at, ?3)) FROM {table} t"
            " JOIN exchanges e ON e.id=t.exchange_id WHERE NOT EXISTS"
            " (SELECT 1 FROM vectors v WHERE v.text_hash=t.text_hash AND v.space=?4) GROUP BY t.text_hash",
            (model, is_statement, UNDATED, number(model)),
        )
