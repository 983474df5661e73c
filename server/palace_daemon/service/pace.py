"""How much of the reading of a job is done, by bytes, and how long the rest takes at the pace so far."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

import msgspec

from palace_daemon.model import Progress
from palace_daemon.service.api import ProgressListener

FILE_BYTES = 8_192
"""What it costs to open a file and to see what is new in it, in bytes that could be read meanwhile."""


def eta_s(passed_s: float, done: int, total: int) -> float | None:
    """Return how many seconds what is left of ``total`` takes; None while nothing is done."""
    return round(passed_s * (total - done) / done, 1) if done > 0 else None


def bytes_left(size: int, read: int) -> int:
    """Return how much of a file there is to read, of which ``read`` bytes are; all of one that has shrunk is read.

    A compressed file has fewer bytes than were read of it.
    """
    return max(0, size - read)


class Backlog:
    """The bytes that a job has to read, by source. Not thread-safe."""

    def __init__(self, sizes: Mapping[str, tuple[int, int]]) -> None:
        """Take of each source its size, and how much of it is still to be read."""
        self._sizes = {path: size for path, (size, _) in sizes.items()}
        self._planned = {path: left + FILE_BYTES for path, (_, left) in sizes.items()}
        self._left = dict(self._planned)
        self.total = sum(self._planned.values())
        """What there is to do, without sources in which there was nothing new."""
        self.done = 0

    def read_on(self, path: str, share_left: float) -> None:
        """Note that all but a share of the source is read."""
        left = min(self._left[path], FILE_BYTES + int(self._sizes[path] * share_left))
        self.done += self._left[path] - left
        self._left[path] = left

    def find(self, container: str, found: Collection[str]) -> None:
        """Note which sources a container holds: its bytes are theirs."""
        if found:
            each = max(0, self._left[container] - FILE_BYTES) // len(found)
            self._left[container] -= each * len(found)
            self._planned[container] -= each * len(found)
            for path in found:
                self._sizes[path] = each
                self._planned[path] = self._left[path] = each + FILE_BYTES
            self.total += FILE_BYTES * len(found)

    def finish(self, path: str, *, is_idle: bool) -> None:
        """Note that a source is read; one that held nothing new took no time, and says nothing of the pace."""
        planned, left = self._planned.pop(path), self._left.pop(path)
        if is_idle:
            self.total -= planned
            self.done -= planned - left
        else:
            self.done += left


def tell(
    on_progress: ProgressListener | None, began: float, step: Progress, work: tuple[int, int] | None = None
) -> None:
    """Tell a step and the time left at the pace since ``began``: that of the work, if it is not what is counted."""
    if on_progress is not None:
        done, total = work or (step.done, step.total)
        share = min(1.0, done / total) if work and total > 0 else None
        on_progress(msgspec.structs.replace(step, eta_s=eta_s(time.monotonic() - began, done, total), share=share))
