"""A fork copies its parent's lines with new times: the parent's own file dates them, wherever the two lie."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.claude import append
from support.day_sessions import CodexSession, Day


@pytest.mark.parametrize("archived", ["parent", "fork"])
@pytest.mark.parametrize("is_moved_later", [False, True])
def test_what_a_fork_copied_keeps_its_time_when_one_of_the_files_is_archived(
    make_palace: Any, transcripts: Path, archived: str, *, is_moved_later: bool
) -> None:
    day = Day(random.Random(1))
    parent = CodexSession.new(day, transcripts)
    for _ in range(6):
        append(parent.path, parent.more())
    fork, text = parent.copy(parent.path.read_text())
    append(fork.path, text)
    palace = make_palace()
    if is_moved_later:
        palace.mine(wait=True)
    moved = parent if archived == "parent" else fork
    archive = transcripts / ".codex" / "archived_sessions"
    archive.mkdir()
    moved.path.rename(archive / moved.path.name)
    palace.mine(wait=True)
    alone = make_palace(transcripts.parent / "alone")
    path = archive / parent.path.name if archived == "parent" else parent.path
    alone.mine([str(path)], wait=True)
    assert [one.started_at for one in palace.timeline(parent.name)] == [
        one.started_at for one in alone.timeline(parent.name)
    ]
