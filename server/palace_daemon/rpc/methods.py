"""Answers one request from a Palace: JSON value in, wire result out. Knows no connection and no pygls.

The daemon's sessions and the command line without a daemon both come through here, so they answer alike.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import UnsetType

from palace_daemon.core.ports import StopSignal
from palace_daemon.rpc import convert, wire, wire_models, wire_notes, wire_porting, wire_recall
from palace_daemon.rpc.errors import BadParamsError
from palace_daemon.service.api import Palace, ProgressListener


def local_offset_minutes(now_ms: int) -> int:
    """Return the offset of this machine's zone from UTC at ``now_ms``."""
    offset = dt.datetime.fromtimestamp(now_ms / 1000).astimezone().utcoffset()
    return int((offset or dt.timedelta()).total_seconds() // 60)


@dataclass(frozen=True, slots=True)
class Clock:
    """The caller's clock where the caller names none: the daemon's own."""

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    offset_minutes: Callable[[int], int] = local_offset_minutes


@dataclass(frozen=True, slots=True)
class Call:
    """One request in progress.

    Attributes:
        palace: What answers.
        default_limit: Hits of a recall that names no limit.
        clock: Used where the request carries no ``now``.
        stop: Set when the caller withdrew.
        on_progress: Called from the working thread.
    """

    palace: Palace
    default_limit: int
    clock: Clock = Clock()
    stop: StopSignal | None = None
    on_progress: ProgressListener | None = None


def answer(call: Call, method: str, params: wire.Params) -> wire.Result:
    """Return the result of ``method``; blocks, so call it from a worker thread.

    Args:
        call: What answers, and who may stop it.
        method: A key of :data:`palace_daemon.rpc.wire.METHODS` other than ``palace/stop``.
        params: Of that method's type.

    Raises:
        PalaceError: As the methods of :class:`~palace_daemon.service.api.Palace` do.
        BadParamsError: A value cannot be used as it is.
    """
    return _ANSWERS[method](call, params)


def _recall(call: Call, params: wire_recall.RecallParams) -> wire.Result:
    now = call.clock.now_ms()
    query = convert.recall_query(
        params, limit=call.default_limit, clock_ms=now, local_offset_minutes=call.clock.offset_minutes(now)
    )
    return convert.recall_to_wire(call.palace.recall(query, call.stop))


def _get(call: Call, params: wire.GetParams) -> wire.Result:
    return convert.exchange_to_wire(call.palace.get(params.id, neighbours=params.neighbours))


def _sessions(call: Call, params: wire.SessionsParams) -> wire.Result:
    if params.session_id:
        views = call.palace.timeline(params.session_id)
        return wire.TimelineResult(
            session_id=params.session_id, exchanges=tuple(convert.exchange_to_wire(view) for view in views)
        )
    offset = call.clock.offset_minutes(call.clock.now_ms())
    rows = call.palace.sessions(
        agent=params.agent,
        project=params.project,
        since=convert.time_from_wire(params.since, "since", offset),
        limit=params.limit,
        offset=params.offset,
    )
    return wire.SessionsResult(sessions=tuple(convert.session_to_wire(row) for row in rows))


def _projects(call: Call, params: wire.ProjectsParams) -> wire.Result:
    rows = call.palace.projects(limit=params.limit, offset=params.offset)
    return wire.ProjectsResult(projects=tuple(convert.project_to_wire(row) for row in rows))


def _sources(call: Call, params: wire.SourcesParams) -> wire.Result:
    rows = call.palace.sources(agent=params.agent, state=params.state)
    return wire.SourcesResult(sources=tuple(convert.source_to_wire(row) for row in rows))


def _status(call: Call, _params: wire.NoParams) -> wire.Result:
    return convert.status_to_wire(call.palace.status())


def _mine(call: Call, params: wire.MineParams) -> wire.Result:
    for number, path in enumerate(params.paths):
        _absolute(path, f"$.paths[{number}]")
    report = call.palace.mine(
        params.paths,
        wait=params.wait,
        newest=None if isinstance(params.newest, UnsetType) else params.newest,
        on_progress=call.on_progress,
        stop=call.stop,
    )
    return convert.mine_to_wire(report)


def _forget(call: Call, params: wire.ForgetParams) -> wire.Result:
    now = call.clock.now_ms()
    request = convert.forget_request(params, clock_ms=now, local_offset_minutes=call.clock.offset_minutes(now))
    return convert.forget_to_wire(call.palace.forget(request, dry_run=params.dry_run, stop=call.stop))


def _remember(call: Call, params: wire_notes.RememberParams) -> wire.Result:
    view, is_new = call.palace.remember(
        params.text, project=params.project, tags=params.tags, author=params.author, now=_now(call, params.now)
    )
    return convert.remembered_to_wire(view, is_new=is_new)


def _notes(call: Call, params: wire_notes.NotesParams) -> wire.Result:
    if params.action == "list":
        views = call.palace.notes(
            project=params.project,
            tags=params.tags,
            include_superseded=params.all,
            limit=params.limit,
            offset=params.offset,
        )
        return wire_notes.NotesResult(notes=tuple(convert.note_to_wire(view) for view in views))
    for name, value in (("id", params.id), ("text", params.text)):
        if not value.strip():
            raise BadParamsError(f"Expected a value, to {params.action} a note - at `$.{name}`", path=f"$.{name}")
    now = _now(call, params.now)
    if params.action == "edit":
        return convert.remembered_to_wire(call.palace.edit_note(params.id, params.text, now=now), is_new=False)
    view, is_new = call.palace.supersede_note(params.id, params.text, now=now)
    return convert.remembered_to_wire(view, is_new=is_new)


def _now(call: Call, told: wire.WireTime | UnsetType) -> int:
    return call.clock.now_ms() if isinstance(told, UnsetType) else convert.now_from_wire(told)[0]


def _export(call: Call, params: wire_porting.PortParams) -> wire.Result:
    path = _absolute(params.path, "$.path")
    return convert.export_to_wire(call.palace.export(path, on_progress=call.on_progress, stop=call.stop))


def _import(call: Call, params: wire_porting.PortParams) -> wire.Result:
    path = _absolute(params.path, "$.path")
    return convert.import_to_wire(call.palace.import_file(path, on_progress=call.on_progress, stop=call.stop))


def _absolute(path: str, at: str) -> str:
    if "\0" in path or not Path(path).is_absolute():
        raise BadParamsError(f"Expected an absolute path - at `{at}`", path=at)
    return path


def _models(call: Call, params: wire_models.ModelsParams) -> wire.Result:
    if not isinstance(params.use, UnsetType):
        call.palace.use_model(params.use)
    views = call.palace.models()
    return wire.ModelsResult(
        models=tuple(convert.model_to_wire(view) for view in views),
        embedding=convert.embedding_to_wire(call.palace.embedding()),
    )


def _pause(call: Call, _params: wire.NoParams) -> wire.Result:
    call.palace.pause()
    return wire_models.PauseResult(is_paused=True)


def _resume(call: Call, _params: wire.NoParams) -> wire.Result:
    call.palace.resume()
    return wire_models.PauseResult(is_paused=False)


_ANSWERS: dict[str, Callable[[Call, Any], wire.Result]] = {
    "palace/recall": _recall,
    "palace/get": _get,
    "palace/sessions": _sessions,
    "palace/projects": _projects,
    "palace/sources": _sources,
    "palace/status": _status,
    "palace/mine": _mine,
    "palace/forget": _forget,
    "palace/remember": _remember,
    "palace/notes": _notes,
    "palace/export": _export,
    "palace/import": _import,
    "palace/models": _models,
    "palace/pause": _pause,
    "palace/resume": _resume,
}
