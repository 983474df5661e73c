"""What a run of ``--bench recall`` is written down as, and read back for comparison: ids, ranks, figures, no text.

Invariant: the lines of questions depend on the set and the code alone, so that two runs of one version are equal to the
byte; what was timed stands in the summary only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from palace_daemon.bench import machine
from palace_daemon.bench.fingerprint import fingerprint
from palace_daemon.bench.recall_metrics import (
    KS,
    Comparison,
    Figures,
    Judged,
    Key,
    Moved,
    Ranks,
    compare,
    figures,
    per_kind,
    percentile,
    written,
)
from palace_daemon.bench.recall_runner import Asked, CaseResult, Found, RunSettings
from palace_daemon.errors import ConfigError

Unit = Literal["session", "exchange"]

QUESTIONS_FILE = "questions.jsonl"
SUMMARY_FILE = "summary.json"
REPORT_FILE = "report.html"


class Line(Struct, frozen=True, kw_only=True, rename="camel"):
    """One question in the file of questions. Ranks count from 1; null means not among the first ten."""

    haystack_id: str
    question_id: str
    kind: str
    is_abstention: bool
    gold_sessions: Ranks
    gold_exchanges: Ranks
    top_sessions: tuple[str, ...]
    top_exchanges: tuple[str, ...]
    parts: tuple[dict[str, float], ...]
    """Parts of the score of the best drawer of each session in ``top_sessions``, or exchange where that is the unit."""


class Run(Struct, frozen=True, kw_only=True):
    """What was run, and how."""

    set_name: str
    unit: Unit
    """What a hit must be."""
    settings: RunSettings
    ranker: str
    ablated: tuple[str, ...]
    limit: int | None
    jobs: int
    seconds: float
    unusable_gold: int = 0
    """Pieces of gold that the set names and that are nothing in it."""


def line_of(asked: Asked, unit: Unit) -> Line:
    """Return the line of a question."""
    return Line(
        haystack_id=asked.haystack_id,
        question_id=asked.question_id,
        kind=asked.kind,
        is_abstention=asked.is_abstention,
        gold_sessions=asked.sessions.ranks,
        gold_exchanges=asked.exchanges.ranks,
        top_sessions=asked.sessions.top,
        top_exchanges=asked.exchanges.top,
        parts=_by_unit(asked, unit).parts,
    )


def ranks_of(line: Line, unit: Unit) -> Ranks:
    """Return the ranks of a question's gold; none where it has no gold of that kind, or is about abstention."""
    if line.is_abstention:
        return ()
    return line.gold_sessions if unit == "session" else line.gold_exchanges


def summary(run: Run, results: Sequence[CaseResult]) -> dict[str, Any]:
    """Return the object that ``--json`` prints."""
    asked = [one for result in results for one in result.asked]
    counted = judged(asked, run.unit)
    figured = figures(counted)
    report: dict[str, Any] = {
        "set": run.set_name,
        "chunking": run.settings.chunking,
        "model": run.settings.model,
        "ranker": run.ranker,
        "ablated": list(run.ablated),
        "unit": run.unit,
        "questions": len(asked),
        "abstentions": sum(one.is_abstention for one in asked),
        "withoutGold": len(asked) - len(counted) - sum(one.is_abstention for one in asked),
        "goldUnusable": run.unusable_gold,
        "goldNotStored": sum(
            result.sessions_not_stored if run.unit == "session" else result.turns_not_stored for result in results
        ),
        **_figures(figured),
        "perType": {kind: _figures(found) for kind, found in per_kind(counted).items()},
    }
    if run.unit == "exchange":
        report["bySession"] = _figures(figures(judged(asked, "session")))
    return report | _costs(run, results, asked)


def _costs(run: Run, results: Sequence[CaseResult], asked: Sequence[Asked]) -> dict[str, Any]:
    """Return sizes and times. Speeds are those of one process, also where several ran."""
    times = [one.took_ms for one in asked]
    drawers = sum(result.drawers for result in results)
    embedded = sum(result.embedded for result in results)
    return {
        "cases": len(results),
        "sessions": sum(result.sessions for result in results),
        "exchanges": sum(result.exchanges for result in results),
        "drawers": drawers,
        "truncated": sum(result.truncated for result in results),
        "drawersPerSecond": _per_second(drawers, sum(result.store_s for result in results)),
        "embedded": embedded,
        "fromCache": sum(result.from_cache for result in results),
        "embeddedPerSecond": _per_second(embedded, sum(result.embed_s for result in results)),
        "queryMsP50": round(percentile(times, 0.5), 2),
        "queryMsP95": round(percentile(times, 0.95), 2),
        "rssMb": round(max((result.rss_bytes for result in results), default=0) / 1e6, 1),
        "jobs": run.jobs,
        "limit": run.limit,
        "seconds": round(run.seconds, 1),
        "machine": machine.describe(),
        "fingerprint": fingerprint(run.settings.model, weights=run.settings.weights, chunking=run.settings.chunking),
    }


def _per_second(count: int, seconds: float) -> float | None:
    """Return the speed; None where nothing was done."""
    return round(count / seconds, 1) if count and seconds else None


def judged(asked: Iterable[Asked], unit: Unit) -> list[Judged]:
    """Return what is counted: the ranks of each question's gold under ``unit``."""
    lines = (line_of(one, unit) for one in asked)
    return [
        Judged(question_id=line.question_id, kind=line.kind, ranks=ranks)
        for line in lines
        if (ranks := ranks_of(line, unit))
    ]


def _by_unit(asked: Asked, unit: Unit) -> Found:
    return asked.sessions if unit == "session" else asked.exchanges


def _figures(found: Figures) -> dict[str, Any]:
    return {
        "n": found.n,
        "recallAny": {str(k): _share(found.any_at[k], found.n) for k in KS},
        "recallAll": {str(k): _share(found.all_at[k], found.n) for k in KS},
        "mrr": round(found.mrr, 4),
    }


def _share(count: int, total: int) -> dict[str, Any]:
    return {"count": count, "share": round(count / total, 4) if total else 0.0}


# --------------------------------------------------------------------------------------------------- files and runs


def write_lines(path: Path, lines: Iterable[Line]) -> None:
    """Write the file of questions."""
    path.write_bytes(b"".join(msgspec.json.encode(line, order="deterministic") + b"\n" for line in lines))


def write_summary(path: Path, report: dict[str, Any]) -> None:
    """Write the summary."""
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def read_lines(path: Path) -> tuple[Line, ...]:
    """Return the questions of a former run.

    Args:
        path: Its file of questions, its summary beside that, or the folder that holds both.

    Raises:
        ConfigError: There is no such file, or it is of another kind.
    """
    path = _questions_file(path)
    try:
        data = path.read_bytes()
        return tuple(msgspec.json.decode(line, type=Line) for line in data.split(b"\n") if line)
    except OSError as exc:
        raise ConfigError(f"cannot read {path}: {exc.strerror}", hint="name the --out folder of a former run") from exc
    except msgspec.MsgspecError as exc:
        raise ConfigError(
            f"{path} is no file of questions of this bench: {exc}", hint="a run of a former version is to be run again"
        ) from exc


def check_same(path: Path, set_name: str, unit: Unit) -> None:
    """Make sure that a former run is of this set and counts the same hits, as far as a summary beside it tells.

    Args:
        path: As for :func:`read_lines`.
        set_name: Of the run that is compared with it.
        unit: What a hit must be in that run.

    Raises:
        ConfigError: It is of another set or unit, or its summary cannot be read.
    """
    path = _questions_file(path)
    beside = path.with_name(SUMMARY_FILE)
    if path.name != QUESTIONS_FILE or not beside.exists():
        return
    try:
        former = msgspec.json.decode(beside.read_bytes(), type=_Subject)
    except OSError as exc:
        raise ConfigError(f"cannot read {beside}: {exc.strerror}", hint="name the --out of a former run") from exc
    except msgspec.MsgspecError as exc:
        raise ConfigError(
            f"{beside} is no summary of this bench: {exc}", hint="name the --out of a former run"
        ) from exc
    if former.set != set_name:
        raise ConfigError(
            f"the baseline in {path.parent} is of the set {former.set}, not of {set_name}",
            hint="name a run of the same set",
        )
    if former.unit != unit:
        raise ConfigError(
            f"a hit is the right {former.unit} in the baseline in {path.parent}, and the right {unit} in this run",
            hint="name a run of the same unit, or choose its --chunking",
        )


class _Subject(Struct, frozen=True):
    """What a summary says of a run that another one must share to be compared."""

    set: str
    unit: str


def _questions_file(path: Path) -> Path:
    if path.is_dir():
        return path / QUESTIONS_FILE
    return path.with_name(QUESTIONS_FILE) if path.suffix == ".json" else path


def compared(before: Sequence[Line], after: Sequence[Line], unit: Unit) -> Comparison:
    """Return what changed; question by question, so both runs must be over the same set.

    Raises:
        ConfigError: They have no question with gold in common.
    """
    found = compare(_ranks(before, unit), _ranks(after, unit))
    if not found.n:
        raise ConfigError("the baseline has no question with gold in common with this run", hint="is it of this set?")
    return found


def _ranks(lines: Iterable[Line], unit: Unit) -> dict[Key, Ranks]:
    return {Key(line.haystack_id, line.question_id): ranks_of(line, unit) for line in lines}


def comparison(found: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON."""

    def moved(one: Moved) -> dict[str, Any]:
        haystack_id, question_id = one.key
        return {"haystackId": haystack_id, "questionId": question_id, "before": one.before, "after": one.after}

    return {
        "n": found.n,
        "up": [moved(one) for one in found.up],
        "down": [moved(one) for one in found.down],
        "paired": {
            str(one.k): {"gained": one.gained, "lost": one.lost, "pValue": written(one.p_value)} for one in found.paired
        },
    }
