from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.sound import Sound, make_sound

from palace_daemon.config import Config, WatchConfig
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.service.build import build
from palace_daemon.service.palace import LivePalace
from palace_daemon.watch.scripted import ScriptedNotifier

PalaceMaker = Callable[..., LivePalace]


class HandClock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def notifier() -> ScriptedNotifier:
    return ScriptedNotifier()


@pytest.fixture
def transcripts(tmp_path: Path) -> Path:
    directory = tmp_path / "transcripts"
    directory.mkdir()
    return directory


@pytest.fixture
def make_palace(tmp_path: Path, transcripts: Path, notifier: ScriptedNotifier) -> Iterator[PalaceMaker]:
    made: list[LivePalace] = []

    def make(data_dir: Path = tmp_path / "data", **fields: Any) -> LivePalace:
        watch = WatchConfig(defaults=False, paths=(str(transcripts),), **fields)
        palace = build(
            Config(data_dir=data_dir, watch=watch), embedder=HashingEmbedder(), notifier=notifier, clock=HandClock()
        )
        made.append(palace)
        return palace

    yield make
    for palace in made:
        palace.close()


@pytest.fixture
def palace(make_palace: PalaceMaker) -> LivePalace:
    return make_palace()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    """A store in which nothing is wrong."""
    return make_sound(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def data(sound: Sound, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    shutil.copytree(sound.data, tmp_path / "data")
    return tmp_path / "data"
