"""What this process and its database take, for ``status``."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def rss_bytes() -> int:
    """Return the resident memory of this process; its peak where the platform tells no more; 0 where it tells none."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        pass
    try:
        import resource  # noqa: PLC0415 - absent on Windows
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def size_with_wal(path: Path) -> int:
    """Return the bytes of a database and its write-ahead log."""
    total = 0
    for name in (path, path.with_name(path.name + "-wal")):
        try:
            total += name.stat().st_size
        except FileNotFoundError:
            continue
    return total
