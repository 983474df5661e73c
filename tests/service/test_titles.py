"""Titles of sessions of which nothing is kept: they are not stored and overwritten, they never reach the disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, turn
from support.traces import traces

from palace_daemon.model import ForgetRequest
from palace_daemon.store import scrubbing

TITLE = "Zanzibarwhale titleword" + ", and so on" * 40
WORD = "Zanzibarwhale"


def titled(session: str = "s1", title: str = TITLE) -> str:
    return json.dumps({"type": "ai-title", "aiTitle": title, "sessionId": session}) + "\n"


def titles(palace: Any) -> list[str]:
    with palace._store.read() as connection:
        return [row[0] for row in connection.execute("SELECT title FROM sessions ORDER BY native_id")]


@pytest.fixture
def never_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reaches the disk is seen, since nothing is rewritten behind it."""
    monkeypatch.setattr(scrubbing, "scrub", lambda *_: None)


def test_a_forgotten_title_that_is_told_again_never_reaches_the_disk(
    make_palace: Any, transcripts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(transcripts / "a.jsonl", turn(1, "Why does it crash?", "Because.") + titled())
    palace = make_palace()
    palace.mine(wait=True)
    assert titles(palace) == [TITLE]
    palace.forget(ForgetRequest(sessions=("s1",)))
    palace.close()
    assert traces(tmp_path / "data", [WORD]) == []
    monkeypatch.setattr(scrubbing, "scrub", lambda *_: None)
    palace = make_palace()
    append(transcripts / "a.jsonl", titled())
    append(transcripts / "copy.jsonl", (transcripts / "a.jsonl").read_text())
    palace.mine(wait=True)
    assert titles(palace) == [""]
    assert traces(tmp_path / "data", [WORD]) == []
    palace.close()
    assert traces(tmp_path / "data", [WORD]) == []


def test_what_is_said_later_in_a_forgotten_session_gives_it_a_title_again(palace: Any, transcripts: Path) -> None:
    append(transcripts / "a.jsonl", turn(1, "Why?", "Because.") + titled())
    palace.mine(wait=True)
    palace.forget(ForgetRequest(sessions=("s1",)))
    append(transcripts / "a.jsonl", titled(title="Another one") + turn(2, "And now?", "Now, too."))
    palace.mine(wait=True)
    assert titles(palace) == ["Another one"]


@pytest.mark.usefixtures("never_wiped")
def test_a_title_of_an_ignored_project_never_reaches_the_disk(
    make_palace: Any, transcripts: Path, tmp_path: Path
) -> None:
    palace = make_palace(ignore_projects=("tidepool",))
    append(transcripts / "a.jsonl", turn(1, "Why does it crash?", "Because.") + titled())
    palace.mine(wait=True)
    append(transcripts / "a.jsonl", titled(title=f"{TITLE}, again"))
    palace.mine(wait=True)
    assert titles(palace) == [""]
    palace.close()
    assert traces(tmp_path / "data", [WORD]) == []


def test_a_title_that_came_before_its_project_is_taken_away(
    make_palace: Any, transcripts: Path, tmp_path: Path
) -> None:
    palace = make_palace(ignore_projects=("tidepool",))
    append(transcripts / "a.jsonl", titled())
    palace.mine(wait=True)
    append(transcripts / "a.jsonl", turn(1, "Why does it crash?", "Because."))
    palace.mine(wait=True)
    assert titles(palace) == [""]
    palace._forgetting.wipe()
    assert traces(tmp_path / "data", [WORD]) == []
