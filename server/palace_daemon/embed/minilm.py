"""Runs all-MiniLM-L6-v2 in ONNX Runtime.

One session serves all threads: with ``intra_op_num_threads = 1`` a call runs on the thread that makes it, so passages
use the pool's threads and a query the caller's. int8 takes one text a call; fp32 takes batches of similar length.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from palace_daemon.embed import registry
from palace_daemon.embed.arithmetic import IntegerArithmetic, integer_arithmetic
from palace_daemon.embed.graph import OUTPUT
from palace_daemon.embed.priority import lower_this_thread
from palace_daemon.embed.runtime import Ids, feed, open_session
from palace_daemon.embed.tokens import open_tokenizer
from palace_daemon.errors import CancelledError, ClosedError, ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

    from palace_daemon.core.ports import Float32, StopSignal
    from palace_daemon.embed.registry import ModelSpec

logger = logging.getLogger(__name__)

BATCH_TEXTS_MAX = 8
"""Larger fp32 batches gain nothing: one thread is busy with a single text already, and padding grows."""
BATCH_TOKENS_MAX = 2_048
"""Padded tokens of an fp32 batch of several texts: bounds the memory of one call (12 heads x 512 x 512 scores a text)
to about 60 MB, for models that take no longer texts."""
IN_FLIGHT_PER_THREAD = 2
"""Calls that are queued for each thread: one runs, one waits, so that no thread idles and a stop is honoured soon."""

Job = tuple[list[int], list[Ids]]
"""Rows of the result, and the token ids of their texts."""


class OnnxEmbedder:
    """Embeds texts with an installed model; satisfies :class:`~palace_daemon.core.ports.Embedder`. Thread-safe.

    Made by :func:`load`. Several callers may embed at once; they share the pool's threads fairly.
    """

    def __init__(self, spec: ModelSpec, session: InferenceSession, tokenizer: Tokenizer, threads: int) -> None:
        self.model_id = spec.model_id
        self.dim = spec.dim
        self.max_tokens = spec.max_tokens
        self.fingerprint = spec.fingerprint
        self.threads = threads
        """Threads that embed passages."""
        self._is_batched = spec.precision == "fp32"
        self._session = session
        self._tokenizer = tokenizer
        self._pool = ThreadPoolExecutor(threads, "palace-embed", initializer=lower_this_thread)
        self._lock = threading.Lock()
        self.truncated = 0
        """Passages that were cut at ``max_tokens``, all of them because the caller asked for it."""
        self.truncated_queries = 0
        """Queries that were cut at ``max_tokens``."""
        self._is_closed = False

    @property
    def integer_arithmetic(self) -> IntegerArithmetic | None:
        """What the integer kernels do on this machine; None for a model that uses none."""
        return None if self._is_batched else integer_arithmetic()

    def count(self, text: str) -> int:
        """Return the number of tokens of ``text``, special tokens included, without truncation."""
        return len(self._tokenizer.encode(text).ids)

    def embed_passages(
        self, texts: Sequence[str], stop: StopSignal | None = None, *, truncate: bool = False
    ) -> Float32:
        """Return float32 ``[n, dim]``, rows L2-normalised, in the order of ``texts``.

        Blocks until all are done; the work runs on the pool's threads.

        Args:
            texts: Any number of texts.
            stop: Ends the work within two calls of each thread.
            truncate: Whether a text above ``max_tokens`` is cut, and counted, rather than refused.

        Raises:
            CancelledError: ``stop`` was set before all were done.
            ClosedError: After :meth:`close`.
            ModelError: A text has more than ``max_tokens`` tokens, or the runtime failed.
        """
        vectors = np.empty((len(texts), self.dim), np.float32)
        jobs = self._batches(texts, truncate=truncate) if self._is_batched else self._singles(texts, truncate=truncate)
        for rows, found in self._run_all(jobs, stop):
            vectors[rows] = found
        return vectors

    def embed_query(self, text: str) -> Float32:
        """Return float32 ``[dim]``; runs on the caller's thread and never waits behind passages.

        A query above ``max_tokens`` is cut, and counted: a long question is answered by its beginning.

        Raises:
            ClosedError: After :meth:`close`.
            ModelError: The runtime failed.
        """
        ids: Ids = self._tokenizer.encode(text).ids
        if len(ids) > self.max_tokens:
            ids = self._cut(ids)
            with self._lock:
                self.truncated_queries += 1
        vector: Float32 = self._run(([0], [ids]))[1][0]
        return vector

    def close(self) -> None:
        """Let the running calls end, release the threads; idempotent."""
        self._is_closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _encode(self, text: str, row: int, *, truncate: bool) -> Ids:
        """Return the token ids of a text, refusing or cutting what is too long."""
        ids: Ids = self._tokenizer.encode(text).ids
        if len(ids) <= self.max_tokens:
            return ids
        if not truncate:
            raise ModelError(f"text {row} has {len(ids)} tokens, more than the {self.max_tokens} of {self.model_id}")
        with self._lock:
            self.truncated += 1
        return self._cut(ids)

    def _cut(self, ids: Ids) -> Ids:
        """Keep the first tokens and the closing ``[SEP]``."""
        return [*ids[: self.max_tokens - 1], ids[-1]]

    def _singles(self, texts: Sequence[str], *, truncate: bool) -> Iterator[Job]:
        for row, text in enumerate(texts):
            yield [row], [self._encode(text, row, truncate=truncate)]

    def _batches(self, texts: Sequence[str], *, truncate: bool) -> Iterator[Job]:
        encoded = [self._encode(text, row, truncate=truncate) for row, text in enumerate(texts)]
        order = sorted(range(len(encoded)), key=lambda row: len(encoded[row]))
        rows: list[int] = []
        for row in order:
            # The newest text is the longest, so it sets the width of the whole batch. One above the bound goes alone.
            is_full = len(rows) == BATCH_TEXTS_MAX or (len(rows) + 1) * len(encoded[row]) > BATCH_TOKENS_MAX
            if rows and is_full:
                yield rows, [encoded[r] for r in rows]
                rows = []
            rows.append(row)
        if rows:
            yield rows, [encoded[r] for r in rows]

    def _run_all(self, jobs: Iterable[Job], stop: StopSignal | None) -> Iterator[tuple[list[int], Float32]]:
        """Run jobs on the pool, a bounded number in flight, and yield their results in order."""
        waiting: deque[Future[tuple[list[int], Float32]]] = deque()
        jobs = iter(jobs)
        try:
            for job in itertools.islice(jobs, self.threads * IN_FLIGHT_PER_THREAD):
                waiting.append(self._submit(job))
            while waiting:
                if stop is not None and stop.is_set():
                    raise CancelledError("embedding was stopped")
                done = waiting.popleft().result()
                waiting.extend(self._submit(job) for job in itertools.islice(jobs, 1))
                yield done
        finally:
            for future in waiting:
                future.cancel()

    def _submit(self, job: Job) -> Future[tuple[list[int], Float32]]:
        try:
            return self._pool.submit(self._run, job)
        except RuntimeError as exc:  # the pool was shut down
            raise ClosedError("the embedder is closed") from exc

    def _run(self, job: Job) -> tuple[list[int], Float32]:
        if self._is_closed:
            raise ClosedError("the embedder is closed")
        rows, texts = job
        try:
            vectors: Float32 = self._session.run([OUTPUT], feed(texts, is_batched=self._is_batched))[0]
        except Exception as exc:  # the binding's exceptions share no base but Exception
            raise ModelError(f"{self.model_id} failed: {exc}") from exc
        if not np.isfinite(vectors).all():
            raise ModelError(f"{self.model_id} gave a vector that is not finite")
        return rows, vectors


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load(model_id: str, models_dir: Path, threads: int = 0) -> OnnxEmbedder:
    """Return the installed model, ready to run (about 0.4 s, a third of it for importing the runtimes).

    Args:
        model_id: A known model.
        models_dir: Holds the installed models.
        threads: Threads that embed passages; 0 takes one for each core that this process may use.

    Raises:
        ModelError: The model is unknown, missing or broken; the hint says how to mend it.
    """
    spec = registry.spec(model_id, models_dir)
    return open_folder(spec, registry.check_installed(model_id, models_dir), threads)


def open_folder(spec: ModelSpec, folder: Path, threads: int = 0) -> OnnxEmbedder:
    """Return the model in ``folder`` without checking its hashes; :func:`load` checks them first.

    Raises:
        ModelError: The runtime does not take the files.
    """
    if threads < 0:
        raise ModelError(f"threads must not be negative, got {threads}")
    tokenizer = open_tokenizer((folder / registry.TOKENIZER_FILE).read_text(encoding="utf-8"))
    session = open_session(folder / registry.GRAPH_FILE, precise=_needs_precise_kernels(spec))
    kind = OnnxEmbedder
    if spec.is_added:
        from palace_daemon.embed.windows import WindowedEmbedder  # noqa: PLC0415 - it builds on this module

        kind = WindowedEmbedder
    return kind(spec, session, tokenizer, threads or usable_cores())


def _needs_precise_kernels(spec: ModelSpec) -> bool:
    if spec.precision != "int8":
        return False
    found = integer_arithmetic()
    if found.products == "saturates":
        logger.warning("integer products saturate on this CPU: vectors of %s differ slightly here", spec.model_id)
    return found.precise_kernels


def run_profiled(model_id: str, models_dir: Path, ids: Ids, runs: int, prefix: Path) -> tuple[Path, float]:
    """Run one text ``runs`` times, as a query is run.

    Returns the runtime's profile, a JSON file, and the least CPU time of a run in seconds.

    Args:
        model_id: A known model.
        models_dir: Holds the installed models.
        ids: Token ids of the text, special tokens included.
        runs: How often.
        prefix: Path that the file's name begins with.

    Raises:
        ModelError: The model is missing or broken, or the runtime failed.
    """
    spec = registry.spec(model_id, models_dir)
    path = registry.check_installed(model_id, models_dir) / registry.GRAPH_FILE
    session = open_session(path, precise=_needs_precise_kernels(spec), profile_prefix=str(prefix))
    inputs = feed([ids], is_batched=spec.precision == "fp32")
    try:
        least_s = math.inf
        for _ in range(runs):
            started = time.thread_time()
            session.run([OUTPUT], inputs)
            least_s = min(least_s, time.thread_time() - started)
        return Path(session.end_profiling()), least_s
    except Exception as exc:  # the binding's exceptions share no base but Exception
        raise ModelError(f"{model_id} failed: {exc}") from exc
