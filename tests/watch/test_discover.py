"""The walk, over a real tree with everything in it that is no plain file."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from palace_daemon.watch.discover import walk
from palace_daemon.watch.kernel import file_system_type, inotify_is_exhausted


def paths(root: Path | str, suffix: str = "") -> set[str]:
    return {path for path, _ in walk(str(root), lambda path: path.endswith(suffix))}


def test_yields_regular_files_with_their_stat(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "deep" / "er").mkdir(parents=True)
    (root / "deep" / "er" / "a.jsonl").write_text("12345")
    (root / "b.txt").write_text("")
    found = dict(walk(str(root), lambda path: path.endswith(".jsonl")))
    assert list(found) == [str(root / "deep" / "er" / "a.jsonl")]
    stat = (root / "deep" / "er" / "a.jsonl").stat()
    seen = found[str(root / "deep" / "er" / "a.jsonl")]
    assert (seen.size, seen.mtime_ns, seen.ctime_ns) == (5, stat.st_mtime_ns, stat.st_ctime_ns)
    assert (seen.device, seen.inode) == (stat.st_dev, stat.st_ino)


def test_leaves_out_links_fifos_sockets_and_directories_named_like_files(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "r"
    root.mkdir()
    (root / "real.jsonl").write_text("x")
    (root / "link.jsonl").symlink_to(root / "real.jsonl")
    (root / "dead.jsonl").symlink_to(root / "none")
    (root / "dir.jsonl").mkdir()
    os.mkfifo(root / "fifo.jsonl")
    with socket.socket(socket.AF_UNIX) as listener:
        cwd = Path.cwd()
        os.chdir(root)  # the name must fit into sun_path
        try:
            listener.bind("socket.jsonl")
        finally:
            os.chdir(cwd)
        assert paths(root) == {str(root / "real.jsonl")}


def test_symlink_loops_end(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "r"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "up").symlink_to(root)
    (root / "self").symlink_to(root / "self")
    (root / "a" / "x.jsonl").write_text("x")
    assert paths(root) == {str(root / "a" / "x.jsonl")}
    assert paths(root / "self") == set()


def test_a_root_may_be_a_link_or_a_file_or_missing(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "r"
    root.mkdir()
    file = root / "a.jsonl"
    file.write_text("x")
    (tmp_path / "link").symlink_to(root)
    (tmp_path / "file-link").symlink_to(file)
    assert paths(tmp_path / "link") == {str(file)}
    assert paths(tmp_path / "file-link") == {str(file)}
    assert paths(file, ".txt") == set()
    errors: list[str] = []
    for missing in (str(root / "none"), str(file / "below")):
        assert list(walk(missing, lambda _: True, lambda path, _: errors.append(path))) == []
    assert errors == []


def test_a_file_that_vanishes_during_the_walk_is_left_out(tmp_path: Path) -> None:
    for n in range(5):
        (tmp_path / f"{n}.jsonl").write_text("x")
    seen = []
    for path, _ in walk(str(tmp_path), lambda _: True):
        seen.append(path)
        for other in tmp_path.iterdir():
            other.unlink()
    assert len(seen) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse or translate such names")
def test_a_name_that_is_no_utf8_is_reported_and_passed_over(tmp_path: Path) -> None:
    (tmp_path / "good.jsonl").write_text("x")
    with open(os.fsencode(tmp_path.resolve()) + b"/bad\xff.jsonl", "wb"):
        pass
    errors: list[OSError] = []
    found = list(walk(str(tmp_path), lambda _: True, lambda _, error: errors.append(error)))
    assert [Path(path).name for path, _ in found] == ["good.jsonl"]
    assert "UTF-8" in str(errors)


def test_odd_roots_are_reported_or_empty() -> None:
    errors: list[str] = []
    assert list(walk("nul\0byte", lambda _: True, lambda path, _: errors.append(path))) == []
    assert errors == ["nul\0byte"]
    assert paths("") == set(), "the empty path is not the working directory"


UNREADABLE = textwrap.dedent("""
    import os, sys, time
    from palace_daemon.watch.discover import walk
    from palace_daemon.watch.observer import WatchdogNotifier
    from palace_daemon.watch.polling import PollingNotifier
    root = sys.argv[1]
    if os.getuid() == 0:
        os.setuid(65534)
    errors = []
    found = sorted(os.path.relpath(path, root) for path, _ in walk(root, lambda _: True, lambda p, e: errors.append(e)))
    assert found == ["a.jsonl", "open/b.jsonl"], found
    assert [type(error) for error in errors] == [PermissionError] * 2, errors
    for notifier in (WatchdogNotifier(20, root_check_s=0.05), PollingNotifier(0.05)):
        seen = []
        notifier.watch(root)
        notifier.start(seen.extend)
        notifier.watch(os.path.join(root, "shut"))
        before = time.monotonic()
        with open(os.path.join(root, "open", "b.jsonl"), "a") as file:
            file.write("x")
        while os.path.join(root, "open", "b.jsonl") not in seen and time.monotonic() < before + 10:
            time.sleep(0.01)
        assert seen == [os.path.join(root, "open", "b.jsonl")], (notifier.name, seen)
        notifier.stop()
    print("fine")
""")


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="needs Unix permissions")
def test_an_unreadable_subtree_stops_neither_walk_nor_notifiers(runtime_dir: Path) -> None:
    """In a process of its own, which drops root: root may read everything. In a directory that others may enter."""
    root = runtime_dir.resolve() / "r"
    for name in ("open", "shut", "shut2"):
        (root / name).mkdir(parents=True)
    runtime_dir.chmod(0o755)
    (root / "a.jsonl").write_text("x")
    (root / "open" / "b.jsonl").write_text("x")
    (root / "open" / "b.jsonl").chmod(0o666)
    for name in ("shut", "shut2"):
        (root / name / "c.jsonl").write_text("x")
        (root / name).chmod(0)
    try:
        done = subprocess.run(
            [sys.executable, "-c", UNREADABLE, str(root)], capture_output=True, text=True, timeout=60, check=False
        )
    finally:
        for name in ("shut", "shut2"):
            (root / name).chmod(0o700)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


MOUNTS = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /home/sam/net\040drive rw - nfs4 server:/x rw
31 22 0:27 / /home rw,relatime - btrfs /dev/vdb rw
32 31 0:28 / /home/sam/share rw - cifs //host/share rw
33 32 0:29 / /home/sam/share rw - tmpfs tmpfs rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/etc/x", "ext4"),
        ("/home", "btrfs"),
        ("/homestead", "ext4"),
        ("/home/sam/net drive/deep", "nfs4"),
        ("/home/sam/net drives", "btrfs"),
        ("/home/sam/share/x", "tmpfs"),
    ],
)
def test_file_system_type_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    assert file_system_type(path, MOUNTS) == kind


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux")
def test_the_inotify_probe_leaves_no_descriptor_and_knows_that_watches_are_left(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert not inotify_is_exhausted(str(tmp_path))
    assert not inotify_is_exhausted(str(tmp_path / "none"))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
