"""``connect`` and what may lie in its way: layouts that nobody expects, files that are none, an installation moved."""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tomlkit
from agents.test_connect import BACKUP, FILES, Connect, contents, laid_out, server_of
from tomlkit.exceptions import TOMLKitError

from palace_daemon.agents import jsonc, settings, settings_files
from palace_daemon.cli import main
from palace_daemon.errors import ConfigError

pytestmark = pytest.mark.usefixtures("linux")

REMARK_BEFORE_THE_END = '{\n  "permissions": {} /* none yet */} /* end */\n'


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# ---------------------------------------------------------------------------------------------------------- layouts


def test_a_remark_before_the_end_of_the_file_is_no_hindrance(isolated_home: Path, connect: Connect) -> None:
    path = written(isolated_home / ".claude/settings.json", REMARK_BEFORE_THE_END)
    assert connect("claude") == 0
    path.with_name(path.name + BACKUP).unlink()
    assert connect("claude", "--remove") == 0
    assert path.read_text(encoding="utf-8") == REMARK_BEFORE_THE_END


def test_another_server_on_the_line_of_ours_stays(isolated_home: Path, connect: Connect) -> None:
    ours = '"palace": {"command": "/opt/palace-daemon", "args": ["mcp"]}'
    theirs = '/* memory */ "other": {"command": "x"} /* keep */'
    path = written(isolated_home / ".gemini/settings.json", f'{{\n  "mcpServers": {{\n    {ours}, {theirs}\n  }}\n}}\n')
    assert connect("gemini", "--remove") == 0
    assert path.read_text(encoding="utf-8") == f'{{\n  "mcpServers": {{\n     {theirs}\n  }}\n}}\n'


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_an_edit_that_comes_to_nothing_sound_is_a_refusal(monkeypatch: pytest.MonkeyPatch, agent: str) -> None:
    """No layout is known that leads there; one that is found some day must not end in a traceback."""
    file = settings.files_of(agent, scope="user", cwd="/", command=settings.Command(["/x/palace-daemon"]))[0]
    before = "" if file.is_toml else "{}"
    connected = settings_files._with_ours(file, before)
    Path(file.path).parent.mkdir(parents=True, exist_ok=True)
    Path(file.path).write_text(f"{connected}\n# mine\n" if file.is_toml else f"{connected} // mine\n")
    monkeypatch.setattr(settings_files, "_toml_cut", lambda _text, _path: "[[")
    monkeypatch.setattr(tomlkit, "parse", broken)
    monkeypatch.setattr(jsonc, "_without", lambda *_given: "{")
    with pytest.raises(ConfigError, match="cannot change"):
        settings_files.planned(file, is_removal=True)


def broken(_text: str) -> object:
    raise TOMLKitError("not understood")


# ----------------------------------------------------------------------------------------------- files that are none


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", [a_pipe, a_link_to_a_device, Path.mkdir])
@pytest.mark.parametrize("name", ["settings.json", f"settings.json{BACKUP}"])
def test_what_is_no_file_is_not_read(
    isolated_home: Path, connect: Connect, capsys: pytest.CaptureFixture[str], make: Callable[[Path], None], name: str
) -> None:
    path = isolated_home / ".gemini" / name
    path.parent.mkdir()
    flags = []
    if name.endswith(BACKUP):
        connect("gemini")
        flags = ["--remove"]
    make(path)
    before = contents(isolated_home)
    assert connect("gemini", *flags) == 2
    assert f"cannot read {path}: it is no regular file" in capsys.readouterr().err
    assert contents(isolated_home) == before
    assert main.run(["connect", "--list"]) == 0
    if not flags:
        assert "gemini    unclear: cannot read" in capsys.readouterr().out


# --------------------------------------------------------------------------------------- an installation that moved


@pytest.mark.parametrize("agent", settings.AGENTS)
def test_the_bytes_come_back_also_after_the_data_directory_has_moved(
    isolated_home: Path, connect: Connect, agent: str
) -> None:
    before = laid_out(isolated_home, agent)
    assert connect(agent, "--data-dir", "/srv/old") == 0
    assert connect(agent, "--data-dir", "/srv/new") == 0
    assert "/srv/new" in json.dumps(server_of(isolated_home, agent))
    assert connect(agent, "--remove") == 0
    assert contents(isolated_home) == before


@pytest.mark.parametrize("agent", settings.AGENTS)
def test_the_bytes_come_back_also_from_another_installation(isolated_home: Path, connect: Connect, agent: str) -> None:
    before = laid_out(isolated_home, agent)
    connect(agent)
    for path in before:
        path.write_text(path.read_text().replace(os.path.dirname(sys.executable), "/old/bin"), encoding="utf-8")
    assert connect(agent, "--remove") == 0
    assert contents(isolated_home) == before


def test_what_others_changed_is_not_undone_with_a_moved_installation(isolated_home: Path, connect: Connect) -> None:
    (path,) = laid_out(isolated_home, "gemini")
    connect("gemini", "--data-dir", "/srv/old")
    changed = FILES["gemini"][".gemini/settings.json"].replace("oauth-personal", "api-key")
    path.write_text(path.read_text().replace("oauth-personal", "api-key"), encoding="utf-8")
    connect("gemini", "--data-dir", "/srv/new")
    assert connect("gemini", "--remove") == 0
    assert contents(isolated_home) == {path: changed.encode()}


# --------------------------------------------------------------------------------------------------------- the work


@pytest.mark.parametrize("is_removal", [False, True])
def test_each_text_is_read_once(isolated_home: Path, monkeypatch: pytest.MonkeyPatch, is_removal: bool) -> None:
    """These files hold megabytes, of which reading takes seconds."""
    path = written(isolated_home / ".claude.json", '{"mcpServers": {"files": {"command": "npx"}}, "projects": {}}')
    (file, _hooks) = settings.files_of("claude", scope="user", cwd="/", command=settings.Command(["/x/palace-daemon"]))
    if is_removal:
        settings_files.planned(file, is_removal=False).write()
    texts: list[str] = []
    begin = jsonc._Reader.value

    def noted(reader: jsonc._Reader, at: int, depth: int) -> jsonc.Node:
        if depth == 0:
            texts.append(reader._text)
        return begin(reader, at, depth)

    monkeypatch.setattr(jsonc._Reader, "value", noted)
    jsonc.parse.cache_clear()
    change = settings_files.planned(file, is_removal=is_removal)
    assert sorted(texts) == sorted({(change.before or b"").decode(), (change.after or b"").decode()})
    assert not change.is_nothing
    assert path.read_bytes() == change.before


def test_what_is_read_is_not_changed_by_the_checks(isolated_home: Path, connect: Connect) -> None:
    connect("claude")
    path = isolated_home / ".claude/settings.json"
    text = path.read_text(encoding="utf-8")
    value = json.loads(text)
    value["hooks"]["UserPromptSubmit"][0]["hooks"].append({"type": "command", "command": "mine"})
    path.write_text(mixed := json.dumps(value), encoding="utf-8")
    file = settings.files_of("claude", scope="user", cwd="/", command=settings.Command(["/x/palace-daemon"]))[1]
    settings_files.planned(file, is_removal=True)
    settings_files.planned(file, is_removal=False)
    assert jsonc.parse(mixed).value == value


@pytest.mark.parametrize("lines", [0, 1, 3, 4, 40])
@pytest.mark.parametrize("is_removal", [False, True])
def test_a_diff_is_that_of_the_whole_file(lines: int, is_removal: bool) -> None:
    above, below = (f"  // {{}}\n{word}\n" * lines for word in ("/* above */", "/* below */"))
    before = f'{{\n{above}  "b": 1,\n  "c": 2\n{below}}}\n'
    after = f'{{\n{above}  "b": 1,\n  "new": 3,\n  "c": 4\n{below}}}\n'
    sides = (after, before) if is_removal else (before, after)
    change = settings_files.Change("x", sides[0].encode(), sides[1].encode(), is_removal, is_backup_due=False)
    whole = difflib.unified_diff(sides[0].splitlines(), sides[1].splitlines(), "x", "x", lineterm="")
    assert change.diff().splitlines() == list(whole)
    assert change._replace(after=change.before).diff() == ""


def test_a_diff_of_very_many_lines_is_shown(isolated_home: Path) -> None:
    (file,) = settings.files_of("gemini", scope="user", cwd="/", command=settings.Command(["/x/palace-daemon"]))
    written(
        Path(file.path), json.dumps({"a": [{"b": [], "c": {"d": number % 9}} for number in range(9_000)]}, indent=1)
    )
    assert sum(line.startswith("+") for line in settings_files.planned(file, is_removal=False).diff().splitlines()) > 7
