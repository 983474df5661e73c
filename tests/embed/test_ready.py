"""Ready ONNX graphs: what they may look like, how they are wrapped, and what is checked of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.tiny_bert import SHAPE, config_of, tokenizer_json, write_json, write_model

from palace_daemon.embed import added, minilm, registry
from palace_daemon.embed import install as installer
from palace_daemon.embed.added import install_from
from palace_daemon.embed.folder import Wishes
from palace_daemon.embed.install import golden_texts
from palace_daemon.embed.tokens import open_tokenizer
from palace_daemon.errors import ModelError

WIDTH = 12
TABLE = np.random.default_rng(5).standard_normal((SHAPE.vocabulary, WIDTH)).astype(np.float32)
PLACES = np.random.default_rng(6).standard_normal((SHAPE.positions, WIDTH)).astype(np.float32)
ONNX = Wishes(precision="onnx", pooling="mean")


@pytest.fixture(autouse=True)
def few_golden_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = sorted(golden_texts(), key=len)[:8]
    monkeypatch.setattr(installer, "golden_texts", lambda: texts)


def write_ready(
    folder: Path,
    *,
    inputs: tuple[str, ...] = ("input_ids", "attention_mask", "token_type_ids"),
    outputs: tuple[str, ...] = ("last_hidden_state",),
    kind: int = TensorProto.INT64,
    opset: int = 17,
    scale: float = 1.0,
) -> Path:
    """Write a bag of words with positions, as exporters name things: ids, mask and types in, vectors of tokens out."""
    folder.mkdir(exist_ok=True)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["words"]),
        helper.make_node("Shape", ["input_ids"], ["shape"]),
        helper.make_node("Slice", ["shape", "one", "two"], ["tokens"]),
        helper.make_node("Slice", ["places", "zero", "tokens"], ["here"]),
        helper.make_node("Add", ["words", "here"], ["last_hidden_state"]),
    ]
    if "attention_mask" in inputs:
        # A mask of anything but ones, or types of anything but zeros, would show.
        nodes[-1] = helper.make_node("Add", ["words", "here"], ["sum"])
        nodes += [
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("Cast", ["token_type_ids"], ["types"], to=TensorProto.FLOAT),
            helper.make_node("Sub", ["mask", "types"], ["kept"]),
            helper.make_node("Unsqueeze", ["kept", "two"], ["column"]),
            helper.make_node("Mul", ["sum", "column"], ["last_hidden_state"]),
        ]
    if "sentence_embedding" in outputs:
        nodes.append(helper.make_node("ReduceMax", ["last_hidden_state"], ["sentence_embedding"], axes=[1], keepdims=0))
    arrays = {
        "table": TABLE * np.float32(scale),
        "places": PLACES,
        **{name: np.array([value], np.int64) for name, value in (("zero", 0), ("one", 1), ("two", 2))},
    }
    ranks: dict[str, list[str | int]] = {"sentence_embedding": ["b", WIDTH]}
    graph = helper.make_graph(
        nodes,
        "exported",
        [helper.make_tensor_value_info(name, kind, ["b", "t"]) for name in inputs],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, ranks.get(n, ["b", "t", WIDTH])) for n in outputs],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, str(folder / "model.onnx"))
    write_json(folder, "config.json", config_of(SHAPE) | {"model_type": "anything"})
    (folder / "tokenizer.json").write_text(tokenizer_json(), encoding="utf-8")
    return folder


def expected(texts: list[str], pool: Any) -> Any:
    tokenizer = open_tokenizer(tokenizer_json())
    rows = []
    for text in texts:
        ids = tokenizer.encode(text).ids
        rows.append(pool(TABLE[ids] + PLACES[: len(ids)]))
    found = np.array(rows)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


TEXTS = ["the daemon", "a store of models", ""]


@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32])
@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.parametrize(
    ("pooling", "pool"), [("mean", lambda rows: rows.mean(0)), ("cls", lambda rows: rows[0])], ids=["mean", "cls"]
)
def test_tokens_are_pooled_as_is_said(tmp_path: Path, kind: int, opset: int, pooling: Any, pool: Any) -> None:
    folder = write_ready(tmp_path / "bag", kind=kind, opset=opset)
    if pooling == "cls":  # every text of a bag begins alike, which is no embedding
        with pytest.raises(ModelError, match=r"nearly one vector for different texts.*--pooling"):
            install_from(folder, tmp_path / "models", wishes=Wishes(pooling=pooling))
        return
    model_id, _ = install_from(folder, tmp_path / "models", wishes=Wishes(pooling=pooling))
    assert model_id == "bag-onnx"
    embedder = minilm.load(model_id, tmp_path / "models")
    assert np.allclose(embedder.embed_passages(TEXTS), expected(TEXTS, pool), atol=1e-6)
    embedder.close()
    spec = registry.spec(model_id, tmp_path / "models")
    assert (spec.dim, spec.max_tokens, spec.pooling) == (WIDTH, SHAPE.positions, pooling)
    assert "no reference to check it against" in registry.views(tmp_path / "models")[-1].note


def test_reductions_of_newer_opsets_take_their_axes_as_an_input(tmp_path: Path) -> None:
    folder = write_ready(tmp_path / "bag", opset=18)
    model_id, _ = install_from(folder, tmp_path / "models", wishes=ONNX)
    embedder = minilm.load(model_id, tmp_path / "models")
    assert np.allclose(embedder.embed_passages(TEXTS), expected(TEXTS, lambda rows: rows.mean(0)), atol=1e-6)
    embedder.close()


def test_a_graph_that_pools_by_itself_needs_no_word_about_it(tmp_path: Path) -> None:
    folder = write_ready(tmp_path / "bag", inputs=("input_ids",), outputs=("last_hidden_state", "sentence_embedding"))
    model_id, _ = install_from(folder, tmp_path / "models")
    embedder = minilm.load(model_id, tmp_path / "models")
    assert np.allclose(embedder.embed_passages(TEXTS), expected(TEXTS, lambda rows: rows.max(0)), atol=1e-6)
    embedder.close()
    assert "pooled by the graph" in registry.spec(model_id, tmp_path / "models").note
    (tmp_path / "models" / model_id / "model.onnx").unlink()
    added.again(registry.spec(model_id, tmp_path / "models"), tmp_path / "models")
    minilm.load(model_id, tmp_path / "models").close()


def test_weights_go_before_a_ready_graph_unless_it_is_asked_for(tmp_path: Path) -> None:
    folder = write_ready(write_model(tmp_path / "both"))
    write_json(folder, "config.json", config_of(SHAPE))
    assert install_from(folder, tmp_path / "models")[0] == "both-int8"
    assert install_from(folder, tmp_path / "models", wishes=Wishes(precision="onnx"))[0] == "both-onnx"


def test_the_folder_of_an_exporter_is_looked_into(tmp_path: Path) -> None:
    folder = write_ready(tmp_path / "bag")
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model.onnx")
    assert install_from(folder, tmp_path / "models", wishes=ONNX)[0] == "bag-onnx"


@pytest.mark.parametrize(
    ("made", "wishes", "message"),
    [
        (
            {"inputs": ("input_ids", "pixels")},
            ONNX,
            "unknown inputs pixels; its inputs are input_ids, pixels.*may take",
        ),
        ({"inputs": ("attention_mask", "token_type_ids")}, ONNX, "no input input_ids; its inputs are attention_mask"),
        ({}, Wishes(), "nothing says how .* is pooled.*--pooling mean or --pooling cls"),
        (
            {"outputs": ("sentence_embedding",)},
            ONNX,
            r"no vectors of tokens; its outputs are sentence_embedding \(rank 2\)",
        ),
        ({"opset": 8}, ONNX, "is of opset 8.*opset 9 or newer"),
        ({}, Wishes(pooling="mean", max_tokens=65), "(?s)does not take a text of 65 tokens.*--max-tokens"),
        ({}, Wishes(precision="int8"), r"has no model\.safetensors, from which int8 is built"),
        ({"scale": 0.0}, ONNX, "nearly one vector for different texts"),
    ],
)
def test_what_cannot_be_run_is_refused(tmp_path: Path, made: dict[str, Any], wishes: Wishes, message: str) -> None:
    folder = write_ready(tmp_path / "bag", **made)
    with pytest.raises(ModelError, match=message):
        install_from(folder, tmp_path / "models", wishes=wishes)
    assert registry.installed(tmp_path / "models") == ()


def test_a_file_that_is_no_graph_is_refused(tmp_path: Path) -> None:
    folder = write_ready(tmp_path / "bag")
    (folder / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(ModelError, match=r"model\.onnx cannot be read as ONNX"):
        install_from(folder, tmp_path / "models", wishes=ONNX)


def test_without_a_length_anywhere_it_must_be_said(tmp_path: Path) -> None:
    folder = write_ready(tmp_path / "bag")
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=r"how many tokens the model takes.*--max-tokens N"):
        install_from(folder, tmp_path / "models", wishes=ONNX)
    wishes = Wishes(pooling="mean", max_tokens=50)
    assert registry.spec(install_from(folder, tmp_path, wishes=wishes)[0], tmp_path).max_tokens == 50


def test_tensors_beside_a_graph_are_part_of_what_it_is(tmp_path: Path) -> None:
    folder = write_ready(tmp_path / "ready")
    graph = onnx.load(str(folder / "model.onnx"))
    found = set()
    for factor in (1, -1):
        (graph.graph.initializer[0]).CopyFrom(numpy_helper.from_array(TABLE * np.float32(factor), "table"))
        aside = onnx.ModelProto.FromString(graph.SerializeToString())
        onnx.save_model(aside, str(folder / "model.onnx"), save_as_external_data=True, location="w", size_threshold=64)
        model_id, _ = install_from(folder, tmp_path / "models", wishes=ONNX)
        embedder = minilm.load(model_id, tmp_path / "models", threads=1)
        found.add((embedder.fingerprint, float(embedder.embed_query("the daemon")[0])))
        embedder.close()
    assert len({fingerprint for fingerprint, _ in found}) == len({first for _, first in found}) == 2
    (folder / "w").unlink()
    with pytest.raises(ModelError, match=r"model\.onnx needs .*w, which is no file beside it"):
        install_from(folder, tmp_path / "models", wishes=ONNX)


@pytest.mark.parametrize("length", [10**30, 10**9])
def test_a_length_that_means_none_is_not_taken_for_one(tmp_path: Path, length: int) -> None:
    folder = write_ready(tmp_path / "ready")
    (folder / "config.json").unlink(missing_ok=True)
    write_json(folder, "tokenizer_config.json", {"model_max_length": length})
    with pytest.raises(ModelError, match="says how many tokens the model takes"):
        install_from(folder, tmp_path / "models", wishes=ONNX)
    with pytest.raises(ModelError, match=r"--max-tokens is 1000000, more than"):
        install_from(folder, tmp_path / "models", wishes=Wishes(precision="onnx", pooling="mean", max_tokens=10**6))
