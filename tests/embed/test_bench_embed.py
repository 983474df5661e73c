"""The bench of the models: its keys, and that its figures are what their names say."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import palace_daemon
from palace_daemon import bench
from palace_daemon.bench import embed, embed_process, embed_rows
from palace_daemon.bench.embed_rows import REFERENCE, Job
from palace_daemon.embed.install import golden
from palace_daemon.errors import ConfigError

FP32, INT8 = embed.MODELS
KEYS = [
    "name",
    "kind",
    "tokensPerCpuSecond",
    "ratioToFp32",
    "textsPerSecond",
    "cosineToFp32Mean",
    "cosineToFp32Min",
    "worstBatchedVsAlone",
]


def by_name(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in report["rows"]}


def test_rows_have_the_agreed_keys_and_hold_the_required_bounds(models_dir: Path) -> None:
    report = embed.measure(golden()[0][:10], models_dir=models_dir, threads=2)
    reference, fp32, int8 = report["rows"]
    assert list(reference) == list(fp32) == list(int8) == KEYS
    assert [row["name"] for row in report["rows"]] == [REFERENCE, FP32, INT8]
    assert (reference["ratioToFp32"], reference["worstBatchedVsAlone"]) == (1, None)
    assert fp32["cosineToFp32Min"] == 1
    assert int8["cosineToFp32Mean"] >= 0.997
    assert int8["cosineToFp32Min"] < int8["cosineToFp32Mean"] < 1
    assert min(row["worstBatchedVsAlone"] for row in (fp32, int8)) >= 0.99999
    assert all(row["tokensPerCpuSecond"] > 100 and row["textsPerSecond"] > 0 for row in report["rows"])
    assert report["texts"] == 10
    assert report["fastestFp32"] in {REFERENCE, FP32}


@pytest.fixture(scope="module")
def everything(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A report of all ways over texts of very different lengths."""
    texts = [text for text in golden()[0] if len(text) < 400][:10]
    return embed.measure(
        texts, models_dir=models_dir, threads=2, with_others=True, graphs_dir=tmp_path_factory.mktemp("graphs")
    )


def test_every_way_that_is_to_be_compared_has_a_row(everything: dict[str, Any]) -> None:
    names = [row["name"] for row in everything["rows"]]
    assert names[0] == REFERENCE
    assert names[-2:] == [FP32, INT8]
    assert {f"fp32, batches of {size}" for size in (8, 16, 32, 64)} < set(names)
    assert embed_rows.PLAIN in names
    for scales in ("per tensor", "per channel"):
        for way in ("one text a call", "batches of 8"):
            assert f"int8 classic {scales}, {way}" in names
    assert len(names) == len(set(names)) == 12


def test_the_plain_graph_and_all_batches_of_fp32_compute_the_same(everything: dict[str, Any]) -> None:
    rows = [row for row in everything["rows"] if "fp32" in row["name"]]
    assert min(row["cosineToFp32Min"] for row in rows) >= 0.99999


def test_classic_int8_depends_on_its_company_and_ours_does_not(everything: dict[str, Any]) -> None:
    rows = by_name(everything)
    for scales in ("per tensor", "per channel"):
        assert rows[f"int8 classic {scales}, batches of 8"]["worstBatchedVsAlone"] < 0.999
        assert rows[f"int8 classic {scales}, one text a call"]["worstBatchedVsAlone"] is None
        assert rows[f"int8 classic {scales}, one text a call"]["cosineToFp32Mean"] < rows[INT8]["cosineToFp32Mean"]
    assert rows[INT8]["worstBatchedVsAlone"] == 1


def test_a_process_of_its_own_tells_how_long_it_loaded_and_what_it_took(models_dir: Path) -> None:
    base = embed_process.run(Job()._asdict(), models_dir, 1, ())
    loaded = embed_process.run(Job(model_id=INT8)._asdict(), models_dir, 1, ["caf\u00e9 \u6e2c\u8a66"])
    graph = str(models_dir / FP32 / "model.onnx")
    batched = embed_process.run(Job(graph=graph, batch_texts=2)._asdict(), models_dir, 1, ["one", "two", "three"])
    assert all(one["loadMs"] > 0 for one in (base, loaded, batched))
    assert 20 < base["peakMb"] < loaded["peakMb"] < batched["peakMb"]


def test_memory_is_told_where_it_is_asked_for(models_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "_LOADS", 1)
    report = embed.measure(["one text"], models_dir=models_dir, model_ids=[INT8], threads=1, with_memory=True)
    assert list(report["coldLoadMs"]) == [INT8]
    assert all(row["rssMb"] > report["rssBaseMb"] for row in report["rows"])


def test_texts_above_the_cap_are_left_out(models_dir: Path) -> None:
    assert embed.measure(["short", "tree " * 600], models_dir=models_dir)["texts"] == 1
    with pytest.raises(ConfigError, match="no text to embed"):
        embed.measure(["tree " * 600], models_dir=models_dir)


def test_the_command_reads_transcripts_prints_json_and_writes_both_files(
    models_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = Path(palace_daemon.__path__[0]) / "samples" / "codex"
    arguments = ["embed", "--json", "--brief", "--path", str(samples), "--texts", "4", "--out", str(tmp_path / "out")]
    assert bench.main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["texts"], report["source"]) == (4, "transcripts")
    assert json.loads((tmp_path / "out" / embed.RESULT_FILE).read_text(encoding="utf-8")) == report
    picture = ET.parse(tmp_path / "out" / embed.PICTURE_FILE)  # noqa: S314 - made right here
    assert picture.getroot().tag.endswith("svg")


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["embed", "--path", str(tmp_path)]) == 1
    assert "no text in" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="at least 1"):
        bench.main(["embed", "--texts", "0"])
