"""Which model embeds, and the thread that gives every stored text its vector, newest first."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Sequence

import numpy as np

from palace_daemon.core.ports import Embedder, Float32, StopSignal
from palace_daemon.errors import CancelledError, ClosedError, PalaceError
from palace_daemon.service.recall import ModelState
from palace_daemon.store import vectors
from palace_daemon.store.store import Store

logger = logging.getLogger(__name__)

BATCH_TEXTS = 16
"""Texts between two looks at the queue: about a second on two slow cores, so a new line overtakes a backlog soon."""
LOAD_RETRY_FIRST_S = 60.0
"""Between a failed load and the next try; doubled each time, since a try may be a download."""
LOAD_RETRY_MAX_S = 1_800.0
"""The longest such wait: a machine that comes online has vectors within half an hour."""
_IDLE_WAIT_S = 30.0
_RETRY_S = 30.0
_MODEL_WAIT_S = 1.0
_PLAIN_TEXT = "A plain sentence."
"""What any working embedder takes."""
_HASH_DIGITS = 12
"""Of a text's hash in the log: enough to find it in the store."""

Loader = Callable[[StopSignal], Embedder]
"""Loads the configured model, installing it first where it is missing; slow."""


class ModelHost:
    """Holds the embedder, loading it in the background until it is there. Thread-safe."""

    def __init__(self, model_id: str, embedder: Embedder | None, loader: Loader | None) -> None:
        """Take an embedder that is ready, or the way to load one."""
        reason = "" if embedder else "the model is not loaded"
        self._state = ModelState(embedder, embedder.model_id if embedder else model_id, reason)
        self._loader = loader
        self._is_load_failed = False
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        if embedder:
            self._ready.set()

    @property
    def model_id(self) -> str:
        """Return the id of the model whose vectors count."""
        return self._state.model_id

    def start(self) -> None:
        """Begin to load the model in the background, once; what fails is tried again until :meth:`close`."""
        if self._state.embedder is None and self._loader is not None and self._thread is None:
            self._say("the model is being loaded")
            self._thread = threading.Thread(target=self._keep_loading, name="palace-model", daemon=True)
            self._thread.start()

    def load_now(self) -> None:
        """Load the model on this thread, for uses without a daemon; failures become the reason."""
        if self._state.embedder is None and self._loader is not None:
            self._load(self._loader)

    def state(self) -> ModelState:
        """Return what can embed a question now."""
        return self._state

    def wait(self, timeout_s: float) -> Embedder | None:
        """Wait until the model is ready, for ``timeout_s`` at most; returns the embedder if there is one."""
        self._ready.wait(timeout_s)
        return self._state.embedder

    @property
    def has_failed(self) -> bool:
        """Whether there is no embedder and none is to be waited for: the last try failed, or there is no way."""
        return self._state.embedder is None and (self._is_load_failed or self._loader is None)

    def describe(self) -> str:
        """Return the state as ``status`` shows it."""
        state = self._state
        if state.embedder is not None:
            return "ready"
        return f"failed: {state.reason}" if self.has_failed else "loading"

    def close(self) -> None:
        """Stop loading and release the model; idempotent."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2.0)
        if self._state.embedder is not None:
            self._state.embedder.close()

    def _keep_loading(self) -> None:
        """Load the model; after a failure wait, each time twice as long, and try again."""
        delay_s = LOAD_RETRY_FIRST_S
        while self._loader is not None and not self._load(self._loader):
            if self._stop.wait(delay_s):
                return
            delay_s = min(2 * delay_s, LOAD_RETRY_MAX_S)

    def _load(self, loader: Loader) -> bool:
        """Try once; returns whether there is an embedder now."""
        try:
            embedder = loader(self._stop)
        except CancelledError:
            self._fail("loading was stopped")
        except PalaceError as exc:
            self._fail(str(exc))
            logger.warning("the model cannot be used: %s", exc)
        except Exception as exc:
            self._fail(f"the model cannot be loaded: {type(exc).__name__}")
            logger.exception("loading the model failed")
        else:
            self._state = ModelState(embedder, self._state.model_id, "")
            self._ready.set()
            if self._stop.is_set():  # close() may have given up waiting for this
                embedder.close()
            return True
        return False

    def _fail(self, reason: str) -> None:
        self._say(reason)
        self._is_load_failed = True

    def _say(self, reason: str) -> None:
        self._state = self._state._replace(reason=reason)


class EmbeddingLoop:
    """The thread that embeds what is queued. Thread-safe.

    A text that the embedder refuses is set aside until the process ends, and those behind it go on.
    """

    def __init__(self, store: Store, models: ModelHost, on_embedded: Callable[[int], None]) -> None:
        """Take the store, the model, and whom to tell how many vectors were stored."""
        self._store = store
        self._models = models
        self._on_embedded = on_embedded
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._embedded = 0
        self._storing = threading.Lock()
        self._fault = ""
        self._left_over = ""
        self._refused: set[bytes] = set()
        self._refusal = ""
        self._thread = threading.Thread(target=self._run, name="palace-embedding", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Say that there may be new texts."""
        self._wake.set()

    @property
    def embedded(self) -> int:
        """How many vectors this loop has stored; waits for a write that is under way, so that none is missed."""
        with self._storing:
            return self._embedded

    @property
    def error(self) -> str:
        """Why queued texts stay without a vector; empty while work goes on, or when none are left.

        Either the fault that stopped the last batch, or, once nothing else is queued, how many texts are set aside
        and why. After :meth:`wake` the latter is unknown, and not told, until the queue was looked at.
        """
        return self._fault or ("" if self._wake.is_set() else self._left_over)

    def close(self) -> None:
        """Stop after the current texts; idempotent."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            embedder = self._models.wait(_MODEL_WAIT_S)
            if embedder is None:
                continue
            try:
                self._step(embedder)
            except Exception as exc:  # noqa: BLE001 - the queue is in the store: nothing is lost by trying again
                if not self._stop.is_set():
                    self._pause(exc)

    def _pause(self, exc: Exception) -> None:
        """Tell what failed, where, but not in foreign words, and wait for the next try."""
        self._fault = _reason(exc)
        frames = "".join(traceback.format_tb(exc.__traceback__))
        logger.error("embedding failed (%s); trying again in %.0f s\n%s", self._fault, _RETRY_S, frames)
        self._stop.wait(_RETRY_S)

    def _step(self, embedder: Embedder) -> None:
        """Embed a batch, or wait for texts where there are none."""
        self._left_over = ""
        self._wake.clear()
        is_idle = not self._embed_batch(embedder)
        self._fault = ""
        if is_idle:
            self._left_over = self._describe_refused()
            self._wake.wait(_IDLE_WAIT_S)

    def _embed_batch(self, embedder: Embedder) -> int:
        """Return how many texts were dealt with."""
        queued = self._next_texts()
        if not queued:
            return 0
        hashes, matrix = self._embed(embedder, queued)
        if hashes:
            with self._storing:
                stored = self._store.save_vectors(embedder.model_id, hashes, matrix)
                self._embedded += stored
            self._on_embedded(stored)
        return len(queued)

    def _next_texts(self) -> list[tuple[bytes, str]]:
        """Return the newest queued texts that are not set aside, as (hash, text)."""
        limit = BATCH_TEXTS + len(self._refused)
        with self._store.read() as connection:
            queued = vectors.pending(connection, limit)
        if len(queued) < limit:  # this is the whole queue: what is not in it has left the store
            self._refused.intersection_update(hash_ for hash_, _ in queued)
        return [(hash_, text) for hash_, text in queued if hash_ not in self._refused][:BATCH_TEXTS]

    def _embed(self, embedder: Embedder, queued: Sequence[tuple[bytes, str]]) -> tuple[list[bytes], Float32]:
        """Return the hashes of the texts that could be embedded, and their vectors, float32 ``[n, dim]``."""
        try:
            matrix = embedder.embed_passages([text for _, text in queued], self._stop)
        except (CancelledError, ClosedError):
            raise
        except Exception as exc:  # noqa: BLE001 - whatever a text provokes, the others are to be tried
            logger.warning("%d texts cannot be embedded at once, trying each: %s", len(queued), _reason(exc))
            return self._embed_each(embedder, queued)
        return [hash_ for hash_, _ in queued], matrix

    def _embed_each(self, embedder: Embedder, queued: Sequence[tuple[bytes, str]]) -> tuple[list[bytes], Float32]:
        """Do the same text by text, setting aside those that fail."""
        hashes: list[bytes] = []
        rows = [np.empty((0, embedder.dim), np.float32)]
        for hash_, text in queued:
            try:
                rows.append(embedder.embed_passages([text], self._stop))
            except (CancelledError, ClosedError):
                raise
            except Exception as exc:  # noqa: BLE001 - see above
                self._set_aside(embedder, hash_, _reason(exc))
            else:
                hashes.append(hash_)
        return hashes, np.concatenate(rows)

    def _set_aside(self, embedder: Embedder, text_hash: bytes, reason: str) -> None:
        """Skip a text from now on, unless the embedder itself is at fault: then its error is raised."""
        embedder.embed_passages([_PLAIN_TEXT], self._stop)
        self._refused.add(text_hash)
        self._refusal = reason
        logger.warning("text %s cannot be embedded: %s", text_hash.hex()[:_HASH_DIGITS], reason)

    def _describe_refused(self) -> str:
        count = len(self._refused)
        return f"{count} {'text' if count == 1 else 'texts'} cannot be embedded: {self._refusal}" if count else ""


def _reason(exc: Exception) -> str:
    """Return what may be shown and logged of ``exc``: foreign messages may quote a text."""
    return str(exc) if isinstance(exc, PalaceError) else type(exc).__name__
