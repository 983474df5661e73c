"""A process that switches models, to be killed by a test: ``python switching_process.py DATA TRANSCRIPTS MODEL``.

``MODEL`` is ``hashing``, which stands for a former model, or an installed one.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from palace_daemon import places
from palace_daemon.config import Config, WatchConfig
from palace_daemon.embed import minilm
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.service.build import build
from palace_daemon.service.model_host import ModelHost
from palace_daemon.watch.scripted import ScriptedNotifier


def main() -> None:
    """Mine what is new, and embed until the model answers; say when that begins and when it is done."""
    data, transcripts, model_id = sys.argv[1:4]
    former = HashingEmbedder()
    is_former = model_id == former.model_id
    palace = build(
        Config(data_dir=Path(data), watch=WatchConfig(defaults=False)),
        embedder=former if is_former else minilm.load(model_id, places.models_dir(), threads=1),
        notifier=ScriptedNotifier(),
        clock=lambda: 0,
    )
    palace._models._open_host = lambda space: (  # it stays loadable
        ModelHost(former.model_id, former, None) if space == former.fingerprint else None
    )
    print("switching", flush=True)
    palace.mine([transcripts], wait=True)
    while palace.embedding().is_switching:
        threading.Event().wait(0.02)
    palace.close()
    print("done", flush=True)


if __name__ == "__main__":
    main()
