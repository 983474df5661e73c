"""The bench of recall: ranks that depend on the set alone, and files that hold ids and figures only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from palace_daemon import bench
from palace_daemon.bench import recall, recall_ablation, recall_metrics, recall_runner, recall_summary
from palace_daemon.bench.haystack import CHUNKINGS, Chunking
from palace_daemon.bench.recall_runner import Asked, CaseResult, RunSettings, limited, run_cases
from palace_daemon.bench.recall_summary import Line, Run
from palace_daemon.bench.sets.base import Case, Haystack, Question, Session, Turn
from palace_daemon.core import rank
from palace_daemon.embed import registry
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.errors import ConfigError
from palace_daemon.model import RecallQuery

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000
TOPICS = (
    "queue",
    "cache",
    "login",
    "index",
    "backup",
    "parser",
    "search",
    "release",
    "budget",
    "holiday",
    "garden",
    "boat",
)


def _session(topic: str, day: int) -> Session:
    turns = (
        Turn(role="user", text=f"What shall we do about the {topic}?", turn_id=f"{topic}-1"),
        Turn(role="assistant", text=f"The {topic} moves to the second shelf.", turn_id=f"{topic}-2"),
        Turn(role="user", text=f"And who looks after the {topic} in {2000 + day}?", turn_id=f"{topic}-3"),
        Turn(role="assistant", text=f"Robin keeps the {topic}, with number {day * 37}.", turn_id=f"{topic}-4"),
    )
    return Session(
        session_id=f"about-{topic}",
        turns=turns,
        started_at=START_MS + day * DAY_MS,
        project="odd" if day % 2 else "even",
    )


def _question(topic: str, **changes: Any) -> Question:
    question = Question(
        question_id=f"q-{topic}",
        text=f"Which shelf has the {topic}?",
        now=START_MS + 100 * DAY_MS,
        kind="shelves",
        gold_sessions=(f"about-{topic}",),
        gold_turns=(f"{topic}-2",),
    )
    return msgspec.structs.replace(question, **changes)


HAYSTACK = Haystack(haystack_id="shelves", sessions=tuple(_session(topic, day) for day, topic in enumerate(TOPICS)))
CASE = Case(
    haystack=HAYSTACK,
    questions=(
        *(_question(topic) for topic in TOPICS),
        _question("unicorn", kind="never said", gold_sessions=(), gold_turns=(), is_abstention=True),
    ),
)


class _Shelves:
    """A set in memory."""

    name = "shelves"
    gold_unit: Literal["session", "exchange"] = "exchange"

    def read(self, path: Path) -> Iterator[Case]:
        yield CASE


def _settings(folder: Path, chunking: Chunking = "exchange", weights: rank.Weights = rank.WEIGHTS) -> RunSettings:
    return RunSettings(
        model=registry.DEFAULT_MODEL, chunking=chunking, weights=weights, cache=folder / "vectors", threads=1
    )


def _run(folder: Path, case: Case = CASE, chunking: Chunking = "exchange", ranker: str = "product") -> CaseResult:
    settings = _settings(folder, chunking, recall.weights_of(ranker))
    (result,) = run_cases([case], settings, model=HashingEmbedder())
    return result


def _lines(result: CaseResult) -> list[Line]:
    return [recall_summary.line_of(one, "exchange") for one in result.asked]


# ------------------------------------------------------------------------------------------------------------- ranks


def test_what_was_said_is_found_in_its_session_and_in_its_exchange(tmp_path: Path) -> None:
    first = _lines(_run(tmp_path))[0]
    assert first.top_sessions[0] == "about-queue"
    assert first.top_exchanges[0] == "about-queue#1"
    assert (first.gold_sessions, first.gold_exchanges) == ((1,), (1,))
    assert (len(first.top_sessions), len(first.top_exchanges), len(first.parts)) == (10, 10, 10)
    assert sum(first.parts[0].values()) >= sum(first.parts[1].values())


@pytest.mark.parametrize("mode", CHUNKINGS)
def test_a_second_run_gives_equal_bits_and_embeds_nothing(tmp_path: Path, mode: Chunking) -> None:
    first, second = _run(tmp_path, chunking=mode), _run(tmp_path, chunking=mode)
    assert msgspec.json.encode(_lines(first)) == msgspec.json.encode(_lines(second))
    assert first.embedded > 0
    assert second.embedded == 0


def _renamed(name: str) -> str:
    return f"{sum(name.encode()) * 7_919 % 1_000:03d}-{name[::-1]}"


def test_other_ids_give_the_same_ranks_and_scores(tmp_path: Path) -> None:
    sessions = [
        msgspec.structs.replace(
            one,
            session_id=_renamed(one.session_id),
            turns=tuple(msgspec.structs.replace(turn, turn_id=_renamed(turn.turn_id)) for turn in one.turns),
        )
        for one in HAYSTACK.sessions
    ]
    questions = [
        msgspec.structs.replace(
            one,
            gold_sessions=tuple(map(_renamed, one.gold_sessions)),
            gold_turns=tuple(map(_renamed, one.gold_turns)),
        )
        for one in CASE.questions
    ]
    renamed = Case(haystack=Haystack(haystack_id="other", sessions=tuple(sessions)), questions=tuple(questions))
    for before, after in zip(_lines(_run(tmp_path)), _lines(_run(tmp_path, renamed)), strict=True):
        assert (before.gold_sessions, before.gold_exchanges) == (after.gold_sessions, after.gold_exchanges)
        assert before.parts == after.parts
        assert tuple(map(_renamed, before.top_sessions)) == after.top_sessions


def test_gold_does_not_change_what_is_found(tmp_path: Path) -> None:
    other = tuple(
        msgspec.structs.replace(one, gold_sessions=("about-boat",), gold_turns=("boat-4",)) for one in CASE.questions
    )
    before, after = _lines(_run(tmp_path)), _lines(_run(tmp_path, Case(haystack=HAYSTACK, questions=other)))
    assert [(one.top_exchanges, one.parts) for one in before] == [(one.top_exchanges, one.parts) for one in after]


def test_gold_turns_in_one_exchange_are_one_piece_of_gold(tmp_path: Path) -> None:
    question = _question("cache", gold_turns=("cache-1", "cache-2", "cache-2", "cache-4"))
    (line,) = _lines(_run(tmp_path, Case(haystack=HAYSTACK, questions=(question,))))
    assert len(line.gold_exchanges) == 2


def test_gold_that_is_not_in_the_haystack_is_counted_and_not_found(tmp_path: Path) -> None:
    question = _question("cache", gold_sessions=("about-cache", "elsewhere"), gold_turns=("cache-2", "nowhere"))
    result = _run(tmp_path, Case(haystack=HAYSTACK, questions=(question,)))
    (line,) = _lines(result)
    assert (result.sessions_not_stored, result.turns_not_stored) == (1, 1)
    assert (line.gold_sessions, line.gold_exchanges) == ((1, None), (1, None))


@pytest.mark.parametrize("mode", CHUNKINGS)
def test_gold_in_a_session_that_yields_no_exchange_is_counted_and_not_found(tmp_path: Path, mode: Chunking) -> None:
    blank = Session(session_id="blank", turns=(Turn(role="user", text=" ", turn_id="blank-1"),), started_at=START_MS)
    haystack = Haystack(haystack_id="h", sessions=(*HAYSTACK.sessions, blank))
    question = _question("cache", gold_sessions=("about-cache", "blank"), gold_turns=("cache-2", "blank-1"))
    result = _run(tmp_path, Case(haystack=haystack, questions=(question,)), mode)
    assert (result.sessions, result.sessions_not_stored, result.turns_not_stored) == (13, 1, 1)


def test_equal_words_in_two_sessions_keep_a_rank_each_though_recall_may_fold_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folding(**given: Any) -> RecallQuery:
        return RecallQuery(**{"fold": True, **given})

    monkeypatch.setattr(recall_runner, "RecallQuery", folding)
    words = (Turn(role="user", text="Which shelf has the queue?"), Turn(role="assistant", text="The second shelf."))
    twins = tuple(Session(session_id=name, turns=words, started_at=START_MS) for name in ("one", "two"))
    case = Case(haystack=Haystack(haystack_id="h", sessions=twins), questions=(_question("queue"),))
    (line,) = _lines(_run(tmp_path, case))
    assert set(line.top_sessions) == {"one", "two"}


def test_a_question_of_a_project_finds_nothing_of_others(tmp_path: Path) -> None:
    (line,) = _lines(_run(tmp_path, Case(haystack=HAYSTACK, questions=(_question("queue", project="odd"),))))
    assert set(line.top_sessions) == {f"about-{topic}" for topic in TOPICS[1::2]}
    assert line.gold_sessions == (None,)


@pytest.mark.parametrize("mode", ["session", "text"])
def test_without_exchanges_a_session_is_one_text(tmp_path: Path, mode: Chunking) -> None:
    result = _run(tmp_path, chunking=mode)
    assert (result.sessions, result.exchanges) == (12, 12)
    assert [line.gold_exchanges for line in _lines(result)] == [line.gold_sessions for line in _lines(result)]


def test_many_drawers_of_one_session_do_not_hide_the_others(tmp_path: Path) -> None:
    loud = Session(
        session_id="loud",
        turns=tuple(Turn(role="user", text=f"Which shelf has the queue, {number}?") for number in range(80)),
        started_at=START_MS,
    )
    haystack = Haystack(haystack_id="h", sessions=(loud, *HAYSTACK.sessions))
    (line,) = _lines(_run(tmp_path, Case(haystack=haystack, questions=(_question("queue"),))))
    assert line.top_sessions[:2] == ("loud", "about-queue")
    assert len(line.top_sessions) == 10


@pytest.mark.parametrize(("ranker", "signal"), [("cosine", "cosine"), ("words", "bm25")])
def test_a_preset_leaves_one_signal(tmp_path: Path, ranker: str, signal: str) -> None:
    for line in _lines(_run(tmp_path, ranker=ranker)):
        assert all(value == 0.0 for parts in line.parts for name, value in parts.items() if name != signal)
        assert any(parts[signal] > 0.0 for parts in line.parts)


def test_a_signal_is_taken_out_by_its_name() -> None:
    weights = recall.weights_of("product", ["bm25"])
    assert (weights.bm25, weights.cosine) == (0.0, rank.WEIGHTS.cosine)
    plain = msgspec.to_builtins(recall.weights_of("plain"))
    assert {name: value for name, value in plain.items() if value} == {"cosine": 0.65, "bm25": 0.35}
    with pytest.raises(ConfigError, match=r"unknown signal 'bm26'.*cosine"):
        recall.weights_of("product", ["bm26"])


def test_a_limit_counts_questions_over_all_cases() -> None:
    cases = [CASE, CASE, CASE]
    assert [len(case.questions) for case in limited(cases, 15)] == [13, 2]
    assert [len(case.questions) for case in limited(cases, 13)] == [13]
    assert len(list(limited(cases, None))) == 3


def _twice(folder: Path) -> list[CaseResult]:
    """Run two haystacks that use the same ids for other questions."""
    haystack = msgspec.structs.replace(HAYSTACK, haystack_id="other")
    backwards = Case(haystack=haystack, questions=CASE.questions[::-1])
    return list(run_cases([CASE, backwards], _settings(folder), model=HashingEmbedder()))


def test_questions_of_two_haystacks_that_share_their_ids_are_compared_apart(tmp_path: Path) -> None:
    lines = [line for result in _twice(tmp_path) for line in _lines(result)]
    assert {line.haystack_id for line in lines} == {"shelves", "other"}
    worse = [msgspec.structs.replace(line, gold_sessions=(None,)) if at == 0 else line for at, line in enumerate(lines)]
    found = recall_summary.compared(worse, lines, "session")
    assert found.n == 2 * len(TOPICS)
    (moved,) = recall_summary.comparison(found)["up"]
    assert moved == {"haystackId": "shelves", "questionId": "q-queue", "before": None, "after": 1}


def _missed(asked: Asked) -> Asked:
    return msgspec.structs.replace(asked, sessions=msgspec.structs.replace(asked.sessions, ranks=(None,)))


def test_the_table_of_signals_counts_the_questions_of_every_haystack(tmp_path: Path) -> None:
    results = [
        msgspec.structs.replace(result, others=(tuple(map(_missed, result.asked)),)) for result in _twice(tmp_path)
    ]
    right = sum(
        recall_metrics.any_at(one.sessions.ranks, 1)
        for result in results
        for one in result.asked
        if not one.is_abstention
    )
    (row,) = recall_ablation.rows(["nothing"], results, "session")
    assert right > len(TOPICS)
    assert (row["wholeGains"], row["wholeLoses"]) == (right, 0)
    assert 0 < row["pValue"] < 1e-4
    assert f"+{right} -0 (p < 0.0001)" in recall_ablation.table(_report(tmp_path) | {"ablation": [row]})


# ----------------------------------------------------------------------------------------------------------- reports


def _report(folder: Path, *, unit: Literal["session", "exchange"] = "exchange") -> dict[str, Any]:
    run = Run(
        set_name="shelves",
        unit=unit,
        settings=_settings(folder),
        ranker="product",
        ablated=(),
        limit=None,
        jobs=1,
        seconds=1.0,
    )
    return recall_summary.summary(run, [_run(folder)])


def test_abstention_is_counted_and_left_out(tmp_path: Path) -> None:
    report = _report(tmp_path)
    assert (report["questions"], report["n"], report["abstentions"], report["withoutGold"]) == (13, 12, 1, 0)
    assert list(report["perType"]) == ["shelves"]
    assert report["recallAny"]["1"]["share"] == report["recallAny"]["1"]["count"] / 12


def test_a_set_judged_by_exchange_is_told_by_session_too(tmp_path: Path) -> None:
    assert _report(tmp_path)["bySession"]["n"] == 12
    assert "bySession" not in _report(tmp_path, unit="session")


def test_a_baseline_must_be_a_run_of_the_same_set(tmp_path: Path) -> None:
    lines = _lines(_run(tmp_path))
    recall_summary.write_lines(tmp_path / "questions.jsonl", lines)
    for named in (tmp_path, tmp_path / "questions.jsonl", tmp_path / "summary.json"):
        assert list(recall_summary.read_lines(named)) == lines
    others = [msgspec.structs.replace(line, question_id=f"other {line.question_id}") for line in lines]
    with pytest.raises(ConfigError, match="no question with gold in common"):
        recall_summary.compared(others, lines, "session")


@pytest.mark.model
@pytest.mark.parametrize(
    ("summary", "message"),
    [
        ('{"set": "locomo", "unit": "session"}', "is of the set locomo, not of devmembench"),
        ('{"set": "devmembench", "unit": "exchange"}', "the right exchange in the baseline .*, and the right session"),
        ('{"set": "devmembench"}', "summary.json is no summary of this bench"),
        ("{", "summary.json is no summary of this bench"),
    ],
)
def test_a_baseline_of_another_set_or_unit_is_refused_though_ids_agree(
    data: Path, tmp_path: Path, summary: str, message: str
) -> None:
    folder = tmp_path / "former"
    folder.mkdir()
    lines = [msgspec.structs.replace(one, haystack_id="devmembench") for one in _lines(_run(tmp_path))]
    recall_summary.write_lines(folder / "questions.jsonl", lines)
    (folder / "summary.json").write_text(summary, encoding="utf-8")
    for named in (folder, folder / "questions.jsonl", folder / "summary.json"):
        with pytest.raises(ConfigError, match=message):
            bench.main(_call(data, "--baseline", str(named)))


def test_a_baseline_without_a_summary_is_compared_by_its_ids(tmp_path: Path) -> None:
    recall_summary.check_same(tmp_path, "devmembench", "session")
    (tmp_path / "summary.json").write_text('{"set": "locomo", "unit": "session"}', encoding="utf-8")
    recall_summary.check_same(tmp_path / "moved.jsonl", "devmembench", "session")


@pytest.mark.parametrize("content", [None, b"[1]\n", b"{}\n"])
def test_a_baseline_that_is_none_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "questions.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=re.escape(str(path))):
        recall_summary.read_lines(tmp_path)


# --------------------------------------------------------------------------------------------------- the command line


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A small set in the layout of DevMemBench."""
    sessions = [
        {
            "sessionId": one.session_id,
            "metadata": {"date": f"2025-01-{10 + number}", "project": one.project},
            "messages": [{"role": turn.role, "content": turn.text} for turn in one.turns],
        }
        for number, one in enumerate(HAYSTACK.sessions)
    ]
    questions = [
        {
            "questionId": one.question_id,
            "questionType": one.kind,
            "question": one.text,
            "haystackSessionIds": list(one.gold_sessions),
        }
        for one in CASE.questions
    ]
    folder = tmp_path / "devmembench"
    folder.mkdir()
    (folder / "sessions.json").write_text(json.dumps(sessions), encoding="utf-8")
    (folder / "questions.json").write_text(json.dumps(questions), encoding="utf-8")
    return folder


def _call(data: Path, *more: str) -> list[str]:
    return ["recall", "--set", "devmembench", "--data", str(data), *more]


@pytest.mark.model
@pytest.mark.timeout(180)
def test_a_run_prints_writes_and_compares(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(_call(data, "--json", "--out", str(tmp_path / "one"))) == 0
    report = json.loads(capsys.readouterr().out)
    for key in ("set", "chunking", "model", "n", "recallAny", "recallAll", "mrr", "perType", "fingerprint"):
        assert key in report
    assert (report["n"], report["unit"], report["abstentions"]) == (12, "session", 1)
    assert set(report["recallAny"]) == {"1", "3", "5", "10"}
    assert report["recallAny"]["10"]["count"] >= 10
    assert report["embedded"] > 0
    assert report["drawersPerSecond"] > 0
    assert 0 < report["queryMsP50"] <= report["queryMsP95"]
    assert json.loads((tmp_path / "one" / "summary.json").read_text(encoding="utf-8")) == report

    arguments = ("--ranker", "words", "--out", str(tmp_path / "two"), "--baseline", str(tmp_path / "one"))
    assert bench.main(_call(data, *arguments)) == 0
    shown = capsys.readouterr().out
    assert "Against the baseline, 12 questions in common" in shown
    assert "no text embedded" in shown

    for path in (*tmp_path.glob("one/*"), *tmp_path.glob("two/*")):
        text = path.read_text(encoding="utf-8")
        assert "shelf" not in text, f"{path.name} holds words of the set"
        assert "http" not in text
    assert "<svg" in (tmp_path / "two" / "report.html").read_text(encoding="utf-8")


@pytest.mark.model
@pytest.mark.timeout(180)
def test_two_processes_give_the_bits_of_one(tmp_path: Path) -> None:
    reader = _Shelves()
    _, alone = recall.measure(reader, tmp_path, _settings(tmp_path / "a"))
    report, together = recall.measure(reader, tmp_path, _settings(tmp_path / "b"), jobs=2)
    assert msgspec.json.encode(alone) == msgspec.json.encode(together)
    assert report["embedded"] > 0, "each run had a cache of its own"


@pytest.mark.model
def test_a_run_on_a_part_says_so(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(_call(data, "--json", "--limit", "3", "--chunking", "session", "--ablate", "bm25")) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["questions"], report["limit"], report["ablated"]) == (3, 3, ["bm25"])
    assert (report["exchanges"], report["drawers"]) == (12, 12)


@pytest.mark.model
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_cache_that_is_a_file_is_named(data: Path, tmp_path: Path, jobs: str) -> None:
    taken = tmp_path / "taken"
    taken.write_bytes(b"")
    with pytest.raises(ConfigError, match=rf"{re.escape(str(taken))}.*--cache takes a folder"):
        bench.main(_call(data, "--cache", str(taken), "--jobs", jobs))


def test_data_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent"):
        bench.main(_call(tmp_path / "absent"))


def test_an_unknown_set_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["recall", "--set", "unknown", "--data", "x"])
    assert "devmembench" in capsys.readouterr().err
