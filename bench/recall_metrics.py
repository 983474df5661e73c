"""What ranks of gold come to: recall at k, mean reciprocal rank, and what changed against another run. Pure.

A rank counts from 1; None means not among the first :data:`DEPTH`. A question without gold, abstention among them, is
no part of any figure here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

KS = (1, 3, 5, 10)
DEPTH = max(KS)
"""How many distinct sessions or exchanges are looked at."""
_P_SHOWN_MIN = 0.0001

Ranks = tuple[int | None, ...]
"""Of each piece of gold of one question."""


class Key(NamedTuple):
    """What tells a question of a set from all others: ids of questions may recur in another haystack."""

    haystack_id: str
    question_id: str


class Judged(Struct, frozen=True, kw_only=True):
    """A question with gold, and where the gold stood."""

    question_id: str
    kind: str
    ranks: Ranks


class Figures(Struct, frozen=True, kw_only=True):
    """What a group of questions comes to. The counts are of questions, by k."""

    n: int
    any_at: dict[int, int]
    """Questions of which some gold is among the first k."""
    all_at: dict[int, int]
    """Questions of which all gold is."""
    mrr: float
    """Mean of 1 / rank of the best gold, 0 beyond :data:`DEPTH`."""


class Moved(Struct, frozen=True, kw_only=True):
    """A question whose best gold stands elsewhere now."""

    key: Key
    before: int | None
    after: int | None


class Paired(Struct, frozen=True, kw_only=True):
    """Questions that only one of two runs had right at k, and how likely so uneven a split is by chance."""

    k: int
    gained: int
    lost: int
    p_value: float


class Comparison(Struct, frozen=True, kw_only=True):
    """Two runs over the same questions."""

    n: int
    up: tuple[Moved, ...]
    down: tuple[Moved, ...]
    paired: tuple[Paired, ...]


def best(ranks: Ranks) -> int | None:
    """Return the rank of the gold that stands first."""
    return min((rank for rank in ranks if rank is not None), default=None)


def any_at(ranks: Ranks, k: int) -> bool:
    """Return whether some gold is among the first ``k``."""
    return any(rank is not None and rank <= k for rank in ranks)


def all_at(ranks: Ranks, k: int) -> bool:
    """Return whether all gold is among the first ``k``, and there is some."""
    return bool(ranks) and all(rank is not None and rank <= k for rank in ranks)


def figures(judged: Sequence[Judged]) -> Figures:
    """Return what the questions come to."""
    places = [best(one.ranks) for one in judged]
    reciprocal = math.fsum(1.0 / place for place in places if place is not None)
    return Figures(
        n=len(judged),
        any_at={k: sum(any_at(one.ranks, k) for one in judged) for k in KS},
        all_at={k: sum(all_at(one.ranks, k) for one in judged) for k in KS},
        mrr=reciprocal / len(judged) if judged else 0.0,
    )


def per_kind(judged: Sequence[Judged]) -> dict[str, Figures]:
    """Return the figures of each kind of question, by name."""
    kinds: dict[str, list[Judged]] = {}
    for one in judged:
        kinds.setdefault(one.kind, []).append(one)
    return {kind: figures(kinds[kind]) for kind in sorted(kinds)}


def mcnemar(gained: int, lost: int) -> float:
    """Return the exact two-sided p of McNemar's test: of the binomial distribution over the pairs that differ."""
    pairs = gained + lost
    tail = sum(math.comb(pairs, count) for count in range(min(gained, lost) + 1))
    return min(1.0, 2.0 * (tail / (1 << pairs)))


def compare(before: Mapping[Key, Ranks], after: Mapping[Key, Ranks]) -> Comparison:
    """Return what changed from one run to another, over the questions with gold that both have."""
    shared = [key for key in after if after[key] and before.get(key)]
    moved = [Moved(key=key, before=best(before[key]), after=best(after[key])) for key in shared]
    paired = []
    for k in KS:
        gained = sum(any_at(after[key], k) and not any_at(before[key], k) for key in shared)
        lost = sum(any_at(before[key], k) and not any_at(after[key], k) for key in shared)
        paired.append(Paired(k=k, gained=gained, lost=lost, p_value=mcnemar(gained, lost)))
    return Comparison(
        n=len(shared),
        up=tuple(one for one in moved if _depth(one.after) < _depth(one.before)),
        down=tuple(one for one in moved if _depth(one.after) > _depth(one.before)),
        paired=tuple(paired),
    )


def written(p_value: float) -> float:
    """Return a p as JSON holds it: with six significant digits, so that a small one is not 0."""
    return float(f"{p_value:.6g}")


def shown(p_value: float) -> str:
    """Return a p for readers."""
    return f"p = {p_value:.2g}" if p_value >= _P_SHOWN_MIN else f"p < {_P_SHOWN_MIN}"


def _depth(rank: int | None) -> int:
    return DEPTH + 1 if rank is None else rank


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below or at which ``share`` of ``values`` lie (nearest rank); 0 where there are none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0
