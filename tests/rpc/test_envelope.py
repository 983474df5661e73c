"""What a client may send that is no request, over each transport: one answer each, and nothing is executed."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from rpc.fake_daemon import TABLES, TRANSPORTS, code_of

from palace_daemon.rpc import frames


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


# ----------------------------------------------------------------------------------------------------- envelope


BAD_ENVELOPES: list[tuple[bytes, Any, int]] = [
    (b"{", None, -32700),
    (b"", None, -32700),
    (b"\xff\xfe{}", None, -32700),
    (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"palace/status"}', None, -32700),
    (b'{"jsonrpc":"2.0","id":NaN,"method":"palace/status"}', None, -32700),
    (b'{"id":' + b"9" * 5000 + b"}", None, -32700),
    (b"[" * 100_000, None, -32700),
    (b"[]", None, -32600),
    (b'[{"jsonrpc":"2.0","id":1,"method":"palace/status"}]', None, -32600),
    (b'"hello"', None, -32600),
    (b"null", None, -32600),
    (b"{}", None, -32600),
    (b'{"jsonrpc":"1.0","id":5,"method":"palace/status"}', 5, -32600),
    (b'{"id":5,"method":"palace/status"}', 5, -32600),
    (b'{"jsonrpc":"2.0","id":5}', 5, -32600),
    (b'{"jsonrpc":"2.0","id":5,"method":7}', 5, -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"palace/status"}', None, -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"palace/status"}', None, -32600),
    (b'{"jsonrpc":"2.0","id":{"a":1},"method":"palace/status"}', None, -32600),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"palace/status"}', 1.5, -32600),
    (b'{"jsonrpc":"2.0","id":1e400,"method":"palace/status"}', None, -32600),
    (b'{"jsonrpc":"2.0","id":-1e400}', None, -32600),
    (b'{"jsonrpc":"2.0","id":5,"method":"initialized","params":{}}', 5, -32600),
    (b'{"jsonrpc":"2.0","id":5,"method":"exit"}', 5, -32600),
    (b'{"jsonrpc":"2.0","id":5,"method":"$/setTrace","params":{"value":"off"}}', 5, -32600),
    (b'{"jsonrpc":"2.0","id":5,"method":"$/setTrace","params":[]}', 5, -32600),
    (b'{"jsonrpc":"2.0","id":5,"method":"$/cancelRequest","params":{"id":4}}', 5, -32600),
    (b'{"jsonrpc":"2.0","id":5,"method":"window/workDoneProgress/cancel","params":{"token":"x"}}', 5, -32600),
    (b'{"jsonrpc":"2.0","id":5,"method":"palace/forgetEverything"}', 5, -32601),
    (b'{"jsonrpc":"2.0","id":5,"method":"textDocument/hover","params":{}}', 5, -32601),
    (b'{"jsonrpc":"2.0","id":5,"method":"workspace/executeCommand","params":{"command":"x"}}', 5, -32601),
    (b'{"jsonrpc":"2.0","id":5,"method":""}', 5, -32601),
]


@pytest.mark.parametrize("transport", TABLES, indirect=True)
@pytest.mark.parametrize(("body", "message_id", "code"), BAD_ENVELOPES)
def test_a_bad_envelope_has_one_answer_and_the_session_survives(
    wire: Any, body: bytes, message_id: Any, code: int
) -> None:
    check_bad_envelope(wire, body, message_id, code)
    assert wire.is_silent()


@pytest.mark.parametrize("transport", ["stdio"], indirect=True)
def test_all_bad_envelopes_of_one_connection_have_one_answer_each(wire: Any) -> None:
    for row in BAD_ENVELOPES:
        check_bad_envelope(wire, *row)
    assert wire.is_silent()


def check_bad_envelope(wire: Any, body: bytes, message_id: Any, code: int) -> None:
    wire.send_body(body)
    wire.request("next", "palace/get", {"id": "e1"})
    first, second = wire.answer(), wire.answer()
    assert (first["id"], code_of(first)) == (message_id, code)
    assert second["id"] == "next"
    assert "result" in second


def test_nested_jsonrpc_keys_are_only_data(wire: Any) -> None:
    answer = wire.call("palace/recall", {"query": "q", "project": {"jsonrpc": "2.0", "id": 9, "method": "palace/stop"}})
    assert code_of(answer) == -32602


def test_an_id_in_use_is_refused_and_the_first_request_is_answered(wire: Any, palace: Any) -> None:
    wire.request(1, "palace/recall", {"query": "wait"})
    wire.request(1, "palace/status")
    assert code_of(wire.answer()) == -32600
    palace.gate.set()
    assert wire.answer()["result"]["hits"][0]["text"] == "echo: wait"


def test_messages_that_want_no_answer_get_none(wire: Any, palace: Any) -> None:
    wire.notify("palace/recall", {"query": "as a notification"})
    wire.notify("unknown/thing", {"a": 1})
    wire.notify("$/cancelRequest", {"id": "never sent"})
    wire.notify("$/cancelRequest", {})
    wire.notify(
        "textDocument/didOpen", {"textDocument": {"uri": "file:///a", "languageId": "x", "version": 1, "text": ""}}
    )
    wire.send({"jsonrpc": "2.0", "id": 4, "result": None})
    wire.send({"jsonrpc": "2.0", "id": 4, "error": {"code": 1, "message": "x"}})
    assert wire.call("palace/status", message_id=2)["id"] == 2
    assert wire.is_silent()
    assert palace.queries == []


# --------------------------------------------------------------------------------------------------------- frames


@pytest.mark.parametrize(
    "start",
    [
        b"POST / HTTP/1.1\r\nHost: localhost\r\n",
        b"GET /?q=1 HTTP/1.1\r\n",
        b"Host: localhost\r\n",
        b"User-Agent: x\r\n",
        b"\r\n",
        b"{",
        b"\x16\x03\x01\x02\x00",
    ],
)
def test_a_foreign_first_line_closes_the_connection_and_executes_nothing(
    wire: Any, palace: Any, running: Any, start: bytes
) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"palace/recall","params":{"query":"stolen"}}'
    wire.socket.sendall(start + frames.encode(body))
    rest = wire.read_end()
    assert b"HTTP" not in rest
    assert b"result" not in rest
    assert palace.queries == []
    assert running.thread.is_alive()


def test_a_foreign_line_closes_even_before_it_ends(wire: Any) -> None:
    wire.socket.sendall(b"P")
    assert wire.read_end() == b""


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: abc\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 1e3\r\n\r\n",
        b"Content-Length: " + b"9" * 40 + b"\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
        b"Content-Type: application/json\r\n\r\n{}",
        b"Content-Length: 2\r\nno colon\r\n\r\n{}",
        b"Content-Length: 2\r\nX: " + b"y" * 5000 + b"\r\n\r\n{}",
    ],
)
def test_a_bad_header_is_answered_once_and_the_connection_ends(wire: Any, header: bytes) -> None:
    wire.socket.sendall(header)
    assert code_of(wire.read()) == -32700
    assert wire.read_end() == b""


def test_an_oversized_frame_is_refused_and_the_session_survives(wire: Any) -> None:
    length = frames.FRAME_BYTES_MAX + 1
    wire.socket.sendall(b"Content-Length: %d\r\n\r\n" % length)
    refusal = wire.read()
    assert (refusal["id"], code_of(refusal)) == (None, -32600)
    block = b"x" * (1 << 20)
    for _ in range(length // len(block)):
        wire.socket.sendall(block)
    wire.socket.sendall(b"x" * (length % len(block)))
    assert "result" in wire.call("palace/status")


def test_bytes_that_come_one_at_a_time_make_the_same_answer(wire: Any, palace: Any) -> None:
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "palace/recall", "params": {"query": "żółw 記憶"}}, ensure_ascii=False
    )
    whole = b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n" + frames.encode(body.encode())
    for byte in whole:
        wire.socket.sendall(bytes([byte]))
    assert wire.answer()["result"]["hits"][0]["text"] == "echo: żółw 記憶"


def test_many_requests_in_one_write_are_all_answered(wire: Any) -> None:
    bodies = [{"jsonrpc": "2.0", "id": n, "method": "palace/recall", "params": {"query": str(n)}} for n in range(600)]
    blob = b"".join(frames.encode(json.dumps(body).encode()) for body in bodies)
    threading.Thread(target=wire.socket.sendall, args=(blob,)).start()
    answers = {(message := wire.answer())["id"]: message for _ in bodies}
    assert {n: answers[n]["result"]["hits"][0]["text"] for n in range(600)} == {n: f"echo: {n}" for n in range(600)}
