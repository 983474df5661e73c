"""The bench that says where a model's time goes: sums, parts, and the real model."""

from __future__ import annotations

import json

import pytest

from palace_daemon import bench, places
from palace_daemon.bench import profile
from palace_daemon.embed.profiling import GraphTimes, NodeTime
from palace_daemon.errors import ConfigError

MODELS = places.models_dir()
"""Read when the tests are collected, before any fixture replaces HOME."""


def node(operator: str, took_us: float, multiplications: int = 0) -> NodeTime:
    return NodeTime(operator=operator, took_us=took_us, multiplications=multiplications)


TIMES = GraphTimes(
    nodes=(
        node("MatMulIntegerToFloat", 600.0, 30_000_000),
        node("MultiHeadAttention", 200.0),
        node("Mul", 50.0),
        node("Add", 50.0),
        node("Reshape", 100.0),
    ),
    run_us=1_250.0,
)


def test_times_add_up_by_part_and_by_operator() -> None:
    found = profile.summary(120, TIMES)
    assert (found["tokens"], found["nodes"], found["nodesMs"], found["cpuMs"]) == (120, 5, 1.0, 1.25)
    assert [(entry["part"], entry["nodes"], entry["share"]) for entry in found["parts"]] == [
        ("integer products", 1, 0.6),
        ("attention", 1, 0.2),
        ("scales, biases, residuals", 2, 0.1),
        ("rest", 1, 0.1),
    ]
    assert [entry["operator"] for entry in found["operators"]][:2] == ["MatMulIntegerToFloat", "MultiHeadAttention"]
    assert found["productGops"] == 100.0  # 60 million operations in 600 microseconds


def test_no_operator_belongs_to_two_parts() -> None:
    named = [operator for operators in profile.PARTS.values() for operator in operators]
    assert len(named) == len(set(named))
    assert profile.part_of("Unheard") == profile.REST


def test_the_table_has_a_column_for_each_length_and_leaves_out_what_is_missing() -> None:
    without_products = profile.summary(60, GraphTimes(nodes=(node("Add", 10.0),), run_us=12.0))
    report = {"model": "m", "runs": 3, "machine": "cpu", "texts": [without_products, profile.summary(120, TIMES)]}
    lines = profile.table(report).splitlines()
    assert lines[1].split() == ["tokens", "60", "120"]
    assert next(line for line in lines if "scales" in line).split()[-2:] == ["100.0%", "10.0%"]
    assert not any("gelu" in line for line in lines)


@pytest.mark.model
@pytest.mark.timeout(300)
def test_the_bench_profiles_the_default_model(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALACE_MODELS", str(MODELS))
    assert bench.main(["profile", "--json", "--tokens", "12", "30", "--runs", "2"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [text["tokens"] for text in report["texts"]] == [12, 30]
    for text in report["texts"]:
        shares = {entry["part"]: entry["share"] for entry in text["parts"]}
        assert sum(shares.values()) == pytest.approx(1.0, abs=0.01)
        assert max(shares, key=lambda part: shares[part]) == "integer products"
        assert {"attention", "quantise", "gelu", "norms"} <= set(shares)
        assert text["productGops"] > 1


@pytest.mark.parametrize("arguments", [["--runs", "0"], ["--tokens", "2"], ["--tokens", "60", "513"]])
def test_numbers_out_of_range_are_refused(arguments: list[str]) -> None:
    with pytest.raises(ConfigError):
        bench.main(["profile", *arguments])
