"""Turns that a session's own source and a copy tell under different ids: paired, superseded, forgotten together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.exchanges import FIRST_DAY, exchange

from palace_daemon.model import Exchange
from palace_daemon.store import forgetting, sources, tombstones, twins
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.store import Store

COPY = "/copy.md"
LATER = FIRST_DAY + 900_000
"""When something is forgotten: after all that was said."""


@pytest.fixture
def copied(store: Store) -> Store:
    """A store that knows that two of its sources tell what others say."""

    def begin(connection: Connection) -> None:
        for path in (COPY, "/other-copy.md"):
            source_id = sources.ensure(connection, path)
            sources.begin_reading(
                connection,
                source_id,
                agent="claude-code",
                format_name="test",
                format_version=1,
                is_secondary=True,
            )

    store.write(begin)
    return store


def own(number: int, user: str = "continue", reply: str = "Done.", **fields: Any) -> Exchange:
    return exchange(f"own-{number}", user, reply, ordinal=number, started_at=FIRST_DAY + number * 1_000, **fields)


def copy(number: int, user: str = "continue", reply: str = "Done.", *, name: str = "copy", **fields: Any) -> Exchange:
    at = {"started_at": FIRST_DAY + number * 1_000 + 7} | fields
    return exchange(f"{name}-{number}", user, reply, ordinal=number, **at)


def names(store: Store, where: str = "") -> list[str]:
    with store.read() as connection:
        rows = connection.execute(f"SELECT key FROM exchanges {where} ORDER BY key")
        return [row[0].removeprefix("claude-code:") for row in rows]


def standing(store: Store) -> list[str]:
    return names(store, "WHERE is_superseded=0")


def row_of(store: Store, name: str) -> int:
    with store.read() as connection:
        row = connection.execute("SELECT exchange_id FROM exchange_keys WHERE key=?", (f"claude-code:{name}",))
        return int(row.fetchone()[0])


def forget(store: Store, *keys: str) -> int:
    ids = [row_of(store, key) for key in keys]
    with store.read() as connection:
        named = twins.with_twins(connection, ids)
    removal = store.edit(lambda connection, drawers: forgetting.forget(connection, drawers, ids, LATER))
    assert removal.exchanges == len(named), "what is listed is what goes"
    return removal.exchanges


@pytest.mark.parametrize("named", ["own-1", "copy-1"])
def test_whichever_telling_is_forgotten_the_other_goes_too(copied: Store, save: Callable[..., Any], named: str) -> None:
    save(copied, "/own.jsonl", own(0), own(1, "Where is the ferry?"))
    save(copied, COPY, copy(0), copy(1, "Where is the ferry?"))
    assert standing(copied) == ["own-0", "own-1"]
    assert forget(copied, named) == 2
    save(copied, "/own.jsonl", own(0), own(1, "Where is the ferry?"))
    save(copied, COPY, copy(0), copy(1, "Where is the ferry?"))
    assert (names(copied), standing(copied)) == (["copy-0", "own-0"], ["own-0"])


def test_words_said_twice_are_paired_by_the_reply_and_then_by_their_order(
    copied: Store, save: Callable[..., Any]
) -> None:
    save(copied, "/own.jsonl", own(1, reply="Moved."), own(2, reply="Renamed."))
    save(copied, COPY, copy(0, reply="Read it."), copy(1, reply="Moved."), copy(2, reply="Renamed, as told."))
    assert standing(copied) == ["copy-2", "own-1", "own-2"]
    assert forget(copied, "own-1") == 2
    assert names(copied) == ["copy-0", "copy-2", "own-2"]


def test_every_copy_of_a_turn_steps_back_and_goes_with_it(copied: Store, save: Callable[..., Any]) -> None:
    save(copied, "/own.jsonl", own(0), own(1))
    save(copied, COPY, copy(0), copy(1))
    save(copied, "/other-copy.md", copy(0, name="other"), copy(1, name="other"))
    assert standing(copied) == ["own-0", "own-1"]
    assert forget(copied, "other-1") == 3
    assert names(copied) == ["copy-0", "other-0", "own-0"]


def test_two_turns_forgotten_in_a_row_take_their_copies_before_any_file_is_read_anew(
    copied: Store, save: Callable[..., Any]
) -> None:
    save(copied, "/own.jsonl", own(0), own(1, "Where is the ferry?"))
    save(copied, COPY, copy(0), copy(1, "Where is the ferry?"))
    assert (forget(copied, "own-0"), forget(copied, "own-1")) == (2, 2)


def test_what_only_a_copy_tells_stands_and_stays_when_other_words_are_forgotten(
    copied: Store, save: Callable[..., Any]
) -> None:
    save(copied, "/own.jsonl", own(0))
    save(copied, COPY, copy(0), copy(1, reply="Once more."))
    assert forget(copied, "own-0") == 2
    assert standing(copied) == ["copy-1"]


def test_a_turn_that_its_own_source_rewound_past_does_not_stand_as_a_copy(
    copied: Store, save: Callable[..., Any]
) -> None:
    save(copied, "/own.jsonl", own(0, "Use MySQL."))
    save(copied, COPY, copy(0, "Use MySQL."))
    save(copied, "/own.jsonl", own(1, "Use SQLite."), superseded_keys=("claude-code:own-0",))
    assert standing(copied) == ["own-1"]
    assert forget(copied, "own-0") == 2


def test_a_copy_in_a_fork_goes_with_the_turn_that_is_stored_with_its_first_session(
    copied: Store, save: Callable[..., Any]
) -> None:
    save(copied, "/own.jsonl", own(0))
    save(copied, "/fork.jsonl", own(0, session_id="s2"))
    save(copied, COPY, copy(0, session_id="s2"))
    assert forget(copied, "own-0") == 2


@pytest.mark.parametrize(
    ("at", "is_kept"), [({}, False), ({"started_at": None}, False), ({"started_at": LATER + 1}, True)]
)
def test_a_copy_that_is_found_later_stays_out_and_what_is_said_later_does_not(
    copied: Store, save: Callable[..., Any], at: dict[str, Any], is_kept: bool
) -> None:
    save(copied, "/own.jsonl", own(0, "My PIN is zebra."))
    forget(copied, "own-0")
    save(copied, COPY, copy(0, "My PIN is zebra.", "Told otherwise.", **at))
    save(copied, COPY, copy(1, "My PIN is zebra.", session_id="s2"))
    save(copied, "/elsewhere.jsonl", own(2, "My PIN is zebra."))
    assert names(copied) == ["copy-0"] * is_kept + ["copy-1", "own-2"], "nor do other sessions, or the own source"


def test_the_same_words_of_another_moment_come_in_from_a_copy(copied: Store, save: Callable[..., Any]) -> None:
    save(copied, "/own.jsonl", own(0))
    forget(copied, "own-0")
    save(copied, COPY, copy(0), copy(60, reply="Once more."))
    assert names(copied) == ["copy-60"]
    save(copied, COPY, copy(61, started_at=None, time_quality="none", reply="And again."))
    assert names(copied) == ["copy-60"], "without a time it may be what was forgotten"


def test_what_is_forgotten_without_a_time_stays_out_whatever_time_a_copy_bears(
    copied: Store, save: Callable[..., Any]
) -> None:
    save(copied, "/own.jsonl", exchange("own-0", "continue", started_at=None, time_quality="none"))
    forget(copied, "own-0")
    save(copied, COPY, copy(60))
    assert names(copied) == []


def test_what_was_forgotten_of_a_copy_stays_out_when_the_sessions_own_source_is_found(
    copied: Store, save: Callable[..., Any]
) -> None:
    save(copied, COPY, copy(0, started_at=None, time_quality="none"))
    forget(copied, "copy-0")
    save(copied, "/own.jsonl", own(0), own(1, reply="Renamed."))
    assert names(copied) == ["own-1"]


def test_words_that_are_forgotten_again_are_forgotten_up_to_then(copied: Store, save: Callable[..., Any]) -> None:
    save(copied, "/own.jsonl", own(0))
    first = [row_of(copied, "own-0")]
    copied.edit(lambda connection, drawers: forgetting.forget(connection, drawers, first, FIRST_DAY + 10))
    save(copied, "/own.jsonl", own(1))
    forget(copied, "own-1")
    save(copied, COPY, copy(1))
    assert names(copied) == []


def test_tombstones_of_another_store_take_twins_along(
    copied: Store, save: Callable[..., Any], open_store: Callable[..., Store], tmp_path: Any
) -> None:
    other = open_store(tmp_path / "other")
    save(other, "/own.jsonl", own(0))
    forget(other, "own-0")
    with other.read() as connection:
        rows = tombstones.dump(connection)
    save(copied, "/own.jsonl", own(0), own(1, "Where is the ferry?"))
    save(copied, COPY, copy(0))
    copied.write(lambda connection: tombstones.load(connection, rows))
    copied.edit(lambda connection, drawers: forgetting.forget_named(connection, drawers, LATER))
    assert names(copied) == ["own-1"]
    save(copied, COPY, copy(0))
    assert names(copied) == ["own-1"]
