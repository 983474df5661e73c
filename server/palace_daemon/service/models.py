"""The models of a running Palace: the one that is wanted, and the one whose stored vectors answer until it takes over.

Outside a switch the two are one. During a switch both are in memory: the old one embeds questions, and texts that come
meanwhile, so that no answer is worse than before it. The store says which space answers, see
:mod:`palace_daemon.store.spaces`; a model is looked up here by the space that an answer is made from.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from palace_daemon.core.ports import Embedder
from palace_daemon.service.model_host import ModelHost
from palace_daemon.service.recall import ModelState
from palace_daemon.store.spaces import Spaces

LEAVING_S = 10.0
"""How long a model that answers no more is kept: longer than any answer takes that was begun before."""

OpenHost = Callable[[str], ModelHost | None]
"""Returns a host for the model of a stored space, or None where this version cannot make such vectors any more."""


class Models:
    """Holds a host for each model in use. Thread-safe."""

    def __init__(
        self,
        wanted: ModelHost,
        open_host: OpenHost = lambda _space: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the host of the configured model, the way to one for what the store holds already, and a clock."""
        self._wanted = wanted
        self._open_host = open_host
        self._clock = clock
        self._others: dict[str, ModelHost | None] = {}
        self._leaving: list[tuple[float, str, ModelHost]] = []
        """When they began to leave, and their spaces."""
        self._lock = threading.Lock()
        self._on_change: Callable[[], None] | None = None
        self._is_closed = False

    @property
    def wanted(self) -> ModelHost:
        """Return the host of the model that is configured."""
        return self._wanted

    def start(self, spaces: Spaces, on_change: Callable[[], None] = lambda: None) -> None:
        """Begin to load what is needed; ``on_change`` is called when a model is there, and when a try has failed."""
        with self._lock:
            self._on_change = on_change
        self._wanted.start(on_change)
        self.follow(spaces)

    def load_now(self, spaces: Spaces) -> None:
        """Load the model that answers on this thread, for uses without a daemon."""
        self.follow(spaces)
        (self._host(spaces.answering.model) or self._wanted).load_now()

    def want(self, host: ModelHost) -> None:
        """Have another model take over; the former one goes on answering as long as the store says so."""
        with self._lock:
            if self._is_closed:
                return
            held = self._take_back(host.space)
            former, self._wanted = self._wanted, held if held is not None and not held.has_failed else host
            if former.space not in {"", self._wanted.space}:
                self._others[former.space] = former
            kept = [self._wanted, *self._others.values()]
            done_with = [one for one in (held, former) if one is not None and one not in kept]
            on_change = self._on_change
        for one in done_with:
            one.close(0.0)
        if on_change is not None:
            self._wanted.start(on_change)
            on_change()

    def _take_back(self, space: str) -> ModelHost | None:
        """Return the host of ``space`` that is held beside the wanted one, and hold it there no more."""
        if (host := self._others.pop(space, None)) is not None:
            return host
        leaving = next((one for one in self._leaving if one[1] == space), None)
        if leaving is None:
            return None
        self._leaving.remove(leaving)
        return leaving[2]

    def follow(self, spaces: Spaces) -> None:
        """Hold a host for the space that answers, and let go of those that no answer is made from any more."""
        answering = spaces.answering.model
        with self._lock:
            if self._is_closed:
                return
            now = self._clock()
            for space in [space for space in self._others if space != answering]:
                if (host := self._others.pop(space)) is not None:
                    self._leaving.append((now, space, host))
            gone = [host for since, _, host in self._leaving if since <= now - LEAVING_S]
            self._leaving = [one for one in self._leaving if one[2] not in gone]
            host = None
            if answering not in {"", self._wanted.space} and answering not in self._others:
                host = self._others[answering] = self._open_host(answering)
        for one in gone:
            one.close(0.0)
        if host is not None and self._on_change is not None:
            host.start(self._on_change)

    def embedder(self, space: str) -> Embedder | None:
        """Return what makes vectors of ``space``, if it is loaded."""
        host = self._host(space)
        return host.state().embedder if host is not None else None

    def is_lost(self, space: str) -> bool:
        """Return whether nothing can make vectors of ``space``, nor is about to."""
        host = self._host(space)
        return host is None or host.has_failed

    def knows(self, space: str) -> bool:
        """Return whether this version can make vectors of ``space`` at all."""
        return self._host(space) is not None

    def state(self, space: str) -> ModelState:
        """Return what can embed a question that is compared with vectors of ``space``, or why nothing can."""
        host = self._host(space)
        if host is not None:
            return host.state()
        wanted = self._wanted.state()
        if wanted.embedder is None:
            return wanted
        reason = _mismatch(space, self._wanted)
        return ModelState(None, space.partition("@")[0] or wanted.model_id, reason)

    def failure(self) -> str:
        """Return why no text gets a vector, and none is about to; empty while something can embed."""
        with self._lock:
            hosts = [self._wanted, *(host for host in self._others.values() if host is not None)]
        return self._wanted.state().reason if all(host.has_failed for host in hosts) else ""

    def close(self) -> None:
        """Stop loading and release all models; idempotent."""
        with self._lock:
            self._is_closed = True
            hosts = [self._wanted, *(host for host in self._others.values() if host is not None)]
            hosts += [host for _, _, host in self._leaving]
        for host in hosts:
            host.close()

    def _host(self, space: str) -> ModelHost | None:
        with self._lock:
            held = [self._wanted, self._others.get(space), *(host for _, of, host in self._leaving if of == space)]
        known = [host for host in held if host is not None and space and host.space == space]
        return next((host for host in known if host.state().embedder is not None), known[0] if known else None)


def _mismatch(space: str, wanted: ModelHost) -> str:
    """Return why the loaded model's vectors cannot be compared with the stored ones."""
    if not space:
        return "the store has no vectors yet"
    stored, loaded = space.partition("@")[0], wanted.model_id
    if stored == loaded:
        return f"the store has vectors of another version of {stored}"
    return f"the store has vectors of {stored}, but {loaded} is loaded"
