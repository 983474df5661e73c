"""A daemon that mines an archive while somebody asks: how fast, with how much memory, and what a restart costs.

The daemon is asked to mine the folder as the command line asks it, with progress told. Beside it one client asks for
the status and one question after the other, a few times a second, from the first file to the last vector of the sample.
How far the files are read comes from the store's own cursors, which are committed with what was read.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from palace_daemon.bench import daemon
from palace_daemon.bench.scale import clients
from palace_daemon.bench.scale.build import OnProgress
from palace_daemon.bench.scale.questions import Question
from palace_daemon.client import Client
from palace_daemon.errors import PalaceError
from palace_daemon.store.sqlite import database_path
from palace_daemon.store.store import ReadOnlyStore

EVERY_S = 0.2
"""Between two samples. Asking takes the daemon a few milliseconds, a hundredth to a tenth of one core."""
RESTART_AT = 0.5
"""Of the bytes, when the daemon is stopped."""
_TOKEN = "ingest"  # noqa: S105 - names a progress report, and is no secret
_DID_MINE = "palace/didMine"


class Sample(Struct, frozen=True, kw_only=True):
    """What one look shows; seconds in which no daemon ran are left out of the time."""

    at_s: float
    read_bytes: int
    exchanges: int
    texts: int
    """With a vector or waiting for one."""
    vectors: int
    database_bytes: int
    wal_bytes: int
    rss_mb: float | None
    texts_eta_s: float | None
    """Until all have vectors, as the status tells."""
    asked: clients.Answer


class Told(Struct, frozen=True):
    """What the daemon told of the time left to read the files."""

    at_s: float
    done: int
    total: int
    eta_s: float


class Restart(Struct, kw_only=True):
    """What a stop in the middle came to."""

    read_bytes: int
    exchanges: int
    vectors: int
    down_s: float
    """From telling the daemon to end until the next one answered."""


class Found(Struct, kw_only=True):
    """All that was seen."""

    words: list[Sample] = field(default_factory=list)
    """Until everything was recallable by words."""
    vectors: list[Sample] = field(default_factory=list)
    """After that."""
    told: list[Told] = field(default_factory=list)
    restart: Restart | None = None
    added: int = 0
    """Exchanges stored since the restart, by the daemon's own count; and those replaced, and vectors stored."""
    replaced: int = 0
    vectors_added: int = 0
    rss_peak_mb: float | None = None
    database_bytes: int = 0
    """When the daemon was stopped, its log folded in."""
    cpu_s: float = 0.0
    """CPU time of the daemons until everything was recallable by words."""


class _Request:
    """The request to mine, on a thread of its own, and what is told about it."""

    def __init__(self, data: Path, folder: Path, clock: Clock) -> None:
        self.told: list[Told] = []
        self.is_mined = False
        self.fault: Exception | None = None
        self.sums = {"exchangesAdded": 0, "exchangesReplaced": 0, "vectorsAdded": 0}
        self._data, self._folder, self._clock = data, folder, clock
        self._thread = threading.Thread(target=self._run, name="ingest-request", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join(daemon.START_LIMIT_S)

    def _run(self) -> None:
        try:
            with Client(self._data, timeout_s=None) as client:
                client.connect()
                client.subscribe(["didMine"])
                params = {"paths": [str(self._folder)], "wait": True, "workDoneToken": _TOKEN}
                client.request("palace/mine", params, self._on_notification)
                self.is_mined = True
        except PalaceError as exc:  # also when the daemon is stopped: then nobody looks any more
            self.fault = exc

    def _on_notification(self, method: str, params: Any) -> None:
        if method == _DID_MINE:
            for name in self.sums:
                self.sums[name] += params[name]
            return
        value = params.get("value", {}) if method == "$/progress" else {}
        if value.get("stage") == "mine" and value.get("etaS") is not None:
            self.told.append(Told(self._clock.now(), value["done"], value["total"], value["etaS"]))
        self.is_mined = self.is_mined or value.get("stage") == "embed"


class Clock:
    """Seconds since the beginning without those in which no daemon ran."""

    def __init__(self) -> None:
        """Begin at 0."""
        self._began = time.monotonic()
        self._out = 0.0

    def leave_out(self, seconds: float) -> None:
        """Take these from what has passed."""
        self._out += seconds

    def now(self) -> float:
        """Return the seconds."""
        return time.monotonic() - self._began - self._out


class Ingest:
    """One archive on its way into one data directory."""

    def __init__(
        self, data: Path, folder: Path, size_bytes: int, questions: Iterator[Question], on_progress: OnProgress
    ) -> None:
        """Take an empty data directory, the archive and its size, what to ask, and whom to tell."""
        self.found = Found()
        self._data, self._folder, self._size = data, folder, size_bytes
        self._questions = questions
        self._on_progress = on_progress
        self._clock = Clock()

    def run(self, texts: int, *, is_restarted: bool = True) -> Found:
        """Mine everything with a stop in the middle, then wait for ``texts`` vectors more.

        Raises:
            PalaceError: The daemon refused, or went away.
        """
        stopped_at = 0.0
        if is_restarted:
            with self._daemon() as (running, request, store):
                self._mine(running, request, store, until_bytes=int(self._size * RESTART_AT))
                stopped_at = time.monotonic()
                self._end_words(running, request)
            self.found.restart = self._at_restart()
        with self._daemon(stopped_at) as (running, request, store):
            self._mine(running, request, store)
            self._end_words(running, request)
            self._embed(running, request, store, texts)
            self.found.rss_peak_mb = _most(self.found.rss_peak_mb, running.memory_mb(is_peak=True))
        self.found.added, self.found.replaced = request.sums["exchangesAdded"], request.sums["exchangesReplaced"]
        self.found.vectors_added = request.sums["vectorsAdded"]
        self.found.database_bytes = database_path(self._data).stat().st_size
        return self.found

    @contextlib.contextmanager
    def _daemon(self, stopped_at: float = 0.0) -> Iterator[tuple[daemon.RunningDaemon, _Request, ReadOnlyStore]]:
        """Run a daemon over the data directory, which mines; one that was stopped before left a gap."""

        def prepare(home: Path) -> None:
            (home / "data").symlink_to(self._data, target_is_directory=True)

        with (
            daemon.running("[watch]\ndefaults = false\n", prepare=prepare) as running,
            Client(running.home / "data", timeout_s=clients.TIMEOUT_S) as client,
        ):
            running.client = client.connect()
            client.request("palace/status", {})
            if stopped_at and self.found.restart:
                self.found.restart.down_s = round(time.monotonic() - stopped_at, 2)
                self._clock.leave_out(time.monotonic() - stopped_at)
            elif not stopped_at:
                self._clock = Clock()
            request = _Request(running.home / "data", self._folder, self._clock)
            request.start()
            store = ReadOnlyStore(database_path(self._data))
            try:
                yield running, request, store
            finally:
                store.close()
        request.join()

    def _mine(
        self, running: daemon.RunningDaemon, request: _Request, store: ReadOnlyStore, until_bytes: int | None = None
    ) -> None:
        """Look until everything is recallable by words, or so many bytes are read."""
        while True:
            is_mined = request.is_mined
            sample = self._look(running, store)
            self.found.words.append(sample)
            self._on_progress("mining", sample.read_bytes, self._size, "bytes")
            if is_mined or (until_bytes is not None and sample.read_bytes >= until_bytes):
                return
            if request.fault:
                raise request.fault
            time.sleep(EVERY_S)

    def _end_words(self, running: daemon.RunningDaemon, request: _Request) -> None:
        self.found.cpu_s += running.cpu_seconds()
        self.found.told += request.told
        self.found.rss_peak_mb = _most(self.found.rss_peak_mb, running.memory_mb(is_peak=True))

    def _embed(self, running: daemon.RunningDaemon, request: _Request, store: ReadOnlyStore, texts: int) -> None:
        """Look until ``texts`` more have vectors, or all."""
        for number in itertools.count():
            sample = self._look(running, store)
            self.found.vectors.append(sample)
            done = sample.vectors - self.found.vectors[0].vectors
            self._on_progress("embedding", done, texts, "texts")
            if done >= texts or (number and sample.vectors >= sample.texts):
                return
            if request.fault:
                raise request.fault
            time.sleep(EVERY_S)

    def _look(self, running: daemon.RunningDaemon, store: ReadOnlyStore) -> Sample:
        asked = clients.ask(running.client, next(self._questions))
        status = running.client.request("palace/status", {})
        with store.read() as connection:
            (read_bytes,) = connection.execute("SELECT coalesce(sum(read_bytes), 0) FROM sources").fetchone()
        path = database_path(self._data)
        log = path.with_name(f"{path.name}-wal")
        wal_bytes = log.stat().st_size if log.exists() else 0
        return Sample(
            at_s=self._clock.now(),
            read_bytes=read_bytes,
            exchanges=status["exchanges"],
            texts=status["vectors"] + status["vectorsPending"],
            vectors=status["vectors"],
            database_bytes=status["databaseBytes"] - wal_bytes,
            wal_bytes=wal_bytes,
            rss_mb=running.memory_mb(),
            texts_eta_s=status["embedding"]["etaS"],
            asked=asked,
        )

    def _at_restart(self) -> Restart:
        """Return what the first daemon left behind."""
        store = ReadOnlyStore(database_path(self._data))
        try:
            with store.read() as connection:
                (read_bytes,) = connection.execute("SELECT coalesce(sum(read_bytes), 0) FROM sources").fetchone()
                (exchanges,) = connection.execute("SELECT count(*) FROM exchanges").fetchone()
                (vectors,) = connection.execute("SELECT count(*) FROM vectors").fetchone()
        finally:
            store.close()
        return Restart(read_bytes=read_bytes, exchanges=exchanges, vectors=vectors, down_s=0.0)


def _most(one: float | None, other: float | None) -> float | None:
    return max((value for value in (one, other) if value is not None), default=None)
