"""Lets the threads that embed a backlog give way to everything else on the machine."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

NICE = 10
"""Of 19: beside a busy thread of normal priority one like this gets a tenth of a core; alone it gets all of it."""


def lower_this_thread() -> None:
    """Lower the calling thread's priority for the rest of its life.

    Linux counts priorities by thread. Elsewhere they belong to the whole process, which answers questions, too: there
    nothing is done.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):  # a sandbox may forbid it, which is no reason to fail
            os.setpriority(os.PRIO_PROCESS, thread, max(NICE, os.getpriority(os.PRIO_PROCESS, thread)))
