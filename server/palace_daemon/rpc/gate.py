"""Lets a TCP connection in once its first message carries the token. Pure; see :mod:`palace_daemon.rpc.loopback`."""

from __future__ import annotations

from typing import Any

from palace_daemon.rpc.envelope import Envelope, Request
from palace_daemon.rpc.errors import TOKEN_REFUSED
from palace_daemon.rpc.loopback import Secret

HELLO = "palace/hello"
INITIALIZE = "initialize"
REASON = f"the first message must be {HELLO} or {INITIALIZE} with the daemon's token"
CODE = TOKEN_REFUSED
KIND = "token"


def admits(first: Envelope, secret: Secret) -> bool:
    """Return whether ``first``, the first message of a connection, carries the token."""
    return isinstance(first, Request) and secret.is_token(_told(first))


def _told(first: Request) -> Any:
    params = first.message.get("params")
    if first.method == INITIALIZE and isinstance(params, dict):
        params = params.get("initializationOptions")
    elif first.method != HELLO:
        return None
    return params.get("token") if isinstance(params, dict) else None
