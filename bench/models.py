"""Which model shall it be? All installed ones, on sets of questions and side by side for speed.

Each set is asked through the shipped recall (:mod:`palace_daemon.bench.recall`) once a model; what counts is which
questions move against the default model, not a decimal. For the speed the models take turns over the same drawers, so
that whatever else the machine does falls on all alike.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from palace_daemon import places
from palace_daemon.bench import embed_texts, machine, recall, recall_processes, recall_summary, vector_cache
from palace_daemon.bench.recall_metrics import shown
from palace_daemon.bench.recall_runner import RunSettings
from palace_daemon.bench.recall_summary import Line
from palace_daemon.bench.sets.base import SetReader
from palace_daemon.core import rank
from palace_daemon.embed import minilm, registry
from palace_daemon.errors import ConfigError, ModelError

SHOWN_KS = ("1", "5")
PACKAGED_SET = "jsonl-exchange"
_TURN_TEXTS = 8
"""Drawers that a model embeds before the next one has its turn."""
_QUESTIONS_SHOWN = 5


class DataSet(NamedTuple):
    """A set of questions, and where it lies."""

    reader: SetReader
    path: Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this bench's arguments."""
    from palace_daemon.bench.sets import registry as sets  # noqa: PLC0415 - needed by few benches

    parser.add_argument(
        "--set",
        action="append",
        default=[],
        choices=sorted(sets.READERS),
        help="a set of questions, with its --data; may be given again (default: the packaged one about coding work)",
    )
    parser.add_argument("--data", action="append", default=[], type=Path, metavar="PATH", help="where that set lies")
    parser.add_argument(
        "--model", action="append", default=[], metavar="ID", help="compare these only (default: all installed)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="ask the first N questions of each set only")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes, each with a model of its own")
    parser.add_argument("--texts", type=int, default=64, metavar="N", help="drawers for the speed (default 64)")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="vectors that are kept between runs")


def run(args: argparse.Namespace) -> int:
    """Print the comparison; returns 0.

    Raises:
        ConfigError: A set lacks its data, or a number makes no sense.
        ModelError: No model is installed, or one that was named is not.
    """
    if min(args.jobs, args.texts, 1 if args.limit is None else args.limit) < 1:
        raise ConfigError("--limit, --jobs and --texts are at least 1")
    sets = chosen_sets(args.set, args.data)
    models = chosen_models(args.model, places.models_dir())
    with recall_processes.sigterm_exits():
        report = measure(
            sets,
            models,
            limit=args.limit,
            jobs=args.jobs,
            texts=embed_texts.spread(embed_texts.packaged(), args.texts),
            cache=args.cache or vector_cache.default_folder(),
        )
    print(json.dumps(report) if args.json else table(report))
    return 0


def chosen_sets(names: Sequence[str], paths: Sequence[Path]) -> list[DataSet]:
    """Return the sets that were named, in order; the packaged one where none was.

    Raises:
        ConfigError: Not every set has its data.
    """
    from palace_daemon.bench.sets import registry as sets  # noqa: PLC0415

    if len(names) != len(paths):
        raise ConfigError(
            f"{len(names)} sets and {len(paths)} places of data", hint="say --set NAME --data PATH for each"
        )
    if not names:
        return [DataSet(sets.reader(PACKAGED_SET), embed_texts.PACKAGED)]
    return [DataSet(sets.reader(name), path) for name, path in zip(names, paths, strict=True)]


def chosen_models(wished: Sequence[str], models_dir: Path) -> list[str]:
    """Return the models to compare, the one that the others are compared with first: the default, if it is among them.

    Raises:
        ModelError: None is installed, or one that was wished is not.
    """
    present = registry.installed(models_dir)
    for model_id in wished:
        if model_id not in present:
            registry.check_installed(model_id, models_dir)
    names = [name for name in present if not wished or name in wished]
    if not names:
        raise ModelError(f"no model is installed in {models_dir}", hint=registry.INSTALL_HINT)
    return sorted(names, key=lambda name: name != registry.DEFAULT_MODEL)


def measure(
    sets: Sequence[DataSet],
    models: Sequence[str],
    *,
    texts: Sequence[str],
    cache: Path,
    limit: int | None = None,
    jobs: int = 1,
) -> dict[str, Any]:
    """Return the report.

    Args:
        sets: To ask.
        models: To compare, with the first one.
        texts: Drawers to take the speed on.
        cache: Folder of the vectors that are kept between runs.
        limit: Most questions of each set.
        jobs: Processes.

    Raises:
        ConfigError: The data of a set is not there or of another kind.
        ModelError: A model cannot be loaded.
    """
    threads = max(1, minilm.usable_cores() // jobs)
    settings = [
        RunSettings(model=name, chunking="exchange", weights=rank.WEIGHTS, cache=cache, threads=threads)
        for name in models
    ]
    speeds = drawers_per_second(models, texts, places.models_dir())
    return {
        "comparedWith": models[0],
        "models": [_described(name, speeds[name]) for name in models],
        "speedTexts": len(texts),
        "sets": [_on_set(one, settings, limit, jobs) for one in sets],
        "limit": limit,
        "machine": machine.describe(),
    }


def _described(model_id: str, per_second: float) -> dict[str, Any]:
    spec = registry.spec(model_id)
    return {
        "model": model_id,
        "fingerprint": spec.fingerprint,
        "dim": spec.dim,
        "maxTokens": spec.max_tokens,
        "drawersPerSecond": round(per_second, 1),
    }


def drawers_per_second(models: Sequence[str], texts: Sequence[str], models_dir: Path) -> dict[str, float]:
    """Return how fast each embeds drawers on all cores, taking turns."""
    embedders = {name: minilm.load(name, models_dir) for name in models}
    seconds = dict.fromkeys(models, 0.0)
    try:
        for embedder in embedders.values():  # the first call of a session allocates
            embedder.embed_passages(texts[:1])
        for turn, start in enumerate(range(0, len(texts), _TURN_TEXTS)):
            for name in _turned(models, turn):
                began = time.perf_counter()
                embedders[name].embed_passages(texts[start : start + _TURN_TEXTS])
                seconds[name] += time.perf_counter() - began
    finally:
        for embedder in embedders.values():
            embedder.close()
    return {name: len(texts) / seconds[name] for name in models}


def _turned(models: Sequence[str], by: int) -> Iterator[str]:
    """Yield the models, another one first each time."""
    at = by % len(models)
    yield from models[at:]
    yield from models[:at]


def _on_set(data: DataSet, settings: Sequence[RunSettings], limit: int | None, jobs: int) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    first: tuple[Line, ...] | None = None
    report: Mapping[str, Any] = {}
    for one in settings:
        report, lines = recall.measure(data.reader, data.path, one, limit=limit, jobs=jobs)
        row = {key: report[key] for key in ("model", "recallAny", "recallAll", "mrr", "fingerprint")}
        if first is None:
            first = lines
        else:
            row["moved"] = recall_summary.comparison(recall_summary.compared(first, lines, report["unit"]))
        rows.append(row)
    return {key: report[key] for key in ("set", "unit", "n", "drawers")} | {"rows": rows}


# ------------------------------------------------------------------------------------------------------------- shown


def table(report: Mapping[str, Any]) -> str:
    """Return the report for readers."""
    blocks = [_speed_table(report), *(_set_table(one, report["comparedWith"]) for one in report["sets"])]
    return "\n\n".join(blocks)


def _speed_table(report: Mapping[str, Any]) -> str:
    rows = [("model", "dimensions", "tokens", "drawers/s")]
    rows += [
        (one["model"], str(one["dim"]), str(one["maxTokens"]), f"{one['drawersPerSecond']:.1f}")
        for one in report["models"]
    ]
    head = f"{report['speedTexts']} drawers, the models taking turns, on {report['machine']}:"
    return "\n".join([head, *_aligned(rows)])


def _set_table(found: Mapping[str, Any], compared_with: str) -> str:
    rows = [("model", "R@1", "R@5", "MRR", "moved up", "moved down", "R@1 by chance", "R@5 by chance")]
    for row in found["rows"]:
        counts = tuple(f"{row['recallAny'][k]['count']}" for k in SHOWN_KS)
        moved = row.get("moved")
        rows.append((row["model"], *counts, f"{row['mrr']:.3f}", *(_moved(moved) if moved else ("",) * 4)))
    head = (
        f"{found['set']}: {found['n']} questions, a hit is the right {found['unit']}, {found['drawers']:,} drawers;"
        f" questions moved against {compared_with}:"
    )
    return "\n".join([head, *_aligned(rows), *_named(found)])


def _moved(moved: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how many questions moved, and what McNemar's test says of those gained and lost."""
    chances = (
        f"+{pair['gained']} -{pair['lost']}, {shown(pair['pValue'])}" for pair in (moved["paired"][k] for k in SHOWN_KS)
    )
    up, down = (str(len(moved[way])) for way in ("up", "down"))
    return up, down, *chances


def _named(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the first questions that moved, by model and way."""
    for row in found["rows"]:
        for way in ("up", "down"):
            moved = row.get("moved", {}).get(way, [])
            if moved:
                some = ", ".join(
                    f"{one['questionId']} {_rank(one['before'])} to {_rank(one['after'])}"
                    for one in moved[:_QUESTIONS_SHOWN]
                )
                more = f" and {len(moved) - _QUESTIONS_SHOWN} more" if len(moved) > _QUESTIONS_SHOWN else ""
                yield f"  {row['model']} {way}: {some}{more}"


def _rank(place: int | None) -> str:
    return "beyond 10" if place is None else str(place)


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield rows in columns, the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        yield "  ".join(cells).rstrip()
