"""What ``doctor`` says of the machine: versions, paths and who can read them, room, notifications, watched places."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from palace_daemon import __version__, places
from palace_daemon.service.diagnosis import FIX, Finding

if TYPE_CHECKING:
    from palace_daemon.config import Config

INOTIFY_WATCHES_MIN = 8_192
"""A default of older kernels; a home with several agents and an editor open comes near it."""
INOTIFY_SHARE_MAX = 0.8
"""Of the limit in use, from which it is worth a warning."""
FREE_BYTES_MIN = 64 << 20
FREE_BYTES_LOW = 1 << 30
"""Below the first nothing can be relied on; below the second, or twice the database, it may not be rewritten."""
_INOTIFY = Path("/proc/sys/fs/inotify")
_HAS_MODES = sys.platform != "win32"


def versions() -> Iterator[Finding]:
    """Yield the versions of Palace, Python and the libraries."""
    import importlib.metadata  # noqa: PLC0415
    import platform  # noqa: PLC0415

    yield Finding("palace-daemon", "ok", f"{__version__} in {Path(__file__).resolve().parents[1]}")
    yield Finding("python", "ok", f"{platform.python_version()} at {sys.executable}, {platform.platform()}")
    for name in ("numpy", "onnxruntime", "tokenizers", "pygls", "msgspec", "watchdog"):
        try:
            yield Finding(name, "ok", importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, "fail", "is not installed", "install palace-daemon again")


def paths(settings: Config) -> Iterator[Finding]:
    """Yield the directories, who can enter them, and how much room there is."""
    yield _private("data", settings.data_dir, 0o077)
    yield _files(settings.data_dir)
    yield _private("socket directory", places.socket_path(settings.data_dir).parent, 0o077)
    yield _private("logs", places.log_dir(), 0o022)
    yield Finding("settings file", "ok", presence(places.config_file()))
    yield Finding("models", "ok", presence(places.models_dir()))
    yield _room(settings.data_dir)


def presence(path: Path) -> str:
    """Return a path, and whether it is there."""
    return str(path) if path.exists() else f"{path} (none yet)"


def _private(name: str, path: Path, forbidden: int) -> Finding:
    try:
        found = path.stat()
    except FileNotFoundError:
        return Finding(name, "ok", f"{path} (made when it is needed)")
    except OSError as exc:
        return Finding(name, "fail", f"{path}: {exc.strerror}", "see to it that you can enter it")
    mode = stat.S_IMODE(found.st_mode)
    if _HAS_MODES and found.st_uid != os.getuid():
        return Finding(name, "fail", f"{path} belongs to user id {found.st_uid}", "choose another --data-dir")
    if _HAS_MODES and mode & forbidden:
        return Finding(name, "fail", f"{path} is open to others (mode {mode:04o})", FIX)
    if not os.access(path, os.W_OK | os.X_OK):
        return Finding(name, "fail", f"{path} cannot be written (mode {mode:04o})", "is the disk read-only?")
    return Finding(name, "ok", f"{path} (mode {mode:04o})")


def _files(data_dir: Path) -> Finding:
    open_ones = [path for path in own_files(data_dir) if is_open_to_others(path)]
    if not open_ones:
        return Finding("data files", "ok", "private")
    named = ", ".join(str(path.relative_to(data_dir)) for path in open_ones)
    return Finding("data files", "fail", f"open to others: {named}", FIX)


def own_files(data_dir: Path) -> list[Path]:
    """Return our files and directories in the data directory; no links are followed."""
    found = []
    for path in [*data_dir.glob("palace.db*"), *data_dir.glob("daemon.lock"), *data_dir.glob("backups")]:
        found += [path, *(path.iterdir() if path.is_dir() and not path.is_symlink() else ())]
    return sorted(path for path in found if not path.is_symlink())


def is_open_to_others(path: Path) -> bool:
    """Return whether others can read, write or enter it."""
    try:
        return _HAS_MODES and bool(stat.S_IMODE(path.lstat().st_mode) & 0o077)
    except OSError:
        return False


def _room(data_dir: Path) -> Finding:
    there = next(path for path in (data_dir, *data_dir.parents) if path.exists())
    free = shutil.disk_usage(there).free
    database = data_dir / "palace.db"
    size = database.stat().st_size if database.exists() else 0
    detail = f"{free / 1e9:,.1f} GB free"
    if free < FREE_BYTES_MIN:
        return Finding("disk", "fail", detail, "free space: nothing new can be stored")
    if free < max(FREE_BYTES_LOW, 2 * size):
        return Finding("disk", "warn", detail, "free space: forgetting and migrating rewrite the database")
    return Finding("disk", "ok", detail)


def notifications() -> Iterator[Finding]:
    """Yield the limit of the kernel's watches, and how many this user has."""
    if not sys.platform.startswith("linux"):
        return
    try:
        limit = int((_INOTIFY / "max_user_watches").read_text(encoding="ascii"))
    except (OSError, ValueError):
        yield Finding("inotify", "ok", "limit unknown; polls if it is reached")
        return
    used = inotify_watches()
    detail = f"{used:,} of {limit:,} watches in use"
    if limit < INOTIFY_WATCHES_MIN or used > INOTIFY_SHARE_MAX * limit:
        yield Finding("inotify", "warn", detail, "raise fs.inotify.max_user_watches; till then Palace polls if it must")
    else:
        yield Finding("inotify", "ok", detail)


def inotify_watches(processes: Path = Path("/proc")) -> int:
    """Return how many watches the processes of this user hold, as far as they can be looked at."""
    used = 0
    for process in processes.iterdir():
        if not process.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            if process.stat().st_uid == os.getuid():
                used += sum(map(_watches, (process / "fdinfo").iterdir()))
    return used


def _watches(descriptor: Path) -> int:
    try:
        return descriptor.read_bytes().count(b"inotify wd:")
    except OSError:
        return 0


def watched(settings: Config) -> Iterator[Finding]:
    """Yield the directories that are watched, and what is wrong with them."""
    from palace_daemon.service.watching import default_dirs  # noqa: PLC0415 - knows all formats

    dirs = default_dirs(settings.watch, os.environ, os.path.expanduser("~"), sys.platform)
    there = [item for item in dirs if item.exists]
    shut = [item.path for item in there if not os.access(item.path, os.R_OK)]
    lacking = [item.path for item in dirs if item.origin == "config" and not item.exists]
    detail = f"{len(there)} directories are there, {len(dirs) - len(there)} are not"
    if shut:
        yield Finding(
            "watched", "warn", f"{detail}; cannot be read: {', '.join(shut)}", "see to it that you can read them"
        )
    elif lacking:
        yield Finding("watched", "warn", f"{detail}; configured: {', '.join(lacking)}", "see `watch.paths`")
    else:
        yield Finding("watched", "ok", detail)
