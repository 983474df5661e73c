"""Checking a database for ``doctor``: is it whole, and do its parts agree?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from palace_daemon.core import analysis, chunking
from palace_daemon.errors import PalaceError
from palace_daemon.store import packing, postings, spaces, values
from palace_daemon.store.spans import columns_of, span_of, text_hash
from palace_daemon.store.sqlite import Connection, Error

ORPHANED = "text_hash NOT IN (SELECT text_hash FROM drawers) AND text_hash NOT IN (SELECT text_hash FROM statements)"
"""Holds for vectors of texts that no drawer and no statement has."""
WITHOUT_PLACE = "NOT EXISTS (SELECT 1 FROM provenance p WHERE p.exchange_id=e.id AND p.source_id=e.owner_source_id)"
"""Holds for exchanges ``e`` that their own source does not tell."""
WITHOUT_KEY = "NOT EXISTS (SELECT 1 FROM exchange_keys k WHERE k.exchange_id=e.id AND k.key=e.key)"
"""Holds for exchanges ``e`` to which their own key does not lead."""
WITHOUT_NOTE = "e.user_kind='note' AND NOT EXISTS (SELECT 1 FROM notes n WHERE n.exchange_id=e.id)"
"""Holds for exchanges ``e`` that are notes, and lack what only notes have."""


class Finding(NamedTuple):
    """One check: its name, whether it passed, and what was seen."""

    name: str
    is_ok: bool
    detail: str


def check(connection: Connection, *, is_deep: bool = False) -> list[Finding]:
    """Run all checks inside the caller's read transaction; ``is_deep`` also indexes every drawer again and compares.

    A check that a row is too odd for fails, and names the kind of error alone: its message may quote the row.
    """
    looks: list[tuple[str, Callable[[Connection], Finding]]] = [
        ("database pages", partial(_integrity, is_deep=is_deep)),
        ("references", _foreign_keys),
        ("places", _places),
        ("notes", _notes),
        ("drawers", _tiling),
        ("vectors", _vectors),
    ]
    if is_deep:
        looks += [("texts", _texts), ("row values", _rows), ("vector values", _values), ("word index", _words)]
    return [_looked(name, look, connection) for name, look in looks]


def _looked(name: str, look: Callable[[Connection], Finding], connection: Connection) -> Finding:
    try:
        return look(connection)
    except (Error, PalaceError):
        raise
    except Exception as exc:  # noqa: BLE001 - whatever a row provokes, the other checks are to be made
        return Finding(name, is_ok=False, detail=f"cannot be checked: {type(exc).__name__}")


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


def _places(connection: Connection) -> Finding:
    """Each exchange has a place in the source that owns it, and its key leads to it."""
    return _agreeing(
        "places",
        "every exchange has one, and a key",
        (
            (_count(connection, WITHOUT_PLACE), "without a place"),
            (_count(connection, WITHOUT_KEY), "without their key"),
        ),
    )


def _notes(connection: Connection) -> Finding:
    lacking = _count(connection, WITHOUT_NOTE)
    return Finding("notes", not lacking, "are whole" if not lacking else f"{lacking} lack what notes have")


def _count(connection: Connection, condition: str) -> int:
    (count,) = connection.execute(f"SELECT count(*) FROM exchanges e WHERE {condition}").fetchone()
    return int(count)


def _texts(connection: Connection) -> Finding:
    """Each text is as it was when it was stored; those that are known not to be wait for their transcripts."""
    changed = len(values.changed_texts(connection))
    (waiting,) = connection.execute("SELECT count(*) FROM exchanges WHERE content_hash=x''").fetchone()
    if changed:
        return Finding("texts", is_ok=False, detail=f"{changed} are not as they were stored")
    return Finding(
        "texts", is_ok=True, detail=f"{waiting} changed, which is known" if waiting else "as they were stored"
    )


def _rows(connection: Connection) -> Finding:
    return _agreeing(
        "row values",
        "can all be read",
        (
            (len(values.broken(connection)), "cannot be read"),
            (values.odd_numbers(connection), "rows have impossible numbers"),
        ),
    )


def _agreeing(name: str, all_well: str, counts: tuple[tuple[int, str], ...]) -> Finding:
    problems = [f"{number} {what}" for number, what in counts if number]
    return Finding(name, not problems, ", ".join(problems) or all_well)


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
    return _agreeing(
        "vectors",
        "agree with drawers and statements",
        ((missing, "missing and not queued"), (orphans, "orphaned"), (miscounted, "models are counted wrongly")),
    )


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
        except (TypeError, ValueError):  # no bytes, or of another length than its three columns have
            wrong += 1
            continue
        pairs = zip(held.frequencies.tolist(), held.masks.tolist(), strict=True)
        wrong += dict(zip(held.ids.tolist(), pairs, strict=True)) != expected[term]
    return Finding("word index", not wrong, "agrees with drawers" if not wrong else f"{wrong} differences")
