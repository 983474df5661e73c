"""Notes of several stores: equal ones count as one, and what took a note's place can go again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.traces import traces

from palace_daemon.errors import RequestError
from palace_daemon.model import ForgetRequest, NoteView, RecallQuery
from palace_daemon.service import forgetting
from palace_daemon.store import check

NOW = 1_800_000_000_000
REDIS = "The staging queue runs on Redis 7."


def remember(palace: Any, text: str, **fields: Any) -> NoteView:
    note, _ = palace.remember(text, now=NOW, **fields)
    found: NoteView = note
    return found


def listed(palace: Any, **fields: Any) -> list[str]:
    return [note.text for note in palace.notes(**fields)]


def recalled(palace: Any) -> list[str]:
    return sorted(hit.text for hit in palace.recall(RecallQuery(text="staging queue", now=NOW)).hits)


def forget(palace: Any, *note_ids: str) -> None:
    palace.forget(ForgetRequest(exchanges=note_ids))


def is_sound(palace: Any) -> bool:
    with palace._store.read() as connection:
        return all(finding.is_ok for finding in check.check(connection, is_deep=True))


# ------------------------------------------------------------------------------------------------------ equal notes


@pytest.fixture
def exports(make_palace: Any, tmp_path: Path) -> tuple[str, str]:
    """One store edited a note into what another one remembers."""
    one = make_palace(tmp_path / "one")
    note = remember(one, "It runs on Redis 6.", tags=["one"])
    one.edit_note(note.note_id, REDIS, now=NOW + 5)
    two = make_palace(tmp_path / "two")
    remember(two, REDIS, tags=["two"], author="ci")
    one.export(str(tmp_path / "one.jsonl"))
    two.export(str(tmp_path / "two.jsonl"))
    return str(tmp_path / "one.jsonl"), str(tmp_path / "two.jsonl")


@pytest.fixture
def merged(exports: tuple[str, str], make_palace: Any, tmp_path: Path) -> Any:
    palace = make_palace(tmp_path / "merged")
    for path in exports:
        palace.import_file(path)
    return palace


def test_equal_notes_of_two_stores_are_one(
    merged: Any, exports: tuple[str, str], make_palace: Any, tmp_path: Path
) -> None:
    (note,) = merged.notes()
    assert (note.text, note.tags, note.author, note.superseded_by) == (REDIS, ("one", "two"), "ci", "")
    assert merged.notes(tags=["one"]) == merged.notes(tags=["TWO"]) == merged.notes(include_superseded=True) == (note,)
    assert recalled(merged) == [f"> {REDIS}"]
    other = make_palace(tmp_path / "other")
    for path in reversed(exports):
        other.import_file(path)
    assert other.notes() == merged.notes()
    assert is_sound(merged)
    assert not any(merged.import_file(exports[0]).changes.values())


def test_remembering_it_again_is_no_new_note(merged: Any) -> None:
    again, is_new = merged.remember(REDIS, tags=["three"], now=NOW + 9)
    assert (is_new, again.tags) == (False, ("one", "three", "two"))
    assert listed(merged) == [REDIS]


@pytest.mark.parametrize("number", [0, 1])
def test_either_id_names_the_one_note_and_a_change_leaves_no_second_behind(merged: Any, number: int) -> None:
    with merged._store.read() as connection:
        ids = [row[0] for row in connection.execute("SELECT public_id FROM exchanges ORDER BY key")]
    edited = merged.edit_note(ids[number], "The staging queue runs on Valkey.", now=NOW + 9)
    assert edited == merged.notes()[0]
    assert listed(merged) == ["The staging queue runs on Valkey."]
    assert recalled(merged) == ["> The staging queue runs on Valkey."]
    assert is_sound(merged)


@pytest.mark.parametrize("number", [0, 1])
def test_superseding_and_forgetting_take_both(merged: Any, number: int) -> None:
    with merged._store.read() as connection:
        ids = [row[0] for row in connection.execute("SELECT public_id FROM exchanges ORDER BY key")]
    new, _ = merged.supersede_note(ids[number], "The staging queue runs on Postgres.", now=NOW + 9)
    assert new.tags == ("one", "two")
    assert listed(merged) == [new.text]
    forget(merged, new.note_id)
    assert listed(merged) == [REDIS], "what it took the place of stands again"
    forget(merged, ids[number])
    assert listed(merged, include_superseded=True) == []


# ------------------------------------------------------------------------------------------- what took a note's place


def test_a_note_stands_again_when_its_successor_is_forgotten(palace: Any, tmp_path: Path) -> None:
    old = remember(palace, REDIS)
    new, _ = palace.supersede_note(old.note_id, "The staging queue runs on Postgres.", now=NOW + 5)
    palace.export(str(tmp_path / "before.jsonl"))
    assert recalled(palace) == [f"> {new.text}"]
    forget(palace, new.note_id)
    for _ in range(2):
        assert palace.notes() == (old,)
        assert recalled(palace) == [f"> {REDIS}"]
        assert not palace.get(old.note_id).is_superseded
        palace.import_file(str(tmp_path / "before.jsonl"))
    assert palace.edit_note(old.note_id, "The staging queue runs on Redis 8.", now=NOW + 6).superseded_by == ""
    last, _ = palace.supersede_note(old.note_id, "The staging queue runs on Kafka.", now=NOW + 7)
    with pytest.raises(RequestError, match=last.note_id):
        palace.supersede_note(old.note_id, "The staging queue runs on nothing.", now=NOW + 8)
    assert listed(palace) == [last.text]
    assert is_sound(palace)


def test_what_came_after_a_forgotten_note_stands_for_those_before_it(palace: Any) -> None:
    first = remember(palace, REDIS)
    second, _ = palace.supersede_note(first.note_id, "The staging queue runs on Postgres.", now=NOW + 5)
    third, _ = palace.supersede_note(second.note_id, "The staging queue runs on Kafka.", now=NOW + 6)
    forget(palace, second.note_id)
    assert listed(palace) == [third.text]
    assert [note.superseded_by for note in palace.notes(include_superseded=True)] == ["", third.note_id]
    forget(palace, third.note_id)
    assert listed(palace) == [REDIS]


def test_forgetting_several_of_a_chain_at_once_lets_the_first_stand(palace: Any) -> None:
    first = remember(palace, REDIS)
    second, _ = palace.supersede_note(first.note_id, "The staging queue runs on Postgres.", now=NOW + 5)
    third, _ = palace.supersede_note(second.note_id, "The staging queue runs on Kafka.", now=NOW + 6)
    forget(palace, third.note_id, second.note_id)
    assert palace.notes() == (first,)


def test_a_successor_that_is_not_there_yet_takes_its_place_when_it_comes(make_palace: Any, tmp_path: Path) -> None:
    palace = make_palace()
    old = remember(palace, REDIS)
    new, _ = palace.supersede_note(old.note_id, "The staging queue runs on Postgres.", now=NOW + 5)
    palace.export(str(tmp_path / "out.jsonl"))
    lines = (tmp_path / "out.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "less.jsonl").write_text("".join(line for line in lines if "Postgres" not in line))
    other = make_palace(tmp_path / "other")
    other.import_file(str(tmp_path / "less.jsonl"))
    assert other.notes() == (old,)
    other.import_file(str(tmp_path / "out.jsonl"))
    assert other.notes() == (new,)
    assert other.notes(include_superseded=True) == palace.notes(include_superseded=True)


# ------------------------------------------------------------------------------------------------------- on the disk


def test_the_former_text_of_an_edited_note_leaves_the_disk(
    palace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    monkeypatch.setattr(forgetting, "RETRY_FIRST_S", 0.02)
    palace._work()
    note = remember(palace, "The quagmirebird stays between us.")
    assert traces(tmp_path / "data", ["quagmirebird"])
    palace.edit_note(note.note_id, "It does.", now=NOW + 5)

    def is_due() -> bool:
        with palace._store.read() as connection:
            return bool(connection.execute("SELECT scrub_due FROM state").fetchone()[0])

    wait_until(lambda: not is_due())
    assert traces(tmp_path / "data", ["quagmirebird"]) == []


def test_an_edit_elsewhere_takes_the_former_text_too(make_palace: Any, tmp_path: Path) -> None:
    palace = make_palace()
    note = remember(palace, "The quagmirebird stays between us.")
    palace.export(str(tmp_path / "old.jsonl"))
    other = make_palace(tmp_path / "other")
    other.import_file(str(tmp_path / "old.jsonl"))
    palace.edit_note(note.note_id, "It does.", now=NOW + 5)
    palace.export(str(tmp_path / "new.jsonl"))
    assert other.import_file(str(tmp_path / "new.jsonl")).changes["notes_changed"] == 1
    assert traces(tmp_path / "other", ["quagmirebird"]) == []
