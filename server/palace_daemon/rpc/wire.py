"""What goes over the wire: parameters, results, and the table of methods.

Keys are camelCase. Times are ISO 8601 UTC strings with milliseconds and ``Z``, or ``null`` where the transcript gives
none. In parameters a time may also be epoch milliseconds or a plain date. Unknown keys in parameters are errors;
readers of results should ignore keys that they do not know, since keys are added without a new protocol version.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from palace_daemon.rpc import wire_models, wire_notes, wire_porting, wire_recall, wire_session
from palace_daemon.rpc.wire_base import LIMIT_MAX, Count, Limit, Params, Result, WireTime

__all__ = ["LIMIT_MAX", "Count", "Limit", "Params", "Result", "WireTime"]

PROTOCOL_VERSION = 1
"""Raised when a key or method changes its meaning or goes away."""


# -------------------------------------------------------------------------------------------------------- parameters


class NoParams(Params, frozen=True):
    """Takes nothing."""


class GetParams(Params, frozen=True):
    """Names an exchange by its own id or by the id of one of its drawers."""

    id: Annotated[str, Meta(min_length=1)]
    neighbours: wire_recall.Neighbours = 0
    """Exchanges before and after it that come with it."""


class SessionsParams(Params, frozen=True):
    """Filters the list of sessions, or names one session whose exchanges are wanted."""

    session_id: str = ""
    agent: str = ""
    project: str = ""
    since: WireTime | UnsetType = UNSET
    limit: Limit = 50
    offset: Count = 0


class ProjectsParams(Params, frozen=True):
    """Pages through the list of projects."""

    limit: Limit = 50
    offset: Count = 0


class SourcesParams(Params, frozen=True):
    """Filters the list of transcript files."""

    agent: str = ""
    state: Literal["", "pending", "ok", "failed", "gone", "skipped"] = ""


class MineParams(Params, frozen=True):
    """Names what to mine; no path means everything that is watched."""

    paths: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    """Absolute paths: the daemon does not know the caller's directory."""
    wait: bool = False
    newest: Annotated[int, Meta(ge=1, le=2**53)] | UnsetType = UNSET
    work_done_token: str | int | UnsetType = UNSET
    """Where given, ``$/progress`` notifications with this token come until the answer."""


class ForgetParams(Params, frozen=True):
    """What to forget: the exchanges that every selector given here names.

    One at least must be given. One that is given and empty is refused: whoever sent it meant to narrow, not to widen.
    """

    drawers: tuple[str, ...] | UnsetType = UNSET
    exchanges: tuple[str, ...] | UnsetType = UNSET
    sessions: tuple[str, ...] | UnsetType = UNSET
    """With their sub-agents."""
    project: str | UnsetType = UNSET
    """Its path as stored, or its last name where one project alone has that."""
    source: str | UnsetType = UNSET
    """The path of a transcript file, as stored."""
    agent: str | UnsetType = UNSET
    since: WireTime | UnsetType = UNSET
    until: WireTime | UnsetType = UNSET
    query: str | UnsetType = UNSET
    """The exchanges of its hits among what all other selectors name."""
    limit: Limit | UnsetType = UNSET
    """Hits of ``query``; 10 where left out."""
    dry_run: bool = False
    """List, and forget nothing."""


# ----------------------------------------------------------------------------------------------------------- results


class WireToolUse(Result, frozen=True):
    """One tool call inside a reply."""

    name: str
    target: str


class WireProvenance(Result, frozen=True):
    """One place in which an exchange stands."""

    path: str
    line_start: int
    line_end: int
    byte_start: int
    byte_end: int
    is_owner: bool


class WireExchange(Result, frozen=True):
    """A stored exchange, whole; the result of ``palace/get``."""

    exchange_id: str
    session_id: str
    session_title: str
    agent: str
    project: str
    cwd: str
    branch: str
    model: str
    user_text: str
    user_kind: str
    reply_text: str
    reply_final_start: int
    started_at: str | None
    ended_at: str | None
    time_quality: str
    utc_offset_minutes: int | None
    status: str
    is_superseded: bool
    tools: tuple[WireToolUse, ...]
    flags: tuple[str, ...]
    drawer_ids: tuple[str, ...]
    provenance: tuple[WireProvenance, ...]
    previous_id: str
    next_id: str
    neighbours: tuple[wire_recall.WireNeighbour, ...]
    """Where they were asked for."""


class WireSession(Result, frozen=True):
    """A stored session in a list."""

    session_id: str
    agent: str
    project: str
    title: str
    parent_session_id: str
    relation: str
    started_at: str | None
    ended_at: str | None
    exchanges: int
    is_automated: bool


class SessionsResult(Result, frozen=True):
    """Sessions, newest first."""

    sessions: tuple[WireSession, ...]


class TimelineResult(Result, frozen=True):
    """One session's exchanges in order; the result of ``palace/sessions`` with a ``sessionId``."""

    session_id: str
    exchanges: tuple[WireExchange, ...]


class WireProject(Result, frozen=True):
    """What recall can find of a project, of its notes as well; what belongs to none has an empty path."""

    path: str
    name: str
    sessions: int
    exchanges: int
    agents: tuple[str, ...]
    newest_at: str | None
    """When its newest exchange began."""


class ProjectsResult(Result, frozen=True):
    """Projects, the one with the newest exchange first."""

    projects: tuple[WireProject, ...]


class WireSource(Result, frozen=True):
    """A transcript file in a list."""

    path: str
    agent: str
    state: str
    size_bytes: int
    read_bytes: int
    exchanges: int
    lines_skipped: dict[str, int]
    error: str
    machine: str
    """The mark of the machine that it was imported from; empty for a file of this one."""


class SourcesResult(Result, frozen=True):
    """The known transcript files, those that failed first."""

    sources: tuple[WireSource, ...]


class WireWatched(Result, frozen=True):
    """A directory that the daemon watches, or would watch if it existed."""

    path: str
    agent: str
    origin: str
    exists: bool
    files: int
    size_bytes: int
    found_at: str | None
    """When it appeared, if it did so while the daemon ran."""


class StatusResult(Result, frozen=True):
    """What the daemon holds and does."""

    protocol_version: int
    version: str
    pid: int
    data_dir: str
    uptime_s: float
    started_at: str | None
    sessions: int
    exchanges: int
    exchanges_superseded: int
    drawers: int
    vectors: int
    vectors_pending: int
    sources: dict[str, int]
    sources_pending: int
    lines_skipped: dict[str, int]
    redactions: dict[str, int]
    failures: dict[str, str]
    watched: tuple[WireWatched, ...]
    notifier: str
    model: str
    model_state: str
    database_bytes: int
    rss_bytes: int
    last_error: str
    last_mined_at: str | None
    embedding: wire_models.WireEmbedding


class MineResult(Result, frozen=True):
    """What one mining run did; also the parameters of ``palace/didMine``."""

    files: int
    files_failed: int
    sessions: int
    exchanges_added: int
    exchanges_replaced: int
    exchanges_superseded: int
    drawers_added: int
    drawers_removed: int
    vectors_added: int
    lines_read: int
    lines_skipped: dict[str, int]
    exchanges_left_out: dict[str, int]
    failures: dict[str, str]
    files_skipped: dict[str, str]
    seconds: float
    seconds_to_vectors: float
    vectors_reason: str


class WireForgetItem(Result, frozen=True):
    """One exchange that goes."""

    exchange_id: str
    session_id: str
    agent: str
    project: str
    started_at: str | None
    title: str


class ForgetResult(Result, frozen=True):
    """What is forgotten now, or would be: the first thousand are named, oldest first."""

    is_dry_run: bool
    exchanges: int
    drawers: int
    items: tuple[WireForgetItem, ...]
    sources_pending: int
    wipe_due: str
    """Why bytes of it still stand in the database file; empty when they are gone."""


class WireModel(Result, frozen=True):
    """A model in the registry, installed or not."""

    model_id: str
    dim: int
    max_tokens: int
    is_installed: bool
    is_active: bool
    path: str
    size_bytes: int
    note: str


class ModelsResult(Result, frozen=True):
    """The known models."""

    models: tuple[WireModel, ...]
    embedding: wire_models.WireEmbedding | None = None
    """How far their vectors are in this data directory; null where no store was asked."""


class StopResult(Result, frozen=True):
    """Says that the daemon is about to stop."""

    stopping: bool = True


class ProgressValue(Result, frozen=True, omit_defaults=True):
    """``value`` of ``$/progress``: LSP's work-done fields, and the exact counts beside them."""

    kind: Literal["begin", "report", "end"]
    title: str = ""
    message: str = ""
    percentage: int | None = None
    cancellable: bool = False
    stage: str = ""
    done: int | None = None
    total: int | None = None
    unit: str = ""
    eta_s: float | None = None


class ErrorData(Result, frozen=True, omit_defaults=True):
    """``data`` of an error: a stable word, what to do, and which parameter is at fault."""

    kind: str
    hint: str = ""
    path: str = ""


# ----------------------------------------------------------------------------------------------------------- methods


class Method(Struct, frozen=True, kw_only=True):
    """One request that the daemon answers."""

    params: type[Params]
    results: tuple[type[Result], ...]
    is_long: bool = False
    """Whether it may run for minutes, and so must not take a thread from the quick ones."""


METHODS: dict[str, Method] = {
    "palace/hello": Method(params=wire_session.HelloParams, results=(wire_session.HelloResult,)),
    "palace/recall": Method(params=wire_recall.RecallParams, results=(wire_recall.RecallResult,)),
    "palace/get": Method(params=GetParams, results=(WireExchange,)),
    "palace/sessions": Method(params=SessionsParams, results=(SessionsResult, TimelineResult)),
    "palace/projects": Method(params=ProjectsParams, results=(ProjectsResult,)),
    "palace/sources": Method(params=SourcesParams, results=(SourcesResult,)),
    "palace/status": Method(params=NoParams, results=(StatusResult,)),
    "palace/mine": Method(params=MineParams, results=(MineResult,), is_long=True),
    "palace/forget": Method(params=ForgetParams, results=(ForgetResult,), is_long=True),
    "palace/remember": Method(params=wire_notes.RememberParams, results=(wire_notes.RememberResult,)),
    "palace/notes": Method(params=wire_notes.NotesParams, results=(wire_notes.NotesResult, wire_notes.RememberResult)),
    "palace/export": Method(params=wire_porting.PortParams, results=(wire_porting.ExportResult,), is_long=True),
    "palace/import": Method(params=wire_porting.PortParams, results=(wire_porting.ImportResult,), is_long=True),
    "palace/models": Method(params=wire_models.ModelsParams, results=(ModelsResult,)),
    "palace/pause": Method(params=NoParams, results=(wire_models.PauseResult,)),
    "palace/resume": Method(params=NoParams, results=(wire_models.PauseResult,)),
    "palace/subscribe": Method(params=wire_session.SubscribeParams, results=(wire_session.SubscribeResult,)),
    "palace/stop": Method(params=NoParams, results=(StopResult,)),
}

NOTIFICATIONS: dict[str, type[Result]] = {
    wire_session.DID_MINE: MineResult,
    wire_session.DID_CHANGE_STATUS: StatusResult,
}
"""Sent to clients that subscribed to them, and to no others."""


def to_builtins(value: Any) -> Any:
    """Return ``value`` as dicts, lists, strings and numbers, with wire keys."""
    return msgspec.to_builtins(value)
