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


@pytest.mark.parametrize(("word", "value"), [("on", True), ("Yes", True), ("off", False), ("NO", False)])
def test_a_switch_may_be_said_in_words_in_the_file_and_in_the_environment(path: Path, word: str, value: bool) -> None:
    path.write_text(f'[watch]\npolling = "{word}"\n')
    loaded, settings = config.load()
    assert loaded.watch.polling is value
    assert ("watch.polling", value, "file") in [(one.name, one.value, one.origin) for one in settings]
    path.unlink()
    assert config.load(environ={"PALACE_SERVE_TCP": word})[0].serve.tcp is value
    assert config.load({"watch.defaults": word})[0].watch.defaults is value


def test_a_word_for_a_switch_is_a_word_elsewhere() -> None:
    environ = {"PALACE_EMBED_MODEL": "on", "PALACE_WATCH_AGENTS_OFF": "no"}
    loaded = config.load(environ=environ)[0]
    assert (loaded.embed.model, loaded.watch.agents_off) == ("on", ("no",))
    with pytest.raises(ConfigError, match=r"bad value for recall\.limit"):
        config.load(environ={"PALACE_RECALL_LIMIT": "on"})


def test_the_mark_that_some_editors_put_at_the_beginning_is_not_read(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf[recall]\nlimit = 5\n")
    assert config.load()[0].recall.limit == 5
    config.choose("embed.model", "all-minilm-l6-v2-fp32")
    assert (config.load()[0].recall.limit, config.load()[0].embed.model) == (5, "all-minilm-l6-v2-fp32")


@pytest.mark.parametrize(
    "text",
    [
        "[embed\n",
        "embed = 3\n",
        "a = " + "9" * 5_000,
        "a = " + "[" * 5_000,
        "[embed]\nmodel = 'a'\nmodel = 'b'\n",
        "\udcff",
    ],
)
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
