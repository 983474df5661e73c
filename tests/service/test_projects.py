"""Working directory to project: the logic on invented trees, and the whole on real repositories."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from palace_daemon.repositories import find_project, normalise_cwd, parse_pointer
from palace_daemon.service.projects import CACHE_ENTRIES, CACHE_S, ProjectResolver


class FakeFiles:
    """A file system of two sets: directories, and files with their text."""

    def __init__(self, directories: set[str], files: dict[str, str] | None = None) -> None:
        self.files = files or {}
        self.directories = directories
        self.looks = 0

    def real(self, path: str) -> str | None:
        self.looks += 1
        return path if path in self.directories else None

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.directories

    def read(self, path: str) -> str | None:
        return self.files.get(path)


TREE = FakeFiles(
    {"/", "/home/sam", "/home/sam/repo", "/home/sam/repo/src/deep", "/home/sam/notes", "/home/sam/wt", "/home/sam/mod"}
    | {"/home/sam/stray", "/home/sam/odd", "/home/sam/bare/main", "/home/sam/sub-wt", "/home/sam/plainbare"},
    {
        "/home/sam/repo/.git/HEAD": "ref: refs/heads/main\n",
        "/home/sam/wt/.git": "gitdir: /home/sam/repo/.git/worktrees/wt\n",
        "/home/sam/repo/.git/worktrees/wt/commondir": "../..\n",
        "/home/sam/mod/.git": "gitdir: ../repo/.git/modules/mod\n",
        "/home/sam/stray/.git/description": "no HEAD: no repository",
        "/home/sam/odd/.git": "this is no pointer",
        "/home/sam/bare/main/.git": "gitdir: /home/sam/bare/.bare/worktrees/main\r\n",
        "/home/sam/bare/.bare/worktrees/main/commondir": "../..\n",
        "/home/sam/plainbare/.git": "gitdir: /srv/thing.git/worktrees/x\n",
        "/srv/thing.git/worktrees/x/commondir": "../..\n",
        "/home/sam/sub-wt/.git": "gitdir: /home/sam/repo/.git/modules/mod/worktrees/sub-wt\n",
        "/home/sam/repo/.git/modules/mod/worktrees/sub-wt/commondir": "../..\n",
        "/home/sam/repo/.git/modules/mod/config": (
            '[remote "x"]\n\tworktree = /wrong\n[core]\n\tbare = false\n\tworktree = ../../../../mod\n'
        ),
    },
)


@pytest.mark.parametrize(
    ("cwd", "project"),
    [
        ("/home/sam/repo", "/home/sam/repo"),
        ("/home/sam/repo/src/deep/", "/home/sam/repo"),
        ("/home/sam/notes", "/home/sam/notes"),  # no repository: itself
        ("/home/sam", "/home/sam"),
        ("/", "/"),
        ("/home/sam/wt", "/home/sam/repo"),  # a worktree counts to its repository
        ("/home/sam/mod", "/home/sam/mod"),  # a submodule is its own
        ("/home/sam/sub-wt", "/home/sam/mod"),  # and so is a worktree of it the submodule's
        ("/home/sam/bare/main", "/home/sam/bare"),
        ("/home/sam/plainbare", "/srv/thing.git"),
        ("/home/sam/stray", "/home/sam/stray"),
        ("/home/sam/odd", "/home/sam/odd"),
        ("/home/sam/repo/.claude/worktrees/fix-42", "/home/sam/repo"),  # already deleted: by its name
        ("/home/sam/repo/.claude/worktrees/fix-42/src", "/home/sam/repo"),
        ("/home/sam/repo/.claude/worktrees", "/home/sam/repo"),
        ("/gone/repo/.claude/worktrees/x", "/gone/repo"),
        ("/.claude/worktrees/x", "/"),
        ("/home/sam/gone/src/", "/home/sam/gone/src"),
        ("C:\\Users\\sam\\repo\\.claude\\worktrees\\x", "C:\\Users\\sam\\repo"),
        ("c:/Users/sam/work/", "C:\\Users\\sam\\work"),
        ("", ""),
        ("  ", ""),
        ("relative/dir", "relative/dir"),
    ],
)
def test_project_of_a_working_directory(cwd: str, project: str) -> None:
    assert find_project(cwd, TREE) == project


@pytest.mark.parametrize(
    ("cwd", "expected"),
    [
        ("/a//b/./c/", "/a/b/c"),
        ("//a/b", "/a/b"),
        ("///", "/"),
        ("c:\\work\\", "C:\\work"),
        ("C:/Work/./x//y", "C:\\Work\\x\\y"),
        ("c:\\", "C:\\"),
        ("\\\\server\\share\\dir\\", "\\\\server\\share\\dir"),
        ("/a b/ü", "/a b/ü"),
    ],
)
def test_normalised_spelling(cwd: str, expected: str) -> None:
    assert normalise_cwd(cwd) == expected
    assert normalise_cwd(expected) == expected, "normalising twice changes nothing"


def test_pointer_is_read_strictly() -> None:
    assert parse_pointer("gitdir: /a b/c: d\r\n") == "/a b/c: d"
    assert [parse_pointer(text) for text in ("", "gitdir:", "gitdir: \n", "xgitdir: /a", "gitdir /a")] == [None] * 5


def test_home_that_is_a_repository_counts_only_because_it_has_one() -> None:
    files = FakeFiles({"/home/sam", "/home/sam/notes"}, {"/home/sam/.git/HEAD": ""})
    assert find_project("/home/sam/notes", files) == "/home/sam"


def test_answers_are_cached_for_a_while_and_the_cache_is_bounded() -> None:
    now = [0.0]
    files = FakeFiles({"/work"})
    resolver = ProjectResolver(files, now_s=lambda: now[0])
    assert [resolver.project_of("/work/x"), resolver.project_of("/work/x")] == ["/work/x"] * 2
    assert files.looks == 1
    files.directories.add("/work/x")
    files.files["/work/.git/HEAD"] = ""
    now[0] = CACHE_S
    assert resolver.project_of("/work/x") == "/work", "looked at again"
    for n in range(CACHE_ENTRIES + 10):
        resolver.project_of(f"/{n}")
    assert len(resolver._known) == CACHE_ENTRIES


# ------------------------------------------------------------------------------------------------- on real disks


def git(*arguments: str, cwd: Path) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *identity, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_real_worktrees_submodules_and_links(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    main, library = base / "main", base / "library"
    for repository in (main, library):
        repository.mkdir()
        git("init", "-q", cwd=repository)
        git("commit", "-q", "--allow-empty", "-m", "x", cwd=repository)
    git("worktree", "add", "-q", str(base / "tree"), cwd=main)
    git("worktree", "add", "-q", str(main / ".claude" / "worktrees" / "fix"), cwd=main)
    git("submodule", "add", "-q", str(library), "libs/library", cwd=main)
    git("worktree", "add", "-q", str(base / "lib-tree"), cwd=main / "libs" / "library")
    (main / "src").mkdir()
    (base / "link").symlink_to(main)
    resolver = ProjectResolver()
    expected = {
        main: main,
        main / "src": main,
        base / "tree": main,
        main / ".claude" / "worktrees" / "fix": main,
        main / "libs" / "library": main / "libs" / "library",
        base / "lib-tree": main / "libs" / "library",
        base / "link" / "src": main,
        base: base,
        main / "gone": main / "gone",
    }
    assert {path: Path(resolver.project_of(str(path))) for path in expected} == expected


def test_odd_directories_never_raise(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    os.mkfifo(base / ".git")
    (base / "loop").symlink_to(base / "loop")
    (base / "file").write_text("x")
    resolver = ProjectResolver()
    assert resolver.project_of(str(base)) == str(base), "a FIFO named .git is not opened"
    for odd in ("nul\0byte", "\udcff", str(base / "loop"), str(base / "file"), "/" + "x" * 5000, "~", "file:///x"):
        assert resolver.project_of(odd)
