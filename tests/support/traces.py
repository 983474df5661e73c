"""Looks for what should be gone: in every file of a data directory, as any reader of the bytes would find it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def traces(directory: Path, texts: Iterable[str] = (), vectors: Iterable[bytes] = ()) -> list[str]:
    """Return what was found, as ``file: what``; texts are looked for in UTF-8 and both kinds of UTF-16."""
    wanted = {
        f"{text!r} in {encoding}": text.encode(encoding)
        for text in texts
        for encoding in ("utf-8", "utf-16-le", "utf-16-be")
    }
    wanted |= {f"vector {number}": data for number, data in enumerate(vectors)}
    return [
        f"{path.name}: {what}"
        for path in sorted(directory.rglob("*"))
        if path.is_file()
        for what in sorted(what for what, data in wanted.items() if data in path.read_bytes())
    ]
