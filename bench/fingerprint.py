"""What a result depends on besides the machine: chunker, analyser, ranker and model.

Result files carry it, and a test fails when the README quotes figures of another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

import msgspec

from palace_daemon.config import ChunkConfig, EmbedConfig
from palace_daemon.core import analysis, rank, statements
from palace_daemon.core.chunking import CUT_VERSION
from palace_daemon.core.rank import fusion
from palace_daemon.embed import registry

MODEL = frozenset({"model"})
"""What a figure about vectors alone depends on."""
STORING = MODEL | {"cut", "chunk", "terms", "statements"}
"""What a figure about mining depends on."""
RECALL = STORING | {"words", "weights"}
"""What a figure about answers depends on."""


AS_USERS_RUN = "exchange"
"""How texts become drawers in the product."""


def fingerprint(
    model_id: str = "",
    chunk: ChunkConfig | None = None,
    *,
    of: Collection[str] = RECALL,
    weights: rank.Weights | None = None,
    chunking: str = AS_USERS_RUN,
) -> str:
    """Return 12 hex digits over the versions and constants of what was run.

    Args:
        model_id: The model; the configured one if empty.
        chunk: How drawers are cut; as configured if None.
        of: The parts that count.
        weights: Of the ranker's signals; those of the product if None.
        chunking: How texts become drawers; where this is not as users run it, it counts with the part ``chunk``.
    """
    parts: dict[str, Any] = {
        "cut": CUT_VERSION,
        "chunk": msgspec.to_builtins(chunk or ChunkConfig()),
        "terms": analysis.ANALYSER_VERSION,
        "statements": statements.STATEMENTS_VERSION,
        "words": [rank.BM25_K1, rank.BM25_B, rank.IDF_POWER, rank.COVERAGE_FULL],
        "weights": [
            msgspec.to_builtins(rank.WEIGHTS if weights is None else weights),
            fusion.REQUEST_WORDS,
            fusion.WISH_OFFSET,
        ],
        "model": registry.spec(model_id or EmbedConfig().model).fingerprint,
    }
    chosen = {name: parts[name] for name in sorted(of)}
    if chunking != AS_USERS_RUN and "chunk" in of:
        chosen["chunking"] = chunking
    return hashlib.sha256(msgspec.json.encode(chosen, order="deterministic")).hexdigest()[:12]
