"""Benches of Palace, run through the daemon's own pipeline: ``palace-daemon --bench [NAME]``.

Invariant: what is measured is the service object or the daemon that users run. A function that only a bench needs
lives here. Benches run under a temporary home and never read a person's transcripts.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence

BENCHES: dict[str, str] = {
    "embed": "vectors: speed of the models against fp32, and how far a vector depends on its company",
    "idle": "what the daemon costs when nothing happens, with thousands of transcripts watched",
    "live": "how soon a line that an agent writes can be recalled, by words and by meaning",
    "redaction": "secrets: how fast, how many are missed, how much else is taken for one; beside libraries",
    "mine": "how fast transcripts are parsed, mined, and mined with vectors",
    "recall": "is what was said found again: public sets of questions, through the shipped recall",
}
"""Name to what it shows; each is a module of this package with ``add_arguments(parser)`` and ``run(args) -> int``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one bench, or list them; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="palace-daemon --bench",
        description="Measure Palace on this machine.",
        epilog="example: palace-daemon --bench live --json",
    )
    names = parser.add_subparsers(dest="name", metavar="NAME")
    runs: dict[str, Callable[[argparse.Namespace], int]] = {}
    wanted = (argv if argv is not None else sys.argv[1:])[:1]
    for name, purpose in BENCHES.items():
        sub = names.add_parser(name, help=purpose, description=purpose)
        sub.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
        if list(wanted) == [name]:  # only the chosen bench is imported
            module = importlib.import_module(f"palace_daemon.bench.{name}")
            module.add_arguments(sub)
            runs[name] = module.run
    args = parser.parse_args(argv)
    if args.name is None:
        parser.print_help()
        return 0
    return runs[args.name](args)
