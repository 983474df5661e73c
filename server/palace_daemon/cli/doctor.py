"""``doctor``: everything that someone who helps would ask for, and what is wrong."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from palace_daemon import __version__, places
from palace_daemon.cli import options, show
from palace_daemon.client import Client, NotRunningError
from palace_daemon.errors import PalaceError

if TYPE_CHECKING:
    from palace_daemon.config import Config, Setting

INOTIFY_WATCHES_MIN = 8_192
"""A default of older kernels; a home with several agents and an editor open comes near it."""
_INOTIFY = Path("/proc/sys/fs/inotify/max_user_watches")


class Finding(NamedTuple):
    """One line of the report."""

    name: str
    is_ok: bool
    detail: str


def register(commands: options.Commands) -> None:
    """Declare the command."""
    options.add_command(
        commands,
        "doctor",
        "check versions, settings, paths, model, daemon and database",
        run,
        examples="palace-daemon doctor\npalace-daemon doctor --json",
        detail="Starts nothing and changes nothing.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print every finding; exit code 1 where one is bad."""
    from palace_daemon import config  # noqa: PLC0415

    settings, rows = config.load(data_dir=arguments.data_dir)
    findings = [*_versions(), *_places(settings), *_model(settings), *_daemon(settings), *_database(settings)]
    findings += _notifications()
    if arguments.json:
        _print_json(findings, rows)
    else:
        _print(findings, rows)
    return options.EXIT_OK if all(finding.is_ok for finding in findings) else options.EXIT_NOTHING


def _versions() -> Iterator[Finding]:
    import importlib.metadata  # noqa: PLC0415
    import platform  # noqa: PLC0415

    yield Finding("palace-daemon", True, f"{__version__} in {Path(__file__).resolve().parents[1]}")
    yield Finding("python", True, f"{platform.python_version()} at {sys.executable}, {platform.platform()}")
    for name in ("numpy", "onnxruntime", "tokenizers", "pygls", "msgspec", "watchdog"):
        try:
            yield Finding(name, True, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, False, "is not installed: install palace-daemon again")


def _places(settings: Config) -> Iterator[Finding]:
    private = {
        "data": settings.data_dir,
        "socket directory": places.socket_path(settings.data_dir).parent,
        "logs": places.log_dir(),
    }
    for name, path in private.items():
        yield _private(name, path)
    yield Finding("settings file", True, _presence(places.config_file()))
    yield Finding("models", True, _presence(places.models_dir()))


def _private(name: str, path: Path) -> Finding:
    try:
        found = path.stat()
    except FileNotFoundError:
        return Finding(name, True, f"{path} (made when it is needed)")
    except OSError as exc:
        return Finding(name, False, f"{path}: {exc.strerror}")
    mode = stat.S_IMODE(found.st_mode)
    if sys.platform != "win32" and found.st_uid != os.getuid():
        return Finding(name, False, f"{path} belongs to user id {found.st_uid}")
    if sys.platform != "win32" and mode & 0o022:
        return Finding(name, False, f"{path} can be changed by others (mode {mode:04o}): chmod 0700 it")
    if not os.access(path, os.W_OK | os.X_OK):
        return Finding(name, False, f"{path} cannot be written (mode {mode:04o})")
    return Finding(name, True, f"{path} (mode {mode:04o})")


def _presence(path: Path) -> str:
    return str(path) if path.exists() else f"{path} (none yet)"


def _model(settings: Config) -> Iterator[Finding]:
    from palace_daemon.service import build  # noqa: PLC0415 - imports numpy

    try:
        views = build.list_models(settings)
    except PalaceError as exc:
        yield Finding("model", False, str(exc))
        return
    active = next((view for view in views if view.is_active), None)
    if active is None:
        yield Finding("model", False, f"{settings.embed.model} is not known: see palace-daemon model list")
    elif not active.is_installed:
        yield Finding("model", False, f"{active.model_id} is not installed: palace-daemon model install")
    else:
        yield Finding("model", True, f"{active.model_id} in {active.path}")


def _daemon(settings: Config) -> Iterator[Finding]:
    log = places.log_file(settings.data_dir)
    try:
        with Client(settings.data_dir, timeout_s=10.0) as client:
            status = client.request("palace/status")
    except NotRunningError:
        yield Finding("daemon", True, f"does not run (log: {_presence(log)})")
    except PalaceError as exc:
        yield Finding("daemon", False, f"{exc} (log: {log})")
    else:
        is_same = status["version"] == __version__
        detail = f"{status['version']}, process {status['pid']}, model {status['modelState']} (log: {log})"
        yield Finding("daemon", is_same, detail if is_same else f"{detail}; restart it to run {__version__}")
        if status["lastError"]:
            yield Finding("last error", False, status["lastError"])


def _database(settings: Config) -> Iterator[Finding]:
    from palace_daemon.service import diagnosis  # noqa: PLC0415 - imports numpy

    for name, is_ok, detail in diagnosis.check(settings):
        yield Finding(name, is_ok, detail)


def _notifications() -> Iterator[Finding]:
    if not sys.platform.startswith("linux"):
        return
    try:
        limit = int(_INOTIFY.read_text(encoding="ascii"))
    except (OSError, ValueError):
        yield Finding("inotify", True, "limit unknown; polls if it is reached")
        return
    if limit >= INOTIFY_WATCHES_MIN:
        yield Finding("inotify", True, f"{limit:,} watches")
    else:
        yield Finding("inotify", False, f"only {limit:,} watches: raise fs.inotify.max_user_watches")


def _print_json(findings: list[Finding], rows: tuple[Setting, ...]) -> None:
    show.print_json(
        {
            "checks": [{"name": name, "ok": is_ok, "detail": detail} for name, is_ok, detail in findings],
            "settings": [{"name": row.name, "value": row.value, "origin": row.origin} for row in rows],
        }
    )


def _print(findings: list[Finding], rows: tuple[Setting, ...]) -> None:
    indent = 26
    for name, is_ok, detail in findings:
        mark = show.paint("ok  ", "green") if is_ok else show.paint("BAD ", "red")
        first, *rest = show.fold(detail, max(30, show.width() - indent)) or [""]
        print(f"{mark}{name:<{indent - 4}}{first}")
        for line in rest:
            print(" " * indent + line)
    print()
    for row in rows:
        value = ", ".join(row.value) if isinstance(row.value, tuple) else row.value
        print(f"    {row.name:<22}{value!s:<28} {row.origin}")
