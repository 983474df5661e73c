"""The error tree on the wire: one stable code for each kind, and nothing of a traceback.

========  ===========================================  =====================================================
code      ``data.kind``                                meaning
========  ===========================================  =====================================================
-32700    ``parse``                                    the body is no JSON
-32600    ``invalidRequest``                           a batch, a bad id, an oversized frame, after shutdown
-32601    ``unknownMethod``                            no such method
-32602    ``params``                                   ``data.path`` names the field
-32603    ``internal``                                 a fault of ours; details stand in the daemon's log
-32800    ``cancelled``                                the caller withdrew the request
-32010    ``request``                                  understood, but cannot be answered as asked
-32011    ``notFound``                                 no such id
-32012    ``deadline``                                 the request's ``timeoutMs`` is over; its work is stopped
-32020    ``source``                                   a transcript cannot be read
-32030    ``store``                                    the database fails
-32031    ``storeBusy``                                another process holds its lock
-32032    ``storeDamaged``                             the file is damaged
-32033    ``storeTooNew``                              the file was written by a newer version
-32034    ``storeFull``                                there is no space for it to grow
-32035    ``dataGone``                                 the data directory was removed under the daemon
-32040    ``model``                                    the embedding model fails
-32041    ``unknownModel``                             no such model
-32050    ``config``                                   a setting is bad
-32060    ``closed``                                   the daemon is stopping
-32070    ``daemon``                                   the daemon cannot do its work
-32071    ``token``                                    over TCP, the first message lacks the right token
========  ===========================================  =====================================================
"""

from __future__ import annotations

import logging
import traceback
from typing import Any

from palace_daemon import __version__
from palace_daemon.errors import CancelledError, PalaceError, RequestError
from palace_daemon.rpc import wire

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800
TOKEN_REFUSED = -32071

CODES: dict[str, int] = {
    "params": INVALID_PARAMS,
    "cancelled": REQUEST_CANCELLED,
    "request": -32010,
    "notFound": -32011,
    "deadline": -32012,
    "source": -32020,
    "store": -32030,
    "storeBusy": -32031,
    "storeDamaged": -32032,
    "storeTooNew": -32033,
    "storeFull": -32034,
    "dataGone": -32035,
    "model": -32040,
    "unknownModel": -32041,
    "config": -32050,
    "closed": -32060,
    "daemon": -32070,
}
"""``PalaceError.kind`` to code; a kind without a row is answered as an internal error."""


class BadParamsError(RequestError):
    """A parameter is unknown, missing, or has the wrong type or range.

    Attributes:
        path: The JSON path of the field, such as ``$.limit``.
    """

    kind = "params"

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


def error_object(code: int, message: str, data: wire.ErrorData) -> dict[str, Any]:
    """Return a JSON-RPC error object."""
    return {"code": code, "message": message, "data": wire.to_builtins(data)}


def unknown_method() -> dict[str, Any]:
    """Return the error object for a method that this daemon does not know; a newer one may."""
    hint = f"this is palace-daemon {__version__}, protocol {wire.PROTOCOL_VERSION}"
    return error_object(METHOD_NOT_FOUND, "no such method", wire.ErrorData(kind="unknownMethod", hint=hint))


def cancelled() -> dict[str, Any]:
    """Return the error object of a withdrawn request."""
    return error_object(REQUEST_CANCELLED, "the request was cancelled", wire.ErrorData(kind=CancelledError.kind))


def from_exception(exc: BaseException, logger: logging.Logger) -> dict[str, Any]:
    """Return the error object for ``exc``; one that is not of our tree is logged by its frames.

    The message of a foreign exception can quote a query or a transcript, so it is neither sent nor logged; its type
    is.
    """
    if isinstance(exc, PalaceError) and exc.kind in CODES:
        data = wire.ErrorData(kind=exc.kind, hint=exc.hint, path=getattr(exc, "path", ""))
        return error_object(CODES[exc.kind], str(exc), data)
    log_frames(exc, logger)
    return error_object(
        INTERNAL_ERROR,
        f"internal error ({type(exc).__name__}); the daemon's log has the details",
        wire.ErrorData(kind="internal"),
    )


def log_frames(exc: BaseException, logger: logging.Logger) -> None:
    """Log where ``exc`` was raised, without its message."""
    frames = "".join(traceback.format_tb(exc.__traceback__))
    logger.error("unexpected %s\n%s", type(exc).__name__, frames.rstrip())
