"""Benches of Palace, run through the daemon's own pipeline: ``palace-daemon --bench [NAME]``.

Invariant: what is measured is the service object or the daemon that users run. A function that only a bench needs
lives here. Benches run under a temporary home and never read a person's transcripts; ``probes`` alone reads a store.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence

BENCHES: dict[str, str] = {
    "embed": "vectors: speed of the models against fp32, and how far a vector depends on its company",
    "profile": "where a model's time goes, operator by operator, for texts of several lengths",
    "idle": "what the daemon costs when nothing happens, with thousands of transcripts watched",
    "live": "how soon a line that an agent writes can be recalled, by words and by meaning",
    "redaction": "secrets: how fast, how many are missed, how much else is taken for one; beside libraries",
    "mine": "how fast transcripts are parsed, mined, and mined with vectors",
    "probes": "is what you know is there found in your own store, by each model: prints ids and ranks, never text",
    "ingest": "a large archive: how fast, with how much memory, how steady, and where the time goes",
    "models": "all installed models: which questions move against the default one, and how fast each embeds",
    "recall": "is what was said found again: public sets of questions, through the shipped recall",
    "scale": "what recall, start and adding cost with a large store: seeded, over the socket, with goals beside",
}
"""Name to what it shows; each is a module of this package with ``add_arguments(parser)`` and ``run(args) -> int``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one bench, or without a name the quick bundle; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="palace-daemon --bench",
        description="Measure Palace on this machine; without NAME a few figures of everything, in a few minutes.",
        epilog="example: palace-daemon --bench live --json",
    )
    parser.add_argument("--json", action="store_true", dest="json_before", help="print one JSON object, not a table")
    names = parser.add_subparsers(dest="name", metavar="NAME")
    runs: dict[str, Callable[[argparse.Namespace], int]] = {}
    words = argv if argv is not None else sys.argv[1:]
    wanted = next((word for word in words if not word.startswith("-")), "")
    for name, purpose in BENCHES.items():
        sub = names.add_parser(name, help=purpose, description=purpose)
        sub.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
        if wanted == name:  # only the chosen bench is imported
            module = importlib.import_module(f"palace_daemon.bench.{name}")
            module.add_arguments(sub)
            runs[name] = module.run
    args = parser.parse_args(argv)
    args.json = args.json_before or getattr(args, "json", False)
    if args.name is None:
        from palace_daemon.bench import bundle  # noqa: PLC0415 - what one bench needs costs the others nothing

        return bundle.run(args)
    return runs[args.name](args)
