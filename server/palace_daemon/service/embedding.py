"""The thread that gives every stored text its vector, newest first, and carries out a switch of models."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Sequence

import numpy as np

from palace_daemon.core.ports import Embedder, Float32
from palace_daemon.errors import CancelledError, ClosedError, PalaceError, StoreDamagedError
from palace_daemon.service.models import Models
from palace_daemon.store import vectors
from palace_daemon.store.spaces import Spaces
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.store import Store

logger = logging.getLogger(__name__)

BATCH_TEXTS = 16
"""Texts between two looks at the queue: about a second on two slow cores, so a new line overtakes a backlog soon.

Nor are more texts ever in memory at once, however many wait in the store.
"""
DELETED_VECTORS = 1_000
"""Vectors without a use that go in one transaction."""
PACE_S = 60.0
"""How far back the pace is measured."""
_IDLE_WAIT_S = 30.0
_RETRY_S = 30.0
_PLAIN_TEXT = "A plain sentence."
"""What any working embedder takes."""
_HASH_DIGITS = 12
"""Of a text's hash in the log: enough to find it in the store."""


class Pace:
    """How many texts a second were embedded lately. Thread-safe: one thread notes, any reads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Take a clock of seconds."""
        self._clock = clock
        self._batches: tuple[tuple[float, float, int], ...] = ()

    def note(self, began: float, count: int) -> None:
        """Note a batch of ``count`` texts that began at ``began`` and ends now."""
        self._batches = (*self._recent(), (began, self._clock(), count))

    def per_s(self) -> float:
        """Return texts a second over the batches of the last minute, the pauses between them left out; 0 if none."""
        recent = self._recent()
        spent = sum(end - began for began, end, _ in recent)
        return round(sum(count for _, _, count in recent) / spent, 2) if spent > 0 else 0.0

    def _recent(self) -> tuple[tuple[float, float, int], ...]:
        since = self._clock() - PACE_S
        return tuple(batch for batch in self._batches if batch[1] >= since)


class _Interruption:
    """Says that nothing is to be embedded now. One flag a reason, so that none takes back the other's word."""

    def __init__(self, end: threading.Event) -> None:
        """Take what is set for good."""
        self._end = end
        self.is_pause = False

    def is_set(self) -> bool:
        return self.is_pause or self._end.is_set()


class EmbeddingLoop:
    """The thread that embeds what is queued. Thread-safe.

    What the answering model lacks comes first, so that an answer is as complete as it can be; then what a next model
    needs to take over. A text that a model refuses is set aside until the process ends, and those behind it go on.
    """

    def __init__(self, store: Store, models: Models, on_embedded: Callable[[int], None]) -> None:
        """Take the store, the models, and whom to tell how many vectors were stored."""
        self._store = store
        self._models = models
        self._on_embedded = on_embedded
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._interrupt = _Interruption(self._stop)
        self._embedded = 0
        self._storing = threading.Lock()
        self._fault = ""
        self._left_over = ""
        self._answering = ""
        self._refused: dict[str, set[bytes]] = {}
        self._refusal = ""
        self.pace = Pace()
        self._thread = threading.Thread(target=self._run, name="palace-embedding", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Say that there may be new texts, or a model."""
        self._wake.set()

    def pause(self) -> None:
        """Let the texts rest, those of the current batch included; what was embedded of them is done again."""
        self._interrupt.is_pause = True

    def resume(self) -> None:
        """Go on."""
        self._interrupt.is_pause = False
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
        """Stop after the texts that are being embedded this moment; idempotent."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    # -- the thread

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._step()
            except CancelledError:  # by a pause, or the end
                continue
            except Exception as exc:  # noqa: BLE001 - the queue is in the store: nothing is lost by trying again
                if not self._interrupt.is_set():
                    self._rest(exc)

    def _rest(self, exc: Exception) -> None:
        """Tell what failed, where, but not in foreign words, and wait for the next try."""
        self._fault = _reason(exc)
        frames = "".join(traceback.format_tb(exc.__traceback__))
        logger.error("embedding failed (%s); trying again in %.0f s\n%s", self._fault, _RETRY_S, frames)
        self._stop.wait(_RETRY_S)

    def _step(self) -> None:
        """Embed a batch, bring a switch forward, or wait where there is nothing to do."""
        self._left_over = ""
        self._wake.clear()
        spaces = self._store.spaces()
        self._follow(spaces)
        is_idle = self._interrupt.is_pause or not self._work(spaces)
        self._fault = ""
        if is_idle and not self._stop.is_set():
            self._left_over = self._describe_refused()
            self._wake.wait(_IDLE_WAIT_S)

    def _work(self, spaces: Spaces) -> bool:
        """Do one piece of work; returns whether there was any."""
        if self._begin_or_end(spaces):
            return True
        for space in (spaces.answering, spaces.next):
            embedder = self._models.embedder(space.model) if space else None
            if space and embedder and self._embed_batch(space.model, embedder):
                return True
        if spaces.next and self._models.embedder(spaces.next.model):
            self._take_over(spaces)  # what is left of its queue it refuses: it will not cover more than it does
            return True
        if spaces.next and self._models.is_lost(spaces.next.model) and self._store.take_up_left_texts():
            return True
        return bool(self._store.drop_unused_vectors(DELETED_VECTORS))

    def _follow(self, spaces: Spaces) -> None:
        """Hold the models that the store's state needs, and say so where another one answers."""
        self._models.follow(spaces)
        of_use = [space.model for space in (spaces.answering, spaces.next) if space]
        self._refused = {model: self._refused.get(model, set()) for model in of_use}
        answering = spaces.answering
        if self._answering not in {"", answering.model}:
            logger.info("%s answers now: %d of %d texts", answering.model, answering.vectors, answering.texts)
        self._answering = answering.model

    def _begin_or_end(self, spaces: Spaces) -> bool:
        """Begin a switch to the model that is wanted, or end one from a model that cannot be had any more."""
        wanted = self._models.wanted
        if wanted.space and wanted.space != (spaces.next or spaces.answering).model:
            self._store.switch_model(wanted.space)
            if spaces.answering.model:
                logger.info("%s is to take over from %s", wanted.space, spaces.answering.model)
            return True
        if spaces.next and self._models.embedder(spaces.next.model) and self._models.is_lost(spaces.answering.model):
            self._take_over(spaces)
            return True
        return False

    def _take_over(self, spaces: Spaces) -> None:
        """Let the next model answer; the former one's vectors are kept where this version can make such."""
        self._store.finish_switch(keep=self._models.knows(spaces.answering.model))

    def _embed_batch(self, model: str, embedder: Embedder) -> int:
        """Return how many texts were dealt with."""
        began = time.monotonic()
        queued = self._next_texts(model)
        if not queued:
            return 0
        hashes, matrix = self._embed(model, embedder, queued)
        if hashes:
            with self._storing:
                stored = self._store.save_vectors(model, hashes, matrix)
                self._embedded += stored
            self.pace.note(began, len(hashes))
            self._on_embedded(stored)
        return len(queued)

    def _next_texts(self, model: str) -> list[tuple[bytes, str]]:
        """Return the newest texts that are queued for the model and not set aside, as (hash, text)."""
        count = BATCH_TEXTS
        while True:
            chosen: list[bytes] = []
            try:
                with self._store.read() as connection:
                    chosen = self._choose(connection, model, count)
                    return vectors.with_texts(connection, chosen)
            except StoreDamagedError as exc:
                if not chosen:  # the queue itself cannot be read
                    raise
                if len(chosen) == 1:
                    self._refuse(model, chosen[0], _reason(exc))
                count = 1 if len(chosen) > 1 else BATCH_TEXTS

    def _choose(self, connection: Connection, model: str, count: int) -> list[bytes]:
        refused = self._refused[model]
        limit = count + len(refused)
        queued = vectors.queued(connection, model, limit)
        if len(queued) < limit:  # this is the whole queue: what is not in it has left the store
            refused.intersection_update(queued)
        return [hash_ for hash_ in queued if hash_ not in refused][:count]

    def _embed(
        self, model: str, embedder: Embedder, queued: Sequence[tuple[bytes, str]]
    ) -> tuple[list[bytes], Float32]:
        """Return the hashes of the texts that could be embedded, and their vectors, float32 ``[n, dim]``."""
        try:
            matrix = embedder.embed_passages([text for _, text in queued], self._interrupt)
        except (CancelledError, ClosedError):
            raise
        except Exception as exc:  # noqa: BLE001 - whatever a text provokes, the others are to be tried
            logger.warning("%d texts cannot be embedded at once, trying each: %s", len(queued), _reason(exc))
            return self._embed_each(model, embedder, queued)
        return [hash_ for hash_, _ in queued], matrix

    def _embed_each(
        self, model: str, embedder: Embedder, queued: Sequence[tuple[bytes, str]]
    ) -> tuple[list[bytes], Float32]:
        """Do the same text by text, setting aside those that fail."""
        hashes: list[bytes] = []
        rows = [np.empty((0, embedder.dim), np.float32)]
        for hash_, text in queued:
            try:
                rows.append(embedder.embed_passages([text], self._interrupt))
            except (CancelledError, ClosedError):
                raise
            except Exception as exc:  # noqa: BLE001 - see above
                self._set_aside(model, embedder, hash_, _reason(exc))
            else:
                hashes.append(hash_)
        return hashes, np.concatenate(rows)

    def _set_aside(self, model: str, embedder: Embedder, text_hash: bytes, reason: str) -> None:
        """Skip a text from now on, unless the embedder itself is at fault: then its error is raised."""
        embedder.embed_passages([_PLAIN_TEXT], self._interrupt)
        self._refuse(model, text_hash, reason)

    def _refuse(self, model: str, text_hash: bytes, reason: str) -> None:
        self._refused[model].add(text_hash)
        self._refusal = reason
        logger.warning("text %s cannot be embedded: %s", text_hash.hex()[:_HASH_DIGITS], reason)

    def _describe_refused(self) -> str:
        count = len(set[bytes]().union(*self._refused.values()))
        return f"{count} {'text' if count == 1 else 'texts'} cannot be embedded: {self._refusal}" if count else ""


def _reason(exc: Exception) -> str:
    """Return what may be shown and logged of ``exc``: foreign messages may quote a text."""
    return str(exc) if isinstance(exc, PalaceError) else type(exc).__name__
