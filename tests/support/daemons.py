"""Daemon processes over the real service with a model made of hashes, of any version that a test wants."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import palace_daemon
from palace_daemon import places, starting

_SERVE = """
import palace_daemon
palace_daemon.__version__ = {version!r}
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.rpc import serve, wire
from palace_daemon.service import build
wire.PROTOCOL_VERSION = {protocol}
serve._open_palace = lambda config: build.build(config, embedder=HashingEmbedder())
serve.HARD_STOP_S = 60.0
from palace_daemon.__main__ import main
main()
"""


class Daemons:
    """What clients of this process start as a daemon from now on; see :meth:`are_of`.

    They may take their time to end: on a busy machine they would be cut off, and nothing seen of a clean end.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._patch = monkeypatch
        self.python = sys.executable
        self.are_of(palace_daemon.__version__)

    def are_of(self, version: str, protocol: int = 1) -> Path:
        """Have daemons that are started from now on be of this version; returns their Python."""
        script = self._folder / f"serve-{version}.py"
        script.write_text(_SERVE.format(version=version, protocol=protocol))
        python = self._folder / f"python-{version}"
        # Called as `python -m palace_daemon …`.
        python.write_text(f'#!/bin/sh\nshift 2\nexec "{self.python}" "{script}" "$@"\n')
        python.chmod(0o755)
        self._patch.setattr(sys, "executable", str(python))
        return python

    def pids(self) -> list[int]:
        """Return the processes that run."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                is_zombie = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
                if f"{self._folder}/serve-".encode() in (entry / "cmdline").read_bytes() and not is_zombie:
                    found.append(int(entry.name))
        return found

    def end(self) -> None:
        """End them all: one that lost a race for the lock may take over when the winner ends."""
        deadline = time.monotonic() + 20.0
        while running := self.pids():
            for pid in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            assert time.monotonic() < deadline, f"daemons that do not end: {running}"
            time.sleep(0.05)


@contextlib.contextmanager
def started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemons]:
    """Yield the daemons of a test, and end them."""
    folder.mkdir(parents=True, exist_ok=True)
    daemons = Daemons(folder, monkeypatch)
    try:
        yield daemons
    finally:
        daemons.end()


def lock_holder() -> int:
    """Return the process that took the lock last, as the file says."""
    pid: int = json.loads((places.data_dir() / starting.LOCK_NAME).read_text())["pid"]
    return pid
