"""What says the same, and what is shown of a ranking."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palace_daemon.core.folding import Entry, Shortlist, said, shortlist


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("> Say hi.\n\nHello there!", "say hi\nhello   there!"),
        ("- one\n- two", "* one\n* two"),
        ("## Plan\nUse **Redis** and `rq`", "Plan\n\nuse redis and rq"),
        ("It\u2019s \u201cdone\u201d \u2014 now", 'it\'s "done" - now'),
        ("Caf\u00e9, then", "Cafe\u0301, then"),
        ("> > quoted twice", "quoted twice"),
        ("Well-known: it Doesn't (Often) work.", "well-known: it doesn\u2019t (often) work"),
        (
            "\u041f\u0440\u0438\u0432\u0435\u0442, Jos\u00e9 \u2026",
            "\u043f\u0440\u0438\u0432\u0435\u0442, jos\u00e9 ...",
        ),
        ("Run `make`:\n\n```sh\nmake all  \n```\nDone.", "run `make`:\n```sh\nmake all\n```\n\n\ndone"),
        ("if a:  \n    b  \nThen c.", "if  a:\n    b\nthen c"),
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
        ("The limit is\n- 5", "The limit is\n5"),
        ("The delay is\n> 5 ms", "The delay is\n5 ms"),
        ("# debug = true", "debug = true"),
        ("```toml\n# debug = true\n```", "```toml\ndebug = true\n```"),
        ("> ```toml\n- debug = true\n```", "> ```toml\ndebug = true\n```"),
        ("```\nDebug = True\n```", "```\ndebug = true\n```"),
        ("```\nif a:\n  b\n  c\n```", "```\nif a:\n  b\nc\n```"),
        ("So far:\n```\nif a:\n  b", "So far:\n```\nif a:\nb"),
        ("if a:\n    b\n    c", "if a:\n    b\nc"),
        ("    b\n    c", "b\n    c"),
        ("```\na\u2028b\n```", "```\na\nb\n```"),
        ("if a:\n\tb\n\tc", "if a:\n\tb\nc"),
        ("Stage all: `git add .`", "Stage all: `git add`"),
        ("Set `Debug`", "Set `debug`"),
        ("Run git checkout .", "Run git checkout"),
        ("Run git log main..", "Run git log main"),
        ("git branch -d x", "git branch -D x"),
        ("tar -C /x", "tar -c /x"),
        ("Set X_y", "Set x_Y"),
        ("Open Docs/readme", "Open docs/readme"),
        ("call f(Node)", "call f(node)"),
        ("It is in GB/s", "It is in gb/s"),
        ("foo(a, b)", "foo(a b)"),
        ("retry: 1; 2", "retry 1 2"),
        ("x\u00b2 + 1", "x2 + 1"),
        (
            "Do not merge it before the audit of the region is signed",
            "Merge it before the audit of the region is signed",
        ),
    ],
)
def test_what_differs_in_a_fact_is_not_the_same(one: str, other: str) -> None:
    assert said(one) != said(other)


def test_a_mark_that_stands_for_code_and_stands_in_a_text_as_well_raises_nothing() -> None:
    assert said("a\0`b`\0c") == "a b c"


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


@pytest.mark.parametrize("text", [".", "`", "`a", "A", "(A", "A-", "a\u0301'", "\n    ", "\n- ", "```\n", "** ", "É"])
def test_runs_of_anything_take_linear_time(text: str) -> None:
    assert said(text * 200_000 + "x").endswith("x")
