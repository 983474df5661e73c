"""The synchronous client, against the fake daemon in this process, and starting processes where that is the point."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rpc.fake_daemon import FAKE_SERVE

from palace_daemon import client as client_module
from palace_daemon import errors, places, starting
from palace_daemon.cli import ending
from palace_daemon.client import BadParamsError, Client, NotRunningError
from palace_daemon.errors import CancelledError, DaemonError, NotFoundError, PalaceError, RequestError
from palace_daemon.rpc import endpoint, wire
from palace_daemon.rpc import errors as rpc_errors
from palace_daemon.rpc import serve as serve_module


@pytest.fixture
def client(running: Any) -> Iterator[Client]:
    with Client(timeout_s=10.0) as connected:
        yield connected


# ------------------------------------------------------------------------------------------------------- requests


def test_requests_are_answered_and_the_connection_is_kept(client: Client) -> None:
    for number in range(3):
        answer = client.request("palace/recall", {"query": f"żółw {number}"})
        assert answer["hits"][0]["text"] == f"echo: żółw {number}"


def test_large_answers_arrive_whole(client: Client) -> None:
    answer = client.request("palace/recall", {"query": "size5000000"})
    assert len(answer["hits"][0]["text"]) == 5_000_000


def test_notifications_go_to_the_listener_and_not_into_the_answer(client: Client) -> None:
    seen: list[str] = []
    client.subscribe(["didMine"])
    report = client.request(
        "palace/mine", {"newest": 1, "workDoneToken": "t"}, lambda method, _params: seen.append(method)
    )
    assert report["files"] == 2
    assert set(seen) == {"$/progress", "palace/didMine"}
    assert client.request("palace/status")["pid"] == 1


def test_notifications_come_between_requests_where_they_are_waited_for(client: Client, running: Any) -> None:
    assert client.next_notification(0.01) is None
    client.subscribe(["didMine", "didChangeStatus"])
    first = client.next_notification(10.0)
    assert first is not None
    assert (first[0], first[1]["pid"]) == ("palace/didChangeStatus", 1)
    with Client(timeout_s=10.0) as other:
        other.request("palace/mine", {"newest": 1})
    told = client.next_notification(10.0)
    assert told is not None
    assert (told[0], told[1]["files"]) == ("palace/didMine", 2)
    assert client.next_notification(0.05) is None
    assert client.request("palace/status")["pid"] == 1
    running.stop()
    with pytest.raises(DaemonError, match="lost the daemon"):
        client.next_notification(10.0)


def test_waiting_for_notifications_leaves_requests_their_own_time(client: Client) -> None:
    for _ in range(20):
        assert client.next_notification(0.0005) is None
    answer = client.request("palace/recall", {"query": "x" * 8_000_000})  # more than lies in the socket's buffer
    assert len(answer["hits"][0]["text"]) == 8_000_000 + len("echo: ")


def test_errors_come_back_as_the_class_that_they_were(client: Client) -> None:
    with pytest.raises(NotFoundError, match="no exchange"):
        client.request("palace/get", {"id": "e9"})
    with pytest.raises(RequestError) as unknown:
        client.request("palace/recall", {"query": "q", "agent": "nobody"})
    assert str(unknown.value) == "unknown agent 'nobody' (known are claude-code, codex)"
    with pytest.raises(BadParamsError) as refused:
        client.request("palace/recall", {"query": 1})
    assert refused.value.path == "$.query"
    with pytest.raises(DaemonError, match="no such method"):
        client.request("palace/nonsense")


def test_every_kind_of_error_has_a_code_and_comes_back_as_its_class() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, PalaceError)]
    for kind in classes:
        if kind is PalaceError:
            continue
        assert kind.kind in rpc_errors.CODES, kind
        sent = rpc_errors.from_exception(kind("words", hint="do this"), logging.getLogger("test"))
        received = client_module.error_from_wire(json.loads(json.dumps(sent)))
        assert type(received) is kind
        assert str(received) == "words (do this)"
    assert len(set(rpc_errors.CODES.values())) == len(rpc_errors.CODES)


def test_a_late_answer_is_an_error_and_the_work_is_cancelled(
    running: Any, palace: Any, wait_until: Callable[..., None]
) -> None:
    impatient = Client(timeout_s=10.0)
    assert impatient.request("palace/status")["pid"] == 1
    impatient.timeout_s = 1.0  # long enough for the work to begin
    with impatient, pytest.raises(DaemonError, match=r"did not answer palace/recall in 1 s"):
        impatient.request("palace/recall", {"query": "wait"})
    wait_until(lambda: palace.cancelled == 1)
    impatient.timeout_s = 10.0
    assert impatient.request("palace/status")["pid"] == 1, "the next request connects anew"
    impatient.close()


def test_a_daemon_that_goes_away_is_an_error(client: Client, running: Any) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.request, "palace/recall", {"query": "wait"})
        time.sleep(0.05)
        running.stop()
        with pytest.raises((DaemonError, CancelledError)):
            waiting.result(10)


def test_a_peer_that_is_no_daemon_is_an_error(runtime_dir: Path) -> None:
    path = places.socket_path(places.data_dir())
    listener = endpoint.listen(path)
    listener.setblocking(True)

    def answer_nonsense() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: twelve\r\n\r\n")

    thread = threading.Thread(target=answer_nonsense)
    thread.start()
    with Client(timeout_s=5.0) as peer, pytest.raises(DaemonError, match="lost the daemon"):
        peer.request("palace/status")
    thread.join(60)
    endpoint.remove_socket(path, listener)


# ------------------------------------------------------------------------------------------------------ ownership


def test_without_a_daemon_connecting_says_so() -> None:
    with pytest.raises(NotRunningError):
        Client().connect()
    path = places.socket_path(places.data_dir())
    endpoint.listen(path).close()
    with pytest.raises(NotRunningError):
        Client().connect()


def test_a_socket_of_somebody_else_is_not_told_anything(running: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path, owner = places.socket_path(places.data_dir()), os.getuid()
    monkeypatch.setattr(places, "socket_path", lambda _data: path)
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(DaemonError, match="another user"):
        Client().connect()


def test_a_socket_in_a_directory_that_others_can_change_is_refused(running: Any) -> None:
    running.path.parent.chmod(0o777)
    with pytest.raises(DaemonError, match="others may change"):
        Client().connect()


def test_two_data_directories_never_share_a_daemon(running: Any, tmp_path: Path) -> None:
    with pytest.raises(NotRunningError):
        Client(tmp_path / "other").connect()


# ------------------------------------------------------------------------------------------------------- starting


@pytest.fixture
def fake_daemons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have clients start real daemon processes whose service is the fake; stops them afterwards."""
    script = tmp_path / "serve.py"
    script.write_text(FAKE_SERVE.format(tests=str(Path(__file__).parents[1])))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nshift 2\nexec "{sys.executable}" "{script}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    yield
    # All of them: one that lost the race for the lock takes over when the winner ends while it still waits.
    deadline = time.monotonic() + 20.0
    while running := processes_of(script):
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        assert time.monotonic() < deadline, f"daemons that do not end: {running}"
        time.sleep(0.05)


def processes_of(script: Path) -> list[int]:
    """Return the processes that run ``script``."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(script).encode() in (entry / "cmdline").read_bytes() and "Z" not in state_of(entry):
                found.append(int(entry.name))
    return found


def state_of(entry: Path) -> str:
    """Return the state letter of a process; one that has ended and is not yet reaped is a zombie, Z."""
    return (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]


def lock_holder() -> int:
    pid: int = json.loads((places.data_dir() / endpoint.LOCK_NAME).read_text())["pid"]
    return pid


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_missing_daemon_is_started_and_outlives_its_starter(
    fake_daemons: None, wait_until: Callable[..., None]
) -> None:
    with Client(timeout_s=20.0).connect_or_start() as first:
        assert first.request("palace/recall", {"query": "q"})["hits"][0]["text"] == "echo: q"
    pid = lock_holder()
    assert os.getpgid(pid) == pid, "it leads a session of its own, so that a terminal's signals do not reach it"
    with Client(timeout_s=10.0) as second:
        wait_until(lambda: {os.readlink(f"/proc/{pid}/fd/{number}") for number in (0, 1, 2)} == {"/dev/null"})
        second.request("palace/stop")
    wait_until(lambda: not is_alive(pid))
    assert not places.socket_path(places.data_dir()).exists()


def test_a_daemon_is_found_from_a_session_with_another_runtime_directory(
    fake_daemons: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    Client(timeout_s=20.0).connect_or_start().close()
    pid, usual = lock_holder(), places.socket_path(places.data_dir())
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    assert places.socket_path(places.data_dir()) != usual
    with Client(timeout_s=10.0).connect_or_start() as client:
        assert client.request("palace/recall", {"query": "q"})["hits"][0]["text"] == "echo: q"
    assert lock_holder() == pid
    assert ending.end(None)
    wait_until(lambda: not is_alive(pid))
    assert not ending.end(None)


def test_what_a_lock_says_of_a_socket_is_believed_only_where_it_is_ones_own(running: Any, tmp_path: Path) -> None:
    data = tmp_path / "another"
    data.mkdir()
    lock = data / endpoint.LOCK_NAME
    for told in ('{"socket": 5}', '{"socket": "run/a.sock"}', '{"socket": "/a\\u0000b"}', "[]", "{"):
        lock.write_text(told)
        with pytest.raises(NotRunningError):
            Client(data).connect()
    open_to_all = tmp_path / "open"
    open_to_all.mkdir(mode=0o777)
    open_to_all.chmod(0o777)
    path = open_to_all / places.socket_path(data).name
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        lock.write_text(json.dumps({"socket": str(path)}))
        listener.listen()
        with pytest.raises(NotRunningError):
            Client(data).connect()
        open_to_all.chmod(0o700)
        Client(data).connect().close()


def test_a_directory_that_somebody_holds_who_does_not_answer_is_named(fake_daemons: None) -> None:
    with endpoint.DataLock(places.data_dir()):
        with pytest.raises(DaemonError, match=r"another process holds .*daemon\.lock"):
            Client().connect_or_start(2.0)
        with pytest.raises(DaemonError, match=r"another process holds .*daemon\.lock"):
            ending.end(None)


def test_clients_that_start_at_once_end_with_one_daemon(fake_daemons: None) -> None:
    def start(number: int) -> str:
        with Client(timeout_s=30.0).connect_or_start(30.0) as started:
            text: str = started.request("palace/recall", {"query": str(number)})["hits"][0]["text"]
            return text

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(start, range(4))) == [f"echo: {number}" for number in range(4)]
    with pytest.raises(endpoint.LockedError):
        endpoint.DataLock(places.data_dir()).acquire()


def test_a_daemon_that_was_killed_leaves_nothing_in_the_way(
    fake_daemons: None, wait_until: Callable[..., None]
) -> None:
    with Client(timeout_s=20.0).connect_or_start() as first:
        first.request("palace/status")
        pid = lock_holder()
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(DaemonError):
            first.request("palace/status")
    wait_until(lambda: not is_alive(pid))
    assert places.socket_path(places.data_dir()).exists(), "the stale socket is still there"
    with Client(timeout_s=20.0).connect_or_start() as second:
        assert second.request("palace/status")["pid"] == 1
    assert lock_holder() != pid


def test_a_daemon_that_cannot_start_is_quoted(fake_daemons: None) -> None:
    path = places.socket_path(places.data_dir())
    path.parent.mkdir(mode=0o700)
    path.mkdir()
    with pytest.raises(DaemonError, match="is no socket"):
        Client().connect_or_start()
    path.rmdir()
    places.data_dir().write_text("in the way")
    with pytest.raises(DaemonError, match=r"the daemon did not start: cannot use .*palace"):
        Client().connect_or_start()
    places.data_dir().unlink()


def test_a_program_that_is_no_daemon_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'palace-daemon: out of cheese' >&2\nexit 9\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(DaemonError, match="did not start: out of cheese"):
        Client().connect_or_start()


def test_a_daemon_that_never_listens_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 3\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(DaemonError, match="does not answer"):
        Client().connect_or_start(0.3)


def test_the_exit_code_for_a_locked_directory_is_the_same_on_both_sides() -> None:
    assert starting.EXIT_LOCKED == serve_module.EXIT_LOCKED
    assert starting.LOCK_NAME == endpoint.LOCK_NAME
    assert client_module.PROTOCOL_VERSION == wire.PROTOCOL_VERSION


# ---------------------------------------------------------------------------------------------------------- stdio


def frame(message: Any) -> bytes:
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


@pytest.fixture
def stdio(running: Any) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "palace_daemon", "--stdio"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_stdio_joins_the_running_daemon_and_answers_after_input_ended(stdio: subprocess.Popen[bytes]) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "palace/recall", "params": {"query": "over stdio"}}
    out, _ = stdio.communicate(frame(request), timeout=60)
    head, _, body = out.partition(b"\r\n\r\n")
    assert head == b"Content-Length: %d" % len(body)
    assert json.loads(body)["result"]["hits"][0]["text"] == "echo: over stdio"
    assert stdio.returncode == 0


def test_stdio_ends_when_the_daemon_hangs_up(stdio: subprocess.Popen[bytes]) -> None:
    assert stdio.stdin is not None
    stdio.stdin.write(b"GET / HTTP/1.1\r\n")
    stdio.stdin.flush()
    assert stdio.wait(60) == 0


def test_stdio_ends_when_nobody_reads_its_output_any_more(
    stdio: subprocess.Popen[bytes], palace: Any, wait_until: Callable[..., None]
) -> None:
    assert stdio.stdin is not None
    assert stdio.stdout is not None
    stdio.stdin.write(frame({"jsonrpc": "2.0", "id": 1, "method": "palace/recall", "params": {"query": "wait"}}))
    stdio.stdin.flush()
    wait_until(lambda: palace.waiting == 1)
    stdio.stdout.close()
    assert stdio.wait(60) == 0
    wait_until(lambda: palace.cancelled == 1)


def test_a_detached_socket_is_the_callers(running: Any) -> None:
    attached = Client(timeout_s=10.0).connect()
    with attached.detach() as connection:
        assert isinstance(connection, socket.socket)
        connection.settimeout(10)
        connection.sendall(frame({"jsonrpc": "2.0", "id": 1, "method": "palace/status"}))
        assert connection.recv(4096).startswith(b"Content-Length: ")
    with pytest.raises(DaemonError):
        attached.detach()
