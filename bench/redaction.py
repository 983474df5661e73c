"""How fast are secrets found, how many are missed, and what is taken for one? Our rules beside libraries.

Three questions, the same texts for all: made-up lines with one secret each (hits, and how many of those are hidden
whole), lines without (false positives), and real text (speed, and what is found there). Only CPU time counts.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from palace_daemon.bench import machine
from palace_daemon.bench.redaction_engines import Engine, engines
from palace_daemon.bench.redaction_samples import Positive, minified, negatives, positives
from palace_daemon.core.transcripts import registry as formats

_PIECE_CHARS = 64 * 1024
_WINDOW_CHARS = 8
"""So many characters of a secret in a row that are left over count as not hidden."""
_MEGABYTE = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this bench's arguments."""
    parser.add_argument(
        "--path", type=Path, help="transcripts to read: what is mined of them, and the files as they are"
    )
    parser.add_argument(
        "--megabytes", type=float, default=8.0, metavar="N", help="most text of each kind, evenly chosen (default 8)"
    )


def run(args: argparse.Namespace) -> int:
    """Print a row for each engine; returns 0."""
    texts = {"code": list(_code()), "minified": [minified()]}
    if args.path:
        texts |= {"mined": list(_mined(args.path)), "files": list(_files(args.path))}
    limit = int(args.megabytes * _MEGABYTE)
    report = measure({name: _spread(found, limit) for name, found in texts.items() if found})
    print(json.dumps(report) if args.json else _table(report))
    return 0


def measure(texts: dict[str, list[str]]) -> dict[str, Any]:
    """Return the report: a row for each engine, and what was read.

    Args:
        texts: Real texts by the kind of text; none of them may be empty lists.
    """
    found, absent = engines()
    return {
        "rows": [_row(engine, texts) for engine in found],
        "notInstalled": absent,
        "texts": {
            name: {"texts": len(some), "megabytes": round(sum(map(len, some)) / _MEGABYTE, 2)}
            for name, some in texts.items()
        },
        "machine": machine.describe(),
    }


def _row(engine: Engine, texts: dict[str, list[str]]) -> dict[str, Any]:
    row: dict[str, Any] = {"name": engine.name, "version": engine.version}
    row |= _score(engine, positives(), negatives())
    speeds, per_megabyte, rules = {}, {}, {}
    for name, some in texts.items():
        started = time.process_time()
        counts = Counter(one.rule for text in some for one in engine.find(text))
        seconds = time.process_time() - started
        megabytes = sum(map(len, some)) / _MEGABYTE
        speeds[name] = round(megabytes / max(seconds, 1e-6), 2)
        per_megabyte[name] = round(counts.total() / megabytes, 2)
        rules[name] = dict(counts.most_common())
    return row | {"megabytesPerSecond": speeds, "findingsPerMegabyte": per_megabyte, "findingsByRule": rules}


def _score(engine: Engine, lines: Sequence[Positive], clean: Sequence[str]) -> dict[str, Any]:
    """Count what is found in lines that hold one secret each, and in lines that hold none."""
    hits = whole = 0
    missed: Counter[str] = Counter()
    for line in lines:
        values = [one.value for one in engine.find(line.text)]
        hits += bool(values)
        is_whole = bool(values) and not _is_left(line.text, line.secret, values)
        whole += is_whole
        if not is_whole:
            missed[line.name] += 1
    wrong: Counter[str] = Counter()
    false_positives = 0
    for text in clean:
        rules = {one.rule for one in engine.find(text)}
        wrong.update(rules)
        false_positives += bool(rules)
    return {
        "positives": len(lines),
        "hits": hits,
        "whole": whole,
        "notWhole": dict(missed.most_common()),
        "negatives": len(clean),
        "falsePositives": false_positives,
        "falsePositivesByRule": dict(wrong.most_common()),
    }


def _is_left(text: str, secret: str, values: Sequence[str]) -> bool:
    """Return whether a piece of ``secret`` is left when ``values`` are taken out of ``text``."""
    for value in sorted(filter(None, values), key=len, reverse=True):
        text = text.replace(value, "\0")
    size = min(_WINDOW_CHARS, len(secret))
    return any(secret[at : at + size] in text for at in range(len(secret) - size + 1))


# ------------------------------------------------------------------------------------------------------------- texts


def _code() -> Iterator[str]:
    """Yield the sources of Python's own library."""
    for path in sorted(Path(os.__file__).parent.rglob("*.py")):
        if "site-packages" not in path.parts:
            yield path.read_text(encoding="utf-8", errors="replace")


def _mined(path: Path) -> Iterator[str]:
    """Yield each text that the parsers give out for the transcripts at or below ``path``, before redaction."""
    for file in _below(path):
        data = file.read_bytes()
        known = formats.detect(str(file), data[: formats.HEAD_BYTES])
        if known is None:
            continue
        parser = known.open(str(file), str)
        last = {one.key: one for result in (parser.feed(data), parser.take_tail()) for one in result.exchanges}
        for exchange in last.values():
            yield from filter(None, (exchange.user_text, exchange.reply_text))
            yield from filter(None, (tool.target for tool in exchange.tools))


def _files(path: Path) -> Iterator[str]:
    """Yield the files at or below ``path`` as they are, tool output and images included, in pieces of whole lines."""
    for file in _below(path):
        text = file.read_bytes().decode("utf-8", "replace")
        if "\0" in text[:_PIECE_CHARS]:
            continue
        at = 0
        while at < len(text):
            end = text.find("\n", at + _PIECE_CHARS) + 1 or len(text)
            yield text[at:end]
            at = end


def _below(path: Path) -> Iterator[Path]:
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            yield file


def _spread(texts: list[str], limit: int) -> list[str]:
    """Return texts of about ``limit`` characters, taken evenly from all of them."""
    step = max(1, -(-sum(map(len, texts)) // limit))
    return texts[::step]


def _table(report: dict[str, Any]) -> str:
    kinds = list(report["texts"])
    sizes = ", ".join(f"{name} {some['megabytes']} MB" for name, some in report["texts"].items())
    columns = [
        "hits",
        "whole",
        "false positives",
        *(f"{kind} MB/s" for kind in kinds),
        *(f"{k} found/MB" for k in kinds),
    ]
    lines = [f"{sizes}; {report['machine']}", f"{'':24}" + "".join(f"{column:>19}" for column in columns)]
    for row in report["rows"]:
        cells = [
            f"{row['hits']} of {row['positives']}",
            f"{row['whole']} of {row['positives']}",
            f"{row['falsePositives']} of {row['negatives']}",
            *row["megabytesPerSecond"].values(),
            *row["findingsPerMegabyte"].values(),
        ]
        lines.append(f"{row['name'] + ' ' + row['version']:24}" + "".join(f"{cell:>19}" for cell in cells))
    for row in report["rows"]:
        lines.append(f"{row['name']}: not whole {row['notWhole']}, false positives {row['falsePositivesByRule']}")
        lines += [f"{row['name']}, {kind}: {rules}" for kind, rules in row["findingsByRule"].items() if rules]
    lines += [f"not installed, so not compared: {name}" for name in report["notInstalled"]]
    return "\n".join(lines)
