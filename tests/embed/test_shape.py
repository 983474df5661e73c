"""What a config.json may say, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.tiny_bert import SHAPE, config_of, write_json

from palace_daemon.embed import registry
from palace_daemon.embed.shape import BertShape, read_shape
from palace_daemon.errors import ModelError


def read(folder: Path, **changes: Any) -> BertShape:
    write_json(folder, "config.json", config_of(SHAPE) | changes)
    return read_shape(folder / "config.json")


def test_a_config_gives_the_shape(tmp_path: Path) -> None:
    assert read(tmp_path) == SHAPE
    assert read_shape(tmp_path / "config.json", "cls").pooling == "cls"
    assert read(tmp_path, layer_norm_eps=1e-5).layer_norm_epsilon == 1e-5


def test_the_shape_in_the_manifest_is_that_of_the_packaged_models() -> None:
    shape = registry.manifest().source.shape
    for known in registry.manifest().models:
        assert (known.dim, known.max_tokens, known.pooling) == (shape.hidden, shape.positions, shape.pooling)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "roberta"}, r"type 'roberta'.*supported is model_type bert"),
        ({"model_type": "xlm-roberta"}, r"type 'xlm-roberta'.*supported"),
        ({"model_type": "modernbert"}, r"type 'modernbert'.*supported"),
        ({"model_type": "distilbert"}, r"type 'distilbert'.*supported"),
        ({"model_type": None}, r"type None.*supported"),
        ({"hidden_act": "gelu_new"}, r"activation 'gelu_new' is not supported"),
        ({"position_embedding_type": "relative_key"}, r"'relative_key' positions"),
        ({"is_decoder": True}, "a decoder"),
        ({"num_attention_heads": 5}, "5 heads do not divide a hidden size of 32"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"hidden_size": "many"}, r"incomplete: Expected `int`, got `str` - at `\$.hidden_size`"),
        ({"architectures": ["BertForSequenceClassification"]}, "BertForSequenceClassification"),
    ],
)
def test_what_the_graphs_cannot_compute_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        read(tmp_path, **changes)
    assert str(tmp_path / "config.json") in str(caught.value)


def test_a_file_that_is_no_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot read .*config\.json.*Hugging Face"):
        read_shape(tmp_path / "config.json")
    (tmp_path / "config.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(ModelError, match=r"cannot read .*config\.json"):
        read_shape(tmp_path / "config.json")
