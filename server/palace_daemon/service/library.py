"""Looking things up by id, for the live and the read-only Palace alike."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from palace_daemon.errors import NotFoundError, RequestError
from palace_daemon.model import ExchangeView
from palace_daemon.store import views
from palace_daemon.store.sqlite import Connection


class Readable(Protocol):
    """The part of a store that look-ups need."""

    def read(self) -> AbstractContextManager[Connection]:
        """Yield a connection inside a read transaction."""
        ...


def get(store: Readable, item_id: str) -> ExchangeView:
    """Return the exchange that an exchange id, a drawer id, or eight or more digits of one name.

    Raises:
        NotFoundError: None is so named.
        RequestError: Several are.
    """
    with store.read() as connection:
        found = views.exchange_ids(connection, item_id)
        if not found:
            raise NotFoundError("no exchange has this id", hint="ids stand in the hits of a recall")
        if len(found) > 1:
            raise RequestError("several exchanges begin with this id", hint="give more digits")
        return views.exchange(connection, found[0])


def timeline(store: Readable, session_id: str) -> tuple[ExchangeView, ...]:
    """Return a session's exchanges in order.

    Raises:
        NotFoundError: No session is so named.
        RequestError: Several are.
    """
    with store.read() as connection:
        named = views.session_ids(connection, session_id)
        if not named:
            raise NotFoundError("no session has this id", hint="`palace-daemon sessions` lists them")
        if len(named) > 1:
            raise RequestError("several sessions begin with this id", hint="give more characters")
        return views.timeline(connection, named[0])
