"""Sources that are no plain files: compressed ones, members of archives."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zstandard
from support.claude import append, turn

from palace_daemon.model import RecallQuery
from palace_daemon.service import material as materials
from palace_daemon.service.archives import Archives

TALK = turn(1, "Why do tides rise?", "The moon pulls.") + turn(2, "Which port?", "Port 8080.")


def mine(palace: Any, *paths: Path) -> Any:
    return palace.mine([str(path) for path in paths], wait=True)


def texts(palace: Any, query: str) -> list[str]:
    return [hit.text for hit in palace.recall(RecallQuery(text=query, now=0)).hits]


def packed(kind: str, text: str) -> bytes:
    return gzip.compress(text.encode()) if kind == "gz" else zstandard.compress(text.encode())


def zipped(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


@pytest.mark.parametrize("kind", ["zst", "gz"])
def test_a_compressed_transcript_is_read_once(palace: Any, transcripts: Path, kind: str) -> None:
    path = transcripts / f"a.jsonl.{kind}"
    path.write_bytes(packed(kind, TALK))
    assert mine(palace, transcripts).exchanges_added == 2
    assert palace.recall(RecallQuery(text="moon tides", now=0)).hits[0].path == str(path)
    report = mine(palace, transcripts)
    assert (report.exchanges_added, report.lines_read) == (0, 0)


@pytest.mark.parametrize("kind", ["zst", "gz"])
def test_a_compressed_file_that_was_written_anew_is_read_anew(palace: Any, transcripts: Path, kind: str) -> None:
    path = transcripts / f"a.jsonl.{kind}"
    path.write_bytes(packed(kind, TALK))
    mine(palace, transcripts)
    path.write_bytes(packed(kind, TALK + turn(3, "Who won?", "The reds.")))
    assert mine(palace, transcripts).exchanges_added == 1
    assert len(texts(palace, "tides port won")) == 3


def test_where_both_lie_the_uncompressed_file_is_read(palace: Any, transcripts: Path) -> None:
    (transcripts / "a.jsonl.zst").write_bytes(packed("zst", TALK))
    append(transcripts / "a.jsonl", TALK)
    assert mine(palace, transcripts).exchanges_added == 2
    states = {Path(row.path).name: (row.state, row.error) for row in palace.sources()}
    assert states["a.jsonl"][0] == "ok"
    assert states["a.jsonl.zst"] == ("skipped", "its uncompressed file is read: a.jsonl")


def test_a_transcript_that_is_compressed_later_gives_nothing_new(palace: Any, transcripts: Path) -> None:
    append(transcripts / "a.jsonl", TALK)
    mine(palace, transcripts)
    (transcripts / "a.jsonl").unlink()
    (transcripts / "a.jsonl.zst").write_bytes(packed("zst", TALK))
    report = mine(palace, transcripts)
    assert (report.exchanges_added, report.exchanges_replaced) == (0, 0)
    assert len(texts(palace, "tides port")) == 2


@pytest.mark.parametrize("kind", ["zst", "gz"])
def test_a_compressed_file_that_is_cut_off_is_an_error_with_its_reason(
    palace: Any, transcripts: Path, kind: str
) -> None:
    path = transcripts / f"a.jsonl.{kind}"
    path.write_bytes(packed(kind, "".join(turn(n, f"Q{n}?", f"A{n * 7919}.") for n in range(200)))[:-40])
    append(transcripts / "b.jsonl", turn(1, "Other?", "Fine.", session="s2"))
    report = mine(palace, transcripts)
    if report.failures:
        assert "cannot be unpacked" in report.failures[str(path)]
    assert texts(palace, "other")


def test_an_archive_is_read_member_by_member(palace: Any, tmp_path: Path) -> None:
    other = turn(1, "Who won?", "The reds.", session="s2")
    path = zipped(tmp_path / "x.zip", {"p/a.jsonl": TALK, "p/b.jsonl": other, "note.jsonl": "none\n", "i.png": "x"})
    report = mine(palace, path)
    assert (report.files, report.sessions, report.exchanges_added, report.failures) == (1, 2, 3, {})
    hit = palace.recall(RecallQuery(text="who won", now=0)).hits[0]
    assert hit.path == f"{path}!/p/b.jsonl"
    assert mine(palace, path).exchanges_added == 0


def test_an_archive_without_a_transcript_or_in_pieces_says_so(palace: Any, tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", {"note.txt": "nothing"})
    assert "no transcript" in mine(palace, path).failures[str(path)]
    path.write_bytes(zipped(tmp_path / "y.zip", {"a.jsonl": TALK}).read_bytes()[:-30])
    assert "archive cannot be read" in mine(palace, path).failures[str(path)]


def test_what_lies_beside_a_source_is_read_on_disk_and_in_archives(tmp_path: Path) -> None:
    (tmp_path / "users.json").write_text("[1]")
    (tmp_path / "sub").mkdir()
    archives = Archives()
    beside = materials.FilesBeside(archives)
    assert beside.read(str(tmp_path / "users.json")) == b"[1]"
    assert beside.read(str(tmp_path / "none.json")) is None
    assert beside.read(str(tmp_path / "sub")) is None
    assert beside.names(str(tmp_path)) == ("sub", "users.json")
    path = zipped(tmp_path / "x.zip", {"users.json": "[2]", "general/a.json": "[]", "general/b.json": "[]"})
    assert beside.read(f"{path}!/users.json") == b"[2]"
    assert beside.read(f"{path}!/none.json") is None
    assert beside.names(f"{path}!/general") == ("a.json", "b.json")
    assert beside.names(f"{path}!/") == ("general", "users.json")
    archives.close()


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/a/b.jsonl", ("/a/b.jsonl", "")),
        ("/a/x.zip!/p/a.jsonl", ("/a/x.zip", "p/a.jsonl")),
        ("/a/state.vscdb!/0c1d", ("/a/state.vscdb", "0c1d")),
        ("/odd!/b.jsonl", ("/odd!/b.jsonl", "")),
        ("/a/x.ZIP!/b!/c", ("/a/x.ZIP", "b!/c")),
    ],
)
def test_a_path_is_divided_where_its_container_ends(path: str, parts: tuple[str, str]) -> None:
    assert materials.split(path) == parts
