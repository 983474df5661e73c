"""How fast are the models, how close is int8 to fp32, and does a vector depend on its company?

All ways to embed take turns in one process: fp32 one text a call, which all else is compared with; fp32 in batches as
they come; the runtime's own dynamic int8; and the product's two models, as the daemon runs them. What is counted:

* ``tokensPerCpuSecond``: CPU time of the whole process, one thread, everything from text to vector: tokenising,
  padding, the graph, handing texts to threads. How fast tokenising alone is stands beside it. Tokens are those of the
  texts; padding is work, not output.
* ``textsPerSecond``: by the wall clock, on all threads, over the first round.
* ``cosineToFp32``: of each text's vector with the one that fp32 gives it alone.
* ``worstBatchedVsAlone``: the least cosine of a text's vector in company with its vector alone, from the same graph.
* ``rssMb``: the most memory that was resident in a process of its own while it embedded some of the texts, the longest
  among them; interpreter and libraries (``rssBaseMb``) included.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from palace_daemon import places
from palace_daemon.bench import embed_process, embed_report, embed_rows, embed_texts, embed_turns, machine
from palace_daemon.bench.embed_rows import REFERENCE_MODEL, ROUND_TEXTS, Job
from palace_daemon.bench.fingerprint import MODEL, fingerprint
from palace_daemon.embed import minilm, registry
from palace_daemon.embed.tokens import MiniLmTokenCounter
from palace_daemon.errors import ConfigError

RESULT_FILE = "embed.json"
PICTURE_FILE = "embed.svg"
MODELS = (REFERENCE_MODEL, registry.DEFAULT_MODEL)
"""The two precisions of one model; a row of another model would have no meaning beside them."""
_LOADS = 3
_PEAK_TEXTS = 16
"""After so many, the longest first, a process takes no more: calls are alike, only their lengths differ."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this bench's arguments."""
    parser.add_argument(
        "--path", type=Path, help="transcripts whose drawers to embed (default: the packaged set of coding talk)"
    )
    parser.add_argument(
        "--texts",
        type=int,
        default=ROUND_TEXTS,
        metavar="N",
        help="most texts to embed (default %(default)s; a multiple of it fills all batches)",
    )
    parser.add_argument(
        "--threads", type=int, default=0, metavar="N", help="threads of texts per second (0: all cores)"
    )
    parser.add_argument(
        "--brief", action="store_true", help="the product's models only, without the other ways and without memory"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help=f"write {RESULT_FILE} and {PICTURE_FILE} there")


def run(args: argparse.Namespace) -> int:
    """Print the rows; returns 0, or 1 when there is nothing to embed.

    Raises:
        ConfigError: A number is below its least, or --out cannot be written to.
        ModelError: A model cannot be installed or run.
        SourceError: There is nothing at --path.
    """
    if args.texts < 1 or args.threads < 0:
        raise ConfigError("--texts is at least 1, --threads at least 0")
    texts = embed_texts.of_transcripts(args.path) if args.path else embed_texts.packaged()
    if not texts:
        print(f"no text in {args.path}")
        return 1
    report = measure(
        embed_texts.spread(texts, args.texts),
        threads=args.threads,
        with_others=not args.brief,
        with_memory=not args.brief,
    )
    report = {"source": "transcripts" if args.path else "packaged"} | report
    if args.out:
        _write(args.out, report)
    print(json.dumps(report) if args.json else embed_report.table(report))
    return 0


def measure(
    texts: Sequence[str],
    *,
    models_dir: Path | None = None,
    model_ids: Sequence[str] = (),
    threads: int = 0,
    with_others: bool = False,
    with_memory: bool = False,
    graphs_dir: Path | None = None,
) -> dict[str, Any]:
    """Return the report: ``rows``, one for each way to embed, beside what it was measured on.

    The first row is :data:`palace_daemon.bench.embed_rows.REFERENCE`, the last ones are named by their model ids.

    Args:
        texts: Any texts; those above the cap are left out.
        models_dir: Holds the models; those that are missing are installed.
        model_ids: The product's models to compare; both precisions when empty.
        threads: Threads for ``textsPerSecond``; 0 takes every usable core.
        with_others: Whether batches, the plain graph and classic int8 take part as well.
        with_memory: Whether each way runs in a process of its own too, for ``rssMb`` and ``coldLoadMs``.
        graphs_dir: Keeps the graphs of the others; the cache of the benches if None.

    Raises:
        ConfigError: No text is left.
        ModelError: A model cannot be installed or run.
    """
    folder = models_dir or places.models_dir()
    threads = threads or minilm.usable_cores()
    counter = MiniLmTokenCounter()
    counts = {text: counter.count(text) for text in texts}
    texts = [text for text in texts if counts[text] <= counter.max_tokens]
    if not texts:
        raise ConfigError("there is no text to embed", hint="texts above the model's cap are left out")
    tokens = sum(counts[text] for text in texts)
    with embed_rows.opened(folder, model_ids or MODELS, threads, with_others=with_others, cache=graphs_dir) as ways:
        rows = embed_turns.rows(ways, texts, tokens, threads)
        jobs = [way.job for way in ways]
    del ways  # and with them their sessions, before others need the memory
    fp32 = max((row for row in rows if row["name"].startswith("fp32")), key=lambda row: int(row["tokensPerCpuSecond"]))
    report = {
        "texts": len(texts),
        "tokens": tokens,
        "threads": threads,
        "machine": machine.describe(),
        "fingerprint": fingerprint(of=MODEL),
        "tokenisingTokensPerCpuSecond": round(embed_turns.tokens_per_cpu_second(texts)),
        "fastestFp32": fp32["name"],
    }
    if with_memory:
        longest_first = sorted(texts, key=lambda text: -counts[text])
        sample = [longest_first[0], *(text for text in texts if text != longest_first[0])]
        report |= _in_processes(jobs, rows, folder, threads, sample)
    return report | {"rows": rows}


def _in_processes(
    jobs: Sequence[Job], rows: Sequence[dict[str, Any]], models_dir: Path, threads: int, texts: Sequence[str]
) -> dict[str, Any]:
    """Add ``rssMb`` to each row; return what goes beside the rows."""
    for job, row in zip(jobs, rows, strict=True):
        count = max(_PEAK_TEXTS, job.batch_texts)
        row["rssMb"] = embed_process.run(job._asdict(), models_dir, threads, texts[:count])["peakMb"]
    loads = {
        job.model_id: [embed_process.run(job._asdict(), models_dir, threads, ())["loadMs"] for _ in range(_LOADS)]
        for job in jobs
        if job.model_id
    }
    return {
        "rssBaseMb": embed_process.run(Job()._asdict(), models_dir, threads, ())["peakMb"],
        "coldLoadMs": {model_id: round(statistics.median(times)) for model_id, times in loads.items()},
    }


def _write(folder: Path, report: dict[str, Any]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RESULT_FILE).write_text(json.dumps(report) + "\n", encoding="utf-8")
        (folder / PICTURE_FILE).write_text(embed_report.picture(report), encoding="utf-8")
    except OSError as exc:
        raise ConfigError(f"cannot write to {folder}: {exc.strerror}") from exc
