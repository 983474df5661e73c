"""The answering half of a Palace, the same with and without a daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from palace_daemon.core.ports import StopSignal
from palace_daemon.core.transcripts import registry
from palace_daemon.errors import NotFoundError, RequestError
from palace_daemon.model import (
    Embedding,
    ExchangeView,
    ModelView,
    NoteView,
    ProjectView,
    RecallAnswer,
    RecallQuery,
    SessionView,
    SourceView,
)
from palace_daemon.service import hits, notes, project_list, projects_near
from palace_daemon.service.models import Models
from palace_daemon.service.recall import Recall, as_stored, check_agent, check_neighbours, coverage, is_project
from palace_daemon.store import hits as around
from palace_daemon.store import spaces, views
from palace_daemon.store.notes import AGENT
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.store import ReadOnlyStore, Store


class Answers:
    """Answers questions from a store. Thread-safe; see :class:`~palace_daemon.service.api.Palace` for the methods."""

    def __init__(
        self,
        store: Store | ReadOnlyStore,
        models: Models,
        sources_pending: Callable[[], int],
        list_models: Callable[[], tuple[ModelView, ...]],
    ) -> None:
        """Take the store, the models, how many sources are still queued, and the list of known models."""
        self._reading = store
        self._models = models
        self._list_models = list_models
        self._recall = Recall(store, models.state, sources_pending, _known_agents)

    def recall(self, query: RecallQuery, stop: StopSignal | None = None) -> RecallAnswer:
        """Answer a question."""
        answer = hits.fitted(self._recall.search(query, stop), query)
        if not query.project or answer.in_scope:
            return answer
        with self._reading.read_with_drawers() as (_, drawers):
            return msgspec.structs.replace(answer, projects_near=projects_near.of(drawers, as_stored(query.project)))

    def get(self, item_id: str, *, neighbours: int = 0) -> ExchangeView:
        """Return the exchange that an exchange id, a drawer id, or eight or more digits of one name.

        Raises:
            NotFoundError: None is so named, or the exchange has no such drawer.
            RequestError: Several are, or there cannot be so many neighbours.
        """
        check_neighbours(neighbours)
        with self._reading.read() as connection:
            found = views.exchange_ids(connection, as_stored(item_id))
            if not found:
                raise NotFoundError("no exchange has this id", hint="ids stand in the hits of a recall")
            if len(found) > 1:
                raise RequestError("several exchanges begin with this id", hint="give more digits")
            view = views.exchange(connection, found[0])
            _check_drawer(view, item_id)
            beside = around.neighbours(connection, found, neighbours)
            return msgspec.structs.replace(view, neighbours=beside.get(found[0], ()))

    def timeline(self, session_id: str) -> tuple[ExchangeView, ...]:
        """Return a session's exchanges in order.

        Raises:
            NotFoundError: No session is so named.
            RequestError: Several are.
        """
        with self._reading.read() as connection:
            named = views.session_ids(connection, as_stored(session_id))
            if not named:
                raise NotFoundError("no session has this id", hint="`palace-daemon sessions` lists them")
            if len(named) > 1:
                raise RequestError("several sessions begin with this id", hint="give more characters")
            return views.timeline(connection, named[0])

    def sessions(
        self, *, agent: str = "", project: str = "", since: int | None = None, limit: int = 50, offset: int = 0
    ) -> tuple[SessionView, ...]:
        """Return sessions, newest first.

        Raises:
            RequestError: There is no such agent.
        """
        wanted = as_stored(project)
        is_wanted = (lambda one: is_project(one, wanted)) if wanted else None
        with self._of_agent(agent) as (connection, of):
            return views.sessions(connection, agent=of, is_wanted=is_wanted, since=since, limit=limit, offset=offset)

    def projects(self, *, limit: int = 50, offset: int = 0) -> tuple[ProjectView, ...]:
        """Return projects, the one with the newest exchange first."""
        with self._reading.read_with_drawers() as (_, drawers):
            return project_list.of(drawers)[offset : offset + limit]

    def sources(self, *, agent: str = "", state: str = "") -> tuple[SourceView, ...]:
        """Return transcript files.

        Raises:
            RequestError: There is no such agent.
        """
        with self._of_agent(agent) as (connection, of):
            return views.sources(connection, agent=of, state=as_stored(state))

    @contextmanager
    def _of_agent(self, agent: str) -> Iterator[tuple[Connection, str]]:
        """Yield a read transaction, and a filter's agent as the store knows it."""
        of = as_stored(agent)
        with self._reading.read() as connection:
            if of:
                check_agent(connection, of, _known_agents())
            yield connection, of

    def notes(
        self,
        *,
        project: str = "",
        tags: Sequence[str] = (),
        include_superseded: bool = False,
        limit: int = 50,
        offset: int = 0,
    ) -> tuple[NoteView, ...]:
        """Return notes, newest first."""
        return notes.listed(
            self._reading,
            project=project,
            tags=tags,
            include_superseded=include_superseded,
            limit=limit,
            offset=offset,
        )

    def models(self) -> tuple[ModelView, ...]:
        """Return the known models."""
        chosen = self._models.wanted.model_id
        return tuple(msgspec.structs.replace(view, is_active=view.model_id == chosen) for view in self._list_models())

    def embedding(self) -> Embedding:
        """Return how far each model's vectors are."""
        with self._reading.read() as connection:
            return Embedding(coverage=coverage(spaces.read(connection)))


def _check_drawer(view: ExchangeView, item_id: str) -> None:
    """Raise if ``item_id`` names a drawer that the exchange does not have; its ordinals are 0, 1 and so on."""
    _, point, ordinal = item_id.strip().partition(".")
    ordinals = [drawer_id.rpartition(".")[2] for drawer_id in view.drawer_ids]
    if point and ordinal not in ordinals:
        has = " to ".join(f".{one}" for one in (*ordinals[:1], *ordinals[1:][-1:])) or "none"
        raise NotFoundError("the exchange has no such drawer", hint=f"it has {has}")


def _known_agents() -> Sequence[str]:
    return (*registry.agents(), AGENT)
