"""Which projects there are, and how much recall can find of each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from palace_daemon.core.dates import NO_DATE
from palace_daemon.model import ProjectView
from palace_daemon.service.ranking import project_name
from palace_daemon.store.mirror import Snapshot


def of(drawers: Snapshot) -> tuple[ProjectView, ...]:
    """Return every project with a drawer that stands, the one with the newest exchange first, ties by path.

    O(n log n) over the drawers in memory: a hundred thousand take some ten milliseconds, and no row is read.
    """
    live = np.flatnonzero(drawers.is_live)
    order = live[np.argsort(drawers.projects[live], kind="stable")]
    codes, starts = np.unique(drawers.projects[order], return_index=True)
    parts = np.split(order, starts[1:])
    found = [_view(drawers, int(code), rows) for code, rows in zip(codes, parts, strict=False)]
    return tuple(sorted(found, key=lambda view: (view.newest_at is None, -(view.newest_at or 0), view.path)))


def _view(drawers: Snapshot, code: int, rows: NDArray[np.int64]) -> ProjectView:
    path = drawers.project_names[code]
    dated = drawers.started_at[rows]
    dated = dated[dated != NO_DATE]
    return ProjectView(
        path=path,
        name=project_name(path),
        sessions=len(np.unique(drawers.sessions[rows])),
        exchanges=len(np.unique(drawers.exchanges[rows])),
        agents=tuple(sorted(drawers.agent_names[agent] for agent in np.unique(drawers.agents[rows]))),
        newest_at=int(dated.max()) if len(dated) else None,
    )
