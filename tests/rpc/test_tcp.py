"""The port on 127.0.0.1: it opens to the token alone, and the client tells nothing to whoever lacks the proof."""

from __future__ import annotations

import json
import os
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
from rpc.fake_daemon import FAKE_SERVE, FakePalace, Running, Wire

from palace_daemon import places
from palace_daemon.client import Client, NotRunningError
from palace_daemon.config import Config
from palace_daemon.errors import DaemonError
from palace_daemon.rpc import frames, loopback

INITIALIZE: dict[str, Any] = {"processId": None, "rootUri": None, "capabilities": {}}
RECALL = {"jsonrpc": "2.0", "id": 1, "method": "palace/recall", "params": {"query": "stolen"}}


@pytest.fixture
def stranger(running: Running) -> Iterator[Callable[[], Wire]]:
    """Connections that have not shown the token."""
    wires: list[Wire] = []

    def connect() -> Wire:
        wires.append(Wire.tcp(running.tcp, token=""))
        return wires[-1]

    yield connect
    for wire in wires:
        wire.close()


def hello(token: Any, message_id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message_id, "method": "palace/hello", "params": {"token": token}}


# ------------------------------------------------------------------------------------------------------------- token


def test_the_token_opens_and_the_answer_carries_the_proof(running: Running, stranger: Callable[[], Wire]) -> None:
    wire = stranger()
    result = wire.call("palace/hello", {"token": running.tcp.secret.token})["result"]
    assert result["proof"] == running.tcp.secret.proof
    assert (result["protocolVersion"], "palace/recall" in result["methods"]) == (1, True)
    assert "result" in wire.call("palace/recall", {"query": "q"})


def test_an_editor_shows_the_token_in_initialize(running: Running, stranger: Callable[[], Wire]) -> None:
    wire = stranger()
    options = {"token": running.tcp.secret.token, "events": ["didMine"], "someoneElses": 1}
    result = wire.call("initialize", {**INITIALIZE, "initializationOptions": options})["result"]
    assert result["capabilities"]["experimental"]["palace"]["proof"] == running.tcp.secret.proof
    assert "result" in wire.call("palace/recall", {"query": "q"})


def test_on_the_socket_nothing_is_asked_for_and_nothing_given_away(wire: Wire) -> None:
    assert wire.call("palace/hello")["result"]["proof"] == ""
    assert wire.call("palace/hello", {"token": "any"})["result"]["proof"] == ""


FIRST_MESSAGES: list[tuple[bytes, Any]] = [
    (json.dumps(RECALL).encode(), 1),
    (json.dumps(hello("")).encode(), 1),
    (json.dumps(hello("0" * 64, "x")).encode(), "x"),
    (json.dumps(hello(None)).encode(), 1),
    (json.dumps(hello(7)).encode(), 1),
    (json.dumps(hello("\ud800")).encode(), 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"palace/hello"}', 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"palace/hello","params":["TOKEN"]}', 1),
    (b'{"jsonrpc":"2.0","method":"palace/hello","params":{"token":"TOKEN"}}', None),
    (b'{"jsonrpc":"2.0","id":1,"method":"palace/recall","params":{"query":"stolen","token":"TOKEN"}}', 1),
    (b'[{"jsonrpc":"2.0","id":1,"method":"palace/hello","params":{"token":"TOKEN"}}]', None),
    (b'{"jsonrpc":"2.0","id":1,"method":"palace/stop"}', 1),
    (b'{"jsonrpc":"2.0","method":"exit"}', None),
    (b'{"jsonrpc":"2.0","id":1,"result":{}}', None),
    (json.dumps({**RECALL, "method": "initialize", "params": INITIALIZE}).encode(), 1),
    (json.dumps({**RECALL, "method": "initialize", "params": {"initializationOptions": {"token": 1}}}).encode(), 1),
    (b"{", None),
    (b"", None),
]


@pytest.mark.parametrize(("body", "message_id"), FIRST_MESSAGES)
def test_any_other_first_message_has_one_refusal_and_the_end(
    running: Running, palace: FakePalace, stranger: Callable[[], Wire], body: bytes, message_id: Any
) -> None:
    wire = stranger()
    body = body.replace(b"TOKEN", running.tcp.secret.token.encode())
    # What follows in the same breath is not looked at, not even with the right token.
    second = json.dumps(hello(running.tcp.secret.token)).encode()
    wire.socket.sendall(frames.encode(body) + frames.encode(second) + frames.encode(json.dumps(RECALL).encode()))
    refusal = wire.read()
    assert (refusal["id"], refusal["error"]["code"]) == (message_id, -32071)
    assert refusal["error"]["data"] == {"kind": "token"}
    assert wire.read_end() == b""
    assert palace.queries == []
    assert running.thread.is_alive()


@pytest.mark.parametrize("header", [b"Content-Length: x\r\n\r\n", b"Content-Length: 99999999\r\n\r\n"])
def test_a_bad_first_frame_has_one_refusal_and_the_end(stranger: Callable[[], Wire], header: bytes) -> None:
    wire = stranger()
    wire.socket.sendall(header)
    assert wire.read()["error"]["code"] == -32071
    assert wire.read_end() == b""


def test_a_web_page_has_no_answer_at_all(palace: FakePalace, stranger: Callable[[], Wire]) -> None:
    wire = stranger()
    body = frames.encode(json.dumps(RECALL).encode())
    wire.socket.sendall(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9999\r\n\r\n" + body)
    assert wire.read_end() == b""
    assert palace.queries == []


def test_a_first_message_without_end_is_not_collected(stranger: Callable[[], Wire]) -> None:
    wire = stranger()
    wire.socket.sendall(b"Content-Length: 16000000\r\n\r\n" + b"x" * loopback.FIRST_FRAME_BYTES_MAX)
    assert wire.read()["error"]["code"] == -32071


def test_a_connection_that_says_nothing_is_closed(
    stranger: Callable[[], Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loopback, "GREETING_S", 0.1)
    assert stranger().read_end() == b""


def test_strangers_take_no_places_from_clients(
    running: Running, stranger: Callable[[], Wire], monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    monkeypatch.setattr(loopback, "STRANGERS_MAX", 2)
    first, second = stranger(), stranger()
    wait_until(lambda: len(running.daemon._sessions) == 2)
    assert stranger().read_end() == b""
    greeted = first.call("palace/hello", {"token": running.tcp.secret.token})
    assert "result" in greeted
    third = stranger()
    assert "result" in third.call("palace/hello", {"token": running.tcp.secret.token})
    assert second.is_silent(0.01)


# -------------------------------------------------------------------------------------------------------------- file


def test_the_file_is_private_and_the_port_this_machines_alone(running: Running) -> None:
    path = places.tcp_file(Config().data_dir)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    told = json.loads(path.read_text())
    assert told["port"] == running.tcp.port
    assert (len(told["token"]), len(told["proof"])) == (64, 64)
    assert told["token"] != told["proof"]
    assert running.tcp.listener.getsockname()[0] == "127.0.0.1"
    assert told["token"] not in repr(running.tcp)
    running.stop()
    assert not path.exists()


def test_each_daemon_has_a_secret_of_its_own_and_replaces_what_a_dead_one_left(runtime_dir: Path) -> None:
    path = runtime_dir / "p" / "a.tcp.json"
    dead, living = loopback.listen(path), loopback.listen(path)
    assert dead.secret != living.secret
    assert json.loads(path.read_text())["token"] == living.secret.token
    living.close()
    dead.close()


def test_a_port_that_is_taken_is_an_error_with_a_way_out(runtime_dir: Path) -> None:
    first = loopback.listen(runtime_dir / "p" / "a.tcp.json")
    with pytest.raises(DaemonError, match=r"cannot listen on 127.0.0.1:\d+: .*serve.tcp_port"):
        loopback.listen(runtime_dir / "p" / "b.tcp.json", first.port)
    first.close()


# ------------------------------------------------------------------------------------------------------------ client


def test_the_client_asks_over_tcp_and_comes_back_the_same_way(
    running: Running, palace: FakePalace, wait_until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The socket is not there to fall back on.
    monkeypatch.setattr(places, "socket_path", lambda _data: Path("/nonexistent/a.sock"))
    monkeypatch.setattr(places, "tcp_file", lambda _data: running.tcp.path)
    with Client(timeout_s=10.0).connect_tcp() as client:
        assert client.request("palace/recall", {"query": "q"})["hits"][0]["text"] == "echo: q"
        client.timeout_s = 1.0  # long enough for the work to begin
        with pytest.raises(DaemonError, match="did not answer"):
            client.request("palace/recall", {"query": "wait"})
        wait_until(lambda: palace.cancelled == 1)
        client.timeout_s = 10.0
        assert client.request("palace/status")["pid"] == 1


def test_the_client_tells_nothing_to_another_program_on_the_port(running: Running) -> None:
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as impostor:
        told = json.loads(running.tcp.path.read_text())
        running.tcp.path.write_text(json.dumps({**told, "port": impostor.getsockname()[1]}))

        def answer() -> None:
            connection, _ = impostor.accept()
            with connection:
                heard.append(connection.recv(65536))
                body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"proof": "f" * 64}}).encode()
                connection.sendall(frames.encode(body))
                heard.append(connection.recv(65536))

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(DaemonError, match="another program answers"):
            Client(timeout_s=10.0).connect_tcp()
        thread.join(60)
    assert heard[1:] == [b""], "after the greeting nothing was said"


def test_a_file_that_others_can_read_is_not_used(running: Running) -> None:
    running.tcp.path.chmod(0o644)
    with pytest.raises(DaemonError, match="others may read"):
        Client().connect_tcp()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"port": "x", "token": "", "proof": ""}'])
def test_a_file_that_makes_no_sense_is_an_error(running: Running, text: str) -> None:
    running.tcp.path.write_text(text)
    with pytest.raises(DaemonError, match="cannot use"):
        Client().connect_tcp()


def test_without_a_daemon_on_tcp_connecting_says_so(running: Running) -> None:
    left = running.tcp.path.read_text()
    running.stop()
    with pytest.raises(NotRunningError):
        Client().connect_tcp()
    running.tcp.path.touch(0o600)
    running.tcp.path.write_text(left)
    with pytest.raises(NotRunningError):
        Client().connect_tcp()


# ------------------------------------------------------------------------------------------------------------- serve


@pytest.fixture
def serve(tmp_path: Path) -> list[str]:
    """The command of a daemon process over the fake service."""
    script = tmp_path / "serve.py"
    script.write_text(FAKE_SERVE.format(tests=str(Path(__file__).parents[1])))
    return [sys.executable, str(script), "serve"]


def test_serve_listens_on_tcp_when_it_is_told_to(serve: list[str], wait_until: Callable[..., None]) -> None:
    path = places.tcp_file(places.data_dir())
    with subprocess.Popen([*serve, "--tcp"], stderr=subprocess.PIPE) as process:
        wait_until(path.exists)
        with Client(timeout_s=30.0).connect_tcp() as client:
            assert client.request("palace/status")["pid"] == 1
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 0
    assert not path.exists()
    assert b"127.0.0.1" in log


def test_serve_listens_on_the_socket_alone_by_default(serve: list[str], wait_until: Callable[..., None]) -> None:
    path = places.tcp_file(places.data_dir())
    loopback.listen(path).listener.close()  # what a killed daemon leaves
    with subprocess.Popen(serve, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: not path.exists())
        with Client(timeout_s=30.0).connect_or_start() as client:
            assert client.request("palace/status")["pid"] == 1
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert not path.exists()
    assert os.listdir(path.parent) == []
