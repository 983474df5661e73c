"""What does a store of a hundred thousand drawers cost? A seeded one, a real daemon over it, and clients that ask.

The store is made up (:mod:`.text`, :mod:`.sessions`) and built through the store's own API (:mod:`.build`); its texts
and vectors have the statistics of real ones. All lies in a temporary directory and under a temporary home, unless
``--stores`` names a place where built stores are kept for the next run; a run works on a copy.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from palace_daemon import places
from palace_daemon.bench import machine, recall_processes
from palace_daemon.bench.fingerprint import RECALL, STORING, fingerprint
from palace_daemon.bench.results_folder import make, write
from palace_daemon.bench.scale import build, exactness, offline, online, report, vectors
from palace_daemon.bench.scale.clients import Filters
from palace_daemon.bench.scale.progress import Progress
from palace_daemon.bench.scale.questions import Question, draw_questions
from palace_daemon.bench.scale.sessions import draw_sessions
from palace_daemon.embed import minilm, registry
from palace_daemon.errors import ConfigError, ModelError
from palace_daemon.store.sqlite import database_path

JSON_FILE = "scale.json"
PICTURE_FILE = "scale.svg"
FORMAT_VERSION = 2
"""Raised when the same seed gives another store: kept stores are then built anew."""
_FACTS_FILE = "built.json"
_SHARES = (("project of 1 %", 0.01), ("project of 0.1 %", 0.001))
"""Filters by the projects whose share of the exchanges comes nearest to these."""
_ADDED_SEED = 1_000_003
"""Added to the seed: what is added later is not what the store holds."""


class Settings(Struct, frozen=True, kw_only=True):
    """How one size is measured."""

    seed: int = 0
    queries: int = 300
    clients: int = 8
    checked: int = 20
    """Questions whose first ten are compared with those of scoring every drawer exactly."""
    real: int = 1_000
    """Drawers whose vectors are real, and those of their statements."""
    rebuild: bool = True
    stores: Path | None = None
    """Where built stores are kept; None keeps none."""


class Facts(Struct, kw_only=True):
    """What is known of a built store."""

    built: build.Built
    texts: vectors.Texts
    disk_bytes: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this bench's arguments."""
    usual = Settings()
    parser.add_argument(
        "--drawers", type=int, nargs="+", default=[10_000], metavar="N", help="sizes of the store (default 10000)"
    )
    parser.add_argument("--clients", type=int, default=usual.clients, metavar="N", help="clients at once (default 8)")
    parser.add_argument(
        "--queries", type=int, default=usual.queries, metavar="N", help="different questions (default 300)"
    )
    parser.add_argument(
        "--check",
        type=int,
        default=usual.checked,
        metavar="N",
        help="questions whose first ten are compared with those of scoring every drawer exactly (default 20)",
    )
    parser.add_argument(
        "--real", type=int, default=usual.real, metavar="N", help="drawers with real vectors (default 1000)"
    )
    parser.add_argument("--seed", type=int, default=usual.seed, metavar="N", help="of store and questions (default 0)")
    parser.add_argument("--no-rebuild", action="store_true", help="leave out rebuilding the index, which takes longest")
    parser.add_argument("--stores", type=Path, metavar="DIR", help="keep built stores there for the next run")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write the figures and a picture there")


def run(args: argparse.Namespace) -> int:
    """Print the figures; returns 0. SIGTERM ends it with :class:`SystemExit`, and leaves no daemon and no store.

    Raises:
        ConfigError: A number is too small, or the place for results or stores cannot be written to.
        ModelError: The model is not installed.
    """
    if min(*args.drawers, args.clients, args.queries, args.seed + 1, args.check + 1) < 1 or args.real < 2:
        raise ConfigError("sizes, clients and queries are at least 1, the seed and --check 0 and --real 2")
    settings = Settings(
        seed=args.seed,
        queries=args.queries,
        clients=args.clients,
        checked=args.check,
        real=args.real,
        rebuild=not args.no_rebuild,
        stores=args.stores,
    )
    for folder in filter(None, (args.out, args.stores)):
        make(folder)  # before a run takes its time
    with recall_processes.sigterm_exits():
        found = measure(args.drawers, settings)
    if args.out:
        _write(args.out, found)
    print(json.dumps(_flat(found)) if args.json else report.table(found))
    return 0


def measure(sizes: list[int], settings: Settings, progress: Progress | None = None) -> dict[str, Any]:
    """Return the report: ``rows``, one a size, beside what they were measured on.

    Raises:
        ModelError: The model is not installed.
    """
    check_model()
    progress = progress or Progress()
    rows = []
    for size in sizes:
        rows.append(_measure(size, settings, progress))
        progress.end()
    return {
        "seed": settings.seed,
        "queries": settings.queries,
        "realDrawers": settings.real,
        "machine": machine.describe(),
        "fingerprint": fingerprint(of=RECALL),
        "rows": rows,
    }


def check_model() -> None:
    """Raise ModelError unless the model is installed: a bench fetches nothing."""
    if registry.DEFAULT_MODEL not in registry.installed(places.models_dir()):
        raise ModelError(f"{registry.DEFAULT_MODEL} is not installed", hint=registry.INSTALL_HINT)


def _measure(drawers: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    with _store(drawers, settings, progress) as (data, facts):
        built = facts.built
        load = online.Workload(
            questions=tuple(itertools.islice(draw_questions(facts.texts, settings.seed), settings.queries)),
            filters=_filters(data),
            clients=settings.clients,
        )
        row: dict[str, Any] = {
            "drawers": built.drawers,
            "exchanges": built.exchanges,
            "sessions": built.sessions,
            "statements": _statements(data),
            "textMb": round(built.text_bytes / 1e6, 2),
            "diskMb": round(facts.disk_bytes / 1e6, 2),
            "diskToText": round(facts.disk_bytes / built.text_bytes, 2),
            "diskMbPer1000Exchanges": round(facts.disk_bytes / 1e3 / built.exchanges, 2),
            "builtDrawersPerSecond": round(built.drawers / built.seconds, 1),
        }
        row["exact"] = _exact(data, load.questions[: settings.checked], progress)
        row |= online.measure(data, load, _more(settings.seed), progress.show)
        row |= offline.measure(data, _more(settings.seed + 1), rebuild=settings.rebuild, on_progress=progress.show)
        return row


def _exact(data: Path, questions: Sequence[Question], progress: Progress) -> dict[str, Any]:
    stage, count, answered = "scoring every drawer", len(questions), itertools.count(1)
    progress.show(stage, 0, count, "questions")
    embedder = minilm.load(registry.DEFAULT_MODEL, places.models_dir())
    try:
        store = build.open_store(data)
        try:
            return exactness.measure(
                store, embedder, questions, lambda: progress.show(stage, next(answered), count, "questions")
            )
        finally:
            store.close()
    finally:
        embedder.close()


def _more(seed: int) -> Iterator[tuple[str, str]]:
    """Yield user turns and replies that the store does not hold."""
    for session in draw_sessions(seed + _ADDED_SEED):
        for exchange in session.result.exchanges:
            yield exchange.user_text, exchange.reply_text


def kept_store(stores: Path, drawers: int, settings: Settings, progress: Progress | None = None) -> Path:
    """Return the data directory below ``stores`` with such a store, which is built where it is not there yet.

    It is for copying: whoever opens it changes it.

    Raises:
        ModelError: The model is not installed, and the store has to be built.
    """
    name = f"{FORMAT_VERSION}-{settings.seed}-{settings.real}-{drawers}-{fingerprint(of=STORING)}"
    kept = stores / name
    if not (kept / _FACTS_FILE).exists():
        building = stores / f"{name}.building"
        shutil.rmtree(building, ignore_errors=True)
        facts = _build(building, drawers, settings, progress or Progress())
        (building / _FACTS_FILE).write_bytes(msgspec.json.encode(facts))
        building.rename(kept)
    return kept


@contextlib.contextmanager
def _store(drawers: int, settings: Settings, progress: Progress) -> Iterator[tuple[Path, Facts]]:
    """Yield a data directory with a store that may be changed, and what is known of it."""
    with tempfile.TemporaryDirectory(prefix="palace-scale-") as folder:
        data = Path(folder) / "data"
        if settings.stores is None:
            yield data, _build(data, drawers, settings, progress)
            return
        kept = kept_store(settings.stores, drawers, settings, progress)
        data.mkdir(mode=0o700)
        shutil.copy2(database_path(kept), database_path(data))
        yield data, msgspec.json.decode((kept / _FACTS_FILE).read_bytes(), type=Facts)


def _build(data: Path, drawers: int, settings: Settings, progress: Progress) -> Facts:
    data.mkdir(mode=0o700, parents=True)
    embedder = minilm.load(registry.DEFAULT_MODEL, places.models_dir())
    try:
        store = build.open_store(data)
        try:
            store.use_model(embedder.fingerprint)
            built = build.fill(store, drawers, settings.seed, progress.show)
            real = vectors.embed_some(store, embedder, min(settings.real, drawers), settings.seed, progress.show)
            vectors.draw_rest(store, embedder, real, settings.seed, progress.show)
        finally:
            store.close()
    finally:
        embedder.close()
    size = database_path(data).stat().st_size  # the log was folded in when the store was closed
    return Facts(built=built, texts=real.texts, disk_bytes=size)


def _filters(data: Path) -> dict[str, Filters]:
    """Return filters from wide to narrow, by name."""
    store = build.open_store(data)
    try:
        with store.read() as connection:
            rows = connection.execute("SELECT project, count(*) FROM exchanges GROUP BY project ORDER BY project")
            counts = dict(rows.fetchall())
    finally:
        store.close()
    total = sum(counts.values())
    projects = {
        name: {"project": min(counts, key=lambda path: (abs(counts[path] - share * total), path))}
        for name, share in _SHARES
    }
    month = {"since": "2025-03-01", "until": "2025-03-31"}
    return {
        "one agent": {"agent": "codex"},
        "one month": month,
        **projects,
        "one day": {"since": "2025-03-14", "until": "2025-03-14"},
        "agent, project, month": {"agent": "claude-code", **projects["project of 1 %"], **month},
    }


def _statements(data: Path) -> int:
    store = build.open_store(data)
    try:
        with store.read() as connection:
            return int(connection.execute("SELECT count(*) FROM statements").fetchone()[0])
    finally:
        store.close()


def _flat(found: dict[str, Any]) -> dict[str, Any]:
    """Return the report as it is printed: of one size the row's keys stand at the top."""
    if len(found["rows"]) > 1:
        return found
    return {**found["rows"][0], **{name: value for name, value in found.items() if name != "rows"}}


def _write(folder: Path, found: dict[str, Any]) -> None:
    write(folder / JSON_FILE, json.dumps(found, indent=1) + "\n")
    write(folder / PICTURE_FILE, report.picture(found))
