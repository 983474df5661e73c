"""What belongs to a connection: the greeting, and what a client wants to hear; see :mod:`palace_daemon.rpc.wire`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from palace_daemon.rpc.wire_base import Params, Result

DID_MINE = "palace/didMine"
DID_CHANGE_STATUS = "palace/didChangeStatus"

EventName = Literal["didMine", "didChangeStatus"]
EVENTS: tuple[EventName, ...] = ("didMine", "didChangeStatus")


class HelloParams(Params, frozen=True):
    """The first message over TCP; elsewhere a way to ask what the daemon can do."""

    token: str = ""
    """The daemon's secret. Needed over TCP; elsewhere it is not looked at."""


class HelloResult(Result, frozen=True):
    """What the daemon is, and what it can do."""

    protocol_version: int
    version: str
    methods: tuple[str, ...]
    events: tuple[str, ...]
    proof: str
    """Over TCP the other half of the secret, by which the client knows the daemon; empty elsewhere."""


class SubscribeParams(Params, frozen=True):
    """Which notifications are wanted from now on; each call takes the place of the one before."""

    events: tuple[EventName, ...]


class SubscribeResult(Result, frozen=True):
    """What is sent from now on."""

    events: tuple[EventName, ...]


class InitializationOptions(Struct, frozen=True, kw_only=True):
    """``initializationOptions`` of ``initialize``, for editors: ``palace/hello`` and ``palace/subscribe`` in one.

    Further keys are other people's, and are not looked at.
    """

    token: str = ""
    events: tuple[EventName, ...] = ()
