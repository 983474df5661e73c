"""Which model embeds, and the thread that gives every stored text its vector, newest first."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from palace_daemon.core.ports import Embedder, StopSignal
from palace_daemon.errors import CancelledError, ClosedError, PalaceError
from palace_daemon.service.recall import ModelState
from palace_daemon.store import vectors
from palace_daemon.store.store import Store

logger = logging.getLogger(__name__)

BATCH_TEXTS = 16
"""Texts between two looks at the queue: about a second on two slow cores, so a new line overtakes a backlog soon."""
_IDLE_WAIT_S = 30.0
_RETRY_S = 30.0

Loader = Callable[[StopSignal], Embedder]
"""Loads the configured model, installing it first where it is missing; slow."""


class ModelHost:
    """Holds the embedder, loading it in the background. Thread-safe."""

    def __init__(self, model_id: str, embedder: Embedder | None, loader: Loader | None) -> None:
        """Take an embedder that is ready, or the way to load one."""
        self._model_id = embedder.model_id if embedder else model_id
        self._embedder = embedder
        self._loader = loader
        self._reason = "" if embedder else "the model is not loaded"
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        if embedder:
            self._ready.set()

    @property
    def model_id(self) -> str:
        """Return the id of the model whose vectors count."""
        return self._model_id

    def start(self) -> None:
        """Load the model in the background, once."""
        if self._embedder is None and self._loader is not None and self._thread is None:
            self._reason = "the model is being loaded"
            self._thread = threading.Thread(target=self._load, name="palace-model", daemon=True)
            self._thread.start()

    def load_now(self) -> None:
        """Load the model on this thread, for uses without a daemon; failures become the reason."""
        if self._embedder is None and self._loader is not None:
            self._load()

    def state(self) -> ModelState:
        """Return what can embed a question now."""
        return ModelState(self._embedder, self._model_id, self._reason)

    def wait(self, timeout_s: float) -> Embedder | None:
        """Wait until the model is ready or failed; returns the embedder if there is one."""
        self._ready.wait(timeout_s)
        return self._embedder

    @property
    def has_failed(self) -> bool:
        """Whether there will be no embedder."""
        return self._embedder is None and (self._ready.is_set() or self._loader is None)

    def describe(self) -> str:
        """Return the state as ``status`` shows it."""
        if self._embedder is not None:
            return "ready"
        return f"failed: {self._reason}" if self.has_failed else "loading"

    def close(self) -> None:
        """Stop loading and release the model; idempotent."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2.0)
        if self._embedder is not None:
            self._embedder.close()

    def _load(self) -> None:
        if self._loader is None:
            return
        try:
            embedder = self._loader(self._stop)
        except CancelledError:
            self._reason = "loading was stopped"
        except PalaceError as exc:
            self._reason = str(exc)
            logger.warning("the model cannot be used: %s", exc)
        except Exception as exc:
            self._reason = f"the model cannot be loaded: {type(exc).__name__}"
            logger.exception("loading the model failed")
        else:
            self._reason = ""
            self._embedder = embedder
        self._ready.set()


class EmbeddingLoop:
    """The thread that embeds what is queued. Thread-safe."""

    def __init__(self, store: Store, models: ModelHost, on_embedded: Callable[[int], None]) -> None:
        """Take the store, the model, and whom to tell how many vectors were stored."""
        self._store = store
        self._models = models
        self._on_embedded = on_embedded
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._embedded = 0
        self._error = ""
        self._thread = threading.Thread(target=self._run, name="palace-embedding", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Say that there may be new texts."""
        self._wake.set()

    @property
    def embedded(self) -> int:
        """How many vectors this loop has stored."""
        return self._embedded

    @property
    def error(self) -> str:
        """Why the last batch failed; empty when it did not."""
        return self._error

    def close(self) -> None:
        """Stop after the current texts; idempotent."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            embedder = self._models.wait(1.0)
            if embedder is None:
                continue
            try:
                self._wake.clear()
                if not self._embed_batch(embedder):
                    self._wake.wait(_IDLE_WAIT_S)
            except (CancelledError, ClosedError):
                continue
            except Exception as exc:  # the queue is in the store: nothing is lost by trying again
                self._error = str(exc) if isinstance(exc, PalaceError) else type(exc).__name__
                logger.exception("embedding failed; trying again in %.0f s", _RETRY_S)
                self._stop.wait(_RETRY_S)

    def _embed_batch(self, embedder: Embedder) -> int:
        with self._store.read() as connection:
            queued = vectors.pending(connection, BATCH_TEXTS)
        if not queued:
            return 0
        matrix = embedder.embed_passages([text for _, text in queued], self._stop)
        stored = self._store.save_vectors(embedder.model_id, [hash_ for hash_, _ in queued], matrix)
        self._embedded += stored
        self._error = ""
        self._on_embedded(stored)
        return len(queued)
