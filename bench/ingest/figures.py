"""From what was seen to figures: rates over time, how true the time told was, and what is left to embed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from palace_daemon.bench.ingest.archive import Origins, Written
from palace_daemon.bench.ingest.online import Found, Sample, Told
from palace_daemon.bench.scale.clients import timing

ETA_AT = (0.10, 0.25, 0.50, 0.75)
"""Shares of the bytes at which the time told is held against what it came to."""
POINTS_MAX = 60
"""Looks that go into the report."""
_GB = 1e9


def of(found: Found, origins: Origins, written: Written) -> dict[str, Any]:
    """Return the figures of one run."""
    words, last = found.words, found.words[-1]
    seconds = last.at_s
    return {
        "archiveMb": _mb(written.size_bytes),
        "files": written.files,
        "copies": written.copies,
        "originFiles": len(origins.files),
        "originFilesLeftOut": origins.left_out,
        "exchanges": last.exchanges,
        "exchangesPerMb": _ratio(last.exchanges, written.size_bytes / 1e6, 1),
        "distinctTexts": last.texts,
        "textsPerExchange": _ratio(last.texts, last.exchanges, 2),
        "wordsSeconds": round(seconds, 2),
        "mbPerSecond": rates(words, lambda one: one.read_bytes / 1e6),
        "exchangesPerSecond": rates(words, lambda one: one.exchanges),
        "gbHoursToWords": _ratio(seconds * _GB / 3_600, written.size_bytes, 2),
        "wordsCoresBusy": _ratio(found.cpu_s, seconds, 2),
        "vectors": vectors(found, written.size_bytes),
        "recallWhileMining": timing([one.asked for one in words]),
        "recallWhileEmbedding": timing([one.asked for one in found.vectors]),
        "rssMb": _over_time(words, lambda one: one.rss_mb),
        "rssPeakMb": found.rss_peak_mb,
        "walMaxMb": _mb(max(one.wal_bytes for one in words + found.vectors)),
        "databaseMb": _mb(found.database_bytes),
        "databaseToArchive": _ratio(found.database_bytes, written.size_bytes, 3),
        "eta": etas(found.told, words, written.size_bytes),
        "restart": restart(found),
        "samples": [_shown(one) for one in thinned(words + found.vectors)],
    }


def rates(samples: Sequence[Sample], value: Callable[[Sample], float]) -> dict[str, Any]:
    """Return a rate a second over all, over the first and the last third of the time, and the last to the first."""
    end = samples[-1].at_s
    first, last = _rate(samples, value, 0.0, end / 3), _rate(samples, value, end * 2 / 3, end)
    return {
        "all": _rounded(value(samples[-1]) / end if end else None),
        "firstThird": _rounded(first),
        "lastThird": _rounded(last),
        "lastToFirst": _ratio(last, first, 2) if first and last is not None else None,
    }


def vectors(found: Found, size_bytes: int) -> dict[str, Any]:
    """Return the steady rate of embedding after the mining, and what it makes of the texts that are left."""
    begin, end = found.vectors[0], found.vectors[-1]
    seconds, count = end.at_s - begin.at_s, end.vectors - begin.vectors
    rate = count / seconds if seconds and count else None
    left = begin.texts - begin.vectors
    after_s = left / rate if rate else None
    told_s = next((one.texts_eta_s for one in found.vectors if one.texts_eta_s is not None), None)
    whole_s = begin.at_s + after_s if after_s is not None else None
    moved = [_moved(one, begin.at_s) for one in found.vectors]
    return {
        "whileMining": begin.vectors,
        "sample": count,
        "sampleSeconds": round(seconds, 2),
        "textsPerSecond": rates(moved, lambda one: one.vectors - begin.vectors) if rate else None,
        "left": left,
        "isExtrapolated": end.vectors < end.texts,
        "secondsLeft": _rounded(after_s),
        "etaTold": told_s,
        "etaToldToIt": _ratio(told_s, after_s, 2) if told_s and after_s else None,
        "secondsInAll": _rounded(whole_s),
        "gbHours": _ratio(whole_s * _GB / 3_600, size_bytes, 2) if whole_s else None,
    }


def etas(told: Sequence[Told], words: Sequence[Sample], size_bytes: int) -> list[dict[str, Any]]:
    """Return what was told first after each share of the bytes was read, beside what was left then."""
    end = words[-1].at_s
    rows = []
    for share in ETA_AT:
        since = next((one.at_s for one in words if one.read_bytes >= share * size_bytes), end)
        first = next((one for one in told if one.at_s >= since and one.done < one.total), None)
        if first is None or first.at_s >= end:
            continue
        left = end - first.at_s
        rows.append(
            {
                "share": share,
                "filesDone": round(first.done / first.total, 3),
                "toldS": first.eta_s,
                "wasS": round(left, 1),
                "toldToWas": _ratio(first.eta_s, left, 2),
            }
        )
    return rows


def restart(found: Found) -> dict[str, Any] | None:
    """Return what was stored when the daemon was stopped, and what the next one did a second time."""
    stop = found.restart
    if stop is None:
        return None
    return {
        "atMb": _mb(stop.read_bytes),
        "exchangesBefore": stop.exchanges,
        "exchangesAfter": found.words[-1].exchanges - stop.exchanges,
        # A daemon reads on by itself when it starts; what it adds before somebody listens is not told.
        "exchangesAddedAgain": max(0, stop.exchanges + found.added - found.words[-1].exchanges),
        "exchangesReplacedAfter": found.replaced,
        "vectorsAddedAgain": max(0, stop.vectors + found.vectors_added - found.vectors[-1].vectors),
        "downS": stop.down_s,
    }


def thinned(samples: Sequence[Sample]) -> list[Sample]:
    """Return at most :data:`POINTS_MAX` samples from all over, the first and the last among them."""
    if len(samples) <= POINTS_MAX:
        return list(samples)
    return [samples[round(at * (len(samples) - 1) / (POINTS_MAX - 1))] for at in range(POINTS_MAX)]


def _rate(samples: Sequence[Sample], value: Callable[[Sample], float], since: float, until: float) -> float | None:
    passed = until - since
    return (_at(samples, value, until) - _at(samples, value, since)) / passed if passed > 0 else None


def _at(samples: Sequence[Sample], value: Callable[[Sample], float], moment: float) -> float:
    """Return the value at a moment, on the line between the looks around it; 0 at the beginning."""
    before_s, before = 0.0, 0.0
    for one in samples:
        if one.at_s >= moment:
            share = (moment - before_s) / (one.at_s - before_s) if one.at_s > before_s else 1.0
            return before + share * (value(one) - before)
        before_s, before = one.at_s, value(one)
    return before


def _moved(one: Sample, by_s: float) -> Sample:
    return Sample(**{name: getattr(one, name) for name in one.__struct_fields__} | {"at_s": one.at_s - by_s})


def _over_time(samples: Sequence[Sample], value: Callable[[Sample], float | None]) -> dict[str, Any]:
    known = [found for one in samples if (found := value(one)) is not None]
    third = max(1, len(known) // 3)
    if not known:
        return {"firstThird": None, "lastThird": None}
    return {
        "firstThird": round(sum(known[:third]) / third, 1),
        "lastThird": round(sum(known[-third:]) / third, 1),
    }


def _shown(one: Sample) -> dict[str, Any]:
    return {
        "atS": round(one.at_s, 2),
        "mb": _mb(one.read_bytes),
        "exchanges": one.exchanges,
        "vectors": one.vectors,
        "rssMb": one.rss_mb,
        "databaseMb": _mb(one.database_bytes),
        "walMb": _mb(one.wal_bytes),
        "recallMs": round(one.asked.ms, 1),
    }


def _mb(size: int) -> float:
    return round(size / 1e6, 2)


def _ratio(one: float | None, other: float | None, digits: int) -> float | None:
    return round(one / other, digits) if one is not None and other else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
