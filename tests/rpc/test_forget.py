from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rpc.fake_daemon import FakePalace, Running

from palace_daemon import model
from palace_daemon.core.ports import StopSignal


class ForgettingPalace(FakePalace):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[model.ForgetRequest, bool]] = []

    def forget(
        self, request: model.ForgetRequest, *, dry_run: bool = False, stop: StopSignal | None = None
    ) -> model.ForgetReport:
        self.asked.append((request, dry_run))
        item = model.ForgetItem(
            exchange_id="e1", session_id="s1", agent="codex", project="/w", started_at=1_772_615_551_000, title="Why?"
        )
        return model.ForgetReport(
            is_dry_run=dry_run, exchanges=1, drawers=2, items=(item,), sources_pending=3, wipe_due=""
        )


@pytest.fixture
def palace() -> ForgettingPalace:
    return ForgettingPalace()


@pytest.fixture
def running(start_daemon: Callable[..., Running], palace: ForgettingPalace) -> Running:
    return start_daemon(lambda _config: palace)


def test_every_selector_arrives_typed(wire: Any, palace: ForgettingPalace) -> None:
    answer = wire.call(
        "palace/forget",
        {
            "drawers": ["d1"], "exchanges": ["e1", "e2"], "sessions": ["s1"], "project": "/w", "source": "/t/a.jsonl",
            "agent": "codex", "since": "2026-03-01T00:00:00Z", "until": 1_772_615_551_000, "query": "why", "limit": 3,
            "dryRun": True,
        },
    )  # fmt: skip
    assert answer["result"] == {
        "isDryRun": True, "exchanges": 1, "drawers": 2, "sourcesPending": 3, "wipeDue": "",
        "items": [{"exchangeId": "e1", "sessionId": "s1", "agent": "codex", "project": "/w",
                   "startedAt": "2026-03-04T09:12:31.000Z", "title": "Why?"}],
    }  # fmt: skip
    ((request, is_dry_run),) = palace.asked
    assert is_dry_run
    assert (request.drawers, request.exchanges, request.sessions) == (("d1",), ("e1", "e2"), ("s1",))
    assert (request.project, request.source, request.agent) == ("/w", "/t/a.jsonl", "codex")
    assert (request.since, request.until) == (1_772_323_200_000, 1_772_615_551_000)
    query = request.query
    assert query is not None
    assert (query.text, query.limit, query.include_superseded) == ("why", 3, True)
    assert (query.project, query.agent, query.session) == ("", "", ""), "the other selectors are those of the request"


def test_a_query_takes_ten_hits_and_nothing_is_dry_by_default(wire: Any, palace: ForgettingPalace) -> None:
    wire.call("palace/forget", {"query": "why"})
    ((request, is_dry_run),) = palace.asked
    assert not is_dry_run
    assert request.query is not None
    assert request.query.limit == 10


@pytest.mark.parametrize(
    ("params", "path"),
    [
        (None, "$"),
        ({}, "$"),
        ({"dryRun": True}, "$"),
        ({"query": "  "}, "$.query"),
        ({"project": ""}, "$.project"),
        ({"project": "", "since": "2026-01-01"}, "$.project"),
        ({"source": "", "query": "why"}, "$.source"),
        ({"agent": " ", "query": "why"}, "$.agent"),
        ({"query": "", "project": "/w"}, "$.query"),
        ({"since": "", "project": "/w"}, "$.since"),
        ({"until": "", "project": "/w"}, "$.until"),
        ({"exchanges": []}, "$.exchanges"),
        ({"drawers": [], "agent": "codex"}, "$.drawers"),
        ({"sessions": ["s1", " "], "agent": "codex"}, "$.sessions[1]"),
        ({"agent": "codex", "limit": 3}, "$.limit"),
        ({"query": "q", "limit": 0}, "$.limit"),
        ({"exchanges": "e1"}, "$.exchanges"),
        ({"exchanges": [""]}, "$.exchanges[0]"),
        ({"drawers": [1]}, "$.drawers[0]"),
        ({"since": "yesterday"}, "$.since"),
        ({"agent": "codex", "dryRun": "yes"}, "$.dryRun"),
        ({"exchange": ["e1"]}, "$.exchange"),
    ],
)
def test_bad_parameters_name_the_field_and_forget_nothing(
    wire: Any, palace: ForgettingPalace, params: Any, path: str
) -> None:
    error = wire.call("palace/forget", params)["error"]
    assert (error["code"], error["data"]["path"]) == (-32602, path)
    assert palace.asked == []
