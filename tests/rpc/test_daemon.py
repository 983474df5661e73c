"""The daemon's life: one for a data directory, a private socket, a fast and clean end."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from palace_daemon import places
from palace_daemon.client import Client
from palace_daemon.config import Config
from palace_daemon.errors import DaemonError, StoreError
from palace_daemon.rpc import endpoint, logs, serve, server, session

LOCK_HOLDER = """
import sys, time
from pathlib import Path
from palace_daemon.rpc.endpoint import DataLock
lock = DataLock(Path(sys.argv[1])); lock.acquire(); print("held", flush=True); time.sleep(60)
"""


NEVER_CLOSED = """
import sys, threading
sys.path[:0] = [{tests!r}]
from rpc.fake_daemon import FakePalace
from palace_daemon.rpc import serve
serve.HARD_STOP_S = 0.2
FakePalace.close = lambda self: threading.Event().wait()
serve._open_palace = lambda _config: FakePalace()
from palace_daemon.__main__ import main
main()
"""


# ----------------------------------------------------------------------------------------------------------- lock


def test_the_lock_keeps_a_second_daemon_out_and_is_free_again_after_release(tmp_path: Path) -> None:
    first, second = endpoint.DataLock(tmp_path), endpoint.DataLock(tmp_path)
    first.acquire()
    with pytest.raises(endpoint.LockedError):
        second.acquire()
    first.release()
    with second:
        assert (tmp_path / endpoint.LOCK_NAME).read_text().startswith('{"pid": ')


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOCK_HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(endpoint.LockedError):
            endpoint.DataLock(tmp_path).acquire()
        holder.kill()
    with endpoint.DataLock(tmp_path):
        pass


def test_a_pid_in_the_lock_file_means_nothing(tmp_path: Path) -> None:
    """The pid may be another process's by now: the file is overwritten, and nobody is signalled."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as innocent:
        (tmp_path / endpoint.LOCK_NAME).write_text(f'{{"pid": {innocent.pid}}}')
        with endpoint.DataLock(tmp_path):
            assert innocent.poll() is None
            assert str(os.getpid()) in (tmp_path / endpoint.LOCK_NAME).read_text()
        innocent.communicate(b"\n", timeout=60)
    assert innocent.returncode == 0


def test_a_full_disk_does_not_keep_the_lock_from_being_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = endpoint.DataLock(tmp_path), endpoint.DataLock(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        first.acquire()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with first, pytest.raises(endpoint.LockedError):
        second.acquire()
    assert "cannot write who holds" in caplog.text


def test_what_is_no_file_is_no_lock_and_stays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / endpoint.LOCK_NAME)
    lock = endpoint.DataLock(tmp_path)
    with pytest.raises(DaemonError, match="is in the way: it is no file"):
        lock.acquire()
    assert stat.S_ISFIFO((tmp_path / endpoint.LOCK_NAME).stat().st_mode)


def test_waiting_for_the_lock_ends_when_it_is_let_go(tmp_path: Path) -> None:
    first, second = endpoint.DataLock(tmp_path), endpoint.DataLock(tmp_path)
    first.acquire()
    threading.Timer(0.1, first.release).start()
    second.acquire(timeout_s=5.0)
    second.release()


# --------------------------------------------------------------------------------------------------------- socket


def test_the_socket_and_its_directory_are_private(running: Any) -> None:
    assert stat.S_IMODE(running.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(running.path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(Config().data_dir.stat().st_mode) == 0o700


def test_a_stale_socket_is_replaced_and_one_that_answers_is_not(runtime_dir: Path) -> None:
    path = runtime_dir / "p" / "a.sock"
    first = endpoint.listen(path)
    with pytest.raises(DaemonError, match="still answers"):
        endpoint.listen(path)
    first.close()
    assert path.exists()
    second = endpoint.listen(path)
    endpoint.remove_socket(path, second)
    assert not path.exists()


def test_what_is_no_socket_is_left_alone(runtime_dir: Path) -> None:
    path = runtime_dir / "p" / "a.sock"
    path.parent.mkdir()
    path.write_text("precious")
    with pytest.raises(DaemonError, match="no socket"):
        endpoint.listen(path)
    assert path.read_text() == "precious"


def test_a_directory_behind_a_link_is_refused_and_an_open_one_is_closed(runtime_dir: Path) -> None:
    target, link = runtime_dir / "target", runtime_dir / "link"
    target.mkdir(mode=0o755)
    link.symlink_to(target)
    with pytest.raises(DaemonError, match="link"):
        endpoint.make_socket_dir(link)
    endpoint.make_socket_dir(target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o700


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(DaemonError, match="belongs to user id"):
        endpoint.make_private_dir(tmp_path)


def test_peers_of_another_user_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = socket.socketpair()
    with left, right:
        assert endpoint.is_peer_allowed(left)
        monkeypatch.setattr(os, "getuid", lambda: 12_345)
        assert not endpoint.is_peer_allowed(left)


# ----------------------------------------------------------------------------------------------------------- life


def test_requests_wait_while_the_service_is_being_opened(
    start_daemon: Callable[..., Any], palace: Any, open_wire: Callable[[Path], Any]
) -> None:
    opened = threading.Event()

    def open_slowly(_config: Config) -> Any:
        assert opened.wait(10)
        return palace

    running = start_daemon(open_slowly)
    wire = open_wire(running.path)
    assert "result" in wire.call("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    wire.request(2, "palace/recall", {"query": "q"})
    wire.request(3, "palace/recall", {"query": "withdrawn"})
    wire.notify("$/cancelRequest", {"id": 3})
    assert wire.answer()["error"]["code"] == -32800
    opened.set()
    assert wire.answer()["id"] == 2
    assert [query.text for query in palace.queries] == ["q"]


def test_those_who_waited_are_answered_before_the_threads_of_the_service_begin(
    start_daemon: Callable[..., Any],
    palace: Any,
    open_wire: Callable[[Path], Any],
    wait_until: Callable[..., None],
) -> None:
    opened, answered = threading.Event(), threading.Event()
    began_after: list[bool] = []

    def open_slowly(_config: Config) -> Any:
        assert opened.wait(10)
        return palace

    def start() -> None:
        began_after.append(len(palace.queries) == 1)
        assert answered.wait(60), "the answer does not wait for this"

    palace.start = start
    running = start_daemon(open_slowly)
    wire = open_wire(running.path)
    wire.request(1, "palace/recall", {"query": "q"})
    wire.request(2, "palace/sessions", {})
    opened.set()
    assert {wire.answer()["id"], wire.answer()["id"]} == {1, 2}
    answered.set()
    wait_until(lambda: began_after == [True])


def test_a_service_that_cannot_start_ends_the_daemon(start_daemon: Callable[..., Any], palace: Any) -> None:
    def start() -> None:
        raise StoreError("another program holds the database", hint="end it")

    palace.start = start
    running = start_daemon(lambda _config: palace)
    running.thread.join(60)
    assert not running.thread.is_alive()
    assert isinstance(running.daemon.failure, StoreError)
    assert palace.is_closed


def test_a_service_that_cannot_be_opened_is_told_to_clients_and_ends_the_daemon(
    start_daemon: Callable[..., Any], open_wire: Callable[[Path], Any]
) -> None:
    go = threading.Event()

    def fail(_config: Config) -> Any:
        assert go.wait(10)
        raise StoreError("the database is made of cheese", hint="eat it")

    running = start_daemon(fail)
    wire = open_wire(running.path)
    wire.request(1, "palace/status")
    wire.request(2, "palace/status")
    go.set()
    assert {wire.answer()["error"]["code"] for _ in range(2)} == {-32030}
    running.thread.join(60)
    assert not running.thread.is_alive()
    assert isinstance(running.daemon.failure, StoreError)


def test_stop_is_answered_and_closes_everything(running: Any, connect: Any, palace: Any) -> None:
    other, wire = connect(), connect()
    other.request(1, "palace/mine", {"wait": True})
    assert wire.call("palace/stop")["result"] == {"stopping": True}
    running.thread.join(60)
    assert not running.thread.is_alive()
    assert palace.is_closed
    assert wire.read_end() == b""
    other.read_end()


def test_stopping_while_the_service_is_being_opened_closes_it(start_daemon: Callable[..., Any], palace: Any) -> None:
    entered, opened = threading.Event(), threading.Event()

    def open_slowly(_config: Config) -> Any:
        entered.set()
        assert opened.wait(10)
        return palace

    running = start_daemon(open_slowly)
    assert entered.wait(10)
    running.daemon.stop()
    opened.set()
    running.thread.join(60)
    assert palace.is_closed


def test_a_service_that_will_not_close_does_not_keep_the_daemon(start_daemon: Callable[..., Any], palace: Any) -> None:
    release, is_closed = threading.Event(), threading.Event()

    def close() -> None:
        release.wait()
        is_closed.set()

    palace.close = close
    running = start_daemon(lambda _config: palace)
    try:
        running.stop()
        assert not is_closed.is_set(), "the daemon is gone, and the service still closes"
    finally:
        release.set()


def test_a_process_whose_service_never_closes_is_ended_all_the_same(
    tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    script = tmp_path / "serve.py"
    script.write_text(NEVER_CLOSED.format(tests=str(Path(__file__).parents[1])))
    command = [sys.executable, str(script), "serve"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        wait_until(places.socket_path(places.data_dir()).exists)
        with Client(timeout_s=60.0) as client:
            assert client.request("palace/status")["pid"] == 1, "it is open"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == serve.EXIT_FAILED
    assert "did not stop" in places.log_file(places.data_dir()).read_text()


def test_all_that_a_stop_waits_for_is_over_within_two_seconds() -> None:
    """What a busy machine adds is nothing that a clock here could tell from a fault."""
    assert serve.HARD_STOP_S == 2.0
    assert server.CLOSE_S + 2 * session.HANG_UP_S < serve.HARD_STOP_S


def test_connections_are_bounded_and_a_free_place_is_given_away(
    running: Any, connect: Any, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    monkeypatch.setattr("palace_daemon.rpc.server.CONNECTIONS_MAX", 2)
    first, second = connect(), connect()
    assert "result" in first.call("palace/status")
    assert "result" in second.call("palace/status")
    assert connect().read_end() == b""
    first.close()

    def is_served() -> bool:
        with contextlib.suppress(ConnectionError):
            return "result" in connect().call("palace/status")
        return False

    wait_until(is_served)


# ----------------------------------------------------------------------------------------------------------- logs


def test_the_log_is_private_rotates_and_never_prints(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "logs" / "daemon.log"
    handlers = logs.set_up(path, "INFO", with_stderr=False)
    try:
        assert len(handlers) == 1
        handlers[0].maxBytes = 400  # type: ignore[attr-defined]
        for number in range(20):
            logging.getLogger("palace_daemon.test").info("line %d of a log that rotates", number)
    finally:
        logs.tear_down(handlers)
    files = sorted(path.parent.iterdir())
    assert len(files) == logs.FILES_KEPT + 1
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert capfd.readouterr() == ("", "")


def test_a_log_that_cannot_be_written_goes_to_standard_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    handlers = logs.set_up(tmp_path / "file" / "daemon.log", "INFO", with_stderr=False)
    logs.tear_down(handlers)
    out, err = capfd.readouterr()
    assert out == ""
    assert "cannot write the log" in err


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """The path of a log that is set up."""
    path = tmp_path / "logs" / "daemon.log"
    handlers = logs.set_up(path, "INFO", with_stderr=False)
    yield path
    logs.tear_down(handlers)


def test_a_log_whose_directory_was_removed_is_made_anew(log: Path) -> None:
    shutil.rmtree(log.parent)
    logging.getLogger("palace_daemon.test").info("after the cleaner")
    assert "after the cleaner" in log.read_text()
    assert (stat.S_IMODE(log.parent.stat().st_mode), stat.S_IMODE(log.stat().st_mode)) == (0o700, 0o600)


def test_a_log_that_another_process_rotated_goes_on_under_its_name(log: Path) -> None:
    log.rename(log.with_name("daemon.log.1"))
    logging.getLogger("palace_daemon.test").info("after the rotation")
    assert "after the rotation" in log.read_text()
    assert "after" not in log.with_name("daemon.log.1").read_text()


def test_a_log_that_cannot_be_made_anew_is_lost_without_a_word_until_it_can(
    log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(log.parent)
    log.parent.write_text("in the way")
    logging.getLogger("palace_daemon.test").info("nowhere")
    log.parent.unlink()
    logging.getLogger("palace_daemon.test").info("there again")
    assert "nowhere" not in log.read_text()
    assert "there again" in log.read_text()
    assert capfd.readouterr() == ("", "")


def test_a_log_on_a_full_disk_disturbs_nobody(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "daemon.log").symlink_to("/dev/full")
    handlers = logs.set_up(tmp_path / "daemon.log", "INFO", with_stderr=False)
    logging.getLogger("palace_daemon.test").info("no room")
    logs.tear_down(handlers)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_the_daemon_still_imports_ends_it_cleanly(
    number: signal.Signals, wait_until: Callable[..., None]
) -> None:
    command = [sys.executable, "-m", "palace_daemon", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        wait_until(places.socket_path(places.data_dir()).exists)
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"")
    assert not places.socket_path(places.data_dir()).exists()
