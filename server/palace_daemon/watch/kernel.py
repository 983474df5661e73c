"""What the kernel cannot report: changes on network file systems, and more directories than inotify may watch."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import sys
from pathlib import Path

_FUSE_TYPES = frozenset({"davfs2", "glusterfs", "grpcfuse", "rclone", "s3fs", "sshfs", "vmhgfs-fuse"})
_REMOTE_TYPES = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "davfs", "drvfs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "prl_fs"}
    | {"smb3", "smbfs", "vboxsf", "virtiofs"}
    | {f"fuse.{kind}" for kind in _FUSE_TYPES}
)
"""File systems whose other side writes without inotify hearing of it (inotify(7), "Limitations and caveats"); ``9p`` is
also how WSL 2 shows Windows drives."""

_IN_DELETE_SELF = 0x400
"""The rarest event: the probe asks for as little as it can."""


def is_remote(path: str) -> bool:
    """Return whether changes to the resolved ``path`` may come from another machine, unnoticed by this kernel.

    Known on Linux only; false elsewhere and when the mount table cannot be read.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        table = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return False
    return file_system_type(path, table) in _REMOTE_TYPES


def file_system_type(path: str, mountinfo: str) -> str:
    """Return the type of the file system that holds ``path``, by the text of ``/proc/self/mountinfo``.

    The longest mount point wins, and among equal ones the last, which covers the others. Empty when none fits.
    """
    best, kind = "", ""
    for line in mountinfo.splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = _unescape(fields[4])
        if len(point) >= len(best) and (path + "/").startswith(point.rstrip("/") + "/"):
            best, kind = point, right.split(" ", 1)[0]
    return kind


def inotify_is_exhausted(directory: str) -> bool:
    """Return whether this user has no inotify watch left (``fs.inotify.max_user_watches``).

    It tries: one watch on ``directory``, through a descriptor of its own, which is closed at once. Needed because
    watchdog stays silent when it cannot watch a directory *below* a root, whose changes would then go unnoticed.
    False on other systems, and when no descriptor is to be had.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    if descriptor < 0:
        return False
    with contextlib.closing(os.fdopen(descriptor, "rb", buffering=0)):
        watch = libc.inotify_add_watch(descriptor, os.fsencode(directory), _IN_DELETE_SELF)
        return watch < 0 and ctypes.get_errno() == errno.ENOSPC


def _unescape(field: str) -> str:
    r"""Undo the octal escapes (``\040`` for a space) of the mount table."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
