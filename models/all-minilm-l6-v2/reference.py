# ruff: noqa: INP001 - a script beside its data, in a folder named after the model
"""Compute all-MiniLM-L6-v2 in float64 with numpy alone, as the BERT paper describes it.

This script is the judge of the ONNX graphs, so it shares no code with them: no ONNX, no operator fusion, no masks (one
text at a time needs none). From the original weights and the texts in ``golden_texts.json`` it writes

* ``golden_vectors.npy``: float64 ``[20, 384]``, the L2-normalised mean of the last layer, one row a text;
* ``int8_ranges.npy``: float32 ``[18, 2, 384]``, middle and half-width of what each channel takes on over all tokens of
  those texts, at the inputs of the matrix products; the int8 graph centres and scales its channels by them. Rows: the
  6 layers' inputs, the 6 layers' attention contexts, the 6 layers' feed-forward inputs.

Run it as ``python reference.py WEIGHTS_DIR`` to compare with the files, ``--write`` to replace them.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

HERE = Path(__file__).parent
LAYERS = 6
HEADS = 12
LAYER_NORM_EPSILON = 1e-12
"""From the model's own ``config.json``."""
RANGE_PERCENTILES = (0.2, 99.8)
"""What counts as a channel's range: a few outliers among 2,473 tokens shall not widen it."""

_ERF = np.vectorize(math.erf, otypes=[np.float64])


def layer_norm(x: Float64, gain: Float64, bias: Float64) -> Float64:
    """Normalise each row to mean 0 and variance 1, then scale and shift its channels."""
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    normal: Float64 = centred / np.sqrt(variance + LAYER_NORM_EPSILON)
    return normal * gain + bias


def gelu(x: Float64) -> Float64:
    """Multiply by the Gaussian distribution function, the exact form with erf."""
    below: Float64 = 0.5 * (1.0 + _ERF(x / math.sqrt(2.0)))
    return x * below


def softmax(x: Float64) -> Float64:
    """Return each row's exponentials divided by their sum."""
    e: Float64 = np.exp(x - x.max(-1, keepdims=True))
    total: Float64 = e.sum(-1, keepdims=True)
    return e / total


class Reference:
    """The encoder, one text at a time."""

    def __init__(self, weights: dict[str, Float64]) -> None:
        self._weights = weights

    def _linear(self, x: Float64, name: str) -> Float64:
        return x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _norm(self, x: Float64, name: str) -> Float64:
        return layer_norm(x, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _attend(self, x: Float64, layer: str) -> Float64:
        """Return the context ``[tokens, 384]`` of scaled dot-product attention over 12 heads."""
        q, k, v = (
            self._linear(x, f"{layer}.attention.self.{part}").reshape(len(x), HEADS, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        weights = softmax(q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1]))
        return (weights @ v).transpose(1, 0, 2).reshape(len(x), -1)

    def encode(self, ids: list[int], seen: dict[tuple[int, str], list[Float64]] | None = None) -> Float64:
        """Return the unit vector of a text given as token ids, special tokens included.

        Args:
            ids: Token ids, at most 512.
            seen: Collects the inputs of the matrix products by layer and place.
        """
        table = "embeddings.{}_embeddings.weight".format
        x = self._weights[table("word")][ids]
        x = x + self._weights[table("position")][: len(ids)] + self._weights[table("token_type")][0]
        x = self._norm(x, "embeddings.LayerNorm")
        for index in range(LAYERS):
            layer = f"encoder.layer.{index}"
            context = self._attend(x, layer)
            hidden = self._norm(
                x + self._linear(context, f"{layer}.attention.output.dense"), f"{layer}.attention.output.LayerNorm"
            )
            if seen is not None:
                for place, values in (("input", x), ("context", context), ("hidden", hidden)):
                    seen.setdefault((index, place), []).append(values)
            inner = gelu(self._linear(hidden, f"{layer}.intermediate.dense"))
            x = self._norm(hidden + self._linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
        pooled = x.mean(0)
        return np.asarray(pooled / np.linalg.norm(pooled), np.float64)


def channel_ranges(seen: dict[tuple[int, str], list[Float64]]) -> NDArray[np.float32]:
    """Return middle and half-width of each channel, float32 ``[18, 2, 384]``."""
    rows = []
    for place in ("input", "context", "hidden"):
        for index in range(LAYERS):
            low, high = np.percentile(np.concatenate(seen[index, place]), RANGE_PERCENTILES, axis=0)
            rows.append([(high + low) / 2, (high - low) / 2])
    return np.array(rows, np.float32)


def main() -> None:
    """Compare with the stored files, or write them."""
    from safetensors.numpy import load_file  # noqa: PLC0415 - the functions above need numpy only
    from tokenizers import Tokenizer  # noqa: PLC0415

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path, help="a folder that holds model.safetensors")
    parser.add_argument("--write", action="store_true", help="replace the stored files")
    options = parser.parse_args()

    tokenizer: Any = Tokenizer.from_file(str(HERE / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    texts = [entry["text"] for entry in json.loads((HERE / "golden_texts.json").read_text(encoding="utf-8"))]
    loaded = load_file(options.weights / "model.safetensors")
    reference = Reference({name: value.astype(np.float64) for name, value in loaded.items()})
    seen: dict[tuple[int, str], list[Float64]] = {}
    vectors = np.array([reference.encode(tokenizer.encode(text).ids, seen) for text in texts])
    for name, values in (("golden_vectors.npy", vectors), ("int8_ranges.npy", channel_ranges(seen))):
        if options.write:
            np.save(HERE / name, values, allow_pickle=False)
        stored = np.load(HERE / name, allow_pickle=False)
        print(f"{name}: {values.shape}, largest difference {np.abs(stored - values).max():.1e}")  # noqa: T201


if __name__ == "__main__":
    main()
