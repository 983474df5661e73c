"""Checking a database for ``doctor``: is it whole, and do its parts agree?"""

from __future__ import annotations

from typing import NamedTuple

from palace_daemon.core import analysis, chunking
from palace_daemon.store import packing, postings, spaces
from palace_daemon.store.spans import columns_of, span_of, text_hash
from palace_daemon.store.sqlite import Connection

ORPHANED = "text_hash NOT IN (SELECT text_hash FROM drawers) AND text_hash NOT IN (SELECT text_hash FROM statements)"
"""Holds for vectors of texts that no drawer and no statement has."""


class Finding(NamedTuple):
    """One check: its name, whether it passed, and what was seen."""

    name: str
    is_ok: bool
    detail: str


def check(connection: Connection, *, is_deep: bool = False) -> list[Finding]:
    """Run all checks inside the caller's read transaction; ``is_deep`` also indexes every drawer again and compares."""
    findings = [
        _integrity(connection, is_deep=is_deep),
        _foreign_keys(connection),
        _tiling(connection),
        _vectors(connection),
    ]
    if is_deep:
        findings += [_values(connection), _words(connection)]
    return findings


def pages(connection: Connection) -> Finding:
    """Look at every page, and compare each index with its table."""
    return _integrity(connection, is_deep=True)


def broken_vectors(connection: Connection) -> list[int]:
    """Return the row ids of vectors that are none: of another width than the others of their space, no numbers, long.

    The width of a space's vectors is that of most of them.
    """
    rows = "SELECT space, length(CAST(vector AS BLOB)) FROM vectors GROUP BY 1, 2 ORDER BY count(*), 2"
    widths: dict[int, int] = dict(connection.execute(rows).fetchall())
    broken = []
    for row_id, space, data in connection.execute("SELECT id, space, CAST(vector AS BLOB) FROM vectors"):
        if len(data) != widths[space] or not packing.is_packed(data) or not packing.is_unit(data):
            broken.append(row_id)
    return broken


def _values(connection: Connection) -> Finding:
    broken = len(broken_vectors(connection))
    return Finding(
        "vector values", not broken, "all of length 1" if not broken else f"{broken} are no vectors of length 1"
    )


def _integrity(connection: Connection, *, is_deep: bool) -> Finding:
    problems = [row[0] for row in connection.execute(f"PRAGMA {'integrity' if is_deep else 'quick'}_check(5)")]
    is_ok = problems == ["ok"]
    return Finding("database pages", is_ok, "whole" if is_ok else "; ".join(problems))


def _foreign_keys(connection: Connection) -> Finding:
    broken = connection.execute("PRAGMA foreign_key_check").fetchall()
    return Finding("references", not broken, "all resolve" if not broken else f"{len(broken)} rows point nowhere")


def _tiling(connection: Connection) -> Finding:
    """Joining the drawers of each exchange must give the exchange."""
    bad = total = 0
    for exchange_id, user, reply in connection.execute("SELECT id, user_text, reply_text FROM exchanges"):
        rows = connection.execute(
            f"SELECT {columns_of('d')} FROM drawers d WHERE exchange_id=? ORDER BY ordinal", (exchange_id,)
        )
        total += 1
        bad += chunking.join(user, reply, [span_of(row) for row in rows]) != (user, reply)
    return Finding(
        "drawers", not bad, f"{total} exchanges are whole" if not bad else f"{bad} of {total} exchanges are not whole"
    )


def _vectors(connection: Connection) -> Finding:
    held = spaces.read(connection)
    missing = sum(_missing(connection, space.model) for space in (held.answering, held.next) if space is not None)
    (orphans,) = connection.execute(f"SELECT count(*) FROM vectors WHERE {ORPHANED}").fetchone()
    (miscounted,) = connection.execute(
        "SELECT count(*) FROM spaces s WHERE vectors<>(SELECT count(*) FROM vectors v WHERE v.space=s.number)"
        " OR pending<>(SELECT count(*) FROM pending_texts p WHERE p.model=s.model)"
    ).fetchone()
    problems = [
        f"{number} {what}"
        for number, what in (
            (missing, "missing and not queued"), (orphans, "orphaned"), (miscounted, "models are counted wrongly")
        )
        if number
    ]  # fmt: skip
    return Finding("vectors", not problems, ", ".join(problems) or "agree with drawers and statements")


def _missing(connection: Connection, model: str) -> int:
    """Return how many texts have neither a vector of ``model`` nor a place in its queue."""
    (count,) = connection.execute(
        "SELECT count(*) FROM (SELECT text_hash FROM drawers UNION SELECT text_hash FROM statements) t WHERE NOT EXISTS"
        " (SELECT 1 FROM vectors v WHERE v.text_hash=t.text_hash AND v.space=?2) AND NOT EXISTS"
        " (SELECT 1 FROM pending_texts p WHERE p.text_hash=t.text_hash AND p.model=?1)",
        (model, spaces.number(model)),
    ).fetchone()
    return int(count)


def _words(connection: Connection) -> Finding:
    expected: dict[str, dict[int, tuple[int, int]]] = {}
    wrong = 0
    for drawer_id, hash_, length, user, reply, *span in connection.execute(
        f"SELECT d.id, d.text_hash, d.length, e.user_text, e.reply_text, {columns_of('d')}"
        " FROM drawers d JOIN exchanges e ON e.id=d.exchange_id"
    ):
        text = chunking.render(user, reply, span_of(tuple(span)))
        found = analysis.term_places(text)
        wrong += hash_ != text_hash(text) or length != sum(places.times for places in found.values())
        for term, places in found.items():
            expected.setdefault(term, {})[drawer_id] = (min(places.times, postings.FREQUENCY_MAX), places.mask)
    terms = set(postings.all_terms(connection))
    wrong += len(terms ^ expected.keys())
    for term in terms & expected.keys():
        try:
            held = postings.read(connection, term)
        except ValueError:  # a row of another length than its three columns have
            wrong += 1
            continue
        pairs = zip(held.frequencies.tolist(), held.masks.tolist(), strict=True)
        wrong += dict(zip(held.ids.tolist(), pairs, strict=True)) != expected[term]
    return Finding("word index", not wrong, "agrees with drawers" if not wrong else f"{wrong} differences")
