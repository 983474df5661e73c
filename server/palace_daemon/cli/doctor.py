"""``doctor``: everything that someone who helps would ask for, what is wrong, and what to do about it."""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

from palace_daemon import __version__, places
from palace_daemon.cli import control, options, show
from palace_daemon.client import Client, NotRunningError, loopback_port, socket_in_lock
from palace_daemon.errors import ConfigError, PalaceError

if TYPE_CHECKING:
    from palace_daemon.cli.doctor_fix import Repair
    from palace_daemon.config import Config, Setting
    from palace_daemon.service.diagnosis import Finding

_COLOURS = {"ok": "green", "warn": "cyan", "fail": "red"}


def register(commands: options.Commands) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "doctor",
        "check versions, settings, paths, model, daemon and database, and repair them",
        run,
        examples="palace-daemon doctor\npalace-daemon doctor --json\npalace-daemon doctor --fix",
        detail="Without --fix it starts nothing and changes nothing. With it, a daemon that runs is stopped where the\n"
        "database must be repaired, and started again. What cannot be rebuilt is never deleted: a damaged\n"
        "database is kept beside the new one that holds what could be read.",
    )
    parser.add_argument("--fix", action="store_true", help="repair what is wrong, then check again")


def run(arguments: argparse.Namespace) -> int:
    """Print every finding; exit code 1 where one is bad."""
    settings, rows, problem = _settings(arguments.data_dir)
    repairs = _fix(settings) if arguments.fix else []
    findings = [*problem, *_look(settings)]
    if arguments.json:
        _print_json(findings, repairs, rows)
    else:
        _print(findings, repairs, rows)
    return options.EXIT_OK if all(finding.level != "fail" for finding in findings) else options.EXIT_NOTHING


def _settings(data_dir: str | None) -> tuple[Config, tuple[Setting, ...], list[Finding]]:
    """Return the settings; the defaults, and what is wrong, where they cannot be read."""
    from palace_daemon import config  # noqa: PLC0415
    from palace_daemon.service.diagnosis import Finding  # noqa: PLC0415

    try:
        settings, rows = config.load(data_dir=data_dir)
    except ConfigError as exc:
        advice = exc.hint or "put it right; the checks below are made with the defaults"
        problem = Finding("settings", "fail", Exception.__str__(exc), advice)
        return config.Config(data_dir=places.data_dir(data_dir)), (), [problem]
    return settings, rows, []


def _fix(settings: Config) -> list[Repair]:
    from palace_daemon.cli import doctor_fix  # noqa: PLC0415

    return doctor_fix.fix(settings)


def _look(settings: Config) -> Iterator[Finding]:
    from palace_daemon.cli import doctor_places  # noqa: PLC0415 - imports numpy
    from palace_daemon.service import diagnosis  # noqa: PLC0415

    yield from doctor_places.versions()
    yield from doctor_places.paths(settings)
    yield from diagnosis.model(settings)
    yield from _daemon(settings)
    yield from diagnosis.check(settings)
    yield from doctor_places.watched(settings)
    yield from doctor_places.notifications()


def _daemon(settings: Config) -> Iterator[Finding]:
    from palace_daemon.cli.doctor_places import presence  # noqa: PLC0415
    from palace_daemon.service.diagnosis import FIX, Finding  # noqa: PLC0415

    log = places.log_file(settings.data_dir)
    path = places.socket_path(settings.data_dir)
    try:
        with Client(settings.data_dir, timeout_s=10.0) as client:
            status = client.request("palace/status")
    except NotRunningError:
        yield Finding("daemon", "ok", f"does not run (log: {presence(log)})")
        if path.exists() or places.tcp_file(settings.data_dir).exists():
            yield Finding("socket", "warn", f"{path} is left of a daemon that died", FIX)
        return
    except PalaceError as exc:
        yield Finding("daemon", "fail", f"{exc} (log: {log})", "palace-daemon stop, then look into the log")
        return
    detail = f"{status['version']}, process {status['pid']}, model {status['modelState']} (log: {log})"
    if status["version"] == __version__:
        yield Finding("daemon", "ok", detail)
    else:
        yield Finding("daemon", "warn", detail, "palace-daemon restart")
    if not path.exists():
        path = socket_in_lock(settings.data_dir) or path  # another session started it
    if path.exists():
        mode = stat.S_IMODE(path.stat().st_mode)
        yield Finding(
            "socket", "fail" if mode & 0o077 else "ok", f"{path} (mode {mode:04o})", "" if mode == 0o600 else FIX
        )
    yield from _port(settings)
    if windowed := status["embedding"].get("windowed"):  # a daemon of an older version does not say
        yield Finding("long texts", "ok", f"{control.windowed_texts(windowed)} by the mean of their windows")
    if status["lastError"]:
        yield Finding("last error", "warn", status["lastError"], "the log says more")


def _port(settings: Config) -> Iterator[Finding]:
    from palace_daemon.service.diagnosis import FIX, Finding  # noqa: PLC0415

    port, path = loopback_port(settings.data_dir), places.tcp_file(settings.data_dir)
    if port is not None:
        mode = stat.S_IMODE(path.stat().st_mode)
        is_open = os.name == "posix" and bool(mode & 0o077)
        detail = f"{port:d} on 127.0.0.1, token in {path} (mode {mode:04o})"
        yield Finding("port", "fail" if is_open else "ok", detail, FIX if is_open else "")


def _print_json(findings: list[Finding], repairs: list[Repair], rows: tuple[Setting, ...]) -> None:
    show.print_json(
        {
            "checks": [
                {"name": name, "level": level, "ok": level != "fail", "detail": detail, "advice": advice}
                for name, level, detail, advice in findings
            ],
            "repairs": [{"what": what, "count": count, "done": is_done} for what, count, is_done in repairs],
            "settings": [{"name": row.name, "value": row.value, "origin": row.origin} for row in rows],
        }
    )


def _print(findings: list[Finding], repairs: list[Repair], rows: tuple[Setting, ...]) -> None:
    for what, count, is_done in repairs:
        print(
            show.paint("done", "green") + f"  {count:,}  {what}" if is_done else show.paint("left", "red") + f"  {what}"
        )
    if repairs:
        print()
    indent = 26
    for name, level, detail, advice in findings:
        mark = show.paint(f"{level:<5}", _COLOURS[level])
        lines = show.fold(detail, max(30, show.width() - indent)) or [""]
        if advice:
            lines += show.fold(f"-> {advice}", max(30, show.width() - indent))
        print(f"{mark}{name:<{indent - 5}}{lines[0]}")
        for line in lines[1:]:
            print(" " * indent + line)
    print()
    for row in rows:
        value = ", ".join(row.value) if isinstance(row.value, tuple) else row.value
        print(f"    {row.name:<22}{value!s:<28} {row.origin}")
