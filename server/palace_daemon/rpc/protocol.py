"""pygls's protocol object, with the parts replaced that would hang, leak or end the daemon.

What is overridden, and why (pygls 2.1):

* the documents: a client's files are none of Palace's business, so their handlers are taken out and nothing of them
  is kept;
* structuring: a failure there leaves the client without an answer;
* handler results and sending: a result that cannot be encoded leaves the client without an answer, and an unforeseen
  exception goes out with its traceback;
* ``exit``: ends this connection, not the process.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Generator
from functools import partial
from typing import Any, Protocol

import msgspec
from cattrs import transform_error
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import (
    JsonRPCNotification,
    JsonRPCRequestMessage,
    JsonRPCResponseMessage,
    LanguageServerProtocol,
    default_converter,
    lsp_method,
)

from palace_daemon import __version__
from palace_daemon.rpc import errors, wire, wire_session
from palace_daemon.rpc.envelope import MessageId
from palace_daemon.rpc.logs import quiet_pygls

logger = logging.getLogger(__name__)

CONVERTER = default_converter()  # type: ignore[no-untyped-call]
"""Shared by all connections: building one takes as long as hundreds of sessions do."""

_KEPT_FEATURES = frozenset(
    {
        types.INITIALIZE,
        types.INITIALIZED,
        types.SHUTDOWN,
        types.EXIT,
        types.SET_TRACE,
        types.WINDOW_WORK_DONE_PROGRESS_CANCEL,
    }
)
_NOTIFICATIONS = frozenset(
    {
        types.INITIALIZED,
        types.EXIT,
        types.SET_TRACE,
        types.WINDOW_WORK_DONE_PROGRESS_CANCEL,
        types.CANCEL_REQUEST,
    }
)
"""LSP's methods that nobody answers, of those that are taken."""
_WITHOUT_PARAMS = frozenset({types.SHUTDOWN, types.EXIT})

quiet_pygls()


class Connection(Protocol):
    """What the protocol object needs of its connection."""

    def send(self, body: bytes) -> None:
        """Send one body; never blocks, never raises."""
        ...

    def hang_up(self) -> None:
        """End the connection after what was sent so far."""
        ...

    def finished(self, message_id: MessageId) -> None:
        """Note that the request was answered."""
        ...

    @property
    def proof(self) -> str:
        """What shows the client that it speaks with the daemon, where that needs showing."""
        ...

    def greet(self, options: Any) -> None:
        """Take the ``initializationOptions`` of ``initialize``."""
        ...


class PalaceServer(LanguageServer):
    """One connection's pygls server."""

    protocol: PalaceProtocol

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        super().__init__(
            "palace-daemon",
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.None_,
            protocol_cls=PalaceProtocol,
            converter_factory=lambda: CONVERTER,
        )

    def report_server_error(self, error: Exception, source: object) -> None:  # noqa: ARG002 - pygls's signature
        """Log the kind of ``error``; pygls would pop it up in front of the client's user."""
        logger.warning("error outside a request: %s", type(error).__name__)


class PalaceProtocol(LanguageServerProtocol):
    """See the module."""

    _server: PalaceServer

    @property
    def is_shut_down(self) -> bool:
        """Whether the client has sent ``shutdown``."""
        return self._shutdown

    def knows(self, method: str) -> bool:
        """Return whether ``method`` has a handler."""
        return method in self.fm.builtin_features or method in self.fm.features

    def is_notification(self, method: str) -> bool:
        """Return whether ``method`` is one that goes without an id, and is never answered."""
        return method in _NOTIFICATIONS

    def _register_builtin_features(self) -> None:
        super()._register_builtin_features()  # type: ignore[no-untyped-call]
        for name in set(self.fm.builtin_features) - _KEPT_FEATURES:
            del self.fm.builtin_features[name]

    # pygls caches these two with lru_cache on the method, which keeps closed connections alive.
    def get_message_type(self, method: str) -> type[Any] | None:  # type: ignore[override]
        """Return lsprotocol's class for ``method``, if it is one of LSP's."""
        found: type[Any] | None = types.METHOD_TO_TYPES.get(method, (None,))[0]
        return found

    def get_result_type(self, method: str) -> type[Any] | None:  # type: ignore[override]
        """Return lsprotocol's class of the answer to ``method``, if it is one of LSP's."""
        found: type[Any] | None = types.METHOD_TO_TYPES.get(method, (None, None))[1]
        return found

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Return the message object for ``data``; the parameters of our own methods stay JSON values.

        Raises:
            BadParamsError: The parameters do not fit the LSP method.
        """
        kind = self.get_message_type(data["method"])
        if kind is None:
            fields = {"method": data["method"], "jsonrpc": data["jsonrpc"], "params": data.get("params")}
            return JsonRPCRequestMessage(id=data["id"], **fields) if "id" in data else JsonRPCNotification(**fields)
        if data["method"] in _WITHOUT_PARAMS:
            data = {key: value for key, value in data.items() if key != "params"}
        try:
            return self._converter.structure(data, kind)
        except Exception as exc:  # noqa: BLE001 - hooks of lsprotocol raise what they like, and each needs its answer
            path = _structure_path(exc)
            raise errors.BadParamsError(f"the value does not fit the method - at `{path}`", path=path) from None

    def _handle_request(self, msg_id: MessageId, method_name: str, params: Any) -> None:
        self._ctx_msg_id.set(msg_id)
        self._execute_handler(
            msg_id=msg_id,
            handler=self._get_handler(method_name),
            callback=partial(self._send_handler_result, msg_id=msg_id),
            args=(params,),
        )

    def _handle_notification(self, method_name: str, params: Any) -> None:
        super()._handle_notification(method_name, params)
        # pygls keeps the future of each notification that a generator takes for as long as the connection lives.
        for message_id in [known for known, future in self._request_futures.items() if future.done()]:
            del self._request_futures[message_id]

    def _send_handler_result(self, future: Any, *, msg_id: MessageId) -> None:
        self._request_futures.pop(msg_id, None)
        try:
            if future.cancelled():
                self.send_error(msg_id, errors.cancelled())
            elif (exc := future.exception()) is not None:
                self.send_error(msg_id, _error_of(exc))
            else:
                self._send_data(JsonRPCResponseMessage(id=msg_id, jsonrpc=self.VERSION, result=future.result()))
        finally:
            self._server.connection.finished(msg_id)

    def send_error(self, message_id: MessageId | float | None, error: dict[str, Any]) -> None:
        """Answer ``message_id`` with an error object."""
        self._send_data({"jsonrpc": self.VERSION, "id": message_id, "error": error})

    def send_notification(self, method: str, params: Any) -> None:
        """Send a notification whose parameters are a wire value; pygls's own would force LSP's classes on it."""
        self._send_data({"jsonrpc": self.VERSION, "method": method, "params": params})

    def _send_data(self, data: Any) -> None:
        try:
            body = json.dumps(data, default=self._serialize_message, allow_nan=False).encode("ascii")
        except (TypeError, ValueError, RecursionError, AttributeError) as exc:
            if not isinstance(data, JsonRPCResponseMessage):
                errors.log_frames(exc, logger)
                return
            self.send_error(data.id, errors.from_exception(exc, logger))
            return
        self._server.connection.send(body)

    def _serialize_message(self, data: Any) -> Any:
        if isinstance(data, msgspec.Struct):
            return msgspec.to_builtins(data)
        if isinstance(data, JsonRPCResponseMessage):
            # By hand: the converter would copy the whole result first.
            return {"jsonrpc": data.jsonrpc, "id": data.id, "result": data.result}
        return super()._serialize_message(data)

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        """Add the wire's version and methods to what pygls answers; take what the client wants to hear."""
        self._server.connection.greet(params.initialization_options)
        result = yield from super().lsp_initialize(params)
        result.capabilities.experimental = {
            "palace": {
                "protocolVersion": wire.PROTOCOL_VERSION,
                "methods": sorted(wire.METHODS),
                "events": wire_session.EVENTS,
                "proof": self._server.connection.proof,
            }
        }
        return result

    @lsp_method(types.EXIT)
    def lsp_exit(self, *_args: Any) -> None:  # type: ignore[override]  # pygls's is a generator that ends the process
        """End this connection; the daemon lives on."""
        self._server.connection.hang_up()


def _error_of(exc: BaseException) -> dict[str, Any]:
    if isinstance(exc, asyncio.CancelledError):
        return errors.cancelled()
    if isinstance(exc, JsonRpcException):
        return errors.error_object(exc.code, exc.message, wire.ErrorData(kind="invalidRequest"))
    return errors.from_exception(exc, logger)


def _structure_path(exc: Exception) -> str:
    """Return the JSON path, relative to ``params``, of the first field that the converter refused."""
    try:
        found = transform_error(exc, path="$")[0].rpartition("@ ")[2]
    except (IndexError, TypeError, AttributeError):
        return "$"
    if not found.startswith("$"):
        return "$"
    # The converter names its own attributes, the wire's are camelCase.
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), found.replace("$.params", "$", 1))
