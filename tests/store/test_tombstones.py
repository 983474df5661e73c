from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from support.exchanges import FIRST_DAY, exchange
from support.traces import traces

from palace_daemon.model import Exchange
from palace_daemon.store import forgetting, tombstones
from palace_daemon.store.store import Store
from palace_daemon.store.tombstones import Tombstone

LONG = "The tides are pulled by the moon, and a little by the sun, and never by the wish of a king."


def row_of(store: Store, key: str) -> int:
    with store.read() as connection:
        return int(connection.execute("SELECT exchange_id FROM exchange_keys WHERE key=?", (key,)).fetchone()[0])


def forget(store: Store, *keys: str) -> forgetting.Removal:
    ids = [row_of(store, key) for key in keys]
    return store.edit(lambda connection, drawers: forgetting.forget(connection, drawers, ids, 7))


def keys_of(store: Store) -> list[str]:
    with store.read() as connection:
        return [row[0] for row in connection.execute("SELECT key FROM exchanges ORDER BY key")]


def is_covered(store: Store, one: Exchange) -> bool:
    with store.read() as connection:
        return tombstones.cover(connection, one)


def test_every_key_of_a_fork_is_buried(store: Store, save: Callable[..., Any]) -> None:
    save(store, "/a", exchange("one"))
    save(store, "/b", exchange("two", session_id="s2"))
    assert keys_of(store) == ["claude-code:one"]
    assert forget(store, "claude-code:one").sources == ("/a", "/b")
    for name, session in (("one", "s1"), ("two", "s2")):
        report = save(store, "/c", exchange(name, session_id=session, started_at=FIRST_DAY + 5, reply="Longer now."))
        assert report.left_out == {"forgotten": 1}
    assert keys_of(store) == []


@pytest.mark.parametrize(
    ("later", "is_forgotten"),
    [
        ({}, True),
        ({"reply": "Something else."}, True),  # its time tells it, whatever became of the reply
        ({"started_at": FIRST_DAY + 1}, True),  # both texts are long enough to be told by themselves
        ({"started_at": None, "time_quality": "none", "agent": "export"}, True),
        ({"started_at": None, "time_quality": "none", "reply": LONG + "\n\nAnd more."}, True),  # it grew
        ({"started_at": FIRST_DAY + 1, "reply": "Something else."}, False),
        ({"started_at": FIRST_DAY + 1, "user": "Another question?"}, False),
    ],
)
def test_copies_under_other_ids_are_told_by_time_or_by_words(
    store: Store, save: Callable[..., Any], later: dict[str, Any], is_forgotten: bool
) -> None:
    save(store, "/a", exchange("one", "How do tides work?", LONG))
    forget(store, "claude-code:one")
    fields = {"user": "How do tides work?", "reply": LONG} | later
    assert is_covered(store, exchange("two", session_id="s2", **fields)) is is_forgotten


def test_short_words_said_again_are_new(store: Store, save: Callable[..., Any]) -> None:
    save(store, "/a", exchange("one", "yes", "Done."))
    forget(store, "claude-code:one")
    report = save(store, "/a", exchange("two", "yes", "Done.", started_at=FIRST_DAY + 60_000))
    assert (report.added, report.left_out) == (1, {})


def test_automated_prompts_of_one_moment_are_not_each_others_copies(store: Store, save: Callable[..., Any]) -> None:
    save(store, "/a", exchange("one", "Task", "A.", user_kind="automated"))
    forget(store, "claude-code:one")
    assert not is_covered(store, exchange("two", "Task", "B.", user_kind="automated", session_id="s2"))


@pytest.mark.parametrize("named", [0, 1])
def test_a_turn_is_forgotten_with_every_reply_that_it_got(store: Store, save: Callable[..., Any], named: int) -> None:
    save(store, "/a", exchange("one", reply="The moon pulls."))
    save(store, "/b", exchange("one", reply="Nobody knows.", session_id="s2"))
    assert len(keys_of(store)) == 2
    forget(store, keys_of(store)[named])
    for path, reply, session in (("/b", "Nobody knows.", "s2"), ("/a", "The moon pulls.", "s1")):
        report = save(store, path, exchange("one", reply=reply, session_id=session))
        assert report.left_out == {"forgotten": 1}
    assert keys_of(store) == []


def test_the_rest_of_a_batch_is_stored(store: Store, save: Callable[..., Any]) -> None:
    save(store, "/a", exchange("one"))
    forget(store, "claude-code:one")
    report = save(store, "/a", exchange("one"), exchange("two", "Else?", started_at=FIRST_DAY + 9))
    assert (report.added, report.left_out) == (1, {"forgotten": 1})


def test_a_store_gets_the_tombstones_of_another(
    store: Store, open_store: Callable[..., Store], save: Callable[..., Any], tmp_path: Any
) -> None:
    save(store, "/a", exchange("one", "How do tides work?", LONG), exchange("two", "Else?", started_at=FIRST_DAY + 9))
    forget(store, "claude-code:one", "claude-code:two")
    with store.read() as connection:
        rows = tombstones.dump(connection)
    wire = msgspec.convert(msgspec.json.decode(msgspec.json.encode(rows)), list[Tombstone])
    assert wire == rows
    assert {row.kind for row in rows} == {"key", "time", "text", "words", "session"}
    other = open_store(tmp_path / "other")
    save(other, "/a", exchange("two", "Else?", started_at=FIRST_DAY + 9))
    assert other.write(lambda connection: tombstones.load(connection, wire)) == len(rows)
    assert other.write(lambda connection: tombstones.load(connection, wire)) == 0
    with other.read() as connection:
        assert tombstones.dump(connection) == rows
        assert tombstones.buried(connection) == [row_of(other, "claude-code:two")]
    assert save(other, "/b", exchange("one", "How do tides work?", LONG)).left_out == {"forgotten": 1}
    with pytest.raises(ValueError, match="hex"):
        other.write(lambda connection: tombstones.load(connection, [Tombstone(kind="key", digest="no")]))


def test_tombstones_hold_no_text(store: Store, save: Callable[..., Any]) -> None:
    save(store, "/a", exchange("one", "Zanzibarwhale quixotry?", LONG))
    forget(store, "claude-code:one")
    with store.read() as connection:
        told = repr(connection.execute("SELECT * FROM tombstones").fetchall())
    assert "Zanzibarwhale" not in told
    assert "claude-code" not in told


def test_a_state_that_cannot_be_cleaned_is_not_kept(store: Store, save: Callable[..., Any]) -> None:
    save(store, "/a", exchange("one"))
    forget(store, "claude-code:one")
    save(store, "/a", exchange("one"))
    with store.read() as connection:
        assert connection.execute("SELECT parser_state FROM sources").fetchone() == (None,)


def test_samples_of_the_planner_go_too(store: Store, save: Callable[..., Any]) -> None:
    save(store, "/a", *[exchange(f"x{n}", f"zanzibarwhale{n}", started_at=FIRST_DAY + n) for n in range(40)])
    store.write(lambda connection: connection.execute("ANALYZE").rowcount)
    directory = store.path.parent
    keys = [f"claude-code:x{n}" for n in range(40)]
    forget(store, *keys)
    store.scrub()
    assert traces(directory, ("zanzibarwhale",)) == []
