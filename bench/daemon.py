"""A real daemon under a temporary home, for benches that measure what users run."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from palace_daemon import places
from palace_daemon.client import Client

POLL_S = 0.02
START_LIMIT_S = 60.0
SETTLE_LIMIT_S = 3_600.0


class RunningDaemon:
    """A daemon, its home, and a client of it."""

    def __init__(self, home: Path, process: subprocess.Popen[bytes], client: Client) -> None:
        """Take what belongs together; :func:`running` makes it."""
        self.home = home
        self.client = client
        self._process = process

    def cpu_seconds(self) -> float:
        """Return the CPU time that the daemon has used, all threads, user and system."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except FileNotFoundError:  # no /proc: macOS
            told = subprocess.run(
                ["/bin/ps", "-o", "time=", "-p", str(self._process.pid)], capture_output=True, text=True, check=True
            )
            parts = [float(part) for part in told.stdout.strip().replace("-", ":").split(":")]
            return float(sum(part * 60.0**power for power, part in enumerate(reversed(parts))))

    def memory_mb(self, *, is_peak: bool = False) -> float | None:
        """Return the resident memory of the daemon, or the most it ever had; None where the system does not tell."""
        name = "VmHWM" if is_peak else "VmRSS"
        try:
            lines = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii").splitlines()
        except OSError:
            return None
        return next((round(int(line.split()[1]) * 1_024 / 1e6, 1) for line in lines if line.startswith(name)), None)

    def wait_until_settled(self) -> dict[str, Any]:
        """Wait until nothing is left to mine or embed; return the status.

        Raises:
            TimeoutError: It took over an hour.
        """
        deadline = time.monotonic() + SETTLE_LIMIT_S
        while True:
            status: dict[str, Any] = self.client.request("palace/status", {})
            is_settled = status["exchanges"] and not status["sourcesPending"] and not status["vectorsPending"]
            if is_settled and status["modelState"] == "ready":
                return status
            if time.monotonic() > deadline:
                raise TimeoutError("the daemon does not come to rest")
            time.sleep(0.2)


@contextlib.contextmanager
def running(settings: str = "", *, prepare: Callable[[Path], None] | None = None) -> Iterator[RunningDaemon]:
    """Start a daemon with ``settings`` (the text of a config.toml) after ``prepare(home)``; stop it at the end.

    Nothing leads to a person's files; the model cache is shared.
    """
    with tempfile.TemporaryDirectory(prefix="palace-bench-") as root:
        home = Path(root)
        (home / "config.toml").write_text(settings, encoding="utf-8")
        if prepare is not None:
            prepare(home)
        kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "LC_ALL", "PYTHONPATH"}}
        environment = kept | {
            "HOME": root,
            "XDG_RUNTIME_DIR": root,
            "PALACE_MODELS": str(places.models_dir()),
            "PALACE_HOME": str(home / "data"),
            "PALACE_CONFIG": str(home / "config.toml"),
        }
        os.environ["XDG_RUNTIME_DIR"] = root  # where the client looks for the socket
        process = subprocess.Popen(
            [sys.executable, "-m", "palace_daemon", "serve", "--data-dir", str(home / "data")],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with connected(home / "data") as client:
                yield RunningDaemon(home, process, client)
        finally:
            process.terminate()
            process.wait(30)


def connected(data: Path) -> Client:
    """Return a client of the daemon over ``data`` as soon as it answers.

    Raises:
        Exception: What the last try raised, after a minute of tries.
    """
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        try:
            return Client(data_dir=data).connect()
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
