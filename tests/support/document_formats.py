"""What the tests of whole-file formats share: files that lie beside, documents from values, values of wrong types."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, TranscriptFormat
from support.formats import read_bytes
from support.line_formats import head_of, samples
from support.mutators import MUTATORS

_DOCUMENT_MUTATORS = ("cut_end", "cut_middle", "flip_bytes", "huge_values", "invalid_utf8", "nul_bytes", "wrong_types")


class Nearby:
    """Files by their paths, as :class:`~palace_daemon.core.ports.Beside`. Values are written as JSON."""

    def __init__(self, files: Mapping[str, Any]) -> None:
        self._files = {path: self._bytes(value) for path, value in files.items()}

    @staticmethod
    def _bytes(value: Any) -> bytes:
        return value if isinstance(value, bytes) else json.dumps(value).encode()

    def read(self, path: str) -> bytes | None:
        """Return the file's bytes."""
        return self._files.get(path)

    def names(self, directory: str) -> tuple[str, ...]:
        """Return the names right below a directory, sorted."""
        inside = (path.removeprefix(f"{directory}/") for path in self._files if path.startswith(f"{directory}/"))
        return tuple(sorted({rest.split("/")[0] for rest in inside}))


def document(value: Any) -> bytes:
    """Return a value as a file."""
    return json.dumps(value, ensure_ascii=False).encode()


def assert_damage_does_not_raise(
    known: TranscriptFormat, data: bytes, path: str, beside: Beside = NOTHING_BESIDE
) -> None:
    """Read 140 damaged copies of ``data``: bytes that changed, and values of other types."""
    for name in _DOCUMENT_MUTATORS:
        for seed in range(20):
            damaged = MUTATORS[name](data, random.Random(seed))
            known.sniff(damaged[: registry.HEAD_BYTES])
            for one in read_bytes(known, damaged, path, beside).exchanges:
                assert (one.user_text + one.reply_text).encode(), (name, seed)


def claims_outside(known: TranscriptFormat, *folders: str) -> list[str]:
    """Return the real transcripts outside ``folders`` that the format takes for its own."""
    foreign = (path for path in samples(".") if not any(folder in path.parts for folder in folders))
    return [str(path) for path in foreign if known.sniff(head_of(path))]
