"""``recall`` and ``get``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from palace_daemon import filters
from palace_daemon.cli import connect, options, show, show_recall
from palace_daemon.errors import ConfigError

NEIGHBOURS_MAX = 3
"""Equals ``palace_daemon.model.NEIGHBOURS_MAX``, whose module takes long to import."""
MODEL_WAIT_S = 2.0
"""How long the first question waits for the model of the daemon that it started; loading takes half a second."""
_LISTS = {
    "project": "`palace-daemon projects` lists what is there",
    "session": "`palace-daemon sessions` lists the ids, of which eight characters or more will do",
}
QUERY_BYTES_MAX = 8 * 1024 * 1024
"""Most that is read from standard input; the daemon takes frames of 16 MiB."""


def register(commands: options.Commands) -> None:
    """Declare the commands."""
    parser = options.add_command(
        commands,
        "recall",
        "ask what was said",
        recall,
        examples='palace-daemon recall "why did we move the job queue out of Redis?"\n'
        "palace-daemon recall --project tidepool --since 2026-03-01 --limit 3 rate limits\n"
        "palace-daemon recall --by-session --neighbours 1 --max-tokens 2000 rate limits\n"
        "git log -1 --format=%B | palace-daemon recall --json -\n"
        "palace-daemon recall --markdown --max-tokens 1500 rate limits",
        detail="Starts the daemon if none runs.",
    )
    parser.add_argument("query", nargs="*", metavar="QUERY", help="the question; - reads it from standard input")
    parser.add_argument("--project", default="", help="only this project: a directory, or its last name")
    parser.add_argument("--agent", default="", help="only this agent, such as claude-code or codex")
    parser.add_argument("--session", default="", help="only this session")
    parser.add_argument("--since", metavar="TIME", help="from this date or ISO time on")
    parser.add_argument("--until", metavar="TIME", help="up to this ISO time, or to the end of this date")
    parser.add_argument("--limit", type=options.limit, metavar="N", help="hits at most (default: the daemon's, 10)")
    grouping = parser.add_mutually_exclusive_group()
    grouping.add_argument("--by-session", action="store_true", help="the best N sessions, up to three hits inside each")
    grouping.add_argument("--by-exchange", action="store_true", help="each exchange once, by its best passage")
    add_neighbours(parser, "each hit")
    parser.add_argument("--now", metavar="TIME", help="what 'yesterday' is relative to (default: the clock)")
    parser.add_argument("--explain", action="store_true", help="show each part of the score and the matched words")
    parser.add_argument("--max-chars", type=options.positive, metavar="N", help="characters of text at most, in all")
    parser.add_argument("--max-tokens", type=options.positive, metavar="N", help="the same in tokens, estimated")
    parser.add_argument("--no-fold", action="store_true", help="list what says the same as a better hit, too")
    parser.add_argument("--markdown", action="store_true", help="print a block to paste into a prompt or a note")
    add_no_daemon(parser)
    parser = options.add_command(
        commands,
        "get",
        "show one exchange whole",
        get,
        examples="palace-daemon get 3f9c1d20\npalace-daemon get --json 3f9c1d20",
        detail="ID is the id of a hit, or of an exchange.",
    )
    parser.add_argument("id", metavar="ID", help="a drawer id or an exchange id, as recall prints them")
    add_neighbours(parser, "it")
    add_no_daemon(parser)


def add_neighbours(parser: argparse.ArgumentParser, of_what: str) -> None:
    """Let a command show what was said before and after."""
    parser.add_argument(
        "--neighbours",
        type=options.whole_number(0, NEIGHBOURS_MAX),
        default=0,
        metavar="N",
        help=f"N exchanges before and after {of_what} in its session, in short (up to {NEIGHBOURS_MAX})",
    )


def add_no_daemon(parser: argparse.ArgumentParser) -> None:
    """Let a command that only reads do without a daemon."""
    parser.add_argument("--no-daemon", action="store_true", help="read the store directly; start nothing")


def recall(arguments: argparse.Namespace) -> int:
    """Answer a question; exit code 1 where nothing was found."""
    params: dict[str, Any] = {
        "query": _query(arguments.query),
        "project": filters.project(arguments.project),
        "agent": arguments.agent,
        "session": arguments.session,
        "now": filters.clock(arguments.now, "--now") if arguments.now else now(),
        "groupBySession": arguments.by_session,
        "neighbours": arguments.neighbours,
        "fold": not arguments.no_fold,
    }
    optional = {
        **times(arguments.since, arguments.until),
        "limit": arguments.limit,
        "maxChars": arguments.max_chars,
        "maxTokens": arguments.max_tokens,
        "groupByExchange": arguments.by_exchange or None,  # a daemon of an older version does not know it
    }
    params |= {name: value for name, value in optional.items() if value is not None}
    result = connect.ask(arguments, "palace/recall", params, model_wait_s=MODEL_WAIT_S)
    if arguments.json:
        show.print_json(result)
    elif arguments.markdown:
        show_recall.print_block(result, arguments.max_tokens)
    else:
        show_recall.print_recall(result, is_explained=arguments.explain)
    _say_what_leaves_nothing(arguments, params, result)
    return options.EXIT_OK if result["hits"] else options.EXIT_NOTHING


def times(since: str | None, until: str | None = None) -> dict[str, str | int]:
    """Return the parameters for the flags ``--since`` and ``--until``, as far as they are given."""
    found: dict[str, str | int] = {}
    if since is not None:
        found["since"] = filters.moment(since, "--since")
    if until is not None:
        found["until"] = filters.moment(until, "--until", ends_day=True)
    return found


def _say_what_leaves_nothing(
    arguments: argparse.Namespace, params: Mapping[str, Any], result: Mapping[str, Any]
) -> None:
    """Say which filters leave nothing of a store that is not empty, and what else there is."""
    if result["totals"]["inScope"] or not result["freshness"]["drawers"]:
        return
    if near := result["projectsNear"]:
        called = show.one_line(show.tilde(params["project"]), show.width())
        connect.note(f"no project is called {called}; near it: {', '.join(map(show.tilde, near))}")
        return
    named = {name: getattr(arguments, name) for name in ("session", "agent", "since", "until")}
    say_nothing_of({"project": show.tilde(params["project"]), **named})


def say_nothing_of(filters_given: Mapping[str, str | None]) -> None:
    """Say that filters leave nothing, where any is given, and what lists the projects or sessions that are there."""
    given = {name: what for name, what in filters_given.items() if what}
    flags = ", ".join(f"--{name} {show.one_line(what, show.width())}" for name, what in given.items())
    hints = [f"; {hint}" for name, hint in _LISTS.items() if name in given]
    if given:
        connect.note(f"nothing stored fits {flags}{''.join(hints)}")


def get(arguments: argparse.Namespace) -> int:
    """Show one exchange."""
    if not arguments.id.strip():
        raise ConfigError("get needs the id of a hit or of an exchange", hint="recall prints the ids of its hits")
    result = connect.ask(arguments, "palace/get", {"id": arguments.id, "neighbours": arguments.neighbours})
    if arguments.json:
        show.print_json(result)
    else:
        show_recall.print_exchange(result)
    return options.EXIT_OK


def _query(words: Sequence[str]) -> str:
    """Return the question from the command line or from standard input."""
    given = " ".join(words)
    if not (words and given != "-"):
        given = "" if not words and sys.stdin.isatty() else _from_stdin()
    if not given.strip():
        raise ConfigError(
            "recall needs a question",
            hint='palace-daemon recall "what did we decide about ..."; `palace-daemon sessions` lists the newest',
        )
    return given


def _from_stdin() -> str:
    data = sys.stdin.buffer.read(QUERY_BYTES_MAX + 1)
    if len(data) > QUERY_BYTES_MAX:
        raise ConfigError(f"the question on standard input is longer than {QUERY_BYTES_MAX:,} bytes")
    return data.decode("utf-8", "replace").strip()


def now() -> str:
    """Return the caller's clock with the caller's zone, which the daemon may not share."""
    import datetime as dt  # noqa: PLC0415

    return dt.datetime.now().astimezone().isoformat(timespec="milliseconds")
