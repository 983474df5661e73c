"""Draws what a command prints as an SVG terminal, for the README: ``python -m palace_daemon.bench.picture OUT``.

Its card, dark in itself and so readable on a light and on a dark page, is that of the other pictures as well.

The daemon runs over the packaged sample sessions under a temporary home, so the picture shows the real thing and
nobody's transcripts.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

import palace_daemon
from palace_daemon import places

QUESTION = "why did we move the job queue out of Redis?"
COLUMNS = 104
_HIT = re.compile(r" ?\d+  \d\.\d+  ")
LINES_MAX = 26
_ADVANCE_PX = 8.4
_LINE_PX = 19
MARGIN_PX = 18
"""Around what a card shows."""
_FONTS = "ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace"


def main() -> int:
    """Mine the samples, ask one question, and write the picture to the path in the first argument."""
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="palace-picture-") as root:
        samples = Path(palace_daemon.__file__).parent / "samples"
        _palace(root, "mine", str(samples), "--wait")
        answer = _palace(root, "recall", "--limit", "2", QUESTION)
        _palace(root, "stop")
    shown = answer.replace(f"{samples}/claude-code", "~/.claude/projects")
    text = f"$ palace-daemon recall --limit 2 {QUESTION}\n{shown}"
    target.write_text(svg(text.splitlines()[:LINES_MAX]), encoding="utf-8")
    return 0


def _palace(root: str, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "PYTHONPATH"}}
    environment |= {
        "HOME": root,
        "XDG_RUNTIME_DIR": root,
        "PALACE_HOME": f"{root}/data",
        "PALACE_MODELS": str(places.models_dir()),
        "COLUMNS": str(COLUMNS),
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "palace_daemon", *arguments], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


def svg(lines: list[str]) -> str:
    """Return an SVG of a dark terminal that shows ``lines``; the command and the hits' headings stand out."""
    width = round(2 * MARGIN_PX + COLUMNS * _ADVANCE_PX)
    height = 2 * MARGIN_PX + _LINE_PX * len(lines)
    rows = []
    for number, line in enumerate(lines):
        y = MARGIN_PX + _LINE_PX * (number + 0.75)
        rows.append(
            f'<text x="{MARGIN_PX}" y="{y:.0f}" fill="{_colour(line)}" xml:space="preserve">{escape(line)}</text>'
        )
    return card("\n".join(rows), width, height)


def card(body: str, width: int, height: int, title: str = "") -> str:
    """Return an SVG of a dark card.

    Args:
        body: SVG elements.
        width: In pixels.
        height: In pixels.
        title: What it shows, for those who do not see it.
    """
    named = f"<title>{escape(title)}</title>\n" if title else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f'{named}<rect width="100%" height="100%" rx="8" fill="#14181d"/>\n'
        f'<g font-family="{_FONTS}" font-size="14">\n{body}\n</g>\n</svg>\n'
    )


def _colour(line: str) -> str:
    if line.startswith("$"):
        return "#7ee0a8"
    return "#f2c66d" if _HIT.match(line) else "#d5dbe3"


if __name__ == "__main__":
    sys.exit(main())
