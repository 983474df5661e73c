"""Reads a folder that holds somebody's model, and says exactly what is wrong with it where something is.

It is laid out as its authors publish it: Hugging Face's ``config.json`` and ``tokenizer.json``, ``model.safetensors``
or ``model.onnx``, and beside them what sentence-transformers writes about pooling, prompts and the longest text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from palace_daemon.embed.registry import GRAPH_FILE, TOKENIZER_FILE, Precision
from palace_daemon.embed.shape import CONFIG_FILE, SUPPORTED, BertShape, Pooling, read_shape
from palace_daemon.embed.tokens import open_tokenizer
from palace_daemon.errors import ModelError

WEIGHTS_FILE = "model.safetensors"
READY_FILES = (GRAPH_FILE, "onnx/model.onnx")
POOLING_FILE = "1_Pooling/config.json"
PROMPTS_FILE = "config_sentence_transformers.json"
LENGTH_FILE = "sentence_bert_config.json"
MODULES_FILE = "modules.json"
_TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
_QUERY_PROMPTS = ("query", "search_query")
_PASSAGE_PROMPTS = ("passage", "document", "search_document")
"""What authors call their prompts, in the order in which they are looked for."""
_MODULES = {"Transformer", "Pooling", "Normalize"}
_POOLINGS: dict[str, Pooling] = {
    "mean": "mean",
    "cls": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
}
"""What sentence-transformers writes: one name, before that a flag for each way."""
_TOKENS_MAX = 65_536
"""Authors who set no longest text leave an enormous number; above this it counts as not said."""
_TEXT_TOKENS_MIN = 16
"""What a prefix must leave of the cap for the text itself."""


class Wishes(Struct, frozen=True, kw_only=True):
    """What a person says about a model; None and 0 leave it to the folder."""

    name: str = ""
    precision: Precision | None = None
    pooling: Pooling | None = None
    query_prefix: str | None = None
    passage_prefix: str | None = None
    max_tokens: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether nothing is said that makes it a model of its own."""
        return self == Wishes(precision=self.precision)


class FolderModel(Struct, frozen=True, kw_only=True):
    """A model in a folder, as it is to be run."""

    file: Path
    """The weights, or the ready graph."""
    precision: Precision
    shape: BertShape | None
    """None for a ready graph."""
    pooling: Pooling | None
    """None where nothing says it: a ready graph may pool by itself."""
    max_tokens: int
    query_prefix: str
    passage_prefix: str
    tokenizer: str
    """The content of ``tokenizer.json``."""


def read_folder(folder: Path, wishes: Wishes) -> FolderModel:
    """Return the model in ``folder``.

    Raises:
        ModelError: A file is missing or unreadable, or the model is of a kind that cannot be run.
    """
    if not folder.is_dir():
        raise ModelError(f"{folder} is no folder", hint="name the folder that holds the model's files")
    file, precision = _choose_file(folder, wishes.precision)
    _check_modules(folder)
    pooling = wishes.pooling or _pooling(folder)
    shape = None
    if precision != "onnx":
        if pooling is None:
            raise ModelError(
                f"{folder} has no {POOLING_FILE}, so nothing says how the model pools",
                hint="say --pooling mean or --pooling cls, as its model card does",
            )
        shape = read_shape(folder / CONFIG_FILE, pooling)
    prompts = _prompts(folder)
    found = FolderModel(
        file=file,
        precision=precision,
        shape=shape,
        pooling=pooling,
        max_tokens=_cap(folder, shape, wishes.max_tokens),
        query_prefix=_first(wishes.query_prefix, prompts, _QUERY_PROMPTS),
        passage_prefix=_first(wishes.passage_prefix, prompts, _PASSAGE_PROMPTS),
        tokenizer=_read_text(folder / TOKENIZER_FILE),
    )
    _check_prompts(found, folder / POOLING_FILE)
    _check_tokenizer(found, folder / TOKENIZER_FILE)
    return found


# ------------------------------------------------------------------------------------------------------------- files


def _choose_file(folder: Path, precision: Precision | None) -> tuple[Path, Precision]:
    """Return the weights, from which int8 and fp32 are built, or the ready graph."""
    weights = folder / WEIGHTS_FILE
    ready = next((folder / name for name in READY_FILES if (folder / name).is_file()), None)
    if precision != "onnx" and weights.is_file():
        return weights, precision or "int8"
    if precision in {None, "onnx"} and ready is not None:
        return ready, "onnx"
    if precision == "onnx":
        raise ModelError(f"{folder} has no {GRAPH_FILE}", hint="leave --precision away to build from the weights")
    if ready is not None:
        raise ModelError(
            f"{folder} has no {WEIGHTS_FILE}, from which {precision} is built",
            hint=f"leave --precision away: its {ready.name} is then run as it is",
        )
    pickled = (folder / "pytorch_model.bin").is_file()
    raise ModelError(
        f"{folder} has neither {WEIGHTS_FILE} nor {GRAPH_FILE}",
        hint=f"pytorch_model.bin is not read, since it may run code: convert it to {WEIGHTS_FILE}"
        if pickled
        else f"the folder must hold {CONFIG_FILE}, {TOKENIZER_FILE}, and {WEIGHTS_FILE} or {GRAPH_FILE}",
    )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ModelError(f"{path.parent} has no {path.name}", hint="it comes with the model; fetch it too") from None
    except (OSError, UnicodeDecodeError) as exc:
        raise ModelError(f"cannot read {path}: {exc}") from exc


def _json(path: Path) -> dict[str, Any]:
    """Return the object in a file that need not be there."""
    if not path.is_file():
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError, RecursionError) as exc:
        raise ModelError(f"cannot read {path}: {exc}", hint="remove it, or fetch it again") from exc


# ----------------------------------------------------------------------------------------------- what is said beside


def _check_modules(folder: Path) -> None:
    """Refuse what is computed after the encoder and is more than pooling and the division by the length."""
    path = folder / MODULES_FILE
    if not path.is_file():
        return
    try:
        modules = msgspec.json.decode(path.read_bytes(), type=list[dict[str, Any]])
    except (OSError, msgspec.DecodeError, RecursionError) as exc:
        raise ModelError(f"cannot read {path}: {exc}", hint="remove it, or fetch it again") from exc
    names = [str(module.get("type", "")).rsplit(".", 1)[-1] for module in modules]
    if others := [name for name in names if name not in _MODULES]:
        raise ModelError(f"{path} has a module {others[0]}", hint=SUPPORTED)


def _pooling(folder: Path) -> Pooling | None:
    """Return what ``1_Pooling/config.json`` says; None where there is none."""
    path = folder / POOLING_FILE
    said = _json(path)
    named = said.get("pooling_mode")
    if named is None:
        named = [name for name, is_on in said.items() if name.startswith("pooling_mode_") and is_on is True]
    modes = [str(name) for name in (named if isinstance(named, list) else [named])]
    if not modes:
        return None
    if len(modes) > 1 or modes[0] not in _POOLINGS:
        raise ModelError(f"{path} asks for {' and '.join(modes)}", hint=SUPPORTED)
    return _POOLINGS[modes[0]]


def _prompts(folder: Path) -> dict[str, str]:
    found = _json(folder / PROMPTS_FILE).get("prompts")
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}


def _check_prompts(model: FolderModel, path: Path) -> None:
    """Refuse a mean over the text without its prefix, which some instructed models take."""
    has_prefix = bool(model.query_prefix or model.passage_prefix)
    if has_prefix and model.pooling != "cls" and _json(path).get("include_prompt") is False:
        raise ModelError(
            f"{path} leaves prefixes out of the mean, which is not supported",
            hint="without prefixes (--query-prefix '' --passage-prefix '') it can be run",
        )


def _first(wished: str | None, prompts: dict[str, str], names: tuple[str, ...]) -> str:
    if wished is not None:
        return wished
    return next((prompts[name] for name in names if name in prompts), "")


def _cap(folder: Path, shape: BertShape | None, wished: int) -> int:
    """Return the most tokens of a text: as wished, else as its authors set it, else as many as there are positions."""
    positions = shape.positions if shape else 0
    if wished:
        if positions and wished > positions:
            raise ModelError(f"--max-tokens is {wished}, but the model has {positions} positions")
        if wished > _TOKENS_MAX:
            raise ModelError(f"--max-tokens is {wished}, more than {_TOKENS_MAX}")
        return wished
    stated = (
        _json(folder / LENGTH_FILE).get("max_seq_length"),
        _json(folder / CONFIG_FILE).get("max_position_embeddings"),
        _json(folder / _TOKENIZER_CONFIG_FILE).get("model_max_length"),
    )
    found = next((number for number in stated if isinstance(number, int) and 0 < number <= _TOKENS_MAX), 0)
    if not found:
        raise ModelError(f"nothing in {folder} says how many tokens the model takes", hint="say it with --max-tokens N")
    return min(found, positions) if positions else found


# --------------------------------------------------------------------------------------------------------- tokenizer


def _check_tokenizer(model: FolderModel, path: Path) -> None:
    """Make sure that it belongs to the model, and that the prefixes leave room."""
    tokenizer = open_tokenizer(model.tokenizer)
    special = tokenizer.encode("").ids
    around = tokenizer.encode("a").ids
    if len(special) != 2 or len(around) < 3 or [around[0], around[-1]] != special:
        raise ModelError(
            f"{path} puts {len(special)} special tokens around a text, expected one before and one after it",
            hint="is its post_processor missing, or another model's?",
        )
    size = max(*special, *tokenizer.get_vocab(with_added_tokens=True).values()) + 1
    if model.shape is not None and size > model.shape.vocabulary:
        raise ModelError(
            f"{path} numbers {size} tokens, but the model has {model.shape.vocabulary}",
            hint="is it the tokenizer of another model?",
        )
    length_file = path.parent / LENGTH_FILE
    if _json(length_file).get("do_lower_case") is True and tokenizer.encode("A").ids != around:
        raise ModelError(
            f"{length_file} has texts made lower-case, which {path.name} does not",
            hint="give it a normalizer that does, as transformers writes it for a lower-casing tokenizer",
        )
    for name, prefix in (("query", model.query_prefix), ("passage", model.passage_prefix)):
        used = len(tokenizer.encode(prefix).ids)
        if used + _TEXT_TOKENS_MIN > model.max_tokens:
            raise ModelError(
                f"the {name} prefix {prefix!r} and the special tokens take {used} of {model.max_tokens} tokens",
                hint="shorten the prefix, or say --max-tokens",
            )
