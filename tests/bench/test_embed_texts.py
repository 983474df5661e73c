"""What the bench of embedding embeds: real drawers, from all over, each once."""

from __future__ import annotations

from pathlib import Path

import palace_daemon
from palace_daemon.bench import embed_texts
from palace_daemon.embed.tokens import MiniLmTokenCounter

SAMPLES = Path(palace_daemon.__path__[0]) / "samples"


def test_the_packaged_set_gives_drawers_within_the_cap_each_once() -> None:
    texts = embed_texts.packaged()
    counter = MiniLmTokenCounter()
    counts = [counter.count(text) for text in texts]
    assert len(texts) == len(set(texts)) > 100
    assert max(counts) <= counter.max_tokens
    assert min(counts) < max(counts) / 4, "of many lengths, or sorting would show nothing"
    assert all(text.startswith("> ") for text in texts), "a drawer begins with what the user said"


def test_transcripts_give_their_drawers_in_the_same_order_each_time() -> None:
    texts = embed_texts.of_transcripts(SAMPLES)
    assert len(texts) == len(set(texts)) > 20
    assert texts == embed_texts.of_transcripts(SAMPLES)


def test_what_is_taken_comes_from_all_over_in_order() -> None:
    texts = [str(number) for number in range(100)]
    assert embed_texts.spread(texts, 100) == embed_texts.spread(texts, 500) == texts
    found = [int(text) for text in embed_texts.spread(texts, 7)]
    assert found == sorted(set(found))
    assert len(found) == 7
    assert found[0] == 0
    assert found[-1] >= 80
