"""``uninstall``: take out everything that Palace wrote on this machine; the memory itself only when asked twice.

Only what is known to be Palace's is removed, by name, and no link is followed: a data or model directory that somebody
chose may hold other things.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import stat
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from palace_daemon import places
from palace_daemon.cli import connect, ending, options, service, show
from palace_daemon.errors import ConfigError, PalaceError, RequestError

if TYPE_CHECKING:
    from palace_daemon.agents.settings_files import Change
    from palace_daemon.cli.service_files import Service

DATA_NAMES = ("palace.db*", "daemon.lock", "backups")
"""What a data directory holds of ours."""
_PROBE_S = 1.0
"""For somebody who listens to take a connection."""


class Item(NamedTuple):
    """A file or directory that goes."""

    kind: str
    path: Path
    size_bytes: int


class Plan(NamedTuple):
    """What there is to remove."""

    changes: list[Change]
    """Of agents' settings files."""
    service: Service | None
    items: list[Item]
    data: list[Item]
    problems: list[str]
    """What cannot be looked into, and therefore stays."""


def register(commands: options.Commands) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "uninstall",
        "remove what Palace wrote on this machine",
        run,
        examples="palace-daemon uninstall --dry-run\npalace-daemon uninstall\n"
        "palace-daemon uninstall --yes\npalace-daemon uninstall --data --yes",
        detail="Takes out agents' settings, the service, models, caches, logs and sockets, and stops the daemon.\n"
        "Lists all first, and asks. The data (everything that is remembered, and the settings) goes only where\n"
        "that is said twice: to two questions, or by --data and --yes. Transcripts are the agents', and are never\n"
        "touched.",
    )
    parser.add_argument("--dry-run", action="store_true", help="list what would be removed, and remove nothing")
    parser.add_argument("--data", action="store_true", help="the data, too")
    parser.add_argument("--yes", action="store_true", help="do not ask (for scripts)")


def run(arguments: argparse.Namespace) -> int:
    """List, ask, remove; exit code 1 where something stays, or the user said no."""
    if arguments.json and not (arguments.yes or arguments.dry_run):
        raise RequestError("--json asks nothing: add --yes or --dry-run")
    plan = planned(arguments.data_dir)
    if not arguments.json:
        _print(plan, with_data=arguments.data or not arguments.yes)
    if arguments.dry_run:
        return _told(arguments, plan, plan.problems, with_data=arguments.data)
    if not arguments.yes and not _agrees("Remove all this, but for the data?"):
        connect.note("nothing was removed")
        return options.EXIT_NOTHING
    with_data = _may_remove_data(arguments, plan)
    problems = [*plan.problems, *_remove(plan, arguments.data_dir, with_data=with_data)]
    return _told(arguments, plan, problems, with_data=with_data)


# ------------------------------------------------------------------------------------------------------------ the plan


def planned(data_dir: str | None) -> Plan:
    """Return what there is to remove; changes nothing."""
    problems: list[str] = []
    installed = None
    with contextlib.suppress(ConfigError):
        found = service.this_service(data_dir)
        installed = found if service.is_installed(found) else None
    items = [_item(kind, path) for kind, path in _caches() if os.path.lexists(path)]
    data = [_item("data", path) for path in _data(places.data_dir(data_dir))]
    return Plan(_agent_changes(data_dir, problems), installed, items, data, problems)


def _agent_changes(data_dir: str | None, problems: list[str]) -> list[Change]:
    from palace_daemon.agents import settings, settings_files  # noqa: PLC0415

    command = settings.Command(settings.own_command(sys.argv[0]), data_dir)
    changes: dict[str, Change] = {}
    for agent in settings.AGENTS:
        for scope in ("user", "project"):
            for file in settings.files_of(agent, scope=scope, cwd=os.getcwd(), command=command):
                try:
                    change = settings_files.planned(file, is_removal=True)
                except PalaceError as exc:
                    problems.append(str(exc))
                    continue
                if not change.is_nothing:
                    changes.setdefault(os.path.realpath(file.path), change)
    return list(changes.values())


def _caches() -> Iterator[tuple[str, Path]]:
    from palace_daemon.bench import vector_cache  # noqa: PLC0415 - imports numpy
    from palace_daemon.embed import placement, registry  # noqa: PLC0415

    models = places.models_dir()
    names = (*registry.model_ids(models), placement.DOWNLOADS, placement.LOCK_FILE)
    yield from (("model", models / name) for name in names)
    yield "bench cache", vector_cache.default_folder()
    yield from (("log", path) for path in sorted(places.log_dir().glob("daemon-*.log*")))
    runtime = {places.runtime_dir(), places.socket_path(places.data_dir()).parent}
    for folder in sorted(runtime):
        yield from (("runtime", path) for end in ("sock", "tcp.json") for path in sorted(folder.glob(f"*.{end}")))


def _data(data_dir: Path) -> Iterator[Path]:
    for name in DATA_NAMES:
        yield from sorted(data_dir.glob(name))
    if os.path.lexists(places.config_file()):
        yield places.config_file()


def _item(kind: str, path: Path) -> Item:
    return Item(kind, path, _size_of(path))


def _size_of(path: Path) -> int:
    total = 0
    with contextlib.suppress(OSError):
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            return found.st_size
        for folder, _, names in os.walk(path):
            for name in names:
                with contextlib.suppress(OSError):
                    total += os.lstat(os.path.join(folder, name)).st_size
    return total


# ---------------------------------------------------------------------------------------------------------- the work


def _remove(plan: Plan, data_dir: str | None, *, with_data: bool) -> list[str]:
    """Remove what is planned; returns what stays, and why."""
    problems: list[str] = []
    for change in plan.changes:  # first: a hook would start the daemon again
        try:
            change.write()
        except PalaceError as exc:
            problems.append(str(exc))
    if plan.service is not None:
        try:
            left, reason = service.remove(plan.service)
            problems += [f"run yourself: {' '.join(step)} ({reason})" for step in left]
        except ConfigError as exc:
            problems.append(str(exc))
    ending.end(data_dir)
    living = {item.path.name.partition(".")[0] for item in plan.items if item.kind == "runtime" and _answers(item.path)}
    for item in (*plan.items, *(plan.data if with_data else ())):
        if _is_of_use(item, living):
            problems.append(f"{item.path}: the daemon of another data directory uses it")
            continue
        try:
            _remove_one(item.path)
        except OSError as exc:
            problems.append(f"cannot remove {item.path}: {exc.strerror}")
    _remove_empty(data_dir, with_data=with_data)
    return problems


def _remove_one(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _is_of_use(item: Item, living: Collection[str]) -> bool:
    """Return whether another daemon has it: ``living`` holds the names of those that answer. They share the models."""
    if item.kind == "model":
        return bool(living)
    return item.kind in {"runtime", "log"} and any(name in item.path.name for name in living)


def _answers(path: Path) -> bool:
    """Return whether a daemon listens on a socket, or on the port that a file names."""
    import socket  # noqa: PLC0415

    try:
        if path.suffix == ".sock":
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.settimeout(_PROBE_S)
                probe.connect(os.fspath(path))
        else:
            port = int(json.loads(path.read_bytes())["port"])
            socket.create_connection(("127.0.0.1", port), _PROBE_S).close()
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return False
    return True


def _remove_empty(data_dir: str | None, *, with_data: bool) -> None:
    """Remove directories of ours that hold nothing any more."""
    folders = [places.models_dir(), places.log_dir(), places.socket_path(places.data_dir(data_dir)).parent]
    if with_data:
        folders += [places.data_dir(data_dir), places.config_file().parent]
    for folder in (*folders, places.models_dir().parent):
        if folder.name.startswith(("palace", "models")) or folder == places.data_dir(data_dir):
            with contextlib.suppress(OSError):
                folder.rmdir()


# -------------------------------------------------------------------------------------------------------- the person


def _may_remove_data(arguments: argparse.Namespace, plan: Plan) -> bool:
    if arguments.yes or not plan.data:
        return bool(arguments.data and plan.data)
    size = show.size(sum(item.size_bytes for item in plan.data))
    if not arguments.data and not _agrees(f"Remove the data, too ({size})?"):
        return False
    return _agrees("All that is remembered, and every note, is gone for good then. Remove it?")


def _agrees(question: str) -> bool:
    if not sys.stdin.isatty():
        connect.note("there is no terminal to ask on: --yes answers for you")
        return False
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _print(plan: Plan, *, with_data: bool) -> None:
    for change in plan.changes:
        print(f"{'settings':<12} {'':>9}  {show.tilde(change.path)} ({change.verb(is_dry_run=True)})")
    if plan.service is not None:
        print(f"{'service':<12} {'':>9}  {show.tilde(str(plan.service.path))}")
    for item in (*plan.items, *(plan.data if with_data else ())):
        print(f"{item.kind:<12} {show.size(item.size_bytes):>9}  {show.tilde(str(item.path))}")
    if not (plan.changes or plan.service or plan.items or plan.data):
        print("there is nothing to remove")


def _told(arguments: argparse.Namespace, plan: Plan, problems: list[str], *, with_data: bool) -> int:
    code = options.EXIT_NOTHING if problems else options.EXIT_OK
    if arguments.json:
        show.print_json(_as_json(plan, problems, with_data=with_data, is_dry_run=arguments.dry_run))
        return code
    for problem in problems:
        connect.note(f"stays: {problem}")
    if arguments.dry_run:
        connect.note("nothing was removed")
    else:
        kept = "" if with_data or not plan.data else "; the data stays (palace-daemon uninstall --data)"
        print(f"removed{kept}")
        connect.note("the program itself goes by the way it came, such as pip uninstall palace-daemon")
    return code


def _as_json(plan: Plan, problems: list[str], *, with_data: bool, is_dry_run: bool) -> dict[str, Any]:
    items = [*plan.items, *(plan.data if with_data else ())]
    return {
        "dryRun": is_dry_run,
        "settings": [change.path for change in plan.changes],
        "service": str(plan.service.path) if plan.service else None,
        "files": [{"kind": one.kind, "path": str(one.path), "sizeBytes": one.size_bytes} for one in items],
        "problems": problems,
    }
