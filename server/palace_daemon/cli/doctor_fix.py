"""What ``doctor --fix`` does: rights, what a dead daemon left, and the database. It deletes nothing irreplaceable."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from palace_daemon import places
from palace_daemon.cli.doctor_places import is_open_to_others, own_files
from palace_daemon.client import Client, NotRunningError
from palace_daemon.errors import DaemonError, PalaceError
from palace_daemon.rpc.endpoint import DataLock

if TYPE_CHECKING:
    from palace_daemon.config import Config

STOP_S = 10.0
"""How long a running daemon may take to leave; it ends itself by force after two seconds."""
_PROBE_S = 1.0


class Repair(NamedTuple):
    """One thing that was done."""

    what: str
    number: int
    is_done: bool = True


def fix(settings: Config) -> list[Repair]:
    """Repair what can be repaired; what cannot is said, and the rest is done all the same."""
    done = list(_rights(settings))
    try:
        done += _behind_the_lock(settings)
    except (PalaceError, OSError) as exc:
        done.append(Repair(str(exc), 1, is_done=False))
    return done


def _rights(settings: Config) -> Iterator[Repair]:
    directories = (settings.data_dir, places.socket_path(settings.data_dir).parent, places.log_dir())
    shut = 0
    for path in [*directories, *own_files(settings.data_dir)]:
        if not is_open_to_others(path) or path.is_symlink() or path.stat().st_uid != os.getuid():
            continue
        path.chmod(0o700 if path.is_dir() else 0o600)
        shut += 1
    if shut:
        yield Repair("files and directories made private", shut)


def _behind_the_lock(settings: Config) -> list[Repair]:
    """Repair what nobody else may use meanwhile: a daemon that runs is asked to leave, and started again."""
    from palace_daemon.service import diagnosis, mending  # noqa: PLC0415 - imports numpy

    if not settings.data_dir.is_dir():
        return []
    is_running = _is_running(settings.data_dir)
    if is_running and all(finding.level != "fail" for finding in diagnosis.check(settings)):
        return []
    done = [Repair("daemon stopped", 1)] if is_running else []
    if is_running:
        _stop(settings.data_dir)
    lock = DataLock(settings.data_dir)
    lock.acquire(STOP_S if is_running else 0.0)
    try:
        done += _leavings(settings.data_dir)
        done += [Repair(step.name, step.number) for step in mending.mend(settings)]
    finally:
        lock.release()
        if is_running:
            with Client(settings.data_dir).connect_or_start():
                done.append(Repair("daemon started again", 1))
    return done


def _is_running(data_dir: Path) -> bool:
    try:
        Client(data_dir).connect().close()
    except NotRunningError:
        return False
    return True


def _stop(data_dir: Path) -> None:
    with Client(data_dir, timeout_s=STOP_S) as client:
        client.request("palace/stop")
    deadline = time.monotonic() + STOP_S
    while _is_running(data_dir):
        if time.monotonic() > deadline:
            raise DaemonError("the daemon does not stop", hint="stop it, then run `palace-daemon doctor --fix` again")
        time.sleep(0.02)


def _leavings(data_dir: Path) -> Iterator[Repair]:
    """Remove the socket and the port file of a daemon that died; the caller holds the lock, so none can be alive."""
    removed = 0
    for path in (places.socket_path(data_dir), places.tcp_file(data_dir)):
        if path.exists() and not _answers(path):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                removed += 1
    if removed:
        yield Repair("sockets and port files of a dead daemon removed", removed)


def _answers(path: Path) -> bool:
    """Return whether somebody listens at a socket: a daemon whose data directory was moved away."""
    if not stat.S_ISSOCK(path.stat().st_mode):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
    return True
