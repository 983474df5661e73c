"""Plain JSON Lines: the documented example, haystacks one after another, and errors that name the line."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.sets import utc_ms

from palace_daemon.bench.sets.jsonlines import HaystackLine, JsonLines, QuestionLine, SessionLine, TurnObject
from palace_daemon.errors import ConfigError

READER = JsonLines()
BY_EXCHANGE = JsonLines("jsonl-exchange", "exchange")
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "bench-format.md").read_text(encoding="utf-8")
HAYSTACK: dict[str, Any] = {"type": "haystack", "id": "h"}
SESSION: dict[str, Any] = {"type": "session", "id": "s", "turns": [{"role": "user", "text": "Tea.", "id": "t"}]}
QUESTION: dict[str, Any] = {"type": "question", "id": "q", "text": "What?", "gold": ["s"]}


def write(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / "own.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def example() -> str:
    found = re.search(r"```jsonl\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found[1]


def test_the_example_of_the_page_says_what_the_page_says(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(example(), encoding="utf-8")
    (case,) = READER.read(path)
    first, second = case.haystack.sessions
    assert case.haystack.haystack_id == "team"
    assert (first.session_id, first.project, first.started_at) == ("s1", "tidepool", utc_ms(2025, 3, 1, 9, 30))
    assert [turn.turn_id for turn in first.turns] == ["s1:1", "s1:2"]
    assert second.started_at == utc_ms(2025, 3, 4, 10, 0)
    assert [(turn.role, turn.speaker) for turn in second.turns] == [("speaker", "Ada"), ("speaker", "Ben")]
    asked, by_turn, open_question = case.questions
    assert (asked.now, asked.kind, asked.project) == (utc_ms(2025, 4, 1), "decision", "tidepool")
    assert by_turn.now == utc_ms(2025, 3, 5, 10, 0)
    assert (by_turn.gold_sessions, by_turn.gold_turns) == (("s2",), ("demo",))
    assert open_question.is_abstention
    assert {question.split for question in case.questions} == {"dev"}


def test_the_page_lists_every_key() -> None:
    documented = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    read = {
        key for kind in (HaystackLine, SessionLine, QuestionLine, TurnObject) for key in kind.__struct_encode_fields__
    }
    assert documented == read - {"note"}


def test_each_haystack_has_the_lines_up_to_the_next(tmp_path: Path) -> None:
    path = write(tmp_path, HAYSTACK, QUESTION, SESSION, {**HAYSTACK, "id": "h2"}, SESSION, QUESTION)
    cases = list(READER.read(path))
    assert [case.haystack.haystack_id for case in cases] == ["h", "h2"]
    assert [[question.gold_sessions for question in case.questions] for case in cases] == [[("s",)], [("s",)]]


def test_a_file_with_one_haystack_needs_no_line_for_it(tmp_path: Path) -> None:
    (case,) = READER.read(write(tmp_path, SESSION, QUESTION))
    assert case.haystack.haystack_id == "own"


def test_a_haystack_comes_before_the_next_one_is_read(tmp_path: Path) -> None:
    cases = READER.read(write(tmp_path, HAYSTACK, SESSION, {**HAYSTACK, "id": "h2"}, {"type": "nonsense"}))
    assert next(cases).haystack.haystack_id == "h"
    with pytest.raises(ConfigError, match="line 4"):
        next(cases)


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    text = "one\u2028two\u0085three"
    line = {**SESSION, "turns": [{"role": "user", "text": text}]}
    path = tmp_path / "own.jsonl.gz"
    payload = (
        b"\xef\xbb\xbf" + json.dumps(line, ensure_ascii=False).encode() + b"\r\n\n" + json.dumps(QUESTION).encode()
    )
    path.write_bytes(gzip.compress(payload))
    (case,) = READER.read(tmp_path)
    assert case.haystack.sessions[0].turns[0].text == text
    assert len(case.questions) == 1


def test_a_session_without_a_date_has_that_of_its_first_dated_turn(tmp_path: Path) -> None:
    turns = [{"role": "user", "text": "a"}, {"role": "assistant", "text": "b", "date": "2025-03-01T10:00:00+01:00"}]
    (case,) = READER.read(write(tmp_path, {**SESSION, "turns": turns}))
    assert case.haystack.sessions[0].started_at == utc_ms(2025, 3, 1, 9, 0)
    assert [turn.at for turn in case.haystack.sessions[0].turns] == [None, utc_ms(2025, 3, 1, 9, 0)]


def test_gold_turns_make_their_sessions_gold(tmp_path: Path) -> None:
    question = {**QUESTION, "gold": [], "goldTurns": ["t"]}
    (case,) = BY_EXCHANGE.read(write(tmp_path, SESSION, question))
    assert case.questions[0].gold_sessions == ("s",)


def test_exchanges_can_be_gold_only_where_turns_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, SESSION, QUESTION)
    assert len(list(READER.read(path))) == 1
    with pytest.raises(ConfigError, match=r"line 2: the question has no goldTurns"):
        list(BY_EXCHANGE.read(path))


def test_where_exchanges_are_ranked_a_session_without_gold_turns_is_no_gold_and_counted(tmp_path: Path) -> None:
    other = {"type": "session", "id": "s2", "turns": [{"role": "user", "text": "Milk."}]}
    path = write(tmp_path, SESSION, other, {**QUESTION, "gold": ["s2", "s", "s2"], "goldTurns": ["t"]})
    ((by_exchange,), (by_session,)) = ([case.questions[0] for case in one.read(path)] for one in (BY_EXCHANGE, READER))
    assert (by_exchange.gold_sessions, by_exchange.unusable_gold) == (("s",), 1)
    assert (by_session.gold_sessions, by_session.unusable_gold) == (("s2", "s"), 0)


_IN_RANGE = [-62_135_596_800_000, 253_402_300_799_999, "0001-01-01", "9999-12-31T23:59:59.999Z"]


@pytest.mark.parametrize("date", _IN_RANGE)
def test_dates_reach_from_year_1_to_9999(tmp_path: Path, date: str | int) -> None:
    (case,) = READER.read(write(tmp_path, {**SESSION, "date": date}, {**QUESTION, "now": date}))
    assert case.haystack.sessions[0].started_at == case.questions[0].now
    assert case.questions[0].now in _IN_RANGE[:2] or isinstance(date, str)


@pytest.mark.parametrize(
    "date",
    [-62_135_596_800_001, 253_402_300_800_000, 1 << 63, 1 << 80, "0001-01-01T00:00+01:00", "9999-12-31T23:00-02"],
)
@pytest.mark.parametrize("place", ["session", "turn", "question"])
def test_a_date_that_no_calendar_has_is_named_with_its_line(tmp_path: Path, date: str | int, place: str) -> None:
    turn = {**SESSION["turns"][0], **({"date": date} if place == "turn" else {})}
    told = {**SESSION, "turns": [turn], **({"date": date} if place == "session" else {})}
    asked = {**QUESTION, **({"now": date} if place == "question" else {})}
    with pytest.raises(ConfigError, match=rf"line {2 if place == 'question' else 1}.*years 1 to 9999"):
        list(READER.read(write(tmp_path, told, asked)))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([SESSION, {**QUESTION, "golds": ["s"]}], "line 2, .*golds"),
        ([SESSION, {**QUESTION, "project": "tide"}], "line 2: no session of this haystack is of the project tide"),
        ([{**SESSION, "project": "a/tidepool"}, {**QUESTION, "project": "tidepol"}], "line 2: .* project tidepol"),
        ([SESSION, {**QUESTION, "gold": ["x"]}], "line 2: gold names no session of this haystack: x"),
        ([SESSION, {**QUESTION, "goldTurns": ["x"]}], "line 2: goldTurns name no turn of this haystack: x"),
        ([SESSION, {**QUESTION, "gold": []}], "line 2: a question has gold, or abstention is true"),
        ([SESSION, {**QUESTION, "abstention": True}], "line 2: a question has gold, or abstention is true"),
        ([SESSION, {**QUESTION, "now": "soon"}], "line 2: soon is no date"),
        ([SESSION, QUESTION, QUESTION], "line 3: there is another question q"),
        ([SESSION, SESSION], "line 2: there is another session s"),
        ([SESSION, {**SESSION, "id": "s2"}], "line 2: there is another turn t"),
        ([HAYSTACK, SESSION, HAYSTACK], "line 3: there is another haystack h"),
        ([HAYSTACK, QUESTION], "line 1: haystack h has no session"),
        ([{**SESSION, "turns": [{"role": "speaker", "text": "a"}]}], "line 1: turn 1 needs a speaker's name"),
        ([{**SESSION, "turns": [{"role": "user", "speaker": "Ada", "text": "a"}]}], "line 1: turn 1 needs a speaker"),
        ([{**SESSION, "turns": [{"role": "robot", "text": "a"}]}], r"line 1, .*turns\[0\]\.role"),
        ([], "it is empty"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, lines: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        list(READER.read(write(tmp_path, *lines)))


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, SESSION)
    path.write_text(path.read_text(encoding="utf-8") + "{half\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"line 2, .*malformed JSON"):
        list(READER.read(path))


@pytest.mark.parametrize("project", ["tidepool", "/work/tidepool", "/work"])
def test_a_question_may_name_a_project_as_a_recall_may(tmp_path: Path, project: str) -> None:
    path = write(tmp_path, {**QUESTION, "project": project}, {**SESSION, "project": "/work/tidepool"})
    (case,) = READER.read(path)
    assert case.questions[0].project == project
