"""``service``: have the system start the daemon at login, and start it again when it fails."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

from palace_daemon import places
from palace_daemon.cli import connect, ending, options, service_files, show
from palace_daemon.cli.service_files import Command, Service
from palace_daemon.errors import ConfigError
from palace_daemon.replacing import replacing

COMMAND_S = 30.0
"""How long one command of the service manager may take."""


def register(commands: options.Commands) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "service",
        "have the system start the daemon at login",
        run,
        examples="palace-daemon service install --dry-run\npalace-daemon service install\n"
        "palace-daemon service status\npalace-daemon service remove",
        detail="A systemd user unit on Linux, a launchd agent on macOS, the file of a scheduled task on Windows.\n"
        "Without it, any command that needs the daemon starts it.",
    )
    parser.add_argument("action", choices=("install", "remove", "status"))
    parser.add_argument("--dry-run", action="store_true", help="print the file and the commands, and do nothing")


def run(arguments: argparse.Namespace) -> int:
    """Install, remove, or show; exit code 1 where a step is left to the user, or no service is installed."""
    service = this_service(arguments.data_dir)
    if arguments.action == "status":
        return _status(arguments, service)
    if arguments.dry_run:
        return _dry_run(arguments, service)
    return _install(arguments, service) if arguments.action == "install" else _remove(arguments, service)


def this_service(data_dir: str | None, platform: str = sys.platform) -> Service:
    """Return the service that runs this very installation over a data directory.

    Raises:
        ConfigError: As :func:`palace_daemon.cli.service_files.service_of`.
    """
    from palace_daemon.agents import settings  # noqa: PLC0415

    words = [*settings.own_command(sys.argv[0]), "--data-dir", str(places.data_dir(data_dir)), "serve"]
    return service_files.service_of(platform, words, os.environ, Path.home())


def is_installed(service: Service) -> bool:
    """Return whether the file of any installation is there."""
    return os.path.lexists(service.path)


def _dry_run(arguments: argparse.Namespace, service: Service) -> int:
    is_removal = arguments.action == "remove"
    steps = [*service.on_remove, *service.after_remove] if is_removal else service.on_install
    if arguments.json:
        text = None if is_removal else service.text
        show.print_json({"path": str(service.path), "text": text, "commands": [list(step) for step in steps]})
        return options.EXIT_OK
    connect.note(f"would {'remove' if is_removal else 'write'} {service.path}")
    if not is_removal:
        print(service.text, end="")
    for step in steps:
        connect.note(f"would {'run' if service.is_run_here else 'ask you to run'}: {shlex.join(step)}")
    return options.EXIT_OK


def _install(arguments: argparse.Namespace, service: Service) -> int:
    before = service.path.read_bytes() if is_installed(service) and service.path.is_file() else None
    _write(service)
    left: list[Command] = list(service.on_install)
    reason = ""
    while left and service.is_run_here:
        if len(left) == 1:
            ending.end(arguments.data_dir)  # one that runs has the place that the service is to take
        if reason := run_step(left[0]):
            break
        left.pop(0)
    done = {"path": str(service.path), "change": _change(before, service.content), "started": not left}
    return _told(arguments, done, left, reason)


def _change(before: bytes | None, after: bytes) -> str:
    return "wrote" if before is None else "unchanged" if before == after else "changed"


def _write(service: Service) -> None:
    try:
        service.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(service.path, mode=0o644) as file:
            file.write(service.content)
    except OSError as exc:
        raise ConfigError(f"cannot write {service.path}: {exc.strerror}") from exc


def _remove(arguments: argparse.Namespace, service: Service) -> int:
    if not is_installed(service):
        return _told(arguments, {"path": str(service.path), "change": "unchanged", "started": False}, [], "")
    left, reason = remove(service)
    return _told(arguments, {"path": str(service.path), "change": "removed", "started": False}, left, reason)


def remove(service: Service) -> tuple[list[Command], str]:
    """Stop the service and remove its file; returns the commands that the user has to run, and why.

    Raises:
        ConfigError: The file cannot be removed.
    """
    steps = [*service.on_remove]
    left: list[Command] = [] if service.is_run_here else steps
    reason = ""
    if service.is_run_here:
        failed = {step: why for step in steps if (why := run_step(step))}
        left, reason = list(failed), next(iter(failed.values()), "")
    try:
        for path in (*service.links, service.path):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
    except OSError as exc:
        raise ConfigError(f"cannot remove {service.path}: {exc.strerror}") from exc
    left += [step for step in service.after_remove if reason or run_step(step)]
    return left, reason


def start_if_installed(data_dir: str | None) -> None:
    """Have the service manager start the daemon where it is the one to; a failure is left to whoever needs one."""
    with contextlib.suppress(ConfigError):
        service = this_service(data_dir)
        if service.is_run_here and service.path.is_file() and service.path.read_bytes() == service.content:
            run_step(service.on_install[-1])


def run_step(step: Command) -> str:
    """Run a command of the service manager; returns why it failed, or an empty string."""
    try:
        done = subprocess.run(
            step, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
    except FileNotFoundError:
        return f"there is no {step[0]} here"
    except (OSError, subprocess.TimeoutExpired) as exc:
        return f"{step[0]} does not answer ({type(exc).__name__})"
    return "" if done.returncode == 0 else show.one_line(done.stderr or done.stdout, 200) or f"exit {done.returncode}"


def _told(arguments: argparse.Namespace, done: dict[str, object], left: list[Command], reason: str) -> int:
    code = options.EXIT_NOTHING if left else options.EXIT_OK
    if arguments.json:
        show.print_json({**done, "left": [list(step) for step in left], "reason": reason})
        return code
    if done["change"] == "unchanged" and not done["started"] and not left:
        print("no service is installed")
        return code
    print(f"{done['change']} {show.tilde(str(done['path']))}")
    if done["started"]:
        print("the service runs the daemon, now and from every login on")
    if left:
        if reason:
            connect.note(f"the rest could not be done here: {reason}")
        connect.note("run, where you are logged in:")
        for step in left:
            print(f"  {shlex.join(step)}", file=sys.stderr)
    return code


def _status(arguments: argparse.Namespace, service: Service) -> int:
    installed = is_installed(service)
    reason = run_step(service.on_status) if installed and service.is_run_here else ""
    result = {
        "installed": installed,
        "path": str(service.path),
        "isCurrent": installed and service.path.is_file() and service.path.read_bytes() == service.content,
        "isActive": installed and service.is_run_here and not reason,
        "daemonRuns": ending.is_running(arguments.data_dir),
    }
    if arguments.json:
        show.print_json(result)
    else:
        _print_status(result, service, reason)
    return options.EXIT_OK if installed else options.EXIT_NOTHING


def _print_status(result: dict[str, object], service: Service, reason: str) -> None:
    pairs: list[tuple[str, str]] = [("service", "none is installed (palace-daemon service install)")]
    if result["installed"]:
        state = "active" if result["isActive"] else "not active"
        pairs = [("service", f"{service.manager}: {state}{f' ({reason})' if reason else ''}")]
        pairs.append(("file", show.Whole(show.tilde(str(service.path)))))
        if not result["isCurrent"]:
            pairs.append(("note", "it differs from what `palace-daemon service install` would write now"))
    pairs.append(("daemon", "runs" if result["daemonRuns"] else "does not run"))
    show.print_pairs(pairs)
