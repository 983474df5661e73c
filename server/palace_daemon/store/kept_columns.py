"""What the mirror holds of drawers and statements, kept in the database: a start need not read each of them.

All but the vectors, as it was at one generation; whoever loads it follows from there what changed since, as any mirror
that was held so long would. It is a copy: where it is missing, damaged, too old or of another model everything is
loaded from the tables.

A kept number of a vector is that of the vector with this number of its own generation or before: numbers of deleted
vectors are given out again, to later ones. What takes out texts for good drops the copy (``scrubbing.mark_due``);
whoever changes drawers or vectors without a new generation must, too.
"""

from __future__ import annotations

import json
import logging
import zlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palace_daemon.errors import StoreDamagedError
from palace_daemon.store import drawer_mirror, statement_mirror
from palace_daemon.store.sqlite import Connection, mapped_errors

logger = logging.getLogger(__name__)

_VERSION = 1
_HEAD = "head"
_DRAWERS = {
    "drawers": "<i8", "text_keys": "<i8", "exchanges": "<i8", "sessions": "<i8", "projects": "<i4", "agents": "<i4",
    "started_at": "<i8", "lengths": "<f8", "is_superseded": "|b1", "vector_keys": "<i8",
}  # fmt: skip
_STATEMENTS = {"exchanges": "<i8", "is_wish": "|b1", "vector_keys": "<i8"}
_FASTEST = 1
"""zlib's level: a third of the bytes for a tenth of what reading the tables takes."""


class Columns(NamedTuple):
    """One state of the mirror without vectors, see :class:`palace_daemon.store.snapshot.Snapshot`."""

    generation: int
    model: str
    projects: tuple[str, ...]
    agents: tuple[str, ...]
    drawers: drawer_mirror.Told
    statements: statement_mirror.Told


class Packed(NamedTuple):
    """Columns in the form in which they are kept."""

    generation: int
    rows: tuple[tuple[str, bytes], ...]


def pack(columns: Columns) -> Packed:
    """Return what to :func:`save`; takes a tenth of a second for a hundred thousand drawers."""
    head = {
        "version": _VERSION,
        "generation": columns.generation,
        "model": columns.model,
        "projects": columns.projects,
        "agents": columns.agents,
    }
    kept = [(_HEAD, json.dumps(head).encode())]
    kept += [(f"drawers.{name}", _packed(getattr(columns.drawers, name), kind)) for name, kind in _DRAWERS.items()]
    kept += [
        (f"statements.{name}", _packed(getattr(columns.statements, name), kind)) for name, kind in _STATEMENTS.items()
    ]
    return Packed(columns.generation, tuple(kept))


def save(connection: Connection, packed: Packed) -> bool:
    """Keep columns in place of what is kept; in a write transaction.

    Returns:
        Whether they are: not where anything changed since they were taken, for it may have gone for good.
    """
    if connection.execute("SELECT generation FROM state").fetchone() != (packed.generation,):
        return False
    drop(connection)
    connection.executemany("INSERT INTO kept_columns(name, data) VALUES (?,?)", packed.rows)
    return True


def load(connection: Connection) -> Columns | None:
    """Return what is kept; None where there is nothing, or something else."""
    try:
        with mapped_errors("kept_columns"):
            kept = connection.execute("SELECT name, data FROM kept_columns").fetchall()
        return _load(dict(kept))
    except (ValueError, KeyError, TypeError, zlib.error, StoreDamagedError) as exc:
        logger.warning("the kept columns are damaged (%s): all drawers are read instead", type(exc).__name__)
        return None


def generation(connection: Connection) -> int | None:
    """Return of which generation the kept columns are; None where there are none, or none of this store."""
    try:
        with mapped_errors("kept_columns"):
            row = connection.execute("SELECT data FROM kept_columns WHERE name=?", (_HEAD,)).fetchone()
        kept = -1 if row is None else int(json.loads(row[0])["generation"])
    except (ValueError, KeyError, TypeError, StoreDamagedError):
        return None
    (newest,) = connection.execute("SELECT generation FROM state").fetchone()
    return kept if 0 <= kept <= newest else None


def drop(connection: Connection) -> None:
    """Keep nothing any more; in a write transaction."""
    connection.execute("DELETE FROM kept_columns")


def _load(kept: dict[str, Any]) -> Columns | None:
    if _HEAD not in kept:
        return None
    head = json.loads(kept[_HEAD])
    if head["version"] != _VERSION:
        return None
    drawers = drawer_mirror.Told(*(_unpacked(kept[f"drawers.{name}"], kind) for name, kind in _DRAWERS.items()))
    statements = statement_mirror.Told(
        *(_unpacked(kept[f"statements.{name}"], kind) for name, kind in _STATEMENTS.items())
    )
    if len({len(column) for column in drawers}) > 1 or len({len(column) for column in statements}) > 1:
        raise ValueError("columns of different lengths")
    return Columns(
        int(head["generation"]),
        str(head["model"]),
        tuple(head["projects"]),
        tuple(head["agents"]),
        drawers,
        statements,
    )


def _packed(values: NDArray[Any], kind: str) -> bytes:
    return zlib.compress(values.astype(kind).tobytes(), _FASTEST)


def _unpacked(data: bytes, kind: str) -> NDArray[Any]:
    return np.frombuffer(zlib.decompress(data), kind)
