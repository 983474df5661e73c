"""How a run of ``--bench recall`` is shown: a table for the terminal, and one page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from palace_daemon.bench.recall_metrics import KS, shown

_MOVED_SHOWN = 20
_BAR_PX = 220
_BAR_HEIGHT_PX = 14
_COLUMNS = ("any@1", "any@3", "any@5", "any@10", "all@5", "all@10", "MRR")

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1d2733 }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; margin: .5rem 0 } th, td { padding: .25rem .6rem; text-align: right }
th:first-child, td:first-child { text-align: left } thead th { border-bottom: 2px solid #9aa7b5 }
tbody tr:nth-child(even) { background: #f2f5f8 } .muted { color: #5b6875 } svg { vertical-align: middle }
@media (prefers-color-scheme: dark) { body { background: #14181d; color: #d5dbe3 }
 tbody tr:nth-child(even) { background: #1d232a } .muted { color: #93a0ad } }
"""


def table(report: Mapping[str, Any]) -> str:
    """Return the run for a terminal: head, figures by kind of question, costs, and what moved."""
    width = max([len(kind) for kind in report["perType"]] + [len("all questions"), len("by session")]) + 2
    lines = [_title(report), "", f"{'kind':<{width}}{'n':>5}" + "".join(f"{name:>15}" for name in _COLUMNS)]
    for kind, figures in _rows(report):
        lines.append(f"{kind:<{width}}{figures['n']:>5}" + "".join(f"{cell:>15}" for cell in _cells(figures)))
    return "\n".join([*lines, "", *_notes(report), *_movements(report)])


def _title(report: Mapping[str, Any]) -> str:
    ablated = f" without {', '.join(report['ablated'])}" if report["ablated"] else ""
    return (
        f"{_subject(report)}, {report['chunking']} drawers, {report['model']}, {report['ranker']} ranker{ablated};"
        f" a hit is the right {report['unit']}; fingerprint {report['fingerprint']}"
    )


def _subject(report: Mapping[str, Any]) -> str:
    """Return the set, and how much of it was asked; a limit that the set does not reach cuts nothing."""
    limit = report["limit"]
    is_cut = limit is not None and report["questions"] >= limit
    return f"{report['set']} cut to its first {report['questions']} questions" if is_cut else str(report["set"])


def _rows(report: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "all questions", report
    if "bySession" in report:
        yield "by session", report["bySession"]
    if len(report["perType"]) > 1:
        yield from report["perType"].items()


def _cells(figures: Mapping[str, Any]) -> list[str]:
    shares = [figures["recallAny"][str(k)] for k in KS] + [figures["recallAll"][str(k)] for k in KS[2:]]
    return [f"{one['count']} ({one['share']:.3f})" for one in shares] + [f"{figures['mrr']:.3f}"]


def _notes(report: Mapping[str, Any]) -> list[str]:
    """Return what was counted, left out and measured, in sentences."""
    left_out = [f"{report['abstentions']} about abstention", f"{report['withoutGold']} without gold"]
    notes = [f"{report['questions']} questions asked; left out of the figures: {', '.join(left_out)}."]
    if report["goldUnusable"] or report["goldNotStored"]:
        notes.append(
            f"Gold of the set that cannot be used: {report['goldUnusable']}, not counted;"
            f" gold that no exchange holds: {report['goldNotStored']}, counted as not found."
        )
    notes.append(
        f"{report['cases']} haystacks, {report['sessions']:,} sessions, {report['exchanges']:,} exchanges,"
        f" {report['drawers']:,} drawers" + (f", {report['truncated']:,} of them cut short." if _cut(report) else ".")
    )
    stored = f"Stored at {report['drawersPerSecond']} drawers a second" if report["drawers"] else "Nothing stored"
    speed = report["embeddedPerSecond"]
    embedding = f"{report['embedded']:,} texts embedded at {speed} a second, " if speed else "no text embedded, "
    notes.append(
        f"{stored}; {embedding}{report['fromCache']:,} from the cache."
        f" A query takes {report['queryMsP50']} ms (p50), {report['queryMsP95']} ms (p95)."
        f" {report['rssMb']} MB resident. {report['seconds']} s in all; processes: {report['jobs']}."
    )
    return [*notes, f"{report['machine']}."]


def _cut(report: Mapping[str, Any]) -> bool:
    return bool(report["truncated"]) or report["chunking"] == "session"


def _movements(report: Mapping[str, Any]) -> list[str]:
    change = report.get("baseline")
    if not change:
        return []
    lines = ["", f"Against the baseline, {change['n']} questions in common:"]
    for k, pair in change["paired"].items():
        lines.append(f"  any@{k:<3} {_paired(pair)}")
    for name, sign in (("up", "better"), ("down", "worse")):
        moved = change[name]
        shown = ", ".join(_moved(one) for one in moved[:_MOVED_SHOWN])
        more = f" and {len(moved) - _MOVED_SHOWN} more" if len(moved) > _MOVED_SHOWN else ""
        lines.append(f"  {len(moved)} {sign}{': ' if moved else ''}{shown}{more}")
    return lines


def _paired(pair: Mapping[str, Any]) -> str:
    return f"+{pair['gained']} -{pair['lost']}, exact McNemar {shown(pair['pValue'])}"


def _moved(one: Mapping[str, Any]) -> str:
    return f"{_name(one)} {one['before'] or '-'} to {one['after'] or '-'}"


def _name(one: Mapping[str, Any]) -> str:
    """Return what a question is called: with its haystack, unless its own name begins with that."""
    haystack, question = one["haystackId"], one["questionId"]
    return str(question) if f"{question}:".startswith(f"{haystack}:") else f"{haystack}/{question}"


# -------------------------------------------------------------------------------------------------------------- page


def page(report: Mapping[str, Any]) -> str:
    """Return the run as one page of HTML without scripts, fonts or pictures from elsewhere."""
    head = "".join(f"<th>{escape(name)}</th>" for name in ("kind", "n", "any@1", "", *_COLUMNS[1:]))
    body = "\n".join(_row(kind, figures) for kind, figures in _rows(report))
    notes = "\n".join(f"<p class=muted>{escape(note)}</p>" for note in _notes(report))
    title = escape(f"Recall on {_subject(report)}")
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>{_STYLE}</style></head><body>
<h1>{title}</h1>
<p>{escape(_title(report))}</p>
<table><thead><tr>{head}</tr></thead><tbody>
{body}
</tbody></table>
{notes}
{_page_movements(report)}
</body></html>
"""


def _row(kind: str, figures: Mapping[str, Any]) -> str:
    first, *others = _cells(figures)
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in others)
    bar = _bar(figures["recallAny"]["1"]["share"], figures["recallAny"]["10"]["share"])
    return f"<tr><td>{escape(kind)}</td><td>{figures['n']}</td><td>{escape(first)}</td><td>{bar}</td>{cells}</tr>"


def _bar(first: float, ten: float) -> str:
    """Return a bar of the share that is right at once, on a paler one of the share among the first ten."""
    label = f"{first:.3f} first, {ten:.3f} among ten"
    return (
        f'<svg width="{_BAR_PX}" height="{_BAR_HEIGHT_PX}" role="img" aria-label="{label}">'
        f'<rect width="{_BAR_PX}" height="{_BAR_HEIGHT_PX}" rx="3" fill="#8a97a5" fill-opacity="0.18"/>'
        f'<rect width="{ten * _BAR_PX:.1f}" height="{_BAR_HEIGHT_PX}" rx="3" fill="#3f9f78" fill-opacity="0.35"/>'
        f'<rect width="{first * _BAR_PX:.1f}" height="{_BAR_HEIGHT_PX}" rx="3" fill="#2f8f68"/></svg>'
    )


def _page_movements(report: Mapping[str, Any]) -> str:
    change = report.get("baseline")
    if not change:
        return ""
    pairs = "".join(f"<li>any@{escape(k)}: {escape(_paired(pair))}</li>" for k, pair in change["paired"].items())
    return (
        f"<h2>Against the baseline, {change['n']} questions in common</h2>\n<ul>{pairs}</ul>\n"
        + _page_moved("Better", change["up"])
        + _page_moved("Worse", change["down"])
    )


def _page_moved(title: str, moved: Sequence[Mapping[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td>{escape(_name(one))}</td><td>{one['before'] or '-'}</td><td>{one['after'] or '-'}</td></tr>"
        for one in moved
    )
    return (
        f"<h2>{title}: {len(moved)}</h2>\n<table><thead><tr><th>question</th><th>rank before</th><th>rank now</th></tr>"
        f"</thead><tbody>{rows}</tbody></table>\n"
    )
