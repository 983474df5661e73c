"""Every command against a running daemon: what it prints, where, and how it ends."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palace_daemon import __version__
from palace_daemon.cli import main

Cli = Callable[..., Any]


def commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    parser = main.build_parser()
    (action,) = [item for item in parser._actions if isinstance(item, argparse._SubParsersAction)]
    yield from action.choices.items()


# ------------------------------------------------------------------------------------------------------------ help


@pytest.mark.parametrize(("name", "parser"), list(commands()))
def test_every_command_has_json_an_example_and_its_exit_codes(name: str, parser: argparse.ArgumentParser) -> None:
    text = parser.format_help()
    assert "--json" in text
    assert f"  palace-daemon {name}" in text or f"palace-daemon --data-dir /srv/palace {name}" in text
    assert "exit codes:" in text


@pytest.mark.parametrize(("name", "parser"), list(commands()))
def test_every_example_in_the_help_is_a_valid_command_line(name: str, parser: argparse.ArgumentParser) -> None:
    examples = re.findall(r"palace-daemon (.+)", (parser.epilog or "").split("exit codes")[0])
    assert examples
    for example in examples:
        arguments = main.build_parser().parse_args(shlex.split(example))
        assert callable(arguments.run), example


def test_the_table_of_commands_is_what_the_modules_declare() -> None:
    assert [name for names in main.GROUPS.values() for name in names] == [name for name, _ in commands()]
    alone = main.build_parser(["--data-dir", "recall", "status"]).format_help()
    assert "status" in alone
    assert "doctor " not in alone


def test_version_and_usage(cli: Cli) -> None:
    assert cli("--version").out == f"palace-daemon {__version__}\n"
    bare = cli()
    assert (bare.code, bare.out) == (2, "")
    assert "COMMAND" in bare.err


@pytest.mark.parametrize(
    "words",
    [
        ("recall", "--wrong", "q"),
        ("recall", "--limit", "0", "q"),
        ("recall", "--limit", "many", "q"),
        ("recall", "--lim", "3", "q"),
        ("recall", "--neighbours", "4", "q"),
        ("recall", "--max-tokens", "0", "q"),
        ("get", "--neighbours", "-1", "e1"),
        ("nonsense",),
        ("sources", "--state", "fine"),
        ("config", "set", "watch.paths"),
        ("config", "show", "extra"),
        ("model", "remove"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_says_why(cli: Cli, words: tuple[str, ...]) -> None:
    outcome = cli(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err


# ---------------------------------------------------------------------------------------------------------- recall


def test_recall_prints_what_a_reader_needs_in_80_columns(cli: Cli, running: Any) -> None:
    outcome = cli("recall", "why", "--explain")
    assert outcome.code == 0
    for part in ("0.750", "claude-code", "tidepool", "2026-03-04", "/t/a.jsonl:3-9", "echo: why", "id d1", "A title"):
        assert part in outcome.out
    assert "0.7500 is the sum of\n    0.5000  meaning\n    0.2500  words\n" in outcome.out
    assert "matched words: echo" in outcome.out
    assert "1 file still to be mined" in outcome.out
    assert max(len(line) for line in outcome.out.splitlines()) <= 80
    assert "\x1b" not in outcome.out


def test_recall_passes_every_filter_on(cli: Cli, running: Any, palace: Any, utc: None) -> None:
    words = (
        "--project p --agent codex --session s --since 2026-03-01 --until 2026-03-02T00:00:00Z --limit 3 --max-chars 99"
        " --max-tokens 7 --neighbours 2 --by-session --no-fold"
    )
    outcome = cli("recall", "--json", *words.split(), "--now", "2026-03-04T10:00:00+02:00", "q")
    assert outcome.json["hits"][0]["text"] == "echo: q"
    (query,) = palace.queries
    assert (query.project, query.agent, query.session, query.limit, query.max_chars) == ("p", "codex", "s", 3, 99)
    assert (query.max_tokens, query.neighbours, query.by_session, query.fold) == (7, 2, True, False)
    assert (query.utc_offset_minutes, query.now) == (120, 1_772_611_200_000)
    assert (query.since, query.until) == (1_772_323_200_000, 1_772_409_600_000)


def test_recall_by_session_prints_the_hits_inside(cli: Cli, running: Any, utc: None) -> None:
    outcome = cli("recall", "again", "--by-session", "--neighbours", "1")
    expected = """\
 1  0.750  claude-code  tidepool
    A title
    2026-03-04 09:12 to 10:12
    session s1

    0.750  2026-03-04 09:12
      /t/a.jsonl:3-9
      -1  > What now?
          This.
      echo: again
      +1  Done.
      the same: 2026-03-04 09:12 (e2) and 1 more
      id d1

1 session, 1 of 3 drawers in scope, 1 with words of the question; 2 ms
"""
    assert outcome.out.startswith(expected)
    assert max(len(line) for line in outcome.out.splitlines()) <= 80


def test_recall_prints_what_stands_around_a_hit(cli: Cli, running: Any, utc: None) -> None:
    out = cli("recall", "again", "--neighbours", "1").out
    assert "    -1  > What now?\n        This.\n    echo: again\n    +1  Done.\n    the same: 2026-03-04" in out
    assert "the same" not in cli("recall", "again", "--no-fold").out


def test_get_prints_what_stands_around_an_exchange(cli: Cli, running: Any, utc: None) -> None:
    out = cli("get", "e1", "--neighbours", "2").out
    assert "\n-1  no date  id e0\n    > What\n    now?\n    This.\n\n> Why?\n\nBecause.\n" in out
    assert out.endswith("\n+1  1970-01-01 00:00  id e9\n    Done.\n")
    assert "e9" not in cli("get", "e1").out


def test_recall_sends_its_own_zone(cli: Cli, running: Any, palace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        cli("recall", "q")
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()
    assert palace.queries[0].utc_offset_minutes == 330


@pytest.mark.parametrize("words", [("",), (" ", "\t"), ("-",), (), ("--project", "p", "")])
def test_recall_without_a_question_is_a_wrong_command_line(
    cli: Cli, running: Any, palace: Any, words: tuple[str, ...]
) -> None:
    outcome = cli("recall", *words, stdin=b" \n")
    assert (outcome.code, outcome.out, palace.queries) == (2, "", [])
    assert 'recall needs a question (palace-daemon recall "what did we decide about' in outcome.err
    assert "`palace-daemon sessions` lists the newest" in outcome.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("recall", "--limit", "99999", "q"), "argument --limit: '99999' is no whole number from 1 to 1000"),
        (("recall", "--limit", "0", "q"), "argument --limit: '0' is no whole number from 1 to 1000"),
        (("recall", "--neighbours", "4", "q"), "argument --neighbours: '4' is no whole number from 0 to 3"),
        (("get", "--neighbours", "-1", "e1"), "argument --neighbours: '-1' is no whole number from 0 to 3"),
        (("sessions", "--limit", "1001"), "argument --limit: '1001' is no whole number from 1 to 1000"),
        (("notes", "--limit", "many"), "argument --limit: 'many' is no whole number from 1 to 1000"),
        (("forget", "--query", "q", "--limit", "1001"), "argument --limit: '1001' is no whole number from 1 to 1000"),
        (("get", ""), "palace-daemon: get needs the id of a hit or of an exchange (recall prints the ids"),
        (("get", " "), "palace-daemon: get needs the id of a hit or of an exchange (recall prints the ids"),
    ],
)
def test_a_value_out_of_range_is_answered_with_the_option_and_the_range(
    cli: Cli, running: Any, words: tuple[str, ...], message: str
) -> None:
    outcome = cli(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert "Expected" not in outcome.err


@pytest.mark.parametrize(
    "words", [("recall", "--limit", "1000", "--neighbours", "3", "q"), ("sessions", "--limit", "1000")]
)
def test_the_ends_of_a_range_are_within_it(cli: Cli, running: Any, words: tuple[str, ...]) -> None:
    assert cli(*words).code == 0


def test_recall_says_that_a_budget_ended_the_list(cli: Cli, running: Any) -> None:
    assert "\nthe budget ended the list; 4 further hits did not fit\n" in cli("recall", "cut").out
    assert cli("recall", "--json", "cut").json["isCut"] is True
    assert cli("recall", "--json", "q").json["isCut"] is False


def test_recall_names_projects_like_one_that_is_not_there(cli: Cli, running: Any) -> None:
    for words in ((), ("--json",)):
        outcome = cli("recall", "nothing", "--project", "TIDEPOOL", *words)
        assert (outcome.code, outcome.err) == (
            1,
            "palace-daemon: no project is called TIDEPOOL; near it: /w/tidepool\n",
        )
        assert "TIDEPOOL" not in outcome.out
    assert cli("recall", "nothing", "--project", "tidepool").err == ""


@pytest.mark.parametrize("words", [("recall", "-"), ("recall",)])
def test_recall_reads_the_question_from_standard_input(cli: Cli, running: Any, words: tuple[str, ...]) -> None:
    outcome = cli(*words, "--json", stdin="żółw\n\xff".encode() + b"\xff\n")
    assert outcome.json["hits"][0]["text"] == "echo: żółw\n\xff\ufffd"


def test_recall_errors_are_named_by_flag_and_end_with_2(cli: Cli, running: Any) -> None:
    bad_time = cli("recall", "q", "--since", "yesterday")
    assert bad_time.code == 2
    assert bad_time.err.startswith("palace-daemon: --since: Expected an ISO 8601 time")
    bad_agent = cli("recall", "q", "--agent", "nobody")
    assert (bad_agent.code, bad_agent.out) == (2, "")
    assert "known are claude-code, codex" in bad_agent.err


def test_a_transcript_cannot_send_commands_to_the_terminal(cli: Cli, running: Any) -> None:
    outcome = cli("recall", "\x1b]0;owned\x07\x1b[31mred \u202eevil")
    assert not set("\x1b\x07\u202e") & set(outcome.out)
    assert "\ufffd" in outcome.out


# ------------------------------------------------------------------------------------------------ the other readers


def test_get_shows_the_exchange_whole(cli: Cli, running: Any) -> None:
    outcome = cli("get", "e1")
    assert outcome.code == 0
    assert "> Why?" in outcome.out
    assert "Because." in outcome.out
    assert "/t/a.jsonl:3-9" in outcome.out
    missing = cli("get", "e9")
    assert (missing.code, missing.out) == (1, "")
    assert "no exchange" in missing.err


def test_projects_lists_them(cli: Cli, running: Any) -> None:
    listed = cli("projects").out
    assert "tidepool  2 sessions" in listed
    assert "codex, note" in listed
    assert "/w/tidepool" in listed
    assert cli("projects", "--json", "--limit", "7").json["projects"][0]["exchanges"] == 7
    empty = cli("projects", "--offset", "5")
    assert (empty.code, empty.out) == (1, "no projects\n")


def test_sessions_lists_and_shows_one(cli: Cli, running: Any) -> None:
    assert "A title" in cli("sessions").out
    assert "Because." in cli("sessions", "s1").out
    assert cli("sessions", "s9").code == 1
    assert (
        cli("sessions", "--json", "--since", "2026-03-01T00:00:00Z", "--limit", "7").json["sessions"][0]["exchanges"]
        == 7
    )
    empty = cli("sessions", "--offset", "5")
    assert (empty.code, empty.out) == (1, "no sessions\n")


def test_sources_and_status(cli: Cli, running: Any) -> None:
    assert "1 line skipped" in cli("sources", "--agent", "codex").out
    assert cli("sources", "--json").json["sources"][0]["path"] == "/t/a.jsonl"
    status = cli("status")
    assert status.code == 0
    assert "1 of 3" in status.out
    assert "1 directory of an agent that is not here yet" in status.out
    assert re.search(r"^redacted +1 jwt$", status.out, re.MULTILINE)
    assert cli("status", "--json").json["protocolVersion"] == 1


# ------------------------------------------------------------------------------------------------------------ mine


def test_mine_makes_paths_absolute_and_reports(
    cli: Cli, running: Any, palace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text("")
    outcome = cli("mine", "--wait", "a.jsonl")
    assert outcome.code == 0
    assert palace.mined == [((str(tmp_path / "a.jsonl"),), True, None)]
    for part in ("files", "2 mined, 0 failed", "4 new", "8 drawers a second", "1 line: torn"):
        assert part in outcome.out
    assert outcome.err == "", "no bar where there is no terminal"
    assert "in the background" in cli("mine", "a.jsonl").out
    assert cli("mine", "--json", "a.jsonl").json["linesSkipped"] == {"torn": 1}


def test_mine_ends_with_1_where_a_path_is_missing_or_a_file_failed(
    cli: Cli, running: Any, palace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for empty in ("", "  "):  # an unset variable of a script
        nothing = cli("mine", "--wait", "a.jsonl", empty)
        assert nothing.code == 2
        assert "a path is empty" in nothing.err
    missing = cli("mine", "--wait", "/does/not/exist")
    assert (missing.code, missing.out) == (1, "")
    assert "/does/not/exist" in missing.err
    mine = palace.mine
    failures = {"/t/b.jsonl": "cannot be read: permission denied"}
    monkeypatch.setattr(
        palace, "mine", lambda *args, **more: msgspec.structs.replace(mine(), files_failed=1, failures=failures)
    )
    failed = cli("mine", "--wait")
    assert failed.code == 1
    assert "/t/b.jsonl cannot be read: permission denied" in " ".join(failed.out.split())


# ---------------------------------------------------------------------------------------------------------- daemon


def test_stop_waits_until_the_daemon_is_gone_and_can_be_said_twice(cli: Cli, running: Any) -> None:
    # In a process of its own the daemon removes its socket when its loop has ended.
    remover = threading.Thread(target=lambda: (running.thread.join(), running.stop()))
    remover.start()
    assert cli("stop").out == "stopped\n"
    remover.join(10)
    again = cli("stop", "--json")
    assert (again.code, again.json) == (0, {"wasRunning": False})


def test_without_a_daemon_status_ends_with_3(cli: Cli) -> None:
    outcome = cli("status")
    assert (outcome.code, outcome.out) == (3, "")
    assert "no daemon is running" in outcome.err


def test_data_dir_may_stand_on_either_side_of_the_command(cli: Cli, running: Any, tmp_path: Path) -> None:
    home = os.environ["PALACE_HOME"]
    assert cli("--data-dir", home, "status").code == 0
    assert cli("status", "--data-dir", home).code == 0
    assert cli("--data-dir", str(tmp_path), "status").code == 3
    assert cli("status", "--data-dir", str(tmp_path)).code == 3


# ---------------------------------------------------------------------------------------------------------- config


def test_config_shows_origins_and_sets_values(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cli("config", "path").out.strip()
    assert cli("config", "set", "watch.agents_off", "codex,claude-code").code == 0
    monkeypatch.setenv("PALACE_RECALL_LIMIT", "4")
    rows = {row["name"]: row for row in cli("config", "show", "--json").json["settings"]}
    assert rows["watch.agents_off"] == {"name": "watch.agents_off", "value": ["codex", "claude-code"], "origin": "file"}
    assert rows["recall.limit"]["origin"] == "environment PALACE_RECALL_LIMIT"
    assert rows["chunk.max_chars"]["origin"] == "default"
    assert "agents_off" in Path(path).read_text()
    assert re.search(r"watch\.agents_off +codex, claude-code +file\n", cli("config", "show").out)


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        ('["secretproj"]', ["secretproj"]),
        ("[ 'a', \"b,c\" ]", ["a", "b,c"]),
        ('["[ab]*"]', ["[ab]*"]),
        ("[]", []),
        ("a, b", ["a", "b"]),
        ("src,[ab]*", ["src", "[ab]*"]),
        ("it's", ["it's"]),
        ("", []),
    ],
)
def test_a_list_may_be_written_as_in_toml_and_is_said_as_it_was_understood(
    cli: Cli, given: str, understood: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrote = cli("config", "set", "watch.ignore_projects", given)
    assert (wrote.code, f"watch.ignore_projects = {json.dumps(understood)} to" in wrote.out) == (0, True)
    assert cli("config", "set", "watch.ignore_projects", given, "--json").json["value"] == understood
    rows = {row["name"]: row["value"] for row in cli("config", "show", "--json").json["settings"]}
    assert rows["watch.ignore_projects"] == understood
    monkeypatch.setenv("PALACE_WATCH_IGNORE_PATHS", given)
    rows = {row["name"]: row["value"] for row in cli("config", "show", "--json").json["settings"]}
    assert rows["watch.ignore_paths"] == understood


@pytest.mark.parametrize("given", ["[secretproj]", "[ab]*", "[1]", "['a'", "[['a']]", "'a'", 'a,"b"'])
def test_what_only_looks_like_a_list_is_refused(cli: Cli, given: str) -> None:
    refused = cli("config", "set", "watch.ignore_projects", given)
    assert (refused.code, "watch.ignore_projects" in refused.err) == (2, True)
    rows = {row["name"]: row for row in cli("config", "show", "--json").json["settings"]}
    assert rows["watch.ignore_projects"]["origin"] == "default"


def test_config_refuses_what_it_does_not_know(cli: Cli) -> None:
    unknown = cli("config", "set", "watch.path", "x")
    assert unknown.code == 2
    assert "did you mean watch.paths" in unknown.err
    assert cli("config", "set", "recall.limit", "many").code == 2


# --------------------------------------------------------------------------------------------------------- streams


def test_output_that_is_closed_early_ends_quietly(running: Any) -> None:
    command = f'"{sys.executable}" -m palace_daemon recall size900000 --json | head -c 10'
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_do_no_harm(running: Any, redirection: str) -> None:
    command = f'"{sys.executable}" -m palace_daemon status {redirection}'
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


def test_a_terminal_without_unicode_still_gets_its_answer(running: Any) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "palace_daemon", "recall", "żółw 記憶"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"echo: ?" in done.stdout
    done = subprocess.run([*command, "--json"], capture_output=True, timeout=60, check=True, env=environment)
    assert json.loads(done.stdout)["hits"][0]["text"] == "echo: żółw 記憶"


def test_the_client_commands_import_nothing_heavy(running: Any) -> None:
    """``status`` and ``recall`` must start at once: no msgspec, numpy or pygls, no asyncio, no tqdm."""
    script = (
        "import sys; from palace_daemon.cli.main import run; code = run(sys.argv[1:]); "
        "heavy = {'msgspec', 'numpy', 'pygls', 'cattrs', 'asyncio', 'tqdm', 'onnxruntime', 'tempfile_', 'subprocess'}; "
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    for words in (["status"], ["recall", "q"], ["get", "e1"], ["sources"]):
        done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, timeout=60, check=True)
        assert done.stderr == b"[]\n", words
