"""What sets one BERT apart from another: sizes, pooling, and the constant of its LayerNorms."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from palace_daemon.errors import ModelError

Pooling = Literal["mean", "cls"]
"""How a text's vector comes from the last layer: the mean over all tokens, or the first token's."""

CONFIG_FILE = "config.json"
_FILE_HINT = "it must be the Hugging Face config.json of the model"
SUPPORTED = "supported is model_type bert: absolute positions, gelu, one vector by mean or CLS pooling"
_JUDGES = ("Classification", "QuestionAnswering", "MultipleChoice")
"""How the names of models end that were trained to judge texts: rerankers above all."""


class BertShape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that the graph builders must know besides the weights."""

    layers: int
    hidden: int
    heads: int
    intermediate: int
    """Width of the feed-forward part."""
    positions: int
    """Rows of the position table: no text can have more tokens."""
    vocabulary: int
    layer_norm_epsilon: float = 1e-12
    pooling: Pooling = "mean"
    activation: Literal["gelu"] = "gelu"


class _Config(Struct, frozen=True, kw_only=True):
    """The parts of a Hugging Face ``config.json`` that matter here."""

    model_type: str
    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    vocab_size: int
    layer_norm_eps: float = 1e-12
    hidden_act: str = "gelu"
    position_embedding_type: str = "absolute"
    is_decoder: bool = False
    architectures: tuple[str, ...] | None = None


def read_shape(path: Path, pooling: Pooling = "mean") -> BertShape:
    """Return the shape that a Hugging Face ``config.json`` describes.

    Raises:
        ModelError: The file cannot be read, or describes something that the graphs cannot compute.
    """
    try:
        fields: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError, RecursionError) as exc:
        raise ModelError(f"cannot read {path}: {exc}", hint=_FILE_HINT) from exc
    kind = fields.get("model_type")
    if kind != "bert":
        raise ModelError(f"{path} describes a model of type {kind!r}", hint=SUPPORTED)
    try:
        config = msgspec.convert(fields, _Config)
    except msgspec.ValidationError as exc:
        raise ModelError(f"{path} is incomplete: {exc}", hint=_FILE_HINT) from exc
    _check(config, path)
    return BertShape(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        intermediate=config.intermediate_size,
        positions=config.max_position_embeddings,
        vocabulary=config.vocab_size,
        layer_norm_epsilon=config.layer_norm_eps,
        pooling=pooling,
    )


def _check(config: _Config, path: Path) -> None:
    """Refuse what would be computed wrongly rather than fail."""
    sizes = (
        *("num_hidden_layers", "hidden_size", "num_attention_heads"),
        *("intermediate_size", "max_position_embeddings", "vocab_size"),
    )
    for name in sizes:
        if getattr(config, name) < 1:
            raise ModelError(f"{path}: {name} is {getattr(config, name)}", hint=SUPPORTED)
    if config.hidden_act != "gelu":
        raise ModelError(f"{path}: the activation {config.hidden_act!r} is not supported", hint=SUPPORTED)
    if config.position_embedding_type != "absolute":
        raise ModelError(f"{path}: {config.position_embedding_type!r} positions are not supported", hint=SUPPORTED)
    if judges := [name for name in config.architectures or () if name.endswith(_JUDGES)]:
        raise ModelError(f"{path} describes a {judges[0]}, which gives marks, not vectors", hint=SUPPORTED)
    if config.is_decoder:
        raise ModelError(f"{path} describes a decoder", hint=SUPPORTED)
    if config.hidden_size % config.num_attention_heads:
        heads = f"{config.num_attention_heads} heads do not divide a hidden size of {config.hidden_size}"
        raise ModelError(f"{path}: {heads}", hint=SUPPORTED)
