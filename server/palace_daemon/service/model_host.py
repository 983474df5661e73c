"""One model, loaded in the background until it is there."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from palace_daemon.core.ports import Embedder, StopSignal
from palace_daemon.errors import CancelledError, PalaceError
from palace_daemon.service.recall import ModelState

logger = logging.getLogger(__name__)

LOAD_RETRY_FIRST_S = 60.0
"""Between a failed load and the next try; doubled each time, since a try may be a download."""
LOAD_RETRY_MAX_S = 1_800.0
"""The longest such wait: a machine that comes online has vectors within half an hour."""

Loader = Callable[[StopSignal], Embedder]
"""Loads one model, installing it first where that is allowed and needed; slow."""


class ModelHost:
    """Holds an embedder, loading it in the background until it is there. Thread-safe."""

    def __init__(self, model_id: str, embedder: Embedder | None, loader: Loader | None, *, space: str = "") -> None:
        """Take an embedder that is ready, or the way to load one.

        ``space`` is the fingerprint that it will have; empty while nobody knows.
        """
        reason = "" if embedder else "the model is not loaded"
        self._state = ModelState(embedder, embedder.model_id if embedder else model_id, reason)
        self._loader = loader
        self._space = embedder.fingerprint if embedder else space
        self._is_load_failed = False
        self._load_ms: float | None = None
        self._on_change: Callable[[], None] = lambda: None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def model_id(self) -> str:
        """Return the id of the model."""
        return self._state.model_id

    @property
    def space(self) -> str:
        """Return the fingerprint of its vectors; empty while it is not known."""
        return self._space

    @property
    def load_ms(self) -> float | None:
        """Return how long loading took, runtime included; None before that, and where there was nothing to load."""
        return self._load_ms

    def start(self, on_change: Callable[[], None] = lambda: None) -> None:
        """Begin to load the model in the background, once; what fails is tried again until :meth:`close`.

        ``on_change`` is called from that thread when the model is there, and when a try has failed.
        """
        self._on_change = on_change
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

    def close(self, wait_s: float = 2.0) -> None:
        """Stop loading and release the model; idempotent. Waits so long for a load that is under way."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(wait_s)
        if self._state.embedder is not None:
            self._state.embedder.close()

    def _keep_loading(self) -> None:
        """Load the model; after a failure wait, each time twice as long, and try again."""
        delay_s = LOAD_RETRY_FIRST_S
        while self._loader is not None and not self._load(self._loader):
            self._on_change()
            if self._stop.wait(delay_s):
                return
            delay_s = min(2 * delay_s, LOAD_RETRY_MAX_S)
        self._on_change()

    def _load(self, loader: Loader) -> bool:
        """Try once; returns whether there is an embedder now."""
        began = time.monotonic()
        try:
            embedder = loader(self._stop)
        except CancelledError:
            self._fail("loading was stopped")
        except PalaceError as exc:
            self._fail(str(exc))
            logger.warning("the model %s cannot be used: %s", self.model_id, exc)
        except Exception as exc:
            self._fail(f"the model cannot be loaded: {type(exc).__name__}")
            logger.exception("loading the model failed")
        else:
            self._load_ms = round((time.monotonic() - began) * 1000, 1)
            self._space = embedder.fingerprint
            self._state = ModelState(embedder, self._state.model_id, "")
            if self._stop.is_set():  # close() may have given up waiting for this
                embedder.close()
            return True
        return False

    def _fail(self, reason: str) -> None:
        self._say(reason)
        self._is_load_failed = True

    def _say(self, reason: str) -> None:
        self._state = self._state._replace(reason=reason)
