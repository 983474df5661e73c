"""Every text of every format passes the redactor before it is handed out or kept in a parser's state."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from support.formats import Files

from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.base import TranscriptFormat
from palace_daemon.model import ParseResult

SAMPLES = Path(__file__).parents[1] / "data" / "transcripts"
MIN_CHARS = 12
"""Shorter texts may stand in ids and paths, too."""


def known_samples() -> list[tuple[TranscriptFormat, Path]]:
    found = []
    for path in sorted(SAMPLES.rglob("*")):
        if path.is_file():
            known = registry.detect(str(path), path.read_bytes()[: registry.HEAD_BYTES])
            if known is not None:
                found.append((known, path))
    return found


def told(results: list[ParseResult]) -> set[str]:
    """Return what people, agents and titles say, by paragraph."""
    texts: set[str] = set()
    for result in results:
        for exchange in result.exchanges:
            texts |= {part.strip() for text in (exchange.user_text, exchange.reply_text) for part in text.split("\n\n")}
            texts |= {tool.target for tool in exchange.tools if " " in tool.target}
        texts |= {facts.title for facts in result.sessions}
    return {text for text in texts if len(text) >= MIN_CHARS}


@pytest.mark.parametrize(
    ("known", "path"), [pytest.param(*one, id=str(one[1].relative_to(SAMPLES))) for one in known_samples()]
)
def test_nothing_is_told_or_kept_that_did_not_pass_the_redactor(known: TranscriptFormat, path: Path) -> None:
    data = path.read_bytes()
    parser = known.open(str(path), str, None, Files())
    texts = told([parser.feed(data), parser.take_tail(), parser.finish()])
    parser = known.open(str(path), lambda text: "R" if text else "", None, Files())
    kept: list[bytes] = []
    for start in range(0, len(data), max(1, len(data) // 7 + 1)):
        result = parser.feed(data[start : start + max(1, len(data) // 7 + 1)])
        kept += [msgspec.msgpack.encode(result), parser.snapshot()]
    kept += [msgspec.msgpack.encode(result) for result in (parser.take_tail(), parser.finish())]
    kept.append(parser.snapshot())
    leaks = [text for text in sorted(texts) if any(text.encode() in one for one in kept)]
    assert leaks == []
