"""What SQLite takes without a word: a changed text, a value of another kind, rows missing beside whole ones."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from support.claude import append, turn
from support.damage import WORD, execute, overwrite, root_of
from support.dumps import logical_dump
from support.sound import NOTE, Sound, assert_as_before, config, failing, mend, mine, open_palace
from support.traces import traces

from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.errors import StoreDamagedError, StoreError
from palace_daemon.model import RecallQuery
from palace_daemon.service import diagnosis
from palace_daemon.store import backups, pages, sqlite

QUESTION = b"Question 3 of 1?"
ANSWER = b".Tide 5. Tide 5."
"""With the end of the question before it, as only a row of exchanges has it."""


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """Where transcripts were that are gone."""
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


def stored(path: Path) -> list[tuple[bytes, bytes]]:
    connection = sqlite.open_copy(path)
    try:
        connection.text_factory = bytes
        return connection.execute("SELECT user_text, reply_text FROM exchanges ORDER BY id").fetchall()
    finally:
        connection.close()


def flip(path: Path, text: bytes, bit: int, at: int = 3) -> None:
    """Flip a bit of a stored text: where it stands in a row, and not in what a page has left over of a moved one."""
    before, raw = stored(path), path.read_bytes()
    place = raw.find(text)
    while place > 0:
        path.write_bytes(raw[: place + at] + bytes([raw[place + at] ^ bit]) + raw[place + at + 1 :])
        if stored(path) != before:
            return
        place = raw.find(text, place + 1)
    raise AssertionError("the text stands in no row")


def zero(path: Path, *numbers: int) -> None:
    with path.open("rb+") as file:
        for number in numbers:
            file.seek((number - 1) * pages.PAGE_BYTES)
            file.write(bytes(pages.PAGE_BYTES))


def asked(data: Path, transcripts: Path, tmp_path: Path) -> None:
    """Ask for everything that reads rows of every table."""
    opened = open_palace(data, transcripts)
    try:
        for number in range(8):
            assert opened.recall(RecallQuery(text=f"Question {number}? tide {number}", now=1)).hits
        assert opened.status().exchanges
        for session in ("s0", "s1"):
            opened.timeline(session)
        opened.sources()
        opened.projects()
        opened.notes()
        opened.export(str(tmp_path / "all.export"))
    finally:
        opened.close()


# ------------------------------------------------------------------------------------------------------------- texts


def test_a_text_that_is_no_utf8_any_more_is_salvaged_and_its_transcript_puts_it_right(
    data: Path, sound: Sound, caplog: pytest.LogCaptureFixture
) -> None:
    path = sqlite.database_path(data)
    flip(path, QUESTION, 0x80)
    found = diagnosis.check(config(data, sound.transcripts), embedder=HashingEmbedder())
    assert [one.name for one in found if one.level == "fail"] == ["database"]
    assert all("tide" not in one.detail for one in found), "a finding quotes a text"
    done = mend(data, sound)
    assert done["exchanges whose text is not whole: their transcripts put them right"] == 1
    mine(data, sound)
    assert_as_before(data, sound)
    assert "tide" not in caplog.text


def test_no_message_and_no_log_quotes_a_text_that_is_no_utf8_any_more(
    data: Path, sound: Sound, caplog: pytest.LogCaptureFixture
) -> None:
    flip(sqlite.database_path(data), QUESTION, 0x80)
    opened = open_palace(data, sound.transcripts)
    try:
        with pytest.raises(StoreDamagedError, match="not UTF-8") as told:
            opened.timeline("s1")
    finally:
        opened.close()
    logging.getLogger("palace_daemon").error("failed", exc_info=told.value)
    assert "tide" not in str(told.value)
    assert "tide" not in caplog.text


def test_a_text_that_cannot_be_read_keeps_no_other_from_its_vector(data: Path, sound: Sound) -> None:
    path = sqlite.database_path(data)
    execute(path, "DELETE FROM pending_texts", "DELETE FROM vectors")
    execute(
        path,
        "INSERT INTO pending_texts(text_hash, model, is_statement, started_at) SELECT text_hash, model, 0, 1"
        " FROM (SELECT text_hash FROM drawers UNION SELECT text_hash FROM statements), state",
    )
    flip(path, QUESTION, 0x80)
    opened = open_palace(data, sound.transcripts)
    try:
        opened.mine(wait=True)
        (space,) = opened.status().embedding.coverage
        assert 0 < space.texts - space.vectors < 12, "only those of the exchange whose text is damaged"
        assert "cannot be embedded" in opened.status().last_error
        assert "tide" not in opened.status().last_error
    finally:
        opened.close()


@pytest.mark.parametrize("text", [QUESTION, ANSWER])
def test_a_text_that_changed_into_another_is_found_and_its_transcript_puts_it_right(
    text: bytes, data: Path, sound: Sound
) -> None:
    flip(sqlite.database_path(data), text, 0x01)
    assert "texts" in failing(data, sound)
    done = mend(data, sound)
    assert done["exchanges whose text changed: their transcripts put them right"] == 1
    assert failing(data, sound) == []
    mine(data, sound)
    assert_as_before(data, sound)


def test_a_changed_text_without_its_transcript_stays_and_is_said_once(data: Path, sound: Sound, empty: Path) -> None:
    flip(sqlite.database_path(data), QUESTION, 0x01)
    gone = sound._replace(transcripts=empty)
    assert "texts" in failing(data, gone)
    mend(data, gone)
    mine(data, gone)
    assert failing(data, gone) == []
    (told,) = [one for one in diagnosis.check(config(data, empty), embedder=HashingEmbedder()) if one.name == "texts"]
    assert told.detail == "1 changed, which is known"
    assert mend(data, gone) == {}


def test_a_text_that_is_stored_as_no_text_is_salvaged(data: Path, sound: Sound, empty: Path) -> None:
    path = sqlite.database_path(data)
    execute(path, "UPDATE exchanges SET reply_text=CAST(reply_text AS BLOB) WHERE id=3")
    gone = sound._replace(transcripts=empty)
    assert failing(data, gone) != []
    assert mend(data, gone)["exchanges read from it"] == len(sound.dump["exchanges"])
    assert failing(data, gone) == []
    assert logical_dump(path)["exchanges"] == sound.dump["exchanges"]


# ------------------------------------------------------------------------------------------------------------ values

VALUES: dict[str, str] = {
    "tools": "UPDATE exchanges SET tools='{' WHERE id=2",
    "attachments": "UPDATE exchanges SET attachments='[1' WHERE id=2",
    "redactions": "UPDATE exchanges SET redactions='{' WHERE id=2",
    "beginning of the last message": "UPDATE exchanges SET reply_final_start=reply_final_start+16384 WHERE id=2",
    "beginning before the reply": "UPDATE exchanges SET reply_final_start=-1 WHERE id=2",
    "lines skipped": "UPDATE sources SET lines_skipped='y}' WHERE id=1",
    "cursor": "UPDATE sources SET cursor=x'01' WHERE id=1",
    "number of an exchange": "UPDATE exchanges SET id=4611686018427387904 WHERE id=3",
    "number below one": "UPDATE exchanges SET id=-1 WHERE id=3",
    "number that another row has not": "UPDATE exchanges SET id=1000 WHERE id=3",
    "key of an exchange": "DELETE FROM exchange_keys WHERE exchange_id=2",
    "place of the owner": "DELETE FROM provenance WHERE exchange_id=2",
    "words of a term": "UPDATE postings SET data=17 WHERE term>'t'",
}


@pytest.mark.parametrize("fault", VALUES)
def test_a_value_that_cannot_be_read_is_found_and_its_transcript_puts_it_right(
    fault: str, data: Path, sound: Sound, tmp_path: Path
) -> None:
    execute(sqlite.database_path(data), VALUES[fault])
    assert failing(data, sound) != []
    assert mend(data, sound)
    assert failing(data, sound) == []
    asked(data, sound.transcripts, tmp_path)
    mine(data, sound)
    if (
        fault != "place of the owner"
    ):  # nothing is lost, and so nothing is read anew: the lines of its place stay unknown
        assert_as_before(data, sound)


def test_lost_tags_of_a_note_are_no_tags(data: Path, sound: Sound, tmp_path: Path) -> None:
    execute(sqlite.database_path(data), "UPDATE notes SET tags='{'")
    assert failing(data, sound) == ["row values"]
    mend(data, sound)
    assert_as_before(data, sound)
    asked(data, sound.transcripts, tmp_path)


def test_two_exchanges_of_one_number_are_both_kept(data: Path, sound: Sound, empty: Path) -> None:
    """One bit of the row number of an exchange makes it that of the next one; both rows are whole."""
    path = sqlite.database_path(data)
    raw = bytearray(path.read_bytes())
    raw[place_of_number(path, 2)] ^= 1
    path.write_bytes(raw)
    gone = sound._replace(transcripts=empty)
    assert failing(data, gone) != []
    done = mend(data, gone)
    assert done["exchanges read from it"] == len(sound.dump["exchanges"])
    assert failing(data, gone) == []
    held = logical_dump(path)
    assert (held["exchanges"], held["provenance"]) == (sound.dump["exchanges"], sound.dump["provenance"])


def place_of_number(path: Path, number: int) -> int:
    """Return where in the file the row number of an exchange stands, of which a neighbour is on the same page."""
    file = pages.PageFile(path)
    try:
        for page in range(2, file.count + 1):
            rows = list(file.rows(page)) if file.kind(page) == pages.TABLE_LEAF else []
            if [row for row in rows if row and len(row.values) == 28 and row.rowid in {number, number ^ 1}][1:]:
                data = file.page(page)
                cells = file._cells(page, data, pages.TABLE_LEAF)
                cell = next(cell for cell, row in zip(cells, rows, strict=True) if row and row.rowid == number)
                _, at = pages._varint(data, cell)
                return (page - 1) * pages.PAGE_BYTES + at
    finally:
        file.close()
    raise LookupError(number)


# -------------------------------------------------------------------------------------------------------------- rows


def test_an_exchange_whose_owner_lost_its_place_gets_one_though_others_tell_it(tmp_path: Path, empty: Path) -> None:
    transcripts = tmp_path / "transcripts"
    transcripts.mkdir()
    for name in ("a", "b"):
        append(
            transcripts / f"{name}.jsonl", "".join(turn(n, f"Question {n}? tide {n}", "fine " * 30) for n in range(8))
        )
    data = tmp_path / "data"
    opened = open_palace(data, transcripts)
    opened.mine(wait=True)
    opened.close()
    gone = Sound(data, empty, {})
    execute(
        sqlite.database_path(data),
        "DELETE FROM provenance WHERE exchange_id=2 AND source_id=(SELECT owner_source_id FROM exchanges WHERE id=2)",
    )
    assert failing(data, gone) == ["places"]
    assert mend(data, gone)["exchanges given their own source as a place"] == 1
    assert failing(data, gone) == []
    opened = open_palace(data, empty)
    assert opened.recall(RecallQuery(text="Question 1? tide 1", now=1)).hits
    opened.export(str(tmp_path / "all.export"))
    opened.close()


NOTES_LOST: dict[str, Callable[[Path], object]] = {
    "page": lambda path: overwrite(path, root_of(path, "notes")),
    "rows": lambda path: execute(path, "DELETE FROM notes"),
}


@pytest.mark.parametrize("how", NOTES_LOST)
def test_notes_whose_rows_are_lost_are_notes_again(how: str, data: Path, sound: Sound, tmp_path: Path) -> None:
    path = sqlite.database_path(data)
    NOTES_LOST[how](path)
    assert failing(data, sound) == (["notes"] if how == "rows" else ["database"])
    assert mend(data, sound)["notes given back what only notes have"] == 1
    assert failing(data, sound) == []
    asked(data, sound.transcripts, tmp_path)
    opened = open_palace(data, sound.transcripts)
    (note,) = opened.notes()
    assert (note.text, note.created_at) == (NOTE, 1)
    assert opened.edit_note(note.note_id, "Tea is in the right one.", now=2).text == "Tea is in the right one."
    opened.close()


# --------------------------------------------------------------------------------------------------- what is forgotten


def test_where_the_schema_names_no_list_of_the_forgotten_no_transcript_is_read_anew(data: Path, sound: Sound) -> None:
    """A lost block of zeros takes the page of the schema that names the list, and the list."""
    path = sqlite.database_path(data)
    zero(path, root_of(path, "tombstones"), *schema_leaves(path))
    done = mend(data, sound)
    assert done["list of what was forgotten is not whole: no transcript is read anew"] == 1
    assert done["pages of it could not be read"] >= 2
    mine(data, sound)
    assert traces(data, (WORD,)) == [], "what was forgotten came back"
    assert failing(data, sound) == []


def test_where_sources_are_lost_with_the_list_of_the_forgotten_it_is_said_that_their_transcripts_are_read(
    data: Path, sound: Sound
) -> None:
    path = sqlite.database_path(data)
    overwrite(path, root_of(path, "tombstones"), root_of(path, "sources"))
    done = mend(data, sound)
    assert done["sources are lost as well: the next start reads their transcripts, what was forgotten too"] == 1
    assert "transcripts to be read anew" not in done
    assert failing(data, sound) == []


def schema_leaves(path: Path) -> list[int]:
    file = pages.PageFile(path)
    try:
        return [
            number
            for number in range(1, file.count + 1)
            if file.kind(number) == pages.TABLE_LEAF
            and any(row is not None and row.values[:1] == ("table",) for row in file.rows(number))
        ]
    finally:
        file.close()


@pytest.mark.parametrize("content", [b"", bytes(40_960)], ids=["no bytes", "zeros"])
def test_a_file_that_holds_nothing_is_not_begun_anew(content: bytes, data: Path, sound: Sound) -> None:
    path = sqlite.database_path(data)
    path.write_bytes(content)
    (told,) = [one for one in diagnosis.check(config(data, sound.transcripts)) if one.level == "fail"]
    assert told.name == "database"
    with pytest.raises(StoreDamagedError, match="nothing can be read") as failed:
        mend(data, sound)
    assert "what was forgotten is not known" in failed.value.hint
    with pytest.raises(StoreError):
        mine(data, sound)
    names = {one.name for one in data.iterdir() if one.name.startswith("palace.db")}
    assert names <= {"palace.db", "palace.db-wal", "palace.db-shm"}
    assert path.read_bytes() == content
    assert backups.newest_first(path) == []
    path.unlink()  # as the hint says
    mine(data, sound)
    assert failing(data, sound) == []


# ------------------------------------------------------------------------------------------------ number of the schema


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_schema_number_that_is_too_low_is_put_right_and_costs_no_backup(
    version: int, data: Path, sound: Sound
) -> None:
    path = sqlite.database_path(data)
    execute(path, f"PRAGMA user_version={version}")
    assert failing(data, sound) == ["database"]
    for _ in range(3):
        with pytest.raises(StoreDamagedError, match=f"says that it has schema {version}"):
            mine(data, sound)
    assert backups.newest_first(path) == []
    assert mend(data, sound)["number of the schema put right"] == 1
    assert_as_before(data, sound)


def test_a_check_that_stumbles_is_a_finding_that_names_the_kind_of_error_alone(data: Path, sound: Sound) -> None:
    execute(sqlite.database_path(data), "UPDATE sources SET lines_skipped='y}' WHERE id=1")
    found = {one.name: one for one in diagnosis.check(config(data, sound.transcripts), embedder=HashingEmbedder())}
    assert (found["transcripts"].level, found["transcripts"].advice) == ("fail", diagnosis.FIX)
    assert found["transcripts"].detail == "cannot be looked at: DecodeError"
