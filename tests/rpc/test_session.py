"""The protocol over each transport: every request has exactly one answer, whatever was sent."""

from __future__ import annotations

import json
import logging
import socket
import threading
from typing import Any

import pytest

from palace_daemon.rpc import frames, session, wire

HIT_KEYS = {
    "drawerId", "exchangeId", "sessionId", "sessionTitle", "project", "agent", "startedAt", "text", "path",
    "lineStart", "lineEnd", "score", "parts", "matchedTerms", "alsoIn", "alsoInCount", "neighbours",
}  # fmt: skip
MINE_KEYS = {
    "files", "filesFailed", "sessions", "exchangesAdded", "exchangesReplaced", "exchangesSuperseded", "drawersAdded",
    "drawersRemoved", "vectorsAdded", "linesRead", "linesSkipped", "exchangesLeftOut", "failures", "seconds",
    "secondsToVectors", "vectorsReason", "filesSkipped",
}  # fmt: skip
INITIALIZE: dict[str, Any] = {"processId": None, "rootUri": None, "capabilities": {}}


TRANSPORTS = ["unix", "tcp", "stdio"]
TABLES = ["unix", "tcp"]
"""For long tables: a process for each row would take a minute. Over stdio they run whole, in one connection."""


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def code_of(message: dict[str, Any]) -> int:
    code: int = message["error"]["code"]
    return code


# ------------------------------------------------------------------------------------------------------ results


def test_recall_answers_with_the_agreed_keys(wire: Any, palace: Any) -> None:
    answer = wire.call("palace/recall", {"query": "why", "limit": 4, "maxChars": 9, "project": "tidepool"})
    result = answer["result"]
    assert set(result) == {"hits", "sessions", "totals", "freshness", "tookMs", "isCut", "hitsLeftOut", "projectsNear"}
    assert (result["isCut"], result["hitsLeftOut"], result["projectsNear"]) == (False, 0, [])
    assert result["sessions"] == result["hits"][0]["neighbours"] == []
    assert set(result["hits"][0]) == HIT_KEYS
    assert result["hits"][0]["startedAt"] == "2026-03-04T09:12:31.000Z"
    assert result["totals"] == {"inScope": 3, "matched": 1}
    assert result["freshness"]["lastMinedAt"] == "1970-01-01T00:00:00.000Z"
    assert palace.queries[0].limit == 4
    assert palace.queries[0].max_chars == 9


def test_a_recall_by_session_lists_sessions_beside_the_hits(wire: Any, palace: Any) -> None:
    params = {"query": "again", "groupBySession": True, "neighbours": 1, "maxTokens": 50}
    result = wire.call("palace/recall", params)["result"]
    (session,) = result["sessions"]
    assert set(session) == {"sessionId", "title", "project", "agent", "startedAt", "endedAt", "score", "hits"}
    assert (session["sessionId"], session["title"], session["score"]) == ("s1", "A title", 0.75)
    assert (session["startedAt"], session["endedAt"]) == ("2026-03-04T09:12:31.000Z", "2026-03-04T10:12:31.000Z")
    assert session["hits"] == result["hits"]
    before, after = result["hits"][0]["neighbours"]
    assert before == {
        "exchangeId": "e0", "relation": -1, "startedAt": None, "userText": "What\nnow?", "replyText": "This.",
    }  # fmt: skip
    assert (after["relation"], after["startedAt"]) == (1, "1970-01-01T00:00:00.000Z")
    assert result["hits"][0]["alsoIn"] == [
        {"exchangeId": "e2", "sessionId": "s2", "startedAt": "2026-03-04T09:12:31.000Z", "path": "/t/b.jsonl"}
    ]
    assert result["hits"][0]["alsoInCount"] == 2
    (query,) = palace.queries
    assert (query.by_session, query.neighbours, query.max_tokens, query.fold) == (True, 1, 50, True)


def test_a_recall_without_text_is_answered_since_filters_may_be_all_there_is_to_say(wire: Any, palace: Any) -> None:
    assert wire.call("palace/recall", {"query": "", "project": "tidepool"})["result"]["hits"]
    assert palace.queries[0].text == ""


def test_a_recall_tells_what_a_budget_cut_and_which_projects_are_near(wire: Any) -> None:
    result = wire.call("palace/recall", {"query": "cut", "project": "TIDEPOOL"})["result"]
    assert (result["isCut"], result["hitsLeftOut"], result["projectsNear"]) == (True, 4, ["/w/tidepool"])


def test_a_recall_folds_unless_it_is_told_not_to(wire: Any, palace: Any) -> None:
    assert wire.call("palace/recall", {"query": "again", "fold": False})["result"]["hits"][0]["alsoIn"] == []
    assert (palace.queries[0].fold, palace.queries[0].by_session, palace.queries[0].neighbours) == (False, False, 0)


def test_an_exchange_comes_with_its_neighbours_where_they_are_asked_for(wire: Any) -> None:
    assert wire.call("palace/get", {"id": "e1"})["result"]["neighbours"] == []
    around = wire.call("palace/get", {"id": "e1", "neighbours": 3})["result"]["neighbours"]
    assert [one["relation"] for one in around] == [-1, 1]


def test_every_other_method_answers(wire: Any) -> None:
    assert wire.call("palace/get", {"id": "e1"})["result"]["endedAt"] == "2026-03-04T09:12:32.500Z"
    assert wire.call("palace/status")["result"]["protocolVersion"] == 1
    assert wire.call("palace/sessions", {"since": "2026-03-01T00:00:00+01:00", "limit": 7})["result"]["sessions"][0][
        "startedAt"
    ] == ("2026-02-28T23:00:00.000Z")
    assert wire.call("palace/projects", {"limit": 3})["result"]["projects"] == [
        {"path": "/w/tidepool", "name": "tidepool", "sessions": 2, "exchanges": 3, "agents": ["codex", "note"],
         "newestAt": "2026-03-04T09:12:31.000Z"}
    ]  # fmt: skip
    assert wire.call("palace/projects", {"offset": 1})["result"]["projects"] == []
    assert wire.call("palace/sessions", {"sessionId": "s1"})["result"]["exchanges"][0]["userText"] == "Why?"
    assert wire.call("palace/sources", {"state": "ok"})["result"]["sources"][0]["linesSkipped"] == {"malformed": 1}
    assert wire.call("palace/models", {})["result"]["models"][0]["isActive"] is True
    assert set(wire.call("palace/mine", {"newest": 3})["result"]) == MINE_KEYS


def test_now_with_an_offset_carries_the_zone(wire: Any, palace: Any) -> None:
    wire.call(
        "palace/recall",
        {"query": "q", "now": "2026-03-04T10:00:00+02:00", "since": "2026-03-01", "until": "2026-03-02"},
    )
    query = palace.queries[0]
    assert (query.now, query.utc_offset_minutes) == (1_772_611_200_000, 120)
    # Midnight at +02:00 is 22:00Z of the day before; `until` takes in the whole day that it names.
    assert (query.since, query.until) == (1_772_316_000_000, 1_772_316_000_000 + 2 * 86_400_000)


def test_a_recall_without_a_limit_uses_the_setting(wire: Any, palace: Any) -> None:
    wire.call("palace/recall", {"query": "q"})
    assert palace.queries[0].limit == 10


@pytest.mark.parametrize("message_id", ["abc", "", "\ud800", 2**53 + 1, 2**80, -7, 0])
def test_ids_are_echoed_exactly(wire: Any, message_id: Any) -> None:
    answer = wire.call("palace/recall", {"query": "q"}, message_id)
    assert answer["id"] == message_id
    assert type(answer["id"]) is type(message_id)
    assert "result" in answer


# -------------------------------------------------------------------------------------------------- parameters


BAD_PARAMS: list[tuple[str, Any, str]] = [
    ("palace/recall", None, "$.query"),
    ("palace/recall", {}, "$.query"),
    ("palace/recall", {"query": 1}, "$.query"),
    ("palace/recall", {"query": None}, "$.query"),
    ("palace/recall", {"query": "q", "top-k": 1}, "$.top-k"),
    ("palace/recall", {"query": "q", "project": None}, "$.project"),
    ("palace/recall", {"query": "q", "limit": 0}, "$.limit"),
    ("palace/recall", {"query": "q", "limit": 10**30}, "$.limit"),
    ("palace/recall", {"query": "q", "limit": True}, "$.limit"),
    ("palace/recall", {"query": "q", "limit": 2.5}, "$.limit"),
    ("palace/recall", {"query": "q", "since": "yesterday"}, "$.since"),
    ("palace/recall", {"query": "q", "since": "2026-02-30"}, "$.since"),
    ("palace/recall", {"query": "q", "until": 10**18}, "$.until"),
    ("palace/recall", {"query": "q", "now": []}, "$.now"),
    ("palace/recall", ["q"], "$"),
    ("palace/recall", "q", "$"),
    ("palace/get", {"id": ""}, "$.id"),
    ("palace/get", {"id": "e1", "neighbours": 4}, "$.neighbours"),
    ("palace/recall", {"query": "q", "neighbours": 4}, "$.neighbours"),
    ("palace/recall", {"query": "q", "neighbours": -1}, "$.neighbours"),
    ("palace/recall", {"query": "q", "maxTokens": 0}, "$.maxTokens"),
    ("palace/recall", {"query": "q", "maxChars": 0}, "$.maxChars"),
    ("palace/recall", {"query": "q", "fold": 1}, "$.fold"),
    ("palace/recall", {"query": "q", "groupBySession": "yes"}, "$.groupBySession"),
    ("palace/sources", {"state": "fine"}, "$.state"),
    ("palace/mine", {"paths": ["/a", 3]}, "$.paths[1]"),
    ("palace/mine", {"paths": ["relative.jsonl"]}, "$.paths[0]"),
    ("palace/mine", {"wait": "yes"}, "$.wait"),
    ("palace/status", {"verbose": True}, "$.verbose"),
    ("palace/stop", {"now": True}, "$.now"),
    ("initialize", {"processId": "x", "rootUri": None, "capabilities": {}}, "$.processId"),
]


@pytest.mark.parametrize("transport", TABLES, indirect=True)
@pytest.mark.parametrize(("method", "params", "path"), BAD_PARAMS)
def test_bad_parameters_are_answered_with_the_path_of_the_field(wire: Any, method: str, params: Any, path: str) -> None:
    check_bad_params(wire, method, params, path)


@pytest.mark.parametrize("transport", ["stdio"], indirect=True)
def test_all_bad_parameters_of_one_connection_are_answered(wire: Any) -> None:
    for row in BAD_PARAMS:
        check_bad_params(wire, *row)


def check_bad_params(wire: Any, method: str, params: Any, path: str) -> None:
    answer = wire.call(method, params)
    assert code_of(answer) == -32602
    assert answer["error"]["data"] == {"kind": "params", "path": path}
    assert "result" in wire.call("palace/status", message_id=2)


def test_text_with_lone_surrogates_reaches_the_service_as_valid_unicode(wire: Any, palace: Any) -> None:
    assert "result" in wire.call("palace/recall", {"query": "a\ud800b", "project": "\udfff"})
    assert palace.queries[0].text == "a\ufffdb"
    assert palace.queries[0].project == "\ufffd"


def test_errors_of_the_service_keep_their_kind_and_hint(wire: Any) -> None:
    unknown = wire.call("palace/recall", {"query": "q", "agent": "nobody"})["error"]
    assert unknown["code"] == -32010
    assert unknown["data"] == {"kind": "request", "hint": "known are claude-code, codex"}
    assert code_of(wire.call("palace/get", {"id": "e9"})) == -32011
    assert code_of(wire.call("palace/sessions", {"sessionId": "s9"})) == -32011
    assert code_of(wire.call("palace/mine", {"paths": ["/does/not/exist"]})) == -32020


def test_an_unforeseen_error_shows_neither_traceback_nor_text(wire: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        error = wire.call("palace/recall", {"query": "boom"})["error"]
    assert error["code"] == -32603
    assert error["data"] == {"kind": "internal"}
    assert "BOOM" not in json.dumps(error)
    assert "BOOM" not in caplog.text
    assert "unexpected ValueError" in caplog.text


def test_a_result_that_is_no_json_is_answered_as_an_error(wire: Any) -> None:
    assert code_of(wire.call("palace/recall", {"query": "nan"})) == -32603


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


# ------------------------------------------------------------------------------------------------------ lifetimes


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("palace/recall", {"query": "wait"}),
        ("palace/mine", {"wait": True}),
        ("palace/export", {"path": "/tmp/wait"}),
        ("palace/import", {"path": "/tmp/wait"}),
    ],
)
def test_cancel_stops_the_work_and_is_answered(
    wire: Any, palace: Any, wait_until: Any, method: str, params: Any
) -> None:
    wire.request("a", method, params)
    wait_until(lambda: palace.waiting == 1)
    wire.notify("$/cancelRequest", {"id": "a"})
    answer = wire.answer()
    assert (answer["id"], code_of(answer)) == ("a", -32800)
    wait_until(lambda: palace.cancelled == 1)
    assert wire.is_silent()


def test_cancelled_queued_requests_never_run(wire: Any, palace: Any, wait_until: Any) -> None:
    for number in range(60):
        wire.request(number, "palace/recall", {"query": f"wait {number}"})
    wait_until(lambda: palace.waiting >= 4)
    for number in range(30, 60):
        wire.notify("$/cancelRequest", {"id": number})
    cancelled = [wire.answer() for _ in range(30)]
    palace.gate.set()
    done = [wire.answer() for _ in range(30)]
    assert sorted(message["id"] for message in cancelled) == list(range(30, 60))
    assert all(code_of(message) == -32800 for message in cancelled)
    assert sorted(message["id"] for message in done) == list(range(30))
    assert len(palace.queries) == 30
    assert wire.is_silent()


def test_two_clients_get_their_own_answers(connect: Any) -> None:
    first, second = connect(), connect()
    for number in range(50):
        first.request(number, "palace/recall", {"query": f"first {number}"})
        second.request(number, "palace/recall", {"query": f"second {number}"})
    for name, client in (("first", first), ("second", second)):
        answers = {(message := client.answer())["id"]: message["result"]["hits"][0]["text"] for _ in range(50)}
        assert answers == {number: f"echo: {name} {number}" for number in range(50)}


def test_a_client_that_dies_in_the_middle_stops_its_work_and_nobody_elses(
    connect: Any, palace: Any, wait_until: Any
) -> None:
    leaving, staying = connect(), connect()
    leaving.request(1, "palace/recall", {"query": "wait"})
    wait_until(lambda: palace.waiting == 1)
    staying.request(1, "palace/recall", {"query": "wait"})
    wait_until(lambda: palace.waiting == 2)
    leaving.close()
    wait_until(lambda: palace.cancelled == 1)
    palace.gate.set()
    assert "result" in staying.answer()


def test_a_client_that_only_closed_its_sending_side_gets_its_answers(wire: Any, palace: Any, wait_until: Any) -> None:
    wire.request(1, "palace/recall", {"query": "wait"})
    wire.socket.shutdown(socket.SHUT_WR)
    wait_until(lambda: palace.waiting == 1)
    palace.gate.set()
    assert wire.answer()["result"]["hits"][0]["text"] == "echo: wait"
    assert wire.read_end() == b""


def test_half_a_frame_at_the_end_is_no_request(connect: Any, palace: Any) -> None:
    client = connect()
    client.socket.sendall(b'Content-Length: 900\r\n\r\n{"jsonrpc":"2.0","id":1')
    client.socket.shutdown(socket.SHUT_WR)
    assert client.read_end() == b""
    assert palace.queries == []
    assert "result" in connect().call("palace/status")


def test_a_client_that_does_not_read_is_not_read_from(connect: Any, palace: Any, wait_until: Any) -> None:
    lazy, other = connect(), connect()
    assert "result" in lazy.call("palace/status")
    lazy.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        send_without_end(lazy, {"query": "size1000000"})
    # What lies between us may hold some megabytes; beyond that no answer is made, and no more requests are read.
    assert 0 < len(palace.queries) <= 10 + 2 * session.RUNNING_MAX
    assert "result" in other.call("palace/status")


def send_without_end(client: Any, params: dict[str, Any]) -> None:
    for number in range(100_000):
        client.request(number, "palace/recall", params)


def test_exit_ends_one_connection_and_not_the_daemon(connect: Any, running: Any) -> None:
    leaving, staying = connect(), connect()
    assert "result" in leaving.call("initialize", INITIALIZE)
    leaving.notify("initialized", {})
    assert leaving.call("shutdown")["result"] is None
    assert code_of(leaving.call("palace/status")) == -32600
    leaving.notify("exit")
    assert leaving.read_end() == b""
    assert "result" in staying.call("palace/status")
    assert running.thread.is_alive()


def test_initialize_tells_version_and_methods(wire: Any) -> None:
    result = wire.call("initialize", INITIALIZE)["result"]
    assert result["serverInfo"]["name"] == "palace-daemon"
    palace = result["capabilities"]["experimental"]["palace"]
    assert (palace["protocolVersion"], palace["methods"]) == (1, sorted(wire_methods()))
    assert palace["events"] == ["didMine", "didChangeStatus"]


def wire_methods() -> list[str]:
    return list(wire.METHODS)


# -------------------------------------------------------------------------------------------------- notifications


def test_mining_reports_progress_under_the_clients_token(wire: Any) -> None:
    wire.request(1, "palace/mine", {"newest": 1, "workDoneToken": "t"})
    seen = []
    while "method" in (message := wire.read()):
        if message["method"] == "$/progress":
            seen.append(message["params"])
    assert {params["token"] for params in seen} == {"t"}
    values = [params["value"] for params in seen]
    assert values[0] == {"kind": "begin", "title": "Mining", "cancellable": True}
    assert values[-1] == {"kind": "end"}
    assert values[1] == {
        "kind": "report", "message": "mine: 0 of 3 files", "percentage": 0, "stage": "mine", "done": 0, "total": 3,
        "unit": "files", "etaS": 1.0,
    }  # fmt: skip
    assert len(values) == 5
    assert message["result"]["files"] == 2


def test_progress_is_bounded_and_can_be_cancelled_by_its_token(wire: Any, palace: Any, wait_until: Any) -> None:
    wire.request(1, "palace/mine", {"wait": True, "workDoneToken": 7})
    wait_until(lambda: palace.waiting == 1)
    assert code_of_token(wire) == -32602
    wire.notify("window/workDoneProgress/cancel", {"token": 7})
    answer = wire.answer()
    assert (answer["id"], code_of(answer)) == (1, -32800)
    wait_until(lambda: palace.cancelled == 1)


def code_of_token(wire: Any) -> int:
    wire.request(2, "palace/mine", {"workDoneToken": 7})
    answer = wire.answer()
    assert answer["error"]["data"]["path"] == "$.workDoneToken"
    return code_of(answer)


def test_recall_does_not_wait_behind_mining(connect: Any, palace: Any, wait_until: Any) -> None:
    miner = connect()
    for number in range(8):
        miner.request(number, "palace/mine", {"wait": True})
    wait_until(lambda: palace.waiting == 4)
    assert "result" in connect().call("palace/recall", {"query": "q"})
    palace.gate.set()
    assert sorted(miner.answer()["id"] for _ in range(8)) == list(range(8))


# ----------------------------------------------------------------------------------------------------------- logs


def test_pygls_never_logs_a_body(wire: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert logging.getLogger("pygls").level == logging.WARNING
    with caplog.at_level(logging.DEBUG):
        wire.call("palace/recall", {"query": "a very private question"})
        wire.call("palace/recall", {"query": "a very private question", "limit": "a very private limit"})
        wire.call("initialize", {"processId": "a very private id"})
        wire.notify("$/setTrace", {"value": "a very private trace"})
        wire.call("palace/status")
    assert "very private" not in caplog.text


def test_pygls_stays_quiet_when_it_fails_a_request_itself(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("pygls.protocol.json_rpc")
    with caplog.at_level(logging.DEBUG):
        logger.info("Sending data: %s", "very private")
        logger.error("Failed to handle request %s", "very private", exc_info=ValueError("very private"))
    assert "very private" not in caplog.text
    assert "Failed to handle request" in caplog.text
