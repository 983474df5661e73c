"""Bare ``palace-daemon --bench``: the bundled questions, a few vectors and a small store, in one table.

Quick figures of this machine, a few minutes in all; each bench by its name measures more and better. Nothing is
fetched, and nothing is read but what is packaged.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from palace_daemon import places
from palace_daemon.bench import embed, machine, recall, recall_processes, scale, vector_cache
from palace_daemon.bench.recall_runner import RunSettings
from palace_daemon.bench.scale.progress import Progress
from palace_daemon.bench.sets import registry as sets
from palace_daemon.embed import registry
from palace_daemon.embed.install import DOWNLOADS, golden

QUESTIONS = Path(__file__).parent / "coding" / "dev.jsonl"
QUESTIONS_SET = "jsonl-exchange"
SCALE_DRAWERS = 2_000
SCALE = scale.Settings(queries=100, real=150, rebuild=False)
FP32 = "all-minilm-l6-v2-fp32"
"""What int8 is compared with; built without a network where the model's download was kept."""
_STAGES = 3

Line = tuple[str, str, str, str]
"""Bench, figure, value and goal."""


def run(args: argparse.Namespace) -> int:
    """Print the table; returns 0.

    Raises:
        ModelError: The model is not installed.
    """
    with recall_processes.sigterm_exits():
        report = measure()
    print(json.dumps(report) if args.json else table(report))
    return 0


def measure(drawers: int = SCALE_DRAWERS, settings: scale.Settings = SCALE) -> dict[str, Any]:
    """Run all three and return their reports by name.

    Args:
        drawers: Size of the small store.
        settings: How it is measured.

    Raises:
        ModelError: The model is not installed.
    """
    scale.check_model()
    began = time.monotonic()
    report: dict[str, Any] = {"machine": machine.describe()}
    _tell(1, "are the bundled questions answered", began)
    report["recall"] = _recall()
    _tell(2, "vectors", began)
    report["embed"] = _embed()
    _tell(3, f"a store of {drawers:,} drawers", began)
    report["scale"] = scale.measure([drawers], settings, Progress("    "))
    report["seconds"] = round(time.monotonic() - began, 1)
    return report


def _tell(number: int, stage: str, began: float) -> None:
    print(f"{number} of {_STAGES}, after {time.monotonic() - began:.0f} s: {stage}", file=sys.stderr, flush=True)


def _recall() -> dict[str, Any]:
    settings = RunSettings(
        model=registry.DEFAULT_MODEL,
        chunking="exchange",
        weights=recall.weights_of("product"),
        cache=vector_cache.default_folder(),
    )
    report, _ = recall.measure(sets.reader(QUESTIONS_SET), QUESTIONS, settings)
    return report


def _embed() -> dict[str, Any] | None:
    """Return the report; None where the model to compare with is not here and would have to be fetched."""
    models = places.models_dir()
    can_be_built = any((models / DOWNLOADS).glob("*.whl"))
    if FP32 not in registry.installed(models) and not can_be_built:
        return None
    return embed.measure(golden()[0], model_ids=(registry.DEFAULT_MODEL,))


def table(report: dict[str, Any]) -> str:
    """Return one table of what was measured."""
    lines = [*_recall_lines(report["recall"]), *_embed_lines(report["embed"]), *_scale_lines(report["scale"])]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    rows = [
        f"{name:<{widths[0]}}  {figure:<{widths[1]}}  {value:>{widths[2]}}  {goal}".rstrip()
        for name, figure, value, goal in lines
    ]
    head = (
        f"Palace on {report['machine']}, measured in {report['seconds']:.0f} s; `palace-daemon --bench NAME` for more"
    )
    return "\n".join([head, "", *rows])


def _recall_lines(found: dict[str, Any]) -> list[Line]:
    counts = " / ".join(str(found["recallAny"][k]["count"]) for k in ("1", "5", "10"))
    return [
        ("recall", f"right exchange first / in five / in ten, of {found['n']}", counts, ""),
        ("recall", "a question answered, p50 / p95", f"{found['queryMsP50']:.1f} / {found['queryMsP95']:.1f} ms", ""),
    ]


def _embed_lines(found: dict[str, Any] | None) -> list[Line]:
    if found is None:
        return [("embed", f"not measured: run `palace-daemon model install {FP32}`", "-", "")]
    rows = {row["name"]: row for row in found["rows"]}
    row = rows[registry.DEFAULT_MODEL]
    return [
        ("embed", "tokens per CPU-second against fp32", f"{row['ratioToFp32']:.2f} x", "2.2 x with VNNI"),
        ("embed", "texts a second", f"{row['textsPerSecond']:.1f}", ""),
        ("embed", "cosine to fp32, mean", f"{row['cosineToFp32Mean']:.4f}", "0.997"),
        ("embed", "worst cosine in company to alone", f"{row['worstBatchedVsAlone']:.6f}", "0.99999"),
    ]


def _scale_lines(found: dict[str, Any]) -> list[Line]:
    row = found["rows"][0]
    name = f"scale, {row['drawers']:,} drawers"
    pairs: Sequence[tuple[str, str, str]] = (
        ("recall over the socket, p50 / p95", f"{row['recallMsP50']:.1f} / {row['recallMsP95']:.1f} ms", "20 / 40 ms"),
        (
            f"the same with {row['clients']['clients']} clients",
            f"{row['clients']['p50']:.1f} / {row['clients']['p95']:.1f} ms",
            "",
        ),
        ("the same while mining", f"{row['whileMining']['p50']:.1f} / {row['whileMining']['p95']:.1f} ms", ""),
        ("start to first answer", f"{row['startToFirstAnswerMs']:,.0f} ms", "1,500 ms"),
        ("a line written to recallable", f"{row['addToRecallableMs']:,.0f} ms", "1,000 ms"),
        ("resident memory", f"{row['rssMb']:,.0f} MB", "550 MB"),
        ("disk to text", f"{row['diskToText']:.1f} x", "6 x"),
    )
    return [(name, *pair) for pair in pairs]
