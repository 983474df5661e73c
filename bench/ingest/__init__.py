"""What does it cost to take in a large archive? Transcripts repeated until they are a gigabyte, and a real daemon.

The archive is made of given transcripts (:mod:`.archive`) in a temporary directory; a daemon under a temporary home
reads it while somebody asks, and is stopped and started once in the middle (:mod:`.online`). Then part of the archive
is read once more in a process of its own, to see where the time goes (:mod:`.stages`). Embedding a gigabyte takes hours
on two cores: after all is recallable by words, ``--vectors`` texts more are waited for, and their rate is taken for the
rest, which the report calls extrapolated.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from palace_daemon.bench import machine, recall_processes
from palace_daemon.bench.fingerprint import STORING, fingerprint
from palace_daemon.bench.ingest import archive, figures, online, report, stages
from palace_daemon.bench.results_folder import make, write
from palace_daemon.bench.scale import check_model
from palace_daemon.bench.scale.progress import Progress
from palace_daemon.bench.scale.questions import draw_questions
from palace_daemon.bench.scale.vectors import Texts
from palace_daemon.errors import ConfigError

JSON_FILE = "ingest.json"
PROFILED_MB = 8.0
"""Of the archive, whose stages are measured."""
PROFILED_TEXTS_MAX = 200
_SEED = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this bench's arguments."""
    parser.add_argument("--path", type=Path, required=True, metavar="DIR", help="transcripts (JSON lines) to repeat")
    parser.add_argument("--gb", type=float, default=0.02, metavar="N", help="size of the archive (default 0.02)")
    parser.add_argument(
        "--vectors", type=int, default=300, metavar="N", help="texts whose embedding is waited for (default 300)"
    )
    parser.add_argument("--no-restart", action="store_true", help="leave the daemon alone instead of restarting it")
    parser.add_argument("--no-profile", action="store_true", help="leave out where the time goes")
    parser.add_argument("--out", type=Path, metavar="DIR", help=f"write {JSON_FILE} there")


def run(args: argparse.Namespace) -> int:
    """Print the figures; returns 0, or 1 when there is nothing to repeat.

    Raises:
        ConfigError: A number is too small, or the place for results cannot be written to.
        ModelError: The model is not installed.
        SourceError: There is nothing at --path.
    """
    if args.gb <= 0 or args.vectors < 1:
        raise ConfigError("--gb is above 0, --vectors at least 1")
    check_model()
    if args.out:
        make(args.out)  # before a run takes its time
    origins = archive.read(args.path)
    if not origins.files:
        print(f"no transcript of JSON lines in {args.path}")
        return 1
    with recall_processes.sigterm_exits():
        found = measure(
            origins, int(args.gb * 1e9), args.vectors, is_restarted=not args.no_restart, is_profiled=not args.no_profile
        )
    if args.out:
        write(args.out / JSON_FILE, json.dumps(found, indent=1) + "\n")
    print(json.dumps(found) if args.json else report.table(found))
    return 0


def measure(
    origins: archive.Origins, size_bytes: int, vectors: int, *, is_restarted: bool = True, is_profiled: bool = True
) -> dict[str, Any]:
    """Return the report.

    Args:
        origins: What is repeated.
        size_bytes: How large the archive becomes, or a file larger.
        vectors: Texts whose embedding is waited for.
        is_restarted: Whether the daemon is stopped and started once, when half is read.
        is_profiled: Whether the stages are measured.
    """
    progress = Progress()
    with tempfile.TemporaryDirectory(prefix="palace-ingest-") as root:
        folder, data = Path(root) / "archive", Path(root) / "data"
        data.mkdir(mode=0o700)
        written = archive.write(
            origins, folder, size_bytes, lambda size: progress.show("writing", size, size_bytes, "bytes")
        )
        questions = draw_questions(Texts(exchanges=(), drawers=origins.texts, statements=()), _SEED)
        ingest = online.Ingest(data, folder, written.size_bytes, questions, progress.show)
        found = figures.of(ingest.run(vectors, is_restarted=is_restarted), origins, written)
        progress.end()
        if is_profiled:
            found["profile"] = stages.measure(_some(folder), min(vectors, PROFILED_TEXTS_MAX))
    return found | {"machine": machine.describe(), "fingerprint": fingerprint(of=STORING)}


def _some(folder: Path) -> list[Path]:
    """Return files from all over the archive that are :data:`PROFILED_MB` large together, or all."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sizes = [path.stat().st_size for path in files]
    step = max(1, int(sum(sizes) / (PROFILED_MB * 1e6)))
    return files[::step]
