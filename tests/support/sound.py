"""A store in which nothing is wrong, to be damaged; and what ``doctor`` says of a copy, and does with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from palace_daemon.config import Config, WatchConfig
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.model import ForgetRequest
from palace_daemon.service import diagnosis, mending
from palace_daemon.service.build import build
from palace_daemon.service.palace import LivePalace
from palace_daemon.store import sqlite
from palace_daemon.watch.scripted import ScriptedNotifier
from support.damage import WORD, write_sessions
from support.dumps import logical_dump
from support.traces import traces

NOTE = "Tea is in the left cupboard."


class Sound(NamedTuple):
    """A store in which nothing is wrong, made once."""

    data: Path
    transcripts: Path
    dump: dict[str, Any]


def config(data: Path, transcripts: Path) -> Config:
    return Config(data_dir=data, watch=WatchConfig(defaults=False, paths=(str(transcripts),)))


def open_palace(data: Path, transcripts: Path) -> LivePalace:
    return build(config(data, transcripts), embedder=HashingEmbedder(), notifier=ScriptedNotifier(), clock=lambda: 0)


def make_sound(base: Path) -> Sound:
    """Mine two sessions into a new store, remember :data:`NOTE`, and forget what holds ``WORD``."""
    transcripts = base / "transcripts"
    write_sessions(transcripts, 8)
    opened = open_palace(base / "data", transcripts)
    opened.mine(wait=True)
    opened.remember(NOTE, now=1)
    secret = next(view.exchange_id for view in opened.timeline("s1") if WORD in view.user_text)
    opened.forget(ForgetRequest(exchanges=(secret,)))
    opened.mine(wait=True)
    opened.close()
    return Sound(base / "data", transcripts, logical_dump(sqlite.database_path(base / "data")))


def failing(data: Path, sound: Sound) -> list[str]:
    found = diagnosis.check(config(data, sound.transcripts), embedder=HashingEmbedder())
    return [finding.name for finding in found if finding.level == "fail"]


def mend(data: Path, sound: Sound) -> dict[str, int]:
    return dict(mending.mend(config(data, sound.transcripts), embedder=HashingEmbedder()))


def mine(data: Path, sound: Sound) -> None:
    opened = open_palace(data, sound.transcripts)
    opened.mine(wait=True)
    opened.close()


def assert_as_before(data: Path, sound: Sound) -> None:
    assert failing(data, sound) == []
    assert logical_dump(sqlite.database_path(data)) == sound.dump
    assert traces(data, (WORD,)) == [], "what was forgotten came back"
