"""Is what was said found again? Public sets of questions, asked of real stores through the shipped recall.

Each haystack of a set becomes a store (:mod:`palace_daemon.bench.haystack`), each question is asked at its own time,
and the ranks of its gold are counted: ``recallAny`` at k are the questions of which some gold is among the first k
distinct sessions or exchanges, ``recallAll`` those of which all gold is. Questions about what was never said have no
gold and are left out of these figures.

The sets are not packaged: ``--data`` names where they lie. What is written to ``--out`` holds ids and ranks, no text.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from palace_daemon.bench import recall_ablation, recall_processes, recall_report, recall_summary, vector_cache
from palace_daemon.bench.haystack import CHUNKINGS, Chunking
from palace_daemon.bench.recall_runner import CaseResult, RunSettings, limited, run_cases
from palace_daemon.bench.recall_summary import Line, Run, Unit
from palace_daemon.bench.sets.base import Case, SetReader
from palace_daemon.config import EmbedConfig
from palace_daemon.core import rank
from palace_daemon.embed import minilm
from palace_daemon.errors import ConfigError

RANKERS = ("product", *recall_ablation.PRESETS)
"""``plain``: cosine and words at the weights of the plain fusion, and no other signal."""
_PROGRESS_S = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this bench's arguments."""
    from palace_daemon.bench.sets import registry  # noqa: PLC0415 - the sets are needed by this bench only

    parser.add_argument("--set", required=True, choices=sorted(registry.READERS), help="which set of questions")
    parser.add_argument(
        "--data", required=True, type=Path, metavar="PATH", help="its file, or the folder that holds it"
    )
    parser.add_argument("--chunking", choices=CHUNKINGS, default="exchange", help="how texts become drawers")
    parser.add_argument("--model", default=EmbedConfig().model, metavar="ID", help="the model (default %(default)s)")
    parser.add_argument("--ranker", choices=RANKERS, default="product", help="which signals count")
    parser.add_argument(
        "--ablate", action="append", default=[], metavar="SIGNAL", help="leave a signal out, or show what each one adds"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="ask the first N questions only")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes, each with a model of its own")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write ranks, summary and a page of HTML there")
    parser.add_argument(
        "--baseline", type=Path, metavar="FILE", help="a former run (its --out) to compare question by question"
    )
    parser.add_argument("--cache", type=Path, metavar="DIR", help="vectors that are kept between runs")


def run(args: argparse.Namespace) -> int:
    """Print the figures; returns 0. SIGTERM ends it with :class:`SystemExit`, and leaves no store and no process.

    Raises:
        ConfigError: The data or the baseline is not there or of another kind, or a signal is unknown.
        ModelError: The model is not installed.
    """
    with recall_processes.sigterm_exits():
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    from palace_daemon.bench.sets import registry  # noqa: PLC0415 - the sets are needed by this bench only

    reader = registry.reader(args.set)
    before = _baseline(args.baseline, reader, args.chunking) if args.baseline else None
    if (args.limit is not None and args.limit < 1) or args.jobs < 1:
        raise ConfigError("--limit and --jobs are at least 1")
    is_table = recall_ablation.EACH in args.ablate
    ablated = tuple(name for name in args.ablate if name != recall_ablation.EACH)
    weights = weights_of(args.ranker, ablated)
    settings = RunSettings(
        model=args.model,
        chunking=args.chunking,
        weights=weights,
        others=tuple(recall_ablation.variants(weights).values()) if is_table else (),
        cache=args.cache or vector_cache.default_folder(),
        threads=max(1, minilm.usable_cores() // args.jobs),
    )
    report, lines = measure(
        reader, args.data, settings, ranker=args.ranker, ablated=ablated, limit=args.limit, jobs=args.jobs
    )
    if before is not None:
        found = recall_summary.compared(before, lines, report["unit"])
        report["baseline"] = recall_summary.comparison(found)
    if args.out:
        _write(args.out, report, lines)
    print(json.dumps(report) if args.json else recall_report.table(report))
    if "ablation" in report and not args.json:
        print(f"\n{recall_ablation.table(report)}")
    return 0


def _baseline(path: Path, reader: SetReader, chunking: Chunking) -> tuple[Line, ...]:
    """Return the questions of a former run, before a run that cannot be compared with it takes its time."""
    before = recall_summary.read_lines(path)
    recall_summary.check_same(path, reader.name, _unit(reader, chunking))
    return before


def _unit(reader: SetReader, chunking: Chunking) -> Unit:
    """Return what a hit must be: without exchanges as drawers there is but one text a session."""
    return reader.gold_unit if chunking == "exchange" else "session"


def weights_of(ranker: str, ablated: Iterable[str] = ()) -> rank.Weights:
    """Return the weights of a preset without some signals.

    Raises:
        ConfigError: There is no such signal.
    """
    weights = recall_ablation.preset(ranker)
    for name in ablated:
        weights = recall_ablation.without(weights, name)
    return weights


def measure(
    reader: SetReader,
    path: Path,
    settings: RunSettings,
    *,
    ranker: str = "product",
    ablated: tuple[str, ...] = (),
    limit: int | None = None,
    jobs: int = 1,
) -> tuple[dict[str, Any], tuple[Line, ...]]:
    """Run a set; return the report and a line for each question.

    Args:
        reader: Of the set.
        path: Where it lies.
        settings: How to run it.
        ranker: Names ``settings.weights`` in the report.
        ablated: The signals that these lack.
        limit: Most questions to ask.
        jobs: Processes.

    Raises:
        ConfigError: See :class:`~palace_daemon.bench.sets.base.SetReader`.
        ModelError: The model is not installed.
    """
    began = time.monotonic()
    unusable: list[int] = []

    def cases() -> Iterator[Case]:
        for case in limited(reader.read(path), limit):
            unusable.append(sum(question.unusable_gold for question in case.questions))
            yield case

    total = _count(reader, path, limit) if sys.stderr.isatty() else 0
    with contextlib.closing(run_cases(cases(), settings, jobs=jobs)) as coming:
        results = list(_shown(coming, total))
    run_of = Run(
        set_name=reader.name,
        unit=_unit(reader, settings.chunking),
        settings=settings,
        ranker=ranker,
        ablated=ablated,
        limit=limit,
        jobs=jobs,
        seconds=time.monotonic() - began,
        unusable_gold=sum(unusable),
    )
    lines = tuple(recall_summary.line_of(one, run_of.unit) for result in results for one in result.asked)
    report = recall_summary.summary(run_of, results)
    if settings.others:
        names = list(recall_ablation.variants(settings.weights))
        report["ablation"] = recall_ablation.rows(names, results, run_of.unit)
    return report, lines


def _write(folder: Path, report: dict[str, Any], lines: Iterable[Line]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        recall_summary.write_lines(folder / recall_summary.QUESTIONS_FILE, lines)
        recall_summary.write_summary(folder / recall_summary.SUMMARY_FILE, report)
        (folder / recall_summary.REPORT_FILE).write_text(recall_report.page(report), encoding="utf-8")
    except OSError as exc:
        raise ConfigError(f"cannot write to {folder}: {exc.strerror}") from exc


def _count(reader: SetReader, path: Path, limit: int | None) -> int:
    """Return how many questions will be asked: reads the set once more, which is little beside the rest."""
    return sum(len(case.questions) for case in limited(reader.read(path), limit))


def _shown(results: Iterable[CaseResult], total: int) -> Iterator[CaseResult]:
    """Pass results on, showing on a terminal how far the run is; ``total`` 0 shows nothing."""
    began = shown = time.monotonic()
    done = 0
    for result in results:
        done += len(result.asked)
        now = time.monotonic()
        if total and done and (now - shown >= _PROGRESS_S or done == total):
            shown = now
            left_s = (now - began) / done * (total - done)
            print(f"\r{done} of {total} questions, {left_s:.0f} s left   ", end="", file=sys.stderr, flush=True)
        yield result
    if total:
        print(file=sys.stderr)
