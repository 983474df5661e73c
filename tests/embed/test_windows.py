"""Texts that are longer than an added model can read, and its prefixes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tiny_bert import tokenizer_json, write_model

from palace_daemon.embed import minilm
from palace_daemon.embed.added import add
from palace_daemon.embed.folder import Wishes
from palace_daemon.embed.tokens import open_tokenizer
from palace_daemon.embed.windows import WindowedEmbedder, split

TOKENIZER = open_tokenizer(tokenizer_json())
PREFIX = "passage: "
CAP = 24


def bare(text: str) -> list[int]:
    return list(TOKENIZER.encode(text, add_special_tokens=False).ids)


@given(st.text(alphabet=st.sampled_from("ab xyz.\n\t-é漢字\U0001f600"), max_size=200), st.sampled_from(["", PREFIX]))
def test_pieces_fit_and_hold_all_of_the_text_in_order(text: str, prefix: str) -> None:
    pieces = split(TOKENIZER, text, CAP, prefix)
    assert all(len(TOKENIZER.encode(prefix + piece).ids) <= CAP for piece in pieces)
    start = 0
    for piece in pieces:
        found = text.index(piece, start)
        assert not bare(text[start:found]), "what stands between two pieces has no tokens"
        start = found + len(piece)
    assert not bare(text[start:])


def test_a_text_that_fits_stays_whole_and_words_are_not_cut() -> None:
    assert split(TOKENIZER, " a store\n", CAP) == [" a store\n"]
    words = ["daemons"] * 12
    pieces = split(TOKENIZER, " ".join(words), CAP)
    assert len(pieces) > 1
    assert " ".join(pieces).split() == words


def test_a_word_that_fills_a_window_is_cut_within() -> None:
    pieces = split(TOKENIZER, "abcdefghij" * 9, 12)
    assert "".join(pieces) == "abcdefghij" * 9
    assert len(pieces) == 9


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WindowedEmbedder]:
    folder = tmp_path_factory.mktemp("windows")
    wishes = Wishes(precision="fp32", passage_prefix=PREFIX, query_prefix="query: ", max_tokens=CAP)
    model_id, _ = add(write_model(folder / "tiny"), folder / "models", wishes)
    found = minilm.load(model_id, folder / "models", threads=2)
    assert isinstance(found, WindowedEmbedder)
    yield found
    found.close()


def test_prefixes_count_among_the_tokens(embedder: WindowedEmbedder) -> None:
    assert embedder.count("store") == len(TOKENIZER.encode("passage: store").ids) == 5
    assert embedder.max_tokens == CAP


def test_question_and_passage_have_prefixes_of_their_own(embedder: WindowedEmbedder) -> None:
    asked, stored = embedder.embed_query("the store"), embedder.embed_passages(["the store"])[0]
    assert float(asked @ stored) < 0.999
    other = embedder.embed_passages(["of store"])[0]
    assert float(stored @ other) < 0.9999


def test_a_long_text_is_the_mean_of_its_windows_in_any_company(embedder: WindowedEmbedder) -> None:
    text = "the daemon is a store of models. " * 9
    pieces = split(TOKENIZER, text, CAP, PREFIX)
    assert len(pieces) > 2
    before = embedder.windowed
    alone = embedder.embed_passages([text])[0]
    assert embedder.windowed == before + 1
    weights = np.array([len(bare(piece)) for piece in pieces])
    mean = weights @ embedder.embed_passages(pieces)
    assert embedder.windowed == before + 1
    assert np.allclose(alone, mean / np.linalg.norm(mean), rtol=0, atol=1e-6)
    together = embedder.embed_passages(["store", text, "model", text])
    assert np.allclose(together[[1, 3]], alone, rtol=0, atol=1e-6)
    assert np.allclose(together[0], embedder.embed_passages(["store"])[0], rtol=0, atol=1e-6)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)


def test_all_of_a_long_text_counts_unless_it_is_to_be_cut(embedder: WindowedEmbedder) -> None:
    beginning = "the daemon is a store of models. " * 9
    texts = [beginning, beginning + "passage: 0 1 2 3 4 5 6 7 8 9 passage"]
    whole = embedder.embed_passages(texts)
    assert float(whole[0] @ whole[1]) < 0.9999
    before = embedder.truncated
    cut = embedder.embed_passages(texts, truncate=True)
    assert np.allclose(cut[0], cut[1], atol=1e-6)
    assert embedder.truncated == before + 2


def test_a_long_question_is_cut_and_counted(embedder: WindowedEmbedder) -> None:
    before = embedder.truncated_queries
    embedder.embed_query("the store " * 40)
    assert embedder.truncated_queries == before + 1


def test_a_text_without_tokens_has_a_vector(embedder: WindowedEmbedder, tmp_path: Path) -> None:
    assert np.isfinite(embedder.embed_passages(["", "\n" * 500])).all()
    assert embedder.embed_passages([]).shape == (0, 32)
