"""``palace/export`` and ``palace/import`` on the wire; see :mod:`palace_daemon.rpc.wire`."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from palace_daemon.rpc.wire_base import Name, Params, Result


class PortParams(Params, frozen=True):
    """Names the file, by an absolute path: the daemon does not know the caller's directory."""

    path: Name
    work_done_token: str | int | UnsetType = UNSET
    """Where given, ``$/progress`` notifications with this token come until the answer."""


class ExportResult(Result, frozen=True):
    """What was written: lines by type."""

    path: str
    records: dict[str, int]
    size_bytes: int
    seconds: float


class WireProblem(Result, frozen=True):
    """A line that could not be used; lines count from 1."""

    line: int
    reason: str


class ImportResult(Result, frozen=True):
    """What was read (lines by type), and what that changed."""

    records: dict[str, int]
    changes: dict[str, int]
    malformed: int
    problems: tuple[WireProblem, ...]
    """The first hundred malformed lines."""
    is_complete: bool
    """False where the file was cut off: its last line is missing."""
    seconds: float
    wipe_due: str
    """Why bytes of what it removed still stand in the database file; empty when they are gone."""
