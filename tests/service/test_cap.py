"""No text is longer than the model reads, so that nothing is truncated."""

from __future__ import annotations

import base64
import random
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, turn
from tokenizers import Tokenizer

from palace_daemon.config import Config, EmbedConfig, WatchConfig
from palace_daemon.embed import registry
from palace_daemon.service import build
from palace_daemon.store import vectors
from palace_daemon.watch.scripted import ScriptedNotifier

CAP = 512
DICE = random.Random(5)
CODE = Path(build.__file__).read_text(encoding="utf-8")
HARD = {
    "chinese": "".join(chr(DICE.randrange(0x4E00, 0x9FA5)) for _ in range(5_000)),
    "japanese": "潮位計は毎朝点検されます。" * 500,
    "korean": "조위계는 매일 아침 점검된다 " * 500,
    "thai": "เครื่องวัดระดับน้ำ" * 400,
    "emoji": "🌊 🧭 " * 1_000,
    "combining": "e\u0301\u0323" * 3_000,
    "code": f"```python\n{CODE}\n```",
    "minified": ";".join(f"a[{n}]=b({n},'x{n:x}')" for n in range(1_500)),
    "base64": base64.b64encode(DICE.randbytes(4_000)).decode(),
    "digits": "".join(str(DICE.randrange(10)) for _ in range(5_000)),
    "punctuation": "!?.,;:-()[]{}" * 700,
    "one word": "a" * 9_000,
}


def tokenizer() -> Tokenizer:
    """Return the model's own tokenizer, which truncates at 128 tokens unless it is told not to."""
    source = registry.manifest().source
    found = Tokenizer.from_str(registry.data_file(source.data, registry.TOKENIZER_FILE).read_text(encoding="utf-8"))
    found.no_truncation()
    found.no_padding()
    return found


def all_texts(palace: Any) -> list[str]:
    """Return every text that gets a vector: drawers and statements."""
    with palace._store.read() as connection:
        rows = connection.execute("SELECT text_hash FROM drawers UNION SELECT text_hash FROM statements").fetchall()
        return [text for _, text in vectors.with_texts(connection, [row[0] for row in rows])]


def longest(texts: list[str]) -> int:
    return max(len(encoded.ids) for encoded in tokenizer().encode_batch(texts))


def write_hard(transcripts: Path) -> None:
    """Write each hard text as a reply and as a question, in sessions that are cut by exchange and by paragraph."""
    for turns in (1, 4):
        for number, text in enumerate(HARD.values()):
            lines = [turn(n, f"Question {n}?", "Yes.", session=f"{turns}-{number}") for n in range(turns - 1)]
            lines += [turn(50, "What is it?", text, session=f"{turns}-{number}")]
            lines += [turn(51, f"It is {text}. Remember that.", text[:3_000], session=f"{turns}-{number}")]
            append(transcripts / f"{turns}-{number}.jsonl", "".join(lines))


def test_the_hard_texts_are_far_above_the_cap() -> None:
    short = {name for name, text in HARD.items() if longest([text]) < 3 * CAP}
    assert short == {"thai", "combining", "digits", "one word"}  # an unknown word is one token, however long


def test_hard_texts_are_cut_below_the_cap(palace: Any, transcripts: Path) -> None:
    write_hard(transcripts)
    palace.mine([str(transcripts)], wait=True)
    texts = all_texts(palace)
    assert len(texts) > 100
    assert longest(texts) <= CAP


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_the_drawers_of_the_sample_transcripts_are_below_the_cap(
    make_palace: Any, shared_transcripts: Path, tmp_path: Path, agent: str
) -> None:
    palace = make_palace(tmp_path / "samples")
    palace.mine([str(shared_transcripts / agent)], wait=True)
    texts = all_texts(palace)
    assert len(texts) > 30
    assert longest(texts) <= CAP


@pytest.mark.model
@pytest.mark.timeout(180)
def test_the_model_sees_every_text_whole(tmp_path: Path, transcripts: Path) -> None:
    config = Config(data_dir=tmp_path / "data", watch=WatchConfig(defaults=False), embed=EmbedConfig(threads=1))
    palace = build.build(config, notifier=ScriptedNotifier(), clock=lambda: 0)
    try:
        lines = [turn(n, f"Question {n}?", text[:1_500]) for n, text in enumerate(HARD.values())]
        append(transcripts / "a.jsonl", "".join(lines))
        report = palace.mine([str(transcripts)], wait=True)
        assert (report.vectors_reason, palace.status().vectors_pending) == ("", 0)
        assert palace.status().embedding.truncated == 0
        embedder = palace._models.wanted.state().embedder
        embedder.embed_passages(["word " * 600], truncate=True)  # type: ignore[call-arg, union-attr]
        assert palace.status().embedding.truncated == 1
    finally:
        palace.close()
