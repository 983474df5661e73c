"""What a run is shown as: the words that name it, and figures that must not mislead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palace_daemon.bench import recall, recall_report, recall_summary
from palace_daemon.bench.fingerprint import fingerprint
from palace_daemon.bench.haystack import Chunking
from palace_daemon.bench.recall_metrics import Key, Moved, compare
from palace_daemon.bench.recall_runner import RunSettings, run_cases
from palace_daemon.bench.recall_summary import Run
from palace_daemon.bench.sets.base import Case, Haystack, Question, Session, Turn
from palace_daemon.embed import registry
from palace_daemon.embed.hashing import HashingEmbedder

SAID = (Turn(role="user", text="Where is the boat?"), Turn(role="assistant", text="In the shed."))
SILENT = (Turn(role="user", text=" "),)


def _report(
    folder: Path,
    turns: tuple[Turn, ...] = SAID,
    *,
    limit: int | None = None,
    ranker: str = "product",
    chunking: Chunking = "exchange",
) -> dict[str, Any]:
    settings = RunSettings(
        model=registry.DEFAULT_MODEL,
        chunking=chunking,
        weights=recall.weights_of(ranker),
        cache=folder / "vectors",
        threads=1,
    )
    case = Case(
        haystack=Haystack(haystack_id="h", sessions=(Session(session_id="s", turns=turns),)),
        questions=tuple(Question(question_id=name, text="The boat?", now=0, gold_sessions=("s",)) for name in "ab"),
    )
    run = Run(
        set_name="boats", unit="session", settings=settings, ranker=ranker, ablated=(), limit=limit, jobs=1, seconds=1.0
    )
    return recall_summary.summary(run, list(run_cases([case], settings, model=HashingEmbedder())))


@pytest.mark.parametrize(("limit", "is_cut"), [(None, False), (1, True), (2, True), (3, False)])
def test_the_title_says_when_a_run_was_cut(tmp_path: Path, limit: int | None, is_cut: bool) -> None:
    report = _report(tmp_path, limit=limit)
    for shown in (recall_report.table(report).splitlines()[0], recall_report.page(report).partition("</h1>")[0]):
        assert "boats" in shown
        assert ("cut to its first 2 questions" in shown) == is_cut


def test_a_store_that_holds_nothing_is_told_in_words(tmp_path: Path) -> None:
    report = _report(tmp_path, SILENT)
    assert (report["drawers"], report["goldNotStored"]) == (0, 2)
    for shown in (recall_report.table(report), recall_report.page(report)):
        assert "Nothing stored; no text embedded" in shown
        assert "None" not in shown
    assert "drawers a second" in recall_report.table(_report(tmp_path))


def test_a_small_p_is_shown_as_such(tmp_path: Path) -> None:
    before = {Key("h", str(number)): (None,) for number in range(40)}
    found = compare(before, dict.fromkeys(before, (1,)))
    report = _report(tmp_path) | {"baseline": recall_summary.comparison(found)}
    assert 0 < report["baseline"]["paired"]["1"]["pValue"] < 1e-11
    assert "any@1   +40 -0, exact McNemar p < 0.0001" in recall_report.table(report)
    assert "any@1: +40 -0, exact McNemar p &lt; 0.0001" in recall_report.page(report)


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (Key("chat-1", "q7"), "chat-1/q7"),
        (Key("q7", "q7"), "q7"),
        (Key("chat-1", "chat-1:7"), "chat-1:7"),
        (Key("chat-1", "chat-10:7"), "chat-1/chat-10:7"),
    ],
)
def test_a_question_that_moved_is_named_with_its_haystack(tmp_path: Path, key: Key, shown: str) -> None:
    found = compare({key: (2,)}, {key: (1,)})
    assert found.up == (Moved(key=key, before=2, after=1),)
    report = _report(tmp_path) | {"baseline": recall_summary.comparison(found)}
    assert f"1 better: {shown} 2 to 1" in recall_report.table(report)
    assert f"<td>{shown}</td>" in recall_report.page(report)


def test_a_report_carries_the_fingerprint_of_what_was_run(tmp_path: Path) -> None:
    assert _report(tmp_path)["fingerprint"] == fingerprint()
    words = _report(tmp_path, ranker="words")["fingerprint"]
    assert words == fingerprint(weights=recall.weights_of("words")) != fingerprint()
    assert _report(tmp_path, chunking="text")["fingerprint"] == fingerprint(chunking="text") != fingerprint()
