"""What the tests of the line formats share: real samples, records as lines, damage."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from palace_daemon.core.redaction import redact
from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.base import TranscriptFormat
from support.formats import Whole, read_bytes

REPOSITORY = Path(__file__).parents[2]
SHARED = Path(os.environ.get("PALACE_TEST_SHARED", str(REPOSITORY.parent / "shared"))) / "transcripts"
needs_samples = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real transcripts are not at {SHARED}"),
]


def samples(folder: str) -> list[Path]:
    """Return the real transcripts below a folder of the samples."""
    return [path for path in sorted((SHARED / folder).rglob("*")) if path.is_file() and path.name != "SOURCES.txt"]


def foreign_samples(folder: str) -> list[Path]:
    """Return the real transcripts outside a folder of the samples."""
    return [path for path in samples(".") if not path.is_relative_to(SHARED / folder)]


def head_of(path: Path) -> bytes:
    """Return what a format sees of a file before it is opened."""
    with path.open("rb") as file:
        return file.read(registry.HEAD_BYTES)


def assert_claims_only(known: TranscriptFormat, folder: str) -> None:
    """The format takes each of its samples, no other format does, and it takes nobody else's."""
    for path in samples(folder):
        claims = [one.name for one in registry.formats() if one.sniff(head_of(path))]
        assert claims == [known.name], path
        found = registry.detect(str(path), head_of(path))
        assert found is not None
        assert found.name == known.name, path
    for path in foreign_samples(folder):
        assert not known.sniff(head_of(path)), path


def lines(*records: dict[str, Any]) -> bytes:
    """Return records as the lines of a file."""
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def parse(known: TranscriptFormat, *records: dict[str, Any], path: str = "/home/sam/sample.jsonl") -> Whole:
    """Return what a file of these records comes to."""
    return read_bytes(known, lines(*records), path)


def assert_no_damage_raises(known: TranscriptFormat, data: bytes, path: str = "/home/sam/sample.jsonl") -> None:
    """Read 100 damaged copies, in two pieces with a restart between them."""
    for seed in range(100):
        chance = random.Random(seed)
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(damaged))
            match chance.randrange(4):
                case 0:
                    damaged[at] = chance.randrange(256)
                case 1:
                    del damaged[at : at + chance.randrange(1, 40)]
                case 2:
                    damaged[at:at] = chance.choice((b"\n", b"\x00\x00", b'{"', b"[]", b"null", b"\xff", b"\\ud83d"))
                case _:
                    damaged[at:at] = damaged[chance.randrange(len(damaged)) :][:200]
        known.sniff(bytes(damaged))
        parser = known.open(path, redact)
        results = [parser.feed(bytes(damaged[: len(damaged) // 2]))]
        parser = known.open(path, redact, parser.snapshot())
        results += [parser.feed(bytes(damaged[parser.offset :])), parser.take_tail(), parser.finish()]
        for result in results:
            for one in result.exchanges:
                assert (one.user_text + one.reply_text).encode()
