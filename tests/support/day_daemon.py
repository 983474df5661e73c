"""The daemon of a working day as a process, and what can be seen of it from outside."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec import Struct

from palace_daemon.client import Client, NotRunningError
from palace_daemon.store import sqlite
from support.footprint import Footprint, footprint

START_S = 60.0
END_S = 30.0
PATIENCE_S = 900.0
"""Embedding yields to whatever else runs: where the machine is busy, waiting for all vectors takes minutes."""
_LINE = re.compile(r"^\S+Z (DEBUG|INFO|WARNING|ERROR|CRITICAL) (\S+): (.*)")


class Sample(Struct, frozen=True):
    """What the daemon's process holds at one moment."""

    event: int
    second: float
    pid: int
    held: Footprint
    exchanges: int
    database_mb: float


class DayDaemon:
    """A daemon process that is ended and started again."""

    def __init__(self, data: Path, log: Path) -> None:
        self.data = data
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self.client = Client(data, timeout_s=PATIENCE_S)

    def start(self, *, with_model: bool = True) -> None:
        """Start it, and wait until it answers, and until its model is there."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "palace_daemon", "serve", "--data-dir", str(self.data)],
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=os.environ.copy(),
            )
        deadline = time.monotonic() + START_S
        while not self._is_ready(with_model=with_model):
            assert self.process.poll() is None, "the daemon ended"
            assert time.monotonic() < deadline, "the daemon does not start"
            time.sleep(0.02)

    def _is_ready(self, *, with_model: bool) -> bool:
        with contextlib.suppress(NotRunningError):
            return bool(self.ask("palace/status")["modelState"] == "ready" or not with_model)
        return False

    def end(self, how: signal.Signals) -> int:
        """End it by a signal; returns its exit code."""
        assert self.process is not None
        self.client.close()
        self.process.send_signal(how)
        code = self.process.wait(END_S)
        self.process = None
        return code

    def ask(self, method: str, **params: Any) -> Any:
        """Ask, and return the result."""
        return self.client.request(method, params)

    def wal_bytes(self) -> int:
        """Return the size of the write-ahead log."""
        path = sqlite.database_path(self.data)
        try:
            return path.with_name(f"{path.name}-wal").stat().st_size
        except FileNotFoundError:
            return 0

    def sample(self, event: int, second: float) -> Sample:
        """Return what it holds now."""
        assert self.process is not None
        pid = self.process.pid
        return Sample(
            event=event,
            second=round(second, 1),
            pid=pid,
            held=footprint(pid),
            exchanges=self.ask("palace/status")["exchanges"],
            database_mb=round(sqlite.database_path(self.data).stat().st_size / 1e6, 1),
        )

    def complaints(self) -> tuple[list[str], Counter[str]]:
        """Return the lines of its log that tell of an error, and how often each kind of warning came.

        A line without a level (a traceback, a word of the interpreter) tells of one, too.
        """
        errors: list[str] = []
        warnings: Counter[str] = Counter()
        for line in self.log.read_text(errors="replace").splitlines():
            match = _LINE.match(line)
            if match is None or match[1] in ("ERROR", "CRITICAL"):
                errors.append(line)
            elif match[1] == "WARNING":
                warnings[re.sub(r"/\S+|\d+", "…", f"{match[2]}: {match[3]}")] += 1
        return errors, warnings
