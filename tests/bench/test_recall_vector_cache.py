"""Vectors that are kept between runs: what was embedded once is not embedded again, whatever happened to the files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from palace_daemon.bench import vector_cache
from palace_daemon.bench.vector_cache import KEY_BYTES, CachedEmbedder, VectorCache
from palace_daemon.core.ports import Float32
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.errors import ConfigError

DIM = 16
TEXTS = ["the queue moved", "", "the cache is warm", "\ud800 half a pair"]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[list[CachedEmbedder]]:
    """What a test opens through :func:`_open`; closed at its end."""
    embedders: list[CachedEmbedder] = []
    yield embedders
    for embedder in embedders:
        embedder.close()


def _open(opened: list[CachedEmbedder], folder: Path, fingerprint: str = "hashing@1") -> CachedEmbedder:
    embedder = CachedEmbedder(HashingEmbedder(DIM), VectorCache(folder, fingerprint, DIM))
    opened.append(embedder)
    return embedder


def test_a_second_run_embeds_nothing_and_gives_equal_bits(opened: list[CachedEmbedder], tmp_path: Path) -> None:
    first = _open(opened, tmp_path)
    expected = first.embed_passages(TEXTS)
    second = _open(opened, tmp_path)
    assert second.embed_passages(TEXTS).tobytes() == expected.tobytes()
    assert (first.embedded, first.from_cache) == (4, 0)
    assert (second.embedded, second.from_cache) == (0, 4)


def test_vectors_are_those_of_the_model(opened: list[CachedEmbedder], tmp_path: Path) -> None:
    embedder = _open(opened, tmp_path)
    embedder.embed_passages(TEXTS[:1])
    found = embedder.embed_passages([TEXTS[2], TEXTS[0], TEXTS[2]])
    assert found.tobytes() == HashingEmbedder(DIM).embed_passages([TEXTS[2], TEXTS[0], TEXTS[2]]).tobytes()
    assert (embedder.embedded, embedder.from_cache) == (2, 1), "a text that comes twice is embedded once"


def test_two_runs_at_a_time_write_files_of_their_own(opened: list[CachedEmbedder], tmp_path: Path) -> None:
    one, other = _open(opened, tmp_path), _open(opened, tmp_path)
    one.embed_passages(TEXTS[:2])
    other.embed_passages(TEXTS[1:])
    later = _open(opened, tmp_path)
    later.embed_passages(TEXTS)
    assert later.embedded == 0


def test_models_do_not_share_vectors(opened: list[CachedEmbedder], tmp_path: Path) -> None:
    _open(opened, tmp_path).embed_passages(TEXTS)
    other = _open(opened, tmp_path, "hashing@2")
    other.embed_passages(TEXTS)
    assert other.embedded == len(TEXTS)


def test_a_record_that_was_cut_short_is_embedded_again(opened: list[CachedEmbedder], tmp_path: Path) -> None:
    expected = _open(opened, tmp_path).embed_passages(TEXTS)
    (path,) = tmp_path.rglob("*.bin")
    path.write_bytes(path.read_bytes()[:-1])
    later = _open(opened, tmp_path)
    assert later.embed_passages(TEXTS).tobytes() == expected.tobytes()
    assert (later.embedded, later.from_cache) == (1, 3)


def test_a_block_that_a_file_system_lost_is_embedded_again(opened: list[CachedEmbedder], tmp_path: Path) -> None:
    expected = _open(opened, tmp_path).embed_passages(TEXTS)
    (path,) = tmp_path.rglob("*.bin")
    data = bytearray(path.read_bytes())
    data[KEY_BYTES : KEY_BYTES + 4 * DIM] = bytes(4 * DIM)
    path.write_bytes(data)
    later = _open(opened, tmp_path)
    assert later.embed_passages(TEXTS).tobytes() == expected.tobytes()
    assert later.embedded == 1


def test_nothing_new_leaves_no_file(opened: list[CachedEmbedder], tmp_path: Path) -> None:
    _open(opened, tmp_path).embed_passages(TEXTS)
    before = set(tmp_path.rglob("*.bin"))
    _open(opened, tmp_path).embed_passages(TEXTS)
    assert set(tmp_path.rglob("*.bin")) == before


def test_questions_are_not_kept_between_runs(opened: list[CachedEmbedder], tmp_path: Path) -> None:
    embedder = _open(opened, tmp_path)
    assert embedder.embed_query(TEXTS[0]).tobytes() == HashingEmbedder(DIM).embed_query(TEXTS[0]).tobytes()
    assert not list(tmp_path.rglob("*.bin"))


def test_another_way_to_embed_stands_in(tmp_path: Path) -> None:
    def embed(texts: Sequence[str]) -> Float32:
        return np.tile(np.eye(1, DIM, dtype=np.float32), (len(texts), 1))

    embedder = CachedEmbedder(HashingEmbedder(DIM), VectorCache(tmp_path, "hashing@1", DIM), embed)
    assert embedder.embed_passages(TEXTS)[:, 0].tolist() == [1.0] * 4
    embedder.close()


@pytest.mark.parametrize("below", ["", "folder"])
def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path, below: str) -> None:
    taken = tmp_path / "taken"
    taken.write_bytes(b"")
    with pytest.raises(ConfigError, match=rf"{re.escape(str(taken))}.*--cache takes a folder"):
        VectorCache(taken / below, "hashing@1", DIM)


def test_a_folder_that_went_away_is_named(opened: list[CachedEmbedder], tmp_path: Path) -> None:
    embedder = _open(opened, tmp_path / "cache")
    (folder,) = (tmp_path / "cache").iterdir()
    folder.rmdir()
    with pytest.raises(ConfigError, match=re.escape(str(folder))):
        embedder.embed_passages(TEXTS)


def test_the_cache_lies_in_the_platforms_cache_directory(isolated_home: Path) -> None:
    assert isolated_home in vector_cache.default_folder().parents
