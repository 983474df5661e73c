"""The same drawers under the vectors of another model, in memory: nothing is written, the store stays as it is."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from palace_daemon.core.ports import Embedder
from palace_daemon.store import hits, matrix, packing, spaces, statement_mirror, statements, views
from palace_daemon.store.columns import NEVER
from palace_daemon.store.mirror import Snapshot
from palace_daemon.store.spans import text_hash
from palace_daemon.store.sqlite import Connection, batches

_EMBED_TEXTS = 64
_NO_VECTORS = np.empty((0, 0), np.float32)


class OneState:
    """A reader of drawers that always tells of one state; satisfies what recall reads from."""

    def __init__(self, connection: Connection, drawers: Snapshot) -> None:
        """Take a transaction, which must stay open, and the drawers in it."""
        self._state = connection, drawers

    @contextlib.contextmanager
    def read_with_drawers(self) -> Iterator[tuple[Connection, Snapshot]]:
        """Yield the state."""
        yield self._state


class Texts(NamedTuple):
    """What has a vector in a part of the store."""

    drawers: tuple[tuple[int, bytes, str], ...]
    """Row in the snapshot, hash, text."""
    statements: tuple[tuple[int, bytes, str, bool], ...]
    """Exchange, hash, text, and whether it tells a standing wish."""

    def by_hash(self) -> dict[bytes, str]:
        """Return each text once."""
        drawers = {hash_: text for _, hash_, text in self.drawers}
        return drawers | {hash_: text for _, hash_, text, _ in self.statements}


class Filled(NamedTuple):
    """Drawers with the vectors of a model, and where these came from."""

    drawers: Snapshot
    from_store: int
    embedded: int


def texts_of(connection: Connection, drawers: Snapshot, exchanges: Collection[int]) -> Texts:
    """Return the texts of exchanges."""
    ids = sorted(views.drawer_ids(connection, exchanges))
    keys, told = hits.keys(connection, ids), views.drawer_texts(connection, ids)
    rows = dict(zip(ids, drawers.rows_of(np.array(ids, np.int64)).tolist(), strict=True))
    said = ((row, one) for row in sorted(exchanges) for one in statements.of_exchange(connection, row))
    return Texts(
        tuple((rows[one], keys[one].text_hash, told[one].text) for one in ids if rows[one] >= 0),
        tuple((row, text_hash(one.text), one.text, one.is_wish) for row, one in said),
    )


def filled(
    connection: Connection, drawers: Snapshot, texts: Texts, model: Embedder, on_texts: Callable[[int, int], None]
) -> Filled:
    """Return ``drawers`` with the vectors of ``model`` for ``texts``, and with no others.

    Args:
        connection: In the transaction of ``drawers``.
        drawers: All of them.
        texts: Of the part that is wanted.
        model: Embeds what the store has no vector of.
        on_texts: Told how many of how many texts are embedded.
    """
    by_hash = texts.by_hash()
    stored = _stored(connection, model.fingerprint, list(by_hash))
    width = packing.width_of(model.dim)
    known = {hash_: vector for hash_, vector in stored.items() if len(vector) == width}  # else it is damaged
    lacking = [hash_ for hash_ in by_hash if hash_ not in known]
    from_store = len(known)
    for start in range(0, len(lacking), _EMBED_TEXTS):
        part = lacking[start : start + _EMBED_TEXTS]
        vectors = model.embed_passages([by_hash[hash_] for hash_ in part])
        known |= zip(part, packing.pack(vectors), strict=True)
        on_texts(start + len(part), len(lacking))
    return Filled(_with(drawers, texts, known, model.fingerprint), from_store, len(lacking))


def _with(drawers: Snapshot, texts: Texts, vectors: dict[bytes, bytes], space: str) -> Snapshot:
    embedded_at = np.full(len(drawers.drawers), NEVER)
    embedded_at[[row for row, _, _ in texts.drawers]] = 0
    shown = matrix.unpacked([vectors[hash_] for _, hash_, _ in texts.drawers]) if texts.drawers else _NO_VECTORS
    placed = np.zeros((len(embedded_at), shown.shape[1]), np.float32)
    placed[[row for row, _, _ in texts.drawers]] = shown
    said = [vectors[hash_] for _, hash_, _, _ in texts.statements]
    return dataclasses.replace(
        drawers,
        embedded_at=embedded_at,
        vectors=matrix.of_vectors(placed) if texts.drawers else matrix.NOTHING,
        statements=statement_mirror.of_vectors(
            np.array([one[0] for one in texts.statements], np.int64),
            np.array([one[3] for one in texts.statements], np.bool_),
            matrix.unpacked(said) if said else _NO_VECTORS,
        ),
        model=space,
    )


def _stored(connection: Connection, space: str, hashes: Sequence[bytes]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for batch in batches(list(hashes)):
        marks = ",".join("?" * len(batch))
        found |= dict(
            connection.execute(
                f"SELECT text_hash, vector FROM vectors WHERE space=? AND text_hash IN ({marks})",
                (spaces.number(space), *batch),
            ).fetchall()
        )
    return found
