"""Small files in the layouts of evaluation sets."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path


def write_json(path: Path, value: object) -> Path:
    """Write one JSON document, with gzip where the name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    payload = json.dumps(value).encode()
    path.write_bytes(gzip.compress(payload) if path.suffix == ".gz" else payload)
    return path


def utc_ms(*parts: int) -> int:
    """Return the epoch ms of a date in UTC, given as year, month, day and so on."""
    year, month, day, hour, minute = (*parts, 0, 0)[:5]
    return int(datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()) * 1000
