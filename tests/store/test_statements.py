"""What people said, as rows beside the drawers: they follow the exchange, and their vectors follow them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from support.dumps import logical_dump
from support.exchanges import DAY_MS, FIRST_DAY, exchange

from palace_daemon.core.statements import statements
from palace_daemon.store import check, vectors
from palace_daemon.store import statements as stored_statements
from palace_daemon.store.spans import text_hash

LONG = "\n\n".join(f"Paragraph {n} tells of tide gauge number {n} and of its habit of drifting." for n in range(80))
MODEL = "m"


def rows(store: Any, sql: str, *values: object) -> list[tuple[Any, ...]]:
    with store.read() as connection:
        found: list[tuple[Any, ...]] = connection.execute(sql, values).fetchall()
    return found


def stored(store: Any) -> list[tuple[str, int, bytes, int]]:
    return rows(
        store,
        "SELECT e.key, s.ordinal, s.text_hash, s.is_wish FROM statements s JOIN exchanges e ON e.id=s.exchange_id"
        " ORDER BY e.key, s.ordinal",
    )


def expected(store: Any) -> list[tuple[str, int, bytes, int]]:
    """The rows that follow from the exchanges as they are stored."""
    told = rows(store, "SELECT key, user_text, reply_text, user_kind FROM exchanges ORDER BY key")
    return [
        (key, ordinal, text_hash(said.text), int(said.is_wish))
        for key, user, reply, kind in told
        for ordinal, said in enumerate(statements(user, reply, kind))
    ]


def pending(store: Any, limit: int = 1_000) -> list[str]:
    with store.read() as connection:
        return [text for _, text in vectors.pending(connection, limit)]


def embed(store: Any, limit: int = 1_000) -> None:
    with store.read() as connection:
        hashes = [hash_ for hash_, _ in vectors.pending(connection, limit)]
    store.save_vectors(MODEL, hashes, np.eye(len(hashes), 4, dtype=np.float32))


def has_vector(store: Any, text: str) -> bool:
    return bool(rows(store, "SELECT 1 FROM vectors WHERE text_hash=?", text_hash(text)))


def assert_sound(store: Any) -> None:
    assert stored(store) == expected(store)
    with store.read() as connection:
        findings = check.check(connection, is_deep=True)
        queued = vectors.pending(connection, 10_000)
    assert [finding for finding in findings if not finding.is_ok] == []
    assert all(hash_ == text_hash(text) for hash_, text in queued)


def test_statements_are_kept_in_order_with_what_they_wish(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1", "We moved the lamp. Is it lit? I always trim it."))
    assert stored(store) == [
        ("claude-code:1", 0, text_hash("We moved the lamp."), 0),
        ("claude-code:1", 1, text_hash("I always trim it."), 1),
    ]
    with store.read() as connection:
        (exchange_id,) = connection.execute("SELECT id FROM exchanges").fetchone()
        found = stored_statements.of_exchange(connection, exchange_id)
    assert [one.text for one in found] == ["We moved the lamp.", "I always trim it."]


def test_rows_follow_the_question_through_every_edit(store: Any, save: Any) -> None:
    for question in ("We moved the lamp.", "We moved the lamp. It is lit.", "It is lit.", "Is it lit?", "It was lit."):
        save(store, "/a.jsonl", exchange("1", question))
        assert len(stored(store)) == question.count(".")
        assert_sound(store)


def test_a_reply_that_grows_changes_no_row_and_queues_no_statement(store: Any, save: Any) -> None:
    store.use_model(MODEL)
    save(store, "/a.jsonl", exchange("1", "We moved the lamp.", LONG))
    embed(store)
    before = stored(store)
    save(store, "/a.jsonl", exchange("1", "We moved the lamp.", LONG + "\n\nOne more line of it."))
    assert stored(store) == before
    assert "We moved the lamp." not in pending(store)
    assert has_vector(store, "We moved the lamp.")


def test_rows_follow_the_kind_of_the_turn(store: Any, save: Any) -> None:
    told = {"user": "Ana: We moved the lamp.", "reply": "Ben: It is lit again."}
    for kind, count in (("prompt", 1), ("speaker", 2), ("automated", 0), ("shell", 0), ("queued", 1)):
        save(store, "/a.jsonl", exchange("1", user_kind=kind, **told))
        assert len(stored(store)) == count, kind
        assert_sound(store)


def test_what_is_said_no_more_leaves_no_vector_and_what_is_said_still_keeps_its_own(store: Any, save: Any) -> None:
    store.use_model(MODEL)
    save(store, "/a.jsonl", exchange("1", "We moved the lamp. It is lit now."))
    embed(store)
    save(store, "/a.jsonl", exchange("1", "It is lit now. We trim it."))
    assert not has_vector(store, "We moved the lamp.")
    assert has_vector(store, "It is lit now.")
    assert "We trim it." in pending(store)
    assert "It is lit now." not in pending(store)
    assert_sound(store)


def test_a_sentence_of_two_exchanges_has_one_vector_as_long_as_one_says_it(store: Any, save: Any) -> None:
    store.use_model(MODEL)
    save(store, "/a.jsonl", exchange("1", "We moved the lamp."), exchange("2", "We moved the lamp.", "Ah.", ordinal=1))
    assert pending(store).count("We moved the lamp.") == 1
    embed(store)
    save(store, "/a.jsonl", withdrawn_keys=("claude-code:1",))
    assert has_vector(store, "We moved the lamp.")
    save(store, "/a.jsonl", withdrawn_keys=("claude-code:2",))
    assert not has_vector(store, "We moved the lamp.")
    assert stored(store) == rows(store, "SELECT * FROM vectors") == rows(store, "SELECT * FROM pending_texts") == []
    assert_sound(store)


def test_rebuilding_makes_the_same_rows_and_keeps_their_vectors(store: Any, save: Any) -> None:
    store.use_model(MODEL)
    save(store, "/a.jsonl", exchange("1", "We moved the lamp. I always trim it."), exchange("2", "Lit?", ordinal=1))
    embed(store, 2)
    before = logical_dump(store.path)
    assert len(before["statements"]) == 2
    assert 0 < len(before["vectors"]) < 4
    store.rebuild_index()
    assert logical_dump(store.path) == before
    assert_sound(store)


def test_rebuilding_replaces_rows_that_an_older_version_made(store: Any, save: Any) -> None:
    store.use_model(MODEL)
    save(store, "/a.jsonl", exchange("1", "We moved the lamp."))
    embed(store)
    old = text_hash("we moved")
    store.write(lambda c: c.execute("UPDATE statements SET text_hash=?", (old,)))
    store.write(
        lambda c: c.execute("UPDATE vectors SET text_hash=? WHERE text_hash=?", (old, text_hash("We moved the lamp.")))
    )
    store.rebuild_index()
    assert not has_vector(store, "we moved")
    assert pending(store) == ["We moved the lamp."]
    assert_sound(store)


def speaker(name: str, text: str, **fields: Any) -> Any:
    """Return an exchange whose only drawer has the text of its only statement."""
    return exchange(name, "", text, user_kind="speaker", **fields)


def test_a_text_that_is_a_drawer_and_a_statement_is_embedded_once_as_a_drawer(store: Any, save: Any) -> None:
    store.use_model(MODEL)
    save(store, "/a.jsonl", speaker("1", "Ana: We moved the lamp."))
    assert [row[2] for row in stored(store)] == [row[0] for row in rows(store, "SELECT text_hash FROM drawers")]
    assert rows(store, "SELECT is_statement FROM pending_texts") == [(0,)]
    assert pending(store) == ["Ana: We moved the lamp."]
    embed(store)
    assert rows(store, "SELECT count(*) FROM vectors") == [(1,)]
    assert_sound(store)


@pytest.mark.parametrize("is_drawer_first", [True, False])
def test_a_text_is_queued_as_a_drawer_whichever_comes_first(store: Any, save: Any, is_drawer_first: bool) -> None:
    said = exchange("1", "Ana: We moved the lamp. Ah, it works well.", "Ben: Good.", user_kind="speaker")
    drawn = speaker("2", "Ana: We moved the lamp.", ordinal=1)
    for one in (drawn, said) if is_drawer_first else (said, drawn):
        save(store, "/a.jsonl", one, is_at_end=False)
    is_statement = "SELECT is_statement FROM pending_texts WHERE text_hash=?"
    assert rows(store, is_statement, text_hash("Ana: We moved the lamp.")) == [(0,)]
    assert_sound(store)


def test_a_text_keeps_its_vector_while_it_is_a_drawer_or_a_statement(store: Any, save: Any) -> None:
    store.use_model(MODEL)
    text = "Ana: We moved the lamp."
    save(store, "/a.jsonl", speaker("1", text))
    embed(store)
    save(store, "/a.jsonl", speaker("1", f"{text} Then we lit it."))  # a statement only
    assert has_vector(store, text)
    save(store, "/a.jsonl", exchange("1", "", text))  # a drawer only
    assert stored(store) == []
    assert has_vector(store, text)
    save(store, "/a.jsonl", exchange("1", "", "Nothing."))
    assert not has_vector(store, text)
    assert_sound(store)


def test_drawers_wait_before_statements_and_the_newest_before_the_older(store: Any, save: Any) -> None:
    for day in (1, 3, 2):
        at = FIRST_DAY + day * DAY_MS
        told = exchange(str(day), f"Day {'x' * day} is here.", f"Reply {day}.", ordinal=day, started_at=at)
        save(store, "/a.jsonl", told, is_at_end=False)
    save(store, "/a.jsonl", exchange("9", "No day is here.", "Reply 9.", ordinal=9, started_at=None), is_at_end=False)
    drawers = [f"> Day {'x' * day} is here.\n\nReply {day}." for day in (3, 2, 1)] + ["> No day is here.\n\nReply 9."]
    said = [f"Day {'x' * day} is here." for day in (3, 2, 1)] + ["No day is here."]
    assert pending(store) == drawers + said
    assert pending(store, 5) == [*drawers, said[0]]


def test_what_is_said_again_waits_as_what_was_said_last(store: Any, save: Any) -> None:
    for day, said in enumerate(("It is old.", "It is new.", "It is old.")):
        told = exchange(str(day), said, f"Reply {day}.", ordinal=day, started_at=FIRST_DAY + day * DAY_MS)
        save(store, "/a.jsonl", told, is_at_end=False)
    assert pending(store)[3:] == ["It is old.", "It is new."]


def test_another_model_queues_drawers_and_statements_in_the_same_order(store: Any, save: Any) -> None:
    told = [
        exchange(
            str(n), f"Day {'x' * n} is here. I always trim it.", f"Reply {n}.", started_at=FIRST_DAY + n, ordinal=n
        )
        for n in range(1, 5)
    ]
    store.use_model(MODEL)
    save(store, "/a.jsonl", *told)
    before = pending(store)
    assert len(before) == 4 + 4 + 1
    embed(store)
    assert pending(store) == []
    store.use_model("other")
    assert pending(store) == before
    store.use_model(MODEL)
    assert pending(store) == []


def test_a_vector_that_comes_after_its_text_has_gone_is_dropped(store: Any, save: Any) -> None:
    store.use_model(MODEL)
    save(store, "/a.jsonl", exchange("1", "We moved the lamp. It is lit."))
    with store.read() as connection:
        waiting = vectors.pending(connection, 10)
    assert len(waiting) == 3
    save(store, "/a.jsonl", exchange("1", "It is lit."))
    stored_count = store.save_vectors(MODEL, [hash_ for hash_, _ in waiting], np.eye(3, 4, dtype=np.float32))
    assert stored_count == 1
    assert has_vector(store, "It is lit.")
    assert not has_vector(store, "We moved the lamp.")
    assert pending(store) == ["> It is lit.\n\nThe moon pulls the sea."]
    assert_sound(store)


def test_a_statement_that_changes_reaches_mirrors_though_no_drawer_does(store: Any, save: Any) -> None:
    store.use_model(MODEL)
    save(store, "/a.jsonl", exchange("1", "We moved the lamp."))
    embed(store)
    with store.read_with_drawers() as (_, snapshot):
        assert len(snapshot.statements.rows(snapshot.exchanges)[0]) == 1
    save(store, "/a.jsonl", exchange("1", "We moved the lamp.", user_kind="automated"))
    with store.read_with_drawers() as (_, snapshot):
        assert len(snapshot.statements.rows(snapshot.exchanges)[0]) == 0


def test_in_any_history_rows_follow_the_exchanges(store: Any, save: Any) -> None:
    store.use_model(MODEL)
    dice = random.Random(12)
    for step in range(60):
        name = str(dice.randrange(5))
        said = " ".join(dice.choices(["We moved it.", "Is it lit?", "I always trim it.", "It is old."], k=3))
        kind = dice.choice(["prompt", "prompt", "speaker", "automated"])
        if dice.random() < 0.15:
            save(store, f"/{name}.jsonl", withdrawn_keys=(f"claude-code:{name}",), is_at_end=False)
        else:
            told = exchange(name, said, LONG[: dice.randrange(200)], ordinal=int(name), user_kind=kind)
            save(store, f"/{name}.jsonl", told, is_at_end=False)
        embed(store, dice.randrange(4))
        if step % 10 == 9:
            assert_sound(store)
    grown = logical_dump(store.path)
    assert len(grown["statements"]) > 3
    store.rebuild_index()
    assert logical_dump(store.path) == grown
