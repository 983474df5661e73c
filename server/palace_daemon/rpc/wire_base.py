"""What all parameters and results on the wire are made of; see :mod:`palace_daemon.rpc.wire`."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

LIMIT_MAX = 1_000
"""Most hits or rows that one request may ask for: an answer of 1,000 drawers of 2,000 characters is about 2 MB."""

TIMEOUT_MS_MAX = 86_400_000
"""A day: who wants longer sets no deadline."""

WireTime = str | int
Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Name = Annotated[str, Meta(min_length=1)]
TimeoutMs = Annotated[int, Meta(ge=1, le=TIMEOUT_MS_MAX)]


class Params(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of parameters: unknown keys are refused."""

    timeout_ms: TimeoutMs | UnsetType = UNSET
    """Milliseconds after which the work is stopped, and answered with the error ``deadline``."""


class Result(Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of results."""
