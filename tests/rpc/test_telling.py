"""Notifications: to those who asked, at most one a second of a kind, whole sums, and nothing for laggards."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from rpc.fake_daemon import INITIALIZE, TRANSPORTS, FakePalace

from palace_daemon import model
from palace_daemon.rpc import convert, session, telling, wire

MINE_KEYS = set(wire.MineResult.__struct_encode_fields__)


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def subscribe(client: Any, *events: str) -> Any:
    client.call("palace/status")  # is answered once the store is open: from then on changes are heard of
    client.request("subscribe", "palace/subscribe", {"events": list(events)})
    return client.answer()["result"]


def tell(palace: FakePalace, **fields: Any) -> None:
    for listener in palace.listeners:
        listener(model.MineReport(**fields))


def test_who_did_not_ask_hears_nothing(connect: Any, palace: FakePalace) -> None:
    asking, other, unsubscribed = connect(), connect(), connect()
    assert subscribe(asking, "didMine") == {"events": ["didMine"]}
    other.call("palace/status")
    subscribe(unsubscribed, "didMine", "didChangeStatus")
    assert unsubscribed.read()["method"] == "palace/didChangeStatus"
    assert subscribe(unsubscribed) == {"events": []}
    tell(palace, files=1, drawers_added=3)
    told = asking.read()
    assert (told["method"], set(told["params"])) == ("palace/didMine", MINE_KEYS)
    assert (told["params"]["files"], told["params"]["drawersAdded"]) == (1, 3)
    assert other.is_silent()
    assert unsubscribed.is_silent(0.01)


def test_changes_within_a_second_are_added_up_and_none_is_lost(connect: Any, palace: FakePalace) -> None:
    client = connect()
    subscribe(client, "didMine")
    times, drawers, reasons = [], 0, 0
    begun = time.monotonic()
    for number in range(40):
        tell(palace, files=1, drawers_added=number, lines_skipped={"torn": 1})
        time.sleep(0.04)
    while drawers < sum(range(40)):
        params = client.read()["params"]
        times.append(time.monotonic())
        drawers += params["drawersAdded"]
        reasons += params["linesSkipped"]["torn"]
    assert (drawers, reasons) == (sum(range(40)), 40)
    # 1.6 s and more of changes: the first at once, then one a second; they may have waited long to be read.
    assert 2 <= len(times) <= 1 + (times[-1] - begun) / telling.INTERVAL_S + 1
    assert client.is_silent()


def test_the_state_is_told_when_it_changed_and_to_a_newcomer_at_once(
    connect: Any, palace: FakePalace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = connect()
    subscribe(first, "didChangeStatus")
    told = first.read()
    assert told["method"] == "palace/didChangeStatus"
    assert set(told["params"]) == set(wire.StatusResult.__struct_encode_fields__)
    tell(palace, files=1)
    # Nothing of it changed but what always does.
    before = palace.status()
    palace.status = lambda: msgspec.structs.replace(before, uptime_s=9.0, rss_bytes=9)  # type: ignore[method-assign]
    second = connect()
    subscribe(second, "didChangeStatus")
    assert second.read()["params"]["uptimeS"] == 9.0
    assert first.is_silent()
    palace.status = lambda: msgspec.structs.replace(before, exchanges=7)  # type: ignore[method-assign]
    assert first.call("palace/mine", {"newest": 1})["result"]["files"] == 2
    assert first.read()["params"]["exchanges"] == second.read()["params"]["exchanges"] == 7


def test_an_editor_subscribes_with_initialize_and_hears_nothing_before_its_answer(
    connect: Any, palace: FakePalace
) -> None:
    client = connect()
    options = {"events": ["didChangeStatus", "didMine"]}
    client.request(1, "initialize", {**INITIALIZE, "initializationOptions": options})
    tell(palace, files=1)
    assert client.read()["id"] == 1
    methods: set[str] = set()
    while len(methods) < 2:
        tell(palace, files=1)
        methods.add(client.read()["method"])
    assert methods == {"palace/didMine", "palace/didChangeStatus"}


@pytest.mark.parametrize("transport", ["unix"], indirect=True)
@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"events": ["didNothing"]}, "$.initializationOptions.events[0]"),
        ({"events": "didMine"}, "$.initializationOptions.events"),
        ({"token": 7}, "$.initializationOptions.token"),
    ],
)
def test_bad_options_are_answered_with_their_path(wire: Any, options: Any, path: str) -> None:
    error = wire.call("initialize", {**INITIALIZE, "initializationOptions": options})["error"]
    assert (error["code"], error["data"]["path"]) == (-32602, path)


@pytest.mark.parametrize("transport", ["unix"], indirect=True)
@pytest.mark.parametrize("options", [None, [], "text", {}, {"theirs": {"events": 3}}])
def test_options_of_somebody_else_are_left_alone(wire: Any, options: Any) -> None:
    assert "result" in wire.call("initialize", {**INITIALIZE, "initializationOptions": options})


@pytest.mark.parametrize("transport", ["unix"], indirect=True)
@pytest.mark.parametrize("params", [None, {}, {"events": ["didEverything"]}, {"events": None}, {"event": []}])
def test_what_cannot_be_subscribed_to_is_refused(wire: Any, params: Any) -> None:
    assert wire.call("palace/subscribe", params)["error"]["code"] == -32602


def unsent_bytes(running: Any) -> int:
    """Return how much lies ready for the one client that does not read."""
    return max(int(one._unsent_bytes()) for one in list(running.daemon._sessions.values()))


@pytest.mark.parametrize("transport", ["unix", "tcp"], indirect=True)
def test_a_laggard_loses_notifications_and_keeps_its_answers(
    running: Any, connect: Any, palace: FakePalace, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    monkeypatch.setattr(session, "LAG_BYTES_MAX", 1)
    lazy, other = connect(), connect()
    subscribe(lazy, "didMine")
    lazy.request(1, "palace/recall", {"query": "size15000000"})
    wait_until(lambda: unsent_bytes(running) > 1)
    assert "result" in other.call("palace/status")
    tell(palace, files=5)
    assert "result" in other.call("palace/status")
    answer = lazy.read()
    assert len(answer["result"]["hits"][0]["text"]) == 15_000_000
    assert lazy.is_silent()


@pytest.mark.parametrize("transport", ["unix"], indirect=True)
def test_a_laggard_is_told_the_state_when_it_reads_again(
    running: Any, connect: Any, palace: FakePalace, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    monkeypatch.setattr(session, "LAG_BYTES_MAX", 1)
    monkeypatch.setattr(telling, "QUIET_S", 0.1)
    monkeypatch.setattr(telling, "INTERVAL_S", 0.1)
    lazy, other = connect(), connect()
    for client in (lazy, other):
        subscribe(client, "didChangeStatus")
        assert client.read()["method"] == "palace/didChangeStatus"
    lazy.request(1, "palace/recall", {"query": "size15000000"})
    wait_until(lambda: unsent_bytes(running) > 1)
    before = palace.status()
    palace.status = lambda: msgspec.structs.replace(before, exchanges=7)  # type: ignore[method-assign]
    assert other.read()["params"]["exchanges"] == 7
    assert len(lazy.read()["result"]["hits"][0]["text"]) == 15_000_000
    assert lazy.read()["params"]["exchanges"] == 7


@pytest.mark.parametrize("transport", ["unix"], indirect=True)
def test_a_fault_while_looking_at_the_state_is_not_the_end_of_telling(
    connect: Any, palace: FakePalace, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    monkeypatch.setattr(telling, "INTERVAL_S", 0.1)
    looks: list[int] = []
    status = palace.status

    def fails_once() -> model.Status:
        looks.append(1)
        if len(looks) == 1:
            raise ValueError("a fault of ours")
        return status()

    palace.status = fails_once  # type: ignore[method-assign]
    client = connect()
    subscribe(client, "didChangeStatus")
    wait_until(lambda: looks)
    tell(palace, files=1)
    assert client.read()["method"] == "palace/didChangeStatus"


def test_a_sum_holds_every_number_and_the_last_words() -> None:
    first = convert.mine_to_wire(
        model.MineReport(
            files=1, seconds=0.5, lines_skipped={"a": 1, "b": 2}, failures={"/a": "old"}, vectors_reason="why"
        )
    )
    second = convert.mine_to_wire(
        model.MineReport(files=2, seconds=0.25, lines_skipped={"b": 3}, failures={"/a": "new", "/b": "x"})
    )
    total = telling.merged(first, second)
    assert (total.files, total.seconds, total.lines_skipped) == (3, 0.75, {"a": 1, "b": 5})
    assert (total.failures, total.vectors_reason) == ({"/a": "new", "/b": "x"}, "why")
