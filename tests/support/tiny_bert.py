"""Writes small models with random weights into folders, laid out as their authors publish them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from palace_daemon.embed.shape import BertShape
from palace_daemon.embed.weights import expected_shapes

Tensors = dict[str, NDArray[np.float32]]

SHAPE = BertShape(layers=2, hidden=32, heads=4, intermediate=48, positions=64, vocabulary=151)
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_WORDS = ("the", "query", "passage", "daemon", "store", "model", "is", "of", "and", ":", ".", ",", "(", ")", "-", "_")


def config_of(shape: BertShape) -> dict[str, Any]:
    """Return the ``config.json`` of a shape."""
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "num_hidden_layers": shape.layers,
        "hidden_size": shape.hidden,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.intermediate,
        "max_position_embeddings": shape.positions,
        "vocab_size": shape.vocabulary,
        "layer_norm_eps": shape.layer_norm_epsilon,
        "hidden_act": "gelu",
        "type_vocab_size": 2,
    }


def random_tensors(shape: BertShape, seed: int = 7) -> Tensors:
    """Return weights that give different texts different vectors: as wide as training leaves them, not as it begins."""
    random = np.random.default_rng(seed)
    tensors: Tensors = {}
    for name, dims in expected_shapes(shape):
        size = [2 if dim < 0 else dim for dim in dims]
        if "LayerNorm.weight" in name:
            values = 1 + 0.1 * random.standard_normal(size)
        elif len(size) == 1:
            values = 0.1 * random.standard_normal(size)
        else:
            values = random.standard_normal(size) / (1 if "embeddings" in name else np.sqrt(size[1]))
        tensors[name] = values.astype(np.float32)
    return tensors


def tokenizer_json(vocabulary: int = SHAPE.vocabulary) -> str:
    """Return a WordPiece tokenizer that knows letters, digits and a few words; truncating and padding, as many do."""
    named = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_WORDS, *_LETTERS, *(f"##{one}" for one in _LETTERS)]
    tokens = [*named, *(f"[unused{number}]" for number in range(vocabulary - len(named)))]
    tokenizer = Tokenizer(models.WordPiece({token: at for at, token in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(16)
    tokenizer.enable_padding(length=16)
    return str(tokenizer.to_str())


def write_json(folder: Path, name: str, content: object) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def write_model(
    folder: Path,
    shape: BertShape = SHAPE,
    *,
    tensors: Mapping[str, NDArray[Any]] | None = None,
    pooling: str | None = "mean",
    **files: object,
) -> Path:
    """Write a whole model and return its folder.

    Args:
        folder: Made if it does not exist.
        shape: Of the model.
        tensors: Its weights; random ones if None.
        pooling: What ``1_Pooling/config.json`` says; no such file if None.
        files: Contents of further JSON files, by name without suffix.
    """
    folder.mkdir(exist_ok=True)
    write_json(folder, "config.json", config_of(shape))
    (folder / "tokenizer.json").write_text(tokenizer_json(shape.vocabulary), encoding="utf-8")
    save_file(dict(random_tensors(shape) if tensors is None else tensors), folder / "model.safetensors")
    if pooling is not None:
        modes = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
        write_json(folder, "1_Pooling/config.json", {key: name == pooling for name, key in modes.items()})
    for name, content in files.items():
        write_json(folder, f"{name}.json", content)
    return folder
