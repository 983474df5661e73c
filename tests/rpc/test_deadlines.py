"""``timeoutMs``: the work stops, the answer says so, and there is one answer however close the race."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from rpc.fake_daemon import FakePalace, Running

from palace_daemon import model
from palace_daemon.client import Client
from palace_daemon.core.ports import StopSignal
from palace_daemon.errors import DeadlineError
from palace_daemon.rpc import convert, wire
from palace_daemon.rpc.errors import BadParamsError

WaitUntil = Callable[..., None]


@pytest.fixture(params=["unix", "tcp"])
def transport(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_a_recall_that_takes_too_long_is_stopped_and_answered_once(
    wire: Any, palace: FakePalace, wait_until: WaitUntil
) -> None:
    wire.call("palace/status")  # is answered once the store is open: the time is that of the work alone
    answer = wire.call("palace/recall", {"query": "wait", "timeoutMs": 500}, "late")
    assert answer["id"] == "late"
    assert answer["error"] == {
        "code": -32012,
        "message": "not done within 500 ms: the work is stopped",
        "data": {"kind": "deadline"},
    }
    wait_until(lambda: palace.cancelled == 1)
    palace.gate.set()
    assert wire.is_silent()
    assert "result" in wire.call("palace/recall", {"query": "q", "timeoutMs": 10_000})


def test_mining_that_takes_too_long_is_no_longer_waited_for(
    wire: Any, palace: FakePalace, wait_until: WaitUntil
) -> None:
    wire.call("palace/status")  # is answered once the store is open: the time is that of the work alone
    wire.request(1, "palace/mine", {"wait": True, "timeoutMs": 1_000, "workDoneToken": "t"})
    kinds = []
    while "method" in (message := wire.read()):
        kinds.append(message["params"]["value"]["kind"])
    assert message["error"]["data"]["kind"] == "deadline"
    assert (kinds[0], kinds[-1]) == ("begin", "end")
    wait_until(lambda: palace.cancelled == 1)


def test_a_request_whose_time_is_over_while_it_waits_never_runs(
    wire: Any, palace: FakePalace, wait_until: WaitUntil
) -> None:
    for number in range(4):
        wire.request(number, "palace/recall", {"query": f"wait {number}"})
    wait_until(lambda: palace.waiting == 4)
    answer = wire.call("palace/recall", {"query": "behind them", "timeoutMs": 50}, "behind")
    assert (answer["id"], answer["error"]["data"]["kind"]) == ("behind", "deadline")
    palace.gate.set()
    assert sorted(wire.answer()["id"] for _ in range(4)) == [0, 1, 2, 3]
    assert "behind them" not in [query.text for query in palace.queries]


class UnevenPalace(FakePalace):
    """Takes as many milliseconds as the question says."""

    def recall(self, query: model.RecallQuery, stop: StopSignal | None = None) -> model.RecallAnswer:
        time.sleep(float(query.text) / 1000)
        return super().recall(query, stop)


def test_a_result_and_a_deadline_that_race_give_one_answer(
    start_daemon: Callable[..., Running], transport: str
) -> None:
    running = start_daemon(lambda _config: UnevenPalace())
    wire = running.dial(transport)
    chance = random.Random(11)
    seen: Counter[int] = Counter()
    kinds: Counter[str] = Counter()
    for number in range(400):
        wait_ms = chance.choice([0, 1, 2, 4])
        wire.request(number, "palace/recall", {"query": str(wait_ms), "timeoutMs": chance.choice([1, 2, 4, 8])})
        if chance.random() < 0.3:
            wire.notify("$/cancelRequest", {"id": number})
    for _ in range(400):
        answer = wire.answer()
        seen[answer["id"]] += 1
        kinds["result" if "result" in answer else answer["error"]["data"]["kind"]] += 1
    assert set(seen.values()) == {1}
    assert len(seen) == 400
    assert set(kinds) <= {"result", "deadline", "cancelled"}
    assert kinds["deadline"] > 0
    assert wire.is_silent()
    wire.close()


@pytest.mark.parametrize("method", sorted(wire.METHODS))
def test_every_method_takes_a_deadline(method: str) -> None:
    kind = wire.METHODS[method].params
    assert "timeoutMs" in kind.__struct_encode_fields__
    for value in (0, -1, 1.5, "1", None, True, 10**12):
        with pytest.raises(BadParamsError) as caught:
            convert.params_from_wire({"timeoutMs": value}, kind)
        # A key that is missing may be named first.
        assert caught.value.path == "$.timeoutMs" or "required" in str(caught.value)


def test_the_client_raises_it_as_what_it_is(running: Running) -> None:
    with Client(timeout_s=10.0) as client, pytest.raises(DeadlineError, match="within 20 ms"):
        client.request("palace/recall", {"query": "wait", "timeoutMs": 20})
