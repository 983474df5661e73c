"""``uninstall``: all that is ours goes, what is not stays, and the data only when asked twice."""

from __future__ import annotations

import io
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import daemons as daemon_processes

from palace_daemon import places
from palace_daemon.cli import main
from palace_daemon.client import Client
from palace_daemon.rpc import endpoint

Cli = Callable[..., Any]
FOREIGN = "notes of my own"


class Terminal(io.StringIO):
    """Standard input with a person at it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def machine(isolated_home: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Path:
    """A home in which everything of Palace is, with something of another's beside each."""
    monkeypatch.chdir(isolated_home)
    models = isolated_home / "models"
    monkeypatch.setenv("PALACE_MODELS", str(models))
    monkeypatch.setenv("PATH", "/nonexistent")
    data = places.data_dir()
    for path in (
        models / "all-minilm-l6-v2-int8" / "model.onnx",
        models / "downloads" / "a.whl",
        models / "of-mine" / FOREIGN,
        isolated_home / ".cache" / "palace" / "bench" / "vectors",
        places.log_file(data),
        places.log_dir() / FOREIGN,
        data / "palace.db",
        data / "palace.db-wal",
        data / "backups" / "one.db",
        data / FOREIGN,
        isolated_home / ".claude" / "projects" / "p" / "s1.jsonl",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * 10)
    places.config_file().write_text("[recall]\nlimit = 5\n")
    (isolated_home / ".cursor").mkdir()
    (isolated_home / ".cursor" / "mcp.json").write_text('{"mcpServers": {"other": {"command": "x"}}}\n')
    for agent in ("claude", "cursor"):
        assert cli("connect", agent).code == 0
    assert cli("service", "install").code == 1
    return isolated_home


def everything(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*") if not path.is_dir()}


DATA = {"palace/palace.db", "palace/palace.db-wal", "palace/backups/one.db", "palace.toml"}
KEPT = {
    f"models/of-mine/{FOREIGN}",
    f".local/state/palace/{FOREIGN}",
    f"palace/{FOREIGN}",
    ".claude/projects/p/s1.jsonl",
    ".cursor/mcp.json",
}


def test_a_dry_run_lists_with_sizes_and_touches_nothing(cli: Cli, machine: Path) -> None:
    before = everything(machine)
    outcome = cli("uninstall", "--dry-run")
    assert everything(machine) == before
    assert outcome.code == 0
    for words in ("settings ", "service ", "model  ", "bench cache ", "log  ", "data  ", "10 B"):
        assert words in outcome.out
    listed = cli("uninstall", "--dry-run", "--data", "--json").json
    assert {str(Path(one["path"]).relative_to(machine)) for one in listed["files"] if one["kind"] == "data"} == {
        "palace/palace.db",
        "palace/palace.db-wal",
        "palace/backups",
        "palace.toml",
    }
    assert {one["sizeBytes"] for one in listed["files"] if one["kind"] == "log"} == {10}
    assert everything(machine) == before


def test_yes_removes_all_but_the_data_and_what_is_not_ours(cli: Cli, machine: Path) -> None:
    outcome = cli("uninstall", "--yes")
    assert everything(machine) == KEPT | DATA
    assert "palace" not in (machine / ".cursor" / "mcp.json").read_text()
    assert "the data stays" in outcome.out
    assert "systemctl --user disable" in outcome.err, "which could not be reached"
    assert outcome.code == 1


def test_data_and_yes_remove_the_data_too(cli: Cli, machine: Path) -> None:
    cli("uninstall", "--data", "--yes", "--json")
    assert everything(machine) == KEPT
    again = cli("uninstall", "--data", "--yes")
    assert (again.code, "there is nothing to remove" in again.out) == (0, True)


@pytest.mark.parametrize(
    ("words", "answers", "left"),
    [
        ((), "n\n", None),
        ((), "", None),
        ((), "y\nn\n", KEPT | DATA),
        ((), "y\ny\nn\n", KEPT | DATA),
        ((), "y\ny\ny\n", KEPT),
        (("--data",), "y\nn\n", KEPT | DATA),
        (("--data",), "y\nyes\n", KEPT),
    ],
)
def test_the_data_goes_after_two_questions(
    machine: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], answers: str, left: set[str] | None
) -> None:
    before = everything(machine)
    monkeypatch.setattr(sys, "stdin", Terminal(answers))
    main.run(["uninstall", *words])
    assert everything(machine) == (before if left is None else left)


def test_without_a_terminal_nothing_is_asked_and_nothing_goes(cli: Cli, machine: Path) -> None:
    before = everything(machine)
    outcome = cli("uninstall", stdin=b"y\ny\ny\n")
    assert (outcome.code, everything(machine)) == (1, before)
    assert "--yes" in outcome.err
    assert cli("uninstall", "--json").code == 2


def test_a_link_is_removed_and_not_followed(cli: Cli, machine: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("x")
    (places.data_dir() / "backups" / "one.db").unlink()
    (places.data_dir() / "backups").rmdir()
    (places.data_dir() / "backups").symlink_to(tmp_path / "precious")
    cli("uninstall", "--data", "--yes")
    assert (tmp_path / "precious" / "file").exists()
    assert not (places.data_dir() / "backups").is_symlink()


def test_the_daemon_is_stopped_first_and_that_of_another_directory_is_left(
    cli: Cli, machine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    other = places.socket_path(tmp_path / "other")
    listener = endpoint.listen(other)
    stale = other.with_name("0123456789abcdef.sock")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(stale))
    with daemon_processes.started(tmp_path / "daemons", monkeypatch) as daemons:
        (places.data_dir() / "palace.db").unlink()
        (places.data_dir() / "palace.db-wal").unlink()
        Client(timeout_s=30).connect_or_start().close()
        assert len(daemons.pids()) == 1
        outcome = cli("uninstall", "--yes")
        wait_until(lambda: not daemons.pids())
    assert "another data directory" in outcome.err
    assert other.exists()
    assert not stale.exists()
    endpoint.remove_socket(other, listener)


def test_what_the_daemon_of_another_directory_uses_stays(cli: Cli, machine: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    log = places.log_file(other)
    log.write_text("x")
    token = places.tcp_file(other)
    listener = endpoint.listen(places.socket_path(other))
    token.write_text("{}")
    try:
        outcome = cli("uninstall", "--yes")
    finally:
        endpoint.remove_socket(places.socket_path(other), listener)
    assert outcome.code == 1
    assert log.exists()
    assert token.exists()
    assert (machine / "models" / "all-minilm-l6-v2-int8" / "model.onnx").exists()
    assert not places.log_file(places.data_dir()).exists()
    assert cli("uninstall", "--yes").code == 0
    assert not log.exists()
    assert not token.exists()
    assert not (machine / "models" / "all-minilm-l6-v2-int8").exists()


def test_a_daemon_on_a_port_alone_keeps_what_it_uses(cli: Cli, machine: Path, tmp_path: Path) -> None:
    token = places.tcp_file(tmp_path / "other")
    endpoint.make_socket_dir(token.parent)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        token.write_text(f'{{"port": {listener.getsockname()[1]}}}')
        assert cli("uninstall", "--yes").code == 1
        assert token.exists()
    assert cli("uninstall", "--yes").code == 0
    assert not token.exists()


def test_no_data_goes_from_under_a_process_that_holds_it(cli: Cli, machine: Path) -> None:
    with endpoint.DataLock(places.data_dir()):
        outcome = cli("uninstall", "--data", "--yes")
        assert outcome.code == 3
        assert "daemon.lock" in outcome.err
    assert (places.data_dir() / "palace.db").exists()
    assert (machine / "models" / "all-minilm-l6-v2-int8").exists()


def test_settings_that_cannot_be_understood_stay_and_are_named(cli: Cli, machine: Path) -> None:
    path = machine / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text("{ not json")
    outcome = cli("uninstall", "--yes")
    assert outcome.code == 1
    assert str(path) in outcome.err.replace("\n", "")
    assert path.read_text() == "{ not json"
