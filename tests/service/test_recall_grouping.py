"""Sessions with their best drawers, neighbours, budgets."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, reply, turn, user

from palace_daemon.core.budget import estimated_tokens
from palace_daemon.errors import RequestError
from palace_daemon.model import NEIGHBOURS_MAX, Hit, RecallAnswer, RecallQuery
from palace_daemon.service import ranking, shortlist

NOW = 1_800_000_000_000
MONDAY = 1_770_000_000_000  # second 0 of the transcripts


def ask(palace: Any, text: str, **fields: Any) -> RecallAnswer:
    answer: RecallAnswer = palace.recall(RecallQuery(text=text, now=NOW, **fields))
    return answer


@pytest.fixture
def harbour(palace: Any, transcripts: Path) -> Any:
    """One long session that speaks of nothing but tides, two short ones that mention them, one that does not."""
    long = "".join(turn(n, f"Tides, part {n}?", f"High tides of part {n}.", session="long") for n in range(40))
    append(transcripts / "long.jsonl", long)
    for number, session in enumerate(("short", "other")):
        said = ("And the lock keeper?", "He looks at the tides.") if number else ("And the tides?", "They are high.")
        lines = "".join(turn(n, f"{session} question {n}?", f"Quay {n}.", session=session) for n in range(4))
        append(transcripts / f"{session}.jsonl", lines + turn(9, *said, session=session))
    append(transcripts / "none.jsonl", turn(1, "Which colour?", "Blue.", session="none"))
    palace.mine([str(transcripts)], wait=True)
    return palace


def grouped(plain: tuple[Hit, ...], limit: int) -> list[list[Hit]]:
    """Return what grouping must come to, from the list of all drawers."""
    groups: dict[str, list[Hit]] = {}
    for hit in plain:
        groups.setdefault(hit.session_id, []).append(hit)
    return [inside[: shortlist.SESSION_HITS_MAX] for inside in list(groups.values())[:limit]]


# -------------------------------------------------------------------------------------------------------- sessions


@pytest.mark.parametrize("question", ["high tides of the lock", "quay", "part 17", ""])
def test_grouping_is_that_of_the_whole_list(harbour: Any, monkeypatch: pytest.MonkeyPatch, question: str) -> None:
    plain = ask(harbour, question, limit=1000).hits
    for candidates, depth, limit in itertools.product((1, 200), (1, 12), (1, 2, 3, 4, 9)):
        monkeypatch.setattr(ranking, "CANDIDATES_MIN", candidates)
        monkeypatch.setattr(shortlist, "_DEPTH", depth)
        answer = ask(harbour, question, limit=limit, by_session=True)
        assert [list(session.hits) for session in answer.sessions] == grouped(plain, limit)
        assert answer.hits == tuple(hit for session in answer.sessions for hit in session.hits)


def test_a_session_is_not_missed_behind_the_drawers_of_a_better_one(harbour: Any) -> None:
    plain = ask(harbour, "tides part", limit=40).hits
    assert {hit.session_id for hit in plain} == {"long"}
    answer = ask(harbour, "tides part", limit=2, by_session=True)
    assert answer.sessions[0].session_id == "long"
    assert len(answer.sessions) == 2
    assert len(answer.sessions[0].hits) == shortlist.SESSION_HITS_MAX


def test_a_session_ranks_by_its_best_drawer_and_tells_what_it_is(harbour: Any) -> None:
    sessions = ask(harbour, "tides", limit=10, by_session=True).sessions
    scores = [session.score for session in sessions]
    assert scores == sorted(scores, reverse=True)
    assert len(sessions) == 4
    for session in sessions:
        assert session.score == max(hit.score for hit in session.hits)
        assert {hit.session_id for hit in session.hits} == {session.session_id}
    (short,) = [session for session in sessions if session.session_id == "short"]
    assert (short.title, short.agent, short.project) == ("short question 0?", "claude-code", "/nowhere/tidepool")
    assert (short.started_at, short.ended_at) == (MONDAY, MONDAY + 91_000)


def test_sessions_are_listed_only_where_they_are_asked_for(harbour: Any) -> None:
    answer = ask(harbour, "tides")
    assert answer.sessions == ()
    assert len(answer.hits) == 10


def test_filters_hold_inside_sessions(harbour: Any) -> None:
    since = MONDAY + 50_000
    answer = ask(harbour, "tides question", limit=9, by_session=True, since=since)
    assert {session.session_id for session in answer.sessions} == {"long", "short", "other"}
    assert all(hit.started_at is not None and hit.started_at >= since for hit in answer.hits)
    assert [session.session_id for session in ask(harbour, "x", by_session=True, session="none").sessions] == ["none"]


def test_an_empty_scope_has_no_session(harbour: Any) -> None:
    answer = ask(harbour, "tides", by_session=True, project="nowhere-else", fold=True, neighbours=1)
    assert (answer.sessions, answer.hits) == ((), ())


@pytest.mark.parametrize("candidates", [1, 200])
def test_a_session_that_only_repeats_others_is_told_of_where_they_are(
    palace: Any, transcripts: Path, monkeypatch: pytest.MonkeyPatch, candidates: int
) -> None:
    for session, first in (("s1", 0), ("s2", 100)):
        for n in range(9):
            lines = user(f"u{session}{n}", f"Tides, part {n}?", session=session, at=first + n)
            lines += reply(f"a{session}{n}", f"High tides of part {n}.", session=session, at=first + n)
            append(transcripts / f"{session}.jsonl", lines)
    append(transcripts / "s3.jsonl", turn(1, "Which colour?", "Blue.", session="s3"))
    palace.mine([str(transcripts)], wait=True)
    monkeypatch.setattr(ranking, "CANDIDATES_MIN", candidates)
    answer = ask(palace, "tides part", limit=1, by_session=True, fold=True)
    (best,) = answer.sessions
    assert len(best.hits) == shortlist.SESSION_HITS_MAX
    other = {"s1": "s2", "s2": "s1"}[best.session_id]
    assert [[one.session_id for one in hit.also_in] for hit in best.hits[:1]] == [[other]]


# ------------------------------------------------------------------------------------------------------- exchanges


@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.parametrize("question", ["the sluice in the rain", "paragraph 3", ""])
def test_each_exchange_comes_once_by_its_best_drawer(
    palace: Any, transcripts: Path, monkeypatch: pytest.MonkeyPatch, question: str, *, fold: bool
) -> None:
    for number in range(4):
        said = "\n\n".join(f"Paragraph {n} of {number}: the sluice held in the rain. {'x ' * 300}" for n in range(6))
        append(transcripts / f"{number}.jsonl", turn(1, f"How was day {number}?", said, session=f"s{number}"))
    palace.mine([str(transcripts)], wait=True)
    plain = ask(palace, question, limit=100, fold=fold).hits
    best: dict[str, Hit] = {}
    for hit in plain:
        best.setdefault(hit.exchange_id, hit)
    assert len(plain) > len(best) == 4
    for candidates, limit in itertools.product((1, 200), (1, 3, 9)):
        monkeypatch.setattr(ranking, "CANDIDATES_MIN", candidates)
        assert ask(palace, question, limit=limit, fold=fold, by_exchange=True).hits == tuple(best.values())[:limit]


def test_hits_are_grouped_one_way_or_the_other(harbour: Any) -> None:
    with pytest.raises(RequestError, match="not by both"):
        ask(harbour, "tides", by_session=True, by_exchange=True)


# ------------------------------------------------------------------------------------------------------ neighbours


@pytest.mark.parametrize("count", [0, 1, 3])
def test_neighbours_are_the_exchanges_before_and_after(harbour: Any, count: int) -> None:
    timeline = harbour.timeline("long")
    for number in range(40):
        text = f"part {number}"
        (hit,) = ask(harbour, text, session="long", limit=1, neighbours=count).hits
        at = [one.exchange_id for one in timeline].index(hit.exchange_id)
        expected = {
            there - at: timeline[there].exchange_id
            for there in range(max(0, at - count), min(len(timeline), at + count + 1))
            if there != at
        }
        assert {one.relation: one.exchange_id for one in hit.neighbours} == expected
        assert [one.relation for one in hit.neighbours] == sorted(expected)
        assert harbour.get(hit.drawer_id, neighbours=count).neighbours == hit.neighbours


@pytest.mark.parametrize("by_session", [False, True])
def test_neighbours_come_once_with_the_best_hit_of_an_exchange(
    palace: Any, transcripts: Path, *, by_session: bool
) -> None:
    long = "\n\n".join(f"High tides, part {n} of them. " * 20 for n in range(9))
    lines = turn(1, "Hello?", "Hi.") + turn(2, "Which tides?", long) + turn(3, "Thanks.", "Bye.")
    append(transcripts / "a.jsonl", lines)
    palace.mine([str(transcripts)], wait=True)
    hits = ask(palace, "high tides", limit=3, neighbours=1, by_session=by_session).hits
    assert len({hit.drawer_id for hit in hits}) == 3
    assert len({hit.exchange_id for hit in hits}) == 1
    assert [[one.relation for one in hit.neighbours] for hit in hits] == [[-1, 1], [], []]
    room = sum(len(hit.text) for hit in hits) + sum(
        len(one.user_text) + len(one.reply_text) for one in hits[0].neighbours
    )
    again = ask(palace, "high tides", limit=3, neighbours=1, by_session=by_session, max_chars=room)
    assert (again.hits, again.is_cut) == (hits, False), "a neighbour is charged once"


def test_a_hit_is_nobodys_neighbour_and_two_hits_share_none(harbour: Any) -> None:
    timeline = [one.exchange_id for one in harbour.timeline("long")]
    hits = ask(harbour, "high tides of part", session="long", limit=12, neighbours=3).hits
    beside = [one.exchange_id for hit in hits for one in hit.neighbours]
    assert len(beside) == len(set(beside))
    assert not set(beside) & {hit.exchange_id for hit in hits}
    near = {
        timeline[there]
        for at in (timeline.index(hit.exchange_id) for hit in hits)
        for there in range(max(0, at - 3), min(len(timeline), at + 4))
    }
    assert set(beside) == near - {hit.exchange_id for hit in hits}, "nothing that stands beside a hit is lost"


def test_what_a_budget_cut_from_the_hits_may_be_a_neighbour(palace: Any, transcripts: Path) -> None:
    append(transcripts / "a.jsonl", turn(1, "Red lever?", "The red lever.") + turn(2, "Lever?", "A red one. " * 33))
    palace.mine([str(transcripts)], wait=True)
    whole = ask(palace, "where is the red lever", limit=2, neighbours=1).hits
    assert [hit.neighbours for hit in whole] == [(), ()]
    cut = ask(palace, "where is the red lever", limit=2, neighbours=1, max_chars=len(whole[0].text) + 300)
    assert len(whole[1].text) > 300
    (only,) = cut.hits
    assert [one.exchange_id for one in only.neighbours] == [whole[1].exchange_id]


def test_neighbours_come_in_short(palace: Any, transcripts: Path) -> None:
    lines = turn(1, "word " * 200, "Short.") + turn(2, "Which lever?", "The red one.") + turn(3, "Thanks", "é" * 900)
    append(transcripts / "a.jsonl", lines)
    palace.mine([str(transcripts)], wait=True)
    hit = ask(palace, "red lever", neighbours=1, limit=1).hits[0]
    before, after = hit.neighbours
    assert (before.relation, before.started_at, before.reply_text) == (-1, MONDAY + 10_000, "Short.")
    assert before.user_text.startswith("word word")
    assert after.user_text == "Thanks"
    assert before.user_text == "word " * 55 + "word…"
    assert after.reply_text == "é" * 279 + "…"


def test_a_superseded_exchange_is_nobodys_neighbour_but_has_some(palace: Any, transcripts: Path) -> None:
    lines = turn(1, "Where is the lever?", "Under the desk.") + turn(2, "Is it red?", "It is green.")
    path = transcripts / "a.jsonl"
    append(path, lines)
    palace.mine([str(transcripts)], wait=True)
    path.write_text(turn(1, "Where is the lever?", "Under the desk.") + turn(5, "Is it blue?", "It is blue."))
    palace.mine([str(transcripts)], wait=True)
    old = [view for view in palace.timeline("s1") if view.is_superseded]
    assert old, "nothing was superseded"
    current = ask(palace, "is it blue", limit=1, neighbours=2).hits[0]
    assert not {one.exchange_id for one in current.neighbours} & {view.exchange_id for view in old}
    around = palace.get(old[0].exchange_id, neighbours=1).neighbours
    assert [one.relation for one in around] == [-1, 1]


@pytest.mark.parametrize("count", [-1, NEIGHBOURS_MAX + 1])
def test_a_number_of_neighbours_out_of_range_is_a_clear_error(harbour: Any, count: int) -> None:
    with pytest.raises(RequestError, match="neighbours are from 0 to 3"):
        ask(harbour, "tides", neighbours=count)
    with pytest.raises(RequestError, match="neighbours are from 0 to 3"):
        harbour.get(ask(harbour, "tides").hits[0].exchange_id, neighbours=count)


# --------------------------------------------------------------------------------------------------------- budgets


def test_a_budget_in_tokens_keeps_the_first_hit_whole(harbour: Any) -> None:
    every = ask(harbour, "part of tides").hits
    assert ask(harbour, "part of tides", max_tokens=1).hits == every[:1]
    budget = estimated_tokens(every[0].text) + estimated_tokens(every[1].text)
    assert ask(harbour, "part of tides", max_tokens=budget).hits == every[:2]
    assert ask(harbour, "part of tides", max_tokens=budget - 1).hits == every[:1]
    assert ask(harbour, "part of tides", max_tokens=budget, max_chars=1).hits == every[:1]


@pytest.mark.parametrize("by_session", [False, True])
def test_an_answer_tells_whether_a_budget_cut_it(harbour: Any, *, by_session: bool) -> None:
    fields: dict[str, Any] = {"limit": 3, "by_session": by_session}
    whole = ask(harbour, "part of tides", **fields)
    assert (whole.is_cut, whole.hits_left_out) == (False, 0)
    chars = sum(len(hit.text) for hit in whole.hits)
    enough = ask(harbour, "part of tides", max_chars=chars, **fields)
    assert (enough.hits, enough.is_cut, enough.hits_left_out) == (whole.hits, False, 0)
    short = ask(harbour, "part of tides", max_chars=chars - 1, **fields)
    assert (short.hits, short.is_cut, short.hits_left_out) == (whole.hits[:-1], True, 1)
    one = ask(harbour, "part of tides", max_tokens=1, **fields)
    assert (one.is_cut, one.hits_left_out) == (True, len(whole.hits) - 1)
    beside = ask(harbour, "part of tides", max_chars=chars, neighbours=1, **fields)
    assert (beside.hits, beside.is_cut, beside.hits_left_out) == (whole.hits, True, 0)


def test_a_budget_ends_the_list_inside_a_session(harbour: Any) -> None:
    whole = ask(harbour, "part of tides", limit=2, by_session=True)
    for kept in range(1, len(whole.hits) + 1):
        budget = sum(len(hit.text) for hit in whole.hits[:kept])
        answer = ask(harbour, "part of tides", limit=2, by_session=True, max_chars=budget)
        assert answer.hits == whole.hits[:kept]
        assert tuple(hit for session in answer.sessions for hit in session.hits) == answer.hits
        assert all(session.hits for session in answer.sessions)


def test_neighbours_get_what_hits_leave_of_a_budget_the_nearest_first(harbour: Any) -> None:
    fields: dict[str, Any] = {"session": "long", "limit": 2, "neighbours": 2}
    whole = ask(harbour, "part 17 of tides", **fields).hits
    texts = sum(len(hit.text) for hit in whole)
    assert [hit.neighbours for hit in ask(harbour, "part 17 of tides", max_chars=texts, **fields).hits] == [(), ()]
    first = min(whole[0].neighbours, key=lambda one: (abs(one.relation), one.relation))
    room = texts + len(first.user_text) + len(first.reply_text)
    hits = ask(harbour, "part 17 of tides", max_chars=room, **fields).hits
    assert [hit.neighbours for hit in hits] == [(first,), ()]
    for budget in range(1, 600, 37):
        answer = ask(harbour, "part 17 of tides", max_chars=budget, **fields).hits
        shown = [hit.text for hit in answer]
        shown += [text for hit in answer for one in hit.neighbours for text in (one.user_text, one.reply_text)]
        assert sum(map(len, shown)) <= budget or len(shown) == 1
