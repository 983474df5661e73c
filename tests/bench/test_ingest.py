"""The bench of ingest: an archive of new exchanges, a daemon that takes it in, and figures of what was seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import palace_daemon
from palace_daemon import bench
from palace_daemon.bench import ingest
from palace_daemon.bench.ingest import archive, figures, stages
from palace_daemon.bench.ingest.online import Found, Restart, Sample, Told
from palace_daemon.bench.scale.clients import Answer
from palace_daemon.errors import ConfigError
from palace_daemon.model import Exchange

SAMPLES = Path(palace_daemon.__file__).parent / "samples"


@pytest.fixture(scope="module")
def origins() -> archive.Origins:
    return archive.read(SAMPLES)


def told_by(folder: Path) -> list[Exchange]:
    """Return the exchanges in the order in which they were said, which all copies share."""
    files = [path for path in folder.rglob("*.jsonl") if path.is_file()]
    told = [one for file in files for one in archive.exchanges_of(str(file), file.read_bytes(), str).values()]
    return sorted(told, key=lambda one: (one.started_at or 0, one.line_start))


@pytest.fixture(scope="module")
def copies(origins: archive.Origins, tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Exchange]]:
    """The exchanges of two whole copies and some of a third."""
    folder = tmp_path_factory.mktemp("archive")
    size = sum(path.stat().st_size for path in SAMPLES.rglob("*.jsonl"))
    archive.write(origins, folder, int(size * 2.2))
    return {number: told_by(folder / f"copy-{number:05d}") for number in range(3)}


def test_a_copy_has_the_exchanges_of_the_transcripts(
    origins: archive.Origins, copies: dict[int, list[Exchange]]
) -> None:
    assert origins.exchanges > 10
    assert [len(copies[number]) for number in (0, 1)] == [origins.exchanges] * 2
    assert 0 < len(copies[2]) < origins.exchanges


def test_no_copy_shares_an_exchange_or_a_session_with_another_or_with_the_transcripts(
    copies: dict[int, list[Exchange]],
) -> None:
    all_of = {-1: told_by(SAMPLES), **copies}
    keys = [{one.key for one in told} for told in all_of.values()]
    sessions = [{one.session_id for one in told} for told in all_of.values()]
    assert len(set().union(*keys)) == sum(map(len, keys))
    assert len(set().union(*sessions)) == sum(map(len, sessions))


def test_a_copy_has_other_words_but_most_of_them_are_the_same(copies: dict[int, list[Exchange]]) -> None:
    pairs = list(zip(copies[0], copies[1], strict=True))
    differing = [one for one, other in pairs if one.reply_text != other.reply_text]
    assert len(differing) > 0.8 * len(pairs)
    words = [(one.reply_text.split(), other.reply_text.split()) for one, other in pairs]
    same = sum(a == b for left, right in words for a, b in zip(left, right, strict=False))
    assert 0.5 < same / sum(len(left) for left, _ in words) < 0.95


def test_each_copy_lies_a_day_before_the_last(copies: dict[int, list[Exchange]]) -> None:
    day_ms = 86_400_000
    pairs = zip(copies[0], copies[1], strict=True)
    assert {(one.started_at or 0) - (other.started_at or 0) for one, other in pairs} == {day_ms}


def test_ids_are_renamed_alike_within_a_copy_and_other_values_are_kept() -> None:
    copy = archive.Copy(7, ())
    uuid = "01ae8323-3017-40c5-a344-05b54fc9e216"
    record = {"uuid": uuid, "parentUuid": None, "modelId": "m-1", "toolUseID": "toolu_1", "sourceToolUseID": "toolu_1"}
    line = json.loads(copy.line(record | {"note": f"after {uuid}", "timestamp": 1_770_000_000_000}))
    assert line["uuid"] != uuid
    assert line["note"] == f"after {line['uuid']}"
    assert line["toolUseID"] == line["sourceToolUseID"] == "toolu_1-00007"
    assert (line["parentUuid"], line["modelId"]) == (None, "m-1")
    assert line["timestamp"] == 1_770_000_000_000 - 8 * 86_400_000
    assert copy.path(f"a/{uuid}.jsonl") == f"a/{line['uuid']}.jsonl"
    assert copy.path("a/notes.jsonl") == "a/notes-00007.jsonl"


def test_a_line_that_is_no_json_stays_as_it_is() -> None:
    assert archive.Copy(1, ()).line(b'{"half') == b'{"half\n'


def sample(at_s: float, mb: float, exchanges: int, *, texts: int = 1_000, vectors: int = 0) -> Sample:
    return Sample(
        at_s=at_s,
        read_bytes=int(mb * 1e6),
        exchanges=exchanges,
        texts=texts,
        vectors=vectors,
        database_bytes=5_000_000,
        wal_bytes=int(mb * 1e5),
        rss_mb=100.0 + at_s,
        texts_eta_s=45.0,
        asked=Answer(ms=2.0 + at_s, daemon_ms=1.0, is_found=True, in_scope=exchanges, digest=b""),
    )


WORDS = [sample(3.0, 6.0, 60), sample(6.0, 9.0, 90), sample(9.0, 10.0, 100, vectors=100)]


def test_rates_are_told_for_thirds_of_the_time() -> None:
    assert figures.rates(WORDS, lambda one: one.read_bytes / 1e6) == {
        "all": 1.11,
        "firstThird": 2.0,
        "lastThird": 0.33,
        "lastToFirst": 0.17,
    }


def test_time_told_is_held_against_what_it_came_to() -> None:
    told = [Told(0.5, 1, 10, 20.0), Told(3.0, 5, 10, 3.0), Told(6.5, 9, 10, 5.0), Told(9.0, 10, 10, 0.0)]
    rows = figures.etas(told, WORDS, 10_000_000)
    assert [(row["share"], row["toldS"], row["wasS"], row["toldToWas"]) for row in rows] == [
        (0.10, 3.0, 6.0, 0.5),
        (0.25, 3.0, 6.0, 0.5),
        (0.50, 3.0, 6.0, 0.5),
        (0.75, 5.0, 2.5, 2.0),
    ]


def test_vectors_that_are_left_are_extrapolated_from_the_sample() -> None:
    found = Found(words=WORDS, vectors=[sample(9.0, 10.0, 100, vectors=100), sample(19.0, 10.0, 100, vectors=300)])
    told = figures.vectors(found, 10_000_000)
    assert (told["sample"], told["left"], told["isExtrapolated"]) == (200, 900, True)
    assert (told["textsPerSecond"]["all"], told["secondsLeft"], told["secondsInAll"]) == (20.0, 45.0, 54.0)
    assert told["etaToldToIt"] == 1.0
    assert told["gbHours"] == 1.5


def test_what_a_restart_did_twice_is_what_was_added_beyond_what_is_there() -> None:
    stop = Restart(read_bytes=5_000_000, exchanges=50, vectors=40, down_s=1.0)
    end = [sample(9.0, 10.0, 100, vectors=100)]
    found = Found(words=WORDS, vectors=end, restart=stop, added=53, vectors_added=60)
    told = figures.restart(found)
    assert told is not None
    assert (told["exchangesAfter"], told["exchangesAddedAgain"], told["vectorsAddedAgain"]) == (50, 3, 0)


def test_samples_are_thinned_from_all_over() -> None:
    many = [sample(float(number), 1.0, 1) for number in range(1_000)]
    kept = figures.thinned(many)
    assert len(kept) == figures.POINTS_MAX
    assert (kept[0].at_s, kept[-1].at_s) == (0.0, 999.0)


@pytest.mark.model
def test_the_stages_of_mining_share_its_cpu_time() -> None:
    found = stages.measure_here([str(path) for path in sorted(SAMPLES.rglob("*.jsonl"))], 8)
    names = [row["stage"] for row in found["stages"]]
    assert names[-1] == stages.EMBED
    assert {stages.PARSE, stages.REDACT, stages.CHUNK, stages.COUNT, stages.WORDS, stages.ROWS} < set(names)
    assert sum(row["share"] for row in found["stages"]) == pytest.approx(1.0, abs=0.01)
    assert all(row["cpuSeconds"] >= 0 for row in found["stages"])
    assert found["exchanges"] > 10
    assert 0 < found["embedded"] <= 8


@pytest.mark.model
@pytest.mark.timeout(180)
def test_an_archive_is_taken_in_and_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")  # the bench sets its own, and the test takes it back
    arguments = ["--path", str(SAMPLES), "--gb", "0.0004", "--vectors", "4", "--out", str(tmp_path)]
    assert bench.main(["ingest", "--no-profile", *arguments]) == 0
    shown = capsys.readouterr().out
    found: dict[str, Any] = json.loads((tmp_path / ingest.JSON_FILE).read_text())
    assert "all recallable by words" in shown
    assert "done twice: exchanges" in shown
    assert found["archiveMb"] >= 0.4
    assert found["exchanges"] > 50
    assert found["samples"][-1]["mb"] == found["archiveMb"]
    assert found["recallWhileMining"]["n"] >= 2
    assert found["rssPeakMb"] > 30
    assert found["databaseMb"] > 0.1
    assert found["vectors"]["sample"] + found["vectors"]["whileMining"] > 0
    stop = found["restart"]
    assert stop["exchangesBefore"] + stop["exchangesAfter"] == found["exchanges"]
    assert (stop["exchangesAddedAgain"], stop["vectorsAddedAgain"]) == (0, 0)


def test_sizes_below_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="--gb"):
        bench.main(["ingest", "--path", str(SAMPLES), "--gb", "0"])


@pytest.mark.model
def test_a_folder_without_transcripts_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["ingest", "--path", str(tmp_path)]) == 1
    assert str(tmp_path) in capsys.readouterr().out
