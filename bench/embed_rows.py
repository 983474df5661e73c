"""The ways to embed that are compared: the product's, and those that it does not take."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from palace_daemon.bench import vector_cache
from palace_daemon.core.ports import Float32
from palace_daemon.embed import comparison, minilm, registry
from palace_daemon.embed.install import install

REFERENCE_MODEL = "all-minilm-l6-v2-fp32"
REFERENCE = "fp32, one text a call"
"""The row that all others are compared with."""
PLAIN = "fp32 plain graph, one text a call"
BATCHES = (8, 16, 32, 64)
CLASSIC_BATCH = 8
ROUND_TEXTS = max(BATCHES)
"""Texts that every way has embedded before any begins the next: as many as the largest batch needs."""
TURN_TEXTS = min(BATCHES)
"""Texts that a way embeds before the next takes its turn, where it needs no more at once."""


class Job(NamedTuple):
    """What a process of its own needs to embed as a row does."""

    model_id: str = ""
    graph: str = ""
    batch_texts: int = 0


class Way(NamedTuple):
    """One row: a graph, and how texts are handed to it."""

    name: str
    kind: str
    """What it is, for readers."""
    alone: str
    """Names the vectors of the same graph, one text a call; equal in all ways that run that graph."""
    is_alone: bool
    """Whether this way takes one text a call and so gives those vectors."""
    turn_texts: int
    """Texts that it must be given at once: a batch, or what is sorted by length."""
    embed: Callable[[Sequence[str], int], Float32]
    """Embeds texts on one thread, or on all."""
    job: Job
    embed_alone: Callable[[str], Float32] | None = None
    """Embeds one text with nothing beside it; None where another way does."""


class Graphs(NamedTuple):
    """Where the graphs of the compared ways lie."""

    fp32: Path
    plain: Path
    per_tensor: Path
    per_channel: Path


def build_graphs(models_dir: Path, cache: Path | None = None) -> Graphs:
    """Return the graphs that no model is installed from, built where the cache lacks them (about 10 s).

    Args:
        models_dir: Holds the installed fp32 model.
        cache: A folder; that of the benches if None.

    Raises:
        ModelError: The weights of the plain graph cannot be fetched.
    """
    fp32 = models_dir / REFERENCE_MODEL / registry.GRAPH_FILE
    content = registry.sha256_of(fp32)[:12]
    name = f"graphs-{comparison.VERSION}-{content}-{comparison.runtime_version()}"
    folder = (cache or vector_cache.default_folder()) / name
    graphs = Graphs(fp32, *(folder / f"{name}.onnx" for name in ("plain", "per-tensor", "per-channel")))
    if not graphs.plain.exists():
        comparison.write_plain_graph(models_dir, graphs.plain)
    for target in (graphs.per_tensor, graphs.per_channel):
        if not target.exists():
            comparison.write_classic_graph(fp32, target, per_channel=target == graphs.per_channel)
    return graphs


@contextlib.contextmanager
def opened(
    models_dir: Path, model_ids: Sequence[str], threads: int, *, with_others: bool, cache: Path | None = None
) -> Iterator[list[Way]]:
    """Yield the ways, the reference first and the models last; what they hold is released at the end.

    Args:
        models_dir: Holds the models; those that are missing are installed.
        model_ids: The product's models to compare.
        threads: Threads of the second measurement.
        with_others: Whether batches, the plain graph and classic int8 are compared as well.
        cache: See :func:`build_graphs`.

    Raises:
        ModelError: A model cannot be installed or run.
    """
    for model_id in (REFERENCE_MODEL, *model_ids):
        install(model_id, models_dir)
    with contextlib.ExitStack() as stack:
        fp32 = models_dir / REFERENCE_MODEL / registry.GRAPH_FILE
        ways = [_fixed(stack, fp32, threads, "fp32", {1: REFERENCE}, "the product's fp32 graph")[0]]
        if with_others:
            ways += _others(stack, build_graphs(models_dir, cache), threads)
        ways += [_product(stack, model_id, models_dir, threads) for model_id in model_ids]
        yield ways


def _others(stack: contextlib.ExitStack, graphs: Graphs, threads: int) -> list[Way]:
    batches = {size: f"fp32, batches of {size}" for size in BATCHES}
    ways = _fixed(stack, graphs.fp32, threads, "fp32", batches, "the product's fp32 graph, unsorted")
    ways += _fixed(
        stack, graphs.plain, threads, "fp32 plain", {1: PLAIN}, "as an export would be, optimised by the runtime"
    )
    for graph, label in ((graphs.per_tensor, "per tensor"), (graphs.per_channel, "per channel")):
        name = f"int8 classic {label}"
        names = {1: f"{name}, one text a call", CLASSIC_BATCH: f"{name}, batches of {CLASSIC_BATCH}"}
        ways += _fixed(stack, graph, threads, name, names, f"quantize_dynamic, weights {label}")
    return ways


def _fixed(
    stack: contextlib.ExitStack, graph: Path, threads: int, alone: str, names: dict[int, str], kind: str
) -> list[Way]:
    """Return one way for each size of batches in ``names``, all over one session."""
    runner = comparison.FixedBatches(graph, threads=threads)
    stack.callback(runner.close)

    def way(size: int, name: str) -> Way:
        return Way(
            name=name,
            kind=kind,
            alone=alone,
            is_alone=size == 1,
            turn_texts=max(size, TURN_TEXTS),
            embed=lambda texts, count: runner.embed(texts, batch_texts=size, threads=count),
            job=Job(graph=str(graph), batch_texts=size),
        )

    return [way(size, name) for size, name in names.items()]


def _product(stack: contextlib.ExitStack, model_id: str, models_dir: Path, threads: int) -> Way:
    by_threads = {}
    for count in {1, threads}:
        by_threads[count] = minilm.load(model_id, models_dir, threads=count)
        stack.callback(by_threads[count].close)
    is_reference = model_id == REFERENCE_MODEL
    return Way(
        name=model_id,
        kind="as the daemon runs it" + (": sorted by length, batches capped" if is_reference else ""),
        alone=model_id,
        is_alone=False,
        turn_texts=ROUND_TEXTS if is_reference else TURN_TEXTS,
        embed=lambda texts, count: by_threads[count].embed_passages(texts),
        job=Job(model_id=model_id),
        embed_alone=by_threads[1].embed_query,
    )
