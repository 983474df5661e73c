"""Where does the time of a model go, operator by operator?

Texts of several lengths run through the installed graph, with the options of the daemon's session, under ONNX
Runtime's own profiler. Of each node the least time of all runs counts, by the wall clock on one thread: what else the
machine does only ever adds. ``cpuMs`` is the least CPU time of a whole run: more than its nodes, by what the runtime
does between them and by what profiling costs. ``productGops`` are integer operations (a multiplication and an addition
are two) per second inside the integer products, in billions: what to hold against the peak of the processor.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from palace_daemon import places
from palace_daemon.bench import embed_texts, machine
from palace_daemon.bench.fingerprint import MODEL, fingerprint
from palace_daemon.embed import registry
from palace_daemon.embed.install import install
from palace_daemon.embed.profiling import GraphTimes, NodeTime, profile
from palace_daemon.embed.tokens import packaged_tokenizer
from palace_daemon.errors import ConfigError

LENGTHS = (60, 120, 180, 250, 500)
"""Tokens of a text: most drawers lie between the first and the fourth; the last is near the cap."""
RUNS = 20
PARTS: dict[str, tuple[str, ...]] = {
    "integer products": ("MatMulIntegerToFloat", "MatMulInteger", "DynamicQuantizeMatMul"),
    "float products": ("MatMul", "Gemm", "FusedMatMul"),
    "attention": ("MultiHeadAttention", "Attention", "QAttention", "Softmax", "Transpose"),
    "quantise": ("QuantizeLinear", "DynamicQuantizeLinear", "Clip", "Abs", "ReduceMax", "Max", "Expand"),
    "gelu": ("FastGelu", "BiasGelu", "Gelu", "Erf"),
    "norms": ("LayerNormalization", "SkipLayerNormalization", "LpNormalization"),
    "scales, biases, residuals": ("Mul", "Add"),
}
"""Parts of the work and their operators. In the fp32 graph ``Attention`` holds the products of query, key and value."""
REST = "rest"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this bench's arguments."""
    parser.add_argument(
        "--path", type=Path, help="transcripts whose words to embed (default: the packaged set of coding talk)"
    )
    parser.add_argument(
        "--model", default=registry.DEFAULT_MODEL, metavar="ID", help="the model to profile (default %(default)s)"
    )
    parser.add_argument(
        "--tokens", type=int, nargs="+", default=list(LENGTHS), metavar="N", help="lengths of the texts (60 ... 500)"
    )
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N", help="runs of each text (default %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Print where the time goes; returns 0, or 1 when there are too few words.

    Raises:
        ConfigError: A number is out of range.
        ModelError: The model is unknown, or cannot be installed or run.
        SourceError: There is nothing at --path.
    """
    if args.runs < 1 or not all(
        3 <= tokens <= registry.spec(registry.DEFAULT_MODEL).max_tokens for tokens in args.tokens
    ):
        raise ConfigError("--runs is at least 1, --tokens between 3 and the model's cap of 512")
    texts = embed_texts.of_transcripts(args.path) if args.path else embed_texts.packaged()
    ids = tokens_of(texts, max(args.tokens))
    if len(ids) < max(args.tokens):
        print(f"fewer than {max(args.tokens)} tokens in {args.path or 'the packaged set'}")
        return 1
    report = measure(ids, args.tokens, model_id=args.model, runs=args.runs)
    print(json.dumps(report) if args.json else table(report))
    return 0


def tokens_of(texts: Iterable[str], count: int) -> list[int]:
    """Return the first ``count`` token ids of ``texts``, joined; fewer where there are no more."""
    tokenizer = packaged_tokenizer()
    inner = (token for text in texts for token in tokenizer.encode(text, add_special_tokens=False).ids)
    return list(itertools.islice(inner, count))


def measure(
    ids: Sequence[int],
    lengths: Sequence[int],
    *,
    models_dir: Path | None = None,
    model_id: str = registry.DEFAULT_MODEL,
    runs: int = RUNS,
) -> dict[str, Any]:
    """Return the report: one entry of ``texts`` a length, beside what it was measured on.

    Args:
        ids: Token ids of real text without special tokens, as many as the longest text needs.
        lengths: Tokens of the texts, special tokens included.
        models_dir: Holds the models; a known one that is missing is installed.
        model_id: The model to profile.
        runs: Runs of each text.
    """
    folder = models_dir or places.models_dir()
    if model_id not in registry.installed(folder):
        install(model_id, folder)
    first, last = packaged_tokenizer().encode("").ids
    texts = []
    for tokens in lengths:
        text = [first, *ids[: tokens - 2], last]
        texts.append(summary(tokens, profile(model_id, folder, text, runs)))
    return {
        "model": model_id,
        "runs": runs,
        "machine": machine.describe(),
        "fingerprint": fingerprint(of=MODEL),
        "texts": texts,
    }


def summary(tokens: int, times: GraphTimes) -> dict[str, Any]:
    """Return the sums of one text: by part, by operator, and the rate of the integer products."""
    nodes_us = sum(node.took_us for node in times.nodes)
    operations = 2 * sum(node.multiplications for node in times.nodes)
    products_us = sum(node.took_us for node in times.nodes if node.multiplications)
    parts = _sums((part_of(node.operator), node) for node in times.nodes)
    operators = _sums((node.operator, node) for node in times.nodes)
    return {
        "tokens": tokens,
        "nodes": len(times.nodes),
        "nodesMs": round(nodes_us / 1e3, 3),
        "cpuMs": round(times.run_us / 1e3, 3),
        "productGops": round(operations / products_us / 1e3, 1) if products_us else None,
        "parts": [{"part": name, **entry} for name, entry in parts],
        "operators": [{"operator": name, **entry} for name, entry in operators],
    }


def part_of(operator: str) -> str:
    """Return the part of the work that an operator belongs to."""
    return next((part for part, operators in PARTS.items() if operator in operators), REST)


def _sums(named: Iterable[tuple[str, NodeTime]]) -> list[tuple[str, dict[str, Any]]]:
    """Add up by name, the largest first."""
    took_us: defaultdict[str, float] = defaultdict(float)
    counts: defaultdict[str, int] = defaultdict(int)
    for name, node in named:
        took_us[name] += node.took_us
        counts[name] += 1
    total = sum(took_us.values()) or 1.0
    return [
        (name, {"nodes": counts[name], "ms": round(us / 1e3, 3), "share": round(us / total, 4)})
        for name, us in sorted(took_us.items(), key=lambda entry: -entry[1])
    ]


def table(report: dict[str, Any]) -> str:
    """Return the shares as text: parts as rows, lengths as columns."""
    texts = report["texts"]
    shares = [{entry["part"]: entry["share"] for entry in text["parts"]} for text in texts]
    lines = [f"{report['model']}, least of {report['runs']} runs; {report['machine']}", _row("tokens", texts, "tokens")]
    for part in (*PARTS, REST):
        if any(part in share for share in shares):
            cells = "".join(f"{share.get(part, 0.0):>9.1%}" for share in shares)
            lines.append(f"{part:>26}{cells}")
    lines.append(_row("all nodes, ms", texts, "nodesMs"))
    lines.append(_row("a run, CPU ms", texts, "cpuMs"))
    if any(text["productGops"] for text in texts):
        lines.append(_row("products, 10^9 op/s", texts, "productGops"))
    return "\n".join(lines)


def _row(title: str, texts: Sequence[dict[str, Any]], key: str) -> str:
    return f"{title:>26}" + "".join(f"{text[key] or '-':>9}" for text in texts)
