"""How fast are the models, how close is int8 to fp32, and does a vector depend on its company?

The models take turns text by text on one thread, so that whatever else the machine does falls on all alike; only CPU
time of that thread is counted. Then each embeds all texts the way the daemon does, and every vector is compared with
that of the same text alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palace_daemon import places
from palace_daemon.bench import machine
from palace_daemon.bench.fingerprint import MODEL, fingerprint
from palace_daemon.core.transcripts import registry as formats
from palace_daemon.embed import minilm, registry
from palace_daemon.embed.install import golden, install

REFERENCE = "all-minilm-l6-v2-fp32"
PARAGRAPH_CHARS = 600
"""Paragraphs are joined up to about this length, which gives the 100 to 180 tokens that drawers have."""

Float64 = NDArray[np.float64]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this bench's arguments."""
    parser.add_argument("--path", type=Path, help="transcripts whose paragraphs to embed (default: the golden texts)")
    parser.add_argument("--texts", type=int, default=200, metavar="N", help="most texts to embed (default 200)")
    parser.add_argument(
        "--threads", type=int, default=0, metavar="N", help="threads of texts per second (0: all cores)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the rows; returns 0, or 1 when there is nothing to embed."""
    texts = list(dict.fromkeys(paragraphs(args.path) if args.path else golden()[0]))
    texts = texts[:: max(1, len(texts) // args.texts)][: args.texts]
    if not texts:
        print(f"no text in {args.path}")
        return 1
    report = measure(texts, threads=args.threads)
    print(json.dumps(report) if args.json else _table(report))
    return 0


def measure(
    texts: Sequence[str], *, models_dir: Path | None = None, model_ids: Sequence[str] = (), threads: int = 0
) -> dict[str, Any]:
    """Return the report: ``rows``, one a model, beside what it was measured on.

    Args:
        texts: Any texts; those above a model's cap are left out.
        models_dir: Holds the models; those that are missing are installed.
        model_ids: The models to compare with fp32; all known ones when empty.
        threads: Threads for ``textsPerSecond``; 0 takes every usable core.
    """
    folder = models_dir or places.models_dir()
    names = list(dict.fromkeys([REFERENCE, *(model_ids or registry.model_ids())]))
    for name in names:
        install(name, folder)
    embedders = {name: minilm.load(name, folder, threads) for name in names}
    try:
        return _measure(texts, embedders)
    finally:
        for embedder in embedders.values():
            embedder.close()


def _measure(texts: Sequence[str], embedders: dict[str, minilm.OnnxEmbedder]) -> dict[str, Any]:
    reference = embedders[REFERENCE]
    texts = [text for text in texts if reference.count(text) <= reference.max_tokens]
    tokens = sum(map(reference.count, texts))
    seconds = dict.fromkeys(embedders, 0.0)
    alone = {name: np.empty((len(texts), embedder.dim)) for name, embedder in embedders.items()}
    for embedder in embedders.values():  # the first call of a session allocates
        embedder.embed_query(texts[0])
    for row, text in enumerate(texts):
        turns = list(embedders.items())
        for name, embedder in turns[row % len(turns) :] + turns[: row % len(turns)]:
            started = time.thread_time()
            alone[name][row] = embedder.embed_query(text)
            seconds[name] += time.thread_time() - started
    rows = []
    for name, embedder in embedders.items():
        started = time.perf_counter()
        together = embedder.embed_passages(texts).astype(np.float64)
        took_s = time.perf_counter() - started
        near = _cosines(alone[name], alone[REFERENCE])
        rows.append(
            {
                "name": name,
                "tokensPerCpuSecond": round(tokens / seconds[name]),
                "ratioToFp32": round(seconds[REFERENCE] / seconds[name], 2),
                "textsPerSecond": round(len(texts) / took_s, 1),
                "cosineToFp32Mean": round(float(near.mean()), 5),
                "cosineToFp32Min": round(float(near.min()), 5),
                "worstBatchedVsAlone": round(float(_cosines(together, alone[name]).min()), 7),
            }
        )
    return {
        "texts": len(texts),
        "tokens": tokens,
        "threads": reference.threads,
        "machine": machine.describe(),
        "fingerprint": fingerprint(of=MODEL),
    } | {"rows": rows}


def _cosines(left: Float64, right: Float64) -> Float64:
    return np.asarray((left * right).sum(1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1))


def paragraphs(path: Path) -> Iterator[str]:
    """Yield the paragraphs of the transcripts at or below ``path``, joined up to about 600 characters."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if not file.is_file():
            continue
        data = file.read_bytes()
        found = formats.detect(str(file), data[: formats.HEAD_BYTES])
        if found is None:
            continue
        for exchange in found.open(str(file), str).feed(data).exchanges:
            yield from _joined(exchange.user_text)
            yield from _joined(exchange.reply_text)


def _joined(text: str) -> Iterator[str]:
    current = ""
    for paragraph in itertools.chain(text.split("\n\n"), [""]):
        if current and (not paragraph or len(current) + len(paragraph) > PARAGRAPH_CHARS):
            yield current
            current = ""
        current = f"{current}\n\n{paragraph}" if current else paragraph.strip()


def _table(report: dict[str, Any]) -> str:
    head = f"{report['texts']} texts, {report['tokens']} tokens, {report['threads']} threads; {report['machine']}"
    columns = ("model", "tokens/CPU-s", "x fp32", "texts/s", "cosine mean", "least", "batched vs alone")
    lines = [head, "".join(f"{column:>{24 if i == 0 else 17}}" for i, column in enumerate(columns))]
    for row in report["rows"]:
        cells = list(row.values())
        lines.append(f"{cells[0]:>24}" + "".join(f"{cell:>17}" for cell in cells[1:]))
    return "\n".join(lines)
