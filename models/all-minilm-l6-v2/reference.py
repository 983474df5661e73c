# ruff: noqa: INP001 - a script beside its data, in a folder named after the model
"""Makes, or checks, the golden vectors and channel ranges of all-MiniLM-L6-v2.

The computation is :mod:`palace_daemon.embed.reference`, a float64 numpy forward pass that shares no code with the ONNX
graphs; installing a model from a folder runs the same one. Here the weights are read by the ``safetensors`` package,
not by Palace. From them and the texts in ``golden_texts.json`` it gives

* ``golden_vectors.npy``: float64 ``[20, 384]``, the L2-normalised mean of the last layer, one row a text;
* ``int8_ranges.npy``: float32 ``[18, 2, 384]``, middle and half-width of what each channel takes on over all tokens of
  those texts, at the inputs of the matrix products; the int8 graph centres and scales its channels by them. Rows: the
  6 layers' inputs, the 6 layers' attention contexts, the 6 layers' feed-forward inputs.

Run it as ``python reference.py WEIGHTS_DIR`` to compare with the files, ``--write`` to replace them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def main() -> None:
    """Compare with the stored files, or write them."""
    from safetensors.numpy import load_file  # noqa: PLC0415

    from palace_daemon.embed import reference, registry, tokens  # noqa: PLC0415

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path, help="a folder that holds model.safetensors")
    parser.add_argument("--write", action="store_true", help="replace the stored files")
    options = parser.parse_args()

    tokenizer = tokens.open_tokenizer((HERE / "tokenizer.json").read_text(encoding="utf-8"))
    texts = [entry["text"] for entry in json.loads((HERE / "golden_texts.json").read_text(encoding="utf-8"))]
    found = reference.observe(
        load_file(options.weights / "model.safetensors"),
        registry.manifest().source.shape,
        [tokenizer.encode(text).ids for text in texts],
    )
    ranges = found.ranges.reshape(-1, *found.ranges.shape[2:])
    for name, values in (("golden_vectors.npy", found.vectors), ("int8_ranges.npy", ranges)):
        if options.write:
            np.save(HERE / name, values, allow_pickle=False)
        stored = np.load(HERE / name, allow_pickle=False)
        print(f"{name}: {values.shape}, largest difference {np.abs(stored - values).max():.1e}")  # noqa: T201


if __name__ == "__main__":
    main()
