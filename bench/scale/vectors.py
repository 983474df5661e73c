"""Vectors for a synthetic store: real ones for a part, the rest drawn to lie about as those do.

A text that is not embedded gets a vector near that of a real text of its kind: what that one has beside the mean of
all, mixed with a random vector of the covariance of all, so far that its cosine to the real one is that which nearest
neighbours among the real ones have. So the vectors form clusters as dense, and as far from each other, as real texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from palace_daemon.bench.scale.build import OnProgress
from palace_daemon.core import chunking
from palace_daemon.core.ports import Embedder, Float32
from palace_daemon.store import statements, vectors
from palace_daemon.store.spans import SPAN_COLUMNS, span_of, text_hash
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.store import Store

_EMBED_TEXTS = 256
_DRAW_TEXTS = 8_192
_NEAREST_MAX = 0.95
"""Two texts that are nearly the same say nothing about how dense the others lie."""


class Texts(NamedTuple):
    """Texts of a part of the store, by kind."""

    exchanges: tuple[int, ...]
    drawers: tuple[str, ...]
    statements: tuple[str, ...]


class Real(NamedTuple):
    """Texts and their vectors, float32 ``[m, dim]``, each text once."""

    texts: Texts
    drawers: Float32
    statements: Float32


class Cloud:
    """Where the vectors of one kind lie."""

    def __init__(self, real: Float32, random: np.random.Generator) -> None:
        """Take real vectors ``[m, dim]`` of length 1, at least two, and a stream of random numbers."""
        self._real = real
        self._random = random
        self._mean = real.mean(0)
        centred = real - self._mean
        # float64 [dim, dim]: a square root of the covariance, also where there are fewer vectors than dimensions.
        values, axes = np.linalg.eigh(centred.T.astype(np.float64) @ centred / len(real))
        self._spread = (axes * np.sqrt(np.maximum(values, 0.0))).astype(np.float32).T
        common = float(self._mean @ self._mean)
        # Of a vector's own part, beside the mean of all, as much as gives this cosine to it.
        self._kept = min(1.0, max(0.0, (nearest(real) - common) / max(1e-9, 1.0 - common)))

    def draw(self, count: int) -> Float32:
        """Return ``count`` vectors of length 1."""
        places = (self._random.random(count) * len(self._real)).astype(np.int64)
        noise = self._random.standard_normal((count, self._real.shape[1]), np.float32) @ self._spread
        # The two shares keep mean and covariance as they are.
        moved = self._mean + self._kept * (self._real[places] - self._mean) + np.sqrt(1.0 - self._kept**2) * noise
        return np.asarray(moved / np.linalg.norm(moved, axis=1, keepdims=True), np.float32)


def nearest(real: Float32) -> float:
    """Return the median cosine of a vector to its nearest neighbour that is not nearly itself."""
    cosines = real @ real.T
    cosines[cosines > _NEAREST_MAX] = -1.0
    return float(np.median(cosines.max(1)))


def embed_some(store: Store, embedder: Embedder, drawers: int, seed: int, on_progress: OnProgress) -> Real:
    """Embed all texts of seeded exchanges that have about ``drawers`` drawers; return them."""
    texts = _some_texts(store, drawers, seed)
    known: dict[str, Float32] = {}
    todo = list(dict.fromkeys((*texts.drawers, *texts.statements)))
    for begin in range(0, len(todo), _EMBED_TEXTS):
        part = todo[begin : begin + _EMBED_TEXTS]
        matrix = embedder.embed_passages(part)
        store.save_vectors(embedder.fingerprint, [text_hash(text) for text in part], matrix)
        known |= zip(part, matrix, strict=True)
        on_progress("embedding", begin + len(part), len(todo), "texts")
    return Real(texts, _stacked(known, texts.drawers), _stacked(known, texts.statements))


def _stacked(known: Mapping[str, Float32], texts: Sequence[str]) -> Float32:
    return np.stack([known[text] for text in dict.fromkeys(texts)]) if texts else np.empty((0, 0), np.float32)


def _some_texts(store: Store, drawers: int, seed: int) -> Texts:
    chance = np.random.Generator(np.random.PCG64([seed, 1]))
    with store.read() as connection:
        ids = [row[0] for row in connection.execute("SELECT id FROM exchanges ORDER BY id")]
        chosen: list[int] = []
        said: list[str] = []
        shown: list[str] = []
        for place in np.argsort(chance.random(len(ids)), kind="stable").tolist():
            if len(shown) >= drawers:
                break
            chosen.append(ids[place])
            shown += drawer_texts(connection, ids[place])
            said += [one.text for one in statements.of_exchange(connection, ids[place])]
    return Texts(tuple(chosen), tuple(shown), tuple(said))


def drawer_texts(connection: Connection, exchange_id: int) -> list[str]:
    """Return the texts of an exchange's drawers."""
    user, reply = connection.execute(
        "SELECT user_text, reply_text FROM exchanges WHERE id=?", (exchange_id,)
    ).fetchone()
    rows = connection.execute(
        f"SELECT {SPAN_COLUMNS} FROM drawers WHERE exchange_id=? ORDER BY ordinal", (exchange_id,)
    )
    return [chunking.render(user, reply, span_of(row)) for row in rows]


def draw_rest(store: Store, embedder: Embedder, real: Real, seed: int, on_progress: OnProgress) -> None:
    """Give every text that has no vector yet a drawn one, and leave nothing queued."""
    chance = np.random.Generator(np.random.PCG64([seed, 2]))
    of_drawers = Cloud(real.drawers, chance)
    clouds = (of_drawers, Cloud(real.statements, chance) if len(real.statements) > 1 else of_drawers)
    with store.read() as connection:
        rows = connection.execute("SELECT text_hash, is_statement FROM pending_texts ORDER BY text_hash").fetchall()
    done = 0
    for kind, cloud in enumerate(clouds):
        hashes = [hash_ for hash_, is_statement in rows if is_statement == kind]
        for begin in range(0, len(hashes), _DRAW_TEXTS):
            part = hashes[begin : begin + _DRAW_TEXTS]
            store.save_vectors(embedder.fingerprint, part, cloud.draw(len(part)))
            done += len(part)
            on_progress("drawing vectors", done, len(rows), "texts")


def pending(store: Store) -> int:
    """Return how many texts have no vector."""
    with store.read() as connection:
        return vectors.pending_count(connection)
