"""What the extension and the daemon must agree on, and the extension's own pages with its code."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import palace_daemon

ROOT = Path(__file__).resolve().parents[1]
EXTENSION = ROOT / "client-vscode"
MANIFEST: dict[str, Any] = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
CONTRIBUTED: dict[str, Any] = MANIFEST["contributes"]
README = (EXTENSION / "README.md").read_text(encoding="utf-8")
INTERNAL = {"palace.moreSessions"}
"""Commands that only rows of our own views run, with arguments that nobody could type."""


def sources() -> Iterator[Path]:
    return (EXTENSION / "src").rglob("*.ts")


def code() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sources())


def commands() -> dict[str, dict[str, Any]]:
    return {one["command"]: one for one in CONTRIBUTED["commands"]}


def hidden_commands() -> set[str]:
    entries = CONTRIBUTED["menus"]["commandPalette"]
    return {entry["command"] for entry in entries if entry["when"] == "false"}


def properties() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = CONTRIBUTED["configuration"]["properties"]
    return found


# ------------------------------------------------------------------------------------------------- with the daemon


@pytest.mark.parametrize("script", ["make_protocol.py", "make_blocks.py"])
def test_what_is_made_from_the_daemon_is_current(script: str) -> None:
    """The protocol's types, and the blocks of quoted history that the extension's own must equal."""
    ran = subprocess.run(
        [sys.executable, EXTENSION / "scripts" / script, "--check"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


def test_extension_and_daemon_have_one_version() -> None:
    lock = json.loads((EXTENSION / "package-lock.json").read_text(encoding="utf-8"))
    assert MANIFEST["version"] == lock["version"] == palace_daemon.__version__
    changes = (EXTENSION / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {palace_daemon.__version__}" in changes


def test_the_licence_is_that_of_the_repository() -> None:
    assert MANIFEST["license"] == "MIT"
    assert (EXTENSION / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


# --------------------------------------------------------------------------------------------- package.json and code


def test_every_command_is_contributed_and_registered() -> None:
    registered = re.findall(r'\b(?:registerCommand|command)\(\s*"(palace\.\w+)"', code())
    assert len(registered) == len(set(registered)), "a command is registered twice"
    assert set(registered) - INTERNAL == set(commands())
    assert not INTERNAL - set(registered)


def test_what_is_run_by_name_is_there() -> None:
    named = set(re.findall(r'executeCommand\(\s*"(palace\.\w+)"', code()))
    welcome = "".join(one["contents"] for one in CONTRIBUTED["viewsWelcome"])
    named |= set(re.findall(r"command:(palace\.\w+)", welcome))
    for entries in (*CONTRIBUTED["menus"].values(), CONTRIBUTED["keybindings"]):
        named |= {entry["command"] for entry in entries}
    assert named
    assert named <= set(commands()) | INTERNAL


def test_every_command_says_what_it_is() -> None:
    for name, command in commands().items():
        assert command["category"] == "Palace", name
        assert command["title"], name
        assert not command["title"].endswith("..."), f"{name}: an ellipsis is one character"


def test_every_menu_is_of_a_view_that_is_there() -> None:
    views = {view["id"] for views in CONTRIBUTED["views"].values() for view in views}
    named = set(re.findall(r"view == ([\w.]+)", json.dumps(CONTRIBUTED["menus"])))
    assert named | {one["view"] for one in CONTRIBUTED["viewsWelcome"]} <= views
    assert all(f'"{view}"' in code() for view in views)


def test_every_setting_is_read_with_its_default() -> None:
    text = (EXTENSION / "src" / "ui" / "settings.ts").read_text(encoding="utf-8")
    read = {f"palace.{name}": json.loads(default) for name, default in re.findall(r'read\("([\w.]+)", ([^)]+)\)', text)}
    assert read == {name: setting["default"] for name, setting in properties().items()}


def test_settings_that_choose_programs_or_data_are_out_of_a_folders_reach() -> None:
    restricted = set(MANIFEST["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"])
    assert restricted == {"palace.python", "palace.dataDirectory", "palace.startDaemon"}
    assert {name for name, setting in properties().items() if setting.get("scope") == "machine"} == restricted


def test_the_tool_of_the_chat_takes_what_its_schema_says() -> None:
    (tool,) = CONTRIBUTED["languageModelTools"]
    text = (EXTENSION / "src" / "core" / "recallTool.ts").read_text(encoding="utf-8")
    names = re.search(r"const NAMES = (\[.*?\]) as const", text)
    limit_max = re.search(r"const LIMIT_MAX = (\d+)", text)
    assert names
    assert limit_max
    assert json.loads(names[1]) == list(tool["inputSchema"]["properties"])
    assert tool["inputSchema"]["properties"]["limit"]["maximum"] == int(limit_max[1])
    assert tool["inputSchema"]["required"] == ["query"]
    chat = (EXTENSION / "src" / "ui" / "chat.ts").read_text(encoding="utf-8")
    (provider,) = CONTRIBUTED["mcpServerDefinitionProviders"]
    assert f'"{tool["name"]}"' in chat
    assert f'"{provider["id"]}"' in chat


def test_it_starts_late_and_where_the_folder_is() -> None:
    assert MANIFEST["activationEvents"] == ["onStartupFinished"]
    assert MANIFEST["extensionKind"] == ["workspace"]
    assert MANIFEST["engines"]["vscode"] == f"^{MANIFEST['devDependencies']['@types/vscode'].removeprefix('~')}"
    assert "enabledApiProposals" not in MANIFEST
    assert set(MANIFEST["dependencies"]) == {"vscode-jsonrpc"}


def test_only_the_part_with_the_editor_imports_it() -> None:
    for path in sources():
        text = path.read_text(encoding="utf-8")
        if path.is_relative_to(EXTENSION / "src" / "core"):
            assert 'from "vscode"' not in text, path
        assert not re.search(r"\b(?:fetch|XMLHttpRequest|WebSocket)\(|[\"'](?:node:)?https?[\"']", text), path


# ------------------------------------------------------------------------------------------------------------ pages


def test_the_pictures_are_there() -> None:
    icon = (EXTENSION / MANIFEST["icon"]).read_bytes()
    assert icon.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", icon[16:24])
    assert width == height >= 128
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert shown
    missing = [picture for picture in shown if not (EXTENSION / picture).exists()]
    assert not missing, f"made by the workbench tests: {missing}"


def test_the_readme_has_a_row_for_every_command() -> None:
    rows = set(re.findall(r"^\| \*\*(.+?)\*\* \|", README, re.MULTILINE))
    shown = {f"Palace: {command['title']}" for name, command in commands().items() if name not in hidden_commands()}
    assert rows == shown
    for name in hidden_commands():
        assert f"**{commands()[name]['title']}**" in README, name


def test_the_readme_has_a_row_for_every_setting_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(palace\.[\w.]+)` \| (.+?) \|", README, re.MULTILINE))
    defaults = {name: setting["default"] for name, setting in properties().items()}
    assert rows == {name: "empty" if value == "" else f"`{json.dumps(value)}`" for name, value in defaults.items()}


def test_the_page_of_the_repository_names_every_command() -> None:
    page = (ROOT / "docs" / "vscode.md").read_text(encoding="utf-8")
    for name, command in commands().items():
        if name not in hidden_commands():
            assert command["title"] in page, name
    for target in re.findall(r"\]\(([^)#:]+)\)", page):
        assert (ROOT / "docs" / target).exists(), target


def test_the_page_names_the_workbenches_of_the_scenarios() -> None:
    script = (EXTENSION / "scripts" / "workbench.mjs").read_text(encoding="utf-8")
    page = " ".join((ROOT / "docs" / "vscode.md").read_text(encoding="utf-8").split())
    versions = re.findall(r'^  "([\d.]+)": \{\n    codeServer: "([\d.]+)"', script, re.MULTILINE)
    default = re.search(r'^const DEFAULT_VERSION = "([\d.]+)";$', script, re.MULTILINE)
    assert default
    assert f"VS Code {default[1]} (code-server {dict(versions)[default[1]]}," in page
    for version, code_server in versions:
        assert code_server in page
        assert version == default[1] or f"PALACE_VSCODE={version} npm run workbench" in page


def test_only_what_is_needed_is_packed() -> None:
    patterns = (EXTENSION / ".vscodeignore").read_text(encoding="utf-8").split()
    assert patterns[0] == "**", "everything is left out, and the rest of the list puts in"
    assert all(pattern.startswith("!") for pattern in patterns[1:])
    packed = {pattern[1:] for pattern in patterns[1:]}
    assert {"package.json", "README.md", "CHANGELOG.md", "LICENSE", MANIFEST["icon"], "dist/extension.js"} <= packed
    assert MANIFEST["main"].removeprefix("./") in packed
    assert CONTRIBUTED["viewsContainers"]["activitybar"][0]["icon"] in packed
    assert not any(pattern.startswith(("src", "test", "node_modules", "out", "scripts")) for pattern in packed)
