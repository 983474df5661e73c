"""``start``: the first run, from an empty machine to the first answer."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palace_daemon.cli import ask, connect, options, show, show_recall
from palace_daemon.cli.bar import Bar
from palace_daemon.client import Client
from palace_daemon.errors import DaemonError, ModelError

if TYPE_CHECKING:
    from palace_daemon.config import Config
    from palace_daemon.model import WatchedDir

NEWEST = 20
"""Transcripts that are read before the first question."""
FIRST_MINE_S = 60.0
"""How long the first run waits for them; what is not done then goes on in the background."""
SAMPLE_QUESTION = "why did we move the job queue out of Redis?"
GENERAL_QUESTION = "what did we decide, and why?"
TOKEN = "start"  # noqa: S105 - names a progress report, and is no secret


def register(commands: options.Commands) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "start",
        "first run: model, transcripts, daemon, first answer",
        run,
        examples='palace-daemon start\npalace-daemon start --yes --question "how do we deploy?"',
        detail="Asks before it reads a transcript. Can be run again.",
    )
    parser.add_argument("--yes", action="store_true", help="read the transcripts without asking (for scripts)")
    parser.add_argument("--question", metavar="TEXT", help="what to ask at the end")


def run(arguments: argparse.Namespace) -> int:
    """Go through the steps; exit code 1 where the user said no, or could not be asked."""
    from palace_daemon import config  # noqa: PLC0415

    settings, _ = config.load(data_dir=arguments.data_dir)
    found = [directory for directory in _look(settings) if directory.files]
    if found and not _may_read(arguments, found):
        return options.EXIT_NOTHING
    if found:
        _switch_on(settings)
    else:
        _say("No transcripts of Claude Code or Codex were found here; the packaged samples stand in for them.")
    _install_model(settings)
    with connect.reach(arguments, timeout_s=FIRST_MINE_S) as client:
        _mine(client, [] if found else [str(_samples())])
    question = arguments.question or (_question(arguments) if found else SAMPLE_QUESTION)
    return _first_answer(arguments, question)


def _look(settings: Config) -> list[WatchedDir]:
    """Return the directories that would be watched, with the number and size of the transcripts in them."""
    import msgspec  # noqa: PLC0415

    from palace_daemon.core.transcripts import registry  # noqa: PLC0415
    from palace_daemon.service.watching import default_dirs  # noqa: PLC0415 - imports numpy
    from palace_daemon.watch import discover  # noqa: PLC0415

    # Also what an earlier "no" switched off: running this again is the way to say yes.
    watch = msgspec.structs.replace(settings.watch, defaults=True)

    def may_hold(path: str) -> bool:
        return any(known.may_hold(path) for known in registry.formats())

    found = []
    for directory in default_dirs(watch, os.environ, str(Path.home()), sys.platform):
        sizes = [stat.size for _, stat in discover.walk(directory.path, may_hold)]
        found.append(msgspec.structs.replace(directory, files=len(sizes), size_bytes=sum(sizes)))
    return found


def _may_read(arguments: argparse.Namespace, found: Sequence[WatchedDir]) -> bool:
    _say("Transcripts on this machine:")
    for directory in found:
        _say(f"  {directory.path}: {directory.files:,} files, {show.size(directory.size_bytes)} ({directory.agent})")
    _say("Palace reads them, stores their text here with secrets replaced, and sends nothing anywhere.")
    if arguments.yes:
        return True
    if not sys.stdin.isatty():
        _say("There is no terminal to ask on. Run it again with --yes to have them read.")
        return False
    print("Read them now, and new ones as they are written? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    _decline()
    return False


def _decline() -> None:
    from palace_daemon import config  # noqa: PLC0415

    path, _ = config.write_setting("watch.defaults", "false")
    _say(f"Nothing was read. {path} now says watch.defaults = false.")
    _say("To change that: palace-daemon config set watch.defaults true")
    _say("To have single directories read: palace-daemon config set watch.paths DIR,DIR")


def _switch_on(settings: Config) -> None:
    if not settings.watch.defaults:
        from palace_daemon import config  # noqa: PLC0415

        config.write_setting("watch.defaults", "true")
        _say("watch.defaults is on again; palace-daemon restart lets a running daemon take it up.")


def _install_model(settings: Config) -> None:
    """Install the model if it is missing; without one, recall still works by words, so that is no reason to stop."""
    from palace_daemon.cli import models  # noqa: PLC0415
    from palace_daemon.service import build  # noqa: PLC0415 - imports numpy

    try:
        active = [view for view in build.list_models(settings) if view.is_active]
        if any(view.is_installed for view in active):
            return
        _say(f"Installing the embedding model {settings.embed.model}, once ...")
        models.install(settings.embed.model)
    except ModelError as exc:
        _say(f"The model could not be installed: {exc}")
        _say("Recall finds by words until it is: palace-daemon model install")


def _mine(client: Client, paths: Sequence[str]) -> None:
    params = {"paths": list(paths), "wait": True, "newest": NEWEST, "workDoneToken": TOKEN}
    try:
        with Bar() as bar:
            report = client.request("palace/mine", params, bar.on_notification)
    except DaemonError as exc:
        _say(f"{exc}; it goes on in the background (palace-daemon status shows how far it is)")
        return
    seconds = max(report["seconds"], report["secondsToVectors"])
    counts = (
        f"{report['files']:,} files, {report['exchangesAdded']:,} new exchanges, {report['drawersAdded']:,} drawers"
    )
    _say(f"Read the newest {counts} in {seconds:.1f} s.")


def _samples() -> Path:
    import palace_daemon  # noqa: PLC0415 - for its place alone

    return Path(palace_daemon.__file__).parent / "samples"


def _question(arguments: argparse.Namespace) -> str:
    """Return a question that this machine's transcripts answer: the newest titled session's title."""
    with Client(arguments.data_dir) as client:
        rows: list[dict[str, Any]] = client.request("palace/sessions", {"limit": NEWEST})["sessions"]
    titled = [row["title"] for row in rows if row["title"] and not row["isAutomated"] and not row["parentSessionId"]]
    return show.one_line(titled[0], 200) if titled else GENERAL_QUESTION


def _first_answer(arguments: argparse.Namespace, question: str) -> int:
    with Client(arguments.data_dir) as client:
        params = {"query": question, "limit": 3, "groupByExchange": True, "now": ask.now()}
        result = client.request("palace/recall", params)
    if arguments.json:
        show.print_json({"question": question, **result})
    else:
        print(show.paint(f"\n? {show.one_line(question, show.width() - 2)}\n", "bold"))
        show_recall.print_recall(result, is_explained=False)
    _say("\nThe daemon runs in the background and reads new transcripts as they are written.")
    name = _command()
    _say(f"Next:  {name} recall your question\n       {name} status\n       {name} stop")
    return options.EXIT_OK if result["hits"] else options.EXIT_NOTHING


def _command() -> str:
    """Return how this command is called from here: by its name if the shell finds it, else by its path."""
    import shutil  # noqa: PLC0415 - used once

    called = sys.argv[0]
    if shutil.which("palace-daemon") or Path(called).name != "palace-daemon":
        return "palace-daemon"
    return os.path.relpath(called) if Path(called).is_relative_to(Path.cwd()) else called


def _say(text: str) -> None:
    for line in show.fold(text, show.width()):
        print(line, file=sys.stderr)
