"""The real files, read only: their counts, and that what is gold exists."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from palace_daemon.bench.sets.base import Case
from palace_daemon.bench.sets.registry import reader

pytestmark = pytest.mark.shared


def read(root: Path, name: str) -> list[Case]:
    cases = list(reader(name).read(root))
    for case in cases:
        sessions = [session.session_id for session in case.haystack.sessions]
        turns = [turn.turn_id for session in case.haystack.sessions for turn in session.turns]
        assert len(set(sessions)) == len(sessions)
        assert len(set(turns)) == len(turns)
        for question in case.questions:
            assert set(question.gold_sessions) <= set(sessions)
            assert set(question.gold_turns) <= set(turns)
            assert not (question.is_abstention and question.gold_sessions)
    return cases


def counts(cases: list[Case]) -> dict[str, int]:
    questions = [question for case in cases for question in case.questions]
    return {
        "cases": len(cases),
        "sessions": sum(len(case.haystack.sessions) for case in cases),
        "undated": sum(session.started_at is None for case in cases for session in case.haystack.sessions),
        "questions": len(questions),
        "abstention": sum(question.is_abstention for question in questions),
        "gold": sum(bool(question.gold_sessions) for question in questions),
        "unusable": sum(question.unusable_gold for question in questions),
    }


def expected(cases: int, sessions: int, questions: int, abstention: int, gold: int) -> dict[str, int]:
    return {
        "cases": cases,
        "sessions": sessions,
        "undated": 0,
        "questions": questions,
        "abstention": abstention,
        "gold": gold,
        "unusable": 0,
    }


def test_longmemeval(shared_data: Path) -> None:
    cases = read(shared_data, "longmemeval")
    assert counts(cases) == expected(cases=50, sessions=2_381, questions=50, abstention=4, gold=46)
    assert all(case.questions[0].gold_turns for case in cases if not case.questions[0].is_abstention)
    begins = [case.haystack.sessions for case in cases]
    assert sum(session.turns[0].role == "assistant" for sessions in begins for session in sessions) == 197


def test_locomo(shared_data: Path) -> None:
    cases = read(shared_data, "locomo")
    assert counts(cases) == expected(cases=3, sessions=70, questions=497, abstention=0, gold=495)


def test_beam(shared_data: Path) -> None:
    cases = read(shared_data, "beam")
    assert counts(cases) == expected(cases=20, sessions=82, questions=400, abstention=40, gold=355)
    assert set(Counter(question.kind for case in cases for question in case.questions).values()) == {40}
    turns = [turn for case in cases for session in case.haystack.sessions for turn in session.turns]
    assert not [turn.turn_id for turn in turns if turn.role == "user" and "->->" in turn.text]


def test_devmembench(shared_data: Path) -> None:
    cases = read(shared_data, "devmembench")
    assert counts(cases) == expected(cases=1, sessions=25, questions=100, abstention=12, gold=88)


def test_prefeval(shared_data: Path) -> None:
    cases = read(shared_data, "prefeval")
    assert counts(cases) == expected(cases=62, sessions=62 * 40 + 505, questions=505, abstention=0, gold=505)
    assert {len(case.questions) for case in cases} == {8, 9}
