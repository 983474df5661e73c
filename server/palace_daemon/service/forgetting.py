"""Forgetting: on request, and by ignore rules. What is removed is gone from recall at once, and then from the disk.

The first step, one transaction, removes the exchanges with all that was made of them and leaves tombstones. The second
rewrites the database file, so that no byte of them stays. When that fails (a full disk, a reader in another process),
it is said, and tried again by a thread of its own, at the next start if need be.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Collection, Iterable

import msgspec

from palace_daemon.config import WatchConfig
from palace_daemon.core.ignoring import IgnoreRules
from palace_daemon.core.ports import StopSignal
from palace_daemon.errors import CancelledError, PalaceError, StoreFullError
from palace_daemon.model import ForgetReport, ForgetRequest, RecallAnswer, RecallQuery
from palace_daemon.service.recall import as_stored
from palace_daemon.store import forgetting, selection
from palace_daemon.store.drawers import DrawerStore
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.store import Store

logger = logging.getLogger(__name__)

RETRY_FIRST_S = 30.0
"""Between a failed rewriting of the file and the next try; doubled each time."""
RETRY_MAX_S = 1_800.0
_NOT_GONE = "removed texts are not gone from the database file yet"
_NOT_SMALLER = "the database file has not given back its free room yet"
_GLOB = re.compile(r"[*?\[]")


def rules_of(config: WatchConfig) -> IgnoreRules:
    """Return the rules of the settings. Sources are known by their real paths, so a rule through a link means both."""
    home = os.path.expanduser("~")
    paths = dict.fromkeys(config.ignore_paths)
    for rule in config.ignore_paths:
        full = os.path.expanduser(rule.strip())
        plain = _GLOB.split(full, maxsplit=1)[0]
        folder = plain if plain == full else plain[: plain.rfind(os.sep) + 1]
        if os.path.isabs(full) and (real := os.path.realpath(folder)) != folder.rstrip(os.sep):
            paths[os.path.join(real, full[len(folder) :]) if full != folder else real] = None
    return IgnoreRules(tuple(paths), config.ignore_projects, home=home)


class Forgetting:
    """Forgets, and sees to it that bytes go, of what others removed, too. Thread-safe.

    Owns one thread, from :meth:`start` on.
    """

    def __init__(
        self,
        store: Store,
        rules: IgnoreRules,
        search: Callable[[RecallQuery, StopSignal | None, Collection[int] | None], RecallAnswer],
        clock: Callable[[], int],
        on_removed: Callable[[forgetting.Removal], None],
    ) -> None:
        """Take the store, the ignore rules, what answers queries, the clock, and whom to tell of removals."""
        self._store = store
        self._rules = rules
        self._search = search
        self._clock = clock
        self._on_removed = on_removed
        self._scrub_lock = threading.Lock()
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="palace-forgetting", daemon=True)
        self._is_put_off = False
        """Whether giving free room back, which nobody waits for, is left to the next start."""
        self.error = ""
        """Why removed texts are not gone from the file yet, or rules not applied; empty when all is done."""

    def start(self) -> None:
        """Apply the rules, and finish what an earlier process could not, in the background."""
        self._thread.start()

    def close(self) -> None:
        """Stop after the current step, or leave the rewriting for the next start; idempotent."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(10.0)

    def forget(
        self, request: ForgetRequest, *, dry_run: bool, sources_pending: int, stop: StopSignal | None
    ) -> ForgetReport:
        """Forget what ``request`` names, or list it; see :meth:`palace_daemon.service.api.Palace.forget`."""
        request = _as_stored(request)
        hits = None if request.query is None else self._hits(request, request.query, stop)
        if dry_run:
            with self._store.read() as connection:
                ids = forgetting.with_same(connection, selection.select(connection, request, hits))
                return _listed(connection, ids, sources_pending, is_dry_run=True)
        now = self._clock()

        def work(connection: Connection, drawers: DrawerStore) -> tuple[ForgetReport, forgetting.Removal]:
            ids = forgetting.with_same(connection, selection.select(connection, request, hits))
            report = _listed(connection, ids, sources_pending, is_dry_run=False)
            return report, forgetting.forget(connection, drawers, ids, now)

        report, removal = self._store.edit(work)
        if removal.exchanges:
            logger.info("forgot %d exchanges", removal.exchanges)
            self._on_removed(removal)
        return msgspec.structs.replace(report, wipe_due=self.wipe())

    def _hits(self, request: ForgetRequest, query: RecallQuery, stop: StopSignal | None) -> list[str]:
        """Return the exchanges of the query's best hits within all other selectors."""
        others = msgspec.structs.replace(request, query=None)
        among = None
        if others != ForgetRequest():
            with self._store.read() as connection:
                among = selection.select(connection, others, None)
        return list(dict.fromkeys(hit.exchange_id for hit in self._search(query, stop, among).hits))

    # -- the second step

    def wipe_soon(self) -> None:
        """Have what is due done by the thread within a minute; several calls till then cost one rewriting."""
        self._wake.set()

    def wipe(self) -> str:
        """Rewrite the file if that is due; returns why it still is, or an empty string.

        Where it is due only to give free room back, and the disk lacks the room to do so, the next start tries again.
        """
        undone = _NOT_GONE
        try:
            with self._scrub_lock:
                with self._store.read() as connection:
                    is_due = forgetting.is_scrub_due(connection)
                    undone = _NOT_GONE if forgetting.has_traces(connection) else _NOT_SMALLER
                if is_due and not (self._is_put_off and undone == _NOT_SMALLER):
                    self._store.scrub(self._stop)
        except StoreFullError as exc:
            if undone == _NOT_GONE:
                return self._undone(undone, exc)
            self._is_put_off = True
            logger.warning("%s, and is left as it is until the next start: %s", undone, exc)
        except PalaceError as exc:
            return self._undone(undone, exc)
        self.error = ""
        return ""

    def _undone(self, what: str, exc: PalaceError) -> str:
        """Have it tried again later; returns why."""
        reason = str(exc)
        if not isinstance(exc, CancelledError):
            logger.warning("%s: %s", what, reason)
            self._wake.set()
        self.error = f"{what}: {reason}"
        return reason

    def _run(self) -> None:
        tries = 0
        is_applied = False
        while not self._stop.is_set():
            self._wake.clear()
            try:
                is_applied = is_applied or self._apply_rules()
                is_done = not self.wipe()
            except Exception as exc:
                is_done = False
                reason = str(exc) if isinstance(exc, PalaceError) else type(exc).__name__
                self.error = f"ignore rules are not applied yet: {reason}"
                logger.exception("ignore rules are not applied; trying again")
            if is_done:
                tries = 0
                self._wake.wait()
            self._stop.wait(min(RETRY_FIRST_S * 2 ** min(tries, 10), RETRY_MAX_S))
            tries += 1

    def _apply_rules(self) -> bool:
        rules = self._rules
        removal = self._store.edit(lambda connection, drawers: forgetting.apply_rules(connection, drawers, rules))
        if removal.exchanges or removal.sources:
            logger.info("ignore rules took out %d exchanges", removal.exchanges)
            self._on_removed(removal)
        return True


def _listed(connection: Connection, ids: list[int], sources_pending: int, *, is_dry_run: bool) -> ForgetReport:
    return ForgetReport(
        is_dry_run=is_dry_run,
        exchanges=len(ids),
        drawers=selection.count_drawers(connection, ids),
        items=selection.items(connection, ids),
        sources_pending=sources_pending,
        wipe_due="",
    )


def _as_stored(request: ForgetRequest) -> ForgetRequest:
    """Return the request with its strings as the store spells them: without what no text column can hold."""

    def each(values: Iterable[str]) -> tuple[str, ...]:
        return tuple(as_stored(value) for value in values)

    return msgspec.structs.replace(
        request,
        drawers=each(request.drawers),
        exchanges=each(request.exchanges),
        sessions=each(request.sessions),
        project=as_stored(request.project),
        source=as_stored(request.source),
        agent=as_stored(request.agent),
    )
