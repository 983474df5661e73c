"""The redaction bench: what it counts, and that it says which libraries it could not ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.claude import append, turn

from palace_daemon.bench import main, redaction
from palace_daemon.bench.redaction_engines import Engine, Finding
from palace_daemon.bench.redaction_samples import Positive, negatives, positives


def test_the_rules_find_every_made_up_secret_and_nothing_else() -> None:
    report = redaction.measure({"words": ["a word and password=hunter2 in a text"] * 3})
    row = report["rows"][0]
    assert (row["name"], row["hits"], row["whole"], row["falsePositives"]) == (
        "palace",
        len(positives()),
        len(positives()),
        0,
    )
    assert row["findingsByRule"] == {"words": {"password": 3}}
    assert row["negatives"] == len(negatives()) >= 300
    assert len(positives()) >= 150
    assert {one["name"] for one in report["rows"]} | set(report["notInstalled"]) == {
        "palace",
        "detect-secrets",
        "pybetterleaks",
    }


@pytest.mark.parametrize(
    ("found", "hits", "whole"),
    [("hunter2hunter2", 1, 1), ("hunter2", 1, 1), ("hunter2h", 1, 1), ("x=", 1, 0), (None, 0, 0)],
)
def test_a_hit_that_leaves_a_part_of_the_secret_is_not_whole(found: str | None, hits: int, whole: int) -> None:
    engine = Engine("one", "1", lambda text: [] if found is None else [Finding("rule", found)])
    score = redaction._score(engine, [Positive("env", "x=hunter2hunter2", "hunter2hunter2")], ["x=1", "clean"])
    assert (score["hits"], score["whole"]) == (hits, whole)
    assert score["falsePositivesByRule"] == ({} if found is None else {"rule": 2})


def test_lines_are_drawn_the_same_each_time() -> None:
    assert positives() == positives()
    assert positives(7) != positives(8)
    assert negatives() == negatives()


def test_the_command_reads_what_is_mined_and_the_files_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path / "a.jsonl", turn(1, "password=hunter2", "kept"))
    (tmp_path / "b.bin").write_bytes(b"\0password=hunter3")
    monkeypatch.setattr(redaction, "_code", lambda: iter(["x = 1"]))
    assert main(["redaction", "--path", str(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["texts"]["mined"]["texts"] == 2
    assert report["rows"][0]["findingsByRule"]["mined"] == {"password": 1}
    assert report["rows"][0]["findingsByRule"]["files"] == {"password": 1}
    assert main(["redaction", "--megabytes", "0.001"]) == 0
    assert "false positives" in capsys.readouterr().out
