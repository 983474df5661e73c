"""The rows of the bench of embedding for readers: a table, and one picture."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from palace_daemon.bench import picture as frame
from palace_daemon.bench.embed_rows import REFERENCE

INDEPENDENT = 0.99999
"""Least cosine of a text in company with itself alone from which a vector counts as its text's own."""

Row = Mapping[str, Any]

_NAME_PX, _BAR_PX, _CLOSE_PX, _COMPANY_PX = 330, 250, 190, 210
_ROW_PX, _BAR_HEIGHT_PX = 27, 17
_FIGURES_PX = 140
"""Beside a bar: tokens per CPU-second and the ratio."""
_HEAD_PX, _FOOT_PX = 84, 62
_TEXT, _DIM, _PRODUCT, _OTHER = "#d5dbe3", "#98a3b0", "#7ee0a8", "#5f7fa6"
_CHANGES = "#f0956a"


def table(report: Mapping[str, Any]) -> str:
    """Return the rows as text, the product's last."""
    head = (
        f"{report['texts']} texts, {report['tokens']} tokens, {report['threads']} threads; {report['machine']}\n"
        f"tokenising alone: {report['tokenisingTokensPerCpuSecond']:,} tokens per CPU-second, part of every row"
    )
    columns = ("tokens/CPU-s", "x fp32", "texts/s", "peak MB", "cosine mean", "least", "in company")
    lines = [head, "", f"{'':<46}" + "".join(f"{name:>13}" for name in columns)]
    for row in report["rows"]:
        cells = (
            f"{row['tokensPerCpuSecond']:,}",
            f"{row['ratioToFp32']:.2f}",
            f"{row['textsPerSecond']:.1f}",
            f"{row['rssMb']:.0f}" if "rssMb" in row else "",
            f"{row['cosineToFp32Mean']:.5f}",
            f"{row['cosineToFp32Min']:.5f}",
            "alone" if row["worstBatchedVsAlone"] is None else f"{row['worstBatchedVsAlone']:.7f}",
        )
        lines.append(f"{row['name']:<46}" + "".join(f"{cell:>13}" for cell in cells))
    lines += ["", f"x fp32: against {REFERENCE}. The fastest of fp32: {report['fastestFp32']}."]
    if "coldLoadMs" in report:
        loads = ", ".join(f"{model} {took} ms" for model, took in report["coldLoadMs"].items())
        lines.append(f"cold load, a fresh process from import to ready: {loads}")
        lines.append(f"peak MB: of a process of its own; {report['rssBaseMb']:.0f} of it interpreter and libraries")
    return "\n".join(lines)


def picture(report: Mapping[str, Any]) -> str:
    """Return an SVG: a bar for each row, with how close its vectors are and whether they depend on their company."""
    rows = report["rows"]
    width = frame.MARGIN_PX * 2 + _NAME_PX + _BAR_PX + _FIGURES_PX + _CLOSE_PX + _COMPANY_PX
    height = _HEAD_PX + _ROW_PX * len(rows) + _FOOT_PX
    most = max(row["tokensPerCpuSecond"] for row in rows)
    parts = [_text(frame.MARGIN_PX, 28, "Tokens embedded per CPU-second, and what the vectors are worth", _TEXT, 16)]
    left = frame.MARGIN_PX + _NAME_PX
    close_x, company_x = left + _BAR_PX + _FIGURES_PX, left + _BAR_PX + _FIGURES_PX + _CLOSE_PX
    parts += [
        _text(left, 64, "tokens per CPU-second, x fp32", _DIM),
        _text(close_x, 64, "cosine to fp32, least", _DIM),
        _text(company_x, 64, "the same text in company", _DIM),
    ]
    for number, row in enumerate(rows):
        middle = _HEAD_PX + _ROW_PX * number + _ROW_PX / 2
        parts += _bar(row, left, middle, _BAR_PX * row["tokensPerCpuSecond"] / most)
        parts.append(_text(close_x, middle + 5, f"{row['cosineToFp32Min']:.4f}", _TEXT))
        parts.append(_company(company_x, middle, row["worstBatchedVsAlone"]))
    reference = next(row for row in rows if row["name"] == REFERENCE)
    at = left + _BAR_PX * reference["tokensPerCpuSecond"] / most
    parts.append(
        f'<line x1="{at:.0f}" x2="{at:.0f}" y1="{_HEAD_PX}" y2="{height - _FOOT_PX}" stroke="{_DIM}"'
        ' stroke-dasharray="3 4"/>'
    )
    parts.append(_text(frame.MARGIN_PX, height - 34, "Green: what Palace runs. Dashed: fp32, one text a call.", _DIM))
    parts.append(_text(frame.MARGIN_PX, height - 14, f"{report['texts']} texts; {report['machine']}", _DIM))
    return frame.card("\n".join(parts), width, height, "Speed of ways to embed, and how far vectors hold")


def is_product(row: Row) -> bool:
    """Return whether the row is one of what the daemon runs."""
    return str(row["kind"]).startswith("as the daemon runs it")


def _bar(row: Row, left: float, middle: float, length: float) -> list[str]:
    colour = _PRODUCT if is_product(row) else _OTHER
    figures = f"{row['tokensPerCpuSecond']:>6,}  {row['ratioToFp32']:.2f} x"
    top = middle - _BAR_HEIGHT_PX / 2
    size = f'width="{length:.1f}" height="{_BAR_HEIGHT_PX}" rx="3"'
    return [
        _text(frame.MARGIN_PX, middle + 5, row["name"], _PRODUCT if is_product(row) else _TEXT),
        f'<rect x="{left}" y="{top:.1f}" {size} fill="{colour}"/>',
        _text(left + _BAR_PX + 10, middle + 5, figures, _TEXT),
    ]


def _company(x: float, middle: float, worst: float | None) -> str:
    if worst is None:
        return _text(x, middle + 5, "(alone)", _DIM)
    if worst >= INDEPENDENT:
        return _text(x, middle + 5, "\u25cf the same vector", _PRODUCT)
    return _text(x, middle + 5, f"\u25b2 another: down to {worst:.3f}", _CHANGES)


def _text(x: float, y: float, words: str, colour: str, size: int = 13) -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{colour}" xml:space="preserve">{escape(words)}</text>'
    )
