"""Reads the JSON-RPC envelope of one body: what kind of message it is, its id and its method.

Pure. pygls answers neither bad JSON, nor batches, nor envelopes with a part missing; here each gets its one answer.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, NoReturn

from palace_daemon.rpc.errors import INVALID_REQUEST, PARSE_ERROR

MessageId = str | int


@dataclass(frozen=True, slots=True)
class Request:
    """A message that wants an answer."""

    id: MessageId
    method: str
    message: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Notification:
    """A message that wants none."""

    method: str
    message: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Response:
    """An answer to a request; the daemon asks its clients nothing, so it has no use for one."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """No message that can be followed; to be answered with this error under ``id``."""

    id: MessageId | float | None
    code: int
    kind: str
    reason: str


Envelope = Request | Notification | Response | Refusal


def read(body: bytes) -> Envelope:
    """Return what ``body`` is; never raises."""
    try:
        message = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        # UnicodeDecodeError and JSONDecodeError are ValueErrors, and so is a number of too many digits.
        return Refusal(None, PARSE_ERROR, "parse", "the body is no UTF-8 JSON")
    if isinstance(message, list):
        return Refusal(None, INVALID_REQUEST, "invalidRequest", "batches are not supported: send one message a frame")
    if not isinstance(message, dict):
        return Refusal(None, INVALID_REQUEST, "invalidRequest", "the message is no object")
    return _classify(message)


def _classify(message: dict[str, Any]) -> Envelope:
    message_id = message.get("id")
    is_id = isinstance(message_id, str | int) and not isinstance(message_id, bool)
    # A number beyond a float's range is read as infinity, which no answer can hold.
    is_number = isinstance(message_id, float) and math.isfinite(message_id)
    echo = message_id if is_id or is_number else None
    if "method" not in message and ("result" in message or "error" in message):
        return Response()
    if fault := _fault(message, is_id=is_id):
        return Refusal(echo, INVALID_REQUEST, "invalidRequest", fault)
    if "id" not in message:
        return Notification(message["method"], message)
    return Request(message["id"], message["method"], message)


def _fault(message: dict[str, Any], *, is_id: bool) -> str:
    """Return what is wrong with a message that is no answer, or an empty string."""
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc must be "2.0"'
    if not isinstance(message.get("method"), str):
        return "method must be a string"
    if "id" in message and not is_id:
        return "id must be a string or an integer"
    return ""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
