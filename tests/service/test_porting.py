"""Exports and imports end to end in one process: nothing lost, nothing twice, whatever comes first."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, reply, turn, user
from support.dumps import logical_dump

from palace_daemon.errors import CancelledError, RequestError, SourceError
from palace_daemon.model import ForgetRequest, RecallQuery
from palace_daemon.service import porting
from palace_daemon.store import check, sources

NOW = 1_800_000_000_000
NOTE = "The staging queue runs on Redis 7."


def content(palace: Any) -> dict[str, Any]:
    """Return all that two equal stores share, vectors aside."""
    dump = logical_dump(palace._store.path, with_vectors=False)
    with palace._store.read() as connection:
        dump["notes"] = palace.notes(include_superseded=True, limit=1000)
        dump["tombstones"] = connection.execute("SELECT * FROM tombstones ORDER BY 1, 2").fetchall()
        dump["more"] = connection.execute(
            "SELECT key, cwd, agent_version, attachments, is_superseded FROM exchanges ORDER BY key"
        ).fetchall()
        dump["session facts"] = connection.execute(
            "SELECT agent, native_id, cwd, branch, agent_version, entrypoint FROM sessions ORDER BY 1, 2"
        ).fetchall()
    return dump


def texts(palace: Any) -> list[tuple[str, str]]:
    with palace._store.read() as connection:
        rows = connection.execute("SELECT user_text, reply_text FROM exchanges ORDER BY 1, 2").fetchall()
    return [(user_text, reply_text) for user_text, reply_text in rows]


def mine(palace: Any, directory: Path) -> None:
    palace.mine([str(directory)], wait=True)


def is_sound(palace: Any) -> bool:
    with palace._store.read() as connection:
        findings = check.check(connection, is_deep=True)
    assert [finding for finding in findings if not finding.is_ok] == []
    return True


@pytest.fixture
def full(make_palace: Any, transcripts: Path) -> Any:
    """A store with sessions, a resumed copy, a fork, a rewound exchange, a bad line, notes and a tombstone."""
    palace = make_palace()
    lines = "".join(turn(n, f"Question {n} on tides?", f"Answer {n}: the moon.\n\nAnd the sun.") for n in range(4))
    append(transcripts / "a.jsonl", lines)
    append(transcripts / "b.jsonl", lines + turn(9, "And then?", "Ebb."))
    fork = user("u-s1-0", "Question 0 on tides?", session="s2", at=0) + reply("a-x", "Another way.", session="s2")
    append(transcripts / "c.jsonl", fork + "{broken\n" + turn(5, "Forget this?", "A secret plan.", session="s3"))
    append(transcripts / "d.txt", "no transcript")
    mine(palace, transcripts)
    palace.forget(ForgetRequest(query=RecallQuery(text="secret plan", now=NOW, limit=1)))
    old, _ = palace.remember(NOTE, project="/nowhere/tidepool", tags=["redis"], author="ci", now=NOW)
    palace.supersede_note(old.note_id, "It runs on Postgres.", now=NOW + 5)
    edited, _ = palace.remember("żółw", now=NOW + 6)
    palace.edit_note(edited.note_id, "記憶\n\nin two parts", now=NOW + 7)
    return palace


# ------------------------------------------------------------------------------------------------------ round trips


def test_a_round_trip_into_an_empty_store_is_exact(full: Any, make_palace: Any, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    written = full.export(str(path))
    other = make_palace(tmp_path / "other")
    read = other.import_file(str(path))
    assert content(other) == content(full)
    assert read.records == written.records == {
        "source": 3, "exchange": 6, "note": 3, "session": written.records["session"], "tombstone":
        written.records["tombstone"],
    }  # fmt: skip
    assert written.records["tombstone"] > 0
    assert (read.malformed, read.problems, read.is_complete) == (0, (), True)
    assert is_sound(other)


def test_the_copy_of_a_copy_is_the_same(full: Any, make_palace: Any, tmp_path: Path) -> None:
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    full.export(str(first))
    other = make_palace(tmp_path / "other")
    other.import_file(str(first))
    other.export(str(second))

    def lines(path: Path) -> list[str]:
        return sorted(path.read_text().splitlines()[1:])

    assert lines(first) == lines(second), "machine marks included"


def test_importing_twice_and_importing_the_own_export_change_nothing(
    full: Any, make_palace: Any, tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    full.export(str(path))
    before = content(full)
    assert not any(full.import_file(str(path)).changes.values())
    assert content(full) == before
    other = make_palace(tmp_path / "other")
    other.import_file(str(path))
    assert not any(other.import_file(str(path)).changes.values())
    assert content(other) == before


def test_what_was_imported_is_embedded_in_the_background(
    full: Any, make_palace: Any, tmp_path: Path, wait_until: Any
) -> None:
    full.export(str(tmp_path / "out.jsonl"))
    other = make_palace(tmp_path / "other")
    other._work()
    other.import_file(str(tmp_path / "out.jsonl"))
    wait_until(lambda: other.status().vectors_pending == 0)
    assert other.status().vectors > 0
    hit = other.recall(RecallQuery(text="postgres", now=NOW)).hits[0]
    assert (hit.agent, hit.text) == ("note", "> It runs on Postgres.")


def test_an_empty_store_has_an_export_too(make_palace: Any, tmp_path: Path) -> None:
    palace = make_palace()
    written = palace.export(str(tmp_path / "out.jsonl"))
    assert set(written.records.values()) == {0}
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2
    assert palace.import_file(str(tmp_path / "out.jsonl")).is_complete


# ---------------------------------------------------------------------------------------------------------- merging


@pytest.fixture
def two_machines(make_palace: Any, tmp_path: Path) -> tuple[Path, Path]:
    """Exports of two machines that share a session, each with a longer telling of another exchange, and a note."""
    paths = []
    for name, replies in (("one", ("Short.", "Long, and longer.")), ("two", ("Short. And more.", "Long"))):
        directory = tmp_path / f"transcripts-{name}"
        lines = "".join(turn(n, f"Question {n}?", replies[n]) for n in range(2))
        append(directory / "a.jsonl", lines + turn(7, f"Only on {name}?", "Yes.", session=f"own-{name}"))
        palace = make_palace(tmp_path / f"data-{name}")
        mine(palace, directory)
        note, _ = palace.remember(NOTE, tags=[name], now=NOW + len(name))
        if name == "two":
            palace.edit_note(note.note_id, NOTE + " Edited.", now=NOW + 50)
        palace.export(str(tmp_path / f"{name}.jsonl"))
        paths.append(tmp_path / f"{name}.jsonl")
    return paths[0], paths[1]


def test_stores_merge_without_duplicates_in_any_order(
    two_machines: tuple[Path, Path], make_palace: Any, tmp_path: Path
) -> None:
    one, two = map(str, two_machines)
    dumps = []
    for number, order in enumerate(((one, two), (two, one), (one, two, one, two))):
        palace = make_palace(tmp_path / f"merged-{number}")
        for path in order:
            palace.import_file(path)
        assert is_sound(palace)
        dumps.append(content(palace))
    assert dumps[0] == dumps[1] == dumps[2]
    assert texts(palace) == sorted(
        [
            ("Question 0?", "Short. And more."),
            ("Question 1?", "Long, and longer."),
            ("Only on one?", "Yes."),
            ("Only on two?", "Yes."),
            (NOTE + " Edited.", ""),
        ]
    )
    (note,) = palace.notes()
    assert (note.tags, note.created_at, note.edited_at) == (("one", "two"), NOW + 3, NOW + 50)
    question = palace.recall(RecallQuery(text="Question 0", now=NOW)).hits[0]
    places = palace.get(question.exchange_id).provenance
    assert len(places) == 2
    assert {Path(place.path).parent.name for place in places} == {"transcripts-one", "transcripts-two"}


def test_replies_that_went_different_ways_are_both_kept(make_palace: Any, tmp_path: Path) -> None:
    for name in ("Left.", "Right."):
        append(tmp_path / f"in-{name}" / "a.jsonl", turn(1, "Which way?", name))
        palace = make_palace(tmp_path / f"data-{name}")
        mine(palace, tmp_path / f"in-{name}")
        palace.export(str(tmp_path / name))
    for order in (("Left.", "Right."), ("Right.", "Left.", "Right.", "Left.")):
        merged = make_palace(tmp_path / f"merged-{len(order)}")
        for name in order:
            merged.import_file(str(tmp_path / name))
        assert texts(merged) == [("Which way?", "Left."), ("Which way?", "Right.")]
        assert is_sound(merged)


def test_an_import_into_a_store_of_the_own_keeps_what_the_own_files_tell(
    two_machines: tuple[Path, Path], make_palace: Any, tmp_path: Path
) -> None:
    palace = make_palace(tmp_path / "data-one")
    report = palace.import_file(str(two_machines[1]))
    assert report.changes == {
        "exchanges_added": 1, "exchanges_replaced": 1, "notes_added": 0, "notes_changed": 1, "forgotten": 0,
        "ignored": 0,
    }  # fmt: skip
    assert ("Question 0?", "Short. And more.") in texts(palace)
    assert ("Question 1?", "Long, and longer.") in texts(palace)


def test_an_older_export_of_the_own_brings_back_nothing_that_the_file_no_longer_holds(
    make_palace: Any, transcripts: Path, tmp_path: Path
) -> None:
    palace, path, file = make_palace(), tmp_path / "out.jsonl", transcripts / "a.jsonl"
    file.write_text(turn(1, "Which queue?", "MySQL.") + turn(2, "Sure?", "Yes.") + turn(3, "Why?", "Because, and so."))
    mine(palace, transcripts)
    palace.export(str(path))
    file.write_text(turn(1, "Which queue?", "Redis.") + turn(3, "Why?", "Because"))
    mine(palace, transcripts)
    palace.import_file(str(path))

    def standing() -> list[tuple[str, str]]:
        told = palace.timeline("s1")
        return sorted((one.user_text, one.reply_text) for one in told if not one.is_superseded)

    now = [("Which queue?", "Redis."), ("Why?", "Because")]
    assert standing() == now
    append(file, turn(4, "Done?", "Done."))
    mine(palace, transcripts)
    assert standing() == [("Done?", "Done."), *now]
    assert is_sound(palace)


# ------------------------------------------------------------------------------------------- files of other machines


def test_imported_files_are_never_taken_for_local_ones(
    full: Any, make_palace: Any, transcripts: Path, tmp_path: Path
) -> None:
    full.export(str(tmp_path / "out.jsonl"))
    mark = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])["machine"]
    other = make_palace(tmp_path / "other")
    other.import_file(str(tmp_path / "out.jsonl"))
    before = content(other)
    with other._store.read() as connection:
        assert sources.known_paths(connection) == []
        assert sources.find(connection, str(transcripts / "a.jsonl")) is None
    listed = other.sources()
    assert {source.machine for source in listed} == {mark}
    assert {Path(source.path).name for source in listed} == {"a.jsonl", "b.jsonl", "c.jsonl"}
    assert other.status().sources == {"imported": 3}
    for path in transcripts.iterdir():
        path.unlink()
    other._watching._roots = [str(transcripts)]
    assert other._watching.scan() == 0
    assert other._queue.pending() == 0, "nothing is looked for that was never here"
    assert content(other) == before


def test_the_very_file_mined_later_becomes_one_with_what_was_imported_of_it(
    make_palace: Any, transcripts: Path, tmp_path: Path
) -> None:
    first = make_palace()
    append(transcripts / "a.jsonl", "".join(turn(n, f"Question {n}?", "Yes.") for n in range(3)))
    mine(first, transcripts)
    first.export(str(tmp_path / "out.jsonl"))
    expected = content(first)
    for order in ("import first", "mine first"):
        other = make_palace(tmp_path / order)
        steps = [lambda p: p.import_file(str(tmp_path / "out.jsonl")), lambda p: mine(p, transcripts)]
        for step in steps if order == "import first" else reversed(steps):
            step(other)
        assert content(other) == expected
        assert [(source.path, source.machine) for source in other.sources()] == [(str(transcripts / "a.jsonl"), "")]
        other.import_file(str(tmp_path / "out.jsonl"))
        assert content(other) == expected, "a further import brings no second source"
        assert is_sound(other)


def test_a_shorter_local_file_does_not_take_the_place_of_a_longer_import(
    make_palace: Any, transcripts: Path, tmp_path: Path
) -> None:
    path = transcripts / "a.jsonl"
    question = user("u1", "How long?", at=0)
    append(path, question + reply("a1", "Long.", at=1) + reply("a2", "Longer.", at=2))
    mine(first := make_palace(), transcripts)
    first.export(str(tmp_path / "out.jsonl"))
    path.unlink()
    append(path, question + reply("a1", "Long.", at=1))
    other = make_palace(tmp_path / "other")
    other.import_file(str(tmp_path / "out.jsonl"))
    mine(other, transcripts)
    assert texts(other) == [("How long?", "Long.\n\nLonger.")]
    append(path, reply("a2", "Longer.", at=2) + reply("a3", "Longest.", at=3))
    mine(other, transcripts)
    assert texts(other) == [("How long?", "Long.\n\nLonger.\n\nLongest.")]
    assert [source.machine for source in other.sources()] == [""]
    assert is_sound(other)


# ------------------------------------------------------------------------------------------------------- tombstones


def test_what_was_forgotten_here_does_not_come_back(full: Any, make_palace: Any, tmp_path: Path) -> None:
    full.export(str(tmp_path / "out.jsonl"))
    other = make_palace(tmp_path / "other")
    other.import_file(str(tmp_path / "out.jsonl"))
    for text in ("And then?", "in two parts"):
        hit = other.recall(RecallQuery(text=text, now=NOW)).hits[0]
        other.forget(ForgetRequest(exchanges=(hit.exchange_id,)))
    assert not any("And then?" in pair or "in two parts" in pair[0] for pair in texts(other))
    before = content(other)
    assert other.import_file(str(tmp_path / "out.jsonl")).changes["forgotten"] == 2
    assert content(other) == before


def test_what_was_forgotten_there_leaves_this_store_too(full: Any, make_palace: Any, tmp_path: Path) -> None:
    full.export(str(tmp_path / "out.jsonl"))
    other = make_palace(tmp_path / "other")
    other.import_file(str(tmp_path / "out.jsonl"))
    for text in ("And then?", "in two parts"):
        hit = other.recall(RecallQuery(text=text, now=NOW)).hits[0]
        other.forget(ForgetRequest(exchanges=(hit.exchange_id,)))
    other.export(str(tmp_path / "less.jsonl"))
    removed: list[int] = []
    full.subscribe(lambda report: removed.append(report.drawers_removed))
    assert full.import_file(str(tmp_path / "less.jsonl")).changes["forgotten"] == 2
    assert content(full)["exchanges"] == content(other)["exchanges"]
    assert sum(removed) > 0
    assert b"And then?" not in full._store.path.read_bytes()
    assert is_sound(full)


def test_a_forgotten_note_can_be_remembered_anew(palace: Any) -> None:
    note, _ = palace.remember(NOTE, now=NOW)
    palace.forget(ForgetRequest(exchanges=(note.note_id,)))
    assert palace.notes() == ()
    again, is_new = palace.remember(NOTE, now=NOW)
    assert is_new
    assert again.note_id != note.note_id
    assert [found.text for found in palace.notes()] == [NOTE]


# ------------------------------------------------------------------------------------------------------ bad input


def test_malformed_lines_are_counted_and_named_and_the_rest_is_imported(
    full: Any, make_palace: Any, tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    full.export(str(path))
    lines = path.read_bytes().splitlines(keepends=True)
    bad = [
        b"{half a line\n",
        b'{"type":"exchange","key":"x:1"}\n',
        b'{"type":"poem","text":"x"}\n',
        b'["note"]\n',
        b"\xff\xfe\n",
        b'{"type":"note","key":"note:1","text":"x","createdAt":1e30}\n',
        b'{"type":"note","key":"note:1","text":"\\ud800","createdAt":1}\n',
        b"[" * 100_000 + b"\n",
    ]
    path.write_bytes(b"".join([lines[0], b"\n", *bad, *lines[1:]]))
    other = make_palace(tmp_path / "other")
    report = other.import_file(str(path))
    assert content(other) == content(full)
    assert report.malformed == len(bad)
    assert [(problem.line, problem.reason) for problem in report.problems] == [
        (3, "not_json"), (4, "bad_field"), (5, "unknown_type"), (6, "bad_field"), (7, "not_json"), (8, "bad_field"),
        (9, "not_json"), (10, "bad_field"),
    ]  # fmt: skip
    assert report.problems[0].byte_start == len(lines[0]) + 1


def test_only_the_first_problems_are_named(make_palace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(porting, "PROBLEMS_MAX", 2)
    palace = make_palace()
    palace.export(str(tmp_path / "out.jsonl"))
    append(tmp_path / "out.jsonl", "x\n" * 5)
    report = palace.import_file(str(tmp_path / "out.jsonl"))
    assert (report.malformed, len(report.problems)) == (5, 2)


def test_a_line_that_is_too_long_is_passed_over(
    full: Any, make_palace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.jsonl"
    full.export(str(path))
    lines = path.read_text().splitlines(keepends=True)
    monkeypatch.setattr(porting, "LINE_BYTES_MAX", max(map(len, lines)) + 100)
    path.write_text("".join([lines[0], '{"type":"' + "x" * 100_000 + '"}\n', *lines[1:]]))
    other = make_palace(tmp_path / "other")
    report = other.import_file(str(path))
    assert [(problem.line, problem.reason) for problem in report.problems] == [(2, "too_long")]
    assert content(other) == content(full)


def test_a_file_that_was_cut_off_says_so_and_gives_what_it_has(full: Any, make_palace: Any, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    full.export(str(path))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    other = make_palace(tmp_path / "other")
    report = other.import_file(str(path))
    assert not report.is_complete
    assert report.malformed == 1
    assert report.records["exchange"] > 0
    path.write_bytes(whole)
    assert other.import_file(str(path)).is_complete
    assert content(other) == content(full)


def test_an_export_of_a_newer_format_is_refused(make_palace: Any, tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl"
    path.write_text('{"type":"palace-export","version":2,"newThings":[]}\n{"type":"novel"}\n')
    palace = make_palace()
    with pytest.raises(RequestError, match="format 2, this version reads up to 1"):
        palace.import_file(str(path))


@pytest.mark.parametrize("text", ["", "\n", "{}\n", '{"type":"exchange"}\n', "SQLite format 3\0", '{"version":1}\n'])
def test_what_is_no_export_is_refused(make_palace: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(RequestError, match="no export of Palace"):
        make_palace().import_file(str(tmp_path / "x"))


def test_what_cannot_be_read_is_named(make_palace: Any, tmp_path: Path) -> None:
    palace = make_palace()
    os.mkfifo(tmp_path / "pipe")
    for name in ("absent", "pipe", ""):
        with pytest.raises(SourceError, match=str(tmp_path / name)):
            palace.import_file(str(tmp_path / name))


# ---------------------------------------------------------------------------------------- files, progress, interrupts


def test_the_file_is_private_and_takes_the_place_of_an_older_one_at_once(full: Any, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("older")
    path.chmod(0o644)
    full.export(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [found.name for found in tmp_path.glob("*.part")] == []
    assert path.read_text().startswith('{"type":"palace-export","version":1,')


def test_an_export_that_fails_or_is_cancelled_leaves_nothing_behind(full: Any, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("older")
    stop = threading.Event()
    stop.set()
    with pytest.raises(CancelledError):
        full.export(str(path), stop=stop)
    with pytest.raises(RequestError, match="cannot write"):
        full.export(str(tmp_path / "absent" / "out.jsonl"))
    with pytest.raises(RequestError, match="no regular file"):
        full.export(str(tmp_path))
    assert path.read_text() == "older"
    assert list(tmp_path.glob(".*")) == []


def test_an_interrupted_import_has_stored_whole_batches_and_can_be_run_again(
    full: Any, make_palace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(porting, "BATCH_LINES", 2)
    full.export(str(tmp_path / "out.jsonl"))
    expected = content(full)
    counts = []
    for limit in range(1, 8):
        other = make_palace(tmp_path / f"other-{limit}")
        stop = threading.Event()
        steps: list[int] = []

        def follow(progress: Any, stop: threading.Event = stop, steps: list[int] = steps, limit: int = limit) -> None:
            steps.append(progress.done)
            if len(steps) == limit:
                stop.set()

        with pytest.raises(CancelledError):
            other.import_file(str(tmp_path / "out.jsonl"), on_progress=follow, stop=stop)
        assert is_sound(other)
        counts.append(other.status().exchanges)
        assert other.import_file(str(tmp_path / "out.jsonl")).is_complete
        assert content(other) == expected
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_both_ways_tell_how_far_they_are(full: Any, make_palace: Any, tmp_path: Path) -> None:
    steps: list[Any] = []
    full.export(str(tmp_path / "out.jsonl"), on_progress=steps.append)
    total = steps[-1].total
    assert (steps[0].stage, steps[0].done, steps[-1].done, steps[-1].unit) == ("export", 0, total, "records")
    steps.clear()
    make_palace(tmp_path / "other").import_file(str(tmp_path / "out.jsonl"), on_progress=steps.append)
    assert (steps[-1].stage, steps[-1].done, steps[-1].total) == ("import", total, total)
