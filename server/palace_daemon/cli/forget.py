"""``forget``: list what would go, ask, and see it gone."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from typing import Any

from palace_daemon import filters
from palace_daemon.cli import ask, connect, options, show
from palace_daemon.errors import ConfigError

SHOWN_MAX = 20
"""Exchanges listed before the question; ``--dry-run`` lists up to a thousand."""

_DETAIL = (
    "Lists what would go and asks.\n"
    "What is forgotten leaves recall and the disk, and stays forgotten when its transcript is\n"
    "read anew, copied or forked, or when its last exchange grows. What is said there later\n"
    "is new, and is kept. Transcript files themselves are left as they are. Several selectors\n"
    "narrow each other."
)


def register(commands: options.Commands) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "forget",
        "remove exchanges from memory, for good",
        forget,
        examples="palace-daemon forget 3f9c1d20a4b5c6d7\n"
        "palace-daemon forget --project ~/work/tidepool --since 2026-03-01 --until 2026-03-07\n"
        'palace-daemon forget --query "the staging password" --limit 3 --dry-run\n'
        "palace-daemon forget --session 0c5b2f6e --yes",
        detail=_DETAIL,
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="exchanges, by their ids or those of their drawers")
    parser.add_argument("--exchange", action="append", default=[], metavar="ID", help="an exchange; can be repeated")
    parser.add_argument(
        "--drawer", action="append", default=[], metavar="ID", help="the exchange of this drawer; can be repeated"
    )
    parser.add_argument(
        "--session", action="append", default=[], metavar="ID", help="a session with its sub-agents; can be repeated"
    )
    parser.add_argument("--project", help="a project, as `sessions` shows it, or its last name where one alone has it")
    parser.add_argument("--source", metavar="PATH", help="what a transcript file tells")
    parser.add_argument("--agent", help="an agent, such as claude-code or codex")
    parser.add_argument("--since", metavar="TIME", help="from this date or ISO time on")
    parser.add_argument("--until", metavar="TIME", help="up to this ISO time, or to the end of this date")
    parser.add_argument("--query", metavar="TEXT", help="what a recall of this question finds in what all others name")
    parser.add_argument("--limit", type=options.limit, metavar="N", help="hits of --query (default 10)")
    parser.add_argument("--dry-run", action="store_true", help="list what would go, and forget nothing")
    parser.add_argument("--yes", action="store_true", help="forget without a question, for scripts")


def forget(arguments: argparse.Namespace) -> int:
    """List, ask and forget; exit code 1 where nothing matched, was not confirmed, or is not wiped yet."""
    params = _params(arguments)
    if arguments.dry_run:
        return _list(arguments, params)
    if not arguments.yes:
        if arguments.json or not _can_ask():
            raise ConfigError("forget cannot ask here", hint="--dry-run lists what would go, --yes forgets it")
        report = _request(arguments, params, is_dry_run=True)
        if not _confirmed(report):
            return options.EXIT_NOTHING
        if report["exchanges"] == len(report["items"]):  # what was shown, and nothing that came in between
            params = {"exchanges": [item["exchangeId"] for item in report["items"]]}
    return _say(arguments, _request(arguments, params, is_dry_run=False))


def _can_ask() -> bool:
    return bool(sys.stdin) and sys.stdin.isatty()


def _params(arguments: argparse.Namespace) -> dict[str, Any]:
    _check_given(arguments)
    params: dict[str, Any] = {
        "exchanges": [*arguments.ids, *arguments.exchange],
        "drawers": arguments.drawer,
        "sessions": arguments.session,
        "project": filters.directory(arguments.project or ""),
        "source": _file(arguments.source),
        "agent": arguments.agent,
        **ask.times(arguments.since, arguments.until),
        "query": arguments.query,
    }
    params = {name: value for name, value in params.items() if value}
    if not params:
        raise ConfigError("forget needs to know what", hint="an id, or a selector such as --session or --query")
    return params if arguments.limit is None else {**params, "limit": arguments.limit}


def _check_given(arguments: argparse.Namespace) -> None:
    """Refuse a selector that is empty, as one is whose shell variable is not set: without it more would go."""
    for name in ("ids", "exchange", "drawer", "session", "project", "source", "agent", "since", "until", "query"):
        value = getattr(arguments, name)
        for given in value if isinstance(value, list) else [value]:
            if given is not None and not given.strip():
                option = "ID" if name == "ids" else f"--{name}"
                raise ConfigError(f"{option} is empty", hint="leave it out, or look whether a variable is not set")


def _file(path: str | None) -> str | None:
    """Return a source as it is stored: by its real path, where it is there."""
    full = os.path.abspath(os.path.expanduser(path)) if path else path
    return os.path.realpath(full) if full and os.path.exists(full) else full


def _request(arguments: argparse.Namespace, params: Mapping[str, Any], *, is_dry_run: bool) -> Mapping[str, Any]:
    report: Mapping[str, Any] = connect.request(arguments, "palace/forget", {**params, "dryRun": is_dry_run})
    return report


def _list(arguments: argparse.Namespace, params: Mapping[str, Any]) -> int:
    report = _request(arguments, params, is_dry_run=True)
    if arguments.json:
        show.print_json(report)
    else:
        _print_items(report, len(report["items"]))
        print(f"would forget {_counts(report)}")
        _print_pending(report)
    return options.EXIT_OK if report["exchanges"] else options.EXIT_NOTHING


def _confirmed(report: Mapping[str, Any]) -> bool:
    if not report["exchanges"]:
        print("nothing matches")
        return False
    _print_items(report, SHOWN_MAX)
    _print_pending(report)
    try:
        answer = input(f"Forget {_counts(report)} for good? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() in {"y", "yes"}:
        return True
    print("nothing was forgotten")
    return False


def _say(arguments: argparse.Namespace, report: Mapping[str, Any]) -> int:
    if arguments.json:
        show.print_json(report)
    elif not report["exchanges"]:
        print("nothing matches")
    else:
        print(f"forgot {_counts(report)}")
        _print_pending(report)
    if report["wipeDue"]:
        connect.note(f"gone from recall, but not from the database file yet: {report['wipeDue']}")
    return options.EXIT_OK if report["exchanges"] and not report["wipeDue"] else options.EXIT_NOTHING


def _counts(report: Mapping[str, Any]) -> str:
    return f"{show.count(report['exchanges'], 'exchange')} ({show.count(report['drawers'], 'drawer')})"


def _print_items(report: Mapping[str, Any], shown_max: int) -> None:
    columns = show.width()
    for item in report["items"][:shown_max]:
        what = [show.local_time(item["startedAt"]), item["agent"], show.tilde(item["project"]) or "no project"]
        print(show.cut("  ".join(what), columns))
        print("    " + show.one_line(item["title"] or "(no words)", columns - 4))
        print(show.paint(f"    id {item['exchangeId']}", "dim"))
    more = report["exchanges"] - min(shown_max, len(report["items"]))
    if more > 0:
        print(f"... and {more:,} more")


def _print_pending(report: Mapping[str, Any]) -> None:
    if report["sourcesPending"]:
        waiting = show.count(report["sourcesPending"], "file")
        print(f"{waiting} to be read first may tell more of it: look again when palace-daemon status says none waits")
