"""What a result depends on besides the machine: chunker, analyser, ranker and model.

Result files carry it, and a test fails when the README quotes figures of another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

import msgspec

from palace_daemon.config import ChunkConfig, EmbedConfig
from palace_daemon.core import analysis, chunking, rank, statements
from palace_daemon.core.rank import fusion
from palace_daemon.embed import registry

MODEL = frozenset({"model"})
"""What a figure about vectors alone depends on."""
STORING = MODEL | {"cut", "chunk", "terms", "statements"}
"""What a figure about mining depends on."""
RECALL = STORING | {"words", "weights"}
"""What a figure about answers depends on."""


def fingerprint(model_id: str = "", chunk: ChunkConfig | None = None, *, of: Collection[str] = RECALL) -> str:
    """Return 12 hex digits over the versions and constants of the path that users run.

    Args:
        model_id: The model; the configured one if empty.
        chunk: How drawers are cut; as configured if None.
        of: The parts that count.
    """
    parts = {
        "cut": chunking.CUT_VERSION,
        "chunk": msgspec.to_builtins(chunk or ChunkConfig()),
        "terms": analysis.ANALYSER_VERSION,
        "statements": statements.STATEMENTS_VERSION,
        "words": [rank.BM25_K1, rank.BM25_B, rank.IDF_POWER, rank.COVERAGE_FULL],
        "weights": [msgspec.to_builtins(rank.WEIGHTS), fusion.REQUEST_WORDS, fusion.WISH_OFFSET],
        "model": registry.spec(model_id or EmbedConfig().model).fingerprint,
    }
    chosen = {name: parts[name] for name in sorted(of)}
    return hashlib.sha256(msgspec.json.encode(chosen, order="deterministic")).hexdigest()[:12]
