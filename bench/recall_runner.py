"""Asks the questions of a set through the shipped recall, case by case, on one process or several.

Invariant: what a question comes to depends on the set and the code alone, not on how many processes ran or on what the
cache held. Only times differ.
"""

from __future__ import annotations

import functools
import multiprocessing
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

from msgspec import Struct

from palace_daemon import places
from palace_daemon.bench import recall_processes
from palace_daemon.bench.haystack import AGENT, Chunking, CountingCache, Origins, Stored, build_store
from palace_daemon.bench.recall_metrics import DEPTH, Ranks
from palace_daemon.bench.sets.base import Case, Question
from palace_daemon.bench.vector_cache import CachedEmbedder, VectorCache
from palace_daemon.core import rank
from palace_daemon.core.ports import Embedder
from palace_daemon.model import Hit, RecallQuery
from palace_daemon.service import processes
from palace_daemon.service.build import token_counter
from palace_daemon.service.recall import ModelState, Recall

FIRST_LIMIT = 50
"""Hits that are asked for first, and timed: as many as leave the product's number of candidates as it is. Where they
are of fewer than ten sessions or exchanges, more are asked for."""
_LIMIT_GROWTH = 8
_CASES_PER_PROCESS = 2
"""Cases that are handed out for each process: one runs, one waits."""

Parts = dict[str, float]


class RunSettings(Struct, frozen=True, kw_only=True):
    """How a set is run."""

    model: str
    chunking: Chunking
    weights: rank.Weights
    cache: Path
    """Folder of the vectors that are kept between runs."""
    others: tuple[rank.Weights, ...] = ()
    """Further weights that the same questions are ranked with, for comparison."""
    threads: int = 0
    """Threads that embed in one process; 0 takes one for each core."""


class Found(Struct, frozen=True, kw_only=True):
    """What was found under one unit, sessions or exchanges. Ids and ranks only, never text."""

    top: tuple[str, ...]
    """Ids of the first :data:`DEPTH`, best first."""
    ranks: Ranks
    """Of each piece of gold, in the order of the set."""
    parts: tuple[Parts, ...]
    """Parts of the score of the best drawer of each in ``top``."""


class Asked(Struct, frozen=True, kw_only=True):
    """What one question came to."""

    haystack_id: str
    question_id: str
    kind: str
    is_abstention: bool
    sessions: Found
    exchanges: Found
    took_ms: float


class CaseResult(Struct, frozen=True, kw_only=True):
    """What one case came to, and what it took."""

    asked: tuple[Asked, ...]
    others: tuple[tuple[Asked, ...], ...]
    """The same for each of the settings' further weights."""
    sessions: int
    exchanges: int
    drawers: int
    truncated: int
    sessions_not_stored: int
    """Gold sessions that the store does not hold, for want of an exchange too; they count as not found."""
    turns_not_stored: int
    """The same for gold turns."""
    embedded: int
    from_cache: int
    store_s: float
    embed_s: float
    rss_bytes: int


class CaseRunner:
    """Runs cases one after the other; loads the model and opens the caches once. For one thread."""

    def __init__(self, settings: RunSettings, model: Embedder | None = None) -> None:
        """Load the model, unless ``model`` stands in for it.

        Raises:
            ModelError: The model is not installed.
        """
        self._settings = settings
        self._counter = CountingCache(token_counter())
        self._embedder = _embedder(settings, model)

    def run(self, case: Case) -> CaseResult:
        """Store the haystack and ask its questions."""
        embedded, from_cache, embed_s = self._embedder.embedded, self._embedder.from_cache, self._embedder.embed_s
        with tempfile.TemporaryDirectory(prefix="palace-recall-") as folder:
            stored = build_store(
                case.haystack,
                Path(folder),
                embedder=self._embedder,
                counter=self._counter,
                chunking_mode=self._settings.chunking,
            )
            try:
                asked = self._ask_all(case, stored, self._settings.weights)
                others = tuple(self._ask_all(case, stored, weights) for weights in self._settings.others)
            finally:
                stored.close()
        known = set(stored.origins.sessions.values())
        return CaseResult(
            asked=asked,
            others=others,
            sessions=stored.sessions,
            exchanges=stored.exchanges,
            drawers=stored.drawers,
            truncated=stored.truncated,
            sessions_not_stored=_not_stored((one.gold_sessions for one in case.questions), known),
            turns_not_stored=_not_stored((one.gold_turns for one in case.questions), set(stored.origins.turns)),
            embedded=self._embedder.embedded - embedded,
            from_cache=self._embedder.from_cache - from_cache,
            store_s=stored.store_s,
            embed_s=self._embedder.embed_s - embed_s,
            rss_bytes=processes.rss_bytes(),
        )

    def close(self) -> None:
        """Release the model and the caches; idempotent."""
        self._embedder.close()

    def _ask_all(self, case: Case, stored: Stored, weights: rank.Weights) -> tuple[Asked, ...]:
        state = ModelState(self._embedder, self._embedder.model_id, "")
        recall = Recall(stored.store, lambda _space: state, lambda: 0, lambda: (AGENT,), weights=weights)
        with stored.store.read_with_drawers():
            pass  # a daemon has its drawers in memory long before the first question
        haystack_id = case.haystack.haystack_id
        return tuple(_ask(recall, haystack_id, question, stored.origins) for question in case.questions)


def _embedder(settings: RunSettings, model: Embedder | None) -> CachedEmbedder:
    from palace_daemon.embed import minilm, registry  # noqa: PLC0415 - imports ONNX Runtime

    if model is not None:
        return CachedEmbedder(model, VectorCache(settings.cache, model.model_id, model.dim))
    spec = registry.spec(settings.model)
    loaded = minilm.load(settings.model, places.models_dir(), threads=settings.threads)
    cache = VectorCache(settings.cache, spec.fingerprint, loaded.dim)
    embed = functools.partial(loaded.embed_passages, truncate=True) if settings.chunking == "session" else None
    return CachedEmbedder(loaded, cache, embed)


# ------------------------------------------------------------------------------------------------------- one question


def _ask(recall: Recall, haystack_id: str, question: Question, origins: Origins) -> Asked:
    limit, took_ms = FIRST_LIMIT, 0.0
    while True:
        # Not folded, whatever users are shown: gold that says what another session says must keep a rank of its own.
        query = RecallQuery(text=question.text, now=question.now, project=question.project, limit=limit, fold=False)
        answer = recall.search(query)
        took_ms = took_ms or answer.took_ms
        sessions = _distinct(answer.hits, lambda hit: origins.sessions[hit.session_id])
        exchanges = _distinct(answer.hits, lambda hit: origins.exchanges[hit.session_id, hit.line_start])
        if len(answer.hits) < limit or (len(sessions) >= DEPTH and len(exchanges) >= DEPTH):
            break
        limit *= _LIMIT_GROWTH
    return Asked(
        haystack_id=haystack_id,
        question_id=question.question_id,
        kind=question.kind,
        is_abstention=question.is_abstention,
        sessions=_found(sessions, [(session_id,) for session_id in dict.fromkeys(question.gold_sessions)]),
        exchanges=_found(exchanges, _gold_exchanges(question, origins)),
        took_ms=took_ms,
    )


def _distinct(hits: Iterable[Hit], id_of: Callable[[Hit], str]) -> dict[str, Parts]:
    """Return what the hits belong to in the order of the best hit of each, with the parts of that hit's score."""
    found: dict[str, Parts] = {}
    for hit in hits:
        found.setdefault(id_of(hit), hit.parts)
    return found


def _gold_exchanges(question: Question, origins: Origins) -> list[tuple[str, ...]]:
    """Return the exchanges that hold gold turns, each once; nothing stands for a turn that is not stored."""
    labels = [origins.turns.get(turn_id, ()) for turn_id in dict.fromkeys(question.gold_turns)]
    return [*dict.fromkeys(label for label in labels if label), *(label for label in labels if not label)]


def _found(ranked: dict[str, Parts], gold: Iterable[tuple[str, ...]]) -> Found:
    top = list(ranked)[:DEPTH]
    place = {name: at for at, name in enumerate(top, 1)}
    ranks = tuple(min((place[name] for name in names if name in place), default=None) for names in gold)
    return Found(top=tuple(top), ranks=ranks, parts=tuple(ranked[name] for name in top))


def _not_stored(gold: Iterable[tuple[str, ...]], known: Collection[str]) -> int:
    return sum(name not in known for names in gold for name in set(names))


# -------------------------------------------------------------------------------------------------------- many cases


def limited(cases: Iterable[Case], limit: int | None) -> Iterator[Case]:
    """Yield the cases up to ``limit`` questions, in the order of the set."""
    left = limit
    for case in cases:
        if left is None:
            yield case
            continue
        if left <= 0:
            return
        yield Case(haystack=case.haystack, questions=case.questions[:left])
        left -= len(case.questions)


def run_cases(
    cases: Iterable[Case], settings: RunSettings, *, jobs: int = 1, model: Embedder | None = None
) -> Generator[CaseResult]:
    """Yield what each case comes to, in the order of the cases. Who stops early closes it, which ends its processes.

    Args:
        cases: Are read as they are needed.
        settings: How to run them.
        jobs: Processes; with more than one ``model`` cannot stand in.
        model: Stands in for the model that ``settings`` name.

    Raises:
        ModelError: The model is not installed.
    """
    if jobs <= 1:
        runner = CaseRunner(settings, model)
        try:
            yield from map(runner.run, cases)
        finally:
            runner.close()
        return
    if model is not None:
        raise ValueError("a model that stands in cannot go to other processes")
    yield from _on_several(cases, settings, jobs)


def _on_several(cases: Iterable[Case], settings: RunSettings, jobs: int) -> Generator[CaseResult]:
    context = multiprocessing.get_context("spawn")  # the runtime's threads do not outlive a fork
    held, lifeline = context.Pipe(duplex=False)
    with held, lifeline:
        pool = ProcessPoolExecutor(
            jobs, mp_context=context, initializer=recall_processes.start_worker, initargs=(held,)
        )
        try:
            waiting: deque[Future[CaseResult]] = deque()
            for case in cases:
                waiting.append(pool.submit(_run_in_worker, settings, case))
                if len(waiting) >= jobs * _CASES_PER_PROCESS:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BaseException:
            lifeline.close()  # ends the workers: a case that nobody waits for any more may take minutes
            raise
        finally:
            pool.shutdown(cancel_futures=True)


@functools.cache
def _worker_runner(settings: RunSettings) -> CaseRunner:
    """Return the runner of this process; it ends with the process."""
    return CaseRunner(settings)


def _run_in_worker(settings: RunSettings, case: Case) -> CaseResult:
    try:
        return _worker_runner(settings).run(case)
    except SystemExit:
        recall_processes.leave()
