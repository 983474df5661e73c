"""A Palace without a daemon: answers from the existing store, writes nothing."""

from __future__ import annotations

from collections.abc import Callable

from palace_daemon.core.ports import StopSignal
from palace_daemon.core.transcripts import registry
from palace_daemon.model import ExchangeView, ModelView, RecallAnswer, RecallQuery, SessionView, SourceView
from palace_daemon.service import library
from palace_daemon.service.embedding import ModelHost
from palace_daemon.service.recall import Recall
from palace_daemon.store import views
from palace_daemon.store.store import ReadOnlyStore


class OfflinePalace:
    """The answering half of :class:`~palace_daemon.service.api.Palace`. Thread-safe."""

    def __init__(
        self, store: ReadOnlyStore, models: ModelHost, list_models: Callable[[], tuple[ModelView, ...]]
    ) -> None:
        """Take the store, the model, and the list of known models."""
        self._store = store
        self._models = models
        self._list_models = list_models
        self._recall = Recall(store, models.state, lambda: 0, registry.agents())

    def recall(self, query: RecallQuery, stop: StopSignal | None = None) -> RecallAnswer:
        """Answer a question; sources that changed since the last mining are not counted as pending."""
        return self._recall.search(query, stop)

    def get(self, item_id: str) -> ExchangeView:
        """Return one exchange."""
        return library.get(self._store, item_id)

    def sessions(
        self, *, agent: str = "", project: str = "", since: int | None = None, limit: int = 50, offset: int = 0
    ) -> tuple[SessionView, ...]:
        """Return sessions, newest first."""
        with self._store.read() as connection:
            return views.sessions(connection, agent=agent, project=project, since=since, limit=limit, offset=offset)

    def timeline(self, session_id: str) -> tuple[ExchangeView, ...]:
        """Return one session's exchanges."""
        return library.timeline(self._store, session_id)

    def sources(self, *, agent: str = "", state: str = "") -> tuple[SourceView, ...]:
        """Return transcript files."""
        with self._store.read() as connection:
            return views.sources(connection, agent=agent, state=state)

    def models(self) -> tuple[ModelView, ...]:
        """Return the known models."""
        return self._list_models()

    def totals(self) -> views.Totals:
        """Return the store's counts; there is no daemon whose status could be asked."""
        with self._store.read() as connection:
            return views.totals(connection)

    def close(self) -> None:
        """Close; idempotent."""
        self._models.close()
        self._store.close()
