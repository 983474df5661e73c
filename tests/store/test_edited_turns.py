"""Sources that tell one key with different words of a person: nothing is lost, whichever is read first."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from support.exchanges import exchange

from palace_daemon.store import check
from palace_daemon.store.variants import is_same_way

Texts = list[tuple[str, str]]
LONG = "Deploy goes out on Friday at five, be there and watch the graphs"


def told(store: Any) -> Texts:
    with store.read() as connection:
        rows = connection.execute("SELECT user_text, reply_text FROM exchanges ORDER BY 1, 2").fetchall()
        assert all(finding.is_ok for finding in check.check(connection, is_deep=True))
    return [(user, reply) for user, reply in rows]


@pytest.mark.parametrize(
    "tellings",
    [
        [(LONG, ""), ("Deploy is cancelled", "")],
        [(LONG, "beta"), ("edited", "beta\n\ngamma")],
        [("", "Saved the file"), ("Saved the file", "")],
        [("Use MySQL", "Yes."), ("Use SQLite", "Yes."), ("Use Redis", "Yes.")],
        [("One [redacted:password] two", "Yes."), ("Quite another turn", "Yes.")],
        [("A longer turn", ""), ("A", "with a reply")],
    ],
)
def test_a_turn_that_another_source_tells_with_other_words_is_kept_beside_it(
    open_store: Any, save: Any, tmp_path: Path, tellings: Texts
) -> None:
    names = set()
    for number, order in enumerate(itertools.permutations(range(len(tellings)))):
        store = open_store(tmp_path / str(number))
        for index in [*order, *order]:
            save(store, f"/{index}.jsonl", exchange("1", *tellings[index]))
        assert told(store) == sorted(tellings)
        with store.read() as connection:
            names.add(tuple(connection.execute("SELECT key, user_text FROM exchanges ORDER BY key").fetchall()))
    assert len(names) == 1, "which bears the plain key does not depend on the order"


@pytest.mark.parametrize(
    "tellings",
    [
        [("Deploy", ""), ("Deploy on Friday", ""), ("Deploy on Friday", "Fine.")],
        [("Deploy\n\non Friday", "Fine."), ("Deploy on  Friday\r\n", "Fine. Then.")],
        [("Sign in with hunter2 today", "Fine."), ("Sign in with [redacted:password] today", "Fine. Then.")],
        [("", "Fine."), ("Deploy", "Fine. Then.")],
    ],
)
def test_a_turn_at_another_moment_of_its_growth_is_the_same(
    open_store: Any, save: Any, tmp_path: Path, tellings: Texts
) -> None:
    for number, order in enumerate(itertools.permutations(range(len(tellings)))):
        store = open_store(tmp_path / str(number))
        for index in [*order, *order]:
            save(store, f"/{index}.jsonl", exchange("1", *tellings[index]))
        assert told(store) == [tellings[-1]]


def test_an_edit_that_the_telling_source_itself_makes_takes_the_place_of_the_former(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1", LONG))
    save(store, "/a.jsonl", exchange("1", "Deploy is cancelled"))
    assert [user for user, _ in told(store)] == ["Deploy is cancelled"]


def test_a_source_that_comes_to_tell_the_same_words_again_becomes_one_with_the_other(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1", LONG, "Fine."))
    save(store, "/b.jsonl", exchange("1", "Deploy is cancelled", "Fine."))
    assert len(told(store)) == 2
    save(store, "/b.jsonl", exchange("1", LONG, "Fine."))
    assert told(store) == [(LONG, "Fine.")]


def test_placeholders_stand_for_anything_but_in_their_place() -> None:
    redacted = ("a [redacted:jwt] b [redacted:password]", "")
    assert is_same_way(redacted, ("a x y b z", ""))
    assert is_same_way(("a [redacted:jwt] b z", ""), redacted)
    assert not is_same_way(redacted, ("b x a y", ""))
    assert not is_same_way(redacted, ("x a y b z", ""))
