"""Which models are known and which are installed."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from palace_daemon.config import EmbedConfig
from palace_daemon.embed import minilm, registry
from palace_daemon.errors import ModelError

INT8 = "all-minilm-l6-v2-int8"
FP32 = "all-minilm-l6-v2-fp32"


def test_known_models_are_listed_default_first(tmp_path: Path) -> None:
    assert registry.model_ids(tmp_path) == (INT8, FP32)
    assert registry.DEFAULT_MODEL == INT8 == EmbedConfig().model


def test_an_unknown_model_is_refused_by_naming_the_known(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"'bert-large'.*{INT8}, {FP32}"):
        registry.spec("bert-large", tmp_path)


def test_precisions_have_fingerprints_of_their_own() -> None:
    assert len({registry.spec(model_id).fingerprint for model_id in registry.model_ids()}) == 2


def test_an_empty_folder_has_no_models(tmp_path: Path) -> None:
    assert registry.installed(tmp_path / "absent") == ()
    views = registry.views(tmp_path, active=INT8)
    assert [(v.model_id, v.is_installed, v.is_active, v.size_bytes) for v in views] == [
        (INT8, False, True, 0),
        (FP32, False, False, 0),
    ]
    with pytest.raises(ModelError, match=r"not installed.*palace-daemon model install"):
        minilm.load(INT8, tmp_path)


def test_installed_models_are_seen(models_dir: Path) -> None:
    assert registry.installed(models_dir) == (INT8, FP32)
    for view in registry.views(models_dir, active=FP32):
        assert view.is_installed
        assert view.is_active == (view.model_id == FP32)
        assert view.size_bytes == sum(
            (Path(view.path) / name).stat().st_size for name in (registry.GRAPH_FILE, registry.TOKENIZER_FILE)
        )
        assert (view.dim, view.max_tokens) == (384, 512)


@pytest.fixture
def copy(models_dir: Path, tmp_path: Path) -> Path:
    shutil.copytree(models_dir / INT8, tmp_path / INT8)
    return tmp_path


def test_one_changed_byte_is_noticed_at_load(copy: Path) -> None:
    graph = copy / INT8 / registry.GRAPH_FILE
    content = bytearray(graph.read_bytes())
    content[len(content) // 2] ^= 1
    graph.write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.onnx has sha256 .* expected .*palace-daemon model install"):
        minilm.load(INT8, copy)


def test_a_cut_file_is_noticed_at_load_and_in_lists(copy: Path) -> None:
    graph = copy / INT8 / registry.GRAPH_FILE
    with graph.open("r+b") as file:
        file.truncate(1_000)
    with pytest.raises(ModelError, match=r"has 1000 bytes, expected \d+.*palace-daemon model install"):
        minilm.load(INT8, copy)
    assert registry.installed(copy) == ()


@pytest.mark.parametrize("name", [registry.GRAPH_FILE, registry.TOKENIZER_FILE, registry.RECORD_FILE])
def test_a_missing_file_is_noticed_at_load(copy: Path, name: str) -> None:
    (copy / INT8 / name).unlink()
    with pytest.raises(ModelError, match="palace-daemon model install"):
        minilm.load(INT8, copy)


def test_a_record_that_is_no_json_is_an_error(copy: Path) -> None:
    (copy / INT8 / registry.RECORD_FILE).write_text("{", encoding="utf-8")
    with pytest.raises(ModelError, match=r"cannot read .*model\.json.*palace-daemon model install"):
        minilm.load(INT8, copy)


def test_a_graph_of_another_version_is_refused(copy: Path) -> None:
    record = registry.read_record(copy / INT8)
    older = msgspec.structs.replace(record, graph_version=record.graph_version - 1)
    (copy / INT8 / registry.RECORD_FILE).write_bytes(msgspec.json.encode(older))
    with pytest.raises(ModelError, match=r"another version.*palace-daemon model install"):
        minilm.load(INT8, copy)


def test_a_graph_that_the_runtime_refuses_is_an_error(copy: Path) -> None:
    (copy / INT8 / registry.GRAPH_FILE).write_bytes(b"no graph")
    with pytest.raises(ModelError, match="the runtime cannot open"):
        minilm.open_folder(registry.spec(INT8), copy / INT8)
