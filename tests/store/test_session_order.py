"""The order of a session of which some exchanges bear no date."""

from __future__ import annotations

from typing import Any

import pytest
from support.exchanges import DAY_MS, FIRST_DAY, exchange

from palace_daemon.model import Exchange
from palace_daemon.store import hits, session_order, sources, views


def told(*dates: int | None, first: int = 0) -> list[Exchange]:
    """Return the exchanges of one source: with a date that many days after the first, or without one."""
    return [
        exchange(
            str(number),
            f"Question {number}?",
            ordinal=number,
            started_at=None if day is None else FIRST_DAY + day * DAY_MS,
            ended_at=None,
            time_quality="none" if day is None else "exact",
        )
        for number, day in enumerate(dates, first)
    ]


def order(store: Any) -> list[int]:
    """Return the numbers of a session's questions as its timeline has them, after a look at all who show that order."""
    with store.read() as connection:
        timeline = views.timeline(connection, "s1")
        (listed,) = views.sessions(connection, agent="", is_wanted=None, since=None, limit=9, offset=0)
        rows = [views.exchange_ids(connection, one.exchange_id)[0] for one in timeline]
        around = hits.neighbours(connection, rows, 1)
        alone = [views.exchange(connection, row) for row in rows]
        drawers = views.drawer_texts(connection, views.drawer_ids(connection, rows)).values()
    ids = [one.exchange_id for one in timeline]
    assert [{one.relation: one.exchange_id for one in around[row]} for row in rows] == [
        {relation: ids[at + relation] for relation in (-1, 1) if 0 <= at + relation < len(ids)}
        for at in range(len(ids))
    ]
    assert [(one.previous_id, one.next_id) for one in alone] == list(zip(["", *ids[:-1]], [*ids[1:], ""], strict=True))
    titles = {listed.title, *(one.session_title for one in timeline), *(one.session_title for one in drawers)}
    assert titles == {timeline[0].user_text}
    return [int(one.user_text.strip("Question ?")) for one in timeline]


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        ((0, None, 2, 3), [0, 1, 2, 3]),
        ((0, None, None), [0, 1, 2]),
        ((None, None, 1, 2), [0, 1, 2, 3]),
        ((None, None, None), [0, 1, 2]),
        ((0, None, 0, None), [0, 1, 2, 3]),
        ((5, None, 1, None), [2, 3, 0, 1]),
        ((2, 1, 0), [2, 1, 0]),
    ],
)
def test_what_has_no_date_stays_where_it_was_said(
    store: Any, save: Any, dates: tuple[int | None, ...], expected: list[int]
) -> None:
    save(store, "/a.jsonl", *told(*dates))
    assert order(store) == expected


def test_a_date_is_taken_from_the_own_source_only(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", *told(0, 9))
    save(store, "/b.jsonl", *told(4, None, first=2))
    assert order(store) == [0, 2, 3, 1]


def test_a_source_without_a_date_comes_first(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", *told(0, 1))
    save(store, "/b.jsonl", *told(None, None, first=2))
    assert order(store) == [2, 3, 0, 1]


def test_a_title_is_the_first_prompt_and_not_the_first_exchange(store: Any, save: Any) -> None:
    silent = exchange("x", "", ordinal=0, started_at=None, user_kind="none")
    save(store, "/a.jsonl", silent, *told(None, 1, None, first=1))
    with store.read() as connection:
        (title,) = session_order.titles(connection, [1]).values()
    assert title == "Question 1?"


def test_the_turns_of_sessions_of_one_name_are_told_in_one_order(store: Any, save: Any) -> None:
    other = exchange("o", "Question 7?", agent="codex", ordinal=0, started_at=FIRST_DAY + DAY_MS)
    save(store, "/a.jsonl", *told(0, None, 2))
    save(store, "/b.jsonl", other)
    with store.read() as connection:
        timeline = views.timeline(connection, "s1")
    assert [one.user_text for one in timeline] == ["Question 0?", "Question 1?", "Question 7?", "Question 2?"]


def test_of_equal_words_in_a_copy_the_first_that_were_said_are_those_of_the_session_itself(
    store: Any, save: Any
) -> None:
    save(store, "/own.jsonl", exchange("own", "Go on.", "Done."))
    first = exchange("first", "Go on.", "It is done.", started_at=FIRST_DAY + 60_000)
    second = exchange("second", "Go on.", "And done again.", ordinal=1, started_at=None, time_quality="none")
    save(store, "/copy.md", first, second)
    store.write(lambda connection: connection.execute("UPDATE sources SET is_secondary=1 WHERE path='/copy.md'"))
    with store.read() as connection:
        rows = dict(connection.execute("SELECT key, id FROM exchanges").fetchall())
        assert sources.told_by_copies(connection, 1) == [rows[first.key], rows[second.key]]
        assert sources.is_superseded(connection, rows[first.key])
        assert not sources.is_superseded(connection, rows[second.key])
