"""``mine``, ``sources``, ``sessions`` and ``projects``: what goes in, and what is there."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palace_daemon import filters
from palace_daemon.cli import ask, connect, options, show, show_recall
from palace_daemon.cli.bar import Bar
from palace_daemon.errors import RequestError

PROGRESS_TOKEN = "mine"  # noqa: S105 - names a progress report, and is no secret
STATES = ("pending", "ok", "failed", "gone", "skipped")


def register(commands: options.Commands) -> None:
    """Declare the commands."""
    _register_mine(commands)
    parser = options.add_command(
        commands,
        "sources",
        "list the transcript files, those that failed first",
        sources,
        examples="palace-daemon sources\npalace-daemon sources --state failed",
    )
    parser.add_argument("--agent", default="", help="only this agent")
    parser.add_argument("--state", choices=STATES, default="", help="only files in this state")
    ask.add_no_daemon(parser)
    parser = options.add_command(
        commands,
        "sessions",
        "list sessions, newest first, or show one whole",
        sessions,
        examples="palace-daemon sessions --project tidepool --limit 5\npalace-daemon sessions 0c5b2f6e",
    )
    parser.add_argument("id", nargs="?", default="", metavar="ID", help="show this session's exchanges in order")
    parser.add_argument("--agent", default="", help="only this agent")
    parser.add_argument("--project", default="", help="only this project: a directory, or its last name")
    parser.add_argument("--since", metavar="TIME", help="begun at or after this date or ISO time")
    parser.add_argument("--limit", type=options.limit, default=20, metavar="N", help="rows at most (default 20)")
    parser.add_argument("--offset", type=int, default=0, metavar="N", help="rows to leave out")
    ask.add_no_daemon(parser)
    parser = options.add_command(
        commands,
        "projects",
        "list projects, the one worked on last first",
        projects,
        examples="palace-daemon projects\npalace-daemon projects --limit 5 --json",
    )
    parser.add_argument("--limit", type=options.limit, default=20, metavar="N", help="rows at most (default 20)")
    parser.add_argument("--offset", type=int, default=0, metavar="N", help="rows to leave out")
    ask.add_no_daemon(parser)


def _register_mine(commands: options.Commands) -> None:
    parser = options.add_command(
        commands,
        "mine",
        "read transcripts now",
        mine,
        examples="palace-daemon mine\npalace-daemon mine --wait ~/old-transcripts session.jsonl",
        detail="The daemon mines what it watches by itself; this names further files, or waits for the end.",
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or directories (default: all that is watched)")
    parser.add_argument("--wait", action="store_true", help="return when everything is stored and embedded")


def mine(arguments: argparse.Namespace) -> int:
    """Mine paths; exit code 1 where a file failed.

    Raises:
        RequestError: A path is empty, as an unset variable of a script is: it must not come to mean the directory.
    """
    if not all(path.strip() for path in arguments.paths):
        raise RequestError("a path is empty", hint="`palace-daemon mine` alone reads all that is watched")
    params: dict[str, Any] = {
        "paths": [str(Path(path).expanduser().absolute()) for path in arguments.paths],
        "wait": arguments.wait,
    }
    if arguments.wait:
        params["workDoneToken"] = PROGRESS_TOKEN
    try:
        with Bar() as bar:
            report = connect.request(arguments, "palace/mine", params, bar.on_notification)
    except KeyboardInterrupt:
        connect.note("stopped waiting; the daemon goes on in the background")
        raise
    if arguments.json:
        show.print_json(report)
    elif arguments.wait:
        show.print_mine_report(report)
    else:
        print(
            f"mining {show.count(report['files'], 'file')} in the background (palace-daemon status shows how far it is)"
        )
    return options.EXIT_NOTHING if report["filesFailed"] else options.EXIT_OK


def sources(arguments: argparse.Namespace) -> int:
    """List transcript files."""
    result = connect.ask(arguments, "palace/sources", {"agent": arguments.agent, "state": arguments.state})
    if arguments.json:
        show.print_json(result)
    else:
        for source in result["sources"]:
            _print_source(source)
        if not result["sources"]:
            print("no transcript files are known")
    return options.EXIT_OK if result["sources"] else options.EXIT_NOTHING


def _print_source(source: Mapping[str, Any]) -> None:
    state = show.paint(f"{source['state']:<8}", "red" if source["state"] == "failed" else "green")
    skipped = show.count(sum(source["linesSkipped"].values()), "line")
    read = f"{show.size(source['readBytes'])} of {show.size(source['sizeBytes'])} read"
    print(f"{state}{source['agent']}, {read}, {show.count(source['exchanges'], 'exchange')}, {skipped} skipped")
    print(" " * 8 + show.tilde(source["path"]))
    if source["machine"]:
        print(" " * 8 + f"imported from machine {source['machine']}")
    if source["error"]:
        print(" " * 8 + show.one_line(source["error"], show.width() - 8))


def sessions(arguments: argparse.Namespace) -> int:
    """List sessions, or show one."""
    if arguments.id:
        return _timeline(arguments)
    params: dict[str, Any] = {
        "agent": arguments.agent,
        "project": filters.project(arguments.project),
        "limit": arguments.limit,
        "offset": arguments.offset,
        **ask.times(arguments.since),
    }
    result = connect.ask(arguments, "palace/sessions", params)
    if arguments.json:
        show.print_json(result)
    else:
        for session in result["sessions"]:
            _print_session(session)
        if not result["sessions"]:
            print("no sessions")
    if params["project"] and not (result["sessions"] or arguments.offset):
        named = {name: getattr(arguments, name) for name in ("agent", "since")}
        ask.say_nothing_of({"project": show.tilde(params["project"]), **named})
    return options.EXIT_OK if result["sessions"] else options.EXIT_NOTHING


def _print_session(session: Mapping[str, Any]) -> None:
    columns = show.width()
    project = show.tilde(session["project"]) or "no project"
    what = [session["agent"], project, show.count(session["exchanges"], "exchange")]
    print(show.cut(f"{show.local_time(session['startedAt'])}  {'  '.join(what)}", columns))
    print("    " + show.one_line(session["title"] or "untitled", columns - 4))
    print("    " + show.paint(show.one_line(session["sessionId"], columns - 4), "dim"))


def projects(arguments: argparse.Namespace) -> int:
    """List projects."""
    result = connect.ask(arguments, "palace/projects", {"limit": arguments.limit, "offset": arguments.offset})
    if arguments.json:
        show.print_json(result)
    else:
        for project in result["projects"]:
            _print_project(project)
        if not result["projects"]:
            print("no projects")
    return options.EXIT_OK if result["projects"] else options.EXIT_NOTHING


def _print_project(project: Mapping[str, Any]) -> None:
    columns = show.width()
    counts = (show.count(project["sessions"], "session"), show.count(project["exchanges"], "exchange"))
    what = [project["name"] or "no project", *counts, ", ".join(project["agents"])]
    print(show.cut(f"{show.local_time(project['newestAt'])}  {'  '.join(what)}", columns))
    if project["path"]:
        print("    " + show.paint(show.tilde(project["path"]), "dim"))


def _timeline(arguments: argparse.Namespace) -> int:
    result = connect.ask(arguments, "palace/sessions", {"sessionId": arguments.id})
    if arguments.json:
        show.print_json(result)
    else:
        for exchange in result["exchanges"]:
            show_recall.print_exchange(exchange)
            print()
    return options.EXIT_OK
