"""Tests of missing permissions: root has none missing, so the test goes on as somebody else for a moment."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

NOBODY = 65_534


@contextlib.contextmanager
def without_privileges(directory: Path) -> Iterator[None]:
    """Let the code inside run with the rights of an ordinary user, who can reach ``directory``."""
    if os.geteuid() != 0:
        yield
        return
    closed = [(parent, parent.stat().st_mode) for parent in (directory, *directory.parents)]
    closed = [(parent, mode) for parent, mode in closed if mode & 0o011 != 0o011]
    for parent, mode in closed:
        parent.chmod(mode | 0o011)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        for parent, mode in closed:
            parent.chmod(mode)
