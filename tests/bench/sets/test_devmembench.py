"""DevMemBench's layout: two files, projects on sessions only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.sets import utc_ms, write_json

from palace_daemon.bench.sets.devmembench import DevMemBench
from palace_daemon.errors import ConfigError

READER = DevMemBench()


def write(folder: Path, *gold: list[str]) -> Path:
    sessions = [
        {
            "sessionId": f"S{day}",
            "metadata": {"date": f"2025-01-{day}", "project": "shop"},
            "messages": [{"role": "user", "content": "Use Redis."}, {"role": "assistant", "content": "Yes."}],
        }
        for day in (17, 15)
    ]
    questions: list[dict[str, Any]] = [
        {"questionId": f"Q{number}", "questionType": "tech-stack", "question": "Which?", "haystackSessionIds": named}
        for number, named in enumerate(gold)
    ]
    write_json(folder / "sessions.json", sessions)
    return write_json(folder / "questions.dev.json", questions)


def test_all_questions_are_asked_of_all_sessions_the_day_after_the_last(tmp_path: Path) -> None:
    (case,) = READER.read(write(tmp_path, ["S15"], ["S15", "S17"]))
    assert [session.started_at for session in case.haystack.sessions] == [utc_ms(2025, 1, 17), utc_ms(2025, 1, 15)]
    assert {question.now for question in case.questions} == {utc_ms(2025, 1, 18)}
    assert [question.gold_sessions for question in case.questions] == [("S15",), ("S15", "S17")]


def test_sessions_keep_their_project_and_questions_have_none(tmp_path: Path) -> None:
    (case,) = READER.read(write(tmp_path, ["S15"]))
    assert {session.project for session in case.haystack.sessions} == {"shop"}
    assert {question.project for question in case.questions} == {""}


def test_no_sessions_mean_abstention_and_unknown_ones_are_counted(tmp_path: Path) -> None:
    (case,) = READER.read(write(tmp_path, [], ["S15", "S99"], ["S99"]))
    assert [question.is_abstention for question in case.questions] == [True, False, False]
    assert [question.gold_sessions for question in case.questions] == [(), ("S15",), ()]
    assert [question.unusable_gold for question in case.questions] == [0, 1, 1]


def test_either_file_or_folder_will_do(tmp_path: Path) -> None:
    path = write(tmp_path / "devmembench", ["S15"])
    read = list(READER.read(path))
    for other in (path.parent, tmp_path, path.parent / "sessions.json"):
        assert list(READER.read(other)) == read


def test_questions_without_sessions_beside_them_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, ["S15"])
    (tmp_path / "sessions.json").unlink()
    with pytest.raises(ConfigError, match="no DevMemBench file of sessions"):
        list(READER.read(path))


def test_a_date_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, ["S15"])
    told = tmp_path / "sessions.json"
    told.write_text(told.read_text(encoding="utf-8").replace("2025-01-15", "2025-01-32"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"sessions\.json .*: S15: '2025-01-32' is no date"):
        list(READER.read(path))
