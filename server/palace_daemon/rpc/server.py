"""The daemon's event loop: accepts connections, opens the service behind them, stops both in bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from palace_daemon import places
from palace_daemon.config import Config
from palace_daemon.errors import ClosedError, DaemonError, DataGoneError, PalaceError
from palace_daemon.model import MineReport
from palace_daemon.rpc import convert, endpoint, errors, life, loopback, methods, wire
from palace_daemon.rpc.endpoint import ending_signals
from palace_daemon.rpc.loopback import Loopback, Secret
from palace_daemon.rpc.session import HANG_UP_S, Session, Shared
from palace_daemon.rpc.telling import Teller
from palace_daemon.service.api import Palace

logger = logging.getLogger(__name__)

OpenPalace = Callable[[Config], Palace]

CONNECTIONS_MAX = 128
"""Clients at once: each holds a descriptor and up to one frame of memory."""
QUICK_THREADS = 4
"""Recall is bound by memory bandwidth and one query embedding: more threads than this only wait for each other."""
LONG_THREADS = 32
"""Requests that wait for mining, in all windows and terminals together: they hold a thread, and hardly use it. Further
ones queue, and can be cancelled while they do."""
CLOSE_S = 1.3
"""How long the service may take to stop. With the connections' share this stays within two seconds."""


_LAST_WORDS_S = 0.1
"""How long a daemon that must end goes on answering why."""
_FIRST_ANSWERS_S = 0.25
"""How long those who waited for the store have it to themselves, before the threads of the service begin: the model and
what watches files take the interpreter's lock as long again as a first answer does."""
_LOOK_S = 0.005


class Daemon:
    """Serves one data directory. :meth:`serve` runs once, on its own event loop; :meth:`stop` comes from anywhere."""

    def __init__(
        self,
        config: Config,
        open_palace: OpenPalace,
        *,
        clock: methods.Clock | None = None,
        stop_wanted: threading.Event | None = None,
    ) -> None:
        self._config = config
        self._open_palace = open_palace
        self._clock = clock or methods.Clock()
        self._sessions: dict[asyncio.Task[None], Session] = {}
        self.stop_wanted = stop_wanted or threading.Event()
        """Set once the daemon was asked to stop."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_event: asyncio.Event | None = None
        self._shared: Shared | None = None
        self._teller = Teller(self._sessions.values, self._status)
        self._ground: life.Ground | None = None
        self._idleness = life.Idleness(config.serve.idle_exit_s)
        self.failure: BaseException | None = None
        """Why the service could not be opened, or had to end, once :meth:`serve` has returned."""

    def stop(self) -> None:
        """Ask the daemon to stop; from any thread or signal handler, any number of times."""
        self.stop_wanted.set()
        loop, event = self._loop, self._stop_event
        if loop is not None and event is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)

    async def serve(
        self,
        listener: socket.socket | None,
        on_open: Callable[[], None] | None = None,
        *,
        tcp: Loopback | None = None,
        renewed: Callable[[], socket.socket | None] | None = None,
    ) -> None:
        """Answer on ``listener`` and ``tcp`` until :meth:`stop`; requests wait while the service is being opened.

        Args:
            listener: A listening Unix socket, which stays the caller's.
            on_open: Called on the loop once the service is open and has started.
            tcp: A listening port, which stays the caller's.
            renewed: Returns what takes the place of ``listener`` once nobody can reach that any more.
        """
        self._loop = asyncio.get_running_loop()
        self._stop_event = asyncio.Event()
        self._install_signals()
        # After the handlers: a signal that came before them has set this, one that comes later reaches the loop.
        if self.stop_wanted.is_set():
            return
        shared = self._shared = self._make_shared(self._loop)
        servers = await self._listen(listener, tcp)
        telling = asyncio.create_task(self._teller.watch_status())
        opening = asyncio.create_task(self._open_and_watch(shared, on_open))
        standing = asyncio.create_task(self._stay_within_reach(servers, renewed))
        try:
            await self._stop_event.wait()
        finally:
            for server in servers:
                server.close()
            telling.cancel()
            standing.cancel()
            if shared.palace.done():
                opening.cancel()  # what is left of it is to look whether the daemon is still needed
            await self._close_sessions()
            await self._close_palace(shared, opening)
            for pool in (shared.quick, shared.long):
                pool.shutdown(wait=False, cancel_futures=True)

    def _make_shared(self, loop: asyncio.AbstractEventLoop) -> Shared:
        return Shared(
            palace=loop.create_future(),
            quick=ThreadPoolExecutor(QUICK_THREADS, "palace-quick"),
            long=ThreadPoolExecutor(LONG_THREADS, "palace-long"),
            default_limit=self._config.recall.limit,
            stop=self.stop,
            clock=self._clock,
            touch=self._teller.touch,
            check=self._check_ground,
        )

    async def _listen(self, listener: socket.socket | None, tcp: Loopback | None) -> list[asyncio.Server]:
        servers = []
        if listener is not None:
            servers.append(await asyncio.start_unix_server(self._on_connection, sock=listener))
        if tcp is not None:
            on_tcp = partial(self._on_connection, secret=tcp.secret)
            servers.append(await asyncio.start_server(on_tcp, sock=tcp.listener))
        return servers

    async def _stay_within_reach(
        self, servers: list[asyncio.Server], renewed: Callable[[], socket.socket | None] | None
    ) -> None:
        """Look again and again whether the Unix socket, the first of ``servers``, needs another in its place."""
        while renewed is not None:
            await asyncio.sleep(life.LOOK_S)
            if (listener := renewed()) is not None:
                former, servers[0] = servers[0], await asyncio.start_unix_server(self._on_connection, sock=listener)
                former.close()

    # --------------------------------------------------------------------------------------------------- service

    async def _open_and_watch(self, shared: Shared, on_open: Callable[[], None] | None) -> None:
        await self._open(shared, on_open)
        if self._ground is None or self.stop_wanted.is_set():
            return
        self._idleness.reset()
        await life.watch(
            self._ground,
            self._idleness,
            clients=lambda: len(self._sessions),
            status=self._status,
            leave=self._leave,
        )

    def _leave(self, reason: DataGoneError | None) -> None:
        """End by itself; on the loop."""
        if reason is None:
            logger.info("nobody was here for %g s, and nothing is left to do", self._config.serve.idle_exit_s)
            self.stop()
        elif self.failure is None:
            logger.error("%s", reason)
            self.failure = reason
            # Those who ask just now still get this as their answer.
            asyncio.get_running_loop().call_later(_LAST_WORDS_S, self.stop)

    def _check_ground(self) -> None:
        """Raise DataGoneError, and end, where the data directory is gone; from any thread."""
        try:
            if self._ground is not None:
                self._ground.check()
        except DataGoneError as exc:
            if self._loop is not None:
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._leave, exc)
            raise

    async def _open(self, shared: Shared, on_open: Callable[[], None] | None) -> None:
        opener = ThreadPoolExecutor(1, "palace-open")
        loop = asyncio.get_running_loop()
        try:
            palace = await loop.run_in_executor(opener, self._open_in_thread)
        except Exception as exc:  # noqa: BLE001 - whatever it is, waiting clients must hear of it
            opener.shutdown(wait=False)
            self._fail(shared, exc)
            return
        palace.subscribe(lambda report: self._on_mined(loop, report))
        shared.palace.set_result(palace)
        logger.info("the store is open")
        await self._answer_those_who_waited()
        starting = loop.run_in_executor(opener, self._start, palace)
        opener.shutdown(wait=False)
        await starting
        if on_open:
            on_open()

    async def _answer_those_who_waited(self) -> None:
        ends_at = asyncio.get_running_loop().time() + _FIRST_ANSWERS_S
        while asyncio.get_running_loop().time() < ends_at and not self.stop_wanted.is_set():
            await asyncio.sleep(_LOOK_S)
            if not any(session.has_open_requests for session in self._sessions.values()):
                return

    def _start(self, palace: Palace) -> None:
        """Called from a thread of its own: it imports what first answers do without."""
        if self.stop_wanted.is_set():
            return
        try:
            palace.start()
        except ClosedError:
            pass
        except Exception as exc:  # noqa: BLE001 - whatever it is, a daemon that neither mines nor embeds is none
            errors.log_frames(exc, logger)
            self.failure = exc
            self.stop()

    def _open_in_thread(self) -> Palace:
        palace = self._open_palace(self._config)
        if self.stop_wanted.is_set():
            palace.close()
            raise ClosedError("the daemon is stopping")
        self._ground = life.Ground(self._config.data_dir)
        return palace

    def _fail(self, shared: Shared, exc: Exception) -> None:
        if not isinstance(exc, PalaceError):
            errors.log_frames(exc, logger)
            log = places.log_file(self._config.data_dir)
            exc = DaemonError(f"the daemon cannot start: unexpected {type(exc).__name__}", hint=f"its log is {log}")
        logger.error("%s", exc)
        self.failure = exc
        shared.palace.set_exception(exc)
        shared.palace.exception()  # marks it as seen, for the case that no client waits
        # Clients that wait already get the error; those that come later start a daemon of their own.
        asyncio.get_running_loop().call_later(_LAST_WORDS_S, self.stop)

    async def _close_palace(self, shared: Shared, opening: asyncio.Task[None]) -> None:
        if not opening.done():
            await asyncio.wait({opening}, timeout=CLOSE_S)
        if not shared.palace.done() or shared.palace.exception() is not None:
            return
        closer = ThreadPoolExecutor(1, "palace-close")
        closing = asyncio.get_running_loop().run_in_executor(closer, shared.palace.result().close)
        closer.shutdown(wait=False)
        done, _ = await asyncio.wait({closing}, timeout=CLOSE_S)
        if not done:
            logger.warning("the service did not stop in %.1f s", CLOSE_S)
        elif (exc := closing.exception()) is not None:
            self.failure = exc
            errors.log_frames(exc, logger)

    def _on_mined(self, loop: asyncio.AbstractEventLoop, report: MineReport) -> None:
        """Called from a thread of the service."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            loop.call_soon_threadsafe(self._teller.mined, convert.mine_to_wire(report))

    async def _status(self) -> wire.StatusResult:
        """Return the state, for those who subscribed to it."""
        shared = self._shared
        if shared is None:
            raise ClosedError("the daemon is stopping")
        palace = await asyncio.shield(shared.palace)
        try:
            work = shared.quick.submit(lambda: convert.status_to_wire(palace.status()))
        except RuntimeError as exc:
            raise ClosedError("the daemon is stopping") from exc
        return await asyncio.wrap_future(work)

    # ----------------------------------------------------------------------------------------------- connections

    async def _on_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: Secret | None = None
    ) -> None:
        task = asyncio.current_task()
        may_serve = self._may_serve_stranger() if secret else self._is_ours(writer.get_extra_info("socket"))
        if self._shared is None or self.stop_wanted.is_set() or task is None or not may_serve or self._is_full():
            writer.transport.abort()
            return
        session = Session(self._shared, reader, writer, secret)
        self._sessions[task] = session
        try:
            await session.run()
        except asyncio.CancelledError:
            pass  # the daemon stops; asyncio's stream callback would report the cancellation as an error
        except Exception as exc:  # noqa: BLE001 - one connection must not end the others
            errors.log_frames(exc, logger)
        finally:
            del self._sessions[task]
            self._idleness.reset()

    def _is_ours(self, connection: socket.socket) -> bool:
        if endpoint.is_peer_allowed(connection):
            return True
        logger.warning("refused a process of another user")
        return False

    def _may_serve_stranger(self) -> bool:
        if sum(session.is_stranger for session in self._sessions.values()) < loopback.STRANGERS_MAX:
            return True
        logger.warning("refused a TCP connection: too many have not shown the token yet")
        return False

    def _is_full(self) -> bool:
        if len(self._sessions) < CONNECTIONS_MAX:
            return False
        logger.warning("refused a connection: %d are open", len(self._sessions))
        return True

    async def _close_sessions(self) -> None:
        await asyncio.sleep(0)  # lets the answer to palace/stop leave first
        tasks = list(self._sessions)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=2 * HANG_UP_S)

    def _install_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        loop = asyncio.get_running_loop()
        for number in ending_signals():
            try:
                loop.add_signal_handler(number, self.stop)
            except NotImplementedError:  # Windows
                signal.signal(number, lambda _number, _frame: self.stop())
