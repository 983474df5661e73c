"""Every sample of every format as the bytes that its parser gets, whatever it lies in."""

from __future__ import annotations

import functools
import os
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from msgspec import Struct

from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.base import FolderFormat, TranscriptFormat
from palace_daemon.errors import SourceError
from palace_daemon.service import material as materials
from palace_daemon.service.archives import Archives

REPOSITORY = Path(__file__).parents[2]
OWN = REPOSITORY / "tests" / "data" / "transcripts"
SHARED = Path(os.environ.get("PALACE_TEST_SHARED", str(REPOSITORY.parent / "shared"))) / "transcripts"


ARCHIVES = Archives()


class Sample(Struct, frozen=True):
    """One source: its path as the store would have it, its format's name and its bytes."""

    path: str
    format_name: str
    data: bytes

    @property
    def known(self) -> TranscriptFormat:
        """The format."""
        found = registry.by_name(self.format_name)
        assert found is not None
        return found


@functools.cache
def samples() -> tuple[Sample, ...]:
    """Return all samples: the repository's own, and the real ones where they are there."""
    found: list[Sample] = []
    for root in (OWN, SHARED):
        for path in sorted(root.rglob("*")) if root.is_dir() else ():
            if path.suffix == ".sql":
                found += _samples_of_dump(path)
            elif path.is_file():
                found += _samples_in(str(path))
    return tuple(found)


def _samples_of_dump(dump: Path) -> list[Sample]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / dump.stem
        path = path if path.suffix else path.with_suffix(".db")
        connection = sqlite3.connect(path)
        connection.executescript(dump.read_text(encoding="utf-8"))
        connection.close()
        return _samples_in(str(path))


def _gathered(path: str, known: FolderFormat) -> Any:
    session = materials.gathered(path, known, ARCHIVES, None)
    assert session is not None
    return session.file


def _samples_in(path: str) -> list[Sample]:
    try:
        with materials.opened(path, ARCHIVES) as source:
            if materials.is_container(source.head(16)):
                listing = materials.list_container(path, ARCHIVES)
                return [sample for item in listing.found for sample in _samples_in(item.path)]
            head = source.head(registry.HEAD_BYTES)
            known = materials.database_format(path) or registry.detect(registry.plain_name(path), head)
            if known is None:
                return []
            file = _gathered(path, known) if isinstance(known, FolderFormat) else source.file
            file.seek(0)
            return [Sample(path, known.name, file.read() or b"")]
    except SourceError:
        return []
