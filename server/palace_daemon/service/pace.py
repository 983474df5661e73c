"""How much of the reading of a job is done, by bytes, and how long the rest takes at the pace so far."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

import msgspec

from palace_daemon.model import Progress
from palace_daemon.service.api import ProgressListener

FILE_BYTES = 8_192
"""What it costs to open a file and to see what is new in it, in bytes that could be read meanwhile."""
SEEN_S = 1.0
"""Work of less time says little of the pace."""


def bytes_left(size: int, read: int) -> int:
    """Return how much of a file there is to read, of which ``read`` bytes are; all of one that has shrunk is read.

    A compressed file has fewer bytes than were read of it.
    """
    return max(0, size - read)


class Countdown:
    """How long the rest of a job takes, at the pace since the first of its work was done. Not thread-safe.

    What comes before that says nothing of the pace: a daemon that was started again looks at a thousand files in which
    there is nothing new, or loads the model. At half of a gigabyte, counting it told eleven times what was left.
    """

    def __init__(self) -> None:
        """Begin with nothing done."""
        self._first: tuple[float, int] | None = None

    def eta_s(self, now_s: float, done: int, total: int) -> float | None:
        """Return the seconds left to ``total``; None until work was seen for :data:`SEEN_S`.

        Args:
            now_s: Of a clock that never goes back.
            done: Work done so far; what takes some of it back starts the pace anew.
            total: All work, as far as it is known.
        """
        if done >= total:
            return 0.0 if total > 0 else None
        if done > 0 and (self._first is None or done < self._first[1]):
            self._first = (now_s, done)
        if self._first is None:
            return None
        passed_s, since = now_s - self._first[0], done - self._first[1]
        return round(passed_s * (total - done) / since, 1) if passed_s >= SEEN_S and since > 0 else None


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


class Teller:
    """Tells the steps of one stage of a job, and how long the rest takes. Not thread-safe."""

    def __init__(self, on_progress: ProgressListener | None) -> None:
        """Take whom to tell, if anybody."""
        self._on_progress = on_progress
        self._countdown = Countdown()

    def tell(self, step: Progress, work: tuple[int, int] | None = None) -> None:
        """Tell a step; the time left is that of the work, if it is not what is counted."""
        if self._on_progress is not None:
            done, total = work or (step.done, step.total)
            share = min(1.0, done / total) if work and total > 0 else None
            left_s = self._countdown.eta_s(time.monotonic(), done, total)
            self._on_progress(msgspec.structs.replace(step, eta_s=left_s, share=share))
