"""``remember`` and ``notes``: texts that are kept because somebody asked for it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from palace_daemon import filters
from palace_daemon.cli import ask, connect, options, show
from palace_daemon.errors import ConfigError

ACTIONS = ("list", "edit", "supersede")


def register(commands: options.Commands) -> None:
    """Declare the commands."""
    parser = options.add_command(
        commands,
        "remember",
        "keep a text as a note",
        remember,
        examples='palace-daemon remember "The staging queue runs on Redis 7, never 6." --tag redis --project tidepool\n'
        "git log -1 --format=%B | palace-daemon remember - --project . --author ci",
        detail="A note is recalled as exchanges are; secrets in it are redacted. The same text in the same project is\n"
        "one note.",
    )
    parser.add_argument("text", nargs="*", metavar="TEXT", help="what to keep; - reads it from standard input")
    _add_project(parser, "what it is about: a directory, or the last name of a known project")
    parser.add_argument("--tag", action="append", default=[], metavar="T", help="a word to find it by; can be repeated")
    parser.add_argument("--author", default="", metavar="A", help="who says so")
    parser = options.add_command(
        commands,
        "notes",
        "list notes, newest first, or change one",
        notes,
        examples="palace-daemon notes --project tidepool --tag redis\n"
        'palace-daemon notes edit 3f9c1d20 "The staging queue runs on Redis 7.2."\n'
        'palace-daemon notes supersede 3f9c1d20 "The staging queue runs on Postgres now."',
        detail="edit puts a text right and keeps the id; the former text leaves the disk within a minute. supersede\n"
        "stores a new note, and the old one leaves recall but stays on the disk, with its id: forget ID removes it,\n"
        "and a note whose successor is forgotten stands again.",
    )
    parser.add_argument("action", nargs="?", choices=ACTIONS, default="list")
    parser.add_argument("id", nargs="?", default="", metavar="ID", help="which note to edit or supersede")
    parser.add_argument("text", nargs="*", metavar="TEXT", help="its new text; - reads it from standard input")
    _add_project(parser, "only notes on this project")
    parser.add_argument(
        "--tag", action="append", default=[], metavar="T", help="only notes with this tag; can be repeated"
    )
    parser.add_argument("--all", action="store_true", help="list superseded notes, too")
    parser.add_argument("--limit", type=options.limit, default=50, metavar="N", help="notes at most (default 50)")
    parser.add_argument("--offset", type=int, default=0, metavar="N", help="notes to leave out")
    ask.add_no_daemon(parser)


def _add_project(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--project", default="", metavar="P", help=text)


def remember(arguments: argparse.Namespace) -> int:
    """Keep a text."""
    params = {
        "text": _text(arguments.text, "remember"),
        "project": filters.project(arguments.project),
        "tags": [tag for tag in arguments.tag if tag.strip()],
        "author": arguments.author,
        "now": ask.now(),
    }
    with connect.reach(arguments) as client:
        result = client.request("palace/remember", params)
    if arguments.json:
        show.print_json(result)
    else:
        print("remembered" if result["isNew"] else "known already")
        _print_note(result["note"])
    return options.EXIT_OK


def notes(arguments: argparse.Namespace) -> int:
    """List notes, or change one; exit code 1 where none is found."""
    if arguments.action != "list":
        return _change(arguments)
    if arguments.id:
        raise ConfigError("notes list takes no id", hint="palace-daemon get ID shows one note")
    params = {
        "project": filters.project(arguments.project),
        "tags": [tag for tag in arguments.tag if tag.strip()],
        "all": arguments.all,
        "limit": arguments.limit,
        "offset": arguments.offset,
    }
    result = connect.ask(arguments, "palace/notes", params)
    if arguments.json:
        show.print_json(result)
    else:
        for note in result["notes"]:
            _print_note(note)
        if not result["notes"]:
            print("no notes")
    return options.EXIT_OK if result["notes"] else options.EXIT_NOTHING


def _change(arguments: argparse.Namespace) -> int:
    if not arguments.id:
        raise ConfigError(f"notes {arguments.action} takes an id and a text", hint="palace-daemon notes lists the ids")
    params = {
        "action": arguments.action,
        "id": arguments.id,
        "text": _text(arguments.text, f"notes {arguments.action}"),
        "now": ask.now(),
    }
    with connect.reach(arguments) as client:
        result = client.request("palace/notes", params)
    if arguments.json:
        show.print_json(result)
    else:
        print("edited" if arguments.action == "edit" else f"in the place of {show.clean(arguments.id)} stands now")
        _print_note(result["note"])
    return options.EXIT_OK


def _print_note(note: Mapping[str, Any]) -> None:
    columns = show.width()
    what = [show.local_time(note["createdAt"]), note["author"], show.tilde(note["project"]) or "no project"]
    print(show.paint(show.cut("  ".join(word for word in what if word), columns), "bold"))
    for line in show.fold(note["text"].rstrip("\n"), columns - 4):
        print(f"    {line}".rstrip())
    if note["tags"]:
        print("    " + show.paint(show.one_line(" ".join(f"#{tag}" for tag in note["tags"]), columns - 4), "cyan"))
    edited = f", edited {show.local_time(note['editedAt'])}" if note["editedAt"] else ""
    print(show.paint(f"    id {note['noteId']}{edited}", "dim"))
    if note["supersededBy"]:
        print(show.paint(f"    superseded by {note['supersededBy']}", "dim"))
    print()


def _text(words: Sequence[str], command: str) -> str:
    """Return the text as it was given; of standard input without its last line end, which shells add."""
    given = " ".join(words)
    if words and given != "-":
        return given
    if not words and sys.stdin.isatty():
        raise ConfigError(f"{command} needs a text", hint="a text in quotes, or - for standard input")
    data = sys.stdin.buffer.read(ask.QUERY_BYTES_MAX + 1)
    if len(data) > ask.QUERY_BYTES_MAX:
        raise ConfigError(f"the text on standard input is longer than {ask.QUERY_BYTES_MAX:,} bytes")
    return data.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
