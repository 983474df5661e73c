"""Connections over each transport: how they begin and end, what is cancelled with them, what is told to them."""

from __future__ import annotations

import logging
import socket
from typing import Any

import pytest
from rpc.fake_daemon import INITIALIZE, TRANSPORTS, code_of

from palace_daemon.rpc import session, wire


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


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
    wire.call("palace/status")  # what comes before the service is open is overtaken by what comes just after
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


@pytest.mark.parametrize("transport", ["unix", "stdio"], indirect=True)
def test_a_client_that_dies_with_more_requests_than_are_taken_stops_its_work(
    connect: Any, palace: Any, wait_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "OPEN_REQUESTS_MAX", 3)
    leaving = connect()
    for number in range(8):
        leaving.request(number, "palace/recall", {"query": "wait"})
    wait_until(lambda: palace.waiting == 3)
    leaving.close()
    wait_until(lambda: palace.cancelled == 3)
    assert palace.waiting == 3


@pytest.mark.parametrize("transport", ["unix"], indirect=True)
def test_of_notifications_nothing_is_kept(wire: Any, running: Any) -> None:
    def kept() -> list[int]:
        sessions = running.daemon._sessions.values()
        return [len(one._protocol._request_futures) for one in sessions]

    for _ in range(20):
        wire.notify("initialized", {})
        wire.notify("$/setTrace", {"value": "off"})
        wire.notify("window/workDoneProgress/cancel", {"token": "unknown"})
    assert "result" in wire.call("palace/status")
    assert kept() == [0]


def test_a_client_that_only_closed_its_sending_side_gets_its_answers(wire: Any, palace: Any, wait_until: Any) -> None:
    wire.request(1, "palace/recall", {"query": "wait"})
    wire.socket.shutdown(socket.SHUT_WR)
    wait_until(lambda: palace.waiting == 1)
    palace.gate.set()
    assert wire.answer()["result"]["hits"][0]["text"] == "echo: wait"
    assert wire.read_end() == b""


def test_a_notification_with_an_id_does_not_keep_a_half_closed_connection_open(wire: Any) -> None:
    wire.request("no answer by LSP", "$/setTrace", {"value": "off"})
    wire.socket.shutdown(socket.SHUT_WR)
    assert wire.answer()["error"]["message"] == "this method is a notification: send it without an id"
    assert wire.read_end() == b""


def test_an_exception_that_asyncio_cannot_carry_to_the_loop_is_answered_too(
    wire: Any, palace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(_item_id: str, *, neighbours: int = 0) -> Any:
        return next(iter(()))

    monkeypatch.setattr(palace, "get", ends)
    wire.socket.settimeout(5)
    assert wire.call("palace/get", {"id": "e1"})["error"]["data"]["kind"] == "internal"


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
    wait_until(lambda: palace.queries)
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


def test_a_cancellation_that_crosses_its_answer_is_nothing_to_log(wire: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        answered = wire.call("palace/status")
        wire.notify("$/cancelRequest", {"id": answered["id"]})
        wire.notify("window/workDoneProgress/cancel", {"token": "over"})
        wire.call("palace/status")
    assert [record.getMessage() for record in caplog.records if record.name.startswith("pygls")] == []


def test_pygls_stays_quiet_when_it_fails_a_request_itself(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("pygls.protocol.json_rpc")
    with caplog.at_level(logging.DEBUG):
        logger.info("Sending data: %s", "very private")
        logger.error("Failed to handle request %s", "very private", exc_info=ValueError("very private"))
    assert "very private" not in caplog.text
    assert "Failed to handle request" in caplog.text
