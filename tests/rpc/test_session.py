"""Methods over each transport: every request has one answer with the agreed keys, whatever its parameters."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from rpc.fake_daemon import TABLES, TRANSPORTS, code_of

HIT_KEYS = {
    "drawerId", "exchangeId", "sessionId", "sessionTitle", "project", "agent", "startedAt", "text", "path",
    "lineStart", "lineEnd", "score", "parts", "matchedTerms", "alsoIn", "alsoInCount", "neighbours",
}  # fmt: skip
MINE_KEYS = {
    "files", "filesFailed", "sessions", "exchangesAdded", "exchangesReplaced", "exchangesSuperseded", "drawersAdded",
    "drawersRemoved", "vectorsAdded", "linesRead", "linesSkipped", "exchangesLeftOut", "failures", "seconds",
    "secondsToVectors", "vectorsReason", "filesSkipped",
}  # fmt: skip


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


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
