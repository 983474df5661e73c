"""Where the time of ingest goes: CPU time by stage, in a process that does nothing else.

The daemon's own service object mines files of the archive, with a stopwatch of the thread's CPU time around the calls
that the stages consist of; what is called inside another stage counts for itself alone. A profiler that is called at
each function would make code of many small ones look dearer, and one that samples threads sees the interpreter lock
change hands rather than CPU time. These stopwatches cost some five microseconds a call, about a hundredth in all.

Hashes stand for the vectors while the files are mined, so that words are measured without company. What embedding takes
is then measured over some of the texts, by the CPU time of the whole process, and scaled to all of them.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from palace_daemon import places
from palace_daemon.bench import embed_texts
from palace_daemon.config import Config, WatchConfig
from palace_daemon.core import analysis, chunking, redaction
from palace_daemon.core.ports import Float32, StopSignal
from palace_daemon.embed import minilm, registry, tokens
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.service import reading
from palace_daemon.service.build import build, threads
from palace_daemon.service.embedding import BATCH_TEXTS
from palace_daemon.store import postings, statements, vectors
from palace_daemon.watch.scripted import ScriptedNotifier

PARSE, REDACT, READ = "parse", "redact", "read, hash, keep the parser's state"
CHUNK, COUNT, WORDS = "chunk", "count tokens", "analyse words"
STATE, POSTINGS, STORE_VECTORS, ROWS = "find statements", "write words", "write vectors", "write rows, commit"
EMBED = "embed"
_MINING, _WRITER = "palace-mining", "palace-writer"
_WATCHED: tuple[tuple[Any, str, str], ...] = (
    (reading.Reading, "feed", PARSE),
    (reading.Reading, "end", PARSE),
    (redaction, "redact", REDACT),
    (chunking, "cut", CHUNK),
    (tokens.MiniLmTokenCounter, "count", COUNT),
    (analysis, "term_places", WORDS),
    (statements, "refresh", STATE),
    (postings.PostingsEdit, "write", POSTINGS),
    (vectors, "save", STORE_VECTORS),
)
"""Where a stage is entered: holder, name, stage. Looked up there at each call, so it can be replaced there."""


class _Noting(HashingEmbedder):
    """Hashes, and keeps the texts: drawers and statements as the daemon hands them to a model."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def embed_passages(self, texts: Sequence[str], stop: StopSignal | None = None) -> Float32:
        self.texts += texts
        return super().embed_passages(texts, stop)


class Stopwatches:
    """CPU time of the threads by stage, without what inner stages took. Thread-safe."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self.spent_ns: Counter[tuple[str, str]] = Counter()
        """By thread and stage."""
        self.calls = 0
        self._here = threading.local()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Have stages measured for as long as the block runs."""
        former = [(holder, name, getattr(holder, name)) for holder, name, _ in _WATCHED]
        for holder, name, stage in _WATCHED:
            setattr(holder, name, self._around(getattr(holder, name), stage))
        try:
            yield
        finally:
            for holder, name, function in former:
                setattr(holder, name, function)

    def _around(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            open_stages = self._here.__dict__.setdefault("stages", [])
            thread = threading.current_thread().name
            self._add(open_stages, thread)
            open_stages.append(stage)
            self.calls += 1
            try:
                return function(*args, **kwargs)
            finally:
                self._add(open_stages, thread)
                open_stages.pop()

        return measured

    def _add(self, open_stages: list[str], thread: str) -> None:
        now = time.thread_time_ns()
        if open_stages:
            self.spent_ns[thread, open_stages[-1]] += now - self._here.since
        self._here.since = now


def measure(files: Sequence[Path], texts: int) -> dict[str, Any]:
    """Return the shares of the stages over ``files``, measured in a new process; ``texts`` are embedded at most."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure_here, [str(file) for file in files], texts).result()


def measure_here(files: list[str], texts: int) -> dict[str, Any]:
    """Do the same in this process, which should do nothing else."""
    watches = Stopwatches()
    with tempfile.TemporaryDirectory(prefix="palace-ingest-") as folder:
        config = Config(data_dir=Path(folder), watch=WatchConfig(defaults=False))
        embedder = _Noting()
        palace = build(config, embedder=embedder, notifier=ScriptedNotifier())
        try:
            tokens.MiniLmTokenCounter().count("loads the tokenizer")
            with watches.watching():
                report = palace.mine(files, wait=True)
            totals = {name: _cpu_ns(name) for name in (_MINING, _WRITER)}
        finally:
            palace.close()
    embed_s, wall_s, embedded = _embed(embed_texts.spread(embedder.texts, texts), threads(config))
    spent = _by_stage(watches, totals)
    spent[EMBED] = embed_s / embedded * report.vectors_added if embedded else 0.0
    return _report(files, spent, watches.calls) | {
        "exchanges": report.exchanges_added,
        "texts": report.vectors_added,
        "embedded": embedded,
        "embedCoresBusy": round(embed_s / wall_s, 2) if wall_s else None,
    }


def _report(files: list[str], spent: dict[str, float], calls: int) -> dict[str, Any]:
    total = sum(spent.values()) or 1.0
    words = total - spent[EMBED] - spent[STORE_VECTORS] or 1.0
    return {
        "megabytes": round(sum(Path(file).stat().st_size for file in files) / 1e6, 2),
        "stopwatchCalls": calls,
        "cpuSeconds": round(total, 3),
        "wordsCpuSeconds": round(words, 3),
        "parseShareOfWords": round(sum(spent[stage] for stage in (PARSE, REDACT, READ)) / words, 4),
        "embedToWords": round(spent[EMBED] / words, 2),
        "stages": [
            {"stage": stage, "cpuSeconds": round(seconds, 3), "share": round(seconds / total, 4)}
            | ({} if stage in (EMBED, STORE_VECTORS) else {"shareOfWords": round(seconds / words, 4)})
            for stage, seconds in spent.items()
        ],
    }


def _by_stage(watches: Stopwatches, totals: dict[str, int]) -> dict[str, float]:
    """Return seconds by stage in the order of the work; what the stopwatches leave of a thread is its last stage."""
    spent: Counter[str] = Counter()
    for (thread, stage), took in watches.spent_ns.items():
        if thread in totals:
            spent[stage] += took
            totals[thread] -= took
    spent[READ], spent[ROWS] = totals[_MINING], totals[_WRITER]
    order = (READ, PARSE, REDACT, CHUNK, COUNT, WORDS, STATE, POSTINGS, ROWS, STORE_VECTORS)
    return {stage: max(0, spent[stage]) / 1e9 for stage in order}


def _cpu_ns(name: str) -> int:
    """Return the CPU time that a thread of this process has used."""
    thread = next(one for one in threading.enumerate() if one.name == name)
    return time.clock_gettime_ns(time.pthread_getcpuclockid(thread.ident or 0))


def _embed(texts: Sequence[str], count: int) -> tuple[float, float, int]:
    """Embed as the daemon does; return CPU seconds, seconds and how many texts."""
    if not texts:
        return 0.0, 0.0, 0
    model = minilm.load(registry.DEFAULT_MODEL, places.models_dir(), threads=count)
    try:
        model.embed_passages(texts[:BATCH_TEXTS])  # what the first calls set up does not count
        cpu, began = time.process_time(), time.monotonic()
        for start in range(0, len(texts), BATCH_TEXTS):
            model.embed_passages(texts[start : start + BATCH_TEXTS])
        return time.process_time() - cpu, time.monotonic() - began, len(texts)
    finally:
        model.close()
