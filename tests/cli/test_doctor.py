from __future__ import annotations

import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, turn
from support.damage import execute, overwrite, root_of

from palace_daemon import config, places
from palace_daemon.cli import doctor_places
from palace_daemon.client import Client
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.rpc.endpoint import DataLock
from palace_daemon.service import diagnosis
from palace_daemon.service.build import build
from palace_daemon.store import backups, sqlite
from palace_daemon.watch.scripted import ScriptedNotifier

Cli = Callable[..., Any]


@pytest.fixture
def data(isolated_home: Path) -> Path:
    """The data directory of the settings, with a store of one transcript in a default directory."""
    transcript = isolated_home / ".claude" / "projects" / "tides" / "one.jsonl"
    transcript.parent.mkdir(parents=True)
    append(transcript, "".join(turn(number, f"Question {number}?", "On tides. " * 20) for number in range(5)))
    settings, _ = config.load()
    opened = build(settings, embedder=HashingEmbedder(), notifier=ScriptedNotifier(), clock=lambda: 0)
    opened.mine([str(transcript)], wait=True)
    opened.close()
    return settings.data_dir


def checks(outcome: Any) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in outcome.json["checks"]}


def repairs(outcome: Any) -> dict[str, int]:
    return {repair["what"]: repair["count"] for repair in outcome.json["repairs"] if repair["done"]}


def test_it_says_what_a_person_who_helps_would_ask_for(cli: Cli, data: Path) -> None:
    found = checks(cli("doctor", "--json"))
    assert set(found) >= {
        *("palace-daemon", "python", "numpy", "onnxruntime", "tokenizers", "sqlite"),
        *("data", "data files", "socket directory", "logs", "settings file", "models", "disk"),
        *("model", "arithmetic", "daemon", "database", "schema", "database pages", "references"),
        *("drawers", "vectors", "vector values", "word index", "vector sample", "forgotten texts", "transcripts"),
        "watched",
    }
    wrong = {name for name, check in found.items() if check["level"] != "ok"}
    assert wrong <= {"model", "disk", "inotify", "arithmetic"}, "these are the machine's"
    assert {check["level"] for check in found.values()} <= {"ok", "warn", "fail"}
    assert all(check["advice"] for check in found.values() if check["level"] != "ok")


def test_each_line_of_the_text_has_its_level_and_what_to_do(cli: Cli, data: Path) -> None:
    execute(sqlite.database_path(data), "DROP INDEX vectors_generation")
    outcome = cli("doctor")
    assert outcome.code == 1
    lines = outcome.out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("fail schema"))
    assert "lacks index vectors_generation" in lines[at]
    assert "-> run `palace-daemon doctor --fix`" in lines[at + 1]
    assert any(line.startswith("ok   database pages") for line in lines)
    assert any("embed.model" in line and "default" in line for line in lines)


def test_without_fix_nothing_is_changed(cli: Cli, data: Path) -> None:
    path = sqlite.database_path(data)
    overwrite(path, root_of(path, "postings"))
    before = path.read_bytes()
    assert cli("doctor", "--json").code == 1
    assert path.read_bytes() == before
    assert backups.damaged(path) == []


def test_fix_makes_files_private(cli: Cli, data: Path) -> None:
    path = sqlite.database_path(data)
    path.chmod(0o644)
    data.chmod(0o755)
    found = checks(cli("doctor", "--json"))
    assert (found["data"]["level"], found["data files"]["level"]) == ("fail", "fail")
    outcome = cli("doctor", "--fix", "--json")
    assert repairs(outcome)["files and directories made private"] >= 2
    assert (checks(outcome)["data"]["level"], checks(outcome)["data files"]["level"]) == ("ok", "ok")
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(data.stat().st_mode)) == (0o600, 0o700)


def test_fix_follows_no_link_out_of_the_data_directory(cli: Cli, data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("somebody's")
    other.chmod(0o644)
    (data / "palace.db-link").symlink_to(other)
    cli("doctor", "--fix", "--json")
    assert stat.S_IMODE(other.stat().st_mode) == 0o644


def test_fix_removes_what_a_dead_daemon_left(cli: Cli, data: Path) -> None:
    path = places.socket_path(data)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))
    assert checks(cli("doctor", "--json"))["socket"]["level"] == "warn"
    assert repairs(cli("doctor", "--fix", "--json")) == {"sockets and port files of a dead daemon removed": 1}
    assert not path.exists()


def test_fix_repairs_a_damaged_database_and_says_it_in_counts(cli: Cli, data: Path) -> None:
    path = sqlite.database_path(data)
    overwrite(path, 1, size=100)
    outcome = cli("doctor", "--fix", "--json")
    (kept,) = backups.damaged(path)
    done = repairs(outcome)
    assert done[f"damaged database kept as {kept.name}"] == 1
    assert done["exchanges read from it"] == 5
    assert done["transcripts to be read anew"] == 1
    found = checks(outcome)
    assert {found[name]["level"] for name in ("database", "schema", "database pages", "drawers", "word index")} == {
        "ok"
    }
    assert found["damaged files"]["level"] == "warn"
    assert (
        "exchanges read from it" in cli("doctor", "--fix").out or cli("doctor", "--fix", "--json").json["repairs"] == []
    )


def test_fix_leaves_a_directory_that_another_process_holds(cli: Cli, data: Path) -> None:
    path = sqlite.database_path(data)
    execute(path, "DROP INDEX vectors_generation")
    with DataLock(data):
        outcome = cli("doctor", "--fix", "--json")
    (left,) = [repair for repair in outcome.json["repairs"] if not repair["done"]]
    assert "another daemon serves" in left["what"]
    assert checks(outcome)["schema"]["level"] == "fail"
    assert outcome.code == 1


def test_settings_that_cannot_be_read_are_a_finding(cli: Cli, data: Path) -> None:
    places.config_file().write_text("[embed]\nmodle = 'x'\n")
    outcome = cli("doctor", "--json")
    assert outcome.code == 1
    assert checks(outcome)["settings"]["level"] == "fail"
    assert "modle" in checks(outcome)["settings"]["detail"]
    assert checks(outcome)["database"]["level"] == "ok"


@pytest.mark.model
@pytest.mark.timeout(120)
def test_fix_stops_a_running_daemon_for_as_long_as_it_repairs(cli: Cli, data: Path) -> None:
    client = Client(data).connect_or_start()
    first = client.request("palace/status")["pid"]
    client.close()
    try:
        assert repairs(cli("doctor", "--fix", "--json")) == {}, "it goes on where nothing is wrong"
        execute(sqlite.database_path(data), "DELETE FROM postings")
        outcome = cli("doctor", "--fix", "--json")
        done = repairs(outcome)
        assert (done["daemon stopped"], done["daemon started again"]) == (1, 1)
        assert done["exchanges cut and indexed anew"] == 5
        assert checks(outcome)["word index"]["level"] == "ok"
        with Client(data) as again:
            assert again.request("palace/status")["pid"] != first
    finally:
        cli("stop")


def test_watches_are_counted_from_what_the_kernel_says(tmp_path: Path) -> None:
    for process, text in (
        ("12", "inotify wd:1 ino:2\ninotify wd:2 ino:3\n"),
        ("13", "pos: 0\n"),
        ("self", "inotify wd:1"),
    ):
        (tmp_path / process / "fdinfo").mkdir(parents=True)
        (tmp_path / process / "fdinfo" / "7").write_text(text)
    assert doctor_places.inotify_watches(tmp_path) == 2


def test_little_room_is_said(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, _ = config.load()
    levels = []
    for free in (1 << 20, 500 << 20, 1 << 40):
        monkeypatch.setattr(shutil, "disk_usage", lambda _path, free=free: type("Usage", (), {"free": free})())
        levels += [finding.level for finding in doctor_places.paths(settings) if finding.name == "disk"]
    assert levels == ["fail", "warn", "ok"]


@pytest.mark.model
def test_stored_vectors_are_compared_with_what_the_model_makes(data: Path, wait_until: Callable[..., None]) -> None:
    settings, _ = config.load()
    opened = build(settings, notifier=ScriptedNotifier(), clock=lambda: 0)
    opened.mine(wait=True)
    wait_until(lambda: not opened.embedding().is_switching and opened.status().vectors_pending == 0)
    opened.close()
    sample = next(one for one in diagnosis.check(settings) if one.name == "vector sample")
    assert (sample.level, sample.detail) == ("ok", "5 texts embedded again have the same vectors")
    one = "SELECT vector FROM vectors v WHERE v.space=vectors.space ORDER BY v.id LIMIT 1"
    execute(sqlite.database_path(data), f"UPDATE vectors SET vector=({one})")
    sample = next(one for one in diagnosis.check(settings) if one.name == "vector sample")
    assert sample.level == "fail"
