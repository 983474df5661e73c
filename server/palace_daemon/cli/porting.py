"""``export`` and ``import``: everything into one file, and back."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palace_daemon.cli import connect, options, show
from palace_daemon.cli.bar import Bar
from palace_daemon.errors import ConfigError

PROGRESS_TOKEN = "porting"  # noqa: S105 - names a progress report, and is no secret
_COPY_BYTES = 1 << 20


def register(commands: options.Commands) -> None:
    """Declare the commands."""
    parser = options.add_command(
        commands,
        "export",
        "write everything to one file",
        export,
        examples="palace-daemon export ~/palace-backup.jsonl\npalace-daemon export -",
        detail="The file is JSON Lines, readable by you alone (mode 0600); docs/export-format.md describes it. It\n"
        "holds exchanges, notes, sessions, dates and what was forgotten, but no vectors.",
    )
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="where to; - is standard output (default)")
    parser = options.add_command(
        commands,
        "import",
        "merge what an export holds",
        import_,
        examples="palace-daemon import ~/palace-backup.jsonl",
        detail="Of another machine, too. What is there already stays once; what was forgotten on either side stays\n"
        "forgotten. It can be repeated, also after it was interrupted.",
    )
    parser.add_argument("file", metavar="FILE", help="an export")


def export(arguments: argparse.Namespace) -> int:
    """Write an export."""
    if arguments.file == "-":
        return _export_to_stdout(arguments)
    result = _request(arguments, "palace/export", Path(arguments.file))
    if arguments.json:
        show.print_json(result)
    else:
        print(f"wrote {_counts(result['records'])} to {show.tilde(result['path'])} ({show.size(result['sizeBytes'])})")
    return options.EXIT_OK


def _export_to_stdout(arguments: argparse.Namespace) -> int:
    """Have the daemon write into a private directory, and pass that on."""
    import tempfile  # noqa: PLC0415 - 10 ms that other commands need not pay

    if arguments.json:
        raise ConfigError("--json needs a file to export to", hint="standard output is the export itself")
    if sys.stdout.isatty():
        raise ConfigError("export does not write to a terminal", hint="name a file, or pipe it on")
    with tempfile.TemporaryDirectory(prefix="palace-export-") as directory:
        path = Path(directory) / "export.jsonl"
        _request(arguments, "palace/export", path)
        with path.open("rb") as file:
            while block := file.read(_COPY_BYTES):
                sys.stdout.buffer.write(block)
    return options.EXIT_OK


def import_(arguments: argparse.Namespace) -> int:
    """Merge an export; exit code 1 where a line was of no use, the file was cut off, or a removal is not wiped yet."""
    result = _request(arguments, "palace/import", Path(arguments.file))
    if arguments.json:
        show.print_json(result)
    else:
        _print_import(result)
    if result["wipeDue"]:
        connect.note(f"what it removed is not gone from the database file yet: {result['wipeDue']}")
    is_whole = result["isComplete"] and not result["malformed"] and not result["wipeDue"]
    return options.EXIT_OK if is_whole else options.EXIT_NOTHING


def _request(arguments: argparse.Namespace, method: str, path: Path) -> Mapping[str, Any]:
    params = {"path": os.path.abspath(path.expanduser()), "workDoneToken": PROGRESS_TOKEN}
    with Bar() as bar:
        result: Mapping[str, Any] = connect.request(arguments, method, params, bar.on_notification)
    return result


def _print_import(result: Mapping[str, Any]) -> None:
    changes = result["changes"]
    pairs = [
        ("read", _counts(result["records"])),
        ("exchanges", f"{changes['exchanges_added']:,} new, {changes['exchanges_replaced']:,} longer than ours"),
        ("notes", f"{changes['notes_added']:,} new, {changes['notes_changed']:,} changed"),
        ("seconds", f"{result['seconds']:.1f}"),
    ]
    if changes["forgotten"]:
        pairs.append(("forgotten", f"{show.count(changes['forgotten'], 'exchange')} left out or removed"))
    if changes["ignored"]:
        pairs.append(("ignored", f"{show.count(changes['ignored'], 'exchange')} of ignored projects or files left out"))
    if result["malformed"]:
        pairs.append(("malformed", f"{show.count(result['malformed'], 'line')} left out"))
    pairs += [(f"line {item['line']:,}", item["reason"].replace("_", " ")) for item in result["problems"]]
    show.print_pairs(pairs)
    if not result["isComplete"]:
        print("the file was cut off: its last line is missing")


def _counts(records: Mapping[str, int]) -> str:
    names = ("exchange", "note", "session", "source", "tombstone")
    return ", ".join(show.count(records[name], name) for name in names)
