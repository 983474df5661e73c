"""The running Palace: the real :class:`~palace_daemon.service.api.Palace`."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec import Struct

import palace_daemon
from palace_daemon import config as settings
from palace_daemon.config import Config
from palace_daemon.core.ports import Notifier, StopSignal
from palace_daemon.errors import (
    CancelledError,
    ClosedError,
    PalaceError,
    RequestError,
    StoreBusyError,
    StoreError,
    StoreFullError,
)
from palace_daemon.model import (
    Embedding,
    ExportReport,
    ForgetReport,
    ForgetRequest,
    ImportReport,
    MineReport,
    ModelView,
    NoteView,
    Progress,
    Status,
)
from palace_daemon.service import processes
from palace_daemon.service.answers import Answers
from palace_daemon.service.api import MineListener, ProgressListener
from palace_daemon.service.embedding import EmbeddingLoop
from palace_daemon.service.forgetting import Forgetting, rules_of
from palace_daemon.service.mining import Outcome, SourceMiner
from palace_daemon.service.model_host import ModelHost
from palace_daemon.service.models import Models
from palace_daemon.service.notes import NoteKeeper
from palace_daemon.service.pace import Teller, bytes_left
from palace_daemon.service.porting import Porter
from palace_daemon.service.projects import ProjectResolver
from palace_daemon.service.queue import Job, MiningQueue
from palace_daemon.service.recall import coverage
from palace_daemon.service.watching import Watching, find_sources, mtime_ns, size_of
from palace_daemon.store import sources, spaces, vectors, views
from palace_daemon.store.forgetting import Removal
from palace_daemon.store.store import Store

logger = logging.getLogger(__name__)

_TAKE_WAIT_S = 1.0
_WAIT_STEP_S = 0.1
_STORE_RETRY_S = 5.0
_STORE_TRIES = 8
"""Faults of the store in a row, some 20 seconds, after which those who wait are told; the source stays queued."""


class Parts(Struct, frozen=True, kw_only=True):
    """What :func:`palace_daemon.service.build.build` puts together."""

    config: Config
    store: Store
    models: Models
    notifier: Notifier
    clock: Callable[[], int]
    list_models: Callable[[], tuple[ModelView, ...]]
    open_model: Callable[[str], ModelHost]
    """Raises ModelError where there is no such model."""
    threads: Callable[[], int]
    """How many embed."""


class LivePalace(Answers):
    """Mines, embeds and answers. Thread-safe; see :class:`~palace_daemon.service.api.Palace` for the methods."""

    def __init__(self, parts: Parts) -> None:
        """Wire the parts together; no thread of ours runs before :meth:`start` or :meth:`mine`."""
        self._queue = MiningQueue()
        super().__init__(parts.store, parts.models, self._queue.pending, parts.list_models)
        self._config = parts.config
        self._store = parts.store
        self._clock = parts.clock
        self._open_model = parts.open_model
        self._threads = parts.threads
        rules = rules_of(parts.config.watch)
        self._miner = SourceMiner(parts.store, parts.clock, rules.ignores_path)
        self._forgetting = Forgetting(parts.store, rules, self._recall.search, parts.clock, self._on_removed)
        self._notes = NoteKeeper(
            parts.store, ProjectResolver().project_of, self._after_change, self._forgetting.wipe_soon
        )
        self._porter = Porter(parts.store, parts.clock, self._after_change, self._on_removed, self._forgetting, rules)
        self._embedding = EmbeddingLoop(parts.store, parts.models, self._on_embedded)
        self._watching = Watching(
            parts.config.watch, self._queue, parts.notifier, self._known_paths, self._miner.settled
        )
        self._listeners: list[MineListener] = []
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._stop = threading.Event()
        self._is_working = False
        self._is_paused = False
        self._choosing = threading.Lock()
        """Held while somebody decides: what several say at once is done one after the other, and whole."""
        self._thread = threading.Thread(target=self._mine_queue, name="palace-mining", daemon=True)
        self._started_at = parts.clock()
        self._began = time.monotonic()
        self._last_error = ""
        self._store_faults = 0

    # -- life

    def warm_up(self) -> None:
        """Load what first answers need; :meth:`start` is to follow, and loads the rest."""
        with contextlib.suppress(StoreError):  # whoever asks hears of it
            self._store.load_words()

    def start(self) -> None:
        """Begin to watch, mine and embed in the background."""
        with self._starting:
            self._work()
            self._store.load_beside()
            self._watching.start()

    def close(self) -> None:
        """Stop all work and close the store; idempotent."""
        with self._lock:
            if self._stop.is_set():
                return
            self._stop.set()
        self._queue.close()
        with self._starting:  # what is being started would not be stopped
            self._watching.close()
        if self._thread.is_alive():
            self._thread.join(5.0)
        self._embedding.close()
        self._forgetting.close()
        self._models.close()
        self._store.close()

    def _work(self) -> None:
        """Start the threads that mine and embed, once."""
        with self._lock:
            if self._stop.is_set():
                raise ClosedError("Palace is closed")
            if self._is_working:
                return
            held = self._store.spaces()
            if (wanted := self._models.wanted.space) and not held.answering.model:
                # May fail while the store is locked: then nothing is started. A switch takes long: not done here.
                self._store.switch_model(wanted)
            self._is_working = True
            self._models.start(held, self._embedding.wake)
            self._thread.start()
            self._embedding.start()
            self._forgetting.start()

    # -- answers

    def status(self) -> Status:
        """Return what is held and done."""
        with self._store.read() as connection:
            totals = views.totals(connection)
        path = self._store.path
        return Status(
            version=palace_daemon.__version__,
            pid=os.getpid(),
            data_dir=str(path.parent),
            uptime_s=round(time.monotonic() - self._began, 3),
            started_at=self._started_at,
            sessions=totals.sessions,
            exchanges=totals.exchanges,
            exchanges_superseded=totals.exchanges_superseded,
            drawers=totals.drawers,
            vectors=totals.vectors,
            vectors_pending=totals.vectors_pending,
            sources=totals.sources,
            sources_pending=self._queue.pending(),
            lines_skipped=totals.lines_skipped,
            redactions=totals.redactions,
            failures={**totals.failures, **self._watching.problems},
            watched=self._watching.dirs(),
            notifier=self._watching.notifier_name,
            model=self._models.wanted.model_id,
            model_state=self._models.wanted.describe(),
            database_bytes=processes.size_with_wal(path),
            rss_bytes=processes.rss_bytes(),
            last_error=self._last_error or self._forgetting.error or self._embedding.error,
            last_mined_at=totals.last_mined_at,
            embedding=self.embedding(),
        )

    def embedding(self) -> Embedding:
        """Return which models' vectors there are, how far each is, and at what pace."""
        with self._store.read() as connection:
            held = spaces.read(connection)
            waiting = vectors.waiting_count(connection) + (held.next.pending if held.next else 0)
        wanted, pace = self._models.wanted, self._embedding.pace.per_s()
        embedder = wanted.state().embedder
        return Embedding(
            is_switching=held.next is not None or wanted.space not in {"", held.answering.model},
            coverage=coverage(held),
            texts_per_s=pace,
            eta_s=round(waiting / pace, 1) if pace else None,
            threads=self._threads(),
            truncated=embedder.truncated if embedder is not None else 0,
            windowed=getattr(embedder, "windowed", 0),
            model_load_ms=wanted.load_ms,
            is_paused=self._is_paused,
        )

    # -- what a person decides while it runs

    def use_model(self, model_id: str) -> None:
        """Choose a model for good."""
        host = self._open_model(model_id)
        self._work()
        with self._choosing:
            settings.choose("embed.model", model_id)
            wanted = self._models.wanted
            if host.space != wanted.space or wanted.has_failed:
                self._models.want(host)

    def pause(self) -> None:
        """Let mining and embedding rest."""
        with self._choosing:
            self._is_paused = True
            self._queue.pause(is_paused=True)
            self._embedding.pause()

    def resume(self) -> None:
        """Go on."""
        with self._choosing:
            self._is_paused = False
            self._queue.pause(is_paused=False)
            self._embedding.resume()

    def subscribe(self, on_mined: MineListener) -> Callable[[], None]:
        """Call ``on_mined`` after each change."""
        with self._lock:
            self._listeners.append(on_mined)

        def end() -> None:
            with self._lock:
                if on_mined in self._listeners:
                    self._listeners.remove(on_mined)

        return end

    # -- notes and exports

    def remember(
        self, text: str, *, project: str = "", tags: Sequence[str] = (), author: str = "", now: int
    ) -> tuple[NoteView, bool]:
        """Store a note."""
        return self._notes.remember(text, project=project, tags=tags, author=author, now=now)

    def edit_note(self, note_id: str, text: str, *, now: int) -> NoteView:
        """Replace the text of a note."""
        return self._notes.edit(note_id, text, now=now)

    def supersede_note(self, note_id: str, text: str, *, now: int) -> tuple[NoteView, bool]:
        """Store a note in the place of another."""
        return self._notes.supersede(note_id, text, now=now)

    def export(
        self, path: str, *, on_progress: ProgressListener | None = None, stop: StopSignal | None = None
    ) -> ExportReport:
        """Write everything to one file."""
        return self._porter.export(path, on_progress, stop)

    def import_file(
        self, path: str, *, on_progress: ProgressListener | None = None, stop: StopSignal | None = None
    ) -> ImportReport:
        """Merge what an export holds."""
        return self._porter.import_file(path, on_progress, stop)

    def _after_change(self, report: MineReport) -> None:
        self._embedding.wake()
        self._notify(report)

    # -- mining on request

    def mine(
        self,
        paths: Sequence[str] = (),
        *,
        wait: bool = False,
        newest: int | None = None,
        on_progress: ProgressListener | None = None,
        stop: StopSignal | None = None,
    ) -> MineReport:
        """Mine ``paths``, or everything that is watched."""
        if wait:
            self._check(stop)
        began = time.monotonic()
        embedded_before = self._embedding.embedded
        problems: dict[str, str] = {}
        found = self._find(paths, problems)
        wanted = [path for path, _ in found[:newest]]
        job = Job(wanted, take_tail=wait, named=map(os.path.realpath, paths), sizes=self._sizes(wanted) if wait else {})
        if wait:
            self._queue.put_job(job)
        for path, mtime in found:
            self._queue.put(path, mtime)
        if not wait:
            return MineReport(files=len(found), failures=problems)
        self._await_job(job, on_progress, stop)
        seconds = time.monotonic() - began
        reason = self._await_vectors(on_progress, stop, is_bounded=newest is not None)
        report = job.report()
        return msgspec.structs.replace(
            report,
            failures={**problems, **report.failures},
            vectors_added=self._embedding.embedded - embedded_before,
            seconds=round(seconds, 3),
            seconds_to_vectors=0.0 if reason else round(time.monotonic() - began, 3),
            vectors_reason=reason,
        )

    def _find(self, paths: Sequence[str], problems: dict[str, str]) -> list[tuple[str, int]]:
        """Return the sources below ``paths``, or below all that is watched, the newest first; begin to work.

        What cannot be looked into goes to ``problems``.
        """
        watched = {item.path: item.origin == "default" for item in self._watching.dirs() if item.exists}
        roots = list(paths) or list(watched)

        def note(path: str, error: OSError) -> None:
            problems[path] = error.strerror or type(error).__name__

        found = _newest_first(
            pair for root in roots for pair in find_sources(root, note, is_default=watched.get(root, False))
        )
        self._work()
        return found + [(path, 0) for path in self._watching.vanished([os.path.realpath(root) for root in roots])]

    def _sizes(self, paths: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Return the size of each source, and how much of it is to be read."""
        with self._store.read() as connection:
            read = sources.bytes_read(connection)
        sizes = ((path, size_of(path)) for path in paths)
        return {path: (size, bytes_left(size, read.get(path, 0))) for path, size in sizes}

    def _await_job(self, job: Job, on_progress: ProgressListener | None, stop: StopSignal | None) -> None:
        teller = Teller(on_progress)
        while not job.wait(_WAIT_STEP_S):
            self._check(stop)
            teller.tell(Progress(stage="mine", done=job.done, total=job.total, unit="files"), job.work)
        teller.tell(Progress(stage="mine", done=job.total, total=job.total, unit="files"))

    def _await_vectors(self, on_progress: ProgressListener | None, stop: StopSignal | None, *, is_bounded: bool) -> str:
        """Wait until all texts have vectors; returns why they have not, or an empty string.

        Newest texts go first, so a bounded wait ends when as many were embedded as were queued at its beginning.
        """
        before = self._embedding.embedded
        first = self._vectors_pending()
        teller = Teller(on_progress)
        self._embedding.wake()
        while pending := self._vectors_pending():
            self._check(stop)
            done = self._embedding.embedded - before
            if is_bounded and done >= first:
                break
            error = self._embedding.error
            if reason := error or self._models.failure():
                return reason
            # What is mined meanwhile in the background is nothing that a bounded wait waits for.
            total = first if is_bounded else done + pending
            teller.tell(Progress(stage="embed", done=done, total=total, unit="texts"))
            time.sleep(_WAIT_STEP_S)
        done = self._embedding.embedded - before
        teller.tell(Progress(stage="embed", done=done, total=done, unit="texts"))
        return ""

    def _vectors_pending(self) -> int:
        with self._store.read() as connection:
            return vectors.waiting_count(connection)

    def _check(self, stop: StopSignal | None) -> None:
        if stop is not None and stop.is_set():
            raise CancelledError("the request was cancelled; the work goes on in the background")
        if self._stop.is_set():
            raise ClosedError("Palace is closing")
        if self._is_paused:
            raise RequestError("Palace is paused: nothing is mined or embedded", hint="palace-daemon resume")

    # -- the mining thread

    def _mine_queue(self) -> None:
        try:
            self._mine_until_stopped()
        finally:
            self._miner.release()

    def _mine_until_stopped(self) -> None:
        while not self._stop.is_set():
            taken = self._queue.take(_TAKE_WAIT_S)
            if taken is None:
                self._miner.release()
                continue
            path, take_tail = taken
            try:
                outcome = self._miner.mine(path, take_tail=take_tail, stop=self._stop)
            except (CancelledError, ClosedError):
                self._queue.done(path, MineReport(), is_last=False)
                return
            except (StoreBusyError, StoreFullError) as exc:  # these pass, and the source has lost nothing
                self._after_store_fault(path, exc, take_tail=take_tail)
            except Exception as exc:  # noqa: BLE001 - one bad file must not end the thread
                self._finish(path, self._after_fault(path, exc))
            else:
                self._store_faults, self._last_error = 0, ""
                self._finish(path, outcome)

    def _after_store_fault(self, path: str, exc: StoreError, *, take_tail: bool) -> None:
        """Keep the source queued while the store is locked or full; jobs are told after some tries."""
        self._store_faults += 1
        self._last_error = f"{path}: {exc}"
        logger.warning("cannot store what %s holds, trying again: %s", path, exc)
        self._stop.wait(min(_STORE_RETRY_S, 0.1 * 2**self._store_faults))
        is_last = self._store_faults >= _STORE_TRIES
        self._queue.put(path, mtime_ns(path), take_tail=take_tail)
        report = MineReport(files=1, files_failed=1, failures={path: str(exc)}) if is_last else MineReport()
        self._queue.done(path, report, is_last=is_last)

    def _after_fault(self, path: str, exc: Exception) -> Outcome:
        reason = str(exc) if isinstance(exc, PalaceError) else f"internal error: {type(exc).__name__}"
        self._last_error = f"{path}: {reason}"
        logger.error("mining %s failed", path, exc_info=exc)
        with contextlib.suppress(PalaceError):
            self._store.write(lambda connection: sources.set_state(connection, path, "failed", reason))
        return Outcome(report=MineReport(files=1, files_failed=1), error=reason)

    def _finish(self, path: str, outcome: Outcome) -> None:
        report = outcome.report
        if outcome.is_unknown:
            report = msgspec.structs.replace(report, files_skipped={path: outcome.error})
        elif outcome.error:
            report = msgspec.structs.replace(report, failures={path: outcome.error})
        if outcome.has_tail:
            self._watching.note_tail(path, mtime_ns(path))
        else:
            self._watching.drop_tail(path)
        self._watching.note_read(path, is_settled=outcome.is_settled)
        if outcome.has_more:
            self._queue.put_rest(path, mtime_ns(path))
        for other in outcome.reread:
            self._queue.put(other, mtime_ns(other))
        for item in outcome.found:
            self._queue.put(item.path, item.mtime_ns)
        found = [item.path for item in outcome.found]
        self._queue.done(
            path, report, outcome.sessions, is_last=not outcome.has_more, share_left=outcome.share_left, found=found
        )
        if report.exchanges_added or report.exchanges_replaced or report.exchanges_superseded:
            self._embedding.wake()
            self._notify(report)

    def _notify(self, report: MineReport) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            try:
                listener(report)
            except Exception:
                logger.exception("a listener failed")

    def forget(self, request: ForgetRequest, *, dry_run: bool = False, stop: StopSignal | None = None) -> ForgetReport:
        """Forget what ``request`` names."""
        return self._forgetting.forget(request, dry_run=dry_run, sources_pending=self._queue.pending(), stop=stop)

    def _on_removed(self, removal: Removal) -> None:
        for path in removal.sources:
            self._queue.put(path, mtime_ns(path))
        self._notify(MineReport(drawers_removed=removal.drawers))

    def _on_embedded(self, count: int) -> None:
        self._notify(MineReport(vectors_added=count))

    def _known_paths(self) -> list[str]:
        with self._store.read() as connection:
            return sources.known_paths(connection)


def _newest_first(found: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return each path once, newest first."""
    return sorted(dict(found).items(), key=lambda pair: (-pair[1], pair[0]))
