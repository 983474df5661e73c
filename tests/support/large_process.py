"""A process that mines one large source and tells its memory: ``python large_process.py DATA SMALL LARGE``.

Prints one line of JSON: exchanges, the resident memory before the large source, and its peak meanwhile, in bytes.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
from pathlib import Path

from palace_daemon.config import Config, WatchConfig
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.service.build import build
from palace_daemon.watch.scripted import ScriptedNotifier


def resident_bytes(field: str) -> int:
    """Return ``VmRSS`` (now) or ``VmHWM`` (the peak) of this process; where there is no /proc, the peak."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def forget_peak() -> None:
    """Have the peak begin anew: it is inherited from the process that started this one."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def main() -> None:
    """Mine the small source, which loads everything that mining needs, then the large one."""
    data, small, large = sys.argv[1:4]
    palace = build(
        Config(data_dir=Path(data), watch=WatchConfig(defaults=False)),
        embedder=HashingEmbedder(),
        notifier=ScriptedNotifier(),
        clock=lambda: 0,
    )
    palace.mine([small], wait=True)
    before = resident_bytes("VmRSS")
    forget_peak()
    report = palace.mine([large], wait=True)
    after = resident_bytes("VmHWM")
    palace.close()
    print(
        json.dumps({"exchanges": report.exchanges_added, "failures": report.failures, "before": before, "after": after})
    )


if __name__ == "__main__":
    main()
