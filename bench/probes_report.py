"""What the questions of one's own store came to, for readers and for other programs. Ids and ranks only, never text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from palace_daemon.bench import recall_metrics
from palace_daemon.bench.probes_sample import Probe
from palace_daemon.bench.recall_metrics import Judged, Key, Ranks

SHOWN = (1, 5, 10)


class Asked(NamedTuple):
    """All questions under one ranker and one model."""

    ranker: str
    model_id: str
    """Empty where no model takes part."""
    ranks: list[int | None]
    """In the order of the questions."""

    @property
    def name(self) -> str:
        """Return what tells it from all others of a run."""
        return f"{self.ranker}, {self.model_id}" if self.model_id else self.ranker


def rows(probes: Sequence[Probe], asked: Sequence[Asked]) -> list[dict[str, Any]]:
    """Return one row for each of ``asked``; a further model is compared with the first under the same ranker."""
    found = []
    firsts: dict[str, Asked] = {}
    for one in asked:
        first = firsts.setdefault(one.ranker, one)
        figures = recall_metrics.figures(
            [
                Judged(question_id=probe.public_id, kind=probe.side, ranks=(rank,))
                for probe, rank in zip(probes, one.ranks, strict=True)
            ]
        )
        row: dict[str, Any] = {
            "ranker": one.ranker,
            "model": one.model_id,
            "recallAny": {
                str(k): {"count": figures.any_at[k], "share": round(figures.any_at[k] / figures.n, 4)} for k in SHOWN
            },
            "mrr": round(figures.mrr, 4),
        }
        if first is not one:
            moved = recall_metrics.compare(_by_key(probes, first), _by_key(probes, one)).paired[0]
            row["againstFirstModel"] = {
                "gained": moved.gained,
                "lost": moved.lost,
                "pValue": recall_metrics.written(moved.p_value),
            }
        found.append(row)
    return found


def questions(probes: Sequence[Probe], asked: Sequence[Asked]) -> list[dict[str, Any]]:
    """Return for each question its exchange, who said it, and its rank by name of what was asked."""
    return [
        {"exchange": probe.public_id, "side": probe.side, "ranks": {one.name: one.ranks[at] for one in asked}}
        for at, probe in enumerate(probes)
    ]


def table(report: Mapping[str, Any]) -> str:
    """Return the report as text."""
    share = f"{report['drop']:.0%} of their words left out"
    if report["isWhole"]:
        searched = f"the whole store, {report['exchanges']:,} exchanges"
    else:
        searched = f"{report['searched']:,} of {report['exchanges']:,} exchanges, since a model lacks vectors"
    lines = [f"{report['asked']} sentences of the store, {share} (seed {report['seed']}); searched: {searched}"]
    lines += [
        f"{made['model']}: {made['fromStore']:,} vectors from the store, {made['embedded']:,} made for this run"
        for made in report["models"]
    ]
    lines += ["", f"{'ranked by':<42}" + "".join(f"{f'R@{k}':>7}" for k in SHOWN) + f"{'MRR':>9}"]
    for row in report["rows"]:
        name = f"{row['ranker']}, {row['model']}" if row["model"] else row["ranker"]
        counts = "".join(f"{row['recallAny'][str(k)]['count']:>7}" for k in SHOWN)
        lines.append(f"{name:<42}{counts}{row['mrr']:>9.4f}{_moved(row)}")
    return "\n".join(lines)


def _moved(row: Mapping[str, Any]) -> str:
    against = row.get("againstFirstModel")
    if against is None:
        return ""
    return f"  R@1 +{against['gained']} -{against['lost']} ({recall_metrics.shown(against['pValue'])})"


def _by_key(probes: Sequence[Probe], asked: Asked) -> dict[Key, Ranks]:
    return {Key("", probe.public_id): (rank,) for probe, rank in zip(probes, asked.ranks, strict=True)}
