"""One contract, three notifiers: what the service relies on, whichever of them it was given."""

from __future__ import annotations

import errno
import logging
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from palace_daemon.core.ports import Notifier
from palace_daemon.watch import kernel
from palace_daemon.watch.observer import WatchdogNotifier
from palace_daemon.watch.polling import PollingNotifier
from palace_daemon.watch.scripted import ScriptedNotifier

WaitUntil = Callable[..., None]


class Rig:
    """A notifier, what it reported, and the way to make it notice a write."""

    def __init__(self, notifier: Notifier) -> None:
        self.notifier = notifier
        self.batches: list[list[str]] = []
        self.threads: set[int] = set()

    def on_paths(self, paths: Sequence[str]) -> None:
        self.threads.add(threading.get_ident())
        self.batches.append(list(paths))

    def start(self) -> None:
        self.notifier.start(self.on_paths)

    def seen(self, path: Path) -> bool:
        return any(str(path) in batch for batch in self.batches)

    def tell(self, *paths: Path) -> None:
        """Let a scripted notifier know what a real one finds out."""
        if isinstance(self.notifier, ScriptedNotifier):
            self.notifier.emit([str(path) for path in paths])

    def write(self, path: Path, text: str = "line\n") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
        self.tell(path)


def fast_watchdog(**options: Any) -> WatchdogNotifier:
    return WatchdogNotifier(20, root_check_s=0.05, poll_interval_s=0.05, **options)


MAKERS: dict[str, Callable[[], Notifier]] = {
    "watchdog": fast_watchdog,
    "polling": lambda: PollingNotifier(0.05),
    "scripted": ScriptedNotifier,
}


@pytest.fixture(params=sorted(MAKERS))
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    rig = Rig(MAKERS[request.param]())
    yield rig
    rig.notifier.stop()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A resolved directory: notifiers report resolved paths."""
    made = tmp_path.resolve() / "agents"
    made.mkdir()
    return made


# -------------------------------------------------------------------------------------------------- the contract


@pytest.mark.parametrize("starts_first", [True, False])
def test_reports_a_new_file_and_then_its_growth(
    rig: Rig, root: Path, wait_until: WaitUntil, starts_first: bool
) -> None:
    if starts_first:
        rig.start()
    rig.notifier.watch(str(root))
    if not starts_first:
        rig.start()
    file = root / "a.jsonl"
    rig.write(file)
    wait_until(lambda: rig.seen(file))
    rig.batches.clear()
    rig.write(file)
    wait_until(lambda: rig.seen(file))


def test_reports_files_in_directories_that_appear_later(rig: Rig, root: Path, wait_until: WaitUntil) -> None:
    rig.start()
    rig.notifier.watch(str(root))
    deep = root / "project" / "session" / "subagents" / "b.jsonl"
    rig.write(deep)
    wait_until(lambda: rig.seen(deep))
    rig.batches.clear()
    rig.write(deep)
    wait_until(lambda: rig.seen(deep))


def test_reports_a_file_that_is_moved_into_place(rig: Rig, root: Path, wait_until: WaitUntil) -> None:
    file = root / "a.jsonl"
    file.write_text("old\n")
    rig.start()
    rig.notifier.watch(str(root))
    temporary = root.parent / "new"
    temporary.write_text("new text\n")
    temporary.replace(file)
    rig.tell(file)
    wait_until(lambda: rig.seen(file))


def test_reports_a_whole_directory_that_is_moved_into_place(rig: Rig, root: Path, wait_until: WaitUntil) -> None:
    outside = root.parent / "outside" / "inner"
    outside.mkdir(parents=True)
    (outside / "a.jsonl").write_text("x\n")
    rig.start()
    rig.notifier.watch(str(root))
    outside.parent.rename(root / "inside")
    rig.tell(root / "inside" / "inner" / "a.jsonl")
    wait_until(lambda: rig.seen(root / "inside" / "inner" / "a.jsonl"))


def test_picks_up_a_root_that_appears_later_with_what_is_in_it(rig: Rig, root: Path, wait_until: WaitUntil) -> None:
    late = root / "not" / "yet"
    rig.start()
    rig.notifier.watch(str(late))
    first, second = late / "a.jsonl", late / "b.jsonl"
    rig.write(first)
    wait_until(lambda: rig.seen(first))
    rig.write(second)
    wait_until(lambda: rig.seen(second))


def test_picks_up_a_root_that_was_deleted_and_made_again(rig: Rig, root: Path, wait_until: WaitUntil) -> None:
    rig.start()
    rig.notifier.watch(str(root))
    root.rmdir()
    time.sleep(0.15)  # nothing to wait for: the notifiers say nothing of a lost root
    file = root / "a.jsonl"
    rig.write(file)
    wait_until(lambda: rig.seen(file))
    rig.batches.clear()
    rig.write(file)
    wait_until(lambda: rig.seen(file))


def test_a_batch_names_a_path_once(rig: Rig, root: Path, wait_until: WaitUntil) -> None:
    rig.start()
    rig.notifier.watch(str(root))
    rig.notifier.watch(str(root))
    files = [root / f"{n}.jsonl" for n in range(20)]
    for file in files:
        rig.write(file)
        rig.write(file)
    rig.tell(*files, *files)
    wait_until(lambda: all(rig.seen(file) for file in files))
    assert all(len(batch) == len(set(batch)) for batch in rig.batches)


def test_reports_nothing_after_stop_and_ends_its_threads(rig: Rig, root: Path, wait_until: WaitUntil) -> None:
    before = set(threading.enumerate())
    rig.start()
    rig.notifier.watch(str(root))
    rig.write(root / "a.jsonl")
    wait_until(lambda: rig.seen(root / "a.jsonl"))
    rig.notifier.stop()
    rig.notifier.stop()
    count = len(rig.batches)
    assert not {thread for thread in set(threading.enumerate()) - before if thread.is_alive()}
    rig.notifier.watch(str(root / "more"))
    rig.write(root / "a.jsonl")
    time.sleep(0.2)  # long enough for several polls
    assert len(rig.batches) == count


def test_stop_before_start_and_odd_roots_do_no_harm(rig: Rig, root: Path) -> None:
    for odd in ("", "nul\0byte", str(root / "none"), "/proc/self/mem", "relative/none"):
        rig.notifier.watch(odd)
    rig.start()
    for odd in ("", "nul\0byte 2", str(root / "none 2"), "/dev/null", "relative/none 2"):
        rig.notifier.watch(odd)
    rig.notifier.stop()
    MAKERS["scripted"]().stop()


def test_a_listener_that_fails_does_not_end_the_reports(
    root: Path, wait_until: WaitUntil, caplog: pytest.LogCaptureFixture
) -> None:
    for notifier in (fast_watchdog(), PollingNotifier(0.05)):
        rig = Rig(notifier)
        calls: list[int] = []

        def fail_once(paths: Sequence[str], calls: list[int] = calls, rig: Rig = rig) -> None:
            calls.append(len(paths))
            if len(calls) == 1:
                raise RuntimeError("listener")
            rig.on_paths(paths)

        notifier.start(fail_once)
        notifier.watch(str(root))
        rig.write(root / "a.jsonl")
        wait_until(lambda calls=calls: calls)
        rig.write(root / "b.jsonl")
        wait_until(lambda rig=rig: rig.seen(root / "b.jsonl"))
        notifier.stop()
    assert [record.levelname for record in ours(caplog)] == ["ERROR", "ERROR"]


def test_a_root_that_is_a_link_is_reported_by_its_resolved_path(rig: Rig, root: Path, wait_until: WaitUntil) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    rig.start()
    rig.notifier.watch(str(link))
    rig.write(root / "a.jsonl")
    wait_until(lambda: rig.seen(root / "a.jsonl"))
    assert not rig.seen(link / "a.jsonl")


def test_a_root_that_is_a_file_is_watched_alone(rig: Rig, root: Path, wait_until: WaitUntil) -> None:
    file, other = root / "a.jsonl", root / "b.jsonl"
    file.write_text("x\n")
    rig.start()
    rig.notifier.watch(str(file))
    other.write_text("y\n")
    rig.write(file)
    wait_until(lambda: rig.seen(file))
    assert not rig.seen(other)


# ------------------------------------------------------------------------------------------------- what differs


def test_a_steadily_written_file_is_not_starved(root: Path, wait_until: WaitUntil) -> None:
    rig = Rig(WatchdogNotifier(100))
    rig.start()
    rig.notifier.watch(str(root))
    file = root / "a.jsonl"
    done = threading.Event()

    def write_steadily() -> None:
        while not done.wait(0.01):
            rig.write(file)

    writer = threading.Thread(target=write_steadily)
    writer.start()
    try:
        wait_until(lambda: len(rig.batches) >= 2)
    finally:
        done.set()
        writer.join()
        rig.notifier.stop()


def test_reading_a_file_reports_nothing(root: Path) -> None:
    file = root / "a.jsonl"
    file.write_text("x\n")
    rig = Rig(fast_watchdog())
    rig.start()
    rig.notifier.watch(str(root))
    for _ in range(5):
        file.read_bytes()
        list(root.iterdir())
    time.sleep(0.2)  # several debounce times
    rig.notifier.stop()
    assert rig.batches == []


def ours(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name.startswith("palace_daemon")]


def no_instances() -> BaseObserver:
    raise OSError(errno.EMFILE, "inotify instance limit reached")


def no_watches() -> BaseObserver:
    observer = Observer()

    def schedule(*_args: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "inotify watch limit reached")

    observer.schedule = schedule  # type: ignore[method-assign,assignment]
    return observer


@pytest.mark.parametrize(
    ("factory", "name"),
    [(no_instances, "polling (inotify instance limit reached)"), (no_watches, "polling (inotify watch limit reached)")],
)
def test_at_the_limit_it_polls_warns_once_and_still_sees_edits(
    root: Path,
    wait_until: WaitUntil,
    caplog: pytest.LogCaptureFixture,
    factory: Callable[[], BaseObserver],
    name: str,
) -> None:
    rig = Rig(fast_watchdog(observer_factory=factory))
    other, late = root / "other", root / "late"
    other.mkdir()
    rig.notifier.watch(str(root))
    rig.notifier.watch(str(other))
    rig.start()
    rig.notifier.watch(str(late))
    for file in (root / "a.jsonl", other / "b.jsonl", late / "c.jsonl"):
        rig.write(file)
        wait_until(lambda file=file: rig.seen(file))
    rig.notifier.stop()
    assert rig.notifier.name == name
    assert [record.levelname for record in ours(caplog)] == ["WARNING"]


def test_limit_reached_while_running_moves_everything_to_polling(
    root: Path, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Watchdog is silent when a directory below a root cannot be watched; the probe is not."""
    rig = Rig(fast_watchdog())
    rig.start()
    rig.notifier.watch(str(root))
    assert rig.notifier.name == "inotify"
    monkeypatch.setattr(kernel, "inotify_is_exhausted", lambda _directory: True)
    rig.write(root / "new" / "a.jsonl")
    wait_until(lambda: rig.notifier.name == "polling (inotify watch limit reached)")
    wait_until(lambda: rig.seen(root / "new" / "a.jsonl"))
    rig.batches.clear()
    rig.write(root / "new" / "a.jsonl")
    wait_until(lambda: rig.seen(root / "new" / "a.jsonl"))
    rig.notifier.stop()
    assert len(ours(caplog)) == 1


REAL_LIMIT = textwrap.dedent("""
    import pathlib, sys, time
    from palace_daemon.watch.observer import WatchdogNotifier
    limit, count, root = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    pathlib.Path("/proc/sys/user", limit).write_text(count)
    (root / "a" / "b").mkdir(parents=True)
    seen = []
    notifier = WatchdogNotifier(20, root_check_s=0.05, poll_interval_s=0.05)
    notifier.start(seen.extend)
    notifier.watch(str(root))
    for number in range(6):
        (root / f"late{number}").mkdir()
    deadline = time.monotonic() + 10
    while not notifier.name.startswith("polling") and time.monotonic() < deadline:
        time.sleep(0.01)
    for file in (root / "a" / "b" / "x.jsonl", root / "late5" / "y.jsonl"):
        file.write_text("x")
        while str(file) not in seen and time.monotonic() < deadline:
            time.sleep(0.01)
        assert str(file) in seen, file
    notifier.stop()
    print(notifier.name)
""")


@pytest.mark.parametrize(
    ("limit", "count", "name"),
    [
        ("max_inotify_instances", "0", "polling (inotify instance limit reached)"),
        ("max_inotify_watches", "1", "polling (inotify watch limit reached)"),
        ("max_inotify_watches", "6", "polling (inotify watch limit reached)"),
    ],
)
def test_the_kernels_own_limits(tmp_path: Path, limit: str, count: str, name: str) -> None:
    """In a user namespace of its own, where a process may lower its limits without touching anybody's."""
    probe = ["unshare", "--user", "--map-root-user", "sh", "-c", f"echo 9 > /proc/sys/user/{limit}"]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody make a user namespace")
    command = [*probe[:3], sys.executable, "-c", REAL_LIMIT, limit, count, str(tmp_path.resolve() / "r")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == name, done.stderr
    assert done.stderr.count("polling for changes instead") == 1


def test_a_network_directory_is_polled_and_named(
    root: Path, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = root / "remote"
    remote.mkdir()
    monkeypatch.setattr(kernel, "is_remote", lambda path: path == str(remote))
    rig = Rig(fast_watchdog())
    rig.start()
    rig.notifier.watch(str(remote))
    assert rig.notifier.name.endswith("+polling")
    rig.write(remote / "a.jsonl")
    wait_until(lambda: rig.seen(remote / "a.jsonl"))
    rig.notifier.stop()


def test_polling_says_nothing_of_a_root_that_vanishes(root: Path, wait_until: WaitUntil) -> None:
    rig = Rig(PollingNotifier(0.05))
    (root / "a.jsonl").write_text("x\n")
    rig.start()
    rig.notifier.watch(str(root))
    away = root.with_name("unplugged")
    root.rename(away)
    time.sleep(0.2)  # several polls
    assert rig.batches == []
    away.rename(root)
    rig.write(root / "b.jsonl")
    wait_until(lambda: rig.seen(root / "b.jsonl"))
    assert not rig.seen(root / "a.jsonl")
    (root / "a.jsonl").unlink()
    wait_until(lambda: rig.seen(root / "a.jsonl"))
    rig.notifier.stop()


def test_scripted_notifier_says_whether_anyone_listened() -> None:
    notifier = ScriptedNotifier()
    batches: list[Sequence[str]] = []
    assert not notifier.emit(["/a"])
    notifier.start(batches.append)
    notifier.watch("/x")
    assert notifier.emit(["/a", "/b", "/a"])
    assert not notifier.emit([])
    notifier.stop()
    assert not notifier.emit(["/c"])
    assert (batches, notifier.watched) == ([["/a", "/b"]], ["/x"])
