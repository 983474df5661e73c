from __future__ import annotations

from pathlib import Path

import pytest

from palace_daemon import places
from palace_daemon.config import Config, EmbedConfig
from palace_daemon.embed import placement, registry
from palace_daemon.errors import ModelError
from palace_daemon.service.build import open_store
from palace_daemon.service.model_removal import remove_model

INT8 = "all-minilm-l6-v2-int8"
FP32 = "all-minilm-l6-v2-fp32"


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALACE_MODELS", str(tmp_path / "models"))
    for name in (INT8, FP32):
        folder = tmp_path / "models" / name
        folder.mkdir(parents=True)
        for file in (registry.GRAPH_FILE, registry.TOKENIZER_FILE):
            (folder / file).write_bytes(b"x" * 1_000)
        placement.write_record(folder, registry.spec(name), "0" * 64)
    return places.models_dir()


def config(tmp_path: Path, model: str = INT8) -> Config:
    return Config(data_dir=tmp_path / "data", embed=EmbedConfig(model=model))


def test_a_model_that_nothing_needs_goes_whole_and_its_bytes_are_told(models: Path, tmp_path: Path) -> None:
    size = sum(path.stat().st_size for path in (models / FP32).iterdir())
    assert registry.installed(models) == (INT8, FP32)
    assert remove_model(config(tmp_path), FP32) == size > 2_000
    assert registry.installed(models) == (INT8,)
    assert sorted(path.name for path in models.iterdir()) == [placement.LOCK_FILE, INT8, placement.DOWNLOADS]
    with pytest.raises(ModelError, match="not installed"):
        remove_model(config(tmp_path), FP32)


def test_the_model_that_the_settings_name_stays(models: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"in use: the settings name it.*model use"):
        remove_model(config(tmp_path), INT8)
    assert registry.installed(models) == (INT8, FP32)


@pytest.mark.parametrize("needed", [INT8, FP32])
def test_both_models_of_a_switch_stay_until_it_is_done(models: Path, tmp_path: Path, needed: str) -> None:
    settings = config(tmp_path, model="third")
    store = open_store(settings)
    store.use_model(registry.spec(INT8).fingerprint)
    with store.read() as connection:
        assert connection.execute("SELECT model FROM state").fetchone()[0].startswith(INT8)
    store.switch_model(registry.spec(FP32).fingerprint)
    store.close()
    with pytest.raises(ModelError, match="in use"):
        remove_model(settings, needed)
    assert registry.installed(models) == (INT8, FP32)


@pytest.mark.parametrize("name", ["bogus", "../data", ".", "downloads"])
def test_what_is_no_model_is_not_removed(models: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "data").mkdir()
    (models / placement.DOWNLOADS).mkdir()
    with pytest.raises(ModelError, match="unknown model"):
        remove_model(config(tmp_path), name)
    assert (tmp_path / "data").is_dir()
    assert (models / placement.DOWNLOADS).is_dir()
    assert registry.installed(models) == (INT8, FP32)


def test_a_link_goes_and_what_it_leads_to_stays(models: Path, tmp_path: Path) -> None:
    own = (models / FP32).rename(tmp_path / "own")
    (models / FP32).symlink_to(own)
    assert remove_model(config(tmp_path), FP32) == 0
    assert (own / registry.GRAPH_FILE).is_file()
    assert not (models / FP32).is_symlink()


def test_a_damaged_model_can_be_removed(models: Path, tmp_path: Path) -> None:
    (models / FP32 / registry.RECORD_FILE).write_text("{")
    assert remove_model(config(tmp_path), FP32) > 2_000
