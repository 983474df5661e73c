"""BEAM's layout: batches as sessions, nested gold, and the set's own marks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.sets import utc_ms, write_json

from palace_daemon.bench.sets.base import Case, Question
from palace_daemon.bench.sets.beam import Beam

READER = Beam()


def said(number: int, role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"id": number, "role": role, "content": content, **more}


def batch(number: int, *messages: dict[str, Any], anchor: str | None = None) -> dict[str, Any]:
    return {"batch_number": number, "time_anchor": anchor, "turns": [list(messages[:2]), list(messages[2:])]}


def read(folder: Path, probes: dict[str, Any] | None = None, *batches: dict[str, Any]) -> Case:
    chat = list(batches) or [
        batch(
            1,
            said(0, "user", "Plan it. ->-> 1,1", time_anchor="March-15-2024"),
            said(1, "assistant", "Done ->-> 1,1"),
            said(2, "user", "And why?"),
            said(3, "assistant", "So."),
        ),
        batch(2, said(4, "user", "Go on. ->-> 2,1"), said(5, "assistant", "Yes."), anchor="April-05-2024"),
    ]
    document = [{"chat_id": "7", "topic": {}, "chat": chat, "probing_questions": probes or {}}]
    (case,) = READER.read(write_json(folder / "beam.100k.json.gz", document))
    return case


def probed(folder: Path, named: object, kind: str = "information_extraction") -> Question:
    return read(folder, {kind: [{"question": "Why?", "source_chat_ids": named}]}).questions[0]


def test_a_batch_is_a_session_with_the_date_of_its_anchor(tmp_path: Path) -> None:
    sessions = read(tmp_path).haystack.sessions
    assert [session.session_id for session in sessions] == ["batch-1", "batch-2"]
    assert [session.started_at for session in sessions] == [utc_ms(2024, 3, 15), utc_ms(2024, 4, 5)]
    assert [turn.turn_id for turn in sessions[0].turns] == ["0", "1", "2", "3"]


def test_a_batch_without_an_anchor_has_no_date(tmp_path: Path) -> None:
    case = read(tmp_path, {"abstention": [{"question": "?"}]}, batch(1, said(0, "user", "Hi"), anchor="soon"))
    assert case.haystack.sessions[0].started_at is None
    assert case.questions[0].now == utc_ms(2025, 1, 1)


@pytest.mark.parametrize("mark", ["->-> 1,1", "->->  3,8", "->-> 2,N/A", "->-> 5,14)", "->-> 2,22, 24", "->->"])
def test_the_mark_at_the_end_of_a_user_turn_is_cut_off(tmp_path: Path, mark: str) -> None:
    case = read(tmp_path, {}, batch(1, said(0, "user", f"Is a ->-> b, 3? {mark}"), said(1, "assistant", f"Yes {mark}")))
    assert [turn.text for turn in case.haystack.sessions[0].turns] == ["Is a ->-> b, 3?", f"Yes {mark}"]


@pytest.mark.parametrize(
    ("named", "turns", "sessions"),
    [
        ([2], ["2"], ["batch-1"]),
        ([2, 4, 2], ["2", "4"], ["batch-1", "batch-2"]),
        ({"first": [4], "second": [0, 1]}, ["4", "0", "1"], ["batch-2", "batch-1"]),
        ({"all": [[4], {"more": 0}]}, ["4", "0"], ["batch-2", "batch-1"]),
        ([], [], []),
        (None, [], []),
    ],
)
def test_gold_is_found_at_any_depth(tmp_path: Path, named: object, turns: list[str], sessions: list[str]) -> None:
    question = probed(tmp_path, named)
    assert (list(question.gold_turns), list(question.gold_sessions)) == (turns, sessions)
    assert (question.is_abstention, question.unusable_gold) == (False, 0)


def test_gold_that_names_no_message_is_counted(tmp_path: Path) -> None:
    question = probed(tmp_path, [2, 99])
    assert (question.gold_turns, question.unusable_gold) == (("2",), 1)


def test_abstention_has_no_gold(tmp_path: Path) -> None:
    question = probed(tmp_path, [2], kind="abstention")
    assert (question.is_abstention, question.gold_turns, question.gold_sessions) == (True, (), ())
    assert question.now == utc_ms(2024, 4, 6)


def test_a_hit_is_an_exchange() -> None:
    assert READER.gold_unit == "exchange"
