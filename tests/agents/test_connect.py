"""``connect`` on homes as people have them: what is theirs stays, what is ours comes and goes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palace_daemon.agents import jsonc, settings, settings_files
from palace_daemon.cli import connect_agent, main
from palace_daemon.errors import ConfigError

BACKUP = ".palace-backup"

CLAUDE = """\
{
  // what I allow
  "permissions": {"allow": ["Bash(npm run test:*)"]},
  "hooks": {
    "UserPromptSubmit": [
      {"hooks": [{"type": "command", "command": "~/bin/note"}]}, // mine
    ],
  },
  "model": "opus",
}
"""
CLAUDE_SERVERS = '{"numStartups":12,"mcpServers":{"files":{"command":"npx","args":["-y","files"]}},"projects":{}}'
CODEX = """\
# my Codex
model = "gpt-5.4"   # the usual

[mcp_servers.docs]
command = "docs-server"

[mcp_servers.docs.env]
KEY = "x"

[tui]
theme = "dark" """
OPENCODE = '{\n\t"$schema": "https://opencode.ai/config.json",\n\t"mcp": {},\n}'

FILES: dict[str, dict[str, str]] = {
    "claude": {".claude/settings.json": CLAUDE, ".claude.json": CLAUDE_SERVERS},
    "codex": {
        ".codex/config.toml": CODEX,
        ".codex/hooks.json": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}\n',
    },
    "cursor": {
        ".cursor/mcp.json": '{ "mcpServers": { } }',
        ".cursor/hooks.json": '{\n  "version": 1,\n  "hooks": {\n    "sessionStart": [{"command": "x"}]\n  }\n}\n',
    },
    "vscode": {".config/Code/User/mcp.json": '{\n\t"servers": {\n\t\t// none\n\t},\n\t"inputs": []\n}\n'},
    "gemini": {".gemini/settings.json": '{\n    "security": {"auth": {"selectedType": "oauth-personal"}}\n}'},
    "opencode": {".config/opencode/opencode.jsonc": OPENCODE},
}

Connect = Callable[..., int]

pytestmark = pytest.mark.usefixtures("linux")


def laid_out(home: Path, agent: str, change: Callable[[str], str] = lambda text: text) -> dict[Path, bytes]:
    """Write the files of an agent and return them."""
    made = {home / name: change(text).encode() for name, text in FILES[agent].items()}
    for path, data in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return made


def contents(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


def read(path: Path) -> Any:
    text = path.read_text(encoding="utf-8-sig")
    return tomllib.loads(text) if path.suffix == ".toml" else jsonc.parse(text).value


def server_of(home: Path, agent: str) -> Any:
    path, *keys = {
        "claude": (".claude.json", "mcpServers"),
        "codex": (".codex/config.toml", "mcp_servers"),
        "cursor": (".cursor/mcp.json", "mcpServers"),
        "vscode": (".config/Code/User/mcp.json", "servers"),
        "gemini": (".gemini/settings.json", "mcpServers"),
        "opencode": (".config/opencode/opencode.jsonc", "mcp"),
    }[agent]
    value = read(home / path)
    for key in (*keys, "palace"):
        value = value[key]
    return value


# -------------------------------------------------------------------------------------------------- there and back


VARIANTS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "with CRLF": lambda text: text.replace("\n", "\r\n"),
    "with a BOM": lambda text: "\ufeff" + text,
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("agent", settings.AGENTS)
def test_connecting_and_removing_gives_back_every_byte(
    isolated_home: Path, connect: Connect, agent: str, variant: str
) -> None:
    if agent == "codex" and variant == "with a BOM":
        variant = "as it is"  # TOML has none
    before = laid_out(isolated_home, agent, VARIANTS[variant])
    assert connect(agent) == 0
    connected = contents(isolated_home)
    assert all(connected[path] != data for path, data in before.items())
    assert all(connected[path.with_name(path.name + BACKUP)] == data for path, data in before.items())
    if variant == "with CRLF":
        assert all(b"\n" not in connected[path].replace(b"\r\n", b"") for path in before if b"\n" in before[path])
    assert server_of(isolated_home, agent)

    assert connect(agent) == 0
    assert contents(isolated_home) == connected, "a second time changes nothing"
    assert connect(agent, "--remove") == 0
    assert contents(isolated_home) == before
    assert connect(agent, "--remove") == 0
    assert contents(isolated_home) == before


@pytest.mark.parametrize("agent", settings.AGENTS)
def test_without_any_file_there_is_none_again_afterwards(isolated_home: Path, connect: Connect, agent: str) -> None:
    assert connect(agent, "--remove") == 0
    assert contents(isolated_home) == {}
    assert connect(agent) == 0
    made = contents(isolated_home)
    assert made
    assert not any(path.name.endswith(BACKUP) for path in made)
    assert all(path.stat().st_mode & 0o077 == 0 for path in made)
    assert connect(agent, "--remove") == 0
    assert contents(isolated_home) == {}


@pytest.mark.parametrize("agent", settings.AGENTS)
def test_what_others_changed_meanwhile_stays_when_ours_goes(isolated_home: Path, connect: Connect, agent: str) -> None:
    before = laid_out(isolated_home, agent)
    connect(agent)
    for path in before:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".toml":
            path.write_text(f"new = 1\n{text}\n[later]\nx = 2\n", encoding="utf-8")
        else:
            path.write_text(jsonc.put(text, ("later",), {"x": 2}), encoding="utf-8")
    connect(agent, "--remove")
    for path, data in before.items():
        was, now = read_bytes(path, data), read(path)
        assert now.pop("later") == {"x": 2}
        now.pop("new", None)
        assert without_empty(now) == without_empty(was)
        if path.suffix != ".toml":
            assert b"palace" not in path.read_bytes()


def read_bytes(path: Path, data: bytes) -> Any:
    return tomllib.loads(data.decode()) if path.suffix == ".toml" else jsonc.parse(data.decode()).value


def without_empty(value: dict[str, Any]) -> dict[str, Any]:
    return {key: inner for key, inner in value.items() if inner != {}}


def test_comments_of_a_toml_file_stay_when_only_ours_is_cut_out(isolated_home: Path, connect: Connect) -> None:
    laid_out(isolated_home, "codex")
    connect("codex")
    path = isolated_home / ".codex/config.toml"
    added = path.read_text(encoding="utf-8")
    assert added.startswith(CODEX), "nothing above was touched"
    path.write_text(added + "\n# below\n[later]\nx = 2\n", encoding="utf-8")
    connect("codex", "--remove")
    left = path.read_text(encoding="utf-8")
    assert "palace" not in left
    assert all(line in left for line in ('model = "gpt-5.4"   # the usual', "# my Codex", "# below", 'KEY = "x"'))


# ------------------------------------------------------------------------------------------------------ what is set


def test_the_commands_are_absolute_and_run(isolated_home: Path, connect: Connect) -> None:
    for agent in settings.AGENTS:
        laid_out(isolated_home, agent)
        connect(agent)
        server = server_of(isolated_home, agent)
        command = server["command"]
        words = command if isinstance(command, list) else [command, *server["args"]]
        assert os.path.isabs(words[0])
        assert words[-1] == "mcp"
    done = subprocess.run([*words[:-1], "--version"], capture_output=True, check=True, timeout=60)
    assert done.stdout.startswith(b"palace-daemon ")
    hooks = read(isolated_home / ".claude/settings.json")["hooks"]
    assert hooks["UserPromptSubmit"][0]["hooks"][0]["command"] == "~/bin/note"
    for name, event in (("SessionStart", "session-start"), ("UserPromptSubmit", "prompt-submit")):
        (run,) = hooks[name][-1]["hooks"]
        assert shlex.split(run["command"])[-4:] == ["hook", event, "--agent", "claude"]
    cursor = read(isolated_home / ".cursor/hooks.json")
    assert [len(cursor["hooks"][name]) for name in ("sessionStart", "beforeSubmitPrompt")] == [2, 1]


def test_a_data_directory_of_ones_own_is_named(isolated_home: Path, connect: Connect) -> None:
    connect("claude", "--data-dir", "/srv/my palace")
    assert server_of(isolated_home, "claude")["args"] == ["--data-dir", "/srv/my palace", "mcp"]
    (run,) = read(isolated_home / ".claude/settings.json")["hooks"]["SessionStart"][0]["hooks"]
    assert "--data-dir '/srv/my palace' hook" in run["command"]
    connect("claude", "--remove")
    assert contents(isolated_home) == {}, "removed, whatever it was called with"
    connect("claude", "--data-dir", "here")
    assert server_of(isolated_home, "claude")["args"] == ["--data-dir", os.path.abspath("here"), "mcp"]


def test_a_hook_that_was_moved_among_others_is_taken_out_alone(isolated_home: Path, connect: Connect) -> None:
    connect("claude")
    path = isolated_home / ".claude/settings.json"
    value = read(path)
    theirs = {"type": "command", "command": "mine"}
    value["hooks"]["UserPromptSubmit"][0]["hooks"].append(theirs)
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")
    mixed = path.read_bytes()
    connect("claude")
    assert path.read_bytes().count(b"hook prompt-submit") == 1, "it would run twice"
    assert read(path)["hooks"]["UserPromptSubmit"][0]["hooks"] == [theirs]
    path.write_bytes(mixed)
    connect("claude", "--remove")
    assert read(path) == {"hooks": {"UserPromptSubmit": [{"hooks": [theirs]}]}}


def test_a_command_of_which_ours_is_only_a_part_is_left_alone(isolated_home: Path, connect: Connect) -> None:
    connect("claude")
    path = isolated_home / ".claude/settings.json"
    text = path.read_text(encoding="utf-8")
    assert text.count('--agent claude"') == 2
    path.write_text(text.replace('--agent claude"', '--agent claude | tee ~/log"'), encoding="utf-8")
    edited = read(path)
    connect("claude")
    connect("claude", "--remove")
    assert read(path) == edited


def test_an_earlier_installation_is_replaced_where_it_stands(isolated_home: Path, connect: Connect) -> None:
    before = laid_out(isolated_home, "claude")
    connect("claude")
    for path in before:
        path.write_text(path.read_text().replace(os.path.dirname(sys.executable), "/old/bin"), encoding="utf-8")
    old = contents(isolated_home)
    connect("claude")
    assert server_of(isolated_home, "claude")["command"].startswith(os.path.dirname(sys.executable))
    assert len(read(isolated_home / ".claude/settings.json")["hooks"]["UserPromptSubmit"]) == 2
    kept = {path: data for path, data in contents(isolated_home).items() if path.name.endswith(BACKUP)}
    assert kept == {path: data for path, data in old.items() if path.name.endswith(BACKUP)}, "without ours, as before"


def test_project_scope_stays_in_the_working_tree(
    isolated_home: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = isolated_home / "repo" / "src"
    inside.mkdir(parents=True)
    (isolated_home / "repo" / ".git").write_text("gitdir: /elsewhere/.git/worktrees/repo\n")
    monkeypatch.chdir(inside)
    names = set()
    for agent in settings.AGENTS:
        assert connect(agent, "--scope", "project") == 0
        names |= {str(path.relative_to(isolated_home / "repo")) for path in contents(isolated_home / "repo")}
    assert names == {
        *(".git", ".mcp.json", ".claude/settings.local.json", ".codex/config.toml", ".codex/hooks.json"),
        *(".cursor/mcp.json", ".cursor/hooks.json", ".vscode/mcp.json", ".gemini/settings.json", "opencode.json"),
    }
    assert not (isolated_home / ".claude").exists()


def test_hooks_can_be_left_out(isolated_home: Path, connect: Connect) -> None:
    connect("claude", "--no-hooks")
    connect("cursor", "--no-hooks")
    assert {path.name for path in contents(isolated_home)} == {".claude.json", "mcp.json"}


def test_agents_places_follow_their_own_variables(
    isolated_home: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(isolated_home / name))
    for agent in settings.AGENTS:
        connect(agent)
    assert {str(path.relative_to(isolated_home)) for path in contents(isolated_home)} == {
        *("CLAUDE_CONFIG_DIR/.claude.json", "CLAUDE_CONFIG_DIR/settings.json"),
        *("CODEX_HOME/config.toml", "CODEX_HOME/hooks.json", "GEMINI_CLI_HOME/.gemini/settings.json"),
        *(".cursor/mcp.json", ".cursor/hooks.json"),
        *("XDG_CONFIG_HOME/Code/User/mcp.json", "XDG_CONFIG_HOME/opencode/opencode.json"),
    }


def test_vs_code_has_another_place_on_a_mac(
    isolated_home: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    connect("vscode")
    assert (isolated_home / "Library/Application Support/Code/User/mcp.json").exists()


# --------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("agent", "name", "data", "says"),
    [
        ("claude", ".claude/settings.json", b'{"hooks": {', "a key in double quotes at line 1"),
        ("claude", ".claude/settings.json", b"[]", "holds no object"),
        ("claude", ".claude/settings.json", b'{"hooks": []}', "hooks is no object"),
        ("claude", ".claude/settings.json", b'{"hooks": {"SessionStart": {}}}', "hooks.SessionStart is no array"),
        ("claude", ".claude.json", b'{"mcpServers": {"palace": {"command": "other"}}}', "something else at"),
        ("codex", ".codex/config.toml", b"model = \n", "cannot read"),
        ("codex", ".codex/config.toml", b'[mcp_servers.palace]\ncommand = "other"\n', "something else at"),
        ("codex", ".codex/config.toml", b'mcp_servers = { docs = { command = "x" } }\n', "safely"),
        ("codex", ".codex/config.toml", b"[mcp_servers.palace]\nsince = 2026-01-01\n", "something else at"),
        ("codex", ".codex/config.toml", b"a = " + b"[" * 5_000 + b"\n", "cannot read"),
        ("gemini", ".gemini/settings.json", '{"a": "é"}'.encode("utf-16"), "not UTF-8"),
    ],
)
def test_a_file_that_is_not_understood_is_left_alone(
    isolated_home: Path,
    connect: Connect,
    capsys: pytest.CaptureFixture[str],
    agent: str,
    name: str,
    data: bytes,
    says: str,
) -> None:
    path = isolated_home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    assert connect(agent) == 2
    told = capsys.readouterr().err
    assert says in told
    assert str(path) in told
    assert contents(isolated_home) == {path: data}, "no other file was written either"


def test_a_read_only_file_is_refused(isolated_home: Path, connect: Connect, capsys: pytest.CaptureFixture[str]) -> None:
    before = laid_out(isolated_home, "gemini")
    (path,) = before
    path.chmod(0o444)
    assert connect("gemini") == 2
    assert "is read-only" in capsys.readouterr().err
    assert contents(isolated_home) == before


@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
def test_no_file_is_changed_where_one_of_them_is_read_only(
    isolated_home: Path, connect: Connect, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    before = laid_out(isolated_home, "claude")
    (isolated_home / ".claude/settings.json").chmod(0o444)
    assert connect("claude", *flags) == 2
    assert "settings.json is read-only" in capsys.readouterr().err
    assert contents(isolated_home) == before


def test_what_another_program_writes_at_the_same_time_is_not_lost(isolated_home: Path) -> None:
    before = laid_out(isolated_home, "gemini")
    (path,) = before
    (file,) = settings.files_of("gemini", scope="user", cwd="/", command=settings.Command(["/x/palace-daemon"]))
    change = settings_files.planned(file, is_removal=False)
    path.write_text('{"newer": true}', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"was just changed by another program.*run this again"):
        change.write()
    assert contents(isolated_home) == {path: b'{"newer": true}'}


def test_links_are_written_through_and_modes_kept(isolated_home: Path, connect: Connect) -> None:
    before = laid_out(isolated_home, "claude")
    dotfiles = isolated_home / "dotfiles"
    dotfiles.mkdir()
    for path in before:
        real = dotfiles / path.name
        path.rename(real)
        real.chmod(0o640)
        path.symlink_to(real)
    connect("claude")
    assert all(path.is_symlink() for path in before)
    assert all((dotfiles / path.name).stat().st_mode & 0o777 == 0o640 for path in before)
    assert server_of(isolated_home, "claude")
    assert sorted(path.name for path in dotfiles.iterdir()) == [".claude.json", "settings.json"]
    connect("claude", "--remove")
    assert {path: path.read_bytes() for path in before} == before
    assert all(path.is_symlink() for path in before)


def test_a_dry_run_shows_and_changes_nothing(
    isolated_home: Path, connect: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    before = laid_out(isolated_home, "claude")
    assert connect("claude", "--dry-run") == 0
    out = capsys.readouterr().out
    assert contents(isolated_home) == before
    assert "would change ~/.claude/settings.json" in out
    added = [line for line in out.splitlines() if line.startswith("+")]
    assert any("hook session-start --agent claude" in line for line in added)
    assert sum(line.startswith("-") for line in out.splitlines()) == 3, "two heads, and the one-line file"
    assert connect("claude", "--json", "--dry-run") == 0
    (servers, hooks) = json.loads(capsys.readouterr().out)["files"]
    assert servers["change"] == hooks["change"] == "changed"
    assert contents(isolated_home) == before


def test_a_program_is_told_what_to_do_next(connect: Connect, capsys: pytest.CaptureFixture[str]) -> None:
    assert connect("gemini", "--json") == 0
    assert "restart Gemini CLI" in json.loads(capsys.readouterr().out)["advice"][0]
    assert connect("gemini", "--remove", "--json") == 0
    assert json.loads(capsys.readouterr().out)["advice"] == []


def test_the_list_says_who_is_here_and_who_is_connected(
    isolated_home: Path, connect: Connect, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(isolated_home))

    def listed() -> dict[str, tuple[bool, str]]:
        capsys.readouterr()
        assert main.run(["connect", "--list", "--json"]) == 0
        return {one["agent"]: (one["isFound"], one["state"]) for one in json.loads(capsys.readouterr().out)["agents"]}

    assert listed() == dict.fromkeys(settings.AGENTS, (False, "absent"))
    before = {**laid_out(isolated_home, "claude"), **laid_out(isolated_home, "cursor")}
    assert listed()["claude"] == listed()["cursor"] == (True, "absent")
    assert contents(isolated_home) == before
    connect("claude")
    connect("cursor", "--no-hooks")
    (isolated_home / "gemini").write_text("#!/bin/sh\n")
    (isolated_home / "gemini").chmod(0o755)
    (isolated_home / ".codex").mkdir()
    (isolated_home / ".codex" / "config.toml").write_text("[[")
    found = listed()
    assert found["claude"] == (True, "connected")
    assert found["cursor"] == (True, "differs"), "the hooks are missing"
    assert found["gemini"] == (True, "absent"), "its program is on the path"
    assert found["codex"] == (True, "unclear")
    assert found["opencode"] == (False, "absent")
    assert main.run(["connect", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "claude    connected"
    assert lines[1].startswith("codex     unclear: cannot read")
    assert lines[-1] == "opencode  not connected, not found on this machine"


def test_an_agent_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["connect"]) == 2
    assert "connect needs an agent" in capsys.readouterr().err


def test_the_command_line_knows_all_agents() -> None:
    assert connect_agent.AGENTS == settings.AGENTS


def test_a_hook_beside_others_in_one_group_is_not_ours_to_take() -> None:
    ours = {"type": "command", "command": "/x/palace-daemon hook session-start --agent claude"}
    assert settings.is_our_hook({"hooks": [ours]})
    assert not settings.is_our_hook({"hooks": [ours, {"type": "command", "command": "mine"}]})
    assert not settings.is_our_hook({"hooks": []})
    assert not settings.is_our_hook("palace-daemon hook session-start")


def test_our_own_command_is_never_run_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "palace-daemon"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert settings.own_command(str(script)) == [str(script)]
    monkeypatch.setattr(sys, "executable", str(tmp_path / "elsewhere" / "python"))
    assert settings.own_command("/x/__main__.py") == [sys.executable, "-P", "-m", "palace_daemon"]
