"""The benches of mining and of an idle daemon: their keys, and that they measure something."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import palace_daemon
from palace_daemon import bench

SAMPLES = Path(palace_daemon.__file__).parent / "samples"


def test_mining_is_measured_by_stage(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["mine", "--json", "--rounds", "1", "--no-vectors", "--path", str(SAMPLES)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in report["rows"]] == ["parse", "parse with redaction", "mine"]
    assert report["exchanges"] > 10
    assert all(row["exchangesPerSecond"] > 1 and row["mbPerSecond"] > 0 for row in report["rows"])


def test_a_directory_without_transcripts_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["mine", "--path", str(tmp_path)]) == 1
    assert str(tmp_path) in capsys.readouterr().out


@pytest.mark.model
@pytest.mark.timeout(180)
def test_an_idle_daemon_is_measured_listening_and_polling(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")  # the bench sets its own, and the test takes it back
    assert bench.main(["idle", "--json", "--files", "5", "--seconds", "1"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row["notifier"] for row in report["rows"]][1] == "polling"
    assert [row["exchanges"] for row in report["rows"]] == [5, 5]
    assert all(0 <= row["percentOfCore"] < 100 and row["rssMb"] > 10 for row in report["rows"])
