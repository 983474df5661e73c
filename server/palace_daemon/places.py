"""Where Palace keeps its files on this machine: data, models, settings, logs, socket.

Standard library only, because the client imports it and must start in a few milliseconds.
Functions read the environment at call time and create nothing.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

_APP = "palace"

UNIX_SOCKET_PATH_BYTES_MAX = 103
"""Longest socket path that every Unix takes: ``sun_path`` holds 104 bytes on macOS, 108 on Linux, with the NUL."""


def _xdg(variable: str, *fallback: str) -> Path:
    """Return the XDG directory that ``variable`` names; relative values are ignored, as the XDG rules say."""
    value = os.environ.get(variable, "")
    return Path(value) if value.startswith("/") else Path.home().joinpath(*fallback)


def _windows(variable: str, *fallback: str) -> Path:
    value = os.environ.get(variable)
    return Path(value) if value else Path.home().joinpath(*fallback)


def data_dir(override: str | os.PathLike[str] | None = None) -> Path:
    """Return the data directory: ``override`` (``--data-dir``), else ``PALACE_HOME``, else the platform's."""
    chosen = override or os.environ.get("PALACE_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / _APP
    if sys.platform == "win32":
        return _windows("LOCALAPPDATA", "AppData", "Local") / _APP / "data"
    return _xdg("XDG_DATA_HOME", ".local", "share") / _APP


def models_dir() -> Path:
    """Return the model cache, shared by all data directories: ``PALACE_MODELS``, else the platform's cache."""
    chosen = os.environ.get("PALACE_MODELS")
    if chosen:
        return Path(chosen).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / _APP / "models"
    if sys.platform == "win32":
        return _windows("LOCALAPPDATA", "AppData", "Local") / _APP / "models"
    return _xdg("XDG_CACHE_HOME", ".cache") / _APP / "models"


def config_file() -> Path:
    """Return the settings file: ``PALACE_CONFIG``, else ``config.toml`` in the platform's configuration directory."""
    chosen = os.environ.get("PALACE_CONFIG")
    if chosen:
        return Path(chosen).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / _APP / "config.toml"
    if sys.platform == "win32":
        return _windows("APPDATA", "AppData", "Roaming") / _APP / "config.toml"
    return _xdg("XDG_CONFIG_HOME", ".config") / _APP / "config.toml"


def log_dir() -> Path:
    """Return the directory of the daemon's logs, in the platform's state directory."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Logs" / _APP
    if sys.platform == "win32":
        return _windows("LOCALAPPDATA", "AppData", "Local") / _APP / "logs"
    return _xdg("XDG_STATE_HOME", ".local", "state") / _APP


def runtime_dir() -> Path:
    """Return the directory of sockets: private to this user, short enough for ``sun_path``."""
    if sys.platform == "win32":
        return _windows("LOCALAPPDATA", "AppData", "Local") / _APP / "run"
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if base.startswith("/") and Path(base).is_dir():
        return Path(base) / _APP
    import tempfile  # noqa: PLC0415 - takes as long to import as the rest of this module

    return Path(tempfile.gettempdir()) / f"{_APP}-{os.getuid()}"


def socket_path(data: Path) -> Path:
    """Return the socket of the daemon that serves the data directory ``data``.

    The name is a hash of the resolved directory, so that two directories never share a daemon. If the platform's
    runtime directory is too deep for a socket path, the socket moves to ``/tmp``.
    """
    digest = hashlib.sha256(os.fsencode(os.path.realpath(data))).hexdigest()[:16]
    path = runtime_dir() / f"{digest}.sock"
    if sys.platform != "win32" and len(os.fsencode(path)) > UNIX_SOCKET_PATH_BYTES_MAX:
        path = Path("/tmp") / f"{_APP}-{os.getuid()}" / f"{digest}.sock"  # noqa: S108 - made 0700, owner checked
    return path


def tcp_file(data: Path) -> Path:
    """Return the private file that says at which port the daemon of ``data`` listens, and with which token."""
    return socket_path(data).with_suffix(".tcp.json")


def log_file(data: Path) -> Path:
    """Return the log of the daemon that serves the data directory ``data``; named as its socket is."""
    return log_dir() / f"daemon-{socket_path(data).stem}.log"
