"""What says the same, and what is shown of a ranking."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palace_daemon.core.folding import Entry, Shortlist, holds, said, shortlist


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("> Say hi.\n\nHello there!", "say hi\nhello   there!"),
        ("- one\n- two", "* one\n* two"),
        ("## Plan\nUse **Redis** and `rq`", "Plan\n\nuse redis and rq"),
        ("It\u2019s \u201cdone\u201d \u2014 now", 'it\'s "done" - now'),
        ("Caf\u00e9, then", "Cafe\u0301, then"),
        ("> > quoted twice", "quoted twice"),
    ],
)
def test_spelling_alone_makes_no_difference(one: str, other: str) -> None:
    assert said(one) == said(other) != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The port is 8080.", "The port is 8081."),
        ("We will deploy.", "We will not deploy."),
        ("We moved to Redis.", "We moved to Postgres."),
        ("if a < b", "if a <= b"),
        ("x == 1", "x != 1"),
        ("rate 1.5", "rate 15"),
        ("2**3", "23"),
        ("2**3 + 2**4", "23 + 24"),
        ("f(**options)", "f(options)"),
        ("Is it done?", "Is it done."),
        ("+ port = 1", "- port = 1"),
        ("#1 is fixed", "1 is fixed"),
    ],
)
def test_what_differs_in_a_fact_is_not_the_same(one: str, other: str) -> None:
    assert said(one) != said(other)
    assert not holds(said(one), said(other))
    assert not holds(said(other), said(one))


def test_a_text_holds_one_that_is_all_of_it_but_for_a_tenth() -> None:
    words = [f"word{number}" for number in range(20)]
    whole = " ".join(words)
    assert holds(whole, " ".join(words[1:]))
    assert holds(whole, " ".join(words[:-1]))
    assert not holds(whole, " ".join(words[:-4])), "more is missing"
    assert not holds(" ".join(words[:-1]), whole), "the longer says more"
    assert not holds(whole, " ".join(words[:9] + words[10:])), "a word in the middle may turn it round"
    assert not holds("undo it all at once and begin anew", "do it all at once and begin anew"), "whole words only"


Drawer = tuple[int, int, str]
"""Group, exchange, and what is said."""


def flat(*drawers: tuple[int, str]) -> list[Drawer]:
    return [(at, exchange, text) for at, (exchange, text) in enumerate(drawers)]


def listed(drawers: list[Drawer], limit: int = 10, per_group: int = 1, *, is_folded: bool = True) -> Shortlist:
    ranking = [Entry(group, exchange) for group, exchange, _ in drawers]
    texts = [text for _, _, text in drawers]
    return shortlist(ranking, texts.__getitem__ if is_folded else None, limit=limit, per_group=per_group)


def outcome(found: Shortlist) -> list[list[tuple[int, list[int]]]]:
    return [[(one.at, one.folded) for one in group] for group in found.groups.values()]


def test_the_best_of_those_that_say_the_same_is_shown() -> None:
    ranking = flat((1, "a"), (2, "b"), (3, "a"), (4, "a"), (5, "b"))
    assert outcome(listed(ranking)) == [[(0, [2, 3])], [(1, [4])]]
    assert outcome(listed(ranking, is_folded=False)) == [[(at, [])] for at in range(5)]


def test_drawers_of_one_exchange_are_never_folded_into_each_other() -> None:
    assert outcome(listed(flat((1, "a"), (1, "a"), (2, "a")))) == [[(0, [2])], [(1, [])]]


def test_what_says_nothing_is_compared_with_nothing() -> None:
    assert outcome(listed(flat((1, ""), (2, "")))) == [[(0, [])], [(1, [])]]


def test_folding_comes_before_the_limit_and_ends_with_the_first_that_is_too_many() -> None:
    ranking = flat((1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "c"), (6, "a"))
    assert outcome(listed(ranking, limit=2)) == [[(0, [1])], [(2, [3])]]
    assert listed(ranking, limit=2).is_settled
    assert not listed(ranking[:4], limit=2).is_settled


def test_a_group_takes_its_best_and_no_more() -> None:
    ranking = [(group, exchange, f"{exchange}") for exchange, group in enumerate([7, 7, 8, 7, 9, 8, 7])]
    assert outcome(listed(ranking, limit=2, per_group=2)) == [[(0, []), (1, [])], [(2, []), (5, [])]]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6), st.sampled_from("abc")), max_size=30),
    st.integers(1, 4),
    st.integers(1, 3),
    st.booleans(),
)
def test_what_ranks_below_a_settled_list_changes_no_group_and_full_lists_not_at_all(
    drawers: list[Drawer], limit: int, per_group: int, is_folded: bool
) -> None:
    whole = listed(drawers, limit, per_group, is_folded=is_folded)
    for end in range(len(drawers)):
        part = listed(drawers[:end], limit, per_group, is_folded=is_folded)
        if part.is_settled:
            assert list(part.groups) == list(whole.groups)
            for group, chosen in part.groups.items():
                assert [one.at for one in chosen] == [one.at for one in whole.groups[group]][: len(chosen)]
    shown = [one.at for chosen in whole.groups.values() for one in chosen]
    folded = [at for chosen in whole.groups.values() for one in chosen for at in one.folded]
    assert len({*shown, *folded}) == len(shown) + len(folded)
    assert len(whole.groups) <= limit
    assert all(len(chosen) <= per_group for chosen in whole.groups.values())


def test_runs_of_stops_take_linear_time() -> None:
    assert said("." * 200_000 + "x") == "." * 200_000 + "x"
