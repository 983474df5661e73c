"""Installs a model from a folder that the manifest does not know, and finds out which of the two a folder holds.

What the manifest keeps for its own model is made here at the time: golden vectors and channel ranges, by the float64
pass of :mod:`.reference` over the same packaged golden texts. A graph that does not agree with them is refused. Nothing
independent exists for a ready graph; what is checked of it instead is told wherever the model is listed.
"""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from palace_daemon.embed import install as originals
from palace_daemon.embed import placement, reference, registry
from palace_daemon.embed.folder import FolderModel, Wishes, read_folder
from palace_daemon.embed.placement import Steps
from palace_daemon.embed.registry import ModelSpec, Precision
from palace_daemon.embed.tokens import open_tokenizer
from palace_daemon.embed.windows import split
from palace_daemon.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable

    from palace_daemon.core.ports import StopSignal
    from palace_daemon.embed.minilm import OnnxEmbedder
    from palace_daemon.model import Progress


class Bounds(NamedTuple):
    """How far vectors may lie from the golden ones."""

    cosine_mean_min: float
    cosine_min: float
    difference_max: float


BOUNDS: dict[Precision, Bounds] = {
    "int8": Bounds(0.995, 0.98, 0.2),
    "fp32": Bounds(0.99999999, 0.99999999, 1e-5),
    "onnx": Bounds(0.0, 0.0, 0.0),
}
"""fp32 as for the manifest's models. int8 is wider than the default model's 0.997 and 0.985, since its balance was
picked on that model. A ready graph has no golden vectors."""
_ALIKE = 0.9999
"""No two of the golden texts may be as near as this: a graph that gives one vector for everything is none."""
_SAME = 0.99999
"""Least cosine between a text's vectors alone and among others."""


def install_from(
    folder: Path,
    models_dir: Path,
    *,
    model_id: str = "",
    wishes: Wishes | None = None,
    default_id: str = registry.DEFAULT_MODEL,
    on_progress: Callable[[Progress], None] | None = None,
    stop: StopSignal | None = None,
) -> tuple[str, Path]:
    """Install what ``folder`` holds; return its id and where it is.

    The original all-MiniLM-L6-v2 becomes the model of the manifest, unless ``wishes`` make it one of its own.

    Args:
        folder: Holds the model's files.
        models_dir: Made if it does not exist.
        model_id: As it is to be called, precision included; made from ``wishes`` and the folder's name if empty.
        wishes: What the folder does not say, or says otherwise.
        default_id: The model of the manifest that is meant where the folder holds the original and no id is given.
        on_progress: See :func:`palace_daemon.embed.install.install`.
        stop: Ends the work between steps.

    Raises:
        CancelledError: ``stop`` was set.
        ModelError: The name is taken, a file is missing or wrong, the model is of a kind that cannot be run, or its
            graph fails its checks.
    """
    wishes = wishes or Wishes()
    known = _of_manifest(folder, model_id, wishes, default_id)
    if known is not None:
        return known, originals.install(known, models_dir, source=folder, on_progress=on_progress, stop=stop)
    if model_id:
        wishes = _named(model_id, wishes)
    return add(folder, models_dir, wishes, on_progress=on_progress, stop=stop)


def add(
    folder: Path,
    models_dir: Path,
    wishes: Wishes,
    *,
    expected: str = "",
    on_progress: Callable[[Progress], None] | None = None,
    stop: StopSignal | None = None,
) -> tuple[str, Path]:
    """Install the model in ``folder`` as one of its own; return its id and where it is. See :func:`install_from`.

    Args:
        folder: Holds the model's files.
        models_dir: Made if it does not exist.
        wishes: What the folder does not say, or says otherwise.
        expected: The identity that it must have; any if empty.
        on_progress: See :func:`palace_daemon.embed.install.install`.
        stop: Ends the work between steps.
    """
    model = read_folder(folder, wishes)
    name = wishes.name or _name_of(folder)
    model_id = f"{name}-{model.precision}"
    _check_name(model_id, name)
    steps = Steps(on_progress, stop)
    with placement.alone(models_dir, stop):
        steps.tell("models read", 0, 1)
        source_sha256 = _source_sha256(model)
        identity = _identity(model, source_sha256)
        if expected not in {"", identity}:
            raise ModelError(
                f"{folder} holds other files than {model_id} was built from",
                hint=f"name the folder that is meant: `palace-daemon model install {model_id} --from DIR`",
            )
        if (found := _installed(model_id, identity, models_dir)) is not None:
            return model_id, found
        with placement.building(models_dir) as building:
            (building / registry.TOKENIZER_FILE).write_text(model.tokenizer, encoding="utf-8")
            make = _build_ready if model.precision == "onnx" else _build_from_weights
            spec = make(model, building, _spec(model, model_id, identity, folder), steps)
            placement.write_record(building, spec, source_sha256)
            steps.tell("models placed", 0, 1)
            return model_id, placement.put_in_place(building, models_dir / model_id)


def again(
    spec: ModelSpec,
    models_dir: Path,
    *,
    source: Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    stop: StopSignal | None = None,
) -> Path:
    """Return the folder of an added model, after building it once more if it is not whole.

    Args:
        spec: What is known of it.
        models_dir: Holds the models.
        source: Where its files are now; where they came from if None.
        on_progress: See :func:`palace_daemon.embed.install.install`.
        stop: Ends the work between steps.

    Raises:
        CancelledError: ``stop`` was set.
        ModelError: See :func:`install_from`.
    """
    if source is None and (found := placement.whole(spec.model_id, models_dir)) is not None:
        return found
    wishes = Wishes(
        name=spec.model_id.removesuffix(f"-{spec.precision}"),
        precision=spec.precision,
        pooling=None if spec.pooling == "graph" else spec.pooling,
        query_prefix=spec.query_prefix,
        passage_prefix=spec.passage_prefix,
        max_tokens=spec.max_tokens,
    )
    expected = "" if source else spec.identity
    folder = source or Path(spec.source)
    return add(folder, models_dir, wishes, expected=expected, on_progress=on_progress, stop=stop)[1]


# ------------------------------------------------------------------------------------------------------ names and ids


def _of_manifest(folder: Path, model_id: str, wishes: Wishes, default_id: str) -> str | None:
    """Return the id of the manifest's model that is meant, if one is."""
    if registry.of_manifest(model_id) is not None:
        if not wishes.is_plain or wishes.precision not in {None, registry.spec(model_id).precision}:
            raise ModelError(f"{model_id} is built in one way", hint="give a model of your own another name")
        return model_id
    if model_id or not wishes.is_plain or wishes.precision == "onnx" or not _holds_original(folder):
        return None
    if wishes.precision is not None:
        return next(known.model_id for known in registry.manifest().models if known.precision == wishes.precision)
    return default_id if registry.of_manifest(default_id) else registry.DEFAULT_MODEL


def _holds_original(folder: Path) -> bool:
    pin = registry.manifest().source.files[originals.WEIGHTS_FILE]
    path = folder / originals.WEIGHTS_FILE
    try:
        return path.stat().st_size == pin.size_bytes and registry.sha256_of(path) == pin.sha256
    except OSError:
        return False


def _named(model_id: str, wishes: Wishes) -> Wishes:
    """Take name and, where it ends in one, precision from an id."""
    name, precision = model_id, wishes.precision
    for known in registry.PRECISIONS:
        if model_id.endswith(f"-{known}"):
            name, precision = model_id.removesuffix(f"-{known}"), known
    if wishes.name not in {"", name} or wishes.precision not in {None, precision}:
        raise ModelError(f"the id {model_id!r} says another name or precision than the options", hint="say it once")
    return msgspec.structs.replace(wishes, name=name, precision=precision)


def _name_of(folder: Path) -> str:
    """Return a name made from that of the folder; may still be none that is allowed."""
    return re.sub(r"[^a-z0-9._-]+", "-", folder.resolve().name.lower()).strip("-._")


def _check_name(model_id: str, name: str) -> None:
    if not registry.NAME.fullmatch(model_id) or not name:
        raise ModelError(
            f"{name!r} is no name for a model",
            hint="give one with --name: up to 50 small letters, digits, dots, dashes and underscores",
        )
    if registry.of_manifest(model_id) is not None:
        raise ModelError(f"{model_id} is a model that Palace brings itself", hint="give another name with --name")


def _source_sha256(model: FolderModel) -> str:
    """Return the hash of the weights or graph; with that of the files beside a graph, where it leaves tensors there."""
    digest = registry.sha256_of(model.file)
    if model.precision != "onnx":
        return digest
    from palace_daemon.embed import ready  # noqa: PLC0415 - it needs onnx

    beside = [registry.sha256_of(file) for file in ready.data_files(model.file)]
    return hashlib.sha256("\n".join([digest, *beside]).encode()).hexdigest() if beside else digest


def _identity(model: FolderModel, source_sha256: str) -> str:
    """Return the hash over all that makes the vectors, beside the builders' version."""
    said = {
        "source": source_sha256,
        "tokenizer": hashlib.sha256(model.tokenizer.encode()).hexdigest(),
        "shape": msgspec.to_builtins(model.shape),
        "pooling": model.pooling,
        "maxTokens": model.max_tokens,
        "prefixes": [model.query_prefix, model.passage_prefix],
    }
    return hashlib.sha256(msgspec.json.encode(said, order="deterministic")).hexdigest()


def _installed(model_id: str, identity: str, models_dir: Path) -> Path | None:
    """Return where the very same model is installed already."""
    folder = placement.whole(model_id, models_dir)
    return folder if folder is not None and registry.spec(model_id, models_dir).identity == identity else None


def _spec(model: FolderModel, model_id: str, identity: str, folder: Path) -> ModelSpec:
    bounds = BOUNDS[model.precision]
    return ModelSpec(
        model_id=model_id,
        precision=model.precision,
        graph_version=registry.builder_version(model.precision),
        dim=model.shape.hidden if model.shape else 0,
        max_tokens=model.max_tokens,
        pooling=model.pooling or "graph",
        note="",
        query_prefix=model.query_prefix,
        passage_prefix=model.passage_prefix,
        source=str(folder.resolve()),
        identity=identity,
        **bounds._asdict(),
    )


# ------------------------------------------------------------------------------------------------ building, checking


def _golden_pieces(model: FolderModel) -> list[str]:
    """Return the golden texts, in pieces where they are longer than the model can read."""
    tokenizer = open_tokenizer(model.tokenizer)
    return [
        piece
        for text in originals.golden_texts()
        for piece in split(tokenizer, text, model.max_tokens, model.passage_prefix)
    ]


def _build_from_weights(model: FolderModel, building: Path, spec: ModelSpec, steps: Steps) -> ModelSpec:
    """Build the graph, check it against the reference, and return the spec with what was found."""
    from palace_daemon.embed import graph_fp32, graph_int8  # noqa: PLC0415 - they need onnx only here
    from palace_daemon.embed.weights import read_weights  # noqa: PLC0415

    if model.shape is None:
        raise ModelError(f"{model.file} holds no weights")
    weights = read_weights(model.file, model.shape)
    pieces = _golden_pieces(model)
    tokenizer = open_tokenizer(model.tokenizer)
    ids = [tokenizer.encode(model.passage_prefix + piece).ids for piece in pieces]
    found = reference.observe(weights.tensors, model.shape, ids, functools.partial(steps.tell, "layers measured"))
    if not np.isfinite(found.vectors).all():
        raise ModelError(f"{model.file} gives vectors that are not finite", hint="are its weights damaged?")
    steps.tell("graphs built", 0, 1)
    graph = graph_int8.build(weights, found.ranges) if model.precision == "int8" else graph_fp32.build(weights)
    (building / registry.GRAPH_FILE).write_bytes(graph)
    steps.tell("graphs built", 1, 1)
    agreement = originals.check_vectors(building, spec, pieces, found.vectors, steps)
    note = (
        f"added from {spec.source}; {_described(spec)}; cosine to a float64 reference on the golden texts: "
        f"mean {agreement.mean:.5f}, least {agreement.least:.5f}"
    )
    return msgspec.structs.replace(spec, note=note)


def _build_ready(model: FolderModel, building: Path, spec: ModelSpec, steps: Steps) -> ModelSpec:
    """Wrap the graph, check what can be checked without a reference, and return the spec with what was found."""
    from palace_daemon.embed import ready  # noqa: PLC0415 - it needs onnx

    steps.tell("graphs built", 0, 1)
    wrapped = ready.wrap(model.file, model.pooling)
    (building / registry.GRAPH_FILE).write_bytes(wrapped.graph)
    steps.tell("graphs built", 1, 1)
    spec = msgspec.structs.replace(spec, pooling=wrapped.pooling)
    dim = _check_ready(building, spec, model, steps)
    note = (
        f"added from {spec.source}; {_described(spec)}; a ready graph, run as it came: there is no reference to check "
        "it against. Checked were: finite, repeatable, the same alone and among others, as long texts as stated, "
        "other vectors for other texts"
    )
    return msgspec.structs.replace(spec, dim=dim, note=note)


def _check_ready(building: Path, spec: ModelSpec, model: FolderModel, steps: Steps) -> int:
    """Return the width of the vectors."""
    from palace_daemon.embed.minilm import open_folder  # noqa: PLC0415 - installing elsewhere needs no runtime

    pieces = _golden_pieces(model)
    steps.tell("texts checked", 0, len(pieces))
    embedder = open_folder(spec, building, threads=1)
    try:
        embedder.dim = len(embedder.embed_query(pieces[0]))
        _check_longest(embedder, model, steps)
        together = embedder.embed_passages(pieces, steps.stop)
        alone = np.empty_like(together)
        for done, row in enumerate(reversed(range(len(pieces)))):
            steps.tell("texts checked", done, len(pieces))
            alone[row] = embedder.embed_passages([pieces[row]])[0]
    finally:
        embedder.close()
    steps.tell("texts checked", len(pieces), len(pieces))
    if (same := float((together * alone).sum(1).min())) < _SAME:
        raise ModelError(f"the graph is not repeatable: cosine {same:.6f} between two calls with one text")
    distinct = np.array([[left != right for right in pieces] for left in pieces])
    if (between := float((together @ together.T)[distinct].max())) > _ALIKE:
        raise ModelError(
            f"the graph gives nearly one vector for different texts (cosine {between:.6f})",
            hint="does it pool otherwise than --pooling says, or is it no embedding model?",
        )
    return embedder.dim


def _check_longest(embedder: OnnxEmbedder, model: FolderModel, steps: Steps) -> None:
    """Make sure that the graph takes a text of as many tokens as were stated."""
    tokens = open_tokenizer(model.tokenizer).encode(model.passage_prefix).ids
    try:
        embedder.embed_passages(["a " * (model.max_tokens - len(tokens))], steps.stop)
    except ModelError as exc:
        raise ModelError(
            f"the graph does not take a text of {model.max_tokens} tokens: {exc}", hint="say less with --max-tokens"
        ) from exc


def _described(spec: ModelSpec) -> str:
    """Say how texts become vectors."""
    pooled = {"mean": "mean pooling", "cls": "CLS pooling", "graph": "pooled by the graph"}[spec.pooling]
    prefixes = [
        f"{name} prefix {prefix!r}"
        for name, prefix in (("query", spec.query_prefix), ("passage", spec.passage_prefix))
        if prefix
    ]
    return ", ".join([pooled, *prefixes])
