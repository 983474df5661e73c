"""What answers say besides the hits: similar projects, drawers that are not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.claude import append, turn

from palace_daemon.errors import NotFoundError, RequestError
from palace_daemon.model import RecallAnswer, RecallQuery
from palace_daemon.service import projects_near

NOW = 1_800_000_000_000


def ask(palace: Any, **fields: Any) -> RecallAnswer:
    answer: RecallAnswer = palace.recall(RecallQuery(text="tides", now=NOW, **fields))
    return answer


@pytest.fixture
def projects(palace: Any, transcripts: Path) -> Any:
    for number, name in enumerate(("tidepool", "TidePool-app", "other/tides", "Ärger", "tidepool/docs")):
        lines = turn(1, f"Which tides, {number}?", "High.", session=f"s{number}").replace(
            "/nowhere/tidepool", f"/nowhere/{name}"
        )
        append(transcripts / f"{number}.jsonl", lines)
    palace.mine([str(transcripts)], wait=True)
    return palace


# -------------------------------------------------------------------------------------------------------- projects


@pytest.mark.parametrize(
    ("wanted", "near"),
    [
        ("TIDEPOOL", ("/nowhere/tidepool", "/nowhere/TidePool-app", "/nowhere/tidepool/docs")),
        ("TIDEPOOL/", ("/nowhere/tidepool", "/nowhere/TidePool-app", "/nowhere/tidepool/docs")),
        ("/Nowhere/Tidepool", ("/nowhere/tidepool", "/nowhere/TidePool-app", "/nowhere/tidepool/docs")),
        ("ÄRGER", ("/nowhere/Ärger",)),
        ("ocs", ("/nowhere/tidepool/docs",)),
        ("harbour", ()),
        (" ", ()),
    ],
)
def test_a_project_that_is_not_there_is_answered_with_those_that_are_like_it(
    projects: Any, wanted: str, near: tuple[str, ...]
) -> None:
    answer = ask(projects, project=wanted)
    assert (answer.hits, answer.projects_near) == ((), near)


def test_a_project_that_is_there_brings_no_others(projects: Any) -> None:
    assert ask(projects, project="tidepool").hits
    assert ask(projects, project="tidepool").projects_near == ()
    emptied = ask(projects, project="tidepool", since=NOW)
    assert (emptied.in_scope, emptied.projects_near) == (0, ())
    assert ask(projects, since=NOW).projects_near == ()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("tidepool", "0"),
        (" tidepool\t", "0"),
        ("/nowhere/tidepool", "04"),
        ("/nowhere/tidepool/", "04"),
        ("/nowhere", "01234"),
        ("/", "01234"),
        ("docs", "4"),
        ("tides", "2"),
        ("nowhere", ""),
        ("tidepool/docs", ""),
        (" ", ""),
    ],
)
def test_a_list_of_sessions_has_those_that_a_recall_finds(projects: Any, wanted: str, expected: str) -> None:
    found = {hit.session_id for hit in ask(projects, project=wanted).hits}
    assert {one.session_id for one in projects.sessions(project=wanted)} == found == {f"s{n}" for n in expected}


def test_lists_of_an_agent_that_there_is_not_are_refused_with_the_names_of_those_there_are(projects: Any) -> None:
    for listed in (projects.sessions, projects.sources):
        assert listed(agent="claude-code")
        assert listed(agent="codex") == ()
        with pytest.raises(RequestError, match="unknown agent") as caught:
            listed(agent="claude")
        assert "claude-code, " in caught.value.hint


def test_similar_projects_are_a_few_and_those_that_still_hold_something(palace: Any, transcripts: Path) -> None:
    for number in range(9):
        lines = turn(1, f"Which tides, {number}?", "High.", session=f"s{number}")
        append(transcripts / f"{number}.jsonl", lines.replace("/nowhere/tidepool", f"/nowhere/quay{number}"))
    palace.mine([str(transcripts)], wait=True)
    (transcripts / "0.jsonl").write_text(turn(1, "Which?", "High.", session="s0").replace("tidepool", "harbour"))
    palace.mine([str(transcripts)], wait=True)
    near = ask(palace, project="QUAY").projects_near
    assert near == tuple(f"/nowhere/quay{number}" for number in range(1, 1 + projects_near.PROJECTS_MAX))


# --------------------------------------------------------------------------------------------------------- drawers


def test_a_drawer_that_is_not_there_is_not_answered_with_its_exchange(projects: Any) -> None:
    hit = ask(projects, limit=1).hits[0]
    assert projects.get(hit.drawer_id) == projects.get(hit.exchange_id) == projects.get(f" {hit.drawer_id} ")
    assert projects.get(f"{hit.exchange_id[:8]}.0") == projects.get(hit.exchange_id)
    for ordinal in ("99", "", "x", "00", "0.0"):
        with pytest.raises(NotFoundError, match=r"no such drawer \(it has \.0\)"):
            projects.get(f"{hit.exchange_id}.{ordinal}")


def test_what_there_is_of_a_long_exchange_is_named(palace: Any, transcripts: Path) -> None:
    append(transcripts / "a.jsonl", turn(1, "Which tides?", "\n\n".join(f"Tide {n} is high. " * 30 for n in range(9))))
    palace.mine([str(transcripts)], wait=True)
    exchange = palace.get(ask(palace).hits[0].exchange_id)
    last = len(exchange.drawer_ids) - 1
    assert last > 1
    assert palace.get(f"{exchange.exchange_id}.{last}") == exchange
    with pytest.raises(NotFoundError, match=rf"no such drawer \(it has \.0 to \.{last}\)"):
        palace.get(f"{exchange.exchange_id}.{last + 1}")
