"""Damaged, incomplete and inconsistent databases: said by ``doctor``, and equal to what they were after ``--fix``.

``docs/damage.md`` lists these faults by the names in :data:`PAGES` and :data:`PARTS`, and by the tests' names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.damage import WORD, execute, leaf_of_exchanges, overwrite, root_of
from support.dumps import logical_dump
from support.rights import without_privileges
from support.sound import NOTE, Sound, assert_as_before, config, failing, mend, mine, open_palace
from support.traces import traces

from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.errors import StoreError
from palace_daemon.model import ForgetRequest, RecallQuery
from palace_daemon.service import mending, palace
from palace_daemon.service.build import open_read_only
from palace_daemon.store import backups, sqlite


def test_nothing_is_found_and_nothing_is_done_where_nothing_is_wrong(data: Path, sound: Sound) -> None:
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    assert failing(data, sound) == []
    assert mend(data, sound) == {}
    after = {path.name: path.read_bytes() for path in data.iterdir()}
    assert {name: after.get(name) for name in before} == before
    assert not backups.folder(sqlite.database_path(data)).exists()


# ------------------------------------------------------------------------------------------------------------- pages

PAGES: dict[str, Callable[[Path], object]] = {
    "header of the file": lambda path: overwrite(path, 1, size=100),
    "first page": lambda path: overwrite(path, 1),
    "page of exchanges": lambda path: overwrite(path, leaf_of_exchanges(path)),
    "top page of exchanges": lambda path: overwrite(path, root_of(path, "exchanges")),
    "top page of sessions": lambda path: overwrite(path, root_of(path, "sessions")),
    "top page of sources": lambda path: overwrite(path, root_of(path, "sources")),
    "page of the word index": lambda path: overwrite(path, root_of(path, "postings")),
    "page of an index": lambda path: overwrite(path, root_of(path, "exchanges_session")),
    "page of vectors": lambda path: overwrite(path, root_of(path, "vectors")),
    "page of places": lambda path: overwrite(path, root_of(path, "provenance")),
    "file cut to a half": lambda path: os.truncate(path, path.stat().st_size // 8192 * 4096),
}


@pytest.mark.parametrize("fault", PAGES)
def test_a_damaged_page_is_found_and_what_can_be_read_goes_into_a_new_file(
    fault: str, data: Path, sound: Sound
) -> None:
    path = sqlite.database_path(data)
    PAGES[fault](path)
    damaged = path.read_bytes()
    assert failing(data, sound) != []
    assert path.read_bytes() == damaged, "looking changes nothing"
    done = mend(data, sound)
    (kept,) = [one for one in backups.damaged(path) if not one.name.endswith("-wal")]
    assert kept.read_bytes() == damaged, "a damaged file is never written to"
    assert done[f"damaged database kept as {kept.name}"] == 1
    mine(data, sound)
    assert traces(data, (WORD,)) == [], "what was forgotten came back"
    if fault == "file cut to a half":  # what nobody tells any more is gone: the rest must be sound
        assert failing(data, sound) == []
        return
    held = logical_dump(path)
    stand_ins = [row for row in held["sessions"] if row[0] == "recovered"]
    held["sessions"] = [row for row in held["sessions"] if row not in stand_ins]
    if fault in {"top page of sessions", "top page of sources", "page of exchanges"}:
        assert failing(data, sound) == []
        assert {row[6] for row in held["exchanges"]} >= {
            row[6] for row in sound.dump["exchanges"] if row[2] != "palace"
        }
    else:
        assert held == sound.dump
        assert failing(data, sound) == []


def test_an_exchange_whose_transcript_is_gone_survives_a_damaged_page_elsewhere(
    data: Path, sound: Sound, tmp_path: Path
) -> None:
    path = sqlite.database_path(data)
    overwrite(path, root_of(path, "postings"))
    empty = tmp_path / "empty"
    empty.mkdir()
    mending.mend(config(data, empty), embedder=HashingEmbedder())
    opened = open_palace(data, empty)
    opened.mine(wait=True)
    opened.close()
    held = logical_dump(path)
    assert held["exchanges"] == sound.dump["exchanges"]
    assert any(row[6] == NOTE for row in held["exchanges"])


def test_where_the_list_of_the_forgotten_is_damaged_no_transcript_is_read_anew(data: Path, sound: Sound) -> None:
    path = sqlite.database_path(data)
    overwrite(path, root_of(path, "tombstones"))
    done = mend(data, sound)
    assert done["list of what was forgotten is not whole: no transcript is read anew"] == 1
    assert "transcripts to be read anew" not in done
    mine(data, sound)
    assert_as_before(data, sound)


def test_forgetting_deletes_backups_and_damaged_files(data: Path, sound: Sound) -> None:
    path = sqlite.database_path(data)
    overwrite(path, root_of(path, "postings"))
    mend(data, sound)
    backups.take(path, "repair")
    assert traces(data, (NOTE,))
    opened = open_palace(data, sound.transcripts)
    (note,) = [view for view in opened.notes() if view.text == NOTE]
    report = opened.forget(ForgetRequest(exchanges=(note.note_id,)))
    opened.close()
    assert (report.exchanges, report.wipe_due) == (1, "")
    assert traces(data, (NOTE,)) == []
    assert (backups.newest_first(path), backups.damaged(path)) == ([], [])


# ------------------------------------------------------------------------------------------------------------- parts

PARTS: dict[str, tuple[str, ...]] = {
    "missing index": ("DROP INDEX vectors_generation",),
    "missing trigger": ("DROP TRIGGER vectors_added",),
    "missing word index": ("DROP TABLE postings",),
    "missing drawers": ("DROP TABLE drawers",),
    "missing vectors": ("DROP TABLE vectors",),
    "missing column": ("ALTER TABLE sessions DROP COLUMN is_automated",),
    "words that differ from the drawers": ("UPDATE postings SET data=x'0102' WHERE term>'t'",),
    "drawers that differ from the exchanges": ("UPDATE drawers SET reply_end=reply_end-1 WHERE reply_end>20",),
    "lost drawers": ("DELETE FROM drawers WHERE id%3=0",),
    "lost statements' vectors": ("DELETE FROM vectors WHERE text_hash IN (SELECT text_hash FROM statements)",),
    "broken vectors": (
        "UPDATE vectors SET vector=zeroblob(length(vector)) WHERE id%5=0",
        "UPDATE vectors SET vector=x'00' WHERE id%5=1",
        "UPDATE vectors SET vector=x'0000c07f'||substr(vector, 5) WHERE id%5=2",
    ),
    "vectors that the model does not make": (
        "UPDATE vectors SET vector=(SELECT vector FROM vectors v ORDER BY v.id LIMIT 1)",
    ),
    "vectors of no text": ("INSERT INTO vectors SELECT id+99, randomblob(16), space, vector, 1 FROM vectors LIMIT 3",),
    "wrong counts": ("UPDATE spaces SET vectors=vectors+5, pending=3",),
    "lost exchanges": ("DELETE FROM exchanges WHERE id IN (2, 3)",),
    "places of nothing": ("UPDATE provenance SET exchange_id=exchange_id+1000 WHERE exchange_id=4",),
}  # fmt: skip


@pytest.mark.parametrize("fault", PARTS)
def test_what_does_not_agree_is_found_and_made_anew(fault: str, data: Path, sound: Sound) -> None:
    path = sqlite.database_path(data)
    execute(path, *PARTS[fault])
    assert failing(data, sound) != []
    assert sum(mend(data, sound).values()) >= 1
    assert backups.newest_first(path) or backups.damaged(path), "the file as it was is kept"
    assert failing(data, sound) == []
    mine(data, sound)
    assert_as_before(data, sound)


@pytest.mark.parametrize(
    "damage",
    ["UPDATE vectors SET vector=substr(vector, 1, 12) WHERE id%4=1", "UPDATE vectors SET vector=substr(vector, 1, 12)"],
    ids=["some", "all"],
)
def test_vectors_of_another_width_keep_recall_from_nothing_until_they_are_mended(
    damage: str, data: Path, sound: Sound, caplog: pytest.LogCaptureFixture
) -> None:
    path = sqlite.database_path(data)
    execute(path, damage)
    opened = open_palace(data, sound.transcripts)
    try:
        answers = [opened.recall(RecallQuery(text="What of tide 3?", now=1)) for _ in range(3)]
        assert all(len(answer.hits) > 3 for answer in answers)
        opened.remember("Tea is in the right one.", now=2)
        opened.mine(wait=True)
        assert opened.recall(RecallQuery(text="Tea in the right one", now=3)).hits[0].text.endswith("right one.")
        (note,) = [view for view in opened.notes() if view.text != NOTE]
        opened.forget(ForgetRequest(exchanges=(note.note_id,)))
    finally:
        opened.close()
    told = [one.getMessage() for one in caplog.records if one.name == "palace_daemon.store.widths"]
    assert len(told) <= 2, "drawers, and statements"
    assert all(re.search(r"in rows \d+, \d+.* of the table `vectors`", one) for one in told)
    assert "palace-daemon doctor --fix" in told[0]
    assert failing(data, sound) == ["vector values", "vector sample"]
    mend(data, sound)
    assert failing(data, sound) == []


def test_exchanges_without_their_session_or_source_are_kept(data: Path, sound: Sound, tmp_path: Path) -> None:
    path = sqlite.database_path(data)
    execute(path, "DELETE FROM sessions WHERE agent='claude-code'", "DELETE FROM sources WHERE path LIKE '%0.jsonl'")
    assert failing(data, sound) == ["references"]
    done = mend(data, sound)
    assert done["stand-ins for lost sessions"] == 2
    assert done["stand-ins for lost sources"] == 1
    assert failing(data, sound) == []
    held = logical_dump(path)
    assert [row[6:9] for row in held["exchanges"]] == [row[6:9] for row in sound.dump["exchanges"]]
    answer = open_read_only(config(data, sound.transcripts), embedder=HashingEmbedder())
    assert answer.recall(RecallQuery(text="tide 3", now=1)).hits
    answer.close()


def test_a_store_of_a_newer_version_is_not_touched(data: Path, sound: Sound) -> None:
    path = sqlite.database_path(data)
    execute(path, "PRAGMA user_version=99")
    before = path.read_bytes()
    assert failing(data, sound) == ["database"]
    with pytest.raises(StoreError, match="upgrade"):
        mend(data, sound)
    assert path.read_bytes() == before


# -------------------------------------------------------------------------------------------------------------- disk


def test_a_full_disk_is_named_and_afterwards_nothing_is_missing(
    sound: Sound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(palace, "_STORE_RETRY_S", 0.01)
    data = tmp_path / "data"
    opened = open_palace(data, sound.transcripts)
    pages = opened._store._writer.run(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
    opened._store._writer.run_bare(lambda c: c.execute(f"PRAGMA max_page_count={pages + 12}").fetchone())
    opened.mine(wait=True)
    assert "no space left" in opened.status().last_error
    held = opened.status().exchanges
    opened._store._writer.run_bare(lambda c: c.execute("PRAGMA max_page_count=1000000").fetchone())
    opened.mine(wait=True)
    assert opened.status().exchanges > held
    opened.remember(NOTE, now=1)
    secret = next(view.exchange_id for view in opened.timeline("s1") if WORD in view.user_text)
    opened.forget(ForgetRequest(exchanges=(secret,)))
    opened.close()
    mine(data, sound)  # embedding, too, tries again by itself, but after longer than a test takes
    assert_as_before(data, sound)


def test_on_a_read_only_disk_recall_goes_on_and_nothing_is_written(data: Path, sound: Sound) -> None:
    """The rights of an ordinary user and a directory without write permission do what such a disk does."""
    path = sqlite.database_path(data)
    path.chmod(0o444)
    data.chmod(0o555)
    before = path.read_bytes()
    try:
        with without_privileges(data):
            with pytest.raises(StoreError, match="cannot be written"):
                open_palace(data, sound.transcripts)
            answer = open_read_only(config(data, sound.transcripts), embedder=HashingEmbedder())
            try:
                assert answer.recall(RecallQuery(text="tide 3", now=1)).hits
            finally:
                answer.close()
            assert failing(data, sound) == []
    finally:
        data.chmod(0o700)
        path.chmod(0o600)
    assert path.read_bytes() == before
    mine(data, sound)
    assert_as_before(data, sound)
