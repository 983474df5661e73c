"""What the tools ask the daemon, of which the answers are told elsewhere: projects and times as it compares them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from palace_daemon.agents import hook, mcp_tools
from palace_daemon.errors import RequestError

EMPTY: dict[str, Any] = {
    "hits": [],
    "projectsNear": [],
    "totals": {"inScope": 0},
    "freshness": {"drawers": 9, "sourcesPending": 0, "vectorsReason": ""},
    "hitsLeftOut": 0,
}


class Listening(mcp_tools.Asker):
    """Keeps what is asked, and answers each time with ``answer``."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        super().__init__()
        self.answer = answer
        self.asked: dict[str, Any] = {}

    def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        self.asked = dict(params)
        return self.answer


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path.resolve()
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").touch()
    (root / "src").mkdir()
    monkeypatch.chdir(root)
    return root


def test_a_directory_is_its_project_and_a_date_is_local(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asker = Listening(EMPTY)
    given = {"query": "q", "project": "./src", "since": "2026-07-01", "until": "2026-07-01"}
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    mcp_tools.call(asker, "recall", given)
    monkeypatch.undo()
    time.tzset()
    assert asker.asked["project"] == str(repository)
    assert asker.asked["since"] == "2026-06-30T22:00:00+00:00"
    assert asker.asked["until"] == "2026-07-01T22:00:00+00:00"
    mcp_tools.call(asker, "recall", {"query": "q", "project": " tidepool "})
    assert asker.asked["project"] == "tidepool"
    assert "since" not in asker.asked
    with pytest.raises(RequestError, match="since: 20260301 is neither"):
        mcp_tools.call(asker, "recall", {"query": "q", "since": "20260301"})


def test_what_is_forgotten_is_not_widened_to_a_repository(repository: Path) -> None:
    asker = Listening({"exchanges": 0, "drawers": 0})
    mcp_tools.call(asker, "forget", {"project": "src/"})
    assert asker.asked["project"] == f"{repository}/src"


def test_an_answer_names_the_filters_that_leave_nothing() -> None:
    told = mcp_tools.call(Listening(EMPTY), "recall", {"query": "q", "project": "harbour", "agent": "codex"})
    why = "Nothing stored fits project 'harbour', agent 'codex'; leave a filter out."
    assert told == f"Nothing found among 0 pieces. {why}"
    assert mcp_tools.call(Listening(EMPTY), "recall", {"query": "q"}) == "Nothing found among 0 pieces."
    near = {**EMPTY, "projectsNear": ["/w/harbour"]}
    told = mcp_tools.call(Listening(near), "recall", {"query": "q", "project": "HARBOUR"})
    assert told == "Nothing found among 0 pieces. No project is called 'HARBOUR'; near it: /w/harbour."


def test_a_session_that_begins_above_many_projects_is_told_of_its_own() -> None:
    def session(name: str, project: str) -> dict[str, Any]:
        facts = {"agent": "codex", "project": project, "startedAt": None, "title": name, "exchanges": 3}
        return {"sessionId": name, "parentSessionId": "", "isAutomated": False, **facts}

    listed = [*(session(f"s{number}", f"/w/app{number}") for number in range(100)), session("own", "/w")]

    class Client:
        timeout_s = 0.0

        def request(self, method: str, params: Mapping[str, Any]) -> Any:
            return {"sessions": listed[: params["limit"]]} if method == "palace/sessions" else {"hits": []}

    asking = hook._Asking(Client(), time.monotonic() + 60, "/w", "now")  # type: ignore[arg-type]
    assert "session own" in asking.recent()
