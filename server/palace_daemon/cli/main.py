"""Reads the command line, runs the command, and turns errors into exit codes."""

from __future__ import annotations

import argparse
import contextlib
import errno
import functools
import importlib
import os
import sys
from collections.abc import Callable, Collection, Sequence

from palace_daemon import __version__
from palace_daemon.cli import options
from palace_daemon.cli.connect import note
from palace_daemon.errors import PalaceError

GROUPS = {
    "start": ("start",),
    "ask": ("recall", "get"),
    "browse": ("browse",),
    "library": ("mine", "sources", "sessions", "projects"),
    "notes": ("remember", "notes"),
    "forget": ("forget",),
    "porting": ("export", "import"),
    "control": ("serve", "stop", "restart", "status", "pause", "resume"),
    "logs": ("logs",),
    "service": ("service",),
    "uninstall": ("uninstall",),
    "models": ("model",),
    "settings": ("config",),
    "doctor": ("doctor",),
    "hook": ("hook",),
    "mcp": ("mcp",),
    "connect_agent": ("connect",),
}
"""Module of this package to the commands that it declares, in the order of the help."""

_OVERVIEW = """\
A local memory for coding agents: mines their transcripts, answers recall requests, sends nothing anywhere.

first run:  palace-daemon start
then:       palace-daemon recall "why did we move the job queue out of Redis?"
"""


_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""What writing fails with; an error without a file's name comes from a stream that was open before we were."""


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code; never raises for what a user can cause."""
    _open_what_is_closed()
    with contextlib.suppress(AttributeError, ValueError):  # replaced streams have no reconfigure
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    code = _caught(functools.partial(_dispatch, list(argv)))
    # Here, and also after an error: where the interpreter does it last, a failure cannot be told.
    flushed = _caught(_flush)
    return code or flushed


def _caught(work: Callable[[], int]) -> int:
    try:
        return work()
    except PalaceError as exc:
        complain(exc)
        return options.exit_code_of(exc.kind)
    except BrokenPipeError:
        drop_stdout()
        return options.EXIT_OK
    except OSError as exc:
        drop_stdout()
        _complain_of_system(exc)
        return options.EXIT_TROUBLE
    except KeyboardInterrupt:
        return options.EXIT_INTERRUPTED


def _flush() -> int:
    sys.stdout.flush()
    return options.EXIT_OK


def _open_what_is_closed() -> None:
    """Put the null device where the starter closed a stream, in the order of their numbers.

    Python has None there, which every question (`isatty`) stumbles over, and prints notes for standard error, as if
    they belonged to the answer, to standard output.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open as long as we are


def build_parser(words: Collection[str] = ()) -> argparse.ArgumentParser:
    """Return the parser of the command line.

    Args:
        words: The words of the command line: where a command is among them, only what that command needs is declared,
            which halves the time that a call takes. Without one, everything is.
    """
    parser = argparse.ArgumentParser(
        prog="palace-daemon",
        description=_OVERVIEW,
        epilog=options.EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_data_dir(parser)
    parser.add_argument("--version", action="version", version=f"palace-daemon {__version__}")
    parser.add_argument(
        "--stdio", action="store_true", help="join the daemon, or start it, and speak JSON-RPC on stdin and stdout"
    )
    parser.add_argument(
        "--bench", nargs=argparse.REMAINDER, metavar="NAME", help="measure; alone a few figures of everything"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    wanted = [group for group, names in GROUPS.items() if any(name in words for name in names)]
    for group in wanted or GROUPS:
        importlib.import_module(f"palace_daemon.cli.{group}").register(commands)
    return parser


def _dispatch(argv: list[str]) -> int:
    parser = build_parser(argv)
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as exc:
        if exc.code and _command_of(argv) == "hook":
            return _refuse_hook()
        return exc.code if isinstance(exc.code, int) else options.EXIT_USAGE
    if arguments.bench is not None:
        return _bench(arguments)
    if arguments.stdio:
        return _stdio(arguments)
    if not hasattr(arguments, "run"):
        parser.print_help(sys.stderr)
        return options.EXIT_USAGE
    code: int = arguments.run(arguments)
    return code


def _command_of(argv: Sequence[str]) -> str:
    return next((word for word in argv if any(word in names for names in GROUPS.values())), "")


def _refuse_hook() -> int:
    from palace_daemon.cli import hook  # noqa: PLC0415

    return hook.refuse()


def _stdio(arguments: argparse.Namespace) -> int:
    from palace_daemon.cli import control  # noqa: PLC0415

    return control.stdio(arguments)


def _bench(arguments: argparse.Namespace) -> int:
    from palace_daemon import bench  # noqa: PLC0415 - imports numpy and the data-set adapters

    code: int = bench.main(arguments.bench)
    return code


def complain(exc: PalaceError) -> None:
    """Print ``exc`` to standard error; a refused parameter is named as the flag that carried it."""
    text = str(exc)
    path = getattr(exc, "path", "")
    if path.startswith("$."):
        words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in path[2:])
        text = f"--{words}: {text.partition(' - at ')[0]}"
    note(text)


def _complain_of_system(exc: OSError) -> None:
    reason = exc.strerror or type(exc).__name__
    if exc.filename is not None:
        text = f"{exc.filename}: {reason}"
    elif exc.errno in _WRITE_ERRORS:
        text = f"cannot write the answer: {reason}"
    else:
        text = f"the system refuses: {reason}"
    note(text)


def drop_stdout() -> None:
    """Point standard output at nothing, so that the interpreter's last flush does not complain."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
