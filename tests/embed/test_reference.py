"""The float64 pass that judges the graphs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from support.tiny_bert import SHAPE, random_tensors

from palace_daemon.embed import reference, registry
from palace_daemon.embed.install import golden
from palace_daemon.embed.shape import BertShape
from palace_daemon.embed.tokens import packaged_tokenizer


def test_erf_is_that_of_the_standard_library() -> None:
    x = np.concatenate([np.random.default_rng(1).uniform(-7, 7, 5_000), [0.0, -0.0, 6.0, -6.0, 30.0, 1 / 256]])
    assert np.abs(reference.erf(x) - [math.erf(value) for value in x]).max() < 4e-16


def test_gelu_of_many_rows_is_that_of_each_number() -> None:
    x = np.random.default_rng(2).normal(0, 3, (37, 5))
    expected = [[value * 0.5 * (1 + math.erf(value / math.sqrt(2))) for value in row] for row in x]
    assert np.allclose(reference.gelu(x), np.array(expected), rtol=0, atol=1e-14)


def test_the_packaged_golden_vectors_come_from_it(original_dir: Path) -> None:
    """The shortest texts, to be quick; ``models/all-minilm-l6-v2/reference.py`` does all, and the ranges."""
    texts, expected = golden()
    ids = [packaged_tokenizer().encode(text).ids for text in texts]
    short = [row for row in range(len(texts)) if len(ids[row]) < 40]
    assert len(short) >= 5
    tensors = load_file(original_dir / "model.safetensors")
    found = reference.observe(tensors, registry.manifest().source.shape, [ids[row] for row in short])
    assert np.abs(found.vectors - expected[short]).max() < 1e-14


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_text_has_one_vector_in_any_company(pooling: str) -> None:
    shape = BertShape(**{name: getattr(SHAPE, name) for name in SHAPE.__struct_fields__} | {"pooling": pooling})
    tensors, random = random_tensors(SHAPE), np.random.default_rng(3)
    texts = [[int(one) for one in random.integers(0, SHAPE.vocabulary, size)] for size in (1, 64, 7, 30)]
    together = reference.observe(tensors, shape, texts)
    alone = np.concatenate([reference.observe(tensors, shape, [ids]).vectors for ids in texts])
    assert np.allclose(together.vectors, alone, rtol=0, atol=1e-12)
    assert np.allclose(np.linalg.norm(alone, axis=1), 1)


def test_ranges_are_of_what_each_channel_takes_on() -> None:
    values = np.tile(np.linspace(-1, 3, 1001)[:, None], (1, 2)) * [1.0, 10.0]
    assert np.allclose(reference.channel_range(values), np.array([[1, 10], [1.992, 19.92]]))
    found = reference.observe(random_tensors(SHAPE), SHAPE, [[2, 5, 9, 3]]).ranges
    assert found.shape == (3, 2, 2, 32)
    assert (found[:, :, 1] >= 0).all()


def test_it_tells_its_progress_and_can_be_stopped() -> None:
    seen: list[tuple[int, int]] = []
    reference.observe(random_tensors(SHAPE), SHAPE, [[2, 3]], lambda done, total: seen.append((done, total)))
    assert seen == [(0, 2), (1, 2), (2, 2)]

    def stop(done: int, total: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        reference.observe(random_tensors(SHAPE), SHAPE, [[2, 3]], stop)
