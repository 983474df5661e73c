"""A synchronous client for scripts, agents and the command line. Standard library only, so that it starts at once.

    with Client() as palace:
        answer = palace.request("palace/recall", {"query": "why did we move the queue?", "limit": 3})

Methods, parameters and results stand in docs/protocol.md. One client is one connection; it is not thread-safe, and
needs no more than one request at a time: open another client for more.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from palace_daemon import __version__, addresses, errors, places, starting
from palace_daemon.addresses import NotRunningError, loopback_port
from palace_daemon.errors import DaemonError, PalaceError, RequestError
from palace_daemon.starting import socket_in_lock, start_in_background

__all__ = [
    "BadParamsError",
    "Client",
    "NotRunningError",
    "error_from_wire",
    "loopback_port",
    "socket_in_lock",
    "start_in_background",
    "unreachable",
]

NotificationListener = Callable[[str, Any], None]

TIMEOUT_S = 30.0
"""For one answer. Recall takes milliseconds; this covers a daemon that is still opening a large store."""
START_S = 20.0
"""For a daemon to listen. It takes about 0.2 s; a machine under load may need far longer."""
ANSWER_BYTES_MAX = 256 * 1024 * 1024
"""Largest answer that is read: far above any real one, it stops a peer that is no daemon from filling memory."""
LEAVE_S = 5.0
"""For an older daemon to leave its place; it ends itself by force after two seconds."""
PROTOCOL_VERSION = 1
"""What this client speaks; equals ``palace_daemon.rpc.wire.PROTOCOL_VERSION``, whose module takes long to import."""
_HEADER_BYTES_MAX = 4096
_BLOCK_BYTES = 1 << 20
_LOOPBACK = "127.0.0.1"
_POLL_S = 0.02
_PARTING_S = 0.5
"""For telling a daemon that may not read that nobody waits any more."""


class BadParamsError(RequestError):
    """The daemon refused a parameter.

    Attributes:
        path: The JSON path of the field, such as ``$.limit``.
    """

    kind = "params"

    def __init__(self, message: str, *, hint: str = "", path: str = "$") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class Client:
    """A connection to the daemon of one data directory. Use as a context manager.

    Args:
        data_dir: The daemon's data directory; left out, ``PALACE_HOME`` or the platform's.
        timeout_s: Seconds that one answer may take; None waits without end.
    """

    def __init__(self, data_dir: str | os.PathLike[str] | None = None, *, timeout_s: float | None = TIMEOUT_S) -> None:
        self.data_dir = places.data_dir(data_dir)
        self.timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._received = bytearray()
        self._last_id = 0
        self._is_tcp = False
        self.replaced = ""
        """The version of an older daemon that left because :meth:`connect_or_start` asked it to."""

    # ------------------------------------------------------------------------------------------------ connection

    def connect(self) -> Self:
        """Connect to the running daemon; does nothing if that was done already.

        Raises:
            NotRunningError: There is none.
            DaemonError: The socket is not ours, or cannot be used.
        """
        if not hasattr(socket, "AF_UNIX") or sys.platform == "win32":
            return self.connect_tcp()
        if self._socket is None:
            addresses.at_either(self.data_dir, places.socket_path(self.data_dir), self._connect_at)
        return self

    def _connect_at(self, path: Path) -> None:
        addresses.check_owner(path)
        self._join(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), os.fspath(path))

    def connect_tcp(self) -> Self:
        """Connect over TCP, where the daemon was told to listen on it; does nothing if connected already.

        The daemon's private file gives the port and the token. A question is asked only after whoever listens there
        has shown that it knows the other half of that file.

        Raises:
            NotRunningError: There is no such file, or nobody listens there.
            DaemonError: The file is not ours alone, or somebody else listens there.
        """
        if self._socket is None:
            addresses.at_either(self.data_dir, places.tcp_file(self.data_dir), self._connect_tcp_at)
        return self

    def _connect_tcp_at(self, file: Path) -> None:
        told = addresses.read_tcp_file(file, self.data_dir)
        self._join(socket.socket(socket.AF_INET, socket.SOCK_STREAM), (_LOOPBACK, told["port"]))
        self._is_tcp = True
        try:
            self._greet(told)
        except BaseException:
            self.close()
            raise

    def _greet(self, told: Mapping[str, Any]) -> None:
        answer = self.request("palace/hello", {"token": told["token"]})
        proof = str(answer.get("proof", "")) if isinstance(answer, dict) else ""
        import hmac  # noqa: PLC0415 - 6 ms that only this way to connect needs

        if not hmac.compare_digest(proof.encode("utf-8", "replace"), told["proof"].encode()):
            raise DaemonError(f"another program answers on port {told['port']}")

    def _join(self, connection: socket.socket, address: str | tuple[str, int]) -> None:
        connection.settimeout(self.timeout_s)
        try:
            addresses.connect(connection, address)
            if isinstance(address, str):
                addresses.check_peer(connection)
        except (ConnectionRefusedError, FileNotFoundError) as exc:
            connection.close()
            raise addresses.not_running(self.data_dir) from exc
        except OSError as exc:
            connection.close()
            raise DaemonError(f"cannot connect to {address}: {exc.strerror or exc}") from exc
        except BaseException:
            connection.close()
            raise
        self._socket = connection

    def connect_or_start(self, start_timeout_s: float = START_S) -> Self:
        """Connect to the running daemon, or start one in the background and connect to that.

        Clients that start one at the same moment all end with the same daemon. A daemon of an older version is asked
        to leave first, which loses nothing: how far it had come stands in the store.

        Raises:
            DaemonError: The daemon ended before it listened (with its own words), took too long, or is of a newer
                version that this client does not understand.
        """
        with contextlib.suppress(NotRunningError):
            self.connect()
            if not self._has_retired_older():
                return self
        deadline, is_locked = time.monotonic() + start_timeout_s, False
        while True:
            with starting.Starting(self.data_dir) as started:
                if self._connect_before(deadline, started, is_locked=is_locked):
                    return self
            is_locked = True
            # The daemon found the directory locked, by one that starts or by one that ends: look again.

    def _has_retired_older(self) -> bool:
        """Return whether the connected daemon was older than this client, and has left its place."""
        written = starting.version_in_lock(self.data_dir)
        if written in {"", __version__}:
            return False  # the usual case, for the price of reading a small file
        try:
            told = self.request("palace/hello")
            if starting.is_newer(__version__, str(told["version"])):
                self.replaced = str(told["version"])
                self.request("palace/stop")
                self._await_end(time.monotonic() + LEAVE_S)
        except DaemonError:
            if self._socket is not None:
                raise
            return True  # it left meanwhile: another client asked it to
        if not self.replaced and told["protocolVersion"] != PROTOCOL_VERSION:
            self.close()
            raise DaemonError(
                f"the daemon is palace-daemon {told['version']} and speaks protocol {told['protocolVersion']}, "
                f"this client speaks {PROTOCOL_VERSION}",
                hint=f"upgrade this palace-daemon {__version__}",
            )
        return bool(self.replaced)

    def _await_end(self, deadline: float) -> None:
        """Read until the daemon hangs up, which it does after it has stopped listening; then close."""
        with contextlib.suppress(OSError):
            while True:
                self._receive(deadline)
        self.close()

    def _connect_before(self, deadline: float, started: starting.Starting, *, is_locked: bool) -> bool:
        while True:
            ended = started.has_ended()
            with contextlib.suppress(NotRunningError):
                self.connect()
                return True
            if time.monotonic() > deadline:
                raise unreachable(self.data_dir, is_locked=is_locked or ended)
            if ended:
                return False
            time.sleep(_POLL_S)

    def close(self) -> None:
        """Close the connection; idempotent. The daemon lives on, and drops what was still asked."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._received.clear()

    def detach(self) -> socket.socket:
        """Return the connected socket and give up its ownership.

        Raises:
            DaemonError: There is no connection.
        """
        if self._socket is None:
            raise DaemonError("not connected")
        connection = self._socket.dup()
        self.close()
        connection.settimeout(None)
        return connection

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.close()

    # -------------------------------------------------------------------------------------------------- requests

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        on_notification: NotificationListener | None = None,
    ) -> Any:
        """Send one request and return its result, as JSON values.

        Args:
            method: Such as ``palace/recall``.
            params: Its parameters.
            on_notification: Called with method and parameters of each notification that comes before the answer.

        Raises:
            PalaceError: What the daemon answered, as the subclass that its ``data.kind`` names.
            DaemonError: No answer: the daemon went away, or ``timeout_s`` is over. The connection is closed then.
        """
        (self.connect_tcp if self._is_tcp else self.connect)()
        self._last_id += 1
        message_id = self._last_id
        deadline = None if self.timeout_s is None else time.monotonic() + self.timeout_s
        try:
            asked = {"jsonrpc": "2.0", "id": message_id, "method": method, "params": dict(params or {})}
            self._send(asked, self.timeout_s)
            message = self._answer_to(message_id, deadline, on_notification)
        except TimeoutError as exc:
            self._abandon(message_id)
            raise DaemonError(f"the daemon did not answer {method} in {self.timeout_s:g} s") from exc
        except (OSError, ValueError) as exc:
            self.close()
            raise DaemonError(f"lost the daemon: {_reason(exc)}", hint="palace-daemon status") from exc
        except BaseException:
            self._abandon(message_id)
            raise
        if "error" in message:
            raise error_from_wire(message["error"])
        return message.get("result")

    def _send(self, message: dict[str, Any], timeout_s: float | None) -> None:
        if self._socket is None:
            raise DaemonError("not connected")
        self._socket.settimeout(timeout_s)  # it has what was left of the last wait
        body = json.dumps(message).encode("ascii")
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def _abandon(self, message_id: int) -> None:
        """Tell the daemon that nobody waits any more, and close: the stream may stand in the middle of a frame."""
        with contextlib.suppress(OSError, DaemonError):
            self._send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": message_id}}, _PARTING_S)
        self.close()

    def _answer_to(
        self, message_id: int, deadline: float | None, on_notification: NotificationListener | None
    ) -> dict[str, Any]:
        while True:
            message = self._read(deadline)
            if "method" not in message and message.get("id") in (message_id, None):
                # An answer without an id is to a frame that the daemon could not read: the one we just sent.
                return message
            if "method" in message and "id" not in message and on_notification is not None:
                on_notification(message["method"], message.get("params"))

    def subscribe(self, events: Sequence[str]) -> None:
        """Have the daemon send ``didMine``, ``didChangeStatus``, both or none from now on.

        They come to ``on_notification`` during requests, and to :meth:`next_notification` between them.

        Raises:
            PalaceError: As :meth:`request`.
        """
        self.request("palace/subscribe", {"events": list(events)})

    def next_notification(self, timeout_s: float | None = None) -> tuple[str, Any] | None:
        """Wait for a notification; returns its method and parameters, or None when the time is over.

        Raises:
            DaemonError: The daemon went away.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            while True:
                message = self._read(deadline)
                if "method" in message and "id" not in message:
                    return message["method"], message.get("params")
        except TimeoutError:
            return None
        except (OSError, ValueError) as exc:
            self.close()
            raise DaemonError(f"lost the daemon: {_reason(exc)}", hint="palace-daemon status") from exc

    def _read(self, deadline: float | None) -> dict[str, Any]:
        """Return the next message. After a TimeoutError what came so far is kept, and reading can go on."""
        while (body := _take_frame(self._received)) is None:
            self._received += self._receive(deadline)
        message = json.loads(body)
        if not isinstance(message, dict):
            raise ValueError("an answer that is no object")  # noqa: TRY004 - told to callers as a lost daemon
        return message

    def _receive(self, deadline: float | None) -> bytes:
        """Return the next bytes; the deadline holds for a peer that trickles, too."""
        if self._socket is None:
            raise DaemonError("not connected")
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        part = self._socket.recv(_BLOCK_BYTES)
        if not part:
            raise ConnectionResetError("it closed the connection")
        return part


def _take_frame(received: bytearray) -> bytes | None:
    """Take the first frame out of ``received`` and return its body; None while it is not whole.

    Raises:
        ValueError: What came is no frame.
    """
    end = received.find(b"\r\n\r\n", 0, _HEADER_BYTES_MAX)
    if end < 0:
        if len(received) >= _HEADER_BYTES_MAX:
            raise ValueError("an answer without a header")
        return None
    length = -1
    for line in bytes(received[:end]).split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    if not 0 <= length <= ANSWER_BYTES_MAX:
        raise ValueError("an answer without a usable length")
    begin = end + 4
    if len(received) < begin + length:
        return None
    body = bytes(received[begin : begin + length])
    del received[: begin + length]
    return body


# ----------------------------------------------------------------------------------------------------------- errors


def error_from_wire(error: Mapping[str, Any]) -> PalaceError:
    """Return the exception for a JSON-RPC error object: the subclass that ``data.kind`` names, else DaemonError."""
    data = error.get("data")
    details = data if isinstance(data, dict) else {}
    hint = str(details.get("hint", ""))
    message = str(error.get("message", "unknown error")).removesuffix(f" ({hint})")
    kind = str(details.get("kind", ""))
    if kind == BadParamsError.kind:
        return BadParamsError(message, hint=hint, path=str(details.get("path", "$")))
    return _kinds().get(kind, DaemonError)(message, hint=hint)


def _kinds() -> dict[str, type[PalaceError]]:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, PalaceError)]
    return {value.kind: value for value in classes if value is not PalaceError}


def _reason(exc: Exception) -> str:
    return exc.strerror or str(exc) if isinstance(exc, OSError) else str(exc)


def unreachable(data_dir: Path, *, is_locked: bool) -> DaemonError:
    """Return what to raise where a daemon does not answer, or somebody who does not has the place of one."""
    log = places.log_file(data_dir)
    if not is_locked:
        return DaemonError("the daemon does not answer on its socket", hint=f"its log is {log}")
    return DaemonError(
        f"another process holds {data_dir / starting.LOCK_NAME}, and none answers at {places.socket_path(data_dir)}",
        hint=f"a daemon that was started elsewhere, as in a container? Its log is {log}",
    )
