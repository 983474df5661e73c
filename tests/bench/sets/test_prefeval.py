"""PrefEval's haystacks: who stands beside whom, drawn the same way each time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.sets import write_json

from palace_daemon.bench.sets import prefeval
from palace_daemon.bench.sets.prefeval import ACKNOWLEDGEMENT, DISTRACTORS, PrefEval
from palace_daemon.errors import ConfigError

READER = PrefEval()
TOPICS = {"food": 10, "travel": 7, "games": 3}


def write(root: Path, *, pool_sessions: int = 60, pool_name: str = "longmemeval_s_cleaned.json.gz") -> Path:
    preferences = [
        {"preference": f"I like {topic} {number}.", "question": f"What {topic}, {number}?", "topic": topic}
        for topic, count in TOPICS.items()
        for number in range(count)
    ]
    ids = ["answer_1", *(f"other_{number}" for number in range(pool_sessions))]
    pool = {
        "question_id": "q",
        "question": "?",
        "question_date": "2023/05/30 (Tue) 22:42",
        "answer_session_ids": ["answer_1"],
        "haystack_session_ids": ids,
        "haystack_dates": [f"2023/05/{1 + number % 28:02} (Sun) 02:06" for number in range(len(ids))],
        "haystack_sessions": [[{"role": "user", "content": f"About {name}"}] for name in ids],
    }
    write_json(root / "longmemeval" / pool_name, [pool, pool])
    return write_json(root / "prefeval" / "explicit_preference.dev.json", preferences)


def test_every_preference_is_hidden_once_and_asked_for_once(tmp_path: Path) -> None:
    cases = list(READER.read(write(tmp_path)))
    questions = [question for case in cases for question in case.questions]
    assert Counter(question.kind for question in questions) == TOPICS
    assert len({question.question_id for question in questions}) == sum(TOPICS.values())
    for case in cases:
        sessions = {session.session_id: session for session in case.haystack.sessions}
        assert len(sessions) == len(case.haystack.sessions) == DISTRACTORS + len(case.questions)
        for question in case.questions:
            told, acknowledged = sessions[question.gold_sessions[0]].turns
            assert told.text.removeprefix("I like ").rstrip(".").split() == question.text[5:-1].split(", ")
            assert (told.role, told.turn_id) == ("user", question.gold_turns[0])
            assert (acknowledged.role, acknowledged.text) == ("assistant", ACKNOWLEDGEMENT)


def test_no_haystack_holds_two_preferences_of_a_topic_and_all_are_about_as_large(tmp_path: Path) -> None:
    cases = list(READER.read(write(tmp_path)))
    assert len(cases) == max(TOPICS.values())
    assert {len(case.questions) for case in cases} == {2}
    for case in cases:
        assert len({question.kind for question in case.questions}) == len(case.questions)


def test_sessions_with_evidence_of_the_other_set_are_never_drawn(tmp_path: Path) -> None:
    ids = {session.session_id for case in READER.read(write(tmp_path)) for session in case.haystack.sessions}
    assert "answer_1" not in ids
    assert len([one for one in ids if one.startswith("other_")]) > DISTRACTORS


def test_haystacks_next_to_each_other_share_their_distractors(tmp_path: Path) -> None:
    drawn = [
        {session.session_id for session in case.haystack.sessions if session.session_id.startswith("other_")}
        for case in READER.read(write(tmp_path))
    ]
    share = prefeval.HAYSTACKS_A_DRAW
    assert drawn[:share] == [drawn[0]] * share
    assert drawn[share] != drawn[0]


def test_dates_are_in_order_and_those_of_preferences_are_dates_of_the_other_set(tmp_path: Path) -> None:
    for case in READER.read(write(tmp_path)):
        dates = [session.started_at or 0 for session in case.haystack.sessions]
        assert dates == sorted(dates)
        assert {question.now for question in case.questions} == {max(dates) + 86_400_000}
        assert min(dates) > 0


def test_reading_twice_gives_the_same_and_so_does_another_place(tmp_path: Path) -> None:
    path = write(tmp_path / "a")
    other = write(tmp_path / "b")
    assert list(READER.read(path)) == list(READER.read(path)) == list(READER.read(other))
    assert list(READER.read(path.parent)) == list(READER.read(tmp_path / "a")) == list(READER.read(path))


def test_a_pool_that_changed_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path)
    first = list(READER.read(path))
    write(tmp_path, pool_sessions=70)
    assert list(READER.read(path)) != first


def test_of_several_pools_the_one_for_development_is_taken(tmp_path: Path) -> None:
    path = write(tmp_path, pool_name="longmemeval_s_cleaned.dev50.json.gz")
    expected = list(READER.read(path))
    write(tmp_path, pool_sessions=80, pool_name="longmemeval_s_cleaned.json.gz")
    assert list(READER.read(path)) == expected


def test_without_sessions_to_hide_in_there_is_no_set(tmp_path: Path) -> None:
    path = write(tmp_path, pool_sessions=DISTRACTORS)
    with pytest.raises(ConfigError, match="40 dated sessions without evidence"):
        next(READER.read(path))
    (tmp_path / "longmemeval" / "longmemeval_s_cleaned.json.gz").unlink()
    with pytest.raises(ConfigError, match="no LongMemEval file beside"):
        next(READER.read(path))
