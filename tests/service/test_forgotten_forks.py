"""Forgetting among forks: what is left does not depend on what was read before it was forgotten."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, turn
from support.day_sessions import ClaudeSession, CodexSession, Day, Session
from support.standing import standing

from palace_daemon.errors import NotFoundError
from palace_daemon.model import ForgetRequest
from palace_daemon.store import sqlite, tombstones
from palace_daemon.store.variants import public_id


def texts(palace: Any) -> list[str]:
    return sorted(one.user_text for session in palace.sessions() for one in palace.timeline(session.session_id))


def of_knowing_before(make_palace: Any, palace: Any, transcripts: Path) -> dict[str, Any]:
    """Return what stands in a store that reads the files and knows from the beginning what was forgotten."""
    with palace._store.read() as connection:
        buried = tombstones.dump(connection)
    fresh = make_palace(transcripts.parent / "fresh")
    fresh._store.edit(lambda connection, _: tombstones.load(connection, buried))
    fresh.mine([str(transcripts)], wait=True)
    return standing(sqlite.database_path(transcripts.parent / "fresh"), set(), set())


def test_every_way_of_a_forked_turn_is_listed_and_goes(make_palace: Any, transcripts: Path) -> None:
    begun = turn(1, "How do tides work?", "The moon pulls.", session="s1") + turn(
        2, "Secret walrus?", "Yes.", session="s1"
    )
    append(transcripts / "one.jsonl", begun)
    append(transcripts / "fork.jsonl", begun.replace('"s1"', '"s9"').replace("Yes.", "No, and here is why."))
    palace = make_palace(transcripts.parent / "lived")
    palace.mine([str(transcripts)], wait=True)
    ways = {
        one.exchange_id
        for session in palace.sessions()
        for one in palace.timeline(session.session_id)
        if one.user_text == "Secret walrus?"
    }
    assert len(ways) == 2
    for way in sorted(ways):
        listed = palace.forget(ForgetRequest(exchanges=(way,)), dry_run=True)
        assert {item.exchange_id for item in listed.items} == ways
    assert palace.forget(ForgetRequest(exchanges=(min(ways),))).exchanges == 2
    for _ in range(2):
        palace.mine([str(transcripts)], wait=True)
        assert texts(palace) == ["How do tides work?"]
    lived = standing(sqlite.database_path(transcripts.parent / "lived"), set(), set())
    assert lived == of_knowing_before(make_palace, palace, transcripts)


@pytest.mark.parametrize("seed", range(16))
def test_what_is_left_is_what_a_store_holds_that_knew_before(make_palace: Any, transcripts: Path, seed: int) -> None:
    chance = random.Random(seed)
    day = Day(chance)
    sessions: list[Session] = [ClaudeSession.new(day, transcripts), CodexSession.new(day, transcripts)]
    palace = make_palace(transcripts.parent / "lived")
    for _ in range(14):
        session = chance.choice(sessions)
        append(session.path, session.more())
        if chance.random() < 0.5:
            other, text = session.copy(session.path.read_text())
            append(other.path, text + other.more())
            append(session.path, session.more())
            sessions.append(other)
        if chance.random() < 0.6:
            palace.mine([str(transcripts)], wait=True)
        if chance.random() < 0.4 and day.told:
            _, key, _ = chance.choice(day.told[-4:])
            try:
                palace.forget(ForgetRequest(exchanges=(public_id(key),)))
            except NotFoundError:
                continue
    for _ in range(2):
        palace.mine([str(transcripts)], wait=True)
    lived = standing(sqlite.database_path(transcripts.parent / "lived"), set(), set())
    assert lived == of_knowing_before(make_palace, palace, transcripts)
