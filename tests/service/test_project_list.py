from __future__ import annotations

from pathlib import Path
from typing import Any

from support.claude import append, turn

from palace_daemon.model import ForgetRequest, ProjectView, RecallQuery

MONDAY = 1_770_000_000_000


def write(path: Path, cwd: str, session: str, numbers: range) -> None:
    lines = "".join(turn(n, f"Question {n} of {session}?", f"Answer {n}.", session=session) for n in numbers)
    append(path, lines.replace("/nowhere/tidepool", cwd))


def test_projects_are_listed_by_their_newest_exchange_with_what_recall_finds_of_them(
    palace: Any, transcripts: Path
) -> None:
    assert palace.projects() == ()
    write(transcripts / "a.jsonl", "/work/atlas", "s1", range(3))
    write(transcripts / "b.jsonl", "/work/atlas", "s2", range(3, 5))
    write(transcripts / "c.jsonl", "/work/tidepool", "s3", range(9, 10))
    write(transcripts / "d.jsonl", "", "s4", range(1))
    palace.mine([str(transcripts)], wait=True)
    palace.remember("Atlas has a harbour.", project="/work/atlas", now=MONDAY)
    assert palace.projects() == (
        ProjectView(
            path="/work/tidepool", name="tidepool", sessions=1, exchanges=1, agents=("claude-code",),
            newest_at=MONDAY + 90_000,
        ),
        ProjectView(
            path="/work/atlas", name="atlas", sessions=3, exchanges=6, agents=("claude-code", "note"),
            newest_at=MONDAY + 40_000,
        ),
        ProjectView(path="", name="", sessions=1, exchanges=1, agents=("claude-code",), newest_at=MONDAY),
    )  # fmt: skip
    for view in palace.projects()[:2]:
        assert palace.recall(RecallQuery(text="", now=MONDAY, project=view.path, limit=99)).in_scope >= view.exchanges
    assert [view.name for view in palace.projects(limit=1, offset=1)] == ["atlas"]


def test_a_project_of_which_everything_is_forgotten_is_gone(palace: Any, transcripts: Path) -> None:
    write(transcripts / "a.jsonl", "/work/atlas", "s1", range(2))
    palace.mine([str(transcripts)], wait=True)
    assert [view.name for view in palace.projects()] == ["atlas"]
    palace.forget(ForgetRequest(project="/work/atlas"))
    assert palace.projects() == ()


def test_the_sessions_of_a_project_are_those_that_its_row_counts(palace: Any, transcripts: Path) -> None:
    write(transcripts / "a.jsonl", "/work/atlas", "s1", range(2))
    write(transcripts / "a.jsonl", "/work/tidepool", "s1", range(2, 4))
    write(transcripts / "b.jsonl", "/work/tidepool", "s2", range(5, 6))
    palace.mine([str(transcripts)], wait=True)
    palace.remember("Atlas has a harbour.", project="/work/atlas", now=MONDAY)
    found = {view.name: {one.session_id for one in palace.sessions(project=view.path)} for view in palace.projects()}
    assert {name: len(sessions) for name, sessions in found.items()} == {
        view.name: view.sessions for view in palace.projects()
    }
    assert "s1" in found["atlas"] & found["tidepool"]
    assert [one.session_id for one in palace.sessions(project="tidepool")] == ["s2", "s1"]
