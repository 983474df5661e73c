"""What each signal adds: the same stores and questions, ranked with and without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from palace_daemon.bench import recall_metrics, recall_summary
from palace_daemon.bench.recall_runner import Asked, CaseResult
from palace_daemon.bench.recall_summary import Unit
from palace_daemon.core import rank
from palace_daemon.errors import ConfigError

EACH = "each"
"""As ``--ablate each``: a table of all presets and of every signal left out."""
PRESETS = ("plain", "cosine", "words")
PLAIN = {"cosine": 0.65, "bm25": 0.35}


def preset(name: str) -> rank.Weights:
    """Return the weights of ``product`` or one of :data:`PRESETS`."""
    if name == "product":
        return rank.WEIGHTS
    kept = {"plain": PLAIN, "cosine": {"cosine": 1.0}, "words": {"bm25": 1.0}}[name]
    return rank.Weights(**{signal: kept.get(signal, 0.0) for signal in rank.Weights.__struct_fields__})


def without(weights: rank.Weights, signal: str) -> rank.Weights:
    """Return ``weights`` without a signal.

    Raises:
        ConfigError: There is no such signal.
    """
    names = rank.Weights.__struct_fields__
    if signal not in names:
        raise ConfigError(f"unknown signal {signal!r} in --ablate", hint=f"known are {', '.join((*names, EACH))}")
    return structs.replace(weights, **{signal: 0.0})


def variants(weights: rank.Weights) -> dict[str, rank.Weights]:
    """Return what the table compares with ``weights``, by the name of its row."""
    signals = [name for name in rank.Weights.__struct_fields__ if getattr(weights, name)]
    return {name: preset(name) for name in PRESETS} | {f"without {name}": without(weights, name) for name in signals}


def rows(names: Sequence[str], results: Sequence[CaseResult], unit: Unit) -> list[dict[str, Any]]:
    """Return one row for each of ``names``: figures, and the questions that moved against the whole ranker.

    Args:
        names: Of the variants, in the order in which ``results`` hold them.
        results: Of all cases.
        unit: What a hit must be.
    """
    whole = _lines([one for result in results for one in result.asked], unit)
    found = []
    for at, name in enumerate(names):
        asked = [one for result in results for one in result.others[at]]
        figures = recall_metrics.figures(recall_summary.judged(asked, unit))
        pair = recall_summary.compared(_lines(asked, unit), whole, unit).paired[0]
        found.append(
            {
                "name": name,
                "recallAny": {str(k): figures.any_at[k] for k in recall_metrics.KS},
                "mrr": round(figures.mrr, 4),
                "wholeGains": pair.gained,
                "wholeLoses": pair.lost,
                "pValue": recall_metrics.written(pair.p_value),
            }
        )
    return found


def table(report: dict[str, Any]) -> str:
    """Return the rows as text, the whole ranker first."""
    lines = [
        f"{'ranker':<20}" + "".join(f"{f'R@{k}':>7}" for k in recall_metrics.KS) + f"{'MRR':>9}  the whole ranker's R@1"
    ]
    whole = [report["recallAny"][str(k)]["count"] for k in recall_metrics.KS]
    lines.append(f"{'all signals':<20}" + "".join(f"{count:>7}" for count in whole) + f"{report['mrr']:>9.4f}")
    for row in report["ablation"]:
        counts = "".join(f"{row['recallAny'][str(k)]:>7}" for k in recall_metrics.KS)
        moved = f"+{row['wholeGains']} -{row['wholeLoses']} ({recall_metrics.shown(row['pValue'])})"
        lines.append(f"{row['name']:<20}{counts}{row['mrr']:>9.4f}  {moved}")
    return "\n".join(lines)


def _lines(asked: Sequence[Asked], unit: Unit) -> tuple[recall_summary.Line, ...]:
    return tuple(recall_summary.line_of(one, unit) for one in asked)
