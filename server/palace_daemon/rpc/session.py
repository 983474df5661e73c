"""One client's connection: frames in, answers out, over the service that all connections share.

Runs on the event loop; only the work itself runs on the pools. Back-pressure: nothing more is read from a client that
does not take its answers, or that has very many requests open, and notifications to it are dropped.
"""

from __future__ import annotations

import asyncio
import logging
import select
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET, UnsetType

from palace_daemon.errors import ClosedError
from palace_daemon.model import Progress
from palace_daemon.rpc import convert, envelope, errors, frames, methods, wire
from palace_daemon.rpc.envelope import MessageId
from palace_daemon.rpc.protocol import PalaceServer
from palace_daemon.service.api import Palace

logger = logging.getLogger(__name__)

OPEN_REQUESTS_MAX = 256
"""Requests of one client that may be unanswered before the next one is read."""
LAG_BYTES_MAX = 1024 * 1024
"""Unsent bytes from which notifications to a client are dropped."""
READ_BYTES = 64 * 1024
PROGRESS_INTERVAL_S = 0.1
"""Least time between two progress notifications of one request."""
HANG_UP_S = 0.3
"""How long a closing connection may take to send what is left."""
_PEER_POLL_S = 0.1


@dataclass(slots=True)
class Shared:
    """What all connections share.

    Attributes:
        palace: Set when the service is open; holds the error if it cannot be opened.
        quick: Threads for requests that take milliseconds.
        long: Threads for requests that may take minutes, so that recall never waits behind mining.
        default_limit: Hits of a recall that names no limit.
        stop: Ends the daemon.
        clock: The daemon's clock.
    """

    palace: asyncio.Future[Palace]
    quick: Executor
    long: Executor
    default_limit: int
    stop: Callable[[], None]
    clock: methods.Clock = field(default_factory=methods.Clock)


class Session:
    """See the module. Made and used on the event loop's thread."""

    def __init__(self, shared: Shared, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._shared = shared
        self._reader = reader
        self._writer = writer
        self._open: set[MessageId] = set()
        self._answered = asyncio.Event()
        self._is_closing = False
        self._is_greeted = False
        self._server = PalaceServer(self)
        self._protocol = self._server.protocol
        for method in wire.METHODS:
            self._server.feature(method)(self._handler(method))

    # ------------------------------------------------------------------------------------------------ connection

    async def run(self) -> None:
        """Serve the connection until either side ends it; cancels what is still running for a client that left."""
        try:
            await self._read()
            await self._answer_half_closed()
        except (ConnectionError, TimeoutError):
            logger.debug("a client went away")
        finally:
            self._cancel_open()
            await self._close()

    def send(self, body: bytes) -> None:
        """Send one body, or drop it if the connection is gone."""
        if not self._writer.is_closing():
            self._writer.write(frames.encode(body))

    def hang_up(self) -> None:
        """End the connection after what was sent so far."""
        self._is_closing = True

    def finished(self, message_id: MessageId) -> None:
        """Note that the request was answered."""
        self._open.discard(message_id)
        self._is_greeted = True
        self._answered.set()

    def notify(self, method: str, params: Any) -> None:
        """Send a notification, unless the client has not spoken yet, is leaving, or lags behind."""
        if self._is_greeted and not self._is_closing and self._unsent_bytes() < LAG_BYTES_MAX:
            self._protocol.send_notification(method, params)

    def _unsent_bytes(self) -> int:
        return self._writer.transport.get_write_buffer_size()

    async def _read(self) -> None:
        parser = frames.FrameParser()
        while not self._is_closing and (data := await self._reader.read(READ_BYTES)):
            for event in parser.feed(data):
                await self._take(event)
                if self._has_hung_up():
                    return
            await self._writer.drain()

    def _has_hung_up(self) -> bool:
        return self._is_closing

    async def _answer_half_closed(self) -> None:
        """Let a client that only closed its sending side (a shell pipe does) have the answers that are under way."""
        while self._open and not self._is_closing and not self._is_peer_gone():
            self._answered.clear()
            try:
                await asyncio.wait_for(self._answered.wait(), _PEER_POLL_S)
            except TimeoutError:
                continue

    def _is_peer_gone(self) -> bool:
        """Return whether the peer closed both directions, which the end of its stream alone does not tell."""
        connection = self._writer.get_extra_info("socket")
        if self._writer.is_closing() or connection is None or connection.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(connection.fileno(), 0)
        return any(mask & (select.POLLHUP | select.POLLERR) for _fd, mask in poll.poll(0))

    def _cancel_open(self) -> None:
        self._is_closing = True
        for future in list(self._protocol._request_futures.values()):  # noqa: SLF001 - pygls has no other way
            future.cancel()

    async def _close(self) -> None:
        try:
            # One turn of the loop lets cancelled handlers tell their workers to stop.
            await asyncio.sleep(0)
            self._writer.close()
            await asyncio.wait_for(self._writer.wait_closed(), HANG_UP_S)
        except (OSError, TimeoutError):
            logger.debug("dropped what a leaving client had not taken")
        finally:
            # Also where the daemon stops, and cancels this task, just while a client leaves.
            self._writer.transport.abort()

    # -------------------------------------------------------------------------------------------------- messages

    async def _take(self, event: frames.Event) -> None:
        if isinstance(event, frames.Body):
            await self._take_body(event.data)
        elif isinstance(event, frames.Oversized):
            reason = f"the frame of {event.length} bytes is over the limit of {frames.FRAME_BYTES_MAX}"
            self._refuse(envelope.Refusal(None, errors.INVALID_REQUEST, "invalidRequest", reason))
        elif isinstance(event, frames.Broken):
            self._refuse(envelope.Refusal(None, errors.PARSE_ERROR, "parse", event.reason))
            self.hang_up()
        else:
            logger.warning("closed a connection that does not speak the protocol")
            self.hang_up()

    async def _take_body(self, body: bytes) -> None:
        found = envelope.read(body)
        if isinstance(found, envelope.Refusal):
            self._refuse(found)
        elif isinstance(found, envelope.Notification):
            self._take_notification(found)
        elif isinstance(found, envelope.Request):
            while len(self._open) >= OPEN_REQUESTS_MAX:
                self._answered.clear()
                await self._answered.wait()
            self._take_request(found)

    def _refuse(self, refusal: envelope.Refusal) -> None:
        data = wire.ErrorData(kind=refusal.kind)
        self._protocol.send_error(refusal.id, errors.error_object(refusal.code, refusal.reason, data))

    def _take_request(self, request: envelope.Request) -> None:
        if reason := self._reason_to_refuse(request):
            self._refuse(envelope.Refusal(request.id, errors.INVALID_REQUEST, "invalidRequest", reason))
            return
        if not self._protocol.knows(request.method):
            data = wire.ErrorData(kind="unknownMethod")
            error = errors.error_object(errors.METHOD_NOT_FOUND, "no such method", data)
            self._protocol.send_error(request.id, error)
            return
        try:
            message = self._protocol.structure_message(request.message)
        except errors.BadParamsError as exc:
            self._protocol.send_error(request.id, errors.from_exception(exc, logger))
            return
        self._open.add(request.id)
        # An LSP client must hear nothing before the answer to its first request.
        self._is_greeted = self._is_greeted or request.method != "initialize"
        self._protocol.handle_message(message)

    def _reason_to_refuse(self, request: envelope.Request) -> str:
        if request.id in self._open:
            return "the id belongs to a request that is not answered yet"
        if self._protocol.is_shut_down:
            return "nothing but exit may follow shutdown"
        return ""

    def _take_notification(self, notification: envelope.Notification) -> None:
        # Our own methods are requests: run as notifications they would work for nobody, and without bound.
        if notification.method in wire.METHODS:
            logger.warning("ignored %s without an id", notification.method)
            return
        try:
            message = self._protocol.structure_message(notification.message)
        except errors.BadParamsError:
            logger.warning("ignored a notification whose parameters do not fit")
            return
        self._protocol.handle_message(message)

    # --------------------------------------------------------------------------------------------------- handlers

    def _handler(self, method: str) -> Callable[[Any], Any]:
        async def handle(params: Any) -> Any:
            return await self._answer(method, params)

        return handle

    async def _answer(self, method: str, raw: Any) -> Any:
        spec = wire.METHODS[method]
        params = convert.params_from_wire(raw, spec.params)
        if method == "palace/stop":
            self._shared.stop()
            return wire.StopResult()
        relay = self._relay_for(params)
        stop = threading.Event()
        try:
            call = methods.Call(
                palace=await asyncio.shield(self._shared.palace),
                default_limit=self._shared.default_limit,
                clock=self._shared.clock,
                stop=stop,
                on_progress=relay.report if relay else None,
            )
            return await self._run(self._shared.long if spec.is_long else self._shared.quick, call, method, params)
        except asyncio.CancelledError:
            stop.set()
            raise
        finally:
            if relay:
                relay.end()

    async def _run(self, pool: Executor, call: methods.Call, method: str, params: wire.Params) -> Any:
        try:
            work = pool.submit(lambda: wire.to_builtins(methods.answer(call, method, params)))
        except RuntimeError as exc:
            raise ClosedError("the daemon is stopping") from exc
        return await asyncio.wrap_future(work)

    def _relay_for(self, params: wire.Params) -> _ProgressRelay | None:
        token = getattr(params, "work_done_token", UNSET)
        if isinstance(token, UnsetType):
            return None
        if token in self._protocol.progress.tokens:
            path = "$.workDoneToken"
            raise errors.BadParamsError(f"the token is in use - at `{path}`", path=path)
        relay = _ProgressRelay(self, self._protocol.progress.tokens, token)
        relay.begin(asyncio.current_task(), "Mining" if isinstance(params, wire.MineParams) else "Copying the memory")
        return relay


class _ProgressRelay:
    """Turns progress calls from a worker thread into ``$/progress`` notifications, a bounded number a second."""

    def __init__(self, session: Session, tokens: dict[Any, Any], token: str | int) -> None:
        self._session = session
        self._tokens = tokens
        self._token = token
        self._loop = asyncio.get_running_loop()
        self._next_at = 0.0
        self._is_over = False

    def begin(self, task: asyncio.Task[Any] | None, title: str) -> None:
        """Announce the work; ``window/workDoneProgress/cancel`` then cancels ``task``."""
        self._tokens[self._token] = task
        self._send(wire.ProgressValue(kind="begin", title=title, cancellable=True))

    def report(self, progress: Progress) -> None:
        """Pass one step on; called from the worker thread."""
        now = time.monotonic()
        if self._is_over or now < self._next_at:
            return
        self._next_at = now + PROGRESS_INTERVAL_S
        try:
            self._loop.call_soon_threadsafe(self._send, convert.progress_to_wire(progress))
        except RuntimeError:
            self._is_over = True  # the loop is closed: the daemon has stopped

    def end(self) -> None:
        """Say that the work is over, and forget the token."""
        self._tokens.pop(self._token, None)
        self._send(wire.ProgressValue(kind="end"))
        self._is_over = True

    def _send(self, value: wire.ProgressValue) -> None:
        if not self._is_over:
            self._session.notify("$/progress", {"token": self._token, "value": wire.to_builtins(value)})
