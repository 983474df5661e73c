"""A process that mines and embeds, to be killed by a test: ``python mining_process.py DATA TRANSCRIPTS``."""

from __future__ import annotations

import sys
from pathlib import Path

from palace_daemon.config import Config, WatchConfig
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.service import mining
from palace_daemon.service.build import build
from palace_daemon.watch.scripted import ScriptedNotifier


def main() -> None:
    """Mine to the end; say when mining begins and when it is done."""
    data, transcripts = sys.argv[1:3]
    mining.READ_BYTES = 16_384  # many small transactions: more places to be killed between
    palace = build(
        Config(data_dir=Path(data), watch=WatchConfig(defaults=False)),
        embedder=HashingEmbedder(),
        notifier=ScriptedNotifier(),
        clock=lambda: 0,
    )
    print("mining", flush=True)
    palace.mine([transcripts], wait=True)
    palace.close()
    print("done", flush=True)


if __name__ == "__main__":
    main()
