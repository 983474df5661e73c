"""The set of questions about coding work that ships with the bench: what its README promises."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import palace_daemon.bench
from palace_daemon.bench.sets.base import Case, Question
from palace_daemon.bench.sets.registry import reader
from palace_daemon.core.analysis import terms
from palace_daemon.core.redaction import redact

FOLDER = Path(palace_daemon.bench.__file__).parent / "coding"
EXCHANGES = {"dev": 123, "test": 122}
KINDS = (
    *("command", "convention", "decision", "definition", "fix"),
    *("how-to", "preference", "state", "temporal", "test-run"),
)
WITHOUT_SHARED_WORD_MIN = 0.45
"""Measured: 0.50 in either split."""

STOP_WORDS = """a about above after again all also am an and any are as at be because been before being below but by
can could did do does done down else ever far for from get go got had has have having he her here him his how i if in
into is it its just let like make made many may me might more most much must my near no not now of off on once one only
or our out over own per place same say see she should so some still such than that the their them then there these they
thing things this those through to too two under until up us use used very want was way we were what when where which
while who whose why will with without would yes yet you your"""


def case_of(split: str) -> Case:
    (case,) = reader("jsonl-exchange").read(FOLDER / f"{split}.jsonl")
    return case


@pytest.fixture(scope="module", params=["dev", "test"])
def case(request: pytest.FixtureRequest) -> Case:
    return case_of(request.param)


def answerable(case: Case) -> list[Question]:
    return [question for question in case.questions if not question.is_abstention]


def test_a_split_is_as_large_as_promised(case: Case) -> None:
    split = case.haystack.haystack_id.removeprefix("coding-")
    assert len(case.haystack.sessions) == 30
    assert sum(len(session.turns) for session in case.haystack.sessions) == 2 * EXCHANGES[split]
    assert len(case.questions) == 65
    assert sum(question.is_abstention for question in case.questions) == 5
    assert Counter(question.kind for question in answerable(case)) == dict.fromkeys(KINDS, 6)
    assert {question.split for question in case.questions} == {split}
    assert len({question.text for question in case.questions}) == len(case.questions)


def test_sessions_are_dated_exchanges_of_a_person_and_an_agent(case: Case) -> None:
    for session in case.haystack.sessions:
        roles = [turn.role for turn in session.turns]
        assert roles == ["user", "assistant"] * (len(roles) // 2), session.session_id
        dates = [session.started_at or 0, *(turn.at or 0 for turn in session.turns)]
        assert dates == sorted(dates), session.session_id
        assert dates[0] > 0, session.session_id
        assert session.project, session.session_id
        assert all(turn.text.strip() == turn.text != "" for turn in session.turns), session.session_id


def test_gold_names_whole_exchanges_of_gold_sessions(case: Case) -> None:
    turns = {session.session_id: [turn.turn_id for turn in session.turns] for session in case.haystack.sessions}
    for question in answerable(case):
        expected = set()
        for session_id in question.gold_sessions:
            mine = turns[session_id]
            places = [place for place, turn_id in enumerate(mine) if turn_id in question.gold_turns]
            assert places, question.question_id
            expected |= {mine[place // 2 * 2 + side] for place in places for side in (0, 1)}
        assert set(question.gold_turns) == expected, question.question_id


def test_every_question_is_asked_after_the_last_session_and_of_everything(case: Case) -> None:
    latest = max(turn.at or 0 for session in case.haystack.sessions for turn in session.turns)
    for question in case.questions:
        assert question.now > latest, question.question_id
        assert not question.project, question.question_id


def test_gold_lies_in_the_project_that_the_question_is_about(case: Case) -> None:
    for question in answerable(case):
        about = question.question_id.rpartition("-")[0]
        projects = {one.project for one in case.haystack.sessions if one.session_id in question.gold_sessions}
        assert projects == {about}, question.question_id


def test_splits_share_no_project_and_no_text() -> None:
    dev, test = (case_of(split).haystack.sessions for split in ("dev", "test"))
    projects = [{session.project for session in sessions} for sessions in (dev, test)]
    assert [len(one) for one in projects] == [3, 3]
    assert not projects[0] & projects[1]
    said = [{turn.text for session in sessions for turn in session.turns} for sessions in (dev, test)]
    assert not said[0] & said[1]


def test_nothing_in_it_is_taken_for_a_secret(case: Case) -> None:
    for session in case.haystack.sessions:
        for turn in session.turns:
            assert redact(turn.text) == turn.text, turn.turn_id


def test_half_of_the_questions_share_no_content_word_with_their_gold(case: Case) -> None:
    stop = set(terms(STOP_WORDS))
    texts = {turn.turn_id: turn.text for session in case.haystack.sessions for turn in session.turns}
    shared = Counter(
        len((set(terms(question.text)) & {term for one in question.gold_turns for term in terms(texts[one])}) - stop)
        for question in answerable(case)
    )
    share = shared[0] / shared.total()
    print(f"{case.haystack.haystack_id}: no shared word {share:.3f}, by number of words {sorted(shared.items())}")
    assert share >= WITHOUT_SHARED_WORD_MIN
