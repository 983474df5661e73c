"""Makes a model in a temporary folder and puts it in place whole; what the ways to install one have in common.

Invariant: under its name there is either nothing or a whole model that passed its checks, whatever is killed when: all
work is done in a temporary folder, flushed, and renamed. One install runs at a time for a models folder.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from palace_daemon.embed import registry
from palace_daemon.embed.lockfile import exclusive
from palace_daemon.errors import CancelledError, ModelError
from palace_daemon.model import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from palace_daemon.core.ports import StopSignal
    from palace_daemon.embed.registry import ModelSpec

LOCK_FILE = ".install.lock"
DOWNLOADS = "downloads"
_TEMPORARY = ".building-"
REPLACED = ".replaced-"
"""Begins the names of folders that are to go."""


class Steps:
    """Reports progress and honours the stop signal."""

    def __init__(self, on_progress: Callable[[Progress], None] | None, stop: StopSignal | None) -> None:
        self._on_progress = on_progress
        self.stop = stop

    def tell(self, unit: str, done: int, total: int) -> None:
        """Report; raises CancelledError when the work should stop."""
        if self.stop is not None and self.stop.is_set():
            raise CancelledError("the installation was stopped")
        self.report(unit, done, total)

    def report(self, unit: str, done: int, total: int) -> None:
        """Report, whatever the signal says."""
        if self._on_progress is not None:
            self._on_progress(Progress(stage="model", done=done, total=total, unit=unit))


@contextmanager
def alone(models_dir: Path, stop: StopSignal | None) -> Iterator[None]:
    """Make the models folder, wait until no other install runs in it, and sweep what a killed one left.

    Raises:
        CancelledError: ``stop`` was set while waiting.
        ModelError: The file system refuses something, here or within.
    """
    try:
        (models_dir / DOWNLOADS).mkdir(parents=True, exist_ok=True)
        with exclusive(models_dir / LOCK_FILE, stop):
            _sweep(models_dir)
            yield
    except OSError as exc:
        place = exc.filename or models_dir
        raise ModelError(
            f"cannot install a model in {models_dir}: {place}: {exc.strerror or exc}",
            hint="free some space or choose another folder with PALACE_MODELS",
        ) from exc


@contextmanager
def building(models_dir: Path) -> Iterator[Path]:
    """Give an empty folder to build in, which is gone afterwards unless it was put in place."""
    folder = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=models_dir))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def whole(model_id: str, models_dir: Path) -> Path | None:
    """Return the folder of a model that is installed, whole to the byte, and of this version."""
    try:
        return registry.check_installed(model_id, models_dir)
    except ModelError:
        return None


def _sweep(models_dir: Path) -> None:
    """Remove what a killed install left behind; the lock says that nobody works there."""
    for pattern in (f"{_TEMPORARY}*", f"{REPLACED}*", f"{DOWNLOADS}/.pip-*"):
        for abandoned in models_dir.glob(pattern):
            shutil.rmtree(abandoned, ignore_errors=True)


def write_record(folder: Path, spec: ModelSpec, source_sha256: str) -> None:
    """Write ``model.json`` beside the graph and the tokenizer in ``folder``."""
    names = (registry.GRAPH_FILE, registry.TOKENIZER_FILE)
    files = {
        name: registry.FilePin(sha256=registry.sha256_of(folder / name), size_bytes=(folder / name).stat().st_size)
        for name in names
    }
    record = registry.InstallRecord(
        model_id=spec.model_id,
        graph_version=spec.graph_version,
        source_sha256=source_sha256,
        files=files,
        spec=spec if spec.is_added else None,
    )
    encoded = msgspec.json.format(msgspec.json.encode(record), indent=2)
    (folder / registry.RECORD_FILE).write_bytes(encoded + b"\n")


def put_in_place(folder: Path, target: Path) -> Path:
    """Flush and rename; a broken or outdated model under the name moves aside first and is removed after."""
    folder.chmod(0o755)  # mkdtemp makes it private; models may be shared between users
    for path in folder.iterdir():
        _flush(path)
    _flush(folder)
    replaced = None
    if target.exists():
        replaced = target.with_name(f"{REPLACED}{folder.name.removeprefix(_TEMPORARY)}")
        target.rename(replaced)
    folder.rename(target)
    _flush(target.parent)
    if replaced is not None:
        shutil.rmtree(replaced, ignore_errors=True)
    return target


def _flush(path: Path) -> None:
    """Write a file's content, or a folder's entries, to the disk; Windows cannot flush folders and needs not."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
