"""What a compaction dropped: the one rewrite of a file that retracts nothing.

Invariant: a compaction leaves a mark that is counted among the lines passed over, so a pass that counts more of them
than the one before it tells of a new one. What that one dropped stands for ever; what a later rewrite drops does not.
"""

from __future__ import annotations

import msgspec

from palace_daemon.store.sqlite import Connection

MARKS = frozenset(
    {
        *("compact_summary", "compaction_summary", "compaction", "compacted", "compression"),
        *("entry:compaction", "message:compaction"),
    }
)
"""Reasons for which parsers pass over what a compaction left in a file."""
_BEFORE = "compactions_before_pass:"
"""Begins the name under which the marks of the former pass are kept while a pass runs; that pass's number follows."""


def count_to_keep(connection: Connection, source_id: int) -> str:
    """Return what a pass that begins is to know of the former one, as the JSON of its own counts."""
    (stored,) = connection.execute("SELECT lines_skipped FROM sources WHERE id=?", (source_id,)).fetchone()
    counts = _decode(stored)
    kept = {name: count for name, count in counts.items() if name.startswith(_BEFORE)}  # that pass was broken off
    if not kept and (marks := _marks(counts)):
        (last,) = connection.execute(
            "SELECT coalesce(max(reading), 0) FROM provenance WHERE source_id=?", (source_id,)
        ).fetchone()
        kept = {f"{_BEFORE}{last}": marks}
    return msgspec.json.encode(kept).decode()


def first_pass_to_judge(connection: Connection, source_id: int, counts: dict[str, int]) -> int | None:
    """Return the pass from which on what was told has vanished if the source, read to its end, does not tell it.

    What was told in older ones only was dropped by an older compaction; None: a new one dropped what is missing now.

    Args:
        connection: The write connection, in a transaction.
        source_id: The source.
        counts: What this pass has passed over so far, by reason.
    """
    first, known = 0, 0
    for name, count in counts.items():
        if name.startswith(_BEFORE):
            first, known = int(name.removeprefix(_BEFORE)), count
            left = {other: counts[other] for other in counts if other != name}
            connection.execute(
                "UPDATE sources SET lines_skipped=? WHERE id=?", (msgspec.json.encode(left).decode(), source_id)
            )
    return None if _marks(counts) > known else first


def _marks(counts: dict[str, int]) -> int:
    return sum(count for name, count in counts.items() if name in MARKS)


def _decode(stored: str) -> dict[str, int]:
    return msgspec.json.decode(stored, type=dict[str, int])
