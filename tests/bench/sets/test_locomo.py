"""LoCoMo's layout: two speakers, captions, and evidence in every spelling that the file has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.sets import utc_ms, write_json

from palace_daemon.bench.sets.base import Case, Question
from palace_daemon.bench.sets.locomo import LoCoMo
from palace_daemon.errors import ConfigError

READER = LoCoMo()
CONVERSATION: dict[str, Any] = {
    "speaker_a": "Ada",
    "speaker_b": "Ben",
    "session_10_date_time": "12:24 am on 7 April, 2023",
    "session_10": [{"speaker": "Ben", "dia_id": "D10:1", "text": "I moved."}],
    "session_2_date_time": "1:56 pm on 8 May, 2023",
    "session_2": [
        {"speaker": "Ada", "dia_id": "D2:1", "text": "Look!", "blip_caption": "a photo of a dog", "query": "dog park"},
        {"speaker": "Ben", "dia_id": "D2:2", "text": "", "blip_caption": "a boat"},
        {"speaker": "Ben", "dia_id": "D2:5", "text": "Mine."},
    ],
    "session_11_date_time": "8:52 pm on 5 December, 2023",
}


def read(folder: Path, *questions: dict[str, Any]) -> Case:
    document = [{"sample_id": "conv-1", "conversation": CONVERSATION, "qa": list(questions)}]
    (case,) = READER.read(write_json(folder / "locomo10.json", document))
    return case


def asked(folder: Path, *evidence: str, category: int = 4) -> Question:
    case = read(folder, {"question": "Who moved?", "answer": 1, "evidence": list(evidence), "category": category})
    return case.questions[0]


def test_sessions_are_those_that_hold_turns_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    sessions = read(tmp_path).haystack.sessions
    assert [session.session_id for session in sessions] == ["session_2", "session_10"]
    assert [session.started_at for session in sessions] == [utc_ms(2023, 5, 8, 13, 56), utc_ms(2023, 4, 7, 0, 24)]
    assert {turn.role for session in sessions for turn in session.turns} == {"speaker"}
    assert [turn.speaker for turn in sessions[0].turns] == ["Ada", "Ben", "Ben"]


def test_a_caption_is_part_of_the_text_and_the_words_of_its_search_are_not(tmp_path: Path) -> None:
    turns = read(tmp_path).haystack.sessions[0].turns
    assert [turn.text for turn in turns] == ["Look!\n[image: a photo of a dog]", "[image: a boat]", "Mine."]


def test_questions_are_asked_the_day_after_the_last_session_that_exists(tmp_path: Path) -> None:
    assert asked(tmp_path).now == utc_ms(2023, 5, 9, 13, 56)


@pytest.mark.parametrize(
    ("evidence", "turns", "unusable"),
    [
        (["D2:1", "D10:1"], ["D2:1", "D10:1"], 0),
        (["D2:1; D10:1"], ["D2:1", "D10:1"], 0),
        (["D2:1,D2:2 D10:1"], ["D2:1", "D2:2", "D10:1"], 0),
        (["D2:05"], ["D2:5"], 0),
        (["D:10:1"], ["D10:1"], 0),
        (["(D2:1)"], ["D2:1"], 0),
        (["D2:1", "D2:1"], ["D2:1"], 0),
        (["D2:1", "D"], ["D2:1"], 1),
        (["D9:1 D2:99"], [], 2),
        (["the second session"], [], 3),
        ([""], [], 0),
        ([], [], 0),
    ],
)
def test_evidence_is_read_as_meant_and_what_names_nothing_is_counted(
    tmp_path: Path, evidence: list[str], turns: list[str], unusable: int
) -> None:
    question = asked(tmp_path, *evidence)
    assert list(question.gold_turns) == turns
    assert question.unusable_gold == unusable
    assert list(question.gold_sessions) == list(dict.fromkeys(f"session_{turn[1:].split(':')[0]}" for turn in turns))
    assert not question.is_abstention


def test_evidence_that_is_no_text_does_not_stop_the_file(tmp_path: Path) -> None:
    question = read(tmp_path, {"question": "Who?", "evidence": [None, 3, "D2:1"], "category": 1}).questions[0]
    assert (question.gold_turns, question.unusable_gold) == (("D2:1",), 2)


def test_adversarial_questions_are_abstention_only_without_evidence(tmp_path: Path) -> None:
    question = asked(tmp_path, "D2:1", category=5)
    assert (question.kind, question.is_abstention, question.gold_turns) == ("adversarial", False, ("D2:1",))
    question = asked(tmp_path, "nowhere", category=5)
    assert (question.kind, question.is_abstention, question.gold_turns) == ("adversarial", True, ())


def test_categories_have_names(tmp_path: Path) -> None:
    questions: list[dict[str, Any]] = [
        {"question": "?", "evidence": [], "category": category} for category in (1, 2, 3, 4, 5)
    ]
    kinds = [question.kind for question in read(tmp_path, *questions).questions]
    assert kinds == ["multi-hop", "temporal", "open-domain", "single-hop", "adversarial"]


def test_a_session_of_another_layout_is_named(tmp_path: Path) -> None:
    document = [{"sample_id": "conv-1", "conversation": {"session_1": [{"text": "?"}]}, "qa": []}]
    with pytest.raises(ConfigError, match="session_1 of conv-1"):
        list(READER.read(write_json(tmp_path / "locomo10.json.gz", document)))


def test_a_session_that_is_no_list_is_named(tmp_path: Path) -> None:
    document = [{"sample_id": "conv-1", "conversation": {"session_1": "gone"}, "qa": []}]
    with pytest.raises(ConfigError, match="session_1 of conv-1"):
        list(READER.read(write_json(tmp_path / "locomo10.json", document)))


def read_conversation(folder: Path, conversation: dict[str, Any]) -> Case:
    document = [{"sample_id": "conv-1", "conversation": conversation, "qa": []}]
    (case,) = READER.read(write_json(folder / "locomo10.json", document))
    return case


def test_keys_of_sessions_are_kept_as_they_are_and_ordered_by_their_numbers(tmp_path: Path) -> None:
    turns = {number: [{"speaker": "Ada", "dia_id": f"D{number}:1", "text": "?"}] for number in (1, 2, 10)}
    case = read_conversation(
        tmp_path,
        {
            "session_10": turns[10],
            "session_02": turns[2],
            "session_02_date_time": "1:56 pm on 8 May, 2023",
            "session_1": turns[1],
            "session_٣": turns[1],
            f"session_{'9' * 5_000}": turns[1],
        },
    )
    told = [(session.session_id, session.started_at) for session in case.haystack.sessions]
    assert told == [("session_1", None), ("session_02", utc_ms(2023, 5, 8, 13, 56)), ("session_10", None)]


@pytest.mark.parametrize("evidence", [f"D{'9' * 5_000}:1", f"D1:{'9' * 5_000}", "D٢:1"])
def test_a_number_that_no_turn_has_is_counted(tmp_path: Path, evidence: str) -> None:
    assert asked(tmp_path, evidence).unusable_gold == 1


@pytest.mark.parametrize("date", ["13:56 pm on 8 May, 2023", "soon", 17])
def test_a_date_that_cannot_be_read_is_named(tmp_path: Path, date: object) -> None:
    with pytest.raises(ConfigError, match=rf"session_2 of conv-1: '{date}' is no date"):
        read_conversation(tmp_path, {**CONVERSATION, "session_2_date_time": date})


@pytest.mark.parametrize("date", ["", " ", None])
def test_a_session_may_be_undated(tmp_path: Path, date: str | None) -> None:
    case = read_conversation(tmp_path, {**CONVERSATION, "session_2_date_time": date})
    assert case.haystack.sessions[0].started_at is None
