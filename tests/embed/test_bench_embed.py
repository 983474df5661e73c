"""The bench of the models: its keys, and that its figures are what their names say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import palace_daemon
from palace_daemon import bench
from palace_daemon.bench import embed
from palace_daemon.embed.install import golden

KEYS = [
    "name",
    "tokensPerCpuSecond",
    "ratioToFp32",
    "textsPerSecond",
    "cosineToFp32Mean",
    "cosineToFp32Min",
    "worstBatchedVsAlone",
]


def test_rows_have_the_agreed_keys_and_hold_the_required_bounds(models_dir: Path) -> None:
    report = embed.measure(golden()[0][:10], models_dir=models_dir, threads=2)
    fp32, int8 = report["rows"]
    assert list(fp32) == list(int8) == KEYS
    assert (fp32["name"], int8["name"]) == ("all-minilm-l6-v2-fp32", "all-minilm-l6-v2-int8")
    assert (fp32["ratioToFp32"], fp32["cosineToFp32Mean"], fp32["cosineToFp32Min"]) == (1, 1, 1)
    assert int8["cosineToFp32Mean"] >= 0.997
    assert int8["cosineToFp32Min"] < int8["cosineToFp32Mean"] < 1
    assert min(row["worstBatchedVsAlone"] for row in report["rows"]) >= 0.99999
    assert all(row["tokensPerCpuSecond"] > 100 and row["textsPerSecond"] > 0 for row in report["rows"])
    assert report["texts"] == 10


def test_texts_above_the_cap_are_left_out(models_dir: Path) -> None:
    assert embed.measure(["short", "tree " * 600], models_dir=models_dir)["texts"] == 1


def test_the_command_reads_transcripts_and_prints_json(
    models_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = Path(palace_daemon.__path__[0]) / "samples"
    assert bench.main(["embed", "--json", "--path", str(samples), "--texts", "4"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["texts"] == 4
    assert bench.main(["embed", "--path", str(tmp_path)]) == 1
    assert "no text in" in capsys.readouterr().out


def test_paragraphs_are_joined_and_nothing_is_lost() -> None:
    text = "\n\n".join(f"paragraph {i} " + "x" * (i * 40 % 500) for i in range(30))
    joined = list(embed._joined(text))
    assert "\n\n".join(joined).split() == text.split()
    assert max(map(len, joined)) <= embed.PARAGRAPH_CHARS + 2
    assert len(joined) < 20
