"""Where the daemon's log goes: a rotating private file, and standard error in the foreground; never standard output."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path

FILE_BYTES_MAX = 2 * 1024 * 1024
FILES_KEPT = 3
_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"


class _PlainTemplate(logging.Filter):
    """Strips arguments and tracebacks from pygls's own records: both can quote parameters, and so a query."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.args or record.exc_info:
            record.msg = f"{record.msg} [values left out]"
        record.args = ()
        record.exc_info = record.exc_text = None
        return True


class _NoCrossing(logging.Filter):
    """Drops what pygls says of a cancellation that crossed the answer on its way: search as you type sends many."""

    _BEGINNINGS = ("Cancel notification for unknown message", "Ignoring work done progress cancel for unknown token")

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith(self._BEGINNINGS)


_FILTERS = (_NoCrossing(), _PlainTemplate())


def quiet_pygls() -> None:
    """Keep message bodies out of the log: pygls writes them whole at INFO, and failed parameters at ERROR."""
    logging.getLogger("pygls").setLevel(logging.WARNING)
    for name in ("pygls.protocol.json_rpc", "pygls.protocol.language_server", "pygls.feature_manager"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
        for one in _FILTERS:
            logger.addFilter(one)  # does nothing where it was added before


class _PrivateRotatingHandler(RotatingFileHandler):
    """Makes its files readable by this user alone, and makes the log anew where somebody took it away."""

    _identity = (-1, -1)
    """Which file is open."""

    def _open(self) -> object:  # type: ignore[override]  # the stub's TextIOWrapper cannot be named from os.open
        os.makedirs(os.path.dirname(self.baseFilename), 0o700, exist_ok=True)
        fd = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o600)
        found = os.fstat(fd)
        self._identity = (found.st_dev, found.st_ino)
        return os.fdopen(fd, self.mode, encoding=self.encoding, errors=self.errors)

    def emit(self, record: logging.LogRecord) -> None:
        """Write ``record`` to what has the log's name now: a cleaner, or another process, may have moved ours."""
        if self.stream is not None and not self._is_in_place():
            with contextlib.suppress(OSError):  # a full disk: what it had not taken is lost
                self.stream.close()
            self.stream = None  # opened again by what follows
        super().emit(record)

    def _is_in_place(self) -> bool:
        try:
            found = os.stat(self.baseFilename)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's signature
        """Lose a record that cannot be written: the traceback that logging prints helps nobody, a full disk least."""


def set_up(path: Path, level: str, *, with_stderr: bool) -> list[logging.Handler]:
    """Send the log to ``path`` and, in the foreground, to standard error; returns the handlers that were added.

    A log that cannot be opened never keeps the daemon from working: standard error is used instead.
    """
    quiet_pygls()
    formatter = logging.Formatter(_FORMAT, "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handlers: list[logging.Handler] = []
    problem = ""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handlers.append(
            _PrivateRotatingHandler(path, maxBytes=FILE_BYTES_MAX, backupCount=FILES_KEPT, encoding="utf-8")
        )
    except OSError as exc:
        problem = f"cannot write the log {path}: {exc.strerror}"
    if with_stderr or problem:
        handlers.append(logging.StreamHandler())
    root = logging.getLogger()
    root.setLevel(level)
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    if problem:
        logging.getLogger(__name__).warning("%s", problem)
    return handlers


def tear_down(handlers: list[logging.Handler]) -> None:
    """Flush, close and remove ``handlers``."""
    for handler in handlers:
        logging.getLogger().removeHandler(handler)
        with contextlib.suppress(OSError):  # a full disk, which may not keep the daemon from ending well
            handler.close()
