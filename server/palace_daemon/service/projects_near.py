"""Which projects somebody may have meant who named one that is not there."""

from __future__ import annotations

import numpy as np

from palace_daemon.service.ranking import project_name
from palace_daemon.service.recall import is_project
from palace_daemon.store.mirror import Snapshot

PROJECTS_MAX = 5


def of(drawers: Snapshot, wanted: str) -> tuple[str, ...]:
    """Return known projects whose path or name holds ``wanted`` in any case, the nearest first, at most five.

    Projects of which nothing is left are not known. Nothing is near a name that a known project bears.
    """
    known = [drawers.project_names[code] for code in np.unique(drawers.projects[drawers.is_live])]
    folded = wanted.rstrip("/\\").casefold()
    if not folded or any(is_project(project, wanted) for project in known):
        return ()
    near = [project for project in known if folded in project.casefold()]
    return tuple(sorted(near, key=lambda project: (_distance(project, folded), project))[:PROJECTS_MAX])


def _distance(project: str, folded: str) -> int:
    name = project_name(project).casefold()
    if folded in (name, project.casefold()):
        return 0
    return 1 if folded in name else 2
