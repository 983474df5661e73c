"""The settings file as people keep it: broken, elsewhere, or somebody else's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from palace_daemon import config, places
from palace_daemon.errors import ConfigError


@pytest.fixture
def path() -> Path:
    path = places.config_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.parametrize("text", ["[embed\n", "embed = 3\n", "[embed]\nmodel = 'a'\nmodel = 'b'\n", "\udcff"])
def test_nothing_is_written_into_a_file_that_cannot_be_read(path: Path, text: str) -> None:
    before = text.encode("utf-8", "surrogateescape")
    path.write_bytes(before)
    with pytest.raises(ConfigError):
        config.choose("embed.model", "all-minilm-l6-v2-fp32")
    assert path.read_bytes() == before


def test_a_link_to_the_file_stays_a_link(path: Path, tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles" / "palace.toml"
    kept.parent.mkdir()
    kept.write_text("# mine\n[recall]\nlimit = 5\n")
    path.unlink(missing_ok=True)
    path.symlink_to(kept)
    config.choose("embed.model", "all-minilm-l6-v2-fp32")
    assert path.is_symlink()
    assert kept.read_text().startswith("# mine\n")
    loaded = config.load()[0]
    assert (loaded.embed.model, loaded.recall.limit) == ("all-minilm-l6-v2-fp32", 5)
    assert os.listdir(kept.parent) == ["palace.toml"]
