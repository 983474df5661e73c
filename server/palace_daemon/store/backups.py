"""Copies of the database from before a migration or a repair: few, private, and within the reach of forgetting.

A copy is written page by page by ``VACUUM INTO``, so it holds no free page with something removed in it, and a
damaged database is noticed instead of copied. It gets its name only when it is whole and on the disk.

Invariant: a backup never outlives something that was forgotten. To rewrite each would need its schema's code, so
:mod:`palace_daemon.store.scrubbing` deletes them all, and with them the damaged files that a repair kept aside.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from pathlib import Path
from typing import NamedTuple

from palace_daemon.errors import StoreError, StoreFullError
from palace_daemon.store import sqlite

logger = logging.getLogger(__name__)

FOLDER = "backups"
KEPT = 2
"""Backups that are kept: the newest."""
DAMAGED = ".damaged-"
"""Stands between the name of the database and the date in the name of a damaged file that was kept aside."""
_PARTIAL = ".partial"
_ENDING = ".db"
_SPARE_BYTES = 16 << 20
"""Room that must be left beside a copy: the work that follows needs some, too."""


class Backup(NamedTuple):
    """One copy."""

    path: Path
    size_bytes: int


def folder(database: Path) -> Path:
    """Return the directory of a database's backups."""
    return database.parent / FOLDER


def newest_first(database: Path) -> list[Backup]:
    """Return the backups that there are."""
    found = sorted(folder(database).glob(f"*{_ENDING}"), key=_age, reverse=True)
    return [Backup(path, path.stat().st_size) for path in found]


def damaged(database: Path) -> list[Path]:
    """Return the damaged files that repairs kept aside, logs of writes among them."""
    return sorted(database.parent.glob(f"{database.name}{DAMAGED}*"))


def take(database: Path, reason: str) -> Path:
    """Copy the committed state of ``database``; whoever calls it holds the write lock, so that nothing comes between.

    Args:
        database: Its file.
        reason: A word for the name, such as ``schema-1``.

    Raises:
        StoreFullError: There is no room for it.
        StoreDamagedError: The database cannot be read whole.
        StoreError: The copy cannot be written.
    """
    directory = folder(database)
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        _drop_partial(directory)
        _prune(database, KEPT - 1)
        _check_room(database)
        name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{reason}"
        partial = directory / f"{name}{_PARTIAL}"
        os.close(os.open(partial, os.O_CREAT | os.O_RDWR | os.O_EXCL, 0o600))
        _copy(database, partial)
        path = _free_name(directory, name)
        partial.replace(path)
        sync_directory(directory)
    except OSError as exc:
        raise StoreError(f"cannot write a backup into {directory}: {exc.strerror}") from exc
    logger.info("made a backup of the database: %s (%d bytes)", path, path.stat().st_size)
    return path


def remove_all(database: Path) -> int:
    """Delete all backups and damaged files, since something was forgotten that they may hold; returns how many.

    Raises:
        StoreError: One cannot be deleted.
    """
    doomed = [*(one.path for one in newest_first(database)), *damaged(database)]
    try:
        _drop_partial(folder(database))
        for path in doomed:
            path.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            folder(database).rmdir()
    except OSError as exc:
        raise StoreError(
            f"cannot delete {exc.filename}: {exc.strerror}", hint="it may hold what was forgotten"
        ) from exc
    if doomed:
        logger.info("deleted %d backups and damaged files: they may hold what was forgotten", len(doomed))
    return len(doomed)


def sync_directory(directory: Path) -> None:
    """Have the names in ``directory`` reach the disk, where the platform can be asked for that."""
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy(database: Path, partial: Path) -> None:
    with sqlite.mapped_errors(database):
        connection = sqlite.open_to_copy(database)
        try:
            connection.execute("VACUUM INTO ?", (str(partial),))
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        finally:
            connection.close()
    with partial.open("rb+") as file:
        os.fsync(file.fileno())


def _check_room(database: Path) -> None:
    needed = sum(path.stat().st_size for path in (database, _log(database)) if path.exists()) + _SPARE_BYTES
    free = shutil.disk_usage(database.parent).free
    if free < needed:
        raise StoreFullError(
            f"no room for a backup of {database}: {needed / 1e6:,.0f} MB are needed, {free / 1e6:,.0f} MB are free",
            hint="free disk space; until then nothing is changed, and the former version still works",
        )


def _log(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def _free_name(directory: Path, name: str) -> Path:
    """Return a name that no earlier backup of the same second has."""
    number = 0
    while (path := directory / f"{name}{f'-{number}' if number else ''}{_ENDING}").exists():
        number += 1
    return path


def _age(path: Path) -> tuple[str, int, str]:
    return path.name[:16], path.stat().st_mtime_ns, path.name


def _prune(database: Path, keep: int) -> None:
    for one in newest_first(database)[keep:]:
        one.path.unlink(missing_ok=True)


def _drop_partial(directory: Path) -> None:
    """Remove what a killed process may have left."""
    for path in directory.glob(f"*{_PARTIAL}*"):
        path.unlink(missing_ok=True)
