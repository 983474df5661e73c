"""A progress bar on a terminal; nothing anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from palace_daemon.cli import control, show

if TYPE_CHECKING:
    from tqdm import tqdm

_LABELS = {"scan": "looking", "mine": "mining", "embed": "embedding", "export": "exporting", "import": "importing"}


class Bar:
    """Shows how far the stages of long work are, with counts and time left. Use as a context manager.

    Takes ``$/progress`` notifications of the daemon through :meth:`on_notification`, or steps through :meth:`show`.
    """

    def __init__(self) -> None:
        self._is_shown = bool(sys.stderr) and sys.stderr.isatty()
        self._stage = ""
        self._bar: tqdm[Any] | None = None

    def on_notification(self, method: str, params: Any) -> None:
        """Take a notification of the daemon; those that are no progress are ignored."""
        value = params.get("value", {}) if method == "$/progress" and isinstance(params, dict) else {}
        if value.get("kind") == "report" and "done" in value:
            stage, done, total = value.get("stage", ""), value["done"], value.get("total") or 0
            if stage == "mine" and value.get("percentage") is not None:
                self.show_share(stage, value["percentage"], _words(done, total, value))
            else:
                self.show(stage, done, total, value.get("unit", ""))

    def show(self, stage: str, done: int, total: int, unit: str) -> None:
        """Show one step; ``total`` may grow, and is 0 while unknown."""
        if not self._is_shown:
            return
        if self._bar is None or stage != self._stage:
            self._begin(stage, unit)
        if self._bar is not None:
            self._bar.total = max(total, done) or None
            self._bar.n = done
            self._bar.refresh()

    def show_share(self, stage: str, percentage: int, words: str) -> None:
        """Show one step of work that counts do not measure, as files of many sizes; ``words`` stand behind the bar."""
        if not self._is_shown:
            return
        if self._bar is None or stage != self._stage:
            self._begin(stage, "", "{l_bar}{bar}| {unit}")
        if self._bar is not None:
            self._bar.total, self._bar.n, self._bar.unit = 100, percentage, words
            self._bar.refresh()

    def _begin(self, stage: str, unit: str, bar_format: str | None = None) -> None:
        from tqdm import tqdm  # noqa: PLC0415 - 50 ms, and only on a terminal

        self._finish()
        self._stage = stage
        self._bar = tqdm(
            desc=_LABELS.get(stage, stage),
            unit=f" {unit}",
            unit_scale=unit in {"bytes", "B"},
            file=sys.stderr,
            # Not what tqdm asks the terminal for: it shows nothing on one that gives no size.
            ncols=show.width(),
            nrows=24,
            leave=False,
            bar_format=bar_format,
        )

    def _finish(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, frames: TracebackType | None
    ) -> None:
        self._finish()


def _words(done: int, total: int, value: Mapping[str, Any]) -> str:
    left = value.get("etaS")
    return f"{done:,} of {total:,} {value.get('unit', '')}" + (f", {control.duration(left)} left" if left else "")
