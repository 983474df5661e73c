from __future__ import annotations

import functools
import itertools
import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from support.dumps import logical_dump
from support.exchanges import DAY_MS, FIRST_DAY, exchange

from palace_daemon.core import chunking
from palace_daemon.model import Exchange, SessionFacts
from palace_daemon.store import check, postings, sources, sqlite, vectors, views
from palace_daemon.store.spans import SPAN_COLUMNS, span_of

LONG = "\n\n".join(f"Paragraph {n} tells of tide gauge number {n} and of its habit of drifting." for n in range(80))


def rows(store: Any, sql: str, *values: object) -> list[tuple[Any, ...]]:
    with store.read() as connection:
        found: list[tuple[Any, ...]] = connection.execute(sql, values).fetchall()
    return found


def assert_sound(store: Any) -> None:
    with store.read() as connection:
        findings = check.check(connection, is_deep=True)
    assert [finding for finding in findings if not finding.is_ok] == []


def test_saving_twice_adds_nothing(store: Any, save: Any) -> None:
    assert save(store, "/a.jsonl", exchange("1")).added == 1
    before = logical_dump(store.path)
    report = save(store, "/a.jsonl", exchange("1"))
    assert (report.added, report.replaced, report.drawers_added) == (0, 0, 0)
    after = logical_dump(store.path)
    assert {**after, "sources": None} == {**before, "sources": None}
    assert_sound(store)


def test_closing_folds_the_log_into_one_file(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1"))
    assert rows(store, "SELECT count(*) FROM exchanges") == [(1,)]
    store.close()
    assert [file.name for file in store.path.parent.iterdir()] == [store.path.name]


def test_drawers_joined_give_the_exchange_back(store: Any, save: Any) -> None:
    user, reply = "Please  keep\n\tmy spaces \n" * 300, LONG + "\n\n```py\nx  =  1\n```\n"
    save(store, "/a.jsonl", exchange("1", user, reply))
    stored_user, stored_reply = rows(store, "SELECT user_text, reply_text FROM exchanges")[0]
    spans = [span_of(row) for row in rows(store, f"SELECT {SPAN_COLUMNS} FROM drawers ORDER BY ordinal")]
    assert (stored_user, stored_reply) == (user, reply)
    assert len(spans) > 5
    assert chunking.join(user, reply, spans) == (user, reply)


def test_growing_reply_keeps_earlier_drawers_and_their_vectors(store: Any, save: Any) -> None:
    store.use_model("m")
    save(store, "/a.jsonl", exchange("1", reply=LONG))
    with store.read() as connection:
        queued = vectors.pending(connection, 100)
    store.save_vectors("m", [hash_ for hash_, _ in queued], np.eye(len(queued), 8, dtype=np.float32))
    before = rows(store, "SELECT id, ordinal, text_hash FROM drawers ORDER BY ordinal")
    report = save(store, "/a.jsonl", exchange("1", reply=LONG + "\n\nAnd one more gauge was found."))
    after = rows(store, "SELECT id, ordinal, text_hash FROM drawers ORDER BY ordinal")
    assert report.replaced == 1
    assert after[: len(before) - 2] == before[:-2]
    assert [row[0] for row in after[: len(before)]] == [row[0] for row in before]
    assert 1 <= rows(store, "SELECT count(*) FROM pending_texts")[0][0] <= 2
    assert_sound(store)


def test_shrinking_reply_removes_drawers_words_and_vectors(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1", reply=LONG))
    report = save(store, "/a.jsonl", exchange("1", reply="Short."))
    assert report.drawers_removed > 1
    with store.read() as connection:
        assert postings.read(connection, "gaug").ids.tolist() == []
        assert postings.read(connection, "short").ids.tolist() != []
    assert_sound(store)


def test_third_user_turn_cuts_the_session_anew(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1", reply=LONG), exchange("2", ordinal=1))
    fine = rows(store, "SELECT count(*) FROM drawers d JOIN exchanges e ON e.id=d.exchange_id WHERE e.key LIKE '%:1'")
    ids = rows(store, "SELECT public_id FROM exchanges ORDER BY key")
    assert rows(store, "SELECT DISTINCT cut FROM exchanges") == [("paragraph",)]
    save(store, "/a.jsonl", exchange("3", ordinal=2))
    coarse = rows(store, "SELECT count(*) FROM drawers d JOIN exchanges e ON e.id=d.exchange_id WHERE e.key LIKE '%:1'")
    assert rows(store, "SELECT DISTINCT cut FROM exchanges") == [("exchange",)]
    assert coarse[0][0] < fine[0][0]
    assert rows(store, "SELECT public_id FROM exchanges ORDER BY key")[:2] == ids
    assert_sound(store)


def test_a_copied_exchange_is_one_with_two_provenances(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1"))
    report = save(store, "/b.jsonl", exchange("1", session_id="s2"))
    assert (report.added, report.drawers_added) == (0, 0)
    assert rows(store, "SELECT count(*) FROM exchanges") == [(1,)]
    assert rows(store, "SELECT count(*) FROM provenance") == [(2,)]


def test_a_fork_with_new_ids_is_recognised_by_text_and_time(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1"))
    save(store, "/b.jsonl", exchange("99", session_id="s2"))
    assert rows(store, "SELECT count(*) FROM exchanges") == [(1,)]
    assert rows(store, "SELECT count(*) FROM exchange_keys") == [(2,)]


@pytest.mark.parametrize(
    "other",
    [
        exchange("2"),  # the same words in the same session: typed twice
        exchange("2", session_id="s2", started_at=FIRST_DAY + 1),
        exchange("2", session_id="s2", time_quality="session"),
        exchange("2", session_id="s2", user_kind="automated"),
        exchange("2", session_id="s2", agent="codex"),
    ],
)
def test_equal_words_alone_never_merge(store: Any, save: Any, other: Exchange) -> None:
    save(store, "/a.jsonl", exchange("1"))
    assert save(store, "/b.jsonl", other).added == 1


def test_the_longest_telling_is_stored_whatever_the_order(tmp_path: Path, open_store: Any, save: Any) -> None:
    tellings = [
        ("/a.jsonl", exchange("1", reply="Part one.")),
        ("/b.jsonl", exchange("1", reply="Part one.\n\nPart two.", session_id="s2")),
        ("/c.jsonl", exchange("7", reply="Part one.", session_id="s3")),
    ]
    dumps = []
    for number, order in enumerate(itertools.permutations(tellings)):
        store = open_store(tmp_path / f"data{number}")
        for path, told in order:
            save(store, path, told)
        dumps.append(logical_dump(store.path))
        assert rows(store, "SELECT reply_text FROM exchanges") == [("Part one.\n\nPart two.",)]
    assert all(dump == dumps[0] for dump in dumps[1:])


def test_owner_that_shrinks_has_the_longer_source_read_again(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1", reply="Part one.\n\nPart two."))
    save(store, "/b.jsonl", exchange("1", reply="Part one.", session_id="s2"))
    report = save(store, "/a.jsonl", exchange("1", reply="Part"))
    with store.read() as connection:
        assert [sources.path_of(connection, one) for one in report.sources_to_reread] == ["/b.jsonl"]
        row = sources.find(connection, "/b.jsonl")
    assert row is not None
    assert row.cursor is None


def test_what_a_rewritten_file_no_longer_holds_is_superseded(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1"), exchange("2", "Other?", ordinal=1))
    report = save(store, "/a.jsonl", exchange("2", "Other?", ordinal=1), reading=2)
    assert report.superseded == 1
    assert rows(store, "SELECT key, is_superseded FROM exchanges ORDER BY key") == [
        ("claude-code:1", 1),
        ("claude-code:2", 0),
    ]


def test_a_compaction_that_drops_old_lines_retracts_nothing(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1"), exchange("2", "Other?", ordinal=1))
    save(store, "/a.jsonl", exchange("2", "Other?", ordinal=1), reading=2, lines_skipped={"compact_summary": 1})
    assert rows(store, "SELECT count(*) FROM exchanges WHERE is_superseded") == [(0,)]


def test_text_lost_in_one_file_but_held_by_another_stays(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1"))
    save(store, "/b.jsonl", exchange("1", session_id="s2"))
    save(store, "/a.jsonl", reading=2)
    assert rows(store, "SELECT is_superseded FROM exchanges") == [(0,)]
    save(store, "/b.jsonl", reading=2)
    assert rows(store, "SELECT is_superseded FROM exchanges") == [(1,)]


def test_rewound_exchange_comes_back_when_told_again(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1", is_superseded=True))
    assert rows(store, "SELECT is_superseded FROM exchanges") == [(1,)]
    save(store, "/a.jsonl", exchange("1"))
    assert rows(store, "SELECT is_superseded FROM exchanges") == [(0,)]


def test_session_facts_complete_each_other(store: Any, save: Any) -> None:
    first = SessionFacts(agent="claude-code", session_id="s1", cwd="/p", branch="main")
    second = SessionFacts(
        agent="claude-code", session_id="s1", title="Tides", is_automated=True, parent_session_id="s0"
    )
    save(store, "/a.jsonl", exchange("1"), sessions=(first,))
    save(store, "/a.jsonl", sessions=(second,))
    assert rows(store, "SELECT title, cwd, branch, is_automated, parent_native_id FROM sessions") == [
        ("Tides", "/p", "main", 1, "s0")
    ]


def test_views_name_neighbours_and_first_prompt(store: Any, save: Any) -> None:
    told = [exchange(str(n), f"Question {n}?", ordinal=n, started_at=FIRST_DAY + n * DAY_MS) for n in range(3)]
    save(store, "/a.jsonl", *told)
    with store.read() as connection:
        session = views.sessions(connection, agent="", is_wanted=None, since=None, limit=10, offset=0)[0]
        timeline = views.timeline(connection, "s1")
        middle = views.exchange(connection, views.exchange_ids(connection, timeline[1].exchange_id)[0])
    assert (session.title, session.exchanges) == ("Question 0?", 3)
    assert [one.user_text for one in timeline] == ["Question 0?", "Question 1?", "Question 2?"]
    assert (middle.previous_id, middle.next_id) == (timeline[0].exchange_id, timeline[2].exchange_id)
    assert middle.provenance[0].path == "/a.jsonl"


def test_random_histories_leave_a_sound_store(store: Any, save: Any) -> None:
    dice = random.Random(7)
    for _ in range(60):
        name = str(dice.randrange(6))
        reply = LONG[: dice.randrange(1, 5_000)]
        told = exchange(name, f"Question {name}?", reply, ordinal=int(name), is_superseded=dice.random() < 0.2)
        save(store, f"/{dice.randrange(3)}.jsonl", told, is_at_end=False)
    assert_sound(store)


def test_rebuilding_the_index_changes_nothing(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1", reply=LONG), exchange("2", "Other?", ordinal=1))
    before = logical_dump(store.path)
    store.rebuild_index()
    assert logical_dump(store.path) == before
    assert_sound(store)


def test_keys_that_a_source_rewound_past_are_superseded(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1"), exchange("2", "Other?", ordinal=1))
    report = save(store, "/a.jsonl", superseded_keys=("claude-code:1", "claude-code:unknown"))
    assert report.superseded == 1
    assert rows(store, "SELECT key FROM exchanges WHERE is_superseded") == [("claude-code:1",)]


def test_what_a_source_withdraws_leaves_no_trace(store: Any, save: Any) -> None:
    def dump() -> dict[str, Any]:
        return {name: held for name, held in logical_dump(store.path).items() if name != "sources"}

    save(store, "/a.jsonl", exchange("1"))
    before = dump()
    save(store, "/a.jsonl", exchange("2", "Queued?", "", ordinal=1))
    assert dump() != before
    report = save(store, "/a.jsonl", withdrawn_keys=("claude-code:2", "claude-code:unknown"))
    assert (report.added, report.superseded) == (-1, 0)
    assert dump() == before
    assert_sound(store)


def test_what_one_source_withdraws_and_another_still_tells_stands(store: Any, save: Any) -> None:
    for path in ("/a.jsonl", "/b.jsonl"):
        save(store, path, exchange("1", "Queued?", ""))
    before = rows(store, "SELECT key, is_superseded FROM exchanges")
    report = save(store, "/a.jsonl", withdrawn_keys=("claude-code:1",))
    assert rows(store, "SELECT key, is_superseded FROM exchanges") == before
    (b,) = rows(store, "SELECT id FROM sources WHERE path='/b.jsonl'")
    assert report.sources_to_reread == set(b)
    assert rows(store, "SELECT source_id FROM provenance") == [b]
    save(store, "/b.jsonl", withdrawn_keys=("claude-code:1",))
    assert rows(store, "SELECT count(*) FROM exchanges") == [(0,)]
    assert_sound(store)


def test_what_an_owner_withdraws_belongs_to_the_source_that_still_tells_it(store: Any, save: Any) -> None:
    for path in ("/a.jsonl", "/b.jsonl"):
        save(store, path, exchange("1", "Queued?", ""))
    store.write(lambda c: c.execute("UPDATE sources SET state='gone' WHERE path='/b.jsonl'").rowcount)
    save(store, "/a.jsonl", withdrawn_keys=("claude-code:1",))
    assert rows(store, "SELECT owner_source_id FROM exchanges") == rows(store, "SELECT source_id FROM provenance")


def test_one_more_line_touches_the_last_drawers_only(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1", reply=LONG))
    before = rows(store, "SELECT id, generation FROM drawers ORDER BY ordinal")
    save(store, "/a.jsonl", exchange("1", reply=LONG + "\n\nOne more line."))
    after = rows(store, "SELECT id, generation FROM drawers ORDER BY ordinal")
    assert len(before) >= 8
    assert after[: len(before) - 2] == before[:-2]
    assert after[-1][1] > before[-1][1]
    assert_sound(store)


@pytest.mark.parametrize(
    "change", [{"started_at": FIRST_DAY + 1}, {"cwd": "/elsewhere"}, {"session_id": "s2"}, {"is_superseded": True}]
)
def test_what_mirrors_show_of_an_exchange_touches_all_its_drawers(
    store: Any, save: Any, change: dict[str, Any]
) -> None:
    save(store, "/a.jsonl", exchange("1", reply=LONG))
    save(store, "/a.jsonl", exchange("1", reply=LONG, **change))
    assert rows(store, "SELECT count(*) FROM drawers WHERE generation<>(SELECT generation FROM state)") == [(0,)]


def test_replies_that_grow_and_change_are_cut_as_from_scratch(store: Any, save: Any) -> None:
    dice = random.Random(5)
    replies = dict.fromkeys("123", "")
    for step in range(40):
        name = dice.choice("123"[: 2 if step < 20 else 3])  # the third turn cuts the session anew
        reply = replies[name]
        if dice.random() < 0.1:
            reply = reply[: dice.randrange(len(reply) + 1)]
        replies[name] = reply + "\n\n" + LONG[dice.randrange(3_000) :][: dice.randrange(1, 5_000)]
        save(store, "/a.jsonl", exchange(name, f"Question {name}?", replies[name], ordinal=int(name)), is_at_end=False)
    grown = logical_dump(store.path)
    assert len(grown["drawers"]) > 20
    store.rebuild_index()
    assert logical_dump(store.path) == grown


TABLES = {"exchanges", "e", "sessions", "s", "drawers", "d", "provenance", "p", "vectors", "v", "sources", "o"}


def plans(connection: Any, statements: list[str]) -> list[str]:
    """Return how SQLite runs the statements, a line for each table or index that one of them reads."""
    found = []
    for statement in statements:
        if statement.startswith(("SELECT", "UPDATE", "DELETE", "INSERT")):
            found += [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
    return found


def test_no_statement_of_a_save_reads_a_whole_table(store: Any, save: Any) -> None:
    told = [exchange(str(n), f"Question {n}?", LONG, ordinal=n) for n in range(4)]
    save(store, "/a.jsonl", *told)
    statements: list[str] = []
    store.write(lambda connection: connection.set_trace_callback(statements.append))
    save(store, "/a.jsonl", exchange("3", "Question 3?", LONG + "\n\nOne more line.", ordinal=3), told[0])
    store.write(lambda connection: connection.set_trace_callback(None))
    with store.read() as connection:
        found = plans(connection, statements)
    assert len(found) > 20
    assert [line for line in found if line.startswith("SCAN") and line.split()[1] in TABLES] == []
    assert any("exchanges_standing" in line for line in found)
    assert any("COVERING INDEX exchanges_cut (session_id=? AND cut<?)" in line for line in found)


def test_status_lists_and_neighbours_read_no_rows_of_exchanges(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1"), exchange("2", "Other?", ordinal=1))
    statements: list[str] = []
    with store.read() as connection:
        (exchange_id,) = connection.execute("SELECT min(id) FROM exchanges").fetchone()
        connection.set_trace_callback(statements.append)
        views.totals(connection)
        views.sessions(connection, agent="", is_wanted=None, since=None, limit=10, offset=0)
        views.exchange(connection, exchange_id)
        connection.set_trace_callback(None)
        found = plans(connection, statements)
    assert "SCAN exchanges USING INDEX exchanges_superseded" in found
    assert found.count("SEARCH e USING COVERING INDEX exchanges_session (session_id=?)") == 2
    assert [line for line in found if line in {"SCAN exchanges", "SCAN e"}] == []


@pytest.mark.parametrize(
    ("table", "last"),
    [("exchanges", ["tools", "attachments", "user_text", "reply_text"]), ("sources", ["cursor", "parser_state"])],
)
def test_what_can_be_long_stands_last_in_its_row(store: Any, table: str, last: list[str]) -> None:
    names = [row[1] for row in rows(store, f"PRAGMA table_info({table})")]
    assert names[-len(last) :] == last


def test_a_timeline_says_of_each_exchange_what_get_says(store: Any, save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "batches", functools.partial(sqlite.batches, size=2))
    told = [exchange(str(n), f"Question {n}?", LONG if n == 2 else "Yes.", ordinal=n) for n in range(5)]
    undated = exchange("9", "When?", ordinal=9, started_at=None, time_quality="none")
    superseded = exchange("8", "Gone?", ordinal=3, is_superseded=True)
    save(store, "/b.jsonl", *told, undated, superseded)
    save(store, "/a.jsonl", *told[:2])
    with store.read() as connection:
        timeline = views.timeline(connection, "s1")
        alone = [views.exchange(connection, views.exchange_ids(connection, one.exchange_id)[0]) for one in timeline]
    assert [one.user_text for one in timeline] == [
        "Question 0?", "Question 1?", "Question 2?", "Question 3?", "Gone?", "Question 4?", "When?",
    ]  # fmt: skip
    assert [msgspec.structs.replace(one, previous_id="", next_id="") for one in alone] == list(timeline)
    assert alone[5].previous_id == alone[3].exchange_id
    assert len(timeline[2].drawer_ids) > 1
    assert [len(one.provenance) for one in timeline] == [2, 2, 1, 1, 1, 1, 1]
    assert {one.session_title for one in timeline} == {"Question 0?"}


def test_texts_that_move_to_another_drawer_keep_their_vectors(open_store: Any, save: Any) -> None:
    store = open_store(min_user_turns=0)
    store.use_model("m")
    paragraphs = [f"{name} " + f"word{name} " * 230 for name in "ABC"]
    save(store, "/a.jsonl", exchange("1", reply="\n\n".join(paragraphs)))
    with store.read() as connection:
        queued = vectors.pending(connection, 100)
    assert len(queued) == 3
    store.save_vectors("m", [hash_ for hash_, _ in queued], np.eye(3, 8, dtype=np.float32))
    save(store, "/a.jsonl", exchange("1", reply="\n\n".join(["N " + "wordN " * 230, *paragraphs])))
    with store.read() as connection:
        again = [text for _, text in vectors.pending(connection, 100)]
    assert len(again) == 1
    assert "wordN" in again[0]
    assert_sound(store)


def test_a_way_whose_name_another_one_bore_before_is_stored_under_a_free_name(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1", reply="It runs east.", session_id="s1"))
    save(store, "/b.jsonl", exchange("1", reply="It runs west.", session_id="s2"))
    # The first way is told no more: the second bears the plain key now, and goes on being found by its former one.
    save(store, "/a.jsonl", reading=2)
    save(store, "/c.jsonl", exchange("1", reply="It runs north.", session_id="s2"))
    with store.read() as connection:
        told = connection.execute("SELECT reply_text FROM exchanges WHERE is_superseded=0 ORDER BY 1").fetchall()
        lost = connection.execute(
            "SELECT count(*) FROM exchanges e WHERE NOT EXISTS"
            " (SELECT 1 FROM exchange_keys k WHERE k.key=e.key AND k.exchange_id=e.id)"
        ).fetchone()
    assert [reply for (reply,) in told] == ["It runs north.", "It runs west."]
    assert lost == (0,)
