"""Random histories of transcript files, and what two stores hold of them: one that lived through, and a fresh one."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from support.standing import remembered, standing

EXAMPLES = int(os.environ.get("PALACE_HISTORIES", "0"))
"""How many histories are tried, where somebody says so; then they are other ones in each run."""


class World:
    """Transcripts below a directory, and a person and programs who work on it. Public methods can happen."""

    def __init__(self, directory: Path, open_palace: Callable[[], Any], seed: int) -> None:
        self.directory = directory
        self.open_palace = open_palace
        self.palace = open_palace()
        self.chance = random.Random(seed)

    def append(self) -> None:
        """Write what was said next; it happens first."""
        raise NotImplementedError

    def _rewritten(self, path: Path, *, lines_min: int) -> str:
        """Return the first lines of a transcript, at least so many, one of them perhaps with other words."""
        lines = path.read_text().splitlines(keepends=True)
        keep = lines[: self.chance.randrange(lines_min, len(lines) + 1)]
        if keep and self.chance.random() < 0.5:
            index = self.chance.randrange(len(keep))
            keep[index] = keep[index].replace("Answer", "Another answer").replace("Question", "Other question")
        return "".join(keep)

    def restart(self) -> None:
        self.palace.close()
        self.palace = self.open_palace()

    def mine(self) -> None:
        self.palace.mine([str(self.directory)], wait=self.chance.random() < 0.7)


def tried(usual: int) -> Callable[[Any], Any]:
    """Return the settings of a test of ``usual`` histories."""
    return settings(
        max_examples=EXAMPLES or usual,
        deadline=None,
        derandomize=not EXAMPLES,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


def timeout_s(usual: int) -> int:
    """Return what such a test may take at most."""
    return 60 + 5 * (EXAMPLES or usual)


def steps_of(world: type[World]) -> st.SearchStrategy[list[str]]:
    """Return sequences of what can happen in a world."""
    names = [name for name in dir(world) if not name.startswith("_")]
    return st.lists(st.sampled_from(names), min_size=3, max_size=14)


def lived_and_fresh(
    make_world: Callable[[Path, Callable[[], Any], int], World],
    make_palace: Callable[[Path], Any],
    root: Path,
    steps: Sequence[str],
    seed: int,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Have steps happen; return what the store tells that lived through, and what one that mines the final files does.

    What files told that are gone is left out of both.
    """
    directory = root / "transcripts"
    directory.mkdir()
    world = make_world(directory, lambda: make_palace(root / "lived"), seed)
    world.append()
    for step in steps:
        getattr(world, step)()
    for _ in range(2):  # what the first pass found must be read anew
        world.palace.mine([str(directory)], wait=True)
    world.palace.close()
    fresh = make_palace(root / "fresh")
    files = sorted(str(path) for path in directory.rglob("*") if path.is_file())
    world.chance.shuffle(files)
    for file in files:
        if os.path.getsize(file):
            fresh.mine([file], wait=True)
    fresh.mine([str(directory)], wait=True)
    fresh.close()
    lived, once = root / "lived" / "palace.db", root / "fresh" / "palace.db"
    kept = remembered(lived)
    return standing(lived, *kept), standing(once, *kept)
