"""How far a bench is, on a terminal: counts and time left."""

from __future__ import annotations

import sys
import time

_EVERY_S = 0.5


class Progress:
    """One stage at a time on one line of standard error; shows nothing where that is no terminal."""

    def __init__(self, prefix: str = "") -> None:
        """Take what stands before each stage."""
        self._prefix = prefix
        self._is_shown = bool(sys.stderr) and sys.stderr.isatty()
        self._stage = ""
        self._began = self._shown = 0.0

    def show(self, stage: str, done: int, total: int, unit: str) -> None:
        """Show one step of a stage; ``total`` may be 0 where it is not known."""
        if not self._is_shown:
            return
        now = time.monotonic()
        if stage != self._stage:
            self.end()
            self._stage, self._began, self._shown = stage, now, 0.0
        if now - self._shown < _EVERY_S and done < total:
            return
        self._shown = now
        text = f"{self._prefix}{stage}"
        if total:
            left_s = (now - self._began) / done * (total - done) if done else 0.0
            text += f": {done:,} of {total:,} {unit}, {left_s:.0f} s left"
        print(f"\r{text:<78}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line of the last stage."""
        if self._is_shown and self._stage:
            print(file=sys.stderr)
        self._stage = ""
