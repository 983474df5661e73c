"""A Palace without a daemon: answers from the existing store, writes nothing."""

from __future__ import annotations

from collections.abc import Callable

from palace_daemon.model import ModelView
from palace_daemon.service.answers import Answers
from palace_daemon.service.models import Models
from palace_daemon.store import views
from palace_daemon.store.store import ReadOnlyStore


class OfflinePalace(Answers):
    """Answers; what changed in the sources since the last mining is not looked at. Thread-safe."""

    def __init__(self, store: ReadOnlyStore, models: Models, list_models: Callable[[], tuple[ModelView, ...]]) -> None:
        """Take the store, the models, and the list of known models."""
        super().__init__(store, models, lambda: 0, list_models)
        self._store = store

    def totals(self) -> views.Totals:
        """Return the store's counts; there is no daemon whose status could be asked."""
        with self._store.read() as connection:
            return views.totals(connection)

    def close(self) -> None:
        """Close; idempotent."""
        self._models.close()
        self._store.close()
