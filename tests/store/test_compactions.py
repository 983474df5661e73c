"""A compaction's own drop retracts nothing; any other rewrite of a file that was compacted does."""

from __future__ import annotations

from typing import Any

from support.exchanges import exchange

ONE, TWO, THREE = (exchange(str(number), f"Question {number}?", ordinal=number) for number in (1, 2, 3))
MARK = {"compact_summary": 1}


def standing(store: Any) -> list[str]:
    with store.read() as connection:
        told = connection.execute("SELECT user_text FROM exchanges WHERE is_superseded=0 ORDER BY ordinal")
        return [text for (text,) in told]


def skipped(store: Any) -> str:
    with store.read() as connection:
        return str(connection.execute("SELECT lines_skipped FROM sources").fetchone()[0])


def test_what_a_file_lost_long_after_its_compaction_is_superseded(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", ONE, TWO, THREE, lines_skipped=MARK)
    save(store, "/a.jsonl", ONE, reading=2, lines_skipped=MARK)
    assert standing(store) == ["Question 1?"]
    assert skipped(store) == '{"compact_summary":1}'


def test_what_a_compaction_dropped_stands_also_after_later_rewrites(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", ONE, TWO, THREE)
    save(store, "/a.jsonl", TWO, THREE, reading=2, lines_skipped=MARK)
    save(store, "/a.jsonl", TWO, THREE, reading=3, lines_skipped=MARK)
    assert standing(store) == ["Question 1?", "Question 2?", "Question 3?"]
    save(store, "/a.jsonl", TWO, reading=4, lines_skipped=MARK)
    assert standing(store) == ["Question 1?", "Question 2?"]


def test_a_further_compaction_retracts_nothing_either(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", ONE, TWO, THREE, lines_skipped=MARK)
    save(store, "/a.jsonl", TWO, THREE, reading=2, lines_skipped={"compact_summary": 1, "compaction": 1})
    assert standing(store) == ["Question 1?", "Question 2?", "Question 3?"]


def test_lines_that_follow_in_the_same_pass_take_nothing_back(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", ONE, TWO, THREE)
    save(store, "/a.jsonl", TWO, reading=2, lines_skipped=MARK)
    save(store, "/a.jsonl", THREE)
    assert standing(store) == ["Question 1?", "Question 2?", "Question 3?"]
    save(store, "/a.jsonl", THREE, reading=3, lines_skipped=MARK)
    assert standing(store) == ["Question 1?", "Question 3?"]


def test_a_pass_that_was_broken_off_is_no_compaction(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", ONE, TWO, THREE, lines_skipped=MARK)
    save(store, "/a.jsonl", TWO, reading=2, is_at_end=False)  # stopped before it came to the mark
    save(store, "/a.jsonl", ONE, reading=3, lines_skipped=MARK)
    assert standing(store) == ["Question 1?"]


def test_a_reason_that_merely_sounds_alike_is_no_mark(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", ONE, TWO)
    save(store, "/a.jsonl", TWO, reading=2, lines_skipped={"block:compacting_hint": 1})
    assert standing(store) == ["Question 2?"]
