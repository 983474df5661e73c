"""The comparison of installed models, with small ones."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from support.tiny_bert import SHAPE, random_tensors, write_model

from palace_daemon import bench
from palace_daemon.bench import models
from palace_daemon.embed import install as installer
from palace_daemon.embed import registry
from palace_daemon.embed.added import install_from
from palace_daemon.embed.folder import Wishes
from palace_daemon.errors import ConfigError, ModelError

TOPICS = ("queue", "cache", "login", "index", "backup", "parser", "search", "release")


def write_set(path: Path) -> Path:
    """Write eight sessions of one exchange, and a question about each, as ``docs/bench-format.md`` says."""
    lines: list[dict[str, object]] = [{"type": "haystack", "id": "shelves"}]
    for day, topic in enumerate(TOPICS, 1):
        date = f"2025-03-{day:02d}T09:00:00Z"
        turns = [
            {"role": role, "id": f"{topic}-{role}", "date": date, "text": text}
            for role, text in (("user", f"where does the {topic} go"), ("assistant", f"the {topic} is on {day * 37}"))
        ]
        lines.append({"type": "session", "id": topic, "date": date, "turns": turns})
    lines += [
        {
            "type": "question",
            "id": f"q-{topic}",
            "now": "2025-04-01T09:00:00Z",
            "kind": "where",
            "text": f"number of {topic[:3]}",
            "gold": [topic],
            "goldTurns": [f"{topic}-user", f"{topic}-assistant"],
        }
        for topic in TOPICS
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def models_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two models in a folder of their own, of other weights and poolings."""
    texts = sorted(installer.golden_texts(), key=len)[:4]
    monkeypatch.setattr(installer, "golden_texts", lambda: texts)
    folder = tmp_path / "models"
    install_from(write_model(tmp_path / "one"), folder)
    install_from(
        write_model(tmp_path / "two", tensors=random_tensors(SHAPE, seed=9)),
        folder,
        wishes=Wishes(pooling="cls", passage_prefix="passage: ", precision="fp32"),
    )
    monkeypatch.setenv("PALACE_MODELS", str(folder))
    return folder


def test_models_are_compared_question_by_question(
    models_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_set(tmp_path / "set.jsonl")
    command = ["models", "--set", "jsonl-exchange", "--data", str(data), "--texts", "3"]
    assert bench.main([*command, "--limit", "6", "--cache", str(tmp_path / "cache"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["comparedWith"] == "one-int8"
    assert [one["model"] for one in report["models"]] == ["one-int8", "two-fp32"]
    assert all(one["drawersPerSecond"] > 0 and one["dim"] == 32 for one in report["models"])
    (found,) = report["sets"]
    assert (found["set"], found["unit"], found["n"]) == ("jsonl-exchange", "exchange", 6)
    first, second = found["rows"]
    assert "moved" not in first
    moved = second["moved"]
    assert moved["n"] == 6
    ranks = {one["questionId"]: (one["before"] or 11, one["after"] or 11) for one in [*moved["up"], *moved["down"]]}
    assert all(ranks[one["questionId"]][0] > ranks[one["questionId"]][1] for one in moved["up"])
    assert all(ranks[one["questionId"]][0] < ranks[one["questionId"]][1] for one in moved["down"])
    gained, lost = moved["paired"]["1"]["gained"], moved["paired"]["1"]["lost"]
    assert second["recallAny"]["1"]["count"] == first["recallAny"]["1"]["count"] + gained - lost
    assert f"{second['mrr']:.3f}" in models.table(report)


def test_a_table_names_what_moved() -> None:
    paired = {k: {"gained": 1, "lost": 2, "pValue": 1.0} for k in ("1", "3", "5", "10")}
    counts = {k: {"count": 4, "share": 0.5} for k in ("1", "3", "5", "10")}
    down = [{"haystackId": "h", "questionId": f"q{number}", "before": number, "after": None} for number in range(1, 8)]
    up = [{"haystackId": "h", "questionId": "up", "before": 3, "after": 1}]
    rows = [
        {"model": "m", "recallAny": counts, "mrr": 0.5},
        {"model": "n", "recallAny": counts, "mrr": 0.5, "moved": {"up": up, "down": down, "paired": paired}},
    ]
    report = {
        "comparedWith": "m",
        "models": [{"model": "m", "dim": 3, "maxTokens": 4, "drawersPerSecond": 5.0}],
        "speedTexts": 2,
        "machine": "here",
        "sets": [{"set": "s", "unit": "session", "n": 8, "drawers": 1_234, "rows": rows}],
    }
    shown = models.table(report)
    assert "s: 8 questions, a hit is the right session, 1,234 drawers; questions moved against m:" in shown
    assert "  n up: up 3 to 1" in shown
    assert "  n down: q1 1 to beyond 10, q2 2 to beyond 10" in shown
    assert "q5 5 to beyond 10 and 2 more" in shown
    assert "+1 -2, p = 1" in shown


def test_the_default_model_is_what_others_are_compared_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(registry, "installed", lambda _folder: ("a-int8", registry.DEFAULT_MODEL, "z-int8"))
    assert models.chosen_models([], tmp_path) == [registry.DEFAULT_MODEL, "a-int8", "z-int8"]
    assert models.chosen_models(["z-int8", "a-int8"], tmp_path) == ["a-int8", "z-int8"]


def test_what_is_not_there_is_named(tmp_path: Path, models_dir: Path) -> None:
    with pytest.raises(ModelError, match="no model is installed in"):
        models.chosen_models([], tmp_path / "empty")
    with pytest.raises(ModelError, match="unknown model 'three'"):
        models.chosen_models(["three"], models_dir)
    with pytest.raises(ModelError, match=f"{registry.DEFAULT_MODEL} is not installed"):
        models.chosen_models([registry.DEFAULT_MODEL], models_dir)


def test_each_set_needs_its_data(tmp_path: Path) -> None:
    assert [one.reader.name for one in models.chosen_sets(["locomo", "beam"], [tmp_path, tmp_path])] == [
        *("locomo", "beam"),
    ]
    with pytest.raises(ConfigError, match=r"2 sets and 1 places of data.*--set NAME --data PATH"):
        models.chosen_sets(["locomo", "beam"], [tmp_path])
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    models.add_arguments(parser)
    with pytest.raises(ConfigError, match="at least 1"):
        models.run(parser.parse_args(["--texts", "0"]))
