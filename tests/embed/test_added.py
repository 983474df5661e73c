"""Models that a person adds from a folder: how they are read, built, checked, listed and found again."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file
from support.tiny_bert import SHAPE, config_of, random_tensors, tokenizer_json, write_json, write_model

from palace_daemon.embed import added, minilm, reference, registry
from palace_daemon.embed import install as installer
from palace_daemon.embed.added import install_from
from palace_daemon.embed.folder import Wishes
from palace_daemon.embed.install import golden_texts, install
from palace_daemon.embed.placement import DOWNLOADS, LOCK_FILE
from palace_daemon.embed.tokens import open_tokenizer
from palace_daemon.errors import CancelledError, ModelError
from palace_daemon.model import Progress

INT8 = "all-minilm-l6-v2-int8"
FP32 = "all-minilm-l6-v2-fp32"
TEXTS = ["the daemon is a store", "of models", "query: 1 2 3", "漢字 are unknown", ""]


@pytest.fixture(autouse=True)
def few_golden_texts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight of the twenty: with letters as tokens, the longer ones make hundreds of pieces."""
    if request.node.get_closest_marker("model") is None:  # the original is checked by all
        texts = sorted(golden_texts(), key=len)[:8]
        monkeypatch.setattr(installer, "golden_texts", lambda: texts)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("source") / "Tiny BERT_v1")


def reference_of(texts: list[str], pooling: Any, prefix: str = "") -> NDArray[np.float64]:
    tokenizer = open_tokenizer(tokenizer_json())
    shape = msgspec.structs.replace(SHAPE, pooling=pooling)
    return reference.observe(
        random_tensors(SHAPE), shape, [tokenizer.encode(prefix + text).ids for text in texts]
    ).vectors


# ------------------------------------------------------------------------------------------------ the good ways


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize(("precision", "far"), [("int8", 1e-3), ("fp32", 1e-9)])
def test_a_model_is_built_as_the_reference_computes_it(
    tmp_path: Path, pooling: Any, precision: Any, far: float
) -> None:
    folder = write_model(tmp_path / "tiny", pooling=pooling)
    model_id, place = install_from(folder, tmp_path / "models", wishes=Wishes(precision=precision))
    assert (model_id, place) == (f"tiny-{precision}", tmp_path / "models" / f"tiny-{precision}")
    assert sorted(path.name for path in place.iterdir()) == ["model.json", "model.onnx", "tokenizer.json"]
    assert {path.name for path in place.parent.iterdir()} == {model_id, LOCK_FILE, DOWNLOADS}
    embedder = minilm.load(model_id, place.parent, threads=2)
    vectors = embedder.embed_passages(TEXTS).astype(np.float64)
    alone = np.array([embedder.embed_query(text) for text in TEXTS])
    embedder.close()
    cosines = (vectors * reference_of(TEXTS, pooling)).sum(1) / np.linalg.norm(vectors, axis=1)
    assert (1 - cosines).max() < far
    assert (1 - (vectors * alone).sum(1)).max() < 1e-6


def test_what_stands_beside_the_model_is_used(tmp_path: Path) -> None:
    folder = write_model(
        tmp_path / "tiny",
        pooling="cls",
        sentence_bert_config={"max_seq_length": 40, "do_lower_case": False},
        config_sentence_transformers={"prompts": {"query": "query: ", "document": "passage: "}},
        modules=[{"type": f"sentence_transformers.models.{name}"} for name in ("Transformer", "Pooling", "Normalize")],
    )
    model_id, _ = install_from(folder, tmp_path)
    spec = registry.spec(model_id, tmp_path)
    assert (spec.pooling, spec.max_tokens, spec.dim) == ("cls", 40, 32)
    assert (spec.query_prefix, spec.passage_prefix) == ("query: ", "passage: ")
    assert "CLS pooling, query prefix 'query: ', passage prefix 'passage: '" in spec.note
    embedder = minilm.load(model_id, tmp_path)
    passages, query = embedder.embed_passages(TEXTS), embedder.embed_query(TEXTS[0])
    embedder.close()
    assert (passages * reference_of(TEXTS, "cls", "passage: ")).sum(1).min() > 0.999
    assert float(query @ reference_of(TEXTS[:1], "cls", "query: ")[0]) > 0.999


def test_what_is_wished_goes_before_what_stands_beside(tmp_path: Path) -> None:
    folder = write_model(
        tmp_path / "tiny",
        pooling="cls",
        sentence_bert_config={"max_seq_length": 40},
        config_sentence_transformers={"prompts": {"query": "query: "}},
    )
    wishes = Wishes(name="own", pooling="mean", query_prefix="", passage_prefix="the ", max_tokens=64)
    spec = registry.spec(install_from(folder, tmp_path, wishes=wishes)[0], tmp_path)
    assert (spec.model_id, spec.pooling, spec.max_tokens) == ("own-int8", "mean", 64)
    assert (spec.query_prefix, spec.passage_prefix) == ("", "the ")


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize(
    "sizes",
    [
        {"hidden": 30, "heads": 3, "intermediate": 50, "layers": 1},
        {"hidden": 5, "heads": 1, "intermediate": 3},
        {"hidden": 64, "heads": 1, "intermediate": 7},
    ],
)
def test_sizes_that_divide_by_nothing_are_computed_rightly(
    tmp_path: Path, precision: Any, sizes: dict[str, int]
) -> None:
    shape = msgspec.structs.replace(SHAPE, **sizes)
    tensors = random_tensors(shape)
    tensors["encoder.layer.0.intermediate.dense.weight"][1] = 0.0  # as pruning leaves it
    folder = write_model(tmp_path / "odd", shape, tensors=tensors)
    model_id, _ = install_from(folder, tmp_path, wishes=Wishes(precision=precision))
    assert "least 0.999" in registry.spec(model_id, tmp_path).note or precision == "fp32"


def test_an_fp32_text_above_the_bound_of_a_batch_goes_alone(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "long", msgspec.structs.replace(SHAPE, positions=minilm.BATCH_TOKENS_MAX + 9))
    model_id, _ = install_from(folder, tmp_path, wishes=Wishes(precision="fp32"))
    embedder = minilm.load(model_id, tmp_path, threads=1)
    longest = "a " * minilm.BATCH_TOKENS_MAX
    alone, together = embedder.embed_passages([longest]), embedder.embed_passages([longest, longest, "b"])
    embedder.close()
    assert np.allclose(together[:2], alone, atol=1e-6)


def test_half_width_weights_and_another_prefix_of_names_give_nearly_the_same(tiny: Path, tmp_path: Path) -> None:
    tensors = {f"bert.{name}": tensor.astype(np.float16) for name, tensor in random_tensors(SHAPE).items()}
    half = write_model(tmp_path / "half", tensors=tensors)
    found = []
    for folder in (tiny, half):
        embedder = minilm.load(install_from(folder, tmp_path, wishes=Wishes(precision="fp32"))[0], tmp_path)
        found.append(embedder.embed_passages(TEXTS))
        embedder.close()
    near = (found[0] * found[1]).sum(1)
    assert near.min() > 0.9999
    assert not np.array_equal(found[0], found[1])


@pytest.mark.model
def test_the_original_is_the_manifests_model_unless_it_is_given_a_name(original_dir: Path, tmp_path: Path) -> None:
    assert added._of_manifest(original_dir, "", Wishes(), FP32) == FP32
    assert added._of_manifest(original_dir, "", Wishes(), "tiny-int8") == INT8
    assert added._of_manifest(original_dir, "", Wishes(precision="fp32"), INT8) == FP32
    assert added._of_manifest(original_dir, INT8, Wishes(), FP32) == INT8
    assert added._of_manifest(original_dir, "", Wishes(name="own"), INT8) is None
    assert added._of_manifest(original_dir, "own-int8", Wishes(), INT8) is None
    assert install_from(original_dir, tmp_path) == (INT8, tmp_path / INT8)
    assert not registry.spec(INT8, tmp_path).is_added


# ------------------------------------------------------------------------------------------------ known and listed


def test_added_models_stand_behind_those_of_the_manifest(tiny: Path, tmp_path: Path) -> None:
    for name in ("b", "a"):
        install_from(tiny, tmp_path, wishes=Wishes(name=name))
    assert registry.model_ids(tmp_path) == (INT8, FP32, "a-int8", "b-int8")
    assert registry.installed(tmp_path) == ("a-int8", "b-int8")
    view = registry.views(tmp_path, active="b-int8")[-1]
    assert (view.model_id, view.dim, view.max_tokens, view.is_installed, view.is_active) == (
        *("b-int8", 32, 64),
        *(True, True),
    )
    assert f"added from {tiny}; mean pooling; cosine to a float64 reference" in view.note
    with pytest.raises(ModelError, match=f"unknown model 'c'.*{INT8}, {FP32}, a-int8, b-int8"):
        registry.spec("c", tmp_path)
    (tmp_path / "a-int8" / registry.RECORD_FILE).write_text("{", encoding="utf-8")
    assert registry.model_ids(tmp_path) == (INT8, FP32, "b-int8")
    with pytest.raises(ModelError, match=r"cannot read .*a-int8/model\.json"):
        registry.spec("a-int8", tmp_path)


def test_an_id_never_leads_out_of_the_models_folder(tiny: Path, tmp_path: Path) -> None:
    install_from(tiny, tmp_path / "elsewhere", wishes=Wishes(name="x"))
    (tmp_path / "models").mkdir()
    for model_id in ("../elsewhere/x-int8", f"{tmp_path}/elsewhere/x-int8", ".", ""):
        with pytest.raises(ModelError, match="unknown model"):
            registry.spec(model_id, tmp_path / "models")


def test_fingerprints_name_everything_that_makes_the_vectors(tiny: Path, tmp_path: Path) -> None:
    changes = [
        Wishes(),
        Wishes(pooling="cls"),
        Wishes(query_prefix="query: "),
        Wishes(passage_prefix="query: "),
        Wishes(max_tokens=32),
    ]
    found = set()
    for wishes in changes:
        install_from(tiny, tmp_path, wishes=msgspec.structs.replace(wishes, name="x"))
        spec = registry.spec("x-int8", tmp_path)
        assert spec.fingerprint.startswith(f"x-int8@{registry.builder_version('int8')}.")
        found.add(spec.fingerprint)
    assert len(found) == len(changes)


# -------------------------------------------------------------------------------------------------- once and again


def test_the_same_model_is_built_once_and_other_files_replace_it(tiny: Path, tmp_path: Path) -> None:
    wishes = Wishes(name="x")
    install_from(tiny, tmp_path, wishes=wishes)
    seen: list[str] = []

    def listen(step: Progress) -> None:
        seen.append(step.unit)

    before = registry.spec("x-int8", tmp_path)
    install_from(tiny, tmp_path, wishes=wishes, on_progress=listen)
    assert set(seen) == {"models read"}
    other = write_model(tmp_path / "other", tensors=random_tensors(SHAPE, seed=8))
    install_from(other, tmp_path, wishes=wishes, on_progress=listen)
    assert list(dict.fromkeys(seen)) == [
        *("models read", "layers measured", "graphs built"),
        *("texts checked", "models placed"),
    ]
    assert registry.spec("x-int8", tmp_path).fingerprint != before.fingerprint


def test_a_broken_model_is_mended_from_where_it_came(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "my tiny")
    model_id, place = install_from(folder, tmp_path / "models", wishes=Wishes(query_prefix="query: "))
    assert model_id == "my-tiny-int8"
    spec = registry.spec(model_id, tmp_path / "models")
    (place / registry.GRAPH_FILE).write_bytes(b"half")
    hint = f"palace-daemon model install my-tiny-int8 --from '{folder}'"
    with pytest.raises(ModelError) as caught:
        minilm.load(model_id, tmp_path / "models")
    assert hint in str(caught.value)
    assert install(model_id, tmp_path / "models") == place
    assert registry.spec(model_id, tmp_path / "models") == spec
    minilm.load(model_id, tmp_path / "models").close()


def test_a_model_is_not_mended_with_other_files(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    model_id, place = install_from(folder, tmp_path)
    (place / registry.GRAPH_FILE).unlink()
    save_file(random_tensors(SHAPE, seed=8), folder / "model.safetensors")
    with pytest.raises(ModelError, match=r"holds other files than tiny-int8 was built from.*--from DIR"):
        install(model_id, tmp_path)
    assert install(model_id, tmp_path, source=folder) == place
    shutil.rmtree(folder)
    (place / registry.GRAPH_FILE).unlink()
    with pytest.raises(ModelError, match=f"{folder} is no folder"):
        install(model_id, tmp_path)


def test_a_model_of_older_builders_is_built_anew(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model_id, _ = install_from(tiny, tmp_path, wishes=Wishes(name="x"))
    version = registry.builder_version("int8")
    monkeypatch.setattr(registry, "builder_version", lambda precision: version + 1)
    assert registry.installed(tmp_path) == ()
    with pytest.raises(ModelError, match="built by another version"):
        minilm.load(model_id, tmp_path)
    install(model_id, tmp_path)
    assert registry.spec(model_id, tmp_path).fingerprint.startswith(f"x-int8@{version + 1}.")


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("model_id", "wishes", "message"),
    [
        ("", Wishes(name="../x"), r"'\.\./x' is no name"),
        ("", Wishes(name="X"), "'X' is no name for a model.*--name"),
        ("", Wishes(name="-"), "is no name"),
        ("", Wishes(name="x" * 60), "is no name"),
        ("", Wishes(name="all-minilm-l6-v2"), f"{INT8} is a model that Palace brings itself.*--name"),
        ("x-fp32", Wishes(precision="int8"), "another name or precision than the options"),
        ("x-fp32", Wishes(name="y"), "another name or precision than the options"),
        (INT8, Wishes(pooling="cls"), f"{INT8} is built in one way.*another name"),
        (INT8, Wishes(precision="fp32"), f"{INT8} is built in one way"),
        (INT8, Wishes(), r"config|tokenizer\.json|model\.safetensors has sha256 .*: this is not all-minilm-l6-v2"),
        ("", Wishes(precision="onnx"), r"has no model\.onnx.*leave --precision away"),
        ("", Wishes(max_tokens=65), "--max-tokens is 65, but the model has 64 positions"),
        ("", Wishes(passage_prefix="abcdef" * 8), "the passage prefix 'abcdef.* take 50 of 64 tokens.*shorten"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    tiny: Path, tmp_path: Path, model_id: str, wishes: Wishes, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        install_from(tiny, tmp_path / "models", model_id=model_id, wishes=wishes)
    assert registry.installed(tmp_path / "models") == ()


def test_an_id_may_say_name_and_precision(tiny: Path, tmp_path: Path) -> None:
    assert install_from(tiny, tmp_path, model_id="my.model-fp32")[0] == "my.model-fp32"
    assert install_from(tiny, tmp_path, model_id="plain")[0] == "plain-int8"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("config.json", r"cannot read .*config\.json"),
        ("tokenizer.json", r"has no tokenizer\.json.*fetch it too"),
        ("1_Pooling/config.json", r"has no 1_Pooling/config\.json.*say --pooling mean or --pooling cls"),
        ("model.safetensors", r"has neither model\.safetensors nor model\.onnx.*the folder must hold"),
    ],
)
def test_a_missing_file_is_named(tmp_path: Path, name: str, message: str) -> None:
    folder = write_model(tmp_path / "tiny")
    (folder / name).unlink()
    with pytest.raises(ModelError, match=message):
        install_from(folder, tmp_path / "models")


def test_a_pickle_is_not_read(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin is not read, since it may run code: convert it"):
        install_from(folder, tmp_path / "models")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, r"asks for pooling_mode_max_tokens.*supported"),
        (
            "1_Pooling/config.json",
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
            "asks for pooling_mode_cls_token and pooling_mode_mean_tokens",
        ),
        ("1_Pooling/config.json", {"pooling_mode": "lasttoken"}, "asks for lasttoken.*supported"),
        ("1_Pooling/config.json", {"pooling_mode": ["cls", "mean"]}, "asks for cls and mean"),
        ("1_Pooling/config.json", {"pooling_mode": None}, "nothing says how the model pools"),
        ("modules.json", [{"type": "sentence_transformers.models.Dense"}], r"modules\.json has a module Dense"),
        ("modules.json", {"type": "x"}, r"cannot read .*modules\.json"),
        ("sentence_bert_config.json", [], r"cannot read .*sentence_bert_config\.json"),
    ],
)
def test_what_is_computed_otherwise_is_refused(tmp_path: Path, name: str, content: object, message: str) -> None:
    folder = write_model(tmp_path / "tiny")
    write_json(folder, name, content)
    with pytest.raises(ModelError, match=message):
        install_from(folder, tmp_path / "models")


def test_the_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    (folder / "tokenizer.json").write_text(tokenizer_json(200), encoding="utf-8")
    with pytest.raises(ModelError, match=r"numbers 200 tokens, but the model has 151"):
        install_from(folder, tmp_path / "models")
    content = json.loads(tokenizer_json())
    content["post_processor"] = None
    write_json(folder, "tokenizer.json", content)
    with pytest.raises(ModelError, match=r"puts 0 special tokens around a text"):
        install_from(folder, tmp_path / "models")
    content = json.loads(tokenizer_json())
    content["post_processor"]["single"].sort(key=str)  # both special tokens behind the text
    write_json(folder, "tokenizer.json", content)
    with pytest.raises(ModelError, match=r"expected one before and one after it"):
        install_from(folder, tmp_path / "models")
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match=r"tokenizer\.json is no tokenizer"):
        install_from(folder, tmp_path / "models")


@pytest.mark.parametrize("where", ["vocabulary", "special"])
def test_no_token_may_lie_behind_the_end_of_the_word_table(tmp_path: Path, where: str) -> None:
    folder = write_model(tmp_path / "tiny")
    content = json.loads(tokenizer_json())
    if where == "vocabulary":  # as many tokens as before, one of them numbered beyond
        content["model"]["vocab"]["zebra"] = content["model"]["vocab"].pop("of") + 5_000
    else:
        content["post_processor"]["special_tokens"]["[SEP]"]["ids"] = [5_003]
    write_json(folder, "tokenizer.json", content)
    with pytest.raises(ModelError, match=r"numbers 50\d\d tokens, but the model has 151"):
        install_from(folder, tmp_path / "models")


def test_texts_that_are_to_be_made_lower_case_elsewhere_are_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny", sentence_bert_config={"max_seq_length": 40, "do_lower_case": True})
    install_from(folder, tmp_path / "models")  # its tokenizer does that itself
    content = json.loads(tokenizer_json())
    content["normalizer"]["lowercase"] = False
    write_json(folder, "tokenizer.json", content)
    with pytest.raises(ModelError, match=r"has texts made lower-case, which tokenizer\.json does not"):
        install_from(folder, tmp_path / "models")


def test_a_mean_without_the_prefix_is_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny", config_sentence_transformers={"prompts": {"query": "query: "}})
    write_json(folder, "1_Pooling/config.json", {"pooling_mode": "mean", "include_prompt": False})
    with pytest.raises(ModelError, match=r"leaves prefixes out of the mean.*--query-prefix ''"):
        install_from(folder, tmp_path / "models")
    install_from(folder, tmp_path / "models", wishes=Wishes(query_prefix=""))
    write_json(folder, "1_Pooling/config.json", {"pooling_mode": "cls", "include_prompt": False})
    model_id, _ = install_from(folder, tmp_path / "models")
    assert registry.spec(model_id, tmp_path / "models").pooling == "cls"


@pytest.mark.parametrize("name", ["config.json", "1_Pooling/config.json", "modules.json", "model.safetensors"])
def test_nesting_without_end_is_refused(tmp_path: Path, name: str) -> None:
    folder = write_model(tmp_path / "tiny")
    head = b'[{"a":' if name == "modules.json" else b'{"a":'
    nested = head + b"[" * 200_000
    length = len(nested).to_bytes(8, "little") if name == "model.safetensors" else b""
    (folder / name).write_bytes(length + nested)
    with pytest.raises(ModelError, match=name):
        install_from(folder, tmp_path / "models")


def test_a_config_of_another_size_names_the_first_tensor_that_differs(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    write_json(folder, "config.json", config | {"intermediate_size": 64})
    with pytest.raises(ModelError, match=r"intermediate\.dense\.weight has the shape \[48, 32\], expected \[64, 32\]"):
        install_from(folder, tmp_path / "models")


def test_a_config_with_fewer_layers_than_the_weights_is_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    write_json(folder, "config.json", config_of(msgspec.structs.replace(SHAPE, layers=1)))
    with pytest.raises(ModelError, match=r"holds encoder\.layer\.1\..*but 1 layers are expected"):
        install_from(folder, tmp_path / "models")


@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_a_graph_that_fails_its_golden_vectors_is_not_placed(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: Any
) -> None:
    monkeypatch.setattr(reference, "gelu", lambda x: np.maximum(x, 0.0))
    with pytest.raises(ModelError, match=f"the graph of x-{precision} fails its golden vectors"):
        install_from(tiny, tmp_path, wishes=Wishes(name="x", precision=precision))
    assert {path.name for path in tmp_path.iterdir()} == {LOCK_FILE, DOWNLOADS}


@pytest.mark.parametrize("unit", ["models read", "layers measured", "graphs built", "texts checked"])
def test_a_stop_leaves_nothing(tiny: Path, tmp_path: Path, unit: str) -> None:
    stop = threading.Event()

    def listen(step: Progress) -> None:
        if step.unit == unit:
            stop.set()

    with pytest.raises(CancelledError):
        install_from(tiny, tmp_path, on_progress=listen, stop=stop)
    assert {path.name for path in tmp_path.iterdir()} == {LOCK_FILE, DOWNLOADS}
