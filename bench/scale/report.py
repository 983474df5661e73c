"""What a run of ``--bench scale`` is shown as: a table beside the goals, and a picture of cost against size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

Row = dict[str, Any]


class Goal(NamedTuple):
    """A goal that holds up to a number of drawers."""

    drawers: int
    most: float


class Figure(NamedTuple):
    """One line of the table."""

    name: str
    unit: str
    value: Callable[[Row], float | None]
    goals: tuple[Goal, ...] = ()


_100K, _1M = 100_000, 1_000_000
FIGURES = (
    Figure("recall, p50", "ms", lambda row: row["recallMsP50"], (Goal(_100K, 20), Goal(_1M, 60))),
    Figure("recall, p95", "ms", lambda row: row["recallMsP95"], (Goal(_100K, 40), Goal(_1M, 120))),
    Figure("recall, p99", "ms", lambda row: row["recallMsP99"]),
    Figure("recall, CPU time of the daemon", "ms", lambda row: row["recallCpuMs"]),
    Figure("first questions after the start, p50", "ms", lambda row: row["cold"]["p50"]),
    Figure("first questions after the start, p95", "ms", lambda row: row["cold"]["p95"]),
    Figure("several clients, p50", "ms", lambda row: row["clients"]["p50"]),
    Figure("several clients, p95", "ms", lambda row: row["clients"]["p95"]),
    Figure("several clients, answers a second", "", lambda row: row["clients"]["perSecond"]),
    Figure("while mining, p50", "ms", lambda row: row["whileMining"]["p50"]),
    Figure("while mining, p95", "ms", lambda row: row["whileMining"]["p95"]),
    Figure("several clients while mining, p95", "ms", lambda row: row["clientsWhileMining"]["p95"]),
    Figure("first ten as if all were scored", "%", lambda row: _share(row["exact"])),
    Figure("start to first answer", "ms", lambda row: row["startToFirstAnswerMs"], (Goal(_100K, 1_500),)),
    Figure("start to first answer with vectors", "ms", lambda row: row["startToFirstAnswerWithVectorsMs"]),
    Figure("start with vectors, CPU time", "s", lambda row: row["startCpuSeconds"]),
    Figure("resident memory", "MB", lambda row: row["rssMb"], (Goal(_100K, 550), Goal(_1M, 2_500))),
    Figure("line written to recallable", "ms", lambda row: row["addToRecallableMs"], (Goal(_1M, 1_000),)),
    Figure("storing one exchange", "ms", lambda row: row["addStoreMs"]),
    Figure("readers following it", "ms", lambda row: row["addFollowMs"]),
    Figure("disk", "MB", lambda row: row["diskMb"]),
    Figure("disk to text", "x", lambda row: row["diskToText"], (Goal(_1M, 6),)),
    Figure("disk for 1,000 exchanges", "MB", lambda row: row["diskMbPer1000Exchanges"]),
    Figure("index rebuilt in", "s", lambda row: row.get("rebuildSeconds")),
    Figure("built, drawers a second", "", lambda row: row["builtDrawersPerSecond"]),
)
_NAME_WIDTH = 38
_CELL_WIDTH = 14
_GOAL_MARK = "!"


def _share(exact: dict[str, int]) -> float | None:
    return 100 * exact["equal"] / exact["n"] if exact["n"] else None


def goal_of(figure: Figure, drawers: int) -> float | None:
    """Return the goal at a size: that of the smallest size that is not below it."""
    return next((goal.most for goal in figure.goals if drawers <= goal.drawers * 1.05), None)


def table(report: dict[str, Any]) -> str:
    """Return the table: a line a figure, a column a size, the goals of the sizes beside."""
    rows: Sequence[Row] = report["rows"]
    head = f"{'drawers':<{_NAME_WIDTH}}" + "".join(f"{row['drawers']:>{_CELL_WIDTH},}" for row in rows) + "   goal"
    lines = [f"{report['machine']}; {report['queries']} questions", "", head]
    for figure in FIGURES:
        cells = [_cell(figure, row) for row in rows]
        goals = list(dict.fromkeys(f"{goal.most:,g} at {goal.drawers:,}" for goal in figure.goals))
        lines.append(f"{figure.name:<{_NAME_WIDTH}}{''.join(cells)}   {', '.join(goals)}".rstrip())
    for number, one in enumerate(rows[0]["filters"]):
        name = f"only {one['name']}, p50"
        cells = [f"{row['filters'][number]['p50']:,.1f} ms" for row in rows]
        lines.append(f"{name:<{_NAME_WIDTH}}{''.join(f'{cell:>{_CELL_WIDTH}}' for cell in cells)}")
    if any(_GOAL_MARK in line for line in lines[3:]):
        lines += ["", f"{_GOAL_MARK} above the goal for its size"]
    return "\n".join(lines)


def _cell(figure: Figure, row: Row) -> str:
    value = figure.value(row)
    if value is None:
        return f"{'-':>{_CELL_WIDTH}}"
    goal = goal_of(figure, row["drawers"])
    mark = _GOAL_MARK if goal is not None and value > goal else " "
    return f"{f'{value:,.1f} {figure.unit}'.strip():>{_CELL_WIDTH - 1}}{mark}"


# ------------------------------------------------------------------------------------------------------ the picture

_PANELS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("recall", "ms", (("recallMsP50", "p50"), ("recallMsP95", "p95"))),
    ("start to first answer", "ms", (("startToFirstAnswerMs", "by words"), ("startToFirstAnswerWithVectorsMs", "all"))),
    ("memory", "MB", (("rssMb", "resident"),)),
    ("one exchange more", "ms", (("addStoreMs", "stored"), ("addFollowMs", "readers follow"))),
)
_GOALS = {"recallMsP50": ((_100K, 20), (_1M, 60)), "recallMsP95": ((_100K, 40), (_1M, 120))} | {
    "startToFirstAnswerMs": ((_100K, 1_500),),
    "rssMb": ((_100K, 550), (_1M, 2_500)),
}
_PANEL_W, _PANEL_H = 400, 250
_LEFT, _TOP, _RIGHT, _BOTTOM = 58, 40, 110, 34
_LINE_H = 15
_COLOURS = ("#7ee0a8", "#f2c66d")
_TEXT, _FAINT, _BACKGROUND = "#d5dbe3", "#46515d", "#14181d"
_FONTS = "ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace"


def picture(report: dict[str, Any]) -> str:
    """Return an SVG of cost against size, both logarithmic; rings are goals."""
    rows = sorted(report["rows"], key=lambda row: row["drawers"])
    panels = []
    for number, (title, unit, lines) in enumerate(_PANELS):
        x, y = (number % 2) * _PANEL_W, (number // 2) * _PANEL_H
        panels.append(f'<g transform="translate({x} {y})">{_panel(title, unit, lines, rows)}</g>')
    width, height = 2 * _PANEL_W, 2 * _PANEL_H
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f'<rect width="100%" height="100%" rx="8" fill="{_BACKGROUND}"/>\n'
        f'<g font-family="{_FONTS}" font-size="12" fill="{_TEXT}">\n' + "\n".join(panels) + "\n</g>\n</svg>\n"
    )


def _panel(title: str, unit: str, lines: Sequence[tuple[str, str]], rows: Sequence[Row]) -> str:
    sizes = [row["drawers"] for row in rows]
    goals = [goal for key, _ in lines for goal in _GOALS.get(key, ()) if goal[0] <= max(sizes) * 1.05]
    values = [max(row[key], 1e-3) for row in rows for key, _ in lines] + [most for _, most in goals]
    across = _Scale([*sizes, *(size for size, _ in goals)], _LEFT, _PANEL_W - _RIGHT)
    upward = _Scale(values, _PANEL_H - _BOTTOM, _TOP)
    parts = [f'<text x="{_LEFT}" y="22" font-size="14">{escape(title)}, {escape(unit)}</text>']
    for value in upward.ticks():
        y = upward.at(value)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_PANEL_W - _RIGHT}" stroke="{_FAINT}" stroke-width="0.5"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:,g}</text>')
    for value in across.ticks():
        x = across.at(value)
        parts.append(f'<text x="{x:.1f}" y="{_PANEL_H - _BOTTOM + 20}" text-anchor="middle">{_short(value)}</text>')
    label_ys = _apart([upward.at(max(rows[-1][key], 1e-3)) for key, _ in lines])
    for (key, name), colour, label_y in zip(lines, _COLOURS, label_ys, strict=False):
        parts += _line(key, colour, rows, across, upward)
        x = across.at(sizes[-1]) + 8
        parts.append(f'<text x="{x:.1f}" y="{label_y + 4:.1f}" fill="{colour}">{escape(name)}</text>')
    return "".join(parts)


def _apart(ys: Sequence[float]) -> list[float]:
    """Return the heights of labels, moved down as far as it takes for each to be readable."""
    found = list(ys)
    for upper, lower in itertools.pairwise(sorted(range(len(found)), key=found.__getitem__)):
        found[lower] = max(found[lower], found[upper] + _LINE_H)
    return found


def _line(key: str, colour: str, rows: Sequence[Row], across: _Scale, upward: _Scale) -> list[str]:
    points = [(across.at(row["drawers"]), upward.at(max(row[key], 1e-3))) for row in rows]
    shown = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts = [f'<polyline points="{shown}" fill="none" stroke="{colour}" stroke-width="2"/>']
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
    for size, most in _GOALS.get(key, ()):
        if size <= rows[-1]["drawers"] * 1.05:
            parts.append(
                f'<circle cx="{across.at(size):.1f}" cy="{upward.at(most):.1f}" r="6" fill="none" stroke="{colour}"/>'
            )
    return parts


def _short(value: float) -> str:
    return f"{value / 1e6:g}M" if value >= 1e6 else f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"


class _Scale:
    """A logarithmic scale over whole powers of ten."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        self._low = math.floor(math.log10(min(values)))
        self._high = max(math.ceil(math.log10(max(values))), self._low + 1)
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return self._begin + share * (self._end - self._begin)

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self._low, self._high + 1)]
