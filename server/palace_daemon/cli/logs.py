"""``logs``: the end of the daemon's log, and what comes from now on."""

from __future__ import annotations

import argparse
import codecs
import collections
import io
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from palace_daemon import places
from palace_daemon.cli import connect, options, show
from palace_daemon.errors import RequestError, SourceError

LINES = 50
LINES_MAX = 1_000_000
_POLL_S = 0.25
_BLOCK_BYTES = 1 << 16


def register(commands: options.Commands) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "logs",
        "show the daemon's log",
        logs,
        examples="palace-daemon logs\npalace-daemon logs -n 200\npalace-daemon logs -f",
        detail="It holds ids, counts, times and paths, and no text of a transcript. Needs no running daemon.",
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what is written, until Ctrl-C")
    lines = options.whole_number(0, LINES_MAX)
    parser.add_argument("-n", "--lines", type=lines, default=LINES, metavar="N", help=f"how many (default {LINES})")


def logs(arguments: argparse.Namespace) -> int:
    """Print the last lines; exit code 1 where there is no log."""
    if arguments.follow and arguments.json:
        raise RequestError("--follow has no end, and --json is one document: choose one")
    path = places.log_file(places.data_dir(arguments.data_dir))
    lines = last_lines(path, arguments.lines)
    if arguments.json:
        show.print_json({"path": str(path), "lines": lines})
        return options.EXIT_OK if path.exists() else options.EXIT_NOTHING
    for line in lines:
        print(show.clean(line))
    if arguments.follow:
        return _follow(path)
    if not path.exists():
        connect.note(f"there is no log yet: {path}")
        return options.EXIT_NOTHING
    return options.EXIT_OK


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of a log, of the files that it was rotated into where it has fewer.

    Raises:
        SourceError: It cannot be read.
    """
    from palace_daemon.rpc import logs as written  # noqa: PLC0415

    found: collections.deque[str] = collections.deque(maxlen=count)
    files = [path.with_name(f"{path.name}.{number}") for number in range(written.FILES_KEPT, 0, -1)]
    for file in (*files, path):
        try:
            with file.open(encoding="utf-8", errors="replace") as text:
                found.extend(line.rstrip("\n") for line in text)
        except FileNotFoundError:
            continue
        except OSError as exc:
            raise SourceError(f"cannot read {file}: {exc.strerror}") from exc
    return list(found)


def _follow(path: Path) -> int:
    try:
        for part in following(path):
            sys.stdout.write(show.clean(part))
            sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    return options.EXIT_OK


def following(path: Path, poll_s: float = _POLL_S) -> Iterator[str]:
    """Yield what is written to a log from now on, without end; follows it when it is rotated, or made anew."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    file = _opened(path)
    if file is not None:
        file.seek(0, os.SEEK_END)
    while True:
        if file is None:
            file = _opened(path)
        while file is not None and (block := file.read(_BLOCK_BYTES)):
            yield decoder.decode(block)
        if file is not None and not _is_same(file, path):
            # What came between the last look and the rotation is still read: through the file that we have open.
            yield decoder.decode(file.read(), final=True)
            file.close()
            decoder.reset()
            file = None
            continue
        time.sleep(poll_s)


def _opened(path: Path) -> io.BufferedReader | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _is_same(file: io.BufferedReader, path: Path) -> bool:
    ours = os.fstat(file.fileno())
    try:
        there = path.stat()
    except FileNotFoundError:
        return True  # between two names, or removed: what comes is written elsewhere, and found then
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
