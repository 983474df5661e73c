"""Runs the daemon in this process: lock, listen, then the heavy imports, then the event loop.

The socket listens some 50 ms after the process starts; the kernel keeps clients waiting in its queue until pygls and
the service are there.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING

from palace_daemon import __version__, places
from palace_daemon.config import Config
from palace_daemon.errors import DataGoneError, PalaceError
from palace_daemon.rpc import endpoint, logs, loopback

if TYPE_CHECKING:
    from palace_daemon.service.api import Palace

EXIT_OK = 0
EXIT_FAILED = 3
EXIT_DATA_GONE = 5
"""The data directory was removed under the daemon: whoever did that wants no new one to be filled."""
EXIT_LOCKED = 4
"""Another daemon serves the data directory; a client that started this one waits for the other."""
HARD_STOP_S = 2.0
"""After this the process ends whatever its threads do: SQLite's log makes that safe, a hanging daemon is not."""
LOCK_WAIT_S = 0.5
"""Covers a daemon that is just ending."""

logger = logging.getLogger(__name__)


def run(config: Config, *, is_detached: bool = False) -> int:
    """Serve ``config.data_dir`` until a signal or ``palace/stop``; returns the exit code. Call it on the main thread.

    Args:
        config: The effective settings.
        is_detached: Whether a client started this process in the background: then the log goes to its file alone, and
            the inherited streams are let go as soon as the service is open.
    """
    # From here on: a signal while the imports run must end in the same order as a later one.
    stop_wanted = threading.Event()
    for number in endpoint.ending_signals():
        signal.signal(number, lambda _number, _frame: stop_wanted.set())
    handlers = logs.set_up(places.log_file(config.data_dir), config.serve.log_level, with_stderr=not is_detached)
    lock = endpoint.DataLock(config.data_dir)
    gc.disable()  # nearly all of what is made from here to the opening stays: looking for garbage takes a tenth of it
    try:
        lock.acquire(LOCK_WAIT_S)
        return _serve(config, stop_wanted, is_detached=is_detached)
    except endpoint.LockedError as exc:
        _complain(exc)
        return EXIT_LOCKED
    except PalaceError as exc:
        logger.error("%s", exc)  # noqa: TRY400 - the message says it all
        if is_detached:
            _complain(exc)
        return EXIT_FAILED
    finally:
        gc.enable()
        lock.release()
        logs.tear_down(handlers)


def _serve(config: Config, stop_wanted: threading.Event, *, is_detached: bool) -> int:
    with contextlib.ExitStack() as doors:
        door = tcp = None
        if hasattr(socket, "AF_UNIX") and sys.platform != "win32":
            path = places.socket_path(config.data_dir)
            door = endpoint.Door(path)
            doors.callback(door.close)
            logger.info("palace-daemon %s, pid %d, listens on %s", __version__, os.getpid(), path)
        tcp_file = places.tcp_file(config.data_dir)
        loopback.remove_stale(tcp_file)
        if config.serve.tcp or door is None:
            tcp = loopback.listen(tcp_file, config.serve.tcp_port)
            doors.callback(tcp.close)
            logger.info("port %d on %s, token in %s", tcp.port, loopback.HOST, tcp.path)
        return _run_loop(config, door, tcp, stop_wanted, is_detached=is_detached)


def _run_loop(
    config: Config,
    door: endpoint.Door | None,
    tcp: loopback.Loopback | None,
    stop_wanted: threading.Event,
    *,
    is_detached: bool,
) -> int:
    import asyncio  # noqa: PLC0415 - behind the listening socket, see the module

    from palace_daemon.rpc.server import Daemon  # noqa: PLC0415

    daemon = Daemon(config, _open_palace, stop_wanted=stop_wanted)
    _HardStop(stop_wanted).start()

    def on_open() -> None:
        gc.freeze()  # what stays needs no further looks: they would stop all threads for tens of milliseconds
        gc.enable()
        if is_detached:
            _let_go_of_streams()

    asyncio.run(daemon.serve(door.listener if door else None, on_open, tcp=tcp, renewed=door.renewed if door else None))
    logger.info("stopped")
    if daemon.failure is None:
        return EXIT_OK
    if is_detached or not isinstance(daemon.failure, PalaceError):
        _complain(daemon.failure)
    return EXIT_DATA_GONE if isinstance(daemon.failure, DataGoneError) else EXIT_FAILED


def _open_palace(config: Config) -> Palace:
    from palace_daemon.service.build import build  # noqa: PLC0415 - imports numpy and the runtime

    palace = build(config)
    palace.warm_up()
    return palace


def _complain(exc: BaseException) -> None:
    """Tell whoever started the process; the log has it as well."""
    text = str(exc) if isinstance(exc, PalaceError) else f"unexpected {type(exc).__name__}, see the log"
    with contextlib.suppress(OSError, ValueError):
        print(f"palace-daemon: {text}", file=sys.stderr, flush=True)  # noqa: T201 - the channel to the starter


def _let_go_of_streams() -> None:
    """Point descriptors 0, 1 and 2 at the null device, so that no pipe or terminal of the starter stays open."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    if null > 2:
        os.close(null)


class _HardStop(threading.Thread):
    """Ends the process if stopping takes too long: a thread of a library may not listen to anybody."""

    def __init__(self, stop_wanted: threading.Event) -> None:
        super().__init__(name="palace-hard-stop", daemon=True)
        self._wanted = stop_wanted

    def run(self) -> None:
        self._wanted.wait()
        threading.Event().wait(HARD_STOP_S)
        logger.error("did not stop in %.0f s: ending the process", HARD_STOP_S)
        logging.shutdown()
        os._exit(EXIT_FAILED)
