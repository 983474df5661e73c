"""Real drawers to embed: of anyone's transcripts, or of the packaged set of talk about coding work.

They come from a store that was filled as the daemon fills one, so they have the lengths that the daemon meets.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from palace_daemon.bench import haystack
from palace_daemon.bench.sets.jsonlines import JsonLines
from palace_daemon.config import Config, WatchConfig
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.service.build import build, token_counter
from palace_daemon.store import views
from palace_daemon.store.sqlite import database_path
from palace_daemon.store.store import ReadOnlyStore
from palace_daemon.watch.scripted import ScriptedNotifier

PACKAGED = Path(__file__).parent / "coding" / "dev.jsonl"
"""Composed for this project, see ``coding/README.md``."""


def of_transcripts(path: Path) -> list[str]:
    """Return the texts of the drawers that transcripts at or below ``path`` are cut into, each once.

    Raises:
        SourceError: There is nothing at ``path``.
    """
    with tempfile.TemporaryDirectory(prefix="palace-embed-") as folder:
        config = Config(data_dir=Path(folder), watch=WatchConfig(defaults=False))
        palace = build(config, embedder=HashingEmbedder(), notifier=ScriptedNotifier())
        try:
            palace.mine([str(path)], wait=True)
        finally:
            palace.close()
        return _stored(Path(folder))


def packaged() -> list[str]:
    """Return the texts of the drawers of the packaged set, each once."""
    with tempfile.TemporaryDirectory(prefix="palace-embed-") as folder:
        (case,) = JsonLines().read(PACKAGED)
        haystack.build_store(
            case.haystack, Path(folder), embedder=HashingEmbedder(), counter=haystack.CountingCache(token_counter())
        ).close()
        return _stored(Path(folder))


def spread(texts: Sequence[str], count: int) -> list[str]:
    """Return at most ``count`` of ``texts``, in order, from all over."""
    if len(texts) <= count:
        return list(texts)
    return [texts[at * len(texts) // count] for at in range(count)]


def _stored(data_dir: Path) -> list[str]:
    store = ReadOnlyStore(database_path(data_dir))
    try:
        with store.read_with_drawers() as (connection, drawers):
            found = views.drawer_texts(connection, sorted(drawers.ids[drawers.is_live].tolist()))
    finally:
        store.close()
    return list(dict.fromkeys(found[one].text for one in sorted(found)))
