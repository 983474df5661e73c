"""Measures ways to embed that take turns, so that whatever else the machine does falls on all alike."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palace_daemon.bench.embed_rows import REFERENCE, ROUND_TEXTS, TURN_TEXTS, Way
from palace_daemon.embed.tokens import packaged_tokenizer

Float64 = NDArray[np.float64]


class Measured(NamedTuple):
    """What a way took, and the vectors that it gave."""

    cpu_s: float
    """On one thread, everything from text to vector."""
    wall_s: float
    """On all threads, for one round."""
    single: Float64
    """From one thread, ``[n, dim]``."""
    together: Float64
    """From all threads, of the first round."""


def rows(ways: Sequence[Way], texts: Sequence[str], tokens: int, threads: int) -> list[dict[str, Any]]:
    """Return one row a way; the reference must be among them.

    Args:
        ways: To compare.
        texts: None above the cap.
        tokens: Of all texts, special ones included.
        threads: Threads of ``textsPerSecond``.
    """
    for way in ways:  # the first call of a session allocates
        way.embed(texts[:1], 1)
        way.embed(texts[:1], threads)
    cpu_s, single = _cpu_turns(ways, texts)
    wall_s, together = _wall_turns(ways, texts[:ROUND_TEXTS], threads)
    measured = {
        way.name: Measured(cpu_s[way.name], wall_s[way.name], single[way.name], together[way.name]) for way in ways
    }
    alone = {way.alone: measured[way.name].single for way in ways if way.is_alone}
    for way in ways:
        if way.alone not in alone and way.embed_alone is not None:
            alone[way.alone] = np.array([way.embed_alone(text) for text in texts], np.float64)
    return [_row(way, measured, alone[way.alone], tokens) for way in ways]


def tokens_per_cpu_second(texts: Sequence[str]) -> float:
    """Return how fast texts become tokens, which every row includes."""
    tokenizer = packaged_tokenizer()
    began = time.process_time()
    tokens = sum(len(tokenizer.encode(text).ids) for text in texts)
    return tokens / max(time.process_time() - began, 1e-9)


def cosines(left: Float64, right: Float64) -> Float64:
    """Return the cosine of each row of one matrix with that of the other, ``[n]``."""
    return np.asarray((left * right).sum(1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1))


def _cpu_turns(ways: Sequence[Way], texts: Sequence[str]) -> tuple[dict[str, float], dict[str, Float64]]:
    """Return CPU seconds and vectors by way, on one thread: a few texts each, another way first each time."""
    seconds = dict.fromkeys((way.name for way in ways), 0.0)
    vectors: dict[str, list[Float64]] = {way.name: [] for way in ways}
    done = dict.fromkeys(seconds, 0)
    for number, end in enumerate(range(TURN_TEXTS, len(texts) + TURN_TEXTS, TURN_TEXTS)):
        for way in _rotated(ways, number):
            if end % way.turn_texts and end < len(texts):
                continue
            part = texts[done[way.name] : end]
            began = time.process_time()
            found = way.embed(part, 1)
            seconds[way.name] += time.process_time() - began
            vectors[way.name].append(found.astype(np.float64))
            done[way.name] = end
    return seconds, {name: np.concatenate(parts) for name, parts in vectors.items()}


def _wall_turns(ways: Sequence[Way], texts: Sequence[str], threads: int) -> tuple[dict[str, float], dict[str, Float64]]:
    """Return seconds and vectors by way, each given all texts at once: no thread waits for the end of a turn."""
    seconds, vectors = {}, {}
    for way in ways:
        began = time.perf_counter()
        found = way.embed(texts, threads)
        seconds[way.name] = time.perf_counter() - began
        vectors[way.name] = found.astype(np.float64)
    return seconds, vectors


def _rotated(ways: Sequence[Way], by: int) -> tuple[Way, ...]:
    first = by % len(ways)
    return (*ways[first:], *ways[:first])


def _row(way: Way, measured: dict[str, Measured], alone: Float64, tokens: int) -> dict[str, Any]:
    own, reference = measured[way.name], measured[REFERENCE]
    near = cosines(own.single, reference.single)
    company = min(float(cosines(found, alone[: len(found)]).min()) for found in (own.single, own.together))
    return {
        "name": way.name,
        "kind": way.kind,
        "tokensPerCpuSecond": round(tokens / own.cpu_s),
        "ratioToFp32": round(reference.cpu_s / own.cpu_s, 2),
        "textsPerSecond": round(len(own.together) / own.wall_s, 1),
        "cosineToFp32Mean": round(float(near.mean()), 5),
        "cosineToFp32Min": round(float(near.min()), 5),
        "worstBatchedVsAlone": None if way.is_alone else round(company, 7),
    }
