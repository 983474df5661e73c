"""Where VS Code and its forks write, and which project a chat belongs to."""

from __future__ import annotations

import pytest
from support.document_formats import Nearby

from palace_daemon.core.transcripts.vscode_chat.dirs import storage_dirs, user_dirs
from palace_daemon.core.transcripts.vscode_chat.workspace import (
    base_name,
    join,
    parent_of,
    path_of_uri,
    workspace_folder,
)


def test_linux_has_configuration_flatpak_and_server_directories() -> None:
    found = user_dirs({}, "/home/sam", "linux")
    assert found[:2] == ("/home/sam/.config/Code/User", "/home/sam/.config/Code - Insiders/User")
    assert "/home/sam/.config/VSCodium/User" in found
    assert "/home/sam/.var/app/com.visualstudio.code/config/Code/User" in found
    assert "/home/sam/.vscode-server/data/User" in found
    assert user_dirs({"XDG_CONFIG_HOME": "/conf"}, "/home/sam", "linux")[0] == "/conf/Code/User"


def test_mac_has_application_support() -> None:
    found = user_dirs({"XDG_CONFIG_HOME": "/conf"}, "/Users/sam", "darwin")
    assert found[0] == "/Users/sam/Library/Application Support/Code/User"
    assert "/Users/sam/Library/Application Support/Cursor/User" in found
    assert not any("flatpak" in path or "/.var/" in path or path.startswith("/conf") for path in found)


def test_windows_has_roaming_data_and_its_own_separators() -> None:
    environ = {"APPDATA": r"D:\Roaming", "USERPROFILE": r"C:\Users\sam"}
    found = user_dirs(environ, "/ignored", "win32")
    assert found[0] == r"D:\Roaming\Code\User"
    assert r"D:\Roaming\Windsurf\User" in found
    assert r"C:\Users\sam\.vscode-server\data\User" in found
    assert user_dirs({}, r"C:\Users\sam", "win32")[0] == r"C:\Users\sam\AppData\Roaming\Code\User"
    assert storage_dirs(environ, "", "win32", "globalStorage", "x.y", "tasks")[0] == (
        r"D:\Roaming\Code\User\globalStorage\x.y\tasks"
    )


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///home/sam/tides%20and%20moons", "/home/sam/tides and moons"),
        ("file:///home/sam/tides/", "/home/sam/tides"),
        ("file:///c%3A/dev/tides", r"c:\dev\tides"),
        ("file:///C:/dev/tides", r"C:\dev\tides"),
        ("file://server/share/tides", r"\\server\share\tides"),
        ("vscode-remote://ssh-remote%2Bbox/home/sam/tides", "/home/sam/tides"),
        ("vscode-remote://wsl%2BUbuntu/home/sam/%E6%BD%AE", "/home/sam/\u6f6e"),
        ({"scheme": "file", "path": "/home/sam/tides"}, "/home/sam/tides"),
        ({"$mid": 1, "path": "/c:/dev", "scheme": "file"}, r"c:\dev"),
        ({"scheme": "untitled", "path": "Untitled-1"}, ""),
        ("/home/sam/plain", "/home/sam/plain"),
        (r"C:\dev\plain", r"C:\dev\plain"),
        ("https://example.org/x", ""),
        ("file://[broken/x", ""),
        (None, ""),
        (7, ""),
        ("file:///", "/"),
    ],
)
def test_a_uri_leads_to_a_path(uri: object, path: str) -> None:
    assert path_of_uri(uri) == path


@pytest.mark.parametrize(
    ("workspace", "folder"),
    [
        ({"folder": "file:///home/sam/tides"}, "/home/sam/tides"),
        ({"workspace": "file:///home/sam/all/sea.code-workspace"}, "/home/sam/all"),
        ({"configuration": "vscode-remote://ssh-remote%2Bbox/srv/sea.code-workspace"}, "/srv"),
        ({"workspace": "file:///home/sam/.config/Code/Workspaces/17/workspace.json"}, ""),
        ({"folder": 3}, ""),
        ([], ""),
        (b"{half", ""),
    ],
)
def test_the_project_is_what_the_window_had_open(workspace: object, folder: str) -> None:
    root = "/home/sam/.config/Code/User/workspaceStorage/0a1b"
    beside = Nearby({f"{root}/workspace.json": workspace})
    assert workspace_folder(f"{root}/chatSessions/x.json", beside) == folder


def test_a_window_without_folder_has_no_project() -> None:
    assert workspace_folder("/u/globalStorage/emptyWindowChatSessions/x.json", Nearby({})) == ""


def test_paths_keep_their_separators() -> None:
    assert (parent_of(r"C:\a\b\c.json"), base_name(r"C:\a\b\c.json")) == (r"C:\a\b", "c.json")
    assert (parent_of("/a/b"), parent_of("/a"), parent_of("a")) == ("/a", "", "")
    assert (join(r"C:\a", "b", "c"), join("/a", "b"), join("", "b")) == (r"C:\a\b\c", "/a/b", "b")
