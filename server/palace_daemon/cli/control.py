"""``serve``, ``stop``, ``restart``, ``status`` and ``--stdio``: the daemon itself."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Mapping
from typing import Any

from palace_daemon.cli import ending, options, show, show_recall
from palace_daemon.client import Client, loopback_port


def register(commands: options.Commands) -> None:
    """Declare the commands."""
    parser = options.add_command(
        commands,
        "serve",
        "run the daemon in this terminal",
        serve,
        examples="palace-daemon serve\npalace-daemon --data-dir /srv/palace serve\npalace-daemon serve --tcp 4127",
        detail="Other commands start it in the background by themselves. Ends with 4 where one runs already.",
    )
    parser.add_argument(
        "--tcp",
        nargs="?",
        const=0,
        type=options.whole_number(0, 65_535),
        metavar="PORT",
        help="listen on 127.0.0.1, too (any free port), for clients that know the token",
    )
    parser.add_argument("--detached", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--stdio", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    options.add_command(
        commands, "stop", "stop the daemon", stop, examples="palace-daemon stop\npalace-daemon stop --json"
    )
    options.add_command(
        commands,
        "restart",
        "stop the daemon and start it anew",
        restart,
        examples="palace-daemon restart",
        detail="For a change of settings, for example. Nothing is lost: what was under way goes on.",
    )
    parser = options.add_command(
        commands,
        "status",
        "show what is indexed, what is pending, what was skipped and why",
        status,
        examples="palace-daemon status\npalace-daemon status --json\npalace-daemon status --watch",
        detail="Asks the running daemon, and starts none.",
    )
    parser.add_argument("--watch", action="store_true", help="keep it up to date, until Ctrl-C")
    _register_pauses(commands)


def _register_pauses(commands: options.Commands) -> None:
    for name, what, method in (
        ("pause", "let mining and embedding rest; recall goes on", "palace/pause"),
        ("resume", "go on with what waited", "palace/resume"),
    ):
        options.add_command(
            commands,
            name,
            what,
            functools.partial(pause, method=method),
            examples=f"palace-daemon {name}",
            detail="A daemon that is started anew is not paused.",
        )


def serve(arguments: argparse.Namespace) -> int:
    """Run the daemon until a signal or ``stop``."""
    from palace_daemon import config  # noqa: PLC0415
    from palace_daemon.rpc import serve as server  # noqa: PLC0415

    overrides = {} if arguments.tcp is None else {"serve.tcp": True, "serve.tcp_port": arguments.tcp}
    settings, _ = config.load(overrides, data_dir=arguments.data_dir)
    return server.run(settings, is_detached=arguments.detached)


def stop(arguments: argparse.Namespace) -> int:
    """Stop the daemon and wait until it is gone; that none runs is no failure."""
    return _say_stopped(arguments, was_running=ending.end(arguments.data_dir))


def _say_stopped(arguments: argparse.Namespace, *, was_running: bool) -> int:
    if arguments.json:
        show.print_json({"wasRunning": was_running})
    else:
        print("stopped" if was_running else "no daemon was running")
    return options.EXIT_OK


def restart(arguments: argparse.Namespace) -> int:
    """Stop the daemon if one runs, and start one of this version: by the service where that is installed."""
    from palace_daemon.cli import service  # noqa: PLC0415

    was_running = ending.end(arguments.data_dir)
    service.start_if_installed(arguments.data_dir)
    with Client(arguments.data_dir, timeout_s=60.0).connect_or_start() as client:
        pid = client.request("palace/status")["pid"]
    if arguments.json:
        show.print_json({"wasRunning": was_running, "pid": pid})
    else:
        print(f"{'restarted' if was_running else 'started'}: process {pid}")
    return options.EXIT_OK


def status(arguments: argparse.Namespace) -> int:
    """Show the daemon's state; exit code 3 where none runs."""
    if arguments.watch:
        from palace_daemon.cli import live  # noqa: PLC0415

        return live.watch(arguments)
    with Client(arguments.data_dir, timeout_s=60.0) as client:
        result = client.request("palace/status")
    port = loopback_port(arguments.data_dir)
    if arguments.json:
        show.print_json({**result, "port": port or None})
    else:
        _print_status(result, port)
    return options.EXIT_OK


def pause(arguments: argparse.Namespace, *, method: str) -> int:
    """Pause, or go on; exit code 3 where no daemon runs."""
    with Client(arguments.data_dir, timeout_s=60.0) as client:
        result = client.request(method)
    if arguments.json:
        show.print_json(result)
    elif result["isPaused"]:
        print("paused: nothing is mined or embedded until palace-daemon resume, or until the daemon is started anew")
    else:
        print("going on")
    return options.EXIT_OK


def _print_status(result: Mapping[str, Any], port: int | None = None) -> None:
    waiting = (
        f"{show.count(result['sourcesPending'], 'file')} to be mined" if result["sourcesPending"] else "nothing waits"
    )
    vectors = f"{result['vectors']:,} of {result['vectors'] + result['vectorsPending']:,}"
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(result["sources"].items())) or "none"
    pairs = [
        ("daemon", f"{result['version']}, process {result['pid']}, up {duration(result['uptimeS'])}"),
        *([("port", f"{port:d} on 127.0.0.1")] if port else []),
        ("data", show.Whole(f"{show.tilde(result['dataDir'])} ({show.size(result['databaseBytes'])})")),
        ("memory", show.size(result["rssBytes"])),
        ("sessions", f"{result['sessions']:,}"),
        ("exchanges", f"{result['exchanges']:,}, {result['exchangesSuperseded']:,} superseded"),
        ("drawers", f"{result['drawers']:,}"),
        ("vectors", vectors),
        ("model", f"{result['model']}: {result['modelState']}{_load_time(result['embedding'])}"),
        *_embedding_pairs(result["embedding"]),
        ("files", f"{states}; {waiting}"),
        ("last mined", show.local_time(result["lastMinedAt"]) if result["lastMinedAt"] else "never"),
        ("notices by", result["notifier"]),
    ]
    there = [item for item in result["watched"] if item["exists"] or item["origin"] != "default"]
    pairs += [("watches", show.Whole(_watched(directory))) for directory in there]
    if absent := len(result["watched"]) - len(there):
        whose = "directory of an agent that is" if absent == 1 else "directories of agents that are"
        pairs.append(("waits for", f"{absent} {whose} not here yet (`--json` lists them)"))
    pairs += [
        ("skipped", f"{show.count(lines, 'line')}: {why.replace('_', ' ')}")
        for why, lines in sorted(result["linesSkipped"].items())
    ]
    if result["redactions"]:
        redacted = sorted(result["redactions"].items(), key=lambda one: (-one[1], one[0]))
        pairs.append(("redacted", ", ".join(f"{number:,} {kind}" for kind, number in redacted)))
    pairs += show.file_pairs("failed", result["failures"])
    if result["lastError"]:
        pairs.append(("last error", result["lastError"]))
    show.print_pairs(pairs)


def _load_time(embedding: Mapping[str, Any]) -> str:
    return "" if embedding["modelLoadMs"] is None else f", loaded in {embedding['modelLoadMs'] / 1000:.1f} s"


def _embedding_pairs(embedding: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the rows on how the texts get their vectors."""
    threads, pace = show.count(embedding["threads"], "thread"), embedding["textsPerS"]
    how = f"{pace:,.1f} texts a second on {threads}" if pace else f"on {threads}"
    if embedding["etaS"]:
        how += f", done in {duration(embedding['etaS'])}"
    pairs = [("embedding", "paused (palace-daemon resume)" if embedding["isPaused"] else how)]
    models = embedding["coverage"]
    pairs += [(one["role"], show_recall.covered(one)) for one in models if len(models) > 1]
    if embedding["truncated"]:
        pairs.append(("truncated", show.count(embedding["truncated"], "text")))
    if windowed := embedding.get("windowed"):  # a daemon of an older version does not say
        pairs.append(("long texts", f"{windowed_texts(windowed)} by the mean of their windows"))
    return pairs


def windowed_texts(count: int) -> str:
    """Return how many texts were too long for the model."""
    return f"{show.count(count, 'text')} above what the model takes got {'its' if count == 1 else 'their'} vector"


def _watched(directory: Mapping[str, Any]) -> str:
    note = "" if directory["exists"] else ", does not exist yet"
    if directory["foundAt"]:
        note = f", new since {show.local_time(directory['foundAt'])}"
    return f"{show.tilde(directory['path'])} ({directory['agent'] or directory['origin']}{note})"


def duration(seconds: float) -> str:
    """Return a time as people say it, to the two largest units."""
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86_400)
    if days:
        return f"{days} d {hours % 24} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min" if minutes else f"{seconds:.0f} s"


def stdio(arguments: argparse.Namespace) -> int:
    """Join the daemon, or start it, and pass bytes between it and standard input and output until either side ends."""
    from palace_daemon.cli import pump  # noqa: PLC0415

    client = Client(arguments.data_dir).connect_or_start()
    with client.detach() as connection:
        pump.run(connection, sys.stdin.fileno(), sys.stdout.fileno())
    return options.EXIT_OK
