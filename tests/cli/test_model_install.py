"""``model install --from DIR`` on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.tiny_bert import write_model

from palace_daemon.embed import install as installer
from palace_daemon.embed import registry

Cli = Callable[..., Any]


@pytest.fixture
def models_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    texts = sorted(installer.golden_texts(), key=len)[:4]
    monkeypatch.setattr(installer, "golden_texts", lambda: texts)
    monkeypatch.setenv("PALACE_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


def test_a_folder_becomes_a_model_that_is_listed(cli: Cli, models_dir: Path, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny", pooling=None)
    refused = cli("model", "install", "--from", str(folder))
    assert refused.code == 3
    assert "say --pooling mean or --pooling cls" in refused.err
    words = ("--pooling", "cls", "--query-prefix", "query: ", "--passage-prefix", "", "--max-tokens", "40")
    outcome = cli("model", "install", "--from", str(folder), "--name", "mine", "--precision", "fp32", *words)
    assert outcome.code == 0
    assert "mine-fp32  installed" in outcome.out
    assert "CLS pooling, query prefix 'query: '" in " ".join(outcome.out.split())
    listed = cli("model", "list", "--json").json["models"]
    (mine,) = [model for model in listed if model["modelId"] == "mine-fp32"]
    assert (mine["dim"], mine["maxTokens"], mine["isInstalled"]) == (32, 40, True)
    assert cli("model", "install", "other", "--from", str(folder), "--pooling", "mean").code == 0
    assert registry.installed(models_dir) == ("mine-fp32", "other-int8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("list", "--name", "x"), "model list takes no --name"),
        (("list", "--from", "x"), "model list takes no --from"),
        (("install", "--pooling", "cls"), "--pooling needs --from DIR"),
        (("install", "--query-prefix", ""), "--query-prefix needs --from DIR"),
        (("install", "--max-tokens", "0"), "no whole number above 0"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    cli: Cli, models_dir: Path, words: tuple[str, ...], message: str
) -> None:
    outcome = cli("model", *words)
    assert outcome.code == 2
    assert message in outcome.err
