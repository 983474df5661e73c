"""Killing a process at a named point: when it is about to run a certain statement, or to rename a certain file.

Nothing in the product knows of it: SQLite tells its tracer each statement before it runs, and Python its audit hook
each renaming. The process is forked from one that has imported everything, so that a point costs a tenth of a second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

FORKER = Path(__file__).with_name("fault_process.py")


class Point(NamedTuple):
    """Where a process is killed."""

    job: str
    """What it does: see ``fault_process.py``."""
    event: str
    """How the statement begins, or ``os.rename`` and a part of the new name, at which it dies."""
    times: int = 1
    """At which of them."""


class Forker:
    """Runs jobs in processes of their own, to their ends or to a point."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, job: str, data: Path, transcripts: Path, point: Point | None = None) -> bool:
        """Run a job; returns whether it was killed at the point. An error in it fails the test."""
        order = {
            "job": job,
            "data": str(data),
            "transcripts": str(transcripts),
            "event": point.event if point else "",
            "times": point.times if point else 0,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert answer["code"] == 0, answer
        return bool(answer["killed"])


@contextmanager
def forker() -> Iterator[Forker]:
    """Yield what runs jobs."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    process = subprocess.Popen(
        [sys.executable, str(FORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield Forker(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()
