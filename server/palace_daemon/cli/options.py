"""What all commands share: how they are declared, and their exit codes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Not public in argparse, but what add_subparsers() returns.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

LIMIT_MAX = 1_000
"""Equals ``palace_daemon.rpc.wire_base.LIMIT_MAX``, whose module takes long to import."""
EXIT_OK = 0
EXIT_NOTHING = 1
"""No result, or a part of the work failed."""
EXIT_USAGE = 2
"""A flag, a value or a setting is wrong."""
EXIT_TROUBLE = 3
"""The daemon, the store or the model cannot do its work."""
EXIT_INTERRUPTED = 130

EXIT_CODES = """exit codes:
  0  done
  1  no result, or a part of the work failed
  2  a flag, a value or a setting is wrong
  3  the daemon, the store or the model cannot do its work"""

_EXITS = {
    "params": EXIT_USAGE,
    "request": EXIT_USAGE,
    "config": EXIT_USAGE,
    "unknownModel": EXIT_USAGE,
    "notFound": EXIT_NOTHING,
    "source": EXIT_NOTHING,
    "cancelled": EXIT_NOTHING,
}


def exit_code_of(kind: str) -> int:
    """Return the exit code for an error of ``PalaceError.kind``."""
    return _EXITS.get(kind, EXIT_TROUBLE)


def add_command(
    commands: Commands,
    name: str,
    summary: str,
    run: Callable[[argparse.Namespace], int],
    *,
    examples: str,
    detail: str = "",
) -> argparse.ArgumentParser:
    """Declare a command that takes ``--json`` and shows its examples and exit codes in its help.

    Args:
        commands: What ``add_subparsers`` returned.
        name: The word on the command line.
        summary: One line for the list of commands.
        run: Does the work and returns the exit code.
        examples: Command lines, one a line.
        detail: Further description.
    """
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.{' ' + detail if detail else ''}",
        epilog="examples:\n" + "\n".join(f"  {line}" for line in examples.splitlines()) + "\n\n" + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_data_dir(parser, default=argparse.SUPPRESS)
    return parser


def add_data_dir(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Let ``--data-dir`` stand before or after the command."""
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        default=default,
        help="where the database lies (default: PALACE_HOME, else the platform's data directory)",
    )


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """Return what reads a whole number from ``low`` to ``high``, for argparse."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {low} to {high}")
        return value

    return read


limit = whole_number(1, LIMIT_MAX)
"""Reads a number of hits or rows, for argparse."""


def positive(text: str) -> int:
    """Return a whole number above zero, for argparse."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return value
