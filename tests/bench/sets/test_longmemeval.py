"""LongMemEval's layout: dates, gold that does not leak, double ids, abstention, and files too large to hold."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support.sets import utc_ms, write_json

from palace_daemon.bench.sets.longmemeval import LongMemEval
from palace_daemon.errors import ConfigError

READER = LongMemEval()


def record(question_id: str = "q1", **changes: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "question_id": question_id,
        "question_type": "single-session-user",
        "question": "Which tea do I like?",
        "question_date": "2023/05/30 (Tue) 22:42",
        "answer": "Assam",
        "answer_session_ids": ["answer_1"],
        "haystack_dates": ["2023/06/02 (Fri) 07:46", "2023/05/21 (Sun) 02:06"],
        "haystack_session_ids": ["answer_1", "plain"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "I like Assam.", "has_answer": True},
                {"role": "assistant", "content": "Noted.", "has_answer": False},
            ],
            [{"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Hi"}],
        ],
    }
    return {**told, **changes}


def test_a_question_is_asked_on_its_own_date_of_its_own_haystack(tmp_path: Path) -> None:
    path = write_json(tmp_path / "longmemeval_s_cleaned.json", [record("q1"), record("q2")])
    cases = list(READER.read(path))
    assert [case.haystack.haystack_id for case in cases] == ["q1", "q2"]
    (question,) = cases[0].questions
    assert (question.text, question.kind) == ("Which tea do I like?", "single-session-user")
    assert question.now == utc_ms(2023, 5, 30, 22, 42)


def test_sessions_stay_in_their_order_with_their_dates_even_after_the_question(tmp_path: Path) -> None:
    path = write_json(tmp_path / "longmemeval_s_cleaned.json", [record()])
    (case,) = READER.read(path)
    assert [session.session_id for session in case.haystack.sessions] == ["answer_1", "plain"]
    assert [session.started_at for session in case.haystack.sessions] == [
        utc_ms(2023, 6, 2, 7, 46),
        utc_ms(2023, 5, 21, 2, 6),
    ]
    assert [turn.role for turn in case.haystack.sessions[1].turns] == ["assistant", "user"]


def test_marks_of_the_answer_become_gold_turns_and_stand_in_no_text(tmp_path: Path) -> None:
    path = write_json(tmp_path / "longmemeval_s_cleaned.json", [record()])
    (case,) = READER.read(path)
    (question,) = case.questions
    assert question.gold_sessions == ("answer_1",)
    assert question.gold_turns == (case.haystack.sessions[0].turns[0].turn_id,)
    said = [turn.text for session in case.haystack.sessions for turn in session.turns]
    assert said == ["I like Assam.", "Noted.", "Hello", "Hi"]


def test_a_question_that_cannot_be_answered_has_no_gold(tmp_path: Path) -> None:
    path = write_json(tmp_path / "longmemeval_s_cleaned.json", [record("q1_abs")])
    (question,) = next(READER.read(path)).questions
    assert question.is_abstention
    assert (question.gold_sessions, question.gold_turns, question.unusable_gold) == ((), (), 0)


def test_a_session_that_stands_twice_has_two_ids_and_both_are_gold(tmp_path: Path) -> None:
    twice = record(haystack_session_ids=["answer_1", "answer_1"])
    (case,) = READER.read(write_json(tmp_path / "longmemeval_oracle.json", [twice]))
    assert [session.session_id for session in case.haystack.sessions] == ["answer_1", "answer_1#2"]
    assert case.questions[0].gold_sessions == ("answer_1", "answer_1#2")
    turn_ids = [turn.turn_id for session in case.haystack.sessions for turn in session.turns]
    assert len(set(turn_ids)) == 4


def test_gold_that_is_not_in_the_haystack_is_counted(tmp_path: Path) -> None:
    path = write_json(tmp_path / "longmemeval_s.json", [record(answer_session_ids=["answer_1", "answer_2"])])
    (question,) = next(READER.read(path)).questions
    assert (question.gold_sessions, question.unusable_gold) == (("answer_1",), 1)


@pytest.mark.parametrize("at", ["longmemeval_m_cleaned.json.gz", "longmemeval/longmemeval_m_cleaned.json.gz"])
def test_the_folder_and_the_root_above_it_are_enough(tmp_path: Path, at: str) -> None:
    path = write_json(tmp_path / at, [record()])
    assert list(READER.read(tmp_path)) == list(READER.read(path)) == list(READER.read(path.parent))


def test_several_files_in_a_folder_must_be_told_apart(tmp_path: Path) -> None:
    write_json(tmp_path / "longmemeval_s_cleaned.json", [record()])
    write_json(tmp_path / "longmemeval_oracle.json", [record()])
    with pytest.raises(ConfigError, match=r"longmemeval_oracle\.json, longmemeval_s_cleaned\.json"):
        next(READER.read(tmp_path))


def test_cases_come_before_the_rest_of_the_file_is_read(tmp_path: Path) -> None:
    filler = [{"role": "user", "content": "x" * 100_000}] * 30
    records = [record(f"q{number}", haystack_sessions=[filler, []]) for number in range(3)]
    path = tmp_path / "longmemeval_m_cleaned.json"
    path.write_text(json.dumps(records)[:-1_000_000], encoding="utf-8")
    cases = READER.read(path)
    assert [next(cases).haystack.haystack_id for _ in range(2)] == ["q0", "q1"]
    with pytest.raises(ConfigError, match="ends in the middle"):
        next(cases)


def test_a_gzip_file_that_was_cut_off_is_named(tmp_path: Path) -> None:
    path = write_json(tmp_path / "longmemeval_s.json.gz", [record()])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ConfigError, match=r"longmemeval_s.json.gz cannot be read"):
        list(READER.read(path))


def test_half_a_surrogate_pair_does_not_stop_a_file(tmp_path: Path) -> None:
    path = tmp_path / "longmemeval_s.json"
    path.write_text(json.dumps([record()]).replace("Noted.", "Noted \\ud83d."), encoding="utf-8")
    (case,) = READER.read(path)
    assert case.haystack.sessions[0].turns[1].text == "Noted \ufffd."


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"question_date": "some day"}, "question_date of question q1"),
        ({"haystack_session_ids": ["answer_1"]}, "number of haystack_session_ids of question q1"),
        ({"haystack_sessions": "none"}, "element 1, is no LongMemEval file"),
        ({"haystack_sessions": [[{"role": "robot", "content": ""}], []]}, r"\.role"),
    ],
)
def test_a_file_of_another_layout_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = write_json(tmp_path / "longmemeval_s.json", [record(**changes)])
    with pytest.raises(ConfigError, match=message):
        list(READER.read(path))


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "ends in the middle"),
        (b"[]", "is empty"),
        (b"[{]", "ends in the middle|malformed"),
        (b'{"a":1}\n{"a":2}\n', "text follows"),
        (gzip.compress(b"nothing", mtime=0), "ends in the middle"),
    ],
)
def test_what_is_no_json_array_is_refused(tmp_path: Path, payload: bytes, message: str) -> None:
    path = tmp_path / "longmemeval_s.json"
    path.write_bytes(payload)
    with pytest.raises(ConfigError, match=message):
        list(READER.read(path))


@pytest.mark.parametrize(
    ("dates", "message"),
    [
        (["2023/06/02 (Fri) 07:46"], "question q1 are not as expected: 1 for 2 sessions"),
        (["2023/06/02 (Fri) 07:46"] * 3, "3 for 2 sessions"),
        (["2023/06/02 (Fri) 07:46", "2023/06/31 (Sat) 07:46"], "question q1 .*: '2023/06/31 .* is no date"),
    ],
)
def test_dates_that_are_not_those_of_the_sessions_are_refused(tmp_path: Path, dates: list[str], message: str) -> None:
    path = write_json(tmp_path / "longmemeval_s.json", [record(haystack_dates=dates)])
    with pytest.raises(ConfigError, match=message):
        list(READER.read(path))


@pytest.mark.parametrize("dates", [[], ["", ""]])
def test_sessions_may_be_undated(tmp_path: Path, dates: list[str]) -> None:
    (case,) = READER.read(write_json(tmp_path / "longmemeval_s.json", [record(haystack_dates=dates)]))
    assert {session.started_at for session in case.haystack.sessions} == {None}
