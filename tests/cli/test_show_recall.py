"""What an explained hit says."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from palace_daemon import model
from palace_daemon.cli import ask, options, show_recall
from palace_daemon.core.rank import Weights
from palace_daemon.rpc import wire_base

HIT: dict[str, Any] = {
    "drawerId": "d1.0",
    "sessionTitle": "",
    "project": "",
    "agent": "codex",
    "startedAt": None,
    "text": "The lever is under the desk.",
    "path": "/t/a.jsonl",
    "lineStart": 1,
    "lineEnd": 1,
    "score": 1.0,
    "parts": {},
    "matchedTerms": [],
    "alsoIn": [],
    "alsoInCount": 0,
    "neighbours": [],
}


def result(*hits: dict[str, Any]) -> dict[str, Any]:
    freshness = {"sourcesPending": 0, "vectorsPending": 0, "vectorsReason": ""}
    return {
        "hits": hits,
        "sessions": [],
        "totals": {"inScope": 1, "matched": 1},
        "freshness": freshness,
        "tookMs": 1.0,
        "isCut": False,
        "hitsLeftOut": 0,
        "projectsNear": [],
    }


def test_every_part_of_a_score_is_explained_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    names = [field.name for field in msgspec.structs.fields(Weights)]
    assert set(show_recall.PART_MEANINGS) == set(names)
    parts = {name: 0.5 - number / 100 for number, name in enumerate(names)}
    show_recall.print_recall(result({**HIT, "parts": parts}), is_explained=True)
    lines = capsys.readouterr().out.splitlines()
    first = lines.index("    1.0000 is the sum of") + 1
    for name, line in zip(names, lines[first:], strict=False):
        assert line.split()[:2] == [f"{parts[name]:.4f}", name]
        assert line.endswith(show_recall.PART_MEANINGS[name])
        assert len(line) <= 80
    assert "    matched words: none" in lines


def test_parts_are_explained_inside_sessions_as_well(capsys: pytest.CaptureFixture[str], utc: None) -> None:
    session = {
        "sessionId": "s1",
        "title": "",
        "project": "",
        "agent": "codex",
        "startedAt": "2026-03-04T09:12:31.000Z",
        "endedAt": "2026-03-05T10:00:00.000Z",
        "score": 1.0,
        "hits": [{**HIT, "parts": {"cosine": 0.75, "bm25": 0.25}}],
    }
    show_recall.print_recall({**result(HIT), "sessions": [session]}, is_explained=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["    untitled", "    2026-03-04 09:12 to 2026-03-05 10:00"]
    assert "      0.7500  cosine     how near it is to the question in meaning" in lines
    assert all(len(line) <= 80 for line in lines)


def test_a_neighbour_of_many_lines_takes_two(capsys: pytest.CaptureFixture[str]) -> None:
    beside = {"relation": -2, "userText": "one\ntwo " * 40, "replyText": "\x1b[31mthree\n" * 40}
    show_recall.print_recall(result({**HIT, "neighbours": [beside]}), is_explained=False)
    out = capsys.readouterr().out
    shown = [line for line in out.splitlines() if "one two" in line or "three" in line]
    assert len(shown) == 2
    assert shown[0].startswith("    -2  > one two")
    assert "\x1b" not in out


def test_parts_that_are_nothing_are_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    show_recall.print_recall(result({**HIT, "parts": {"bm25": 1.0, "date": 0.0, "wish": 0}}), is_explained=True)
    out = capsys.readouterr().out
    assert "1.0000 is the sum of\n    1.0000  bm25" in out
    assert "date" not in out.partition("matched words")[0].replace("no date", "")
    assert "wish" not in out
    show_recall.print_recall(result({**HIT, "score": 0.0, "parts": {"bm25": 0.0}}), is_explained=True)
    assert "    0.0000 since nothing in it fits the question\n    matched words" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("left_out", "line"),
    [
        (0, "the budget left out neighbours"),
        (1, "the budget ended the list; 1 further hit did not fit"),
        (1200, "the budget ended the list; 1,200 further hits did not fit"),
    ],
)
def test_one_line_says_what_a_budget_cut(capsys: pytest.CaptureFixture[str], left_out: int, line: str) -> None:
    show_recall.print_recall({**result(HIT), "isCut": True, "hitsLeftOut": left_out}, is_explained=False)
    assert line in capsys.readouterr().out.splitlines()
    show_recall.print_recall(result(HIT), is_explained=False)
    assert "budget" not in capsys.readouterr().out


def test_the_command_line_knows_how_much_may_be_asked_for() -> None:
    assert ask.NEIGHBOURS_MAX == model.NEIGHBOURS_MAX
    assert options.LIMIT_MAX == wire_base.LIMIT_MAX
