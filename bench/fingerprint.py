"""What a result depends on besides the machine: chunker, analyser, ranker and model.

Result files carry it, and a test fails when the README quotes figures of another one.
"""

from __future__ import annotations

import hashlib

import msgspec

from palace_daemon.config import ChunkConfig, EmbedConfig
from palace_daemon.core import analysis, chunking, rank
from palace_daemon.embed import registry


def fingerprint(model_id: str = "", chunk: ChunkConfig | None = None) -> str:
    """Return 12 hex digits over the versions and constants of the path that users run."""
    parts = {
        "cut": chunking.CUT_VERSION,
        "chunk": msgspec.to_builtins(chunk or ChunkConfig()),
        "terms": analysis.ANALYSER_VERSION,
        "bm25": [rank.BM25_K1, rank.BM25_B, rank.IDF_POWER, rank.COVERAGE_FULL],
        "weights": msgspec.to_builtins(rank.WEIGHTS),
        "model": registry.spec(model_id or EmbedConfig().model).fingerprint,
    }
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()[:12]
