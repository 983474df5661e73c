"""Results for people: plain text that fits an 80-column terminal, and JSON for everything else.

Transcripts hold whatever an agent printed. Control characters are replaced before they reach a terminal, which would
otherwise obey them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_WIDTH_MAX = 100
SNIPPET_LINES = 5
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "cyan": "36"}


def print_json(value: Any) -> None:
    """Print ``value`` as indented JSON, in ASCII where the terminal knows no better."""
    is_utf8 = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    print(json.dumps(value, indent=2, ensure_ascii=not is_utf8))


def paint(text: str, style: str) -> str:
    """Return ``text`` in a style, on a terminal that wants colours."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if wants_colour() else text


def wants_colour() -> bool:
    """Return whether standard output is a terminal and nothing (``NO_COLOR``, ``TERM=dumb``) speaks against colours."""
    return (
        bool(sys.stdout) and sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


def width() -> int:
    """Return the columns to fill: the terminal's, at most 100; 80 where there is none."""
    return min(_WIDTH_MAX, max(40, shutil.get_terminal_size((80, 24)).columns))


def clean(text: str) -> str:
    """Return ``text`` with control characters, but for tab and line feed, made visible as U+FFFD."""
    return _CONTROL.sub("\ufffd", text.replace("\r\n", "\n"))


def one_line(text: str, columns: int) -> str:
    """Return ``text`` on one line of at most ``columns`` columns, runs of white space as one space."""
    return cut(" ".join(text.split()), columns)


def cut(line: str, columns: int) -> str:
    """Return ``line``, shortened to ``columns`` columns."""
    cleaned = clean(line).replace("\n", " ")
    if columns_of(cleaned) <= columns:
        return cleaned
    return next(_fold_line(cleaned, columns - 1), "") + "…"


def columns_of(text: str) -> int:
    """Return how many columns a terminal gives ``text``: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fold(text: str, columns: int) -> list[str]:
    """Return the lines of ``text``, longer ones broken at spaces where there are any."""
    return [
        part for line in clean(text).expandtabs(4).split("\n") for part in (_fold_line(line, columns) if line else [""])
    ]


def _fold_line(line: str, columns: int) -> Iterator[str]:
    while line:
        used = end = 0
        for character in line:
            used += _columns(character)
            if used > columns:
                break
            end += 1
        if end < len(line) and (space := line.rfind(" ", 1, end + 1)) > end // 2:
            end = space
        end = max(end, 1)
        yield line[:end].rstrip()
        line = line[end:].lstrip()


def snippet(text: str, terms: Sequence[str], columns: int, lines: int = SNIPPET_LINES) -> list[str]:
    """Return the part of ``text`` that shows most of the matched terms, from the beginning where none is found."""
    folded = [line for line in fold(text, columns) if line.strip()]
    if len(folded) <= lines:
        return folded
    lowered = [line.lower() for line in folded]
    counts = [sum(term.lower() in line for term in terms) for line in lowered]
    best = max(range(len(folded) - lines + 1), key=lambda first: (sum(counts[first : first + lines]), -first))
    shown = folded[best : best + lines]
    if best > 0:
        shown[0] = "… " + one_line(shown[0], columns - 2)
    if best + lines < len(folded):
        shown[-1] = one_line(shown[-1], columns - 2) + " …"
    return shown


def tilde(path: str) -> str:
    """Return ``path`` with the home directory as ``~``."""
    home = str(Path.home())
    return clean(f"~{path[len(home) :]}" if path.startswith(home + os.sep) else path)


def place(path: str, line_start: int, line_end: int) -> str:
    """Return ``path:first-last``, unbroken, so that it can be copied or clicked; notes stand in no file."""
    if path == "palace:notes":
        return "a note"
    return f"{tilde(path)}:{line_start}" + (f"-{line_end}" if line_end > line_start else "")


def local_time(stamp: str | None) -> str:
    """Return a wire time in this machine's zone, to the minute."""
    if not stamp:
        return "no date"
    import datetime as dt  # noqa: PLC0415 - a millisecond that status need not pay

    return dt.datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M")


def size(n_bytes: int) -> str:
    """Return a number of bytes as people say it."""
    value = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{n_bytes} B" if unit == "B" else f"{value:.1f} {unit}"


def count(number: int, noun: str) -> str:
    """Return ``1 file`` or ``2,000 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class Whole(str):
    """A path or an id, which stays on one line however long it is, so that it can be copied."""

    __slots__ = ()


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values in two columns."""
    rows = list(pairs)
    indent = max(len(name) for name, _ in rows) + 2
    for name, value in rows:
        lines = [clean(value)] if isinstance(value, Whole) else fold(value, max(20, width() - indent))
        first, *rest = lines or [""]
        print(f"{name:<{indent}}{first}".rstrip())
        for line in rest:
            print(" " * indent + line)


def file_pairs(name: str, reasons: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the rows that list files, each with its reason on the next line."""
    return [
        pair for path, reason in sorted(reasons.items()) for pair in ((name, Whole(tilde(path))), ("", clean(reason)))
    ]


def print_mine_report(report: Mapping[str, Any]) -> None:
    """Print what a mining run did: counts, rate, skipped lines by reason, failures by file."""
    seconds = max(report["secondsToVectors"], report["seconds"])
    rate = (
        f", {report['drawersAdded'] / seconds:,.0f} drawers a second" if seconds > 0 and report["drawersAdded"] else ""
    )
    exchanges = f"{report['exchangesAdded']:,} new, {report['exchangesReplaced']:,} grown"
    pairs = [
        ("files", f"{report['files']:,} mined, {report['filesFailed']:,} failed"),
        ("sessions", f"{report['sessions']:,}"),
        ("exchanges", f"{exchanges}, {report['exchangesSuperseded']:,} superseded"),
        ("drawers", f"{report['drawersAdded']:,} new, {report['drawersRemoved']:,} removed"),
        ("vectors", f"{report['vectorsAdded']:,} new"),
        ("seconds", f"{seconds:.1f}{rate}"),
    ]
    if report["vectorsReason"]:
        pairs.append(("meaning", clean(report["vectorsReason"])))
    skipped = sorted(report["linesSkipped"].items())
    pairs += [("skipped", f"{count(lines, 'line')}: {reason.replace('_', ' ')}") for reason, lines in skipped]
    left_out = sorted(report["exchangesLeftOut"].items())
    pairs += [("left out", f"{count(times, 'exchange')}: {reason.replace('_', ' ')}") for reason, times in left_out]
    pairs += file_pairs("left out", report["filesSkipped"])
    pairs += file_pairs("failed", report["failures"])
    print_pairs(pairs)
