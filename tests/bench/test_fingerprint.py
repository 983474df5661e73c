"""The fingerprint of a result: of what was run, and the same as ever for what users run."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from palace_daemon.bench.fingerprint import MODEL, RECALL, STORING, fingerprint
from palace_daemon.bench.haystack import CHUNKINGS
from palace_daemon.bench.recall import weights_of
from palace_daemon.config import ChunkConfig, EmbedConfig
from palace_daemon.core import analysis, chunking, rank, statements
from palace_daemon.core.rank import fusion
from palace_daemon.embed import registry


@pytest.mark.parametrize("of", [RECALL, STORING, MODEL])
def test_what_users_run_has_the_fingerprint_that_results_carry(of: frozenset[str]) -> None:
    parts = {
        "cut": chunking.CUT_VERSION,
        "chunk": msgspec.to_builtins(ChunkConfig()),
        "terms": analysis.ANALYSER_VERSION,
        "statements": statements.STATEMENTS_VERSION,
        "words": [rank.BM25_K1, rank.BM25_B, rank.IDF_POWER, rank.COVERAGE_FULL],
        "weights": [msgspec.to_builtins(rank.WEIGHTS), fusion.REQUEST_WORDS, fusion.WISH_OFFSET],
        "model": registry.spec(EmbedConfig().model).fingerprint,
    }
    chosen = {name: parts[name] for name in sorted(of)}
    expected = hashlib.sha256(msgspec.json.encode(chosen, order="deterministic")).hexdigest()[:12]
    assert fingerprint(of=of) == fingerprint(of=of, weights=rank.WEIGHTS, chunking="exchange") == expected


def test_other_weights_and_other_drawers_have_fingerprints_of_their_own() -> None:
    rankers = [weights_of("product"), weights_of("plain"), weights_of("words"), weights_of("product", ["bm25"])]
    found = {fingerprint(weights=weights, chunking=mode) for weights in rankers for mode in CHUNKINGS}
    assert len(found) == len(rankers) * len(CHUNKINGS)


def test_what_a_figure_does_not_depend_on_does_not_count() -> None:
    assert fingerprint(of=STORING, weights=weights_of("words")) == fingerprint(of=STORING)
    assert fingerprint(of=MODEL, chunking="session") == fingerprint(of=MODEL)
