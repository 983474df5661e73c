"""The files of the service managers, and what is done where none can be reached. systemd checks ours where it can."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from support import daemons as daemon_processes

from palace_daemon import places
from palace_daemon.cli import service, service_files
from palace_daemon.client import Client
from palace_daemon.errors import ConfigError
from palace_daemon.rpc import serve

Cli = Callable[..., Any]
COMMAND = ["/opt/my palace/bin/palace-daemon", "--data-dir", '/srv/100% "mine"/$HOME\\x', "serve"]
UNIT_PATH = Path(".config/systemd/user/palace-daemon.service")


def made(platform: str, command: list[str] | None = None, **environ: str) -> service_files.Service:
    return service_files.service_of(platform, command or COMMAND, environ, Path("/home/me"))


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ``systemctl`` that notes how it is called, and fails where ``fail`` names a word of the call."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "systemctl"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n'
        f'while read -r word; do case " $* " in *" $word "*) echo "Failed to connect to bus" >&2; exit 1;; esac; done'
        f" < {tmp_path}/fail\n"
    )
    program.chmod(0o755)
    (tmp_path / "fail").write_text("")
    (tmp_path / "calls").write_text("")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return tmp_path


def calls(manager: Path) -> list[str]:
    return (manager / "calls").read_text().splitlines()


# ----------------------------------------------------------------------------------------------------------- the files


def test_a_unit_quotes_what_systemd_would_read_otherwise() -> None:
    text = made("linux", PALACE_MODELS="/m/50%", HOME="/home/me", API_TOKEN="s3cret", XDG_CONFIG_HOME="/etc/me").text
    assert (
        'ExecStart="/opt/my palace/bin/palace-daemon" "--data-dir" "/srv/100%% \\"mine\\"/$$HOME\\\\x" "serve"\n'
        in text
    )
    assert 'Environment="PALACE_MODELS=/m/50%%"\n' in text
    assert "s3cret" not in text
    for line in ("Restart=on-failure", "IOSchedulingClass=idle", "Nice=5", "WantedBy=default.target"):
        assert f"{line}\n" in text
    assert f"RestartPreventExitStatus={serve.EXIT_LOCKED} {serve.EXIT_DATA_GONE}\n" in text
    assert made("linux", XDG_CONFIG_HOME="/etc/me").path == Path("/etc/me/systemd/user/palace-daemon.service")
    assert made("linux", XDG_CONFIG_HOME="odd").path == Path("/home/me") / UNIT_PATH


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
@pytest.mark.parametrize("name", ["plain", "with a space", "100%", "it's", 'q"q', "a$HOME", "back\\slash"])
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    program = folder / "palace-daemon"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = tmp_path / service_files.UNIT
    path.write_bytes(made("linux", [str(program), "--data-dir", '/a "b" $c', "serve"], PALACE_MODELS="/m m").content)
    checked = subprocess.run(
        ["systemd-analyze", "--user", "verify", "--man=no", str(path)], capture_output=True, text=True, check=False
    )
    if "Failed to" in checked.stderr and "palace" not in checked.stderr:
        pytest.skip(f"systemd-analyze does not work here: {checked.stderr.strip()}")
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_launchd_agent_reads_back_as_it_was_meant() -> None:
    agent = made("darwin", CODEX_HOME="/c & d")
    told = plistlib.loads(agent.content)
    assert told["ProgramArguments"] == COMMAND
    assert told["EnvironmentVariables"] == {"CODEX_HOME": "/c & d"}
    assert (told["RunAtLoad"], told["KeepAlive"], told["ProcessType"]) == (True, {"Crashed": True}, "Background")
    assert agent.path == Path("/home/me/Library/LaunchAgents") / f"{told['Label']}.plist"
    assert "EnvironmentVariables" not in plistlib.loads(made("darwin").content)


def test_a_windows_task_reads_back_as_it_was_meant() -> None:
    command = ["C:\\Program Files\\a & b\\palace-daemon.exe", "--data-dir", "C:\\my data", "serve"]
    task = made("win32", command, APPDATA="/roaming")
    assert task.path == Path("/roaming/palace/palace-task.xml")
    space = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"
    root = ET.fromstring(task.content)  # noqa: S314 - our own text
    found = {name: root.findtext(f".//{space}{name}") for name in ("Command", "Arguments", "Priority", "RunLevel")}
    assert found == {
        "Command": command[0],
        "Arguments": '--data-dir "C:\\my data" serve',
        "Priority": "8",
        "RunLevel": "LeastPrivilege",
    }
    assert not task.is_run_here
    assert task.on_install[0][:2] == ("schtasks", "/Create")


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(ConfigError, match="control characters"):
        made("linux", ["/bin/x", "a\nExecStartPre=/bin/evil"])
    with pytest.raises(ConfigError, match="no service manager"):
        made("sunos5")


# ------------------------------------------------------------------------------------------------------------ commands


def test_a_dry_run_prints_and_writes_nothing(cli: Cli, isolated_home: Path, manager: Path) -> None:
    outcome = cli("service", "install", "--dry-run")
    assert outcome.code == 0
    assert outcome.out.startswith("[Unit]\n")
    assert f'"{places.data_dir()}" "serve"' in outcome.out
    assert "would run: systemctl --user enable palace-daemon.service" in outcome.err
    assert not (isolated_home / UNIT_PATH).exists()
    assert cli("service", "remove", "--dry-run", "--json").json["text"] is None
    assert calls(manager) == []


def test_install_status_and_remove(cli: Cli, isolated_home: Path, manager: Path) -> None:
    unit = isolated_home / UNIT_PATH
    assert cli("service", "status").code == 1
    installed = cli("service", "install", "--json")
    assert (installed.code, installed.json["change"], installed.json["started"]) == (0, "wrote", True)
    assert calls(manager) == [
        "--user daemon-reload",
        "--user enable palace-daemon.service",
        "--user restart palace-daemon.service",
    ]
    assert cli("service", "install", "--json").json["change"] == "unchanged"
    status = cli("service", "status", "--json")
    assert (status.code, status.json["isCurrent"], status.json["isActive"]) == (0, True, True)
    assert cli("--data-dir", "/elsewhere", "service", "status", "--json").json["isCurrent"] is False
    wants = unit.parent / "default.target.wants" / unit.name
    wants.parent.mkdir()
    wants.symlink_to(unit)
    removed = cli("service", "remove")
    assert (removed.code, removed.out) == (0, "removed ~/.config/systemd/user/palace-daemon.service\n")
    assert not unit.exists()
    assert not wants.is_symlink()
    assert cli("service", "remove").out == "no service is installed\n"


def test_without_a_reachable_manager_the_file_is_there_and_the_rest_is_told(
    cli: Cli, isolated_home: Path, manager: Path, running: Any
) -> None:
    (manager / "fail").write_text("daemon-reload\n")
    outcome = cli("service", "install")
    assert outcome.code == 1
    assert (isolated_home / UNIT_PATH).exists()
    assert "Failed to connect to bus" in outcome.err
    assert "  systemctl --user daemon-reload\n  systemctl --user enable palace-daemon.service\n" in outcome.err
    assert running.thread.is_alive(), "nothing is stopped for a service that cannot take over"
    (manager / "fail").write_text("disable\n")
    left = cli("service", "remove", "--json")
    assert (left.code, left.json["left"][0][2]) == (1, "disable")
    assert not (isolated_home / UNIT_PATH).exists()


def test_the_service_takes_the_place_of_a_daemon_that_runs(
    cli: Cli, manager: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    with daemon_processes.started(tmp_path / "daemons", monkeypatch) as daemons:
        Client(timeout_s=30).connect_or_start().close()
        assert len(daemons.pids()) == 1
        assert cli("service", "install").code == 0
        wait_until(lambda: not daemons.pids())


def test_a_machine_without_a_manager_is_named(
    cli: Cli, isolated_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = cli("service", "install", "--json")
    assert outcome.code == 1
    assert outcome.json["reason"] == "there is no systemctl here"


def test_a_directory_that_cannot_be_written_is_told(cli: Cli, isolated_home: Path, manager: Path) -> None:
    (isolated_home / ".config").write_text("a file")
    outcome = cli("service", "install")
    assert outcome.code == 2
    assert "cannot write" in outcome.err


def test_only_the_service_of_this_very_data_directory_is_started(cli: Cli, manager: Path) -> None:
    service.start_if_installed(None)
    assert calls(manager) == []
    cli("service", "install")
    (manager / "calls").write_text("")
    service.start_if_installed("/elsewhere")
    assert calls(manager) == []
    service.start_if_installed(None)
    assert calls(manager) == ["--user restart palace-daemon.service"]


def test_the_service_runs_an_absolute_program() -> None:
    first = service.this_service(None, sys.platform).text.split("ExecStart=")[1].split('"')[1]
    assert Path(first).is_absolute()
