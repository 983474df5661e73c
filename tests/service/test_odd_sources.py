"""Sources that change under the reader's eyes, stand in odd places, or tell one session twice."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import threading
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from support.claude import append, turn

from palace_daemon.core.documents import decode_prefix
from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.opencode.tree import OpencodeTreeFormat
from palace_daemon.model import ForgetRequest, RecallQuery

DATA = Path(__file__).parents[1] / "data" / "transcripts"
TALK = turn(1, "Why do tides rise?", "The moon pulls.") + turn(2, "Which port?", "Port 8080.")
WaitUntil = Callable[..., Any]


def mine(palace: Any, *paths: Path) -> Any:
    return palace.mine([str(path) for path in paths], wait=True)


def standing(palace: Any) -> set[str]:
    return {
        one.user_text
        for session in palace.sessions()
        for one in palace.timeline(session.session_id)
        if not one.is_superseded
    }


def states(palace: Any) -> dict[str, tuple[str, str]]:
    return {Path(row.path).name: (row.state, row.error) for row in palace.sources()}


# ------------------------------------------------------------------------------------------------------- our own files


def test_our_own_database_is_never_opened_as_a_source(
    make_palace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "home"
    append(root / "a.jsonl", TALK)
    palace = make_palace(root / "data")
    mine(palace, root / "a.jsonl")
    os.link(root / "data" / "palace.db", root / "linked.db")
    touched: list[str] = []
    plain = os.open

    def watched(path: Any, *args: Any, **more: Any) -> int:
        touched.append(os.path.basename(os.fspath(path)) if not isinstance(path, int) else "")
        return plain(path, *args, **more)

    monkeypatch.setattr(os, "open", watched)
    report = mine(palace, root)
    assert report.failures == {}
    assert not {"palace.db", "palace.db-wal", "palace.db-shm", "linked.db"} & set(touched)


# ------------------------------------------------------------------------------------------------------------- folders


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copytree(DATA / "opencode" / "storage", tmp_path / "storage")
    old = time.time() - 3_600
    for path in (tmp_path / "storage").rglob("*"):
        os.utime(path, (old, old))
    return tmp_path / "storage"


def test_a_new_parser_version_reads_a_folder_session_again_and_loses_nothing(
    palace: Any, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine(palace, tree)
    before = standing(palace)
    assert before
    monkeypatch.setattr(OpencodeTreeFormat, "version", OpencodeTreeFormat.version + 1)
    mine(palace, tree)
    assert standing(palace) == before
    mine(palace, tree)
    assert standing(palace) == before


def test_a_folder_session_in_an_archive_is_read(palace: Any, tree: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for path in sorted(tree.rglob("*.json")):
            archive.write(path, path.relative_to(tree.parent))
    report = mine(palace, tmp_path / "x.zip")
    from_archive = standing(palace)
    assert report.exchanges_added > 0
    mine(palace, tree)
    assert standing(palace) == from_archive


def test_a_half_written_file_of_a_folder_session_holds_it_back_and_keeps_what_was_there(
    palace: Any, tree: Path
) -> None:
    mine(palace, tree)
    before = standing(palace)
    for path in [*sorted(tree.rglob("msg_*.json")), *sorted(tree.rglob("ses_*.json"))]:
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        mine(palace, tree)
        assert standing(palace) == before, path.name
        path.write_bytes(whole)
        mine(palace, tree)
        assert standing(palace) == before, path.name


# ----------------------------------------------------------------------------------------------------------- documents


def test_a_document_that_is_being_written_anew_keeps_its_exchanges(palace: Any, tmp_path: Path) -> None:
    source = next((DATA / "chatgpt-export").glob("*.json"))
    path = tmp_path / "conversations.json"
    whole = source.read_bytes()
    path.write_bytes(whole)
    mine(palace, path)
    before = standing(palace)
    assert before
    for size in (0, 1, 5, 30, 100, len(whole) // 2):
        path.write_bytes(whole[:size])
        mine(palace, tmp_path)
        assert standing(palace) == before, size
    path.write_bytes(whole)
    mine(palace, path)
    assert (standing(palace), states(palace)["conversations.json"][0]) == (before, "ok")


def test_a_long_string_that_the_head_cuts_takes_little_memory() -> None:
    head = b'{"title": "t", "text": "' + b"word " * 800_000
    tracemalloc.start()
    assert decode_prefix(head) == {"title": "t"}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * len(head)


# --------------------------------------------------------------------------------------------- one session told twice


def gemini(*messages: tuple[str, str, str], as_lines: bool) -> str:
    head = {
        "sessionId": "5e551000-0000-4000-8000-0000000000aa",
        "projectHash": "0" * 64,
        "startTime": "2026-02-02T10:00:00.000Z",
        "lastUpdated": "2026-02-02T10:00:00.000Z",
    }
    records = [
        {"id": name, "timestamp": f"2026-02-02T10:{number:02}:00.000Z", "type": kind, "content": text}
        for number, (name, kind, text) in enumerate(messages)
    ]
    if as_lines:
        return "".join(json.dumps(one) + "\n" for one in [head | {"kind": "main"}, *records])
    return json.dumps(head | {"messages": records})


ONE = (("m1", "user", "Where is the zebra?"), ("m2", "gemini", "In the yard."))
TWO = (*ONE, ("m7", "user", "And the heron?"), ("m8", "gemini", "At the pond."))


@pytest.mark.parametrize("order", [("json", "jsonl"), ("jsonl", "json")])
def test_what_only_a_copy_tells_is_kept(palace: Any, tmp_path: Path, order: tuple[str, str]) -> None:
    folder = tmp_path / "tmp" / "p" / "chats"
    folder.mkdir(parents=True)
    texts = {"json": gemini(*TWO, as_lines=False), "jsonl": gemini(*ONE, as_lines=True)}
    for ending in order:
        (folder / f"session-2026-02-02T10-00-5e551000.{ending}").write_text(texts[ending])
        mine(palace, folder)
    assert standing(palace) == {"Where is the zebra?", "And the heron?"}
    (folder / "session-2026-02-02T10-00-5e551000.jsonl").write_text("")
    mine(palace, folder)
    assert standing(palace) == {"Where is the zebra?", "And the heron?"}


def test_a_rewind_in_the_sessions_own_file_counts_although_a_copy_tells_the_turn(palace: Any, tmp_path: Path) -> None:
    folder = tmp_path / "tmp" / "p" / "chats"
    folder.mkdir(parents=True)
    (folder / "session-a.json").write_text(gemini(*TWO, as_lines=False))
    rewound = gemini(*TWO, as_lines=True) + json.dumps({"$rewindTo": "m7"}) + "\n"
    (folder / "session-a.jsonl").write_text(rewound)
    mine(palace, folder)
    assert standing(palace) == {"Where is the zebra?"}


# ----------------------------------------------------------------------------------------------------------- databases


def test_a_row_that_changes_in_place_is_noticed_while_the_conversation_grows(palace: Any, tmp_path: Path) -> None:
    path = tmp_path / "state.vscdb"
    connection = sqlite3.connect(path)
    connection.executescript((DATA / "cursor" / "state.vscdb.sql").read_text())
    name = "5e551000-0000-4000-8000-000000000301"
    headers = []
    for number in range(40):
        headers += [{"bubbleId": f"q{number}", "type": 1}, {"bubbleId": f"r{number}", "type": 2}]
        for bubble, kind, text in ((f"q{number}", 1, f"Question {number}?"), (f"r{number}", 2, "OLD " * 40_000)):
            value = json.dumps({"bubbleId": bubble, "type": kind, "text": text})
            connection.execute("INSERT INTO cursorDiskKV VALUES (?,?)", (f"bubbleId:{name}:{bubble}", value))

    def write(count: int) -> None:
        record = {"createdAt": 1_770_026_400_000, "lastUpdatedAt": 1_770_026_400_000 + count}
        value = json.dumps(record | {"fullConversationHeadersOnly": headers[:count]})
        connection.execute("INSERT INTO cursorDiskKV VALUES (?,?)", (f"composerData:{name}", value))
        connection.commit()

    write(78)
    mine(palace, path)
    value = json.dumps({"bubbleId": "r20", "type": 2, "text": "NEW " * 40_000})
    connection.execute("INSERT INTO cursorDiskKV VALUES (?,?)", (f"bubbleId:{name}:r20", value))
    write(80)
    connection.close()
    mine(palace, path)
    replies = {one.user_text: one.reply_text[:3] for one in palace.timeline(name) if not one.is_superseded}
    assert len(replies) == 40
    assert (replies["Question 20?"], replies["Question 21?"]) == ("NEW", "OLD")


def test_a_database_whose_tables_changed_is_a_failure_not_an_empty_history(palace: Any, tmp_path: Path) -> None:
    path = tmp_path / "state.vscdb"
    connection = sqlite3.connect(path)
    connection.executescript((DATA / "cursor" / "state.vscdb.sql").read_text())
    connection.commit()
    mine(palace, path)
    before = standing(palace)
    connection.execute("ALTER TABLE cursorDiskKV RENAME TO cursorKV2")
    connection.commit()
    connection.close()
    report = mine(palace, path)
    assert "tables" in report.failures[str(path)] or "can be read" in report.failures[str(path)]
    assert standing(palace) == before
    assert states(palace)["state.vscdb"][0] == "failed"


# ------------------------------------------------------------------------------------------------------------ archives


def zipped(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_one_damaged_member_keeps_no_other_back(palace: Any, tmp_path: Path, method: int) -> None:
    other = turn(1, "Who won?", "The reds.", session="s2")
    path = zipped(tmp_path / "x.zip", {"a.jsonl": (TALK * 20).encode(), "b.jsonl": other.encode()}, method)
    with zipfile.ZipFile(path) as archive:
        start = archive.getinfo("a.jsonl").header_offset + 30 + len("a.jsonl")
    data = bytearray(path.read_bytes())
    for offset in range(start + 12, start + 60):
        data[offset] ^= 0xFF
    path.write_bytes(data)
    report = mine(palace, path)
    assert "Who won?" in standing(palace)
    assert [name.rsplit("!/", 1)[1] for name in report.failures] == ["a.jsonl"]
    assert "unpacked" in next(iter(report.failures.values()))


def test_a_compressed_member_and_endings_in_capitals_are_read(palace: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    zipped(folder / "X.ZIP", {"a.jsonl.gz": gzip.compress(TALK.encode())})
    (folder / "UP.JSONL").write_text(turn(1, "Who won?", "The reds.", session="s2"))
    mine(palace, folder)
    assert standing(palace) == {"Why do tides rise?", "Which port?", "Who won?"}


def test_what_an_archive_told_is_forgotten_with_it(palace: Any, tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", {"a.jsonl": TALK.encode()})
    mine(palace, path)
    assert len(palace.forget(ForgetRequest(source=str(path))).items) == 2
    mine(palace, path)
    assert standing(palace) == set()


@pytest.mark.parametrize("name", ["takeout.zip.1", "export", "odd!name.zip"])
def test_an_archive_under_any_name_is_read(palace: Any, tmp_path: Path, name: str) -> None:
    mine(palace, zipped(tmp_path / name, {"a.jsonl": TALK.encode()}))
    assert standing(palace) == {"Why do tides rise?", "Which port?"}


def test_a_directory_that_is_called_like_an_archive_is_a_directory(palace: Any, tmp_path: Path) -> None:
    append(tmp_path / "backup.zip!" / "a.jsonl", TALK)
    assert mine(palace, tmp_path).exchanges_added == 2


# ------------------------------------------------------------------------------------------------------------- rescans


def test_a_rescan_looks_into_nothing_that_did_not_change(
    make_palace: Any, transcripts: Path, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(transcripts / "plain.jsonl", TALK)
    append(transcripts / "torn.jsonl", turn(1, "Torn?", "Yes.", session="s5") + '{"type": "user", "mess')
    (transcripts / "c.jsonl.zst").write_bytes(zstandard.compress(turn(1, "Who?", "I.", session="s2").encode()))
    zipped(transcripts / "x.zip", {"a.jsonl": turn(1, "What?", "That.", session="s3").encode()})
    (transcripts / "unknown.json").write_text('{"a": 1}\n')
    shutil.copyfile(next((DATA / "chatgpt-export").glob("*.json")), transcripts / "conversations.json")
    with (transcripts / "conversations.json").open("a") as file:
        file.write("\n")
    palace = make_palace(idle_tail_s=0.2)
    scan, put = palace._watching.scan, palace._queue.put
    queued: list[tuple[int, bool]] = []

    def note(path: str, mtime_ns: int, *, take_tail: bool = False) -> None:
        queued.append((threading.get_ident(), take_tail))
        put(path, mtime_ns, take_tail=take_tail)

    def queues_nothing() -> bool:
        wait_until(lambda: palace._queue.pending() == 0)
        queued.clear()
        scan()
        return threading.get_ident() not in dict(queued)

    monkeypatch.setattr(palace._queue, "put", note)
    palace.start()
    wait_until(lambda: len(standing(palace)) >= 5)
    wait_until(lambda: any(take_tail for _, take_tail in queued))  # or the torn line comes due between two looks
    wait_until(queues_nothing)
    with palace._store.read() as connection:
        before = connection.execute("SELECT generation FROM state").fetchone()
    assert queues_nothing()
    with palace._store.read() as connection:
        assert connection.execute("SELECT generation FROM state").fetchone() == before
    append(transcripts / "plain.jsonl", turn(3, "New?", "Yes."))
    scan()
    wait_until(lambda: "New?" in standing(palace))


def test_an_unmounted_volume_loses_nothing(make_palace: Any, transcripts: Path, wait_until: WaitUntil) -> None:
    append(transcripts / "a.jsonl", TALK)
    palace = make_palace()
    palace.start()
    wait_until(lambda: len(standing(palace)) == 2)
    away = transcripts.rename(transcripts.with_name("away"))
    palace._watching.scan()
    wait_until(lambda: palace._queue.pending() == 0)
    assert states(palace)["a.jsonl"][0] == "ok"
    away.rename(transcripts)
    (transcripts / "a.jsonl").unlink()
    palace._watching.scan()
    wait_until(lambda: states(palace)["a.jsonl"][0] == "gone")
    assert len(palace.recall(RecallQuery(text="tides", now=0)).hits) >= 1


def test_any_other_json_is_no_transcript() -> None:
    assert registry.detect("/x/unknown.json", b'{"a": 1, "b": [1, 2, {"c": "d"}]}') is None
