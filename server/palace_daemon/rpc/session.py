"""One client's connection: frames in, answers out, over the service that all connections share.

Runs on the event loop; only the work itself runs on the pools. Back-pressure: nothing more is read from a client that
does not take its answers, or that has very many requests open; of these few are worked on at a time, and none while
answers pile up; notifications to it are dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET, UnsetType

from palace_daemon import __version__
from palace_daemon.errors import ClosedError, DeadlineError
from palace_daemon.rpc import convert, envelope, errors, frames, gate, loopback, methods, wire, wire_session
from palace_daemon.rpc.envelope import MessageId
from palace_daemon.rpc.loopback import Secret
from palace_daemon.rpc.progress import ProgressRelay
from palace_daemon.rpc.protocol import PalaceServer
from palace_daemon.service.api import Palace

logger = logging.getLogger(__name__)

OPEN_REQUESTS_MAX = 256
"""Requests of one client that may be unanswered before the next one is read."""
RUNNING_MAX = 4
"""Requests of one client that are worked on at once, of each pool: further ones wait, and hold up nobody else's. With
the bytes that a connection buffers this bounds what is kept for a client that does not read: four answers."""
LAG_BYTES_MAX = 1024 * 1024
"""Unsent bytes from which notifications to a client are dropped."""
READ_BYTES = 64 * 1024
HANG_UP_S = 0.3
"""How long a closing connection may take to send what is left."""
TCP_LINGER_S = 2.0
"""How long requests may go on over TCP after the client stopped sending: there, one that left looks the same."""
_PEER_POLL_S = 0.1
_LOOKS_ONLY = frozenset({"palace/recall", "palace/get", "palace/sessions", "palace/projects", "palace/sources"}) | {
    "palace/status",
    "palace/hello",
}
"""Methods that cannot have changed the state that ``palace/didChangeStatus`` tells of."""


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
        touch: Says that the daemon's state may have changed.
        check: Raises DataGoneError where the data directory is gone; called on the pools' threads.
    """

    palace: asyncio.Future[Palace]
    quick: Executor
    long: Executor
    default_limit: int
    stop: Callable[[], None]
    clock: methods.Clock = field(default_factory=methods.Clock)
    touch: Callable[[], None] = lambda: None
    check: Callable[[], None] = lambda: None


class Session:
    """See the module. Made and used on the event loop's thread."""

    def __init__(
        self,
        shared: Shared,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        secret: Secret | None = None,
    ) -> None:
        """Take the connection; with ``secret`` it is one over TCP, and its first message must show the token."""
        self.is_stranger = secret is not None
        """Whether nothing may be done for it yet."""
        self.has_status = False
        self._secret = secret
        self._events: tuple[wire_session.EventName, ...] = ()
        self._shared = shared
        self._reader = reader
        self._writer = writer
        self._open: set[MessageId] = set()
        self._answered = asyncio.Event()
        self._places = {is_long: asyncio.Semaphore(RUNNING_MAX) for is_long in (False, True)}
        self._is_closing = False
        self._is_greeted = False
        self._server = PalaceServer(self)
        self._protocol = self._server.protocol
        for method in wire.METHODS:
            self._server.feature(method)(self._handler(method))

    @property
    def has_open_requests(self) -> bool:
        """Whether the client waits for an answer."""
        return bool(self._open)

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

    def notify(self, method: str, params: Any) -> bool:
        """Send a notification, unless the client has not spoken yet, is leaving, or lags behind; returns whether."""
        is_listening = self._is_greeted and not self._is_closing and self._unsent_bytes() < LAG_BYTES_MAX
        if is_listening:
            self._protocol.send_notification(method, params)
        return is_listening

    def _unsent_bytes(self) -> int:
        return self._writer.transport.get_write_buffer_size()

    async def _read(self) -> None:
        parser = frames.FrameParser()
        greeting_ends_at = asyncio.get_running_loop().time() + loopback.GREETING_S
        greeting_bytes = 0
        while not self._is_closing:
            async with asyncio.timeout_at(greeting_ends_at if self.is_stranger else None):
                data = await self._reader.read(READ_BYTES)
            if not data:
                return
            for event in parser.feed(data):
                await self._take(event)
                if self._has_hung_up():
                    return
            greeting_bytes += len(data) if self.is_stranger else 0
            if greeting_bytes > loopback.FIRST_FRAME_BYTES_MAX:
                self._turn_away(None)
            await self._writer.drain()

    def _has_hung_up(self) -> bool:
        # A call, since a type checker takes the attribute for what it was at the head of the loop.
        return self._is_closing

    async def _answer_half_closed(self) -> None:
        """Let a client that only closed its sending side (a shell pipe does) have the answers that are under way."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + TCP_LINGER_S if self._secret else float("inf")
        while self._open and not self._is_closing and not self._is_peer_gone() and loop.time() < ends_at:
            await self._wait_for_an_answer()

    async def _wait_for_an_answer(self) -> None:
        """Wait until a request was answered, but no longer than until it is time to look for the client."""
        self._answered.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._answered.wait(), _PEER_POLL_S)

    def _is_peer_gone(self) -> bool:
        """Return whether the peer closed both directions, which the end of its stream alone does not tell."""
        connection = self._writer.get_extra_info("socket")
        if self._writer.is_closing() or connection is None or connection.fileno() < 0:
            return True
        if not hasattr(select, "poll"):
            return False
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
        if self.is_stranger and not isinstance(event, frames.Foreign) and not self._admits(event):
            return
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

    def _admits(self, event: frames.Event) -> bool:
        """Let the connection in, or turn it away."""
        first = envelope.read(event.data) if isinstance(event, frames.Body) else None
        if first is None or self._secret is None or not gate.admits(first, self._secret):
            self._turn_away(first.id if isinstance(first, envelope.Request) else None)
            return False
        self.is_stranger = False
        return True

    def _turn_away(self, message_id: MessageId | None) -> None:
        self._refuse(envelope.Refusal(message_id, gate.CODE, gate.KIND, gate.REASON))
        logger.warning("closed a TCP connection that did not show the token")
        self.hang_up()

    async def _take_body(self, body: bytes) -> None:
        found = envelope.read(body)
        if isinstance(found, envelope.Refusal):
            self._refuse(found)
        elif isinstance(found, envelope.Notification):
            self._take_notification(found)
        elif isinstance(found, envelope.Request):
            while len(self._open) >= OPEN_REQUESTS_MAX:
                if self._is_peer_gone():
                    raise ConnectionResetError
                await self._wait_for_an_answer()
            self._take_request(found)

    def _refuse(self, refusal: envelope.Refusal) -> None:
        data = wire.ErrorData(kind=refusal.kind)
        self._protocol.send_error(refusal.id, errors.error_object(refusal.code, refusal.reason, data))

    def _take_request(self, request: envelope.Request) -> None:
        # Before anything of pygls sees it: a notification's handler answers nothing, and the id would stay open.
        if reason := self._reason_to_refuse(request):
            self._refuse(envelope.Refusal(request.id, errors.INVALID_REQUEST, "invalidRequest", reason))
            return
        if not self._protocol.knows(request.method):
            self._protocol.send_error(request.id, errors.unknown_method())
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
        if self._protocol.is_notification(request.method):
            return "this method is a notification: send it without an id"
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
        params = convert.params_from_wire(raw, wire.METHODS[method].params)
        if method == "palace/stop":
            self._shared.stop()
            return wire.StopResult()
        if isinstance(params, wire_session.HelloParams):
            return self._hello()
        if isinstance(params, wire_session.SubscribeParams):
            return self._subscribe(params.events)
        relay = self._relay_for(params)
        timeout_s = None if isinstance(params.timeout_ms, UnsetType) else params.timeout_ms / 1000
        stop = threading.Event()
        try:
            async with asyncio.timeout(timeout_s) as limit:
                return await self._work(method, params, stop, relay)
        except TimeoutError:
            if not limit.expired():
                raise
            raise DeadlineError(f"not done within {params.timeout_ms} ms: the work is stopped") from None
        finally:
            # Whatever ended it, the worker must not go on: it may still be on its way where the request is not.
            stop.set()
            if relay:
                relay.end()
            if method not in _LOOKS_ONLY:
                self._shared.touch()

    async def _work(self, method: str, params: wire.Params, stop: threading.Event, relay: ProgressRelay | None) -> Any:
        call = methods.Call(
            palace=await asyncio.shield(self._shared.palace),
            default_limit=self._shared.default_limit,
            clock=self._shared.clock,
            stop=stop,
            on_progress=relay.report if relay else None,
        )
        is_long = wire.METHODS[method].is_long
        async with self._places[is_long]:
            try:
                await self._writer.drain()
            except ConnectionError as exc:
                raise ClosedError("the client left") from exc
            return await self._run(self._shared.long if is_long else self._shared.quick, call, method, params)

    async def _run(self, pool: Executor, call: methods.Call, method: str, params: wire.Params) -> Any:
        def answer() -> Any:
            self._shared.check()
            try:
                return wire.to_builtins(methods.answer(call, method, params))
            except StopIteration as exc:
                # asyncio cannot carry it to the loop, and whoever waits there would wait for ever.
                raise RuntimeError("an iteration ended outside its loop") from exc

        try:
            work = pool.submit(answer)
        except RuntimeError as exc:
            raise ClosedError("the daemon is stopping") from exc
        return await asyncio.wrap_future(work)

    def _relay_for(self, params: wire.Params) -> ProgressRelay | None:
        token = getattr(params, "work_done_token", UNSET)
        if isinstance(token, UnsetType):
            return None
        if token in self._protocol.progress.tokens:
            path = "$.workDoneToken"
            raise errors.BadParamsError(f"the token is in use - at `{path}`", path=path)
        relay = ProgressRelay(self.notify, self._protocol.progress.tokens, token)
        relay.begin(asyncio.current_task(), "Mining" if isinstance(params, wire.MineParams) else "Copying the memory")
        return relay

    # --------------------------------------------------------------------------------------------- the connection's

    @property
    def proof(self) -> str:
        """What shows the client of a TCP connection that it speaks with the daemon; empty elsewhere."""
        return self._secret.proof if self._secret else ""

    def greet(self, options: Any) -> None:
        """Take ``initializationOptions``.

        Raises:
            BadParamsError: A key of ours has a value that it cannot have.
        """
        self._subscribe(convert.options_from_wire(options).events)

    def wants(self, event: wire_session.EventName) -> bool:
        """Return whether the client subscribed to ``event``."""
        return event in self._events

    def _hello(self) -> wire_session.HelloResult:
        return wire_session.HelloResult(
            protocol_version=wire.PROTOCOL_VERSION,
            version=__version__,
            methods=tuple(sorted(wire.METHODS)),
            events=wire_session.EVENTS,
            proof=self.proof,
        )

    def _subscribe(self, events: tuple[wire_session.EventName, ...]) -> wire_session.SubscribeResult:
        self._events = tuple(event for event in wire_session.EVENTS if event in events)
        self.has_status = False
        self._shared.touch()
        return wire_session.SubscribeResult(events=self._events)
