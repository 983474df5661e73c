"""What the shipped fake adds to the contract."""

from __future__ import annotations

import numpy as np

from palace_daemon.embed.hashing import HashingEmbedder


def test_vectors_are_the_same_in_every_process() -> None:
    vector = HashingEmbedder(dim=8).embed_query("Postgres queue")
    assert np.array_equal(np.rint(vector * 7), [4, -4, 0, 1, 0, 0, 0, 4])  # a different hash would be noticed
    assert vector.tolist() == HashingEmbedder(dim=8).embed_query("postgres, QUEUE!").tolist()


def test_inflections_are_near() -> None:
    embedder = HashingEmbedder()
    near = embedder.embed_query("migration") @ embedder.embed_query("migrations")
    assert near > 0.3 > embedder.embed_query("migration") @ embedder.embed_query("tomato")
