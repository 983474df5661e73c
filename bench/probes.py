"""Does recall find what you know is there? Questions made of your own store, so that models compare on your own data.

Each question is a sentence that was said in an exchange, with a share of its words left out; it is answered when the
exchange, or one that says the same, is found. All are asked through the shipped recall: by vectors only, by words only,
and by all signals, as users ask. The store is read, in one transaction, and never written; a daemon may go on using it.

Where one model is compared, and it has vectors of everything, the whole store is searched. Where some model lacks
vectors, all are compared on the same part of the store: the exchanges that are asked about and others beside them;
what lacks a vector there is embedded for the moment, in memory.

Nothing that is printed holds any text: ids and ranks only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from palace_daemon import places
from palace_daemon.bench import probes_report
from palace_daemon.bench.probes_report import Asked
from palace_daemon.bench.probes_sample import Probe, Told, sample
from palace_daemon.bench.probes_spaces import Filled, OneState, filled, texts_of
from palace_daemon.bench.recall_ablation import preset
from palace_daemon.bench.recall_metrics import DEPTH
from palace_daemon.config import EmbedConfig
from palace_daemon.core.dates import NO_DATE
from palace_daemon.core.dates.calendar import DAY_MS
from palace_daemon.core.ports import Embedder
from palace_daemon.embed import minilm, registry
from palace_daemon.errors import ConfigError
from palace_daemon.model import RecallQuery
from palace_daemon.service.recall import ModelState, Recall
from palace_daemon.store import spaces, views
from palace_daemon.store.mirror import Snapshot
from palace_daemon.store.sqlite import Connection, database_path
from palace_daemon.store.store import ReadOnlyStore

PROBES_MIN = 20
"""Fewer questions say nothing about a model."""
PART_EXCHANGES = 1_000
RANKERS = {"vectors": "cosine", "words": "words", "hybrid": "product"}
"""Name of a row to the weights of the bench of recall."""
_FIRST_LIMIT = 50
_LIMIT_GROWTH = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this bench's arguments."""
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="the store to ask (default: your own)")
    parser.add_argument("--count", type=int, default=200, metavar="N", help="questions (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="chooses exchanges and words")
    parser.add_argument(
        "--drop", type=float, default=0.3, metavar="SHARE", help="of a sentence's words that are left out"
    )
    parser.add_argument(
        "--model", action="append", default=[], metavar="ID", help="a model to compare (default: all installed ones)"
    )
    parser.add_argument(
        "--part",
        type=int,
        default=PART_EXCHANGES,
        metavar="N",
        help="exchanges to search where a model lacks vectors (default %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the figures; returns 0.

    Raises:
        ConfigError: A number is out of its range, or the store holds too little to ask about.
        ModelError: A model is not installed.
        StoreError: There is no store, or it cannot be read.
    """
    if args.count < 1 or args.part < 1 or not 0.0 <= args.drop < 1.0:
        raise ConfigError("--count and --part are at least 1, --drop is from 0 to below 1")
    store = ReadOnlyStore(database_path(places.data_dir(args.data_dir)))
    with contextlib.closing(store), _models(args.model) as models:
        report = measure(store, models, count=args.count, seed=args.seed, drop=args.drop, part_exchanges=args.part)
    print(json.dumps(report) if args.json else probes_report.table(report))
    return 0


@contextlib.contextmanager
def _models(wanted: Sequence[str]) -> Iterator[list[Embedder]]:
    """Yield the models by id, or all installed ones, the default first."""
    folder = places.models_dir()
    names = list(dict.fromkeys(wanted)) or list(registry.installed(folder)) or [EmbedConfig().model]
    with contextlib.ExitStack() as stack:
        loaded: list[Embedder] = []
        for name in names:
            loaded.append(minilm.load(name, folder))
            stack.callback(loaded[-1].close)
        yield loaded


def measure(
    store: ReadOnlyStore,
    models: Sequence[Embedder],
    *,
    count: int,
    seed: int,
    drop: float,
    part_exchanges: int = PART_EXCHANGES,
) -> dict[str, Any]:
    """Return the report: ``rows`` by model and ranker, and for each question its exchange and its ranks.

    Args:
        store: What is asked.
        models: To compare.
        count: Questions.
        seed: Chooses exchanges, sentences and words.
        drop: Share of words that are left out.
        part_exchanges: Exchanges that are searched where a model lacks vectors.

    Raises:
        ConfigError: The store holds too little to ask about.
    """
    with store.read_with_drawers() as (connection, drawers):
        rows = sorted(set(drawers.exchanges[drawers.is_live].tolist()))
        probes = sample(rows, lambda row: _told(connection, row), count=count, seed=seed, drop=drop)
        if len(probes) < min(count, PROBES_MIN):
            raise ConfigError(
                f"of {len(rows)} exchanges {len(probes)} hold a sentence to ask for, and {min(count, PROBES_MIN)} must",
                hint="mine some transcripts first, see `palace-daemon mine --help`",
            )
        is_whole = _is_covered(connection, models)
        among = None if is_whole else _part(rows, probes, part_exchanges, seed)
        asked = [Asked("words", "", _ranks(OneState(connection, drawers), None, "words", probes, among))]
        made = []
        for model in models:
            with_vectors = _with_vectors(connection, drawers, model, among)
            made.append(
                {"model": model.model_id, "fromStore": with_vectors.from_store} | {"embedded": with_vectors.embedded}
            )
            reader = OneState(connection, with_vectors.drawers)
            asked += [
                Asked(name, model.model_id, _ranks(reader, model, name, probes, among))
                for name in ("vectors", "hybrid")
            ]
    return {
        "exchanges": len(rows),
        "searched": len(rows) if among is None else len(among),
        "isWhole": is_whole,
        "asked": len(probes),
        "seed": seed,
        "drop": drop,
        "models": made,
        "rows": probes_report.rows(probes, asked),
        "questions": probes_report.questions(probes, asked),
    }


def _told(connection: Connection, row: int) -> Told:
    view = views.exchange(connection, row)
    return Told(row, view.exchange_id, view.user_text, view.reply_text)


def _is_covered(connection: Connection, models: Sequence[Embedder]) -> bool:
    """Return whether the vectors by which the store answers are those of all ``models``, and none is missing."""
    answering = spaces.read(connection).answering
    return not answering.pending and all(model.fingerprint == answering.model for model in models)


def _part(rows: Sequence[int], probes: Sequence[Probe], size: int, seed: int) -> list[int]:
    """Return the exchanges that are searched: those that are asked about, then others by chance up to ``size``."""
    asked = {probe.row for probe in probes}
    others = [row for row in rows if row not in asked]
    beside = min(len(others), max(0, size - len(asked)))
    return sorted(asked.union(random.Random(seed).sample(others, beside)))  # noqa: S311 - to be the same in every run


def _with_vectors(connection: Connection, drawers: Snapshot, model: Embedder, among: Sequence[int] | None) -> Filled:
    """Return the drawers under the vectors of a model: as they are where the whole store is searched."""
    if among is None:
        return Filled(drawers, spaces.read(connection).answering.vectors, 0)

    def tell(done: int, total: int) -> None:
        if sys.stderr.isatty():
            end = "\n" if done == total else ""
            print(f"\r{model.model_id}: {done} of {total} texts embedded ", end=end, file=sys.stderr, flush=True)

    return filled(connection, drawers, texts_of(connection, drawers, among), model, tell)


def _ranks(
    reader: OneState, model: Embedder | None, ranker: str, probes: Sequence[Probe], among: Collection[int] | None
) -> list[int | None]:
    """Return for each question the place of its exchange among distinct ones; None below the tenth."""
    state = ModelState(model, model.model_id if model else "", "" if model else "by words only")
    recall = Recall(reader, lambda _space: state, lambda: 0, tuple, weights=preset(RANKERS[ranker]))
    with reader.read_with_drawers() as (_, drawers):
        dated = drawers.started_at[drawers.started_at != NO_DATE]
    now = int(dated.max(initial=0)) + DAY_MS  # not the clock: the same store is to give the same figures
    return [_rank(recall, probe, now, among) for probe in probes]


def _rank(recall: Recall, probe: Probe, now: int, among: Collection[int] | None) -> int | None:
    limit = _FIRST_LIMIT
    while True:
        answer = recall.search(RecallQuery(text=probe.text, now=now, limit=limit, fold=True), among=among)
        seen: dict[str, None] = {}
        for hit in answer.hits:
            seen.setdefault(hit.exchange_id)
            if len(seen) > DEPTH:
                return None
            if probe.public_id in {hit.exchange_id, *(twin.exchange_id for twin in hit.also_in)}:
                return list(seen).index(hit.exchange_id) + 1
        if len(answer.hits) < limit:
            return None
        limit *= _LIMIT_GROWTH
