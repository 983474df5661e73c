"""How many secrets were redacted in what is stored, by kind.

Invariant: the counts stand in the row of the exchange that they are about, so that whatever replaces or removes the
exchange takes them along. Nothing is added up while mining.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

import msgspec

from palace_daemon.model import Attachment, ToolUse
from palace_daemon.store.sqlite import Connection


def column(
    flags: Collection[str], texts: Iterable[str], tools: Iterable[ToolUse], attachments: Iterable[Attachment]
) -> str:
    """Return the counts as they are stored: JSON, or nothing.

    Where the flags do not say that something was redacted, a placeholder is somebody's own words.
    """
    if "redacted" not in flags:
        return ""
    from palace_daemon.core import redaction  # noqa: PLC0415 - first answers need not wait for its patterns

    counts = redaction.count([*texts, *(tool.target for tool in tools), *(item.name for item in attachments)])
    return msgspec.json.encode(counts).decode() if counts else ""


def by_kind(connection: Connection) -> dict[str, int]:
    """Return the placeholders in all stored exchanges, superseded ones too, sorted by kind. Reads one small index."""
    total: Counter[str] = Counter()
    rows = connection.execute(
        "SELECT redactions, count(*) FROM exchanges INDEXED BY exchanges_redactions WHERE redactions<>''"
        " GROUP BY redactions"
    )
    for stored, exchanges in rows:
        for kind, count in msgspec.json.decode(stored, type=dict[str, int]).items():
            total[kind] += count * exchanges
    return dict(sorted(total.items()))
