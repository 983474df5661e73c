"""Removing a model that nothing needs: neither the settings, nor the store that they name."""

from __future__ import annotations

from pathlib import Path

from palace_daemon import places
from palace_daemon.config import Config
from palace_daemon.errors import ModelError
from palace_daemon.store import sqlite
from palace_daemon.store.store import ReadOnlyStore


def remove_model(config: Config, model_id: str) -> int:
    """Remove an installed model from the shared cache; returns how many bytes that freed.

    Vectors that it made stay in the store as they would after any switch: kept for going back until the next one.

    Raises:
        ModelError: It is in use, unknown or not installed, or cannot be removed.
        StoreError: There is a store, but it does not say which models it needs.
    """
    from palace_daemon.embed import removal  # noqa: PLC0415 - not needed to start

    needed = {config.embed.model: "the settings name it", **_needed_by(sqlite.database_path(config.data_dir))}
    if model_id in needed:
        raise ModelError(
            f"the model {model_id} is in use: {needed[model_id]}",
            hint="choose another one with `palace-daemon model use ID --wait` first",
        )
    return removal.remove(model_id, places.models_dir())


def _needed_by(database: Path) -> dict[str, str]:
    """Return the models that a store needs, and what for."""
    if not database.exists():
        return {}
    store = ReadOnlyStore(database)
    try:
        held = store.spaces()
    finally:
        store.close()
    roles = {held.answering: "it answers, until a switch is done", held.next: "a switch to it is under way"}
    return {space.model.partition("@")[0]: why for space, why in roles.items() if space is not None and space.model}
