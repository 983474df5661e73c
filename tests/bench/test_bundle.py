"""Bare ``--bench``: three quick benches in one table, over what is packaged and installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palace_daemon import bench
from palace_daemon.bench import bundle, scale
from palace_daemon.bench.scale import offline, online
from palace_daemon.errors import ModelError

SMALL_SET = "\n".join(
    json.dumps(line)
    for line in (
        {
            "type": "session",
            "id": "s1",
            "date": "2025-03-01T09:30:00Z",
            "turns": [
                {"role": "user", "id": "s1:u", "text": "We moved the job queue into a database table."},
                {"role": "assistant", "id": "s1:a", "text": "Noted, the queue is a table now."},
            ],
        },
        {
            "type": "session",
            "id": "s2",
            "date": "2025-03-02T09:30:00Z",
            "turns": [
                {"role": "user", "id": "s2:u", "text": "The parrot learned to whistle."},
                {"role": "assistant", "id": "s2:a", "text": "Good for the parrot."},
            ],
        },
        {
            "type": "question",
            "id": "q1",
            "text": "Where does the queue live?",
            "now": "2025-04-01",
            "goldTurns": ["s1:u"],
        },
    )
)


@pytest.mark.model
@pytest.mark.timeout(300)
def test_the_three_benches_come_in_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tmp_path / "small.jsonl"
    small.write_text(SMALL_SET + "\n", encoding="utf-8")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")  # the bench sets its own, and the test takes it back
    monkeypatch.setattr(bundle, "QUESTIONS", small)
    monkeypatch.setattr(online, "STARTS", 1)
    monkeypatch.setattr(online, "ADD_ROUNDS", 2)
    monkeypatch.setattr(offline, "ADDED", 2)
    settings = scale.Settings(queries=8, real=10, clients=2, rebuild=False)
    report = bundle.measure(60, settings)
    assert report.keys() == {"machine", "recall", "embed", "scale", "seconds"}
    assert report["recall"]["n"] == 1
    assert json.loads(json.dumps(report)) == report
    progress = capsys.readouterr().err
    assert [line[:6] for line in progress.splitlines() if " of 3" in line] == ["1 of 3", "2 of 3", "3 of 3"]

    shown = bundle.table(report).splitlines()
    assert [line.split()[0] for line in shown[2:]] == ["recall"] * 2 + ["embed"] * 4 + ["scale,"] * 7
    assert "1 / 1 / 1" in shown[2]
    assert f"{report['scale']['rows'][0]['rssMb']:,.0f} MB" in "\n".join(shown)


def test_the_bundle_asks_the_packaged_development_questions() -> None:
    assert bundle.QUESTIONS.name == "dev.jsonl"
    assert bundle.QUESTIONS.is_file()


def test_a_missing_reference_model_leaves_one_line_and_no_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALACE_MODELS", str(tmp_path))
    assert bundle._embed() is None
    assert list(tmp_path.iterdir()) == []
    ((name, what, _, _),) = bundle._embed_lines(None)
    assert name == "embed"
    assert f"palace-daemon model install {bundle.FP32}" in what


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_without_a_model_it_says_what_to_run(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALACE_MODELS", str(tmp_path))
    with pytest.raises(ModelError) as caught:
        bench.main(words)
    assert "palace-daemon model install" in caught.value.hint


def test_help_still_lists_the_benches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        bench.main(["--help"])
    assert done.value.code == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in bench.BENCHES)


def test_json_may_stand_before_the_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--json", "mine", "--path", str(tmp_path)]) == 1
    assert str(tmp_path) in capsys.readouterr().out
