"""A process that forgets, to be killed at a step: ``python forgetting_process.py DATA TRANSCRIPTS STEP``.

At the step it says so, and waits for ever. Without one (``none``) it starts, lets what is due be done, and ends.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from palace_daemon.config import Config, WatchConfig
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.model import ForgetRequest
from palace_daemon.service.build import build
from palace_daemon.service.palace import LivePalace
from palace_daemon.store import forgetting, scrubbing
from palace_daemon.watch.scripted import ScriptedNotifier

DEADLINE_S = 60.0


def stay(step: str) -> NoReturn:
    """Say where we are, and wait to be killed."""
    print(step, flush=True)
    time.sleep(DEADLINE_S)
    raise SystemExit("nobody killed this process")


def stop_at(step: str) -> None:
    """Have forgetting stay at ``step``."""
    remove, copy_back, drop_copy = forgetting.remove, scrubbing._copy_back, scrubbing.drop_copy
    drops = 0

    def remove_and_stay(*values: Any) -> forgetting.Removal:
        remove(*values)
        stay(step)

    def stay_in_check(stop: object) -> None:
        stay(step)

    def copy_back_and_stay(*values: Any) -> None:
        if step == "before_copying_back":
            stay(step)
        if step == "while_copying_back":
            scrubbing._STEP_PAGES = 1
            scrubbing._check = stay_in_check
        copy_back(*values)

    def drop_and_stay(path: Path) -> None:
        nonlocal drops
        drops += 1
        if step == "before_scrubbing" or (step == "before_the_log_is_cut" and drops == 2):
            stay(step)
        drop_copy(path)

    if step == "before_the_commit":
        forgetting.remove = remove_and_stay  # type: ignore[assignment]
    scrubbing._copy_back, scrubbing.drop_copy = copy_back_and_stay, drop_and_stay  # type: ignore[assignment]


def finish(palace: LivePalace) -> None:
    """Start as a daemon does, and wait until nothing is due."""
    palace.start()
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        with palace._store.read() as connection:
            if not forgetting.is_scrub_due(connection):
                return
        time.sleep(0.01)
    raise SystemExit("it is still due")


def main() -> None:
    """Mine, and forget what holds the word ``quixotry``."""
    data, transcripts, step = sys.argv[1:4]
    palace = build(
        Config(data_dir=Path(data), watch=WatchConfig(defaults=False, paths=(transcripts,))),
        embedder=HashingEmbedder(),
        notifier=ScriptedNotifier(),
        clock=lambda: 0,
    )
    if step == "none":
        finish(palace)
    else:
        palace.mine(wait=True)
        secret = next(view.exchange_id for view in palace.timeline("s1") if "quixotry" in view.user_text)
        stop_at(step)
        palace.forget(ForgetRequest(exchanges=(secret,)))
    palace.mine(wait=True)
    palace.close()
    print("done", flush=True)


if __name__ == "__main__":
    main()
