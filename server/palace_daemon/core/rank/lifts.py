"""What stands around a drawer: its session, its date."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palace_daemon.core import dates
from palace_daemon.core.rank.words import Flags, Float64, Rows


def session_lift(totals: Float64, exchanges: Rows, sessions: Rows, in_scope: Flags) -> Float64:
    """Return float64 ``[n]``: the best total of another exchange of the same session, 0 where there is none.

    A session that speaks of the matter in several places is likelier to be the one that is meant.

    Args:
        totals: What the drawers have without this.
        exchanges: Exchange id of each drawer.
        sessions: Session id of each drawer.
        in_scope: Which drawers count.
    """
    # Rounded, since a product of matrices may differ in its last bits with the place of a row.
    known = np.where(in_scope, np.round(totals, 5), -np.inf)
    first = np.full(int(sessions.max(initial=0)) + 1, -np.inf)
    np.maximum.at(first, sessions, known)
    leader = np.full(len(first), -1, np.int64)
    leads = np.isfinite(known) & (known == first[sessions])
    np.maximum.at(leader, sessions[leads], exchanges[leads])
    is_leader = leader[sessions] == exchanges
    second = np.full(len(first), -np.inf)
    np.maximum.at(second, sessions[~is_leader], known[~is_leader])
    lift = np.where(is_leader, second[sessions], first[sessions])
    return np.where(np.isfinite(lift), np.maximum(lift, 0.0), 0.0)


def date_lift(spans: Sequence[dates.DateSpan], started_at: Rows) -> Float64:
    """Return float64 ``[n]`` in [0, 1]: how well each drawer's date fits the best of the spans that are named."""
    lift = np.zeros(len(started_at), np.float64)
    for span in spans:
        lift = np.maximum(lift, dates.window_weight(span, started_at))
    return lift
