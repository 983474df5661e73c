"""What stands around a drawer: its date."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palace_daemon.core import dates
from palace_daemon.core.rank.words import Float64, Rows


def date_lift(spans: Sequence[dates.DateSpan], started_at: Rows) -> Float64:
    """Return float64 ``[n]`` in [0, 1]: how well each drawer's date fits the best of the spans that are named."""
    lift = np.zeros(len(started_at), np.float64)
    for span in spans:
        lift = np.maximum(lift, dates.window_weight(span, started_at))
    return lift
