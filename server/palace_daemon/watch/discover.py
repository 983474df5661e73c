"""Walking a directory for the regular files in it."""

from __future__ import annotations

import errno
import os
import stat as modes
from collections.abc import Callable, Iterator
from pathlib import Path

from palace_daemon.model import FileStat

ErrorListener = Callable[[str, OSError], None]
"""Takes a path that could not be looked at and the reason."""


def walk(
    root: str, may_hold: Callable[[str], bool], on_error: ErrorListener | None = None
) -> Iterator[tuple[str, FileStat]]:
    """Yield every regular file at or below ``root`` whose path ``may_hold`` accepts, with its stat.

    ``root`` is resolved once, so it may be a symbolic link, or a file. Links below it are not followed, FIFOs, sockets
    and devices are left out, and a directory that is reached twice (a bind mount of its own parent) is entered once.
    The order is that of the file system. Files that vanish meanwhile are left out; a ``root`` that does not exist
    yields nothing and is no error.

    Args:
        root: A directory or a file.
        may_hold: Asked before the stat, so that it saves one for each path it refuses.
        on_error: Called for each directory or file that cannot be looked at; the walk goes on. A file whose name is no
            UTF-8 is such a case, since neither the database nor JSON can name it.
    """
    report = on_error or _ignore
    top = resolve(root)
    found = _stat(top, report)
    if found is None:
        return
    if not modes.S_ISDIR(found.st_mode):
        if _is_candidate(top, found.st_mode, may_hold, report):
            yield top, file_stat(found)
        return
    seen = {_identity(top, found)}
    pending = [top]
    while pending:
        for entry in _entries(pending.pop(), report):
            if _is_directory(entry):
                if _is_new(entry, seen, report):
                    pending.append(entry.path)
            elif may_hold(entry.path):
                found = _entry_stat(entry, report)
                if found is not None and _is_candidate(entry.path, found.st_mode, may_hold, report):
                    yield entry.path, file_stat(found)


def resolve(path: str) -> str:
    """Return the absolute path without symbolic links; never raises, whether it exists or not.

    The empty path stays empty and names nothing: it must not come to mean the working directory.
    """
    try:
        return os.path.realpath(path) if path else ""
    except (OSError, ValueError):
        return path


def file_stat(found: os.stat_result) -> FileStat:
    """Return the fields of a stat result that a cursor keeps."""
    return FileStat(
        size=found.st_size,
        mtime_ns=found.st_mtime_ns,
        ctime_ns=found.st_ctime_ns,
        device=found.st_dev,
        inode=found.st_ino,
    )


def _ignore(path: str, error: OSError) -> None:
    """Drop the report: the caller did not ask for it."""


def _entries(directory: str, report: ErrorListener) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return list(found)
    except FileNotFoundError:
        return []
    except OSError as exc:
        report(directory, exc)
        return []


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_new(entry: os.DirEntry[str], seen: set[tuple[int, int]], report: ErrorListener) -> bool:
    found = _entry_stat(entry, report)
    if found is None:
        return False
    identity = _identity(entry.path, found)
    is_new = identity not in seen
    seen.add(identity)
    return is_new


def _identity(path: str, found: os.stat_result) -> tuple[int, int]:
    """Return what tells a directory from every other; on Windows a directory entry's own stat lacks it."""
    if found.st_ino == 0:
        try:
            found = Path(path).stat()
        except OSError:
            return 0, hash(path)
    return found.st_dev, found.st_ino


def _is_candidate(path: str, mode: int, may_hold: Callable[[str], bool], report: ErrorListener) -> bool:
    if not modes.S_ISREG(mode) or not may_hold(path):
        return False
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        report(path, OSError(errno.EILSEQ, "file name is not valid UTF-8"))
        return False
    return True


def _entry_stat(entry: os.DirEntry[str], report: ErrorListener) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as exc:
        report(entry.path, exc)
        return None


def _stat(path: str, report: ErrorListener) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        report(path, exc)
        return None
    except ValueError:
        report(path, OSError(errno.EINVAL, "path holds a NUL"))
        return None
