"""Counting tokens without an installed model."""

from __future__ import annotations

import hashlib
import string
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palace_daemon.embed import registry
from palace_daemon.embed.tokens import MiniLmTokenCounter, open_tokenizer, packaged_tokenizer
from palace_daemon.errors import ModelError


@pytest.mark.parametrize(
    ("text", "n_tokens"),
    [
        ("", 2),  # [CLS] and [SEP] alone
        ("ok", 3),
        ("Hello, world!", 6),
        ("hello\n\n\tworld", 4),  # white space is no token
        ("昨天", 4),  # each CJK character is a word
        ("x" * 101, 3),  # WordPiece gives up on words above 100 characters: one [UNK]
        ("word " * 1_000, 1_002),  # far above the 128 that the file itself would truncate to
        ("[CLS] [SEP]", 4),  # special tokens in a text are taken as such, so they count once
    ],
)
def test_count_includes_special_tokens_and_never_truncates(text: str, n_tokens: int) -> None:
    assert MiniLmTokenCounter().count(text) == n_tokens


_MIXED = st.lists(
    st.one_of(
        st.sampled_from(
            ["Word", "word", " ", "\n", "\r\n", ".", "don't", "[SEP]", "[sep]", "[", "a" * 99, "\u0301", "é"]
        ),
        st.sampled_from(
            ["\x1c", "\x0b", "\x00", "\x85", "\xa0", "\u2028", "\u3000", "\ufffd", "\u200d", "窑", "。", "≠"]
        ),
        st.text(max_size=8),
    ),
    max_size=30,
)


@given(_MIXED.map("".join))
def test_words_and_marks_have_as_many_tokens_alone_as_in_their_text(text: str) -> None:
    assert MiniLmTokenCounter().count(text) == len(packaged_tokenizer().encode(text).ids)


@pytest.mark.parametrize("mark", string.punctuation)
def test_each_mark_of_ascii_is_one_token(mark: str) -> None:
    assert MiniLmTokenCounter().count(mark) == 3
    assert MiniLmTokenCounter().count(f"word{mark}word {mark}\u2026") == len(
        packaged_tokenizer().encode(f"word{mark}word {mark}\u2026").ids
    )


def test_cap_is_the_length_of_the_position_table() -> None:
    assert MiniLmTokenCounter().max_tokens == 512


def test_packaged_tokenizer_is_the_pinned_one() -> None:
    source = registry.manifest().source
    content = registry.data_file(source.data, registry.TOKENIZER_FILE).read_bytes()
    assert hashlib.sha256(content).hexdigest() == source.files[registry.TOKENIZER_FILE].sha256
    assert len(content) == source.files[registry.TOKENIZER_FILE].size_bytes


def test_neither_truncation_nor_padding_is_left_on() -> None:
    tokenizer = packaged_tokenizer()
    assert tokenizer.truncation is None
    assert tokenizer.padding is None


def test_threads_count_alike() -> None:
    counter = MiniLmTokenCounter()
    texts = [f"sentence number {i} " * (i % 40) for i in range(200)]
    expected = [counter.count(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(counter.count, texts)) == expected


def test_a_file_that_is_no_tokenizer_is_an_error() -> None:
    with pytest.raises(ModelError, match=r"no tokenizer.*model install"):
        open_tokenizer("{}")


def test_importing_the_package_loads_no_runtime() -> None:
    code = """
import sys
from palace_daemon.embed import arithmetic, download, graph_fp32, graph_int8, hashing, install, minilm, registry, tokens
tokens.MiniLmTokenCounter()
print(sorted({"onnx", "onnxruntime", "tokenizers", "safetensors", "pip"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
